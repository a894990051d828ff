//! A replica: an acceptor with a drive, that loses at a crash what is not on it.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::paxos::{
    Acceptor, Answer, Ballot, Columns, Kept, Lifetime, Permission, Prepared, Proposal, Request,
    RequestId, Row, Update, Write,
};
use sim::Random;

use crate::conditions::Fault;

/// How many columns the partition has. Updates change one on condition of another, so that a state
/// that misses one of them is seen.
pub(crate) const COLUMNS: usize = 3;

/// Values of the columns.
pub(crate) type State = [u16; COLUMNS];

/// A value and its timestamp; the later one wins.
pub(crate) type Cell = (i64, u16);

/// What a replica reads.
pub(crate) type Cells = [Cell; COLUMNS];

/// One column gets one value.
pub(crate) fn update(timestamp: i64, column: usize, value: u16) -> Update {
    let [high, low] = value.to_be_bytes();
    Update {
        timestamp,
        version: 1,
        bytes: Bytes::copy_from_slice(&[column as u8, high, low]),
    }
}

fn apply(update: &Update, cells: &mut Cells) {
    let [column, high, low] = update.bytes[..] else {
        panic!("{update:?} is none of ours");
    };
    let cell = &mut cells[usize::from(column)];
    *cell = (*cell).max((update.timestamp, u16::from_be_bytes([high, low])));
}

/// What survives.
#[derive(Default)]
struct Drive {
    cells: Cells,
    write_promise: Option<(i64, Ballot)>,
    read_promise: Option<(i64, Ballot)>,
    /// Without a value: deleted.
    proposal: Option<(i64, Option<Kept>)>,
    commit: Option<(i64, Kept)>,
}

impl Drive {
    /// As a store keeps cells: the later timestamp wins, and of the same the deletion.
    fn write(&mut self, write: &Write) {
        let at = write.timestamp;
        let kept = |proposal: &Proposal| Kept {
            proposal: proposal.clone(),
            expires: Some(write.expires),
        };
        fn later<T>(cell: &Option<(i64, T)>, at: i64) -> bool {
            cell.as_ref().is_none_or(|(was, _)| at > *was)
        }
        match &write.columns {
            Columns::WritePromise(ballot) if later(&self.write_promise, at) => {
                self.write_promise = Some((at, *ballot));
            }
            Columns::ReadPromise(ballot) if later(&self.read_promise, at) => {
                self.read_promise = Some((at, *ballot));
            }
            Columns::Accepted(proposal) if later(&self.proposal, at) => {
                self.proposal = Some((at, Some(kept(proposal))));
            }
            Columns::Committed(proposal) => {
                if self.proposal.as_ref().is_none_or(|(was, _)| at >= *was) {
                    self.proposal = Some((at, None));
                }
                if later(&self.commit, at) {
                    self.commit = Some((at, kept(proposal)));
                }
                proposal
                    .update
                    .iter()
                    .for_each(|update| apply(update, &mut self.cells));
            }
            _ => {}
        }
    }

    fn row(&self) -> Row {
        Row {
            in_progress_ballot: self.write_promise.map(|(_, ballot)| ballot),
            in_progress_read_ballot: self.read_promise.map(|(_, ballot)| ballot),
            proposal: self.proposal.clone().and_then(|(_, kept)| kept),
            most_recent_commit: self.commit.clone().map(|(_, kept)| kept),
        }
    }
}

/// What an answer waits for.
pub(crate) enum Waits {
    /// A write, and then: this.
    Drive(Next),
    /// Data to be read.
    Read,
    /// Writes that were answered before.
    Late,
}

/// What a write that is on the drive was for.
pub(crate) enum Next {
    /// The prepare that a commit went ahead of.
    Prepare,
    /// What was read is answered with, if it has been read.
    Promised,
    /// To say that a promise still holds.
    Confirm,
    /// Just an answer.
    Answer(Box<Answer<Cells>>),
}

/// A request that is worked on.
struct Task {
    operation: usize,
    request: Request,
    write: Option<Write>,
    permission: Option<Permission>,
    read: Option<Cells>,
    reading: bool,
}

