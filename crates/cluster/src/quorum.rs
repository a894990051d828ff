//! Quorums: how many answers a request needs, and what has become of it
//! (`ConsistencyLevel.blockFor`, `ReplicaPlans.assureSufficientLiveReplicas`,
//! `AbstractWriteResponseHandler`, `ReadCallback`).
//!
//! What is needed is one or more *groups* of replicas with a number for each: mostly one group
//! (all replicas, or those of the local data centre), and one for each data centre at
//! EACH_QUORUM. A request is done when every group has its number of responses. It has failed when
//! more of those that count have failed than all groups together can do without; of a write these are
//! all replicas, those that are down too, of a read those that were asked. Where all that failed did so
//! by not answering in time, clients are told that time was up.

use std::collections::BTreeMap;

use crate::{Consistency, NodeId, ReplicationStrategy};

/// A replica of the token a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica<'r> {
    /// The node.
    pub node: NodeId,
    /// Its data centre.
    pub datacenter: &'r str,
    /// Is it believed to be up?
    pub alive: bool,
    /// Is it only becoming a replica? It gets writes, which then need one more response; it is
    /// not read from.
    pub pending: bool,
}

/// Too few replicas are up: nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cannot achieve consistency level {consistency}")]
pub struct Unavailable {
    /// The level asked for.
    pub consistency: Consistency,
    /// Responses needed.
    pub required: u32,
    /// Replicas that are up.
    pub alive: u32,
}

/// Why a replica failed (`RequestFailureReason`), with its code in the native protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FailureReason {
    /// Anything else.
    Unknown = 0,
    /// A read that met too many tombstones.
    ReadTooManyTombstones = 1,
    /// The replica itself gave up.
    Timeout = 2,
    /// Coordinator and replica do not have the same schema.
    IncompatibleSchema = 3,
    /// A read that took too much memory.
    ReadSize = 4,
    /// The node went down.
    NodeDown = 5,
    /// An index is not built yet.
    IndexNotAvailable = 6,
    /// A read that would look into too many sstables of an index.
    ReadTooManyIndexes = 7,
}

impl FailureReason {
    const ALL: [FailureReason; 8] = [
        FailureReason::Unknown,
        FailureReason::ReadTooManyTombstones,
        FailureReason::Timeout,
        FailureReason::IncompatibleSchema,
        FailureReason::ReadSize,
        FailureReason::NodeDown,
        FailureReason::IndexNotAvailable,
        FailureReason::ReadTooManyIndexes,
    ];

    /// The reason of this code; one that is not known is `Unknown`.
    pub fn from_code(code: u16) -> FailureReason {
        let known = FailureReason::ALL.get(usize::from(code));
        known.copied().unwrap_or(FailureReason::Unknown)
    }
}

impl std::fmt::Display for FailureReason {
    /// As Cassandra calls it (`RequestFailureReason`).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FailureReason::Unknown => "UNKNOWN",
            FailureReason::ReadTooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
            FailureReason::Timeout => "TIMEOUT",
            FailureReason::IncompatibleSchema => "INCOMPATIBLE_SCHEMA",
            FailureReason::ReadSize => "READ_SIZE",
            FailureReason::NodeDown => "NODE_DOWN",
            FailureReason::IndexNotAvailable => "INDEX_NOT_AVAILABLE",
            FailureReason::ReadTooManyIndexes => "READ_TOO_MANY_INDEXES",
        })
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As many responses as needed.
    Done,
    /// Time was up first.
    Timeout {
        /// Responses until then.
        received: u32,
        /// Responses needed.
        block_for: u32,
    },
    /// Too many replicas failed.
    Failure {
        /// Responses until then.
        received: u32,
        /// Responses needed.
        block_for: u32,
        /// Which replicas failed, and why.
        failures: BTreeMap<NodeId, FailureReason>,
    },
}

/// More than half of `factor` replicas.
pub fn quorum_of(factor: u32) -> u32 {
    factor / 2 + 1
}

impl Consistency {
    /// How many responses a request needs of a keyspace; `datacenter` is the coordinator's.
    pub fn block_for(self, strategy: &ReplicationStrategy, datacenter: &str) -> u32 {
        let local = || strategy.factor_in(datacenter);
        match self {
            Consistency::Any
            | Consistency::One
            | Consistency::LocalOne
            | Consistency::NodeLocal => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::All => strategy.factor(),
            Consistency::Quorum | Consistency::Serial => quorum_of(strategy.factor()),
            Consistency::LocalQuorum | Consistency::LocalSerial => {
                quorum_of(local().unwrap_or_else(|| strategy.factor()))
            }
            Consistency::EachQuorum => match strategy {
                ReplicationStrategy::NetworkTopology { datacenters } => {
                    datacenters.values().map(|factor| quorum_of(*factor)).sum()
                }
                _ => quorum_of(strategy.factor()),
            },
        }
    }
}

