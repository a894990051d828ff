//! Who of the nodes decides on metadata: whoever leads sees to it that every node hears what is
//! decided, and that up to five of them vote, in as many racks and data centres as can be.
//!
//! A voter that is silent for long makes way for a node that answers. Each change goes through the joint
//! consensus of Raft: a majority of those who vote before it decides on it, so that no minority makes itself
//! the majority, and who leads does not try as long as it does not hear one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::{MemberState, Topology};
use io::Instant;
use openraft::async_runtime::WatchReceiver;
use openraft::{ChangeMembers, Instant as _};

use super::group::{Group, MetricsOfMetadata};
use crate::raft::{Member, node_id, raft_id, within};

/// How many nodes vote at most. Two of five may fail; more would make each decision slower.
const MOST: usize = 5;
/// How long ago a member may have acknowledged something and count as one that answers: some of the
/// leader's words, and the time between two looks.
const ANSWERS: Duration = Duration::from_secs(3);
/// How long to wait for a change, before the next look: nobody may answer who has lost the lead.
const CHANGE: Duration = Duration::from_secs(10);
/// How many entries a member may lack and vote: it has them in a moment.
const BEHIND: u64 = 100;

/// What to change next; `None` if all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// A change is half made, by a leader that went: what it began is brought to its end.
    Finish,
    /// These are to hear what is decided.
    Listen(BTreeMap<u64, Member>),
    /// These are to vote, and nobody else.
    Vote(BTreeSet<u64>),
    /// These are gone.
    Forget(BTreeSet<u64>),
}

/// The members, as who leads sees them.
#[derive(Clone, Debug, Default)]
struct Members {
    /// Who leads.
    leader: u64,
    /// Who votes; of a change that is half made, who votes before or after it.
    voters: BTreeSet<u64>,
    /// Is a change half made?
    is_joint: bool,
    /// Who only listens.
    learners: BTreeSet<u64>,
    /// Who answers, and has almost all there is.
    ready: BTreeSet<u64>,
    /// Who has been silent for too long.
    down: BTreeSet<u64>,
}

/// What who tends the group remembers from one look to the next.
pub(super) struct Tended {
    /// For how long a voter may be silent.
    silence: Duration,
    /// The term in which this node leads, and since when: it knows nothing of the time before.
    leads: Option<(u64, Instant)>,
}

impl Tended {
    /// Voters may be silent for so long.
    pub(super) fn new(silence: Duration) -> Tended {
        Tended {
            silence,
            leads: None,
        }
    }

    /// The members; `None` if this node does not lead.
    fn look(&mut self, metrics: &MetricsOfMetadata, now: Instant) -> Option<Members> {
        let (true, Some(heard), Some(known)) = (
            metrics.state.is_leader(),
            &metrics.heartbeat,
            &metrics.replication,
        ) else {
            self.leads = None;
            return None;
        };
        let since = match self.leads {
            Some((term, since)) if term == metrics.current_term => since,
            _ => now,
        };
        self.leads = Some((metrics.current_term, since));
        let leads_for = now.saturating_duration_since(since);
        let silence_of = |id: &u64| {
            let heard = heard.get(id).and_then(|heard| heard.as_ref());
            heard.map(|heard| heard.elapsed())
        };
        let last = metrics.last_log_index.unwrap_or(0);
        let lacks = |id: &u64| {
            let known = known.get(id).and_then(|known| known.as_ref());
            last.saturating_sub(known.map_or(0, |known| known.index))
        };
        let leader = metrics.id;
        let is_ready = |id: &u64| {
            let answers = silence_of(id).is_some_and(|silence| silence <= ANSWERS);
            *id == leader || (answers && lacks(id) <= BEHIND)
        };
        let is_down = |id: &u64| {
            let silence = silence_of(id).unwrap_or(Duration::MAX).min(leads_for);
            *id != leader && silence >= self.silence
        };
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let learners: BTreeSet<u64> = membership.learner_ids().collect();
        let all = || voters.iter().chain(&learners).copied();
        Some(Members {
            leader,
            is_joint: membership.get_joint_config().len() > 1,
            ready: all().filter(is_ready).collect(),
            down: all().filter(is_down).collect(),
            voters,
            learners,
        })
    }
}

/// Does the next thing that is to be done, if this node leads. Is there more to be done?
pub(super) async fn tend(group: &Group, tended: &mut Tended) -> bool {
    let env = group.env();
    let tending = async {
        let raft = group.raft();
        let metrics = raft.metrics().borrow_watched().clone();
        let Some(members) = tended.look(&metrics, env.now()) else {
            return false;
        };
        let metadata = group.metadata();
        let Some(next) = next(metadata.topology(), &members) else {
            return false;
        };
        tracing::debug!("the group that decides on metadata changes: {next:?}");
        let (change, retain) = match next.clone() {
            Next::Finish => (ChangeMembers::AddVoterIds(BTreeSet::new()), true),
            Next::Listen(members) => (ChangeMembers::AddNodes(members), true),
            Next::Vote(voters) => (ChangeMembers::ReplaceAllVoters(voters), true),
            Next::Forget(gone) => (ChangeMembers::RemoveNodes(gone), false),
        };
        let changing = env.timeout(CHANGE, raft.change_membership(change, retain));
        match changing.await {
            Ok(Ok(_)) => {
                if let Next::Vote(voters) = next {
                    say(metadata.topology(), &members, &voters);
                }
                true
            }
            // Another leader does it, or this one a little later.
            Ok(Err(error)) => {
                tracing::debug!("changing who decides on metadata: {error}");
                false
            }
            Err(_) => {
                tracing::debug!("changing who decides on metadata takes long");
                false
            }
        }
    };
    within(env, tending).await
}

