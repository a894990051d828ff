//! The replica's side of Paxos: what it promises, accepts and commits (`PaxosState`).
//!
//! The decisions are those of [`cluster::paxos::Acceptor`]; here its state is kept in `system.paxos`, on
//! the shard that owns the partition. What is begun for a request is done to its end, whether anybody waits
//! for it or not: an acceptor must know what it has given to be written.

mod message;
mod update;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use cluster::FailureReason;
use cluster::paxos::{
    Acceptor, Answer, Kept, Lifetime, Prepared, Proposal, Request, Row, Update, Write,
};
use hashbrown::HashMap;
use io::{Semaphore, TaskGroup};
use model::{DecoratedKey, Mutation, PartitionUpdate, ReadCommand, Table, TableId, VersionPage};
use storage::{ReadError, WriteError, decode_partition_update};

use crate::coordinator::read_failure;
use crate::message::{ShardReply, ShardRequest};
use crate::remote::Refusal;
use crate::shard::Shard;
use crate::system::{SavedProposal, paxos_read, paxos_update, saved_paxos};
use crate::views;
pub(crate) use message::{answer_for, ask_other};
pub(crate) use update::encode as encode_update;

/// A request to the replica of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) table: Arc<Table>,
    pub(crate) key: DecoratedKey,
    pub(crate) request: Request,
    /// What is read, if it prepares and reads.
    pub(crate) read: Option<ReadCommand>,
}

/// The acceptors that are in use, by table and key.
#[derive(Default)]
pub(crate) struct Acceptors(RefCell<HashMap<(TableId, Bytes), Rc<Slot>>>);

impl Acceptors {
    /// Is none in use?
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// One of them.
struct Slot {
    /// `None` until it is loaded.
    acceptor: RefCell<Option<Acceptor>>,
    /// Held while it is loaded.
    loading: Semaphore,
}

/// An acceptor, for as long as a request is worked on.
struct InUse<'s> {
    shard: &'s Rc<Shard>,
    ask: &'s Ask,
    paxos: Arc<Table>,
    slot: Rc<Slot>,
}

/// Answers on this node, whichever of its shards this is.
pub(crate) async fn answer_here(
    shard: &Rc<Shard>,
    ask: Ask,
) -> Result<Answer<VersionPage>, Refusal> {
    let owner = shard.owner(ask.key.token());
    if owner == shard.index() {
        let of_task = shard.clone();
        let answering = async move { answer(&of_task, ask).await };
        return shard.env.spawn(TaskGroup::Foreground, answering).await;
    }
    match shard.ask(owner, ShardRequest::Paxos(Box::new(ask))).await {
        Ok(ShardReply::Paxos(answer)) => *answer,
        _ => Err(Refusal::Failed(FailureReason::NodeDown)),
    }
}

/// Answers, on the shard that owns the partition. Not to be given up in between.
pub(crate) async fn answer(shard: &Rc<Shard>, ask: Ask) -> Result<Answer<VersionPage>, Refusal> {
    let acceptor = InUse::new(shard, &ask)?;
    // What is an ordinary write here has no need of what is kept.
    if !matches!(ask.request, Request::Apply(_)) {
        acceptor.load().await?;
    }
    match &ask.request {
        Request::Prepare { commit, .. } => {
            if let Some(commit) = commit {
                acceptor.commit(commit).await?;
            }
            acceptor.prepare(shard).await
        }
        Request::Refresh { ballot, commit } => {
            acceptor.commit(commit).await?;
            let overtaken = acceptor.with(|acceptor| acceptor.confirm(*ballot));
            Ok(Answer::Refreshed(overtaken))
        }
        Request::Propose(proposal) => {
            let lifetime = acceptor.lifetime();
            let transition = acceptor.with(|acceptor| acceptor.propose(proposal.clone(), lifetime));
            if let Some(write) = &transition.write {
                acceptor.write(write).await?;
            }
            Ok(Answer::Voted(transition.answer))
        }
        Request::Commit(proposal) => {
            acceptor.commit(proposal).await?;
            Ok(Answer::Committed)
        }
        Request::Apply(proposal) => {
            if let Some(update) = acceptor.update_of(proposal)? {
                acceptor.apply(vec![update]).await?;
            }
            Ok(Answer::Committed)
        }
    }
}