/// Replicas of which a number must respond.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Only those of this data centre; `None`: all.
    datacenter: Option<String>,
    needed: u32,
    responses: u32,
    /// Those that were asked and have not failed.
    candidates: u32,
}

/// What a request at `consistency` needs.
fn groups(consistency: Consistency, strategy: &ReplicationStrategy, local: &str) -> Vec<Group> {
    let group = |datacenter: Option<&str>, needed| Group {
        datacenter: datacenter.map(str::to_owned),
        needed,
        responses: 0,
        candidates: 0,
    };
    let all = || vec![group(None, consistency.block_for(strategy, local))];
    match (consistency, strategy) {
        (Consistency::EachQuorum, ReplicationStrategy::NetworkTopology { datacenters }) => {
            let of_each = datacenters.iter();
            of_each
                .map(|(dc, factor)| group(Some(dc), quorum_of(*factor)))
                .collect()
        }
        (Consistency::LocalOne, _) => vec![group(Some(local), 1)],
        (
            Consistency::LocalQuorum | Consistency::LocalSerial,
            ReplicationStrategy::NetworkTopology { .. },
        ) => vec![group(Some(local), consistency.block_for(strategy, local))],
        _ => all(),
    }
}

/// What a write needs: one response more for each replica that is only becoming one.
fn groups_of_write(
    consistency: Consistency,
    strategy: &ReplicationStrategy,
    local: &str,
    replicas: &[Replica<'_>],
) -> Vec<Group> {
    let mut groups = groups(consistency, strategy, local);
    if consistency != Consistency::Any {
        for group in &mut groups {
            let pending = |r: &&Replica<'_>| r.pending && group.counts(r.datacenter);
            group.needed += replicas.iter().filter(pending).count() as u32;
        }
    }
    groups
}

impl Group {
    fn counts(&self, datacenter: &str) -> bool {
        self.datacenter
            .as_deref()
            .is_none_or(|own| own == datacenter)
    }
}

/// What has come in so far.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tally {
    groups: Vec<Group>,
    /// How many replicas that count may respond, or could have.
    candidates: u32,
    /// The replicas that were asked and have not answered, with their data centres.
    open: BTreeMap<NodeId, String>,
    failures: BTreeMap<NodeId, FailureReason>,
    /// The failures of those that count.
    counted: Vec<FailureReason>,
    finished: bool,
}

impl Tally {
    fn new(groups: Vec<Group>) -> Tally {
        Tally {
            groups,
            candidates: 0,
            open: BTreeMap::new(),
            failures: BTreeMap::new(),
            counted: Vec::new(),
            finished: false,
        }
    }

    /// Do responses from a data centre count?
    fn counts(&self, datacenter: &str) -> bool {
        self.groups.iter().any(|group| group.counts(datacenter))
    }

    /// Asks a replica.
    fn ask(&mut self, replica: &Replica<'_>) {
        let known = self.failures.contains_key(&replica.node);
        if known || self.open.contains_key(&replica.node) {
            return;
        }
        self.open
            .insert(replica.node, replica.datacenter.to_owned());
        for group in &mut self.groups {
            group.candidates += u32::from(group.counts(replica.datacenter));
        }
    }

    /// A replica has responded. Has every group enough responses now?
    fn respond(&mut self, node: NodeId) -> bool {
        if let Some(datacenter) = self.open.remove(&node) {
            for group in &mut self.groups {
                group.responses += u32::from(group.counts(&datacenter));
            }
        }
        let enough = |group: &Group| group.responses >= group.needed;
        self.groups.iter().all(enough)
    }

    fn fail(&mut self, node: NodeId, reason: FailureReason) -> Option<Outcome> {
        let datacenter = self.open.remove(&node)?;
        self.failures.insert(node, reason);
        if self.counts(&datacenter) {
            self.counted.push(reason);
        }
        for group in &mut self.groups {
            group.candidates -= u32::from(group.counts(&datacenter));
        }
        let hopeless = self.block_for() + self.counted.len() as u32 > self.candidates;
        match hopeless {
            true => self.finish(self.failure()),
            false => None,
        }
    }