/// An answer that leaves.
pub(crate) struct Reply {
    pub(crate) operation: usize,
    pub(crate) id: RequestId,
    pub(crate) answer: Answer<Cells>,
}

/// What comes of an event at a replica: an answer, or events to come.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) reply: Option<Reply>,
    pub(crate) waits: Vec<(u64, Waits)>,
}

pub(crate) struct Replica {
    drive: Drive,
    acceptor: Acceptor,
    tasks: BTreeMap<u64, Task>,
    next_task: u64,
    /// What was answered and is not on the drive.
    late: Vec<Write>,
    /// Counts the crashes: what was to happen in an earlier life does not.
    pub(crate) life: u32,
    pub(crate) up: bool,
    fault: Fault,
}

impl Replica {
    pub(crate) fn new(fault: Fault) -> Replica {
        Replica {
            drive: Drive::default(),
            acceptor: Acceptor::load(Row::default()),
            tasks: BTreeMap::new(),
            next_task: 0,
            late: Vec::new(),
            life: 0,
            up: true,
            fault,
        }
    }

    /// Of what is not on the drive yet, chance decides.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let tasks = std::mem::take(&mut self.tasks).into_values();
        let unwritten = tasks.filter_map(|task| task.write);
        for write in unwritten.chain(std::mem::take(&mut self.late)) {
            if random.chance(50) {
                self.drive.write(&write);
            }
        }
        self.life += 1;
        self.up = false;
    }

    pub(crate) fn restart(&mut self) {
        let mut row = self.drive.row();
        if self.fault == Fault::ForgetsPromises {
            row.in_progress_ballot = None;
            row.in_progress_read_ballot = None;
        }
        self.acceptor = Acceptor::load(row);
        self.up = true;
    }

    /// A hint arrives: an ordinary write.
    pub(crate) fn apply(&mut self, commit: &Proposal) {
        if let Some(update) = &commit.update {
            apply(update, &mut self.drive.cells);
        }
    }

    /// A request arrives.
    pub(crate) fn receive(&mut self, operation: usize, request: Request, now: i64) -> Effects {
        let task = self.next_task;
        self.next_task += 1;
        let commit = match &request {
            Request::Prepare { commit, .. } => commit.clone(),
            Request::Refresh { commit, .. } => Some(commit.clone()),
            Request::Commit(commit) => Some(commit.clone()),
            Request::Propose(_) | Request::Apply(_) => None,
        };
        self.tasks.insert(
            task,
            Task {
                operation,
                request: request.clone(),
                write: None,
                permission: None,
                read: None,
                reading: false,
            },
        );
        if let Some(commit) = commit {
            return self.commit(task, &commit, now);
        }
        match request {
            Request::Propose(proposal) => {
                let transition = self.acceptor.propose(proposal, lifetime(now));
                let next = Next::Answer(Box::new(Answer::Voted(transition.answer)));
                self.write(task, transition.write, next, now)
            }
            Request::Apply(proposal) => {
                self.apply(&proposal);
                self.next(task, Next::Answer(Box::new(Answer::Committed)), now)
            }
            _ => self.next(task, Next::Prepare, now),
        }
    }

    fn commit(&mut self, task: u64, commit: &Proposal, now: i64) -> Effects {
        let write = self.acceptor.commit(commit, lifetime(now));
        if self.fault == Fault::NotesCommitsEarly {
            self.acceptor.committed(commit.clone(), lifetime(now));
        }
        let next = match &self.tasks[&task].request {
            Request::Prepare { .. } => Next::Prepare,
            Request::Refresh { .. } => Next::Confirm,
            _ => Next::Answer(Box::new(Answer::Committed)),
        };
        self.write(task, write, next, now)
    }

    /// Writes, if there is something, and goes on when that is on the drive.
    fn write(&mut self, task: u64, write: Option<Write>, next: Next, now: i64) -> Effects {
        let Some(write) = write else {
            return self.next(task, next, now);
        };
        if self.fault == Fault::AnswersEarly && matches!(next, Next::Answer(_)) {
            self.late.push(write);
            let mut effects = self.next(task, next, now);
            effects.waits.push((task, Waits::Late));
            return effects;
        }
        self.task(task).write = Some(write);
        Effects {
            reply: None,
            waits: vec![(task, Waits::Drive(next))],
        }
    }

    /// What was waited for has come.
    pub(crate) fn resume(&mut self, task: u64, waits: Waits, now: i64) -> Effects {
        match waits {
            Waits::Drive(next) => {
                let write = self.task(task).write.take();
                self.written(write.expect("it was waited for"), now);
                self.next(task, next, now)
            }
            Waits::Late => {
                for write in std::mem::take(&mut self.late) {
                    self.written(write, now);
                }
                Effects::default()
            }
            Waits::Read => {
                let cells = self.drive.cells;
                let reading = self.task(task);
                reading.read = Some(cells);
                reading.reading = false;
                match reading.write {
                    Some(_) => Effects::default(),
                    None => self.next(task, Next::Promised, now),
                }
            }
        }
    }

    fn written(&mut self, write: Write, now: i64) {
        self.drive.write(&write);
        if let Columns::Committed(proposal) = write.columns {
            self.acceptor.committed(proposal, lifetime(now));
        }
    }

    fn next(&mut self, task: u64, next: Next, now: i64) -> Effects {
        match next {
            Next::Prepare => self.prepare(task, now),
            Next::Promised if self.tasks[&task].reading => Effects::default(),
            Next::Promised => {
                let Task {
                    permission, read, ..
                } = self.task(task);
                let (permission, read) = (permission.take(), *read);
                let permission = permission.expect("it was given");
                let answer = self.acceptor.answer(permission, read);
                self.reply(task, answer)
            }
            Next::Confirm => {
                let ballot = self.tasks[&task].request.id().ballot;
                let answer = Answer::Refreshed(self.acceptor.confirm(ballot));
                self.reply(task, answer)
            }
            Next::Answer(answer) => self.reply(task, *answer),
        }
    }

    fn prepare(&mut self, task: u64, now: i64) -> Effects {
        let Request::Prepare {
            ballot,
            for_write,
            read,
            ..
        } = self.tasks[&task].request
        else {
            panic!("only that is prepared");
        };
        let transition = self.acceptor.prepare(ballot, for_write, lifetime(now));
        let permission = match transition.answer {
            Prepared::Rejected(by) => return self.reply(task, Answer::Rejected(by)),
            Prepared::Permitted(permission) => permission,
        };
        let prepared = self.task(task);
        prepared.permission = Some(permission);
        prepared.reading = read;
        let mut effects = self.write(task, transition.write, Next::Promised, now);
        if read {
            effects.waits.push((task, Waits::Read));
        }
        effects
    }

    fn reply(&mut self, task: u64, answer: Answer<Cells>) -> Effects {
        let task = self.tasks.remove(&task).expect("it is answered once");
        let reply = Reply {
            operation: task.operation,
            id: task.request.id(),
            answer: self.falsify(&task.request, answer),
        };
        Effects {
            reply: Some(reply),
            waits: Vec::new(),
        }
    }

    fn falsify(&self, request: &Request, mut answer: Answer<Cells>) -> Answer<Cells> {
        let Request::Prepare { for_write, .. } = request else {
            return answer;
        };
        if let Answer::Permitted(permitted) = &mut answer {
            match self.fault {
                Fault::HidesAcceptedFromUpdates if *for_write => permitted.accepted = None,
                Fault::HidesAcceptedFromReads if !for_write => {
                    permitted.accepted = None;
                    permitted.stable = true;
                }
                Fault::SaysStable => permitted.stable = true,
                Fault::HidesEmpty => {
                    permitted
                        .accepted
                        .take_if(|accepted| accepted.update.is_none());
                }
                _ => {}
            }
        }
        answer
    }

    fn task(&mut self, task: u64) -> &mut Task {
        self.tasks.get_mut(&task).expect("it is worked on")
    }
}

fn lifetime(now: i64) -> Lifetime {
    Lifetime::new(now, 0)
}
