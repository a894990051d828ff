//! One round of questions: as many replicas as have to answer are asked, and others in their place
//! where they fail or are slow (`AbstractReadExecutor`, `ReadCallback`).

use std::rc::Rc;

use cluster::{Consistency, FailureReason, NodeId, Outcome, ReadQuorum, Replica};
use io::Instant;

use super::ask::{Answer, Asked, Read};
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
    pub(super) deadline: Instant,
}

/// What is asked in a round: of the first replica, and of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Questions {
    pub(super) first: Asked,
    pub(super) others: Asked,
}

/// The answers of a round, in the order in which they came.
pub(super) type Answers = Vec<(NodeId, Answer)>;

type Pending<'r> = Together<'r, (NodeId, Result<Answer, FailureReason>)>;

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
        let mut pending: Pending<'_> = Together::new();
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
        loop {
            let left = self
                .deadline
                .saturating_duration_since(self.shard.env.now());
            let outcome = match self.shard.env.timeout(left, pending.next()).await {
                Ok(Some((node, Ok(answer)))) => {
                    answers.push((node, answer));
                    quorum.respond(node)
                }
                Ok(Some((node, Err(reason)))) => {
                    self.ask_another(&mut pending, read, &mut quorum, questions);
                    quorum.fail(node, reason)
                }
                Ok(None) | Err(_) => quorum.time_out(),
            };
            if let Some(outcome) = outcome {
                return self.end(outcome, answers, &quorum);
            }
        }
    }

    fn push<'r>(&'r self, pending: &mut Pending<'r>, read: &'r Read, node: NodeId, asked: Asked) {
        pending.push(async move {
            let answer = read.ask(self.shard, node, asked, self.deadline).await;
            (node, answer)
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
