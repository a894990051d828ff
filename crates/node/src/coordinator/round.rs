//! One round of questions: as many replicas as have to answer are asked, and others in their place
//! where they fail (`AbstractReadExecutor`, `ReadCallback`). Where they are slow, one more is asked, as
//! the table wants it (`speculative_retry`).

use std::rc::Rc;

use cluster::{Consistency, FailureReason, NodeId, Outcome, ReadQuorum, Replica};
use io::Instant;

use super::ask::{Answer, Asked, Read};
use super::observed::Speculation;
use super::replicas::failures;
use super::together::Together;
use crate::error::RequestError;
use crate::metadata::Metadata;
use crate::shard::Shard;

/// Who may be asked, and how many have to answer until when.
pub(super) struct Readers<'m> {
    pub(super) shard: &'m Rc<Shard>,
    pub(super) metadata: &'m Metadata,
    /// The replicas, the preferred first.
    pub(super) replicas: &'m [Replica<'m>],
    pub(super) consistency: Consistency,
    pub(super) began: Instant,
    pub(super) deadline: Instant,
    /// When one more is asked than has to answer.
    pub(super) speculation: Speculation,
}

/// What is asked in a round: of the first replica, and of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Questions {
    pub(super) first: Asked,
    pub(super) others: Asked,
}

/// The answers of a round, in the order in which they came.
pub(super) type Answers = Vec<(NodeId, Answer)>;

/// Those that were asked and have not answered.
struct Pending<'r> {
    answers: Together<'r, (NodeId, Result<Answer, FailureReason>)>,
    /// Since when each of them has the question.
    since: Vec<(NodeId, Instant)>,
}

impl Readers<'_> {
    /// Asks as many as `quorum` wants, and returns when enough have answered. `known` are answers that
    /// are there already.
    pub(super) async fn ask(
        &self,
        read: &Read,
        mut quorum: ReadQuorum,
        questions: Questions,
        known: Answers,
    ) -> Result<Answers, RequestError> {
        let mut pending = Pending {
            answers: Together::new(),
            since: Vec::new(),
        };
        if questions.others.is_data() {
            quorum = quorum.with_data_from_all();
        }
        for (at, node) in quorum.contacts().iter().enumerate() {
            if known.iter().any(|(known, _)| known == node) {
                continue;
            }
            let asked = match at {
                0 => questions.first,
                _ => questions.others,
            };
            self.push(&mut pending, read, *node, asked);
        }
        let mut answers = Answers::new();
        for (node, answer) in known {
            answers.push((node, answer));
            if let Some(outcome) = quorum.respond(node) {
                return self.end(outcome, answers, &quorum);
            }
        }
        let mut speculate_at = self.speculate_at();
        if self.speculation == Speculation::Always {
            self.ask_another(&mut pending, read, &mut quorum, questions);
        }
        let outcome = loop {
            let until = speculate_at.unwrap_or(self.deadline);
            let left = until.saturating_duration_since(self.shard.env.now());
            let next = self.shard.env.timeout(left, pending.answers.next());
            let outcome = match next.await {
                Ok(Some((node, answer))) => {
                    self.observe(&mut pending, node);
                    match answer {
                        Ok(answer) => {
                            answers.push((node, answer));
                            quorum.respond(node)
                        }
                        Err(reason) => {
                            self.ask_another(&mut pending, read, &mut quorum, questions);
                            quorum.fail(node, reason)
                        }
                    }
                }
                Err(_) if speculate_at.take().is_some() => {
                    if self.ask_another(&mut pending, read, &mut quorum, questions) {
                        self.shard.metrics.speculative_reads.add(1);
                    }
                    None
                }
                Ok(None) | Err(_) => quorum.time_out(),
            };
            if let Some(outcome) = outcome {
                break outcome;
            }
        };
        let now = self.shard.env.now();
        for (node, since) in pending.since {
            let waited = now.saturating_duration_since(since);
            self.shard.observed.unanswered(node, waited, now);
        }
        self.end(outcome, answers, &quorum)
    }

    /// When one more is asked, if that is before time is up and not at once.
    fn speculate_at(&self) -> Option<Instant> {
        let Speculation::After(time) = self.speculation else {
            return None;
        };
        let at = self.began + time;
        // Responses of each data centre are counted: one more of any is of no use.
        let useful = at < self.deadline && self.consistency != Consistency::EachQuorum;
        useful.then_some(at)
    }

    fn push<'r>(&'r self, pending: &mut Pending<'r>, read: &'r Read, node: NodeId, asked: Asked) {
        pending.since.push((node, self.shard.env.now()));
        pending.answers.push(async move {
            let answer = read.ask(self.shard, node, asked, self.deadline).await;
            (node, answer)
        });
    }

    /// Notes how long a node took to answer.
    fn observe(&self, pending: &mut Pending<'_>, node: NodeId) {
        let now = self.shard.env.now();
        pending.since.retain(|(asked, since)| {
            if *asked == node && node != self.metadata.own() {
                let took = now.saturating_duration_since(*since);
                self.shard.observed.answered(node, took, now);
            }
            *asked != node
        });
    }

    /// Asks a replica that was not asked yet, if there is one.
    fn ask_another<'r>(
        &'r self,
        pending: &mut Pending<'r>,
        read: &'r Read,
        quorum: &mut ReadQuorum,
        questions: Questions,
    ) -> bool {
        let mut others = self.replicas.iter();
        let Some(next) = others.find(|replica| quorum.may_ask(replica)) else {
            return false;
        };
        let asked = match quorum.data_present() {
            true => questions.others,
            false => questions.first,
        };
        quorum.ask(next, asked.is_data());
        self.push(pending, read, next.node, asked);
        true
    }

    fn end(
        &self,
        outcome: Outcome,
        answers: Answers,
        quorum: &ReadQuorum,
    ) -> Result<Answers, RequestError> {
        match outcome {
            Outcome::Done => Ok(answers),
            outcome => Err(self.error(outcome, quorum.data_present())),
        }
    }

    /// What the client is told.
    pub(super) fn error(&self, outcome: Outcome, data_present: bool) -> RequestError {
        RequestError::Read {
            consistency: self.consistency,
            failures: failures(&outcome, self.metadata),
            data_present,
            outcome,
        }
    }
}
