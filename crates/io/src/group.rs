//! Groups of tasks and their shares of a shard's time.
//!
//! Every group has a queue and a virtual run time: the time its tasks ran, divided by the group's
//! shares. The next task always comes from the non-empty queue with the least virtual run time
//! (start-time fair queueing, as in Linux's CFS and Seastar's scheduling groups). A group that had
//! nothing to do enters at the level of the others, so it cannot save up time while it sleeps.
//!
//! Who may use the drive goes by group as well: see `drive`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::env::TIME_SLICE;

/// What a task works for, and so how much of the shard's time it gets when there is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskGroup {
    /// Requests of clients and whatever they wait for.
    Foreground,
    /// Writing memtables out, which keeps memory free for writes.
    Flush,
    /// Compaction.
    Compaction,
    /// Everything that has time: statistics, clean-up, scans for repair.
    Maintenance,
}

impl TaskGroup {
    /// All groups.
    pub const ALL: [TaskGroup; 4] = [
        TaskGroup::Foreground,
        TaskGroup::Flush,
        TaskGroup::Compaction,
        TaskGroup::Maintenance,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            TaskGroup::Foreground => "foreground",
            TaskGroup::Flush => "flush",
            TaskGroup::Compaction => "compaction",
            TaskGroup::Maintenance => "maintenance",
        }
    }

    /// Its part of the time when all groups have work, relative to those of the others, unless
    /// [`Env::set_shares`](crate::Env::set_shares) changed it.
    pub fn shares(self) -> u64 {
        match self {
            TaskGroup::Foreground => 1000,
            TaskGroup::Flush => 400,
            TaskGroup::Compaction => 200,
            TaskGroup::Maintenance => 100,
        }
    }

    /// How long one of its tasks may run before it gives way.
    pub(crate) fn time_slice(self) -> Duration {
        match self {
            TaskGroup::Foreground => TIME_SLICE,
            // A request that comes meanwhile waits for the rest of it, and a few dozen clients that each wait for an answer
            // leave a shard so often that it is as if they had the smaller share.
            TaskGroup::Flush | TaskGroup::Compaction | TaskGroup::Maintenance => TIME_SLICE / 10,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// What a group did since its shard started.
#[derive(Clone, Copy, Debug)]
pub struct GroupStats {
    /// Which group.
    pub group: TaskGroup,
    /// How long its tasks ran.
    pub run_time: Duration,
    /// How often one of its tasks was run.
    pub polls: u64,
    /// How many of its tasks are ready to run and wait for their turn.
    pub queued: usize,
    /// How many of its tasks there are.
    pub tasks: usize,
}

/// The queues of a shard's groups. `T` is a task that is ready to run.
pub(crate) struct GroupQueues<T> {
    groups: [Group<T>; TaskGroup::ALL.len()],
    /// Tasks of the foreground that run at the end of a turn.
    last: VecDeque<T>,
    queued: usize,
    /// The virtual run time of the task that was taken last.
    floor: u64,
}

struct Group<T> {
    queue: VecDeque<T>,
    shares: u64,
    virtual_time: u64,
    run_nanos: u64,
    polls: u64,
    tasks: usize,
}

impl<T> GroupQueues<T> {
    pub(crate) fn new() -> GroupQueues<T> {
        GroupQueues {
            groups: std::array::from_fn(|at| Group {
                queue: VecDeque::new(),
                shares: TaskGroup::ALL[at].shares(),
                virtual_time: 0,
                run_nanos: 0,
                polls: 0,
                tasks: 0,
            }),
            last: VecDeque::new(),
            queued: 0,
            floor: 0,
        }
    }

    /// How many tasks are ready, those that run at the end of a turn among them.
    pub(crate) fn len(&self) -> usize {
        self.queued + self.last.len()
    }

    pub(crate) fn push(&mut self, group: TaskGroup, task: T) {
        let group = &mut self.groups[group.index()];
        if group.queue.is_empty() {
            group.virtual_time = group.virtual_time.max(self.floor);
        }
        group.queue.push_back(task);
        self.queued += 1;
    }

    /// The task whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<(TaskGroup, T)> {
        if self.queued == 0 {
            return None;
        }
        let next = TaskGroup::ALL
            .into_iter()
            .filter(|group| !self.groups[group.index()].queue.is_empty())
            .min_by_key(|group| self.groups[group.index()].virtual_time)?;
        let group = &mut self.groups[next.index()];
        let task = group.queue.pop_front()?;
        self.queued -= 1;
        self.floor = self.floor.max(group.virtual_time);
        Some((next, task))
    }

    /// A task of the foreground is to run at the end of this turn.
    pub(crate) fn push_last(&mut self, task: T) {
        self.last.push_back(task);
    }

    /// The next one to run at the end of this turn.
    pub(crate) fn pop_last(&mut self) -> Option<T> {
        self.last.pop_front()
    }

    /// How many are to run at the end of this turn.
    pub(crate) fn last_len(&self) -> usize {
        self.last.len()
    }

    /// A task of `group` ran for `nanos` nanoseconds.
    pub(crate) fn charge(&mut self, group: TaskGroup, nanos: u64) {
        let group = &mut self.groups[group.index()];
        group.polls += 1;
        group.run_nanos += nanos;
        // The most shares that a group has, so that its virtual time is its run time.
        let most = TaskGroup::Foreground.shares();
        group.virtual_time += nanos.max(1) * most / group.shares;
    }

    pub(crate) fn shares(&self, group: TaskGroup) -> u64 {
        self.groups[group.index()].shares
    }

    /// From now on `group` has this many shares, at least one.
    pub(crate) fn set_shares(&mut self, group: TaskGroup, shares: u64) {
        self.groups[group.index()].shares = shares.max(1);
    }

    pub(crate) fn task_begins(&mut self, group: TaskGroup) {
        self.groups[group.index()].tasks += 1;
    }

    pub(crate) fn task_ends(&mut self, group: TaskGroup) {
        self.groups[group.index()].tasks -= 1;
    }

    pub(crate) fn stats(&self) -> Vec<GroupStats> {
        TaskGroup::ALL
            .into_iter()
            .map(|name| {
                let group = &self.groups[name.index()];
                GroupStats {
                    group: name,
                    run_time: Duration::from_nanos(group.run_nanos),
                    polls: group.polls,
                    queued: match name {
                        TaskGroup::Foreground => group.queue.len() + self.last.len(),
                        _ => group.queue.len(),
                    },
                    tasks: group.tasks,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(queues: &mut GroupQueues<()>, turns: usize) -> [u64; 4] {
        let mut ran = [0; 4];
        for _ in 0..turns {
            let (group, ()) = queues.pop().expect("all groups always have work");
            ran[group.index()] += 1;
            queues.charge(group, 1000);
            queues.push(group, ());
        }
        ran
    }

    #[test]
    fn groups_get_time_by_their_shares() {
        let mut queues = GroupQueues::new();
        for group in TaskGroup::ALL {
            queues.push(group, ());
        }
        assert_eq!(run(&mut queues, 1700), [1000, 400, 200, 100]);
    }

    #[test]
    fn shares_can_be_changed() {
        let mut queues = GroupQueues::new();
        queues.push(TaskGroup::Foreground, ());
        queues.push(TaskGroup::Compaction, ());
        queues.set_shares(TaskGroup::Compaction, 50);
        assert_eq!(run(&mut queues, 1050), [1000, 0, 50, 0]);
        queues.set_shares(TaskGroup::Compaction, 1000);
        let ran = run(&mut queues, 1000);
        assert!(ran[0].abs_diff(ran[2]) <= 2, "{ran:?}");
    }

    #[test]
    fn what_runs_last_is_asked_for_by_itself() {
        let mut queues = GroupQueues::new();
        queues.push_last(1);
        queues.push(TaskGroup::Foreground, 2);
        queues.push_last(3);
        assert_eq!((queues.len(), queues.last_len()), (3, 2));
        assert_eq!(queues.stats()[TaskGroup::Foreground.index()].queued, 3);
        assert_eq!(queues.pop(), Some((TaskGroup::Foreground, 2)));
        assert_eq!(queues.pop(), None);
        let last: Vec<_> = std::iter::from_fn(|| queues.pop_last()).collect();
        assert_eq!(last, [1, 3]);
    }

    #[test]
    fn a_group_does_not_save_up_time_while_it_sleeps() {
        let mut queues = GroupQueues::new();
        queues.push(TaskGroup::Foreground, ());
        run(&mut queues, 10_000);
        queues.push(TaskGroup::Compaction, ());
        let ran = run(&mut queues, 60);
        assert!(ran[TaskGroup::Compaction.index()] <= 11, "{ran:?}");
    }
}
