//! One round of questions: as many replicas as have to answer are asked, and others in their place
//! where they fail (`AbstractReadExecutor`, `ReadCallback`). Where they are slow, one more is asked, as
//! the table wants it (`speculative_retry`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cluster::{Consistency, FailureReason, NodeId, Outcome, ReadQuorum, Replica};
use io::Instant;
use model::{ReadPage, Scanned};

use super::ask::{Answer, Asked, Read};
use super::observed::Speculation;
use super::replicas::failures;
use super::together::Together;
use crate::error::RequestError;
use crate::metadata::Metadata;
use crate::shard::Shard;
use crate::trace::{Traced, messages};

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
    pub(super) trace: Traced<'m>,
    /// Those that have looked into more sstables of an index than clients are warned of, and into how many.
    pub(super) many_indexes: &'m ManyIndexes,
}

/// Which nodes have looked into more sstables of an index than clients are warned of, and into how many
/// (`WarningContext`).
#[derive(Debug, Default)]
pub(super) struct ManyIndexes(RefCell<BTreeMap<NodeId, u64>>);

impl ManyIndexes {
    fn add(&self, node: NodeId, scanned: Scanned) {
        if scanned.index_sstables > 0 {
            let mut nodes = self.0.borrow_mut();
            let most = nodes.entry(node).or_default();
            *most = scanned.index_sstables.max(*most);
        }
    }

    /// The client is to be told of it with this page.
    pub(super) fn tell(&self, page: &mut ReadPage) {
        let nodes = self.0.borrow();
        page.scanned.index_nodes = nodes.len() as u64;
        page.scanned.index_sstables = nodes.values().max().copied().unwrap_or(0);
    }
}

/// What is asked in a round: of the first replica, and of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Questions {
    pub(super) first: Asked,
    pub(super) others: Asked,
}

/// The answers of a round, in the order in which they came.
pub(super) type Answers = Vec<(NodeId, Answer)>;

/// A round under way.
struct Round<'r> {
    readers: &'r Readers<'r>,
    read: &'r Read,
    questions: Questions,
    quorum: ReadQuorum,
    answers: Answers,
    pending: Together<'r, (NodeId, Result<Answer, FailureReason>)>,
    /// Who was asked and has not answered, and since when.
    since: Vec<(NodeId, Instant)>,
    /// When one more is asked.
    speculate_at: Option<Instant>,
}

impl Readers<'_> {
    /// Asks as many as `quorum` wants, and returns when enough have answered. `known` are answers that
    /// are there already.
    pub(super) async fn ask(
        &self,
        read: &Read,
        quorum: ReadQuorum,
        questions: Questions,
        known: Answers,
    ) -> Result<Answers, RequestError> {
        let mut round = Round {
            readers: self,
            read,
            questions,
            quorum: match questions.others.is_data() {
                true => quorum.with_data_from_all(),
                false => quorum,
            },
            answers: Answers::new(),
            pending: Together::new(),
            since: Vec::new(),
            speculate_at: self.speculate_at(),
        };
        let mut outcome = round.begin(known);
        while outcome.is_none() {
            outcome = round.go_on().await;
        }
        round.forget_pending();
        match outcome {
            Some(Outcome::Done) | None => Ok(round.answers),
            Some(outcome) => Err(self.error(outcome, round.quorum.data_present())),
        }
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

impl<'r> Round<'r> {
    /// Asks those who have to answer.
    fn begin(&mut self, known: Answers) -> Option<Outcome> {
        let contacts = self.quorum.contacts().to_vec();
        for (at, node) in contacts.into_iter().enumerate() {
            if known.iter().any(|(known, _)| *known == node) {
                continue;
            }
            let asked = match at {
                0 => self.questions.first,
                _ => self.questions.others,
            };
            self.push(node, asked);
        }
        for (node, answer) in known {
            self.answers.push((node, answer));
            if let Some(outcome) = self.quorum.respond(node) {
                return Some(outcome);
            }
        }
        if self.readers.speculation == Speculation::Always {
            self.ask_another();
        }
        None
    }

    /// Waits for the next thing to happen. `Some`: the round is over.
    async fn go_on(&mut self) -> Option<Outcome> {
        let env = &self.readers.shard.env;
        let until = self.speculate_at.unwrap_or(self.readers.deadline);
        let left = until.saturating_duration_since(env.now());
        match env.timeout(left, self.pending.next()).await {
            Ok(Some((node, answer))) => {
                self.observe(node, answer.is_ok());
                if let Ok(answer) = &answer {
                    self.note(node, answer);
                    if let Some(scanned) = answer.scanned() {
                        self.readers.many_indexes.add(node, scanned);
                    }
                }
                match answer {
                    Ok(answer) => {
                        self.answers.push((node, answer));
                        self.quorum.respond(node)
                    }
                    Err(reason) => {
                        self.ask_another();
                        self.quorum.fail(node, reason)
                    }
                }
            }
            Err(_) if self.speculate_at.take().is_some() => {
                if self.ask_another() {
                    if let Some(trace) = self.readers.trace {
                        trace.speculating();
                    }
                    self.readers.shard.metrics.speculative_reads.add(1);
                }
                None
            }
            Ok(None) | Err(_) => self.quorum.time_out(),
        }
    }

    fn push(&mut self, node: NodeId, asked: Asked) {
        let (readers, read) = (self.readers, self.read);
        self.since.push((node, readers.shard.env.now()));
        match readers.trace {
            Some(trace) if node == readers.metadata.own() => trace.reading(&read.command),
            Some(trace) => trace.sending(messages(&read.command).0, node),
            None => {}
        }
        self.pending.push(async move {
            let answer = read.ask(readers.shard, node, asked, readers.deadline);
            (node, answer.await)
        });
    }

    /// Tells the trace of an answer.
    fn note(&self, node: NodeId, answer: &Answer) {
        let Some(trace) = self.readers.trace else {
            return;
        };
        if node != self.readers.metadata.own() {
            trace.received(messages(&self.read.command).1, node);
        } else if let Some(scanned) = answer.scanned() {
            trace.have_read(&self.read.command, scanned);
        }
    }

    /// Asks a replica that was not asked yet, if there is one.
    fn ask_another(&mut self) -> bool {
        let mut others = self.readers.replicas.iter();
        let Some(next) = others.find(|replica| self.quorum.may_ask(replica)) else {
            return false;
        };
        let asked = match self.quorum.data_present() {
            true => self.questions.others,
            false => self.questions.first,
        };
        self.quorum.ask(next, asked.is_data());
        self.push(next.node, asked);
        true
    }

    /// Notes how long a node took to answer. One that failed is taken to have been as late as any.
    fn observe(&mut self, node: NodeId, answered: bool) {
        let Some(at) = self.since.iter().position(|(asked, _)| *asked == node) else {
            return;
        };
        let (_, since) = self.since.swap_remove(at);
        let readers = self.readers;
        let now = readers.shard.env.now();
        let took = match answered {
            true => now.saturating_duration_since(since),
            false => readers.shard.timeouts.read(),
        };
        if node != readers.metadata.own() {
            readers.shard.observed.answered(node, took, now);
        }
    }

    /// Nobody waits any more for those that have not answered.
    fn forget_pending(&mut self) {
        let readers = self.readers;
        let now = readers.shard.env.now();
        for (node, since) in self.since.drain(..) {
            let waited = now.saturating_duration_since(since);
            readers.shard.observed.unanswered(node, waited, now);
        }
    }
}
