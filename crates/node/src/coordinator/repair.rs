//! Telling replicas what they lack of what a client gets to know (`BlockingReadRepair`,
//! `BlockingPartitionRepair`).
//!
//! Once a quorum has been read that knows something, every later quorum is to know it: who lacks it is
//! told, and the client waits until as many replicas have it as its level wants of a write. So reads
//! never go back in time. If one of them does not answer soon enough (`additional_write_policy`), what
//! it was told is sent to others that were not asked so far: any of them will do.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cluster::{NodeId, Outcome, Replica, WriteQuorum};
use io::{Instant, TaskGroup, oneshot};
use model::{DecoratedKey, Mutation, PartitionUpdate};

use super::ask::Write;
use super::replicas::replicas_of;
use super::round::Readers;
use super::together::Together;
use crate::error::RequestError;
use crate::shard::Shard;

/// What is sent to replicas of one partition.
struct Repair {
    shard: Rc<Shard>,
    sent: Vec<(NodeId, PartitionUpdate)>,
    /// Who may be sent what others do not take.
    others: Vec<NodeId>,
    /// After which time they are.
    send_more_at: Instant,
    deadline: Instant,
    /// How many have to have it before the client gets to know it.
    needed: u32,
    taken: Rc<Cell<u32>>,
    done: Option<oneshot::Sender<()>>,
}

/// What a client waits for.
struct Awaited {
    needed: u32,
    taken: Rc<Cell<u32>>,
    done: oneshot::Receiver<()>,
}

impl Readers<'_> {
    /// Sends what each of `participants` lacks; behind that in `repairs` is what those lack that were
    /// not asked, if they may have to be told. Returns when as many have it as the level wants.
    pub(super) async fn repair(
        &self,
        participants: &[NodeId],
        mut repairs: Vec<Vec<PartitionUpdate>>,
    ) -> Result<(), RequestError> {
        // A replica of a view has what its replica of the table has derived, and nothing else: that one also
        // takes away what it has once derived, but knows nothing of what others have (`views::pairs`).
        for repairs in &mut repairs {
            repairs.retain(|update| update.table.view.is_none());
        }
        let strangers = repairs.split_off(participants.len().min(repairs.len()));
        let strangers = strangers.concat();
        let mut partitions: BTreeMap<DecoratedKey, Vec<(NodeId, PartitionUpdate)>> =
            BTreeMap::new();
        for (node, updates) in participants.iter().zip(repairs) {
            for update in updates {
                let of_key = partitions.entry(update.key.clone()).or_default();
                of_key.push((*node, update));
            }
        }
        let mut awaited = Vec::new();
        for (key, lacking) in partitions {
            let stranger = strangers.iter().find(|update| update.key == key);
            let (repair, waiting) = self.plan(participants, lacking, stranger)?;
            let (env, metrics) = (&self.shard.env, &self.shard.metrics);
            metrics.read_repairs.add(repair.sent.len() as u64);
            env.spawn(TaskGroup::Foreground, repair.run()).detach();
            awaited.push(waiting);
        }
        for Awaited {
            needed,
            taken,
            done,
        } in awaited
        {
            let left = self
                .deadline
                .saturating_duration_since(self.shard.env.now());
            let waiting = async {
                // Who ends without having enough, ends when nobody is left to answer.
                needed == 0 || done.await.is_ok()
            };
            if !self.shard.env.timeout(left, waiting).await.unwrap_or(false) {
                let outcome = Outcome::Timeout {
                    received: taken.get().min(needed.saturating_sub(1)),
                    block_for: needed,
                };
                return Err(self.error(outcome, true));
            }
        }
        Ok(())
    }

    /// Who is sent what of a partition, and how many have to take it (`ReplicaPlans.forReadRepair`).
    fn plan(
        &self,
        participants: &[NodeId],
        lacking: Vec<(NodeId, PartitionUpdate)>,
        stranger: Option<&PartitionUpdate>,
    ) -> Result<(Repair, Awaited), RequestError> {
        let table = lacking[0].1.table.clone();
        let token = lacking[0].1.key.token();
        let placement = self.metadata.placement(&table.keyspace);
        let replicas = replicas_of(self.shard, self.metadata, placement, token);
        let data_center = &self.shard.local().data_center;
        let strategy = placement.strategy();
        let quorum = WriteQuorum::new(self.consistency, strategy, data_center, &replicas)?;
        let counts = |replica: &&Replica<'_>| {
            !self.consistency.is_local() || replica.datacenter == data_center
        };
        let others = replicas.iter().filter(|replica| replica.alive);
        let others = others.filter(|replica| !participants.contains(&replica.node));
        let mut others: Vec<NodeId> = others.filter(counts).map(|replica| replica.node).collect();
        let mut sent = lacking;
        let mut contacts = participants.len() as u32;
        // A replica that is to come makes a write need one more.
        while contacts < quorum.block_for()
            && let Some(update) = stranger
            && !others.is_empty()
        {
            sent.push((others.remove(0), update.clone()));
            contacts += 1;
        }
        let up_to_date = contacts - sent.len() as u32;
        let needed = quorum.block_for().saturating_sub(up_to_date);
        let now = self.shard.env.now();
        let patience = self.shard.observed.additional_write(&table, now);
        let (done, waiting) = oneshot();
        let taken = Rc::new(Cell::new(0));
        let repair = Repair {
            shard: self.shard.clone(),
            sent,
            others,
            send_more_at: now + patience,
            deadline: now + self.shard.timeouts.write(),
            needed,
            taken: taken.clone(),
            done: (needed > 0).then_some(done),
        };
        let awaited = Awaited {
            needed,
            taken,
            done: waiting,
        };
        Ok((repair, awaited))
    }
}

