//! What a trace says of agreeing on conditional updates and serial reads (`PaxosState`, `StorageProxy.doPaxos`).

use cluster::NodeId;
use cluster::paxos::{Answer, Ballot, Proposal, Request, RequestId, Step};
use model::Table;

use super::Trace;

impl Trace {
    /// A round begins.
    pub(crate) fn preparing(&self, ballot: Ballot) {
        self.event(format!("Preparing {ballot}"));
    }

    /// A replica is asked. Of what this node itself is asked to vote on, the vote is told.
    pub(crate) fn asking(&self, request: &Request, table: &Table, to: NodeId) {
        if to != self.shard.metadata().own() {
            return self.sending(messages(request.id().step).0, to);
        }
        let (Request::Commit(proposal) | Request::Apply(proposal)) = request else {
            return;
        };
        let Proposal { ballot, update } = proposal;
        self.event(format!("Committing proposal {ballot}"));
        if update.is_some() {
            self.event("Appending to commitlog");
            self.event(format!("Adding to {} memtable", table.name));
        }
    }

    /// A replica has answered.
    pub(crate) fn answered<R>(&self, from: NodeId, id: RequestId, answer: &Answer<R>) {
        if from != self.shard.metadata().own() {
            return self.received(messages(id.step).1, from);
        }
        let ballot = id.ballot;
        let older_than = |other| format!("Promise rejected; {ballot} older than {other}");
        self.event(match answer {
            Answer::Rejected(other) => older_than(other),
            Answer::Permitted(permitted) => match &permitted.superseded_by {
                None => format!("Promising ballot {ballot}"),
                Some(other) => older_than(other),
            },
            Answer::Voted(None) => format!("Accepting proposal {ballot}"),
            Answer::Voted(Some(other)) => {
                format!("Rejecting proposal for {ballot} because in_progress is now {other}")
            }
            Answer::Refreshed(_) | Answer::Committed => return,
        });
    }
}

/// The names of the messages that ask, and that answer (`Verb`).
fn messages(step: Step) -> (&'static str, &'static str) {
    match step {
        Step::Prepare => ("PAXOS2_PREPARE_REQ", "PAXOS2_PREPARE_RSP"),
        Step::Refresh => ("PAXOS2_PREPARE_REFRESH_REQ", "PAXOS2_PREPARE_REFRESH_RSP"),
        Step::Propose => ("PAXOS2_PROPOSE_REQ", "PAXOS2_PROPOSE_RSP"),
        Step::Commit => ("PAXOS_COMMIT_REQ", "PAXOS_COMMIT_RSP"),
    }
}