/// Tells those who operate the cluster who votes now, and why another one does.
fn say(topology: &Topology, before: &Members, voters: &BTreeSet<u64>) {
    let names = |ids: &mut dyn Iterator<Item = &u64>| {
        let name = |id: &u64| {
            let member = node_id(*id).and_then(|id| topology.member(id));
            member.map_or_else(
                || format!("node {id}"),
                |member| member.node.address.ip().to_string(),
            )
        };
        ids.map(name).collect::<Vec<_>>().join(", ")
    };
    let silent: Vec<u64> = before.voters.difference(voters).copied().collect();
    let mut silent = silent
        .iter()
        .filter(|id| before.down.contains(id))
        .peekable();
    if silent.peek().is_some() {
        let silent = names(&mut silent);
        tracing::warn!(
            "{silent}: silent for long, and replaced among those that decide on the schema and members"
        );
    }
    let voters = names(&mut voters.iter());
    tracing::info!("the schema and members are decided on by: {voters}");
}

fn next(topology: &Topology, members: &Members) -> Option<Next> {
    if members.is_joint {
        return Some(Next::Finish);
    }
    let Members {
        voters, learners, ..
    } = members;
    // Who is cut off with a minority, or has only begun to lead, would only have to take it back.
    if voters.intersection(&members.ready).count() < majority(voters.len()) {
        return None;
    }
    let is_there = |id: &u64| {
        let member = node_id(*id).and_then(|id| topology.member(id));
        member.is_some_and(|member| member.state != MemberState::Left)
    };
    let unknown = topology.members().iter().filter(|(id, member)| {
        let id = raft_id(**id);
        member.state != MemberState::Left && !voters.contains(&id) && !learners.contains(&id)
    });
    let unknown: BTreeMap<u64, Member> = unknown
        .map(|(id, member)| {
            let address = member.node.address;
            (raft_id(*id), Member { address })
        })
        .collect();
    if !unknown.is_empty() {
        return Some(Next::Listen(unknown));
    }
    let wanted = wanted_voters(topology, members);
    // Nobody is there yet at the very beginning.
    if !wanted.is_empty() && wanted != *voters {
        return Some(Next::Vote(one_step(members, wanted)));
    }
    let gone: BTreeSet<u64> = learners
        .iter()
        .filter(|id| !is_there(id))
        .copied()
        .collect();
    (!gone.is_empty()).then_some(Next::Forget(gone))
}

/// How many of so many voters decide.
fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// How many of so many nodes vote: an even number would bear no more failures than one less, but two
/// are better than a single drive.
fn wanted_count(nodes: usize) -> usize {
    match nodes.min(MOST) {
        4 => 3,
        count => count,
    }
}

/// Who is to vote in the end.
fn wanted_voters(topology: &Topology, members: &Members) -> BTreeSet<u64> {
    let Members { voters, down, .. } = members;
    let joined: BTreeSet<u64> = topology.joined().map(|(id, _)| raft_id(id)).collect();
    let present: BTreeSet<u64> = voters.intersection(&joined).copied().collect();
    let alive: BTreeSet<u64> = present.difference(down).copied().collect();
    let ready = joined.intersection(&members.ready).copied();
    let able: BTreeSet<u64> = ready.chain(alive.iter().copied()).collect();
    let count = wanted_count(able.len());
    // Where nobody is there to take their place, those that are silent go only if the others bear more
    // failures without them: they may come back.
    let bears_as_many = alive.len() + majority(count) >= count + majority(present.len());
    if alive.len() < present.len() && bears_as_many {
        return present;
    }
    spread(topology, members, &able, count)
}

/// So many of these nodes: each stands where fewest of those do that were chosen before it, and is one that
/// votes already if there is such a one. Who leads goes on.
fn spread(
    topology: &Topology,
    members: &Members,
    able: &BTreeSet<u64>,
    count: usize,
) -> BTreeSet<u64> {
    let place = |id: u64| {
        let member = node_id(id).and_then(|id| topology.member(id));
        member.map(|member| &member.node.place)
    };
    let center = |id: u64| place(id).map(|place| &place.datacenter);
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        let crowd = |id: &u64| {
            let same_center = chosen.iter().filter(|other| center(**other) == center(*id));
            let same_place = chosen.iter().filter(|other| place(**other) == place(*id));
            let votes = members.voters.contains(id);
            let is_ready = members.ready.contains(id);
            (
                *id != members.leader,
                same_center.count(),
                same_place.count(),
                (!votes, !is_ready, *id),
            )
        };
        let free = able.difference(&chosen);
        let Some(best) = free.min_by_key(|id| crowd(id)).copied() else {
            break;
        };
        chosen.insert(best);
    }
    chosen
}

/// How far one change goes on the way to who is wanted. Who is replaced is so one by one: if who comes fails
/// at once, all others are there.
fn one_step(members: &Members, wanted: BTreeSet<u64>) -> BTreeSet<u64> {
    let voters = &members.voters;
    let goes = voters.difference(&wanted);
    let goes = goes
        .min_by_key(|id| (!members.down.contains(*id), **id))
        .copied();
    let comes = wanted.difference(voters).next().copied();
    let (Some(goes), Some(comes)) = (goes, comes) else {
        return wanted;
    };
    let mut next = voters.clone();
    next.remove(&goes);
    next.insert(comes);
    next
}

#[cfg(test)]
mod tests;
