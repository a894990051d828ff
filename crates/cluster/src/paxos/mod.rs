//! Lightweight transactions: the replicas of a partition agree on one change of it after the other.
//!
//! This is Cassandra's Paxos v2 (CEP-14, `org.apache.cassandra.service.paxos`): two round trips for a
//! conditional update that nobody comes in the way of (prepare and read, then propose; the commit is
//! waited for only as far as its consistency level asks), one for a serial read. There is no leader: any
//! node may coordinate, each in rounds of its own.
//!
//! # A round
//!
//! Each has a number, its [`Ballot`], and up to three steps. In each the coordinator asks all replicas
//! that vote ([`Participants`]), and goes on when a quorum has answered.
//!
//! 1. **Prepare** (`preparation`, Cassandra's `PaxosPrepare`). A replica *promises* to accept nothing
//!    below the ballot, and answers with the last proposal that it accepted, the last one that it
//!    committed, and the data that it reads then. What the coordinator finds decides what is next:
//!    * Somebody has accepted a proposal that is not committed. It may be agreed upon already, so nothing
//!      else can be proposed: it is *proposed again*, under this ballot, and committed together with the
//!      prepare of the next round (`PaxosCommitAndPrepare`).
//!    * Some have not got the last commit. It is sent to them, a *refresh* (`PaxosPrepareRefresh`), and
//!      the round goes on when a quorum has it. If none of those that were read from had it, what was
//!      read is of no use, and the next round begins with that commit.
//!    * Nothing is in the way. What a quorum has read is merged, and the condition evaluated on it.
//! 2. **Propose** (`votes`, `PaxosPropose`). The update is sent, under the ballot; or, where the
//!    condition does not hold, an empty proposal. A replica accepts it unless it knows a higher ballot.
//!    Once a quorum has accepted it, it is *agreed upon*, and nothing can undo that.
//! 3. **Commit** (`commitment`, `PaxosCommit`). Replicas apply the update, with the ballot's time as its
//!    timestamp, and note that. An empty proposal is not committed.
//!
//! Who is refused, because of a higher ballot, pauses (`contention`, `ContentionStrategy`) and begins a
//! round above it. Only if a replica may have accepted its own update it must not: another round may
//! finish that, and then it would be done twice. The client is told that nobody knows.
//!
//! **Reads**, and updates whose condition does not hold, need no second step where no update is under
//! way: where every replica that was read from has committed, or seen ended by an empty proposal,
//! whatever it promised to updates. It says then that it is *stable*. To that end promises to updates and
//! to reads are kept apart: reads do not disturb each other. Whose ballot only a read is above may still
//! read (it is *permitted* to), but propose nothing.
//!
//! # What is on the drive, and when
//!
//! A replica's state is a row of `system.paxos` ([`Row`]). Each transition of an [`Acceptor`] gives the
//! [`Write`] that must be on the drive before its answer leaves: a promise before `Permitted`, a proposal
//! before `Voted`. Other rounds may see both earlier. If a crash then takes them back, those have been
//! refused where they need not have been, or have proposed again what this replica never accepted; but it
//! was proposed, by a round that had its promises, and so was a right choice. Not so a commit: rounds
//! overwrite what was accepted because a quorum *has* the commit. So that and its update are on the drive
//! first, and only then the commit is noted ([`Acceptor::committed`]).
//!
//! Rows expire ([`Lifetime`]): a partition that nobody touches for long begins anew. That is Cassandra's
//! default, and its risk: an update that was agreed upon and that no replica has committed by then is
//! lost.
//!
//! # Why it is linearizable
//!
//! Two quorums always have a replica in common.
//!
//! *What is agreed upon is in one order, that of the ballots, and each is decided upon the data that all
//! before it have made.* Let `V` be agreed upon under `b`. A later round, of a ballot above `b`, has the
//! promises of a quorum, of which some replica accepted `V`: before its promise, or it would have refused
//! `V`. So that replica answers with `V`, or with something of a higher ballot; and that is, by
//! induction, `V` proposed again, or its commit, or what came after it. Nobody has proposed anything
//! after `V` but who had seen that a quorum has the commit of `V`; so each commit of the past is at a
//! quorum, and what any quorum reads has them all. And no other round comes between a round's reading and
//! its agreement: a lower one is refused by those that have promised, a higher one makes them refuse
//! this.
//!
//! *What is read has all that was agreed upon before the operation began*, for the same reason: some
//! replica of its quorum shows it. If nothing was proposed, what was read is the data as it was after
//! some update of that order. (A replica where a commit arrives while it reads might give that one
//! without the one before: it says that it is not stable.)
//!
//! *What nobody knows of is settled by the next who looks.* A coordinator dies, or gives up, and its
//! update is accepted by some, or still on its way. An operation that begins then, and is answered,
//! either has seen it, or it never is agreed upon. For that operation has had a proposal accepted by a
//! quorum, which every later round finds above the lost one. Or it has only read, at replicas that are
//! stable; to one of them the lost round owes its promise, or it could not have proposed. That replica
//! knows the promise to be over: something not below it was committed, or an empty proposal above it was
//! accepted by a quorum; and every later round finds that instead.
//!
//! Ballots come from clocks. Where those are wrong, rounds are refused more often, and no more (unless
//! they are wrong by the lifetime of a row: what is younger looks forgotten then). But the ballot's time
//! is the timestamp of what it writes, and ordinary writes of the same cells have timestamps of other
//! clocks: who mixes both gets what they would get of Cassandra.
//!
//! # Where it is not Cassandra's
//!
//! * An empty proposal ends what is under way only if a quorum is seen to have accepted it
//!   (`Preparation::is_linearizable`). Cassandra believes a single replica, and may yet finish an update
//!   after a read without it.
//! * A proposal that one replica refuses is waited for as long as a quorum can accept it; Cassandra gives
//!   up, and the client is told that nobody knows.
//! * An empty proposal that is refused is tried again, which does no harm; of Cassandra the client gets a
//!   timeout if any replica has accepted it.
//!
//! # What the node adds
//!
//! Nothing here sends or writes, knows tables, or what time it is. Around a [`Proposer`] a coordinator
//! sends requests, merges what was read, evaluates conditions, keeps hints, and works on one operation of
//! a partition at a time (`PaxosOperationLock`). A request must not arrive twice: who has accepted a
//! proposal, and then something higher, would refuse the second, and the coordinator would take the
//! update for one that nobody has accepted. Answers may come twice, late, or not at all.
//!
//! Around an [`Acceptor`] a replica does for each [`Request`]:
//!
//! * `Prepare`: first `commit`, if there is one, as below. [`Acceptor::prepare`]; read; and when its
//!   write is on the drive, [`Acceptor::answer`].
//! * `Propose`: [`Acceptor::propose`]; when its write is on the drive, `Voted`.
//! * `Commit`: [`Acceptor::commit`]; when update and write are on the drive, [`Acceptor::committed`], and
//!   `Committed`. (An update of before the table was truncated is left out.)
//! * `Refresh`: the same, then [`Acceptor::confirm`], and `Refreshed`.
//! * `Apply`: the update is an ordinary write; then `Committed`.
//!
//! When replicas move, rounds of neighbouring epochs still meet (each pending replica needs one vote
//! more). But what was accepted is not copied: before a movement ends, all that is accepted and not
//! committed must be finished by rounds at the old replicas (`PaxosCleanup`).

mod acceptor;
mod ballot;
mod commitment;
mod contention;
mod encoding;
mod message;
mod operation;
mod participants;
mod preparation;
mod proposal;
mod proposer;
mod row;
mod votes;

pub use acceptor::{Acceptor, Permission, Prepared, Transition};
pub use ballot::{Ballot, Scope};
pub use contention::Latencies;
pub use message::{Answer, Permitted, Request, RequestId, Step};
pub use operation::{Action, Cause, Decision, Failure, Moment, Operation, Phase, Timing, Verdict};
pub use participants::{Participants, Voter};
pub use proposal::{Proposal, Update};
pub use proposer::Proposer;
pub use row::{Columns, Kept, Lifetime, Row, Write};