impl Repair {
    async fn run(mut self) {
        let mut pending = Together::new();
        for (node, update) in self.sent.clone() {
            self.send(&mut pending, node, update);
        }
        loop {
            let wants_more = self.done.is_some() && !self.others.is_empty();
            let until = match wants_more {
                true => self.send_more_at.min(self.deadline),
                false => self.deadline,
            };
            let left = until.saturating_duration_since(self.shard.env.now());
            let answer = self.shard.env.timeout(left, pending.next()).await;
            match answer {
                Ok(Some((node, true))) => self.take(node),
                // Others may take it in its place, if there are any.
                Ok(Some((_, false))) if wants_more => self.send_more(&mut pending),
                Ok(Some((_, false))) => {}
                Err(_) if wants_more && until < self.deadline => self.send_more(&mut pending),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn send(
        &self,
        pending: &mut Together<'static, (NodeId, bool)>,
        node: NodeId,
        update: PartitionUpdate,
    ) {
        let (shard, deadline) = (self.shard.clone(), self.deadline);
        pending.push(async move {
            let write = Write::new(Mutation {
                updates: vec![shard.state.flaw.repair(update)],
            });
            let applied = write.apply_at(&shard, node, deadline).await;
            (node, applied.is_ok())
        });
    }

    /// Sends to those that were not asked so far all that was not taken yet.
    fn send_more(&mut self, pending: &mut Together<'static, (NodeId, bool)>) {
        let mut updates = self.sent.iter().map(|(_, update)| update.clone());
        let Some(mut all) = updates.next() else {
            return;
        };
        updates.for_each(|update| all.merge(update));
        for node in std::mem::take(&mut self.others) {
            self.send(pending, node, all.clone());
        }
    }

    /// A replica has what it was sent.
    fn take(&mut self, node: NodeId) {
        self.sent.retain(|(to, _)| *to != node);
        self.taken.set(self.taken.get() + 1);
        if self.taken.get() >= self.needed
            && let Some(done) = self.done.take()
        {
            // The client may have gone.
            let _ = done.send(());
        }
    }
}