    /// What clients are told of failures.
    fn failure(&self) -> Outcome {
        let late = |reason: &FailureReason| *reason == FailureReason::Timeout;
        if self.counted.iter().all(late) {
            return self.timeout();
        }
        Outcome::Failure {
            received: self.received(),
            block_for: self.block_for(),
            failures: self.failures.clone(),
        }
    }

    fn timeout(&self) -> Outcome {
        let block_for = self.block_for();
        Outcome::Timeout {
            // Responses of one data centre may be enough in sum, but not where they are needed.
            received: self.received().min(block_for.saturating_sub(1)),
            block_for,
        }
    }

    fn finish(&mut self, outcome: Outcome) -> Option<Outcome> {
        let first = !std::mem::replace(&mut self.finished, true);
        first.then_some(outcome)
    }

    fn received(&self) -> u32 {
        self.groups.iter().map(|group| group.responses).sum()
    }

    fn block_for(&self) -> u32 {
        self.groups.iter().map(|group| group.needed).sum()
    }
}

/// Refuses if fewer of the replicas are up than needed.
fn check_alive(
    consistency: Consistency,
    groups: &[Group],
    replicas: &[Replica<'_>],
) -> Result<(), Unavailable> {
    // The coordinator can always keep a hint.
    if consistency == Consistency::Any {
        return Ok(());
    }
    for group in groups {
        let counted = |replica: &&Replica<'_>| replica.alive && group.counts(replica.datacenter);
        let alive = replicas.iter().filter(counted).count() as u32;
        if alive < group.needed {
            return Err(Unavailable {
                consistency,
                required: group.needed,
                alive,
            });
        }
    }
    Ok(())
}

/// A write on its way to all replicas that are up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteQuorum {
    tally: Tally,
    contacts: Vec<NodeId>,
    hints: Vec<NodeId>,
}

