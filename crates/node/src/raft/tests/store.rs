//! A log and a state machine in memory: what is decided is a list of numbers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use openraft::impls::leader_id_std::LeaderId;
use openraft::storage::{
    EntryResponder, IOFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot, SnapshotMeta,
};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::{
    EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf,
};
use openraft::{
    AsyncRuntime, EmptyNode, EntryPayload, OptionalSend, RaftLogReader, RaftSnapshotBuilder,
};
use rand_core::Rng;

use super::super::ShardRuntime;

openraft::declare_raft_types!(
    /// Raft over numbers. The answer to a write is how many numbers there are with it.
    pub(super) Numbers:
        D = u64,
        R = u64,
        Node = EmptyNode,
        LeaderId = LeaderId<u64, u64>,
        AsyncRuntime = ShardRuntime,
);

/// How long the drive takes at most, in microseconds.
const WRITE: u64 = 2_000;

/// A log whose writes take a moment. Clones are the same log.
#[derive(Clone, Default)]
pub(super) struct Log {
    state: Rc<RefCell<LogContent>>,
}

#[derive(Default)]
struct LogContent {
    vote: Option<VoteOf<Numbers>>,
    purged: Option<LogIdOf<Numbers>>,
    entries: BTreeMap<u64, EntryOf<Numbers>>,
    fails: bool,
}

impl Log {
    /// From now on every append fails.
    pub(super) fn fail(&self) {
        self.state.borrow_mut().fails = true;
    }

    /// The drive's time for one write.
    async fn write() {
        let micros = ShardRuntime::thread_rng().next_u64() % WRITE;
        ShardRuntime::sleep(Duration::from_micros(micros)).await;
    }
}

impl RaftLogReader<Numbers> for Log {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<EntryOf<Numbers>>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let state = self.state.borrow();
        Ok(state.entries.range(range).map(|(_, e)| e.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Numbers>>> {
        Ok(self.state.borrow().vote)
    }
}

impl RaftLogStorage<Numbers> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> io::Result<LogState<Numbers>> {
        let state = self.state.borrow();
        let last = state.entries.last_key_value().map(|(_, e)| e.log_id);
        Ok(LogState {
            last_purged_log_id: state.purged,
            last_log_id: last.or(state.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Numbers>) -> io::Result<()> {
        Log::write().await;
        self.state.borrow_mut().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Numbers>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Numbers>>,
    {
        let state = &mut *self.state.borrow_mut();
        if state.fails {
            return Err(io::Error::other("the drive fails"));
        }
        let entries = entries.into_iter().map(|e| (e.log_id.index, e));
        state.entries.extend(entries);
        // Readable at once, on the drive later, as openraft allows.
        let writing = Numbers::spawn(async move {
            Log::write().await;
            callback.io_completed(Ok(()));
        });
        drop(writing);
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Numbers>>) -> io::Result<()> {
        let end = last.map_or(0, |last| last.index + 1);
        self.state.borrow_mut().entries.split_off(&end);
        Ok(())
    }

    async fn purge(&mut self, upto: LogIdOf<Numbers>) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        state.purged = Some(upto);
        state.entries = state.entries.split_off(&(upto.index + 1));
        Ok(())
    }
}

/// The numbers that were decided. Clones are the same list.
#[derive(Clone, Default)]
pub(super) struct List {
    state: Rc<RefCell<ListContent>>,
}

#[derive(Clone, Default)]
struct ListContent {
    last: Option<LogIdOf<Numbers>>,
    membership: StoredMembershipOf<Numbers>,
    numbers: Vec<u64>,
    snapshot: Option<SnapshotOf<Numbers, Vec<u64>>>,
    /// How many snapshots came from others.
    installed: usize,
}

impl List {
    /// All numbers, in the order in which they were applied.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.state.borrow().numbers.clone()
    }

    /// How many snapshots this member got from a leader.
    pub(super) fn installed(&self) -> usize {
        self.state.borrow().installed
    }
}

impl RaftSnapshotBuilder<Numbers> for List {
    type SnapshotData = Vec<u64>;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Numbers, Vec<u64>>> {
        let state = &mut *self.state.borrow_mut();
        let snapshot = Snapshot {
            meta: SnapshotMeta {
                last_log_id: state.last,
                last_membership: state.membership.clone(),
            },
            snapshot: state.numbers.clone(),
        };
        state.snapshot = Some(snapshot.clone());
        Ok(snapshot)
    }
}

impl RaftStateMachine<Numbers> for List {
    type SnapshotData = Vec<u64>;
    type SnapshotBuilder = List;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<Numbers>>, StoredMembershipOf<Numbers>)> {
        let state = self.state.borrow();
        Ok((state.last, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Numbers>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let count = {
                let state = &mut *self.state.borrow_mut();
                state.last = Some(entry.log_id);
                match entry.payload {
                    EntryPayload::Blank => {}
                    EntryPayload::Normal(number) => state.numbers.push(number),
                    EntryPayload::Membership(membership) => {
                        state.membership = StoredMembershipOf::<Numbers>::new(
                            Some(entry.log_id),
                            membership.clone(),
                        );
                    }
                }
                state.numbers.len() as u64
            };
            if let Some(responder) = responder {
                responder.send(count);
            }
        }
        Ok(())
    }

    /// The list itself: a snapshot is made at once, so what is in it and what it says agree.
    async fn get_snapshot_builder(&mut self) -> List {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Numbers>,
        snapshot: Vec<u64>,
    ) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        state.last = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        state.numbers = snapshot.clone();
        state.snapshot = Some(Snapshot {
            meta: meta.clone(),
            snapshot,
        });
        state.installed += 1;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Numbers, Vec<u64>>>> {
        Ok(self.state.borrow().snapshot.clone())
    }
}