impl<'s> InUse<'s> {
    fn new(shard: &'s Rc<Shard>, ask: &'s Ask) -> Result<InUse<'s>, Refusal> {
        let paxos = shard.metadata().schema.table("system", "paxos").cloned();
        let paxos = paxos.ok_or(Refusal::Failed(FailureReason::IncompatibleSchema))?;
        let key = (ask.table.id, ask.key.key().clone());
        let slot = {
            let mut acceptors = shard.acceptors.0.borrow_mut();
            let new = || {
                Rc::new(Slot {
                    acceptor: RefCell::default(),
                    loading: Semaphore::new(1),
                })
            };
            acceptors.entry(key).or_insert_with(new).clone()
        };
        Ok(InUse {
            shard,
            ask,
            paxos,
            slot,
        })
    }

    async fn load(&self) -> Result<(), Refusal> {
        let _loading = self.slot.loading.acquire(1).await;
        if self.slot.acceptor.borrow().is_some() {
            return Ok(());
        }
        let command = paxos_read(&self.paxos, &self.ask.key, self.ask.table.id);
        let page = self.shard.store.read(&command).await;
        let page = page.map_err(|error| unread(&command, &error))?;
        let saved = saved_paxos(&self.paxos, &page);
        let row = Row {
            in_progress_ballot: saved.in_progress_ballot,
            in_progress_read_ballot: saved.in_progress_read_ballot,
            proposal: saved.proposal.map(|saved| self.kept(saved)).transpose()?,
            most_recent_commit: {
                let commit = saved.most_recent_commit;
                commit.map(|saved| self.kept(saved)).transpose()?
            },
        };
        *self.slot.acceptor.borrow_mut() = Some(Acceptor::load(row));
        Ok(())
    }

    fn kept(&self, saved: SavedProposal) -> Result<Kept, Refusal> {
        let SavedProposal {
            ballot,
            version,
            bytes,
            expires,
        } = saved;
        let update = self.decode(bytes.clone(), version)?;
        let timestamp = update::timestamp_of(&update);
        let update = timestamp.map(|timestamp| Update {
            timestamp,
            version,
            bytes,
        });
        Ok(Kept {
            proposal: Proposal { ballot, update },
            expires,
        })
    }

    fn decode(&self, bytes: Bytes, version: i32) -> Result<PartitionUpdate, Refusal> {
        let decoded = decode_partition_update(&bytes, version, &|id| self.shard.store.table(id));
        decoded.map_err(|error| {
            let table = &self.ask.table;
            tracing::error!("a proposal for {}.{}: {error}", table.keyspace, table.name);
            Refusal::Failed(FailureReason::Unknown)
        })
    }

    /// Does something with the acceptor.
    fn with<T>(&self, act: impl FnOnce(&mut Acceptor) -> T) -> T {
        let mut acceptor = self.slot.acceptor.borrow_mut();
        act(acceptor.as_mut().expect("it was loaded"))
    }

    fn lifetime(&self) -> Lifetime {
        let now = self.shard.env.wall_micros().div_euclid(1_000_000);
        let grace = self.ask.table.options.gc_grace_seconds;
        Lifetime::new(now, u32::try_from(grace).unwrap_or(0))
    }

    /// Promises, and reads while that is written.
    async fn prepare(&self, shard: &Rc<Shard>) -> Result<Answer<VersionPage>, Refusal> {
        let Request::Prepare {
            ballot, for_write, ..
        } = self.ask.request
        else {
            return Err(Refusal::Failed(FailureReason::Unknown));
        };
        let lifetime = self.lifetime();
        let transition = self.with(|acceptor| acceptor.prepare(ballot, for_write, lifetime));
        let permission = match transition.answer {
            Prepared::Rejected(by) => return Ok(Answer::Rejected(by)),
            Prepared::Permitted(permission) => permission,
        };
        let promising = transition.write.map(|write| {
            let (of_task, row) = (shard.clone(), self.row(&write));
            let writing = async move { of_task.store.apply(mutation(vec![row])).await };
            shard.env.spawn(TaskGroup::Foreground, writing)
        });
        let read = match &self.ask.read {
            Some(command) => Some(self.shard.store.read_versions(command).await),
            None => None,
        };
        if let Some(promising) = promising {
            promising.await?;
        }
        let read = read.transpose().map_err(|error| {
            let command = self.ask.read.as_ref().expect("it was read with");
            unread(command, &error)
        })?;
        Ok(self.with(|acceptor| acceptor.answer(permission, read)))
    }

    /// Commits: the update and that it is committed, and only then the acceptor knows it.
    async fn commit(&self, proposal: &Proposal) -> Result<(), Refusal> {
        let lifetime = self.lifetime();
        let Some(write) = self.with(|acceptor| acceptor.commit(proposal, lifetime)) else {
            return Ok(());
        };
        let row = self.row(&write);
        match self.update_of(proposal)? {
            None => self.apply(vec![row]).await?,
            Some(update) => match self.apply(vec![update.clone(), row.clone()]).await {
                // Both are too much for one write.
                Err(WriteError::TooLarge { .. }) => {
                    self.apply(vec![update]).await?;
                    self.apply(vec![row]).await?;
                }
                applied => applied?,
            },
        }
        self.with(|acceptor| acceptor.committed(proposal.clone(), lifetime));
        Ok(())
    }

    /// What a commit applies, unless the table was truncated since it was proposed.
    fn update_of(&self, proposal: &Proposal) -> Result<Option<PartitionUpdate>, Refusal> {
        let Some(update) = &proposal.update else {
            return Ok(None);
        };
        let decoded = self.decode(update.bytes.clone(), update.version)?;
        if decoded.table.id != self.ask.table.id || decoded.key != self.ask.key {
            return Err(Refusal::Failed(FailureReason::Unknown));
        }
        let mut mutation = mutation(vec![decoded]);
        let truncations = &self.shard.truncations;
        truncations.retain(&mut mutation, proposal.ballot.micros());
        Ok(mutation.updates.pop())
    }

    async fn write(&self, write: &Write) -> Result<(), WriteError> {
        self.apply(vec![self.row(write)]).await
    }

    async fn apply(&self, updates: Vec<PartitionUpdate>) -> Result<(), WriteError> {
        views::apply(self.shard, mutation(updates), None).await
    }

    fn row(&self, write: &Write) -> PartitionUpdate {
        let Ask { table, key, .. } = self.ask;
        paxos_update(
            &self.paxos,
            (key, table.id),
            write,
            |proposal| match &proposal.update {
                Some(update) => (update.version, update.bytes.clone()),
                None => update::nothing(table, key),
            },
        )
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut acceptors = self.shard.acceptors.0.borrow_mut();
        // The map's and this one.
        if Rc::strong_count(&self.slot) == 2 {
            acceptors.remove(&(self.ask.table.id, self.ask.key.key().clone()));
        }
    }
}

fn mutation(updates: Vec<PartitionUpdate>) -> Mutation {
    Mutation { updates }
}

fn unread(command: &ReadCommand, error: &ReadError) -> Refusal {
    Refusal::Failed(read_failure(command, error))
}