impl WriteQuorum {
    /// Starts a write. `replicas` are those of the token, pending ones too; `datacenter` is the
    /// coordinator's.
    pub fn new(
        consistency: Consistency,
        strategy: &ReplicationStrategy,
        datacenter: &str,
        replicas: &[Replica<'_>],
    ) -> Result<WriteQuorum, Unavailable> {
        let groups = groups_of_write(consistency, strategy, datacenter, replicas);
        check_alive(consistency, &groups, replicas)?;
        let mut quorum = WriteQuorum::of(groups, replicas);
        for replica in replicas.iter().filter(|replica| replica.alive) {
            quorum.tally.ask(replica);
        }
        Ok(quorum)
    }

    /// Starts the commit of what replicas have agreed upon (`PaxosCommit`). It cannot be refused any
    /// more: where too few are up for `consistency`, those that are get it, and then it has
    /// failed, which may be at once. `agreed` is how many votes the agreement needed, if `consistency`
    /// is its counterpart (QUORUM to SERIAL): as many are enough then.
    pub(crate) fn commit(
        consistency: Consistency,
        strategy: &ReplicationStrategy,
        datacenter: &str,
        replicas: &[Replica<'_>],
        agreed: Option<u32>,
    ) -> (WriteQuorum, Option<Outcome>) {
        let mut groups = groups_of_write(consistency, strategy, datacenter, replicas);
        if let (Some(votes), [group]) = (agreed, &mut groups[..]) {
            group.needed = votes;
        }
        let mut quorum = WriteQuorum::of(groups, replicas);
        for replica in replicas {
            quorum.tally.ask(replica);
        }
        let mut outcome = None;
        for node in quorum.hints.clone() {
            outcome = outcome.or(quorum.fail(node, FailureReason::NodeDown));
        }
        (quorum, outcome)
    }

    /// Nobody has been asked yet.
    fn of(groups: Vec<Group>, replicas: &[Replica<'_>]) -> WriteQuorum {
        let nodes = |alive| {
            let those = replicas
                .iter()
                .filter(move |replica| replica.alive == alive);
            those.map(|replica| replica.node).collect()
        };
        let mut tally = Tally::new(groups);
        // One that is down could still come back and respond.
        let counted = replicas
            .iter()
            .filter(|replica| tally.counts(replica.datacenter));
        tally.candidates = counted.count() as u32;
        WriteQuorum {
            tally,
            contacts: nodes(true),
            hints: nodes(false),
        }
    }

    /// The replicas to send the write to.
    pub fn contacts(&self) -> &[NodeId] {
        &self.contacts
    }

    /// The replicas that are down, and get it later.
    pub fn hints(&self) -> &[NodeId] {
        &self.hints
    }

    /// How many responses are needed.
    pub fn block_for(&self) -> u32 {
        self.tally.block_for()
    }

    /// The replicas that have neither the write nor failed.
    pub fn open(&self) -> impl Iterator<Item = NodeId> {
        self.tally.open.keys().copied()
    }

    /// A replica has the write. `Some`: the request is over.
    pub fn respond(&mut self, node: NodeId) -> Option<Outcome> {
        match self.tally.respond(node) {
            true => self.tally.finish(Outcome::Done),
            false => None,
        }
    }

    /// A replica could not write. `Some`: the request is over.
    pub fn fail(&mut self, node: NodeId, reason: FailureReason) -> Option<Outcome> {
        self.tally.fail(node, reason)
    }

    /// The write cannot reach any replica, but the coordinator has kept a hint: at ANY that will
    /// do.
    pub fn hint_stored(&mut self, consistency: Consistency) -> Option<Outcome> {
        if consistency == Consistency::Any {
            return self.tally.finish(Outcome::Done);
        }
        None
    }

    /// Time is up. `None`: the request was over before.
    pub fn time_out(&mut self) -> Option<Outcome> {
        self.tally.finish(self.tally.timeout())
    }
}

/// A read on its way to as many replicas as must respond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadQuorum {
    tally: Tally,
    contacts: Vec<NodeId>,
    data_from: Vec<NodeId>,
    data_present: bool,
}

impl ReadQuorum {
    /// Starts a read. `replicas` are those of the token, the preferred first: data comes from the
    /// first one contacted, digests from the others. `datacenter` is the coordinator's.
    pub fn new(
        consistency: Consistency,
        strategy: &ReplicationStrategy,
        datacenter: &str,
        replicas: &[Replica<'_>],
    ) -> Result<ReadQuorum, Unavailable> {
        let groups = groups(consistency, strategy, datacenter);
        let readable: Vec<Replica<'_>> = replicas.iter().filter(|r| !r.pending).cloned().collect();
        check_alive(consistency, &groups, &readable)?;
        let mut quorum = ReadQuorum {
            tally: Tally::new(groups),
            data_from: Vec::new(),
            contacts: Vec::new(),
            data_present: false,
        };
        for replica in readable.iter().filter(|replica| replica.alive) {
            let wanted = |g: &Group| g.counts(replica.datacenter) && g.candidates < g.needed;
            if quorum.tally.groups.iter().any(wanted) {
                quorum.ask(replica, quorum.contacts.is_empty());
            }
        }
        Ok(quorum)
    }

    /// The same, with all of them asked for data.
    pub fn with_data_from_all(mut self) -> ReadQuorum {
        self.data_from = self.contacts.clone();
        self
    }

    /// The replicas that are asked; the first is asked for data, the others for digests.
    pub fn contacts(&self) -> &[NodeId] {
        &self.contacts
    }

    /// May one more replica be asked: is it up, read from, not asked yet, and does it count?
    pub fn may_ask(&self, replica: &Replica<'_>) -> bool {
        replica.alive
            && !replica.pending
            && !self.contacts.contains(&replica.node)
            && self.tally.counts(replica.datacenter)
    }

    /// Asks one more replica, for data or for a digest, because others are slow or have failed.
    pub fn ask(&mut self, replica: &Replica<'_>, data: bool) {
        self.tally.ask(replica);
        self.tally.candidates += 1;
        self.contacts.push(replica.node);
        if data {
            self.data_from.push(replica.node);
        }
    }

    /// A replica has answered. `Some`: the request is over, with data.
    pub fn respond(&mut self, node: NodeId) -> Option<Outcome> {
        self.data_present |= self.data_from.contains(&node);
        match self.tally.respond(node) && self.data_present {
            true => self.tally.finish(Outcome::Done),
            false => None,
        }
    }

    /// A replica could not read. `Some`: the request is over.
    pub fn fail(&mut self, node: NodeId, reason: FailureReason) -> Option<Outcome> {
        self.tally.fail(node, reason)
    }

    /// Time is up. `None`: the request was over before.
    pub fn time_out(&mut self) -> Option<Outcome> {
        self.tally.finish(self.tally.failure())
    }

    /// Has a replica answered that was asked for data? (Clients are told with a timeout.)
    pub fn data_present(&self) -> bool {
        self.data_present
    }

    /// How many responses are needed.
    pub fn block_for(&self) -> u32 {
        self.tally.block_for()
    }
}
