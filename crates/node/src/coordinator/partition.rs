//! Reading a partition of which other nodes have replicas (`SinglePartitionReadCommand`,
//! `DigestResolver`, `DataResolver`).
//!
//! Where one replica is enough, the nearest answers with live rows. Where several have to answer, the
//! nearest says all that it knows and the others give digests of the same. If these agree, what the one
//! said is what all know; if not, all of them say it, it is reconciled, and before the client gets it
//! those who lacked some of it are told, if the table wants that ([`super::repair`]). A range, or a part of
//! it that the same replicas have ([`super::range`]), is read in the same way; Cassandra has all of them send
//! all of it.

use std::rc::Rc;
use std::time::Duration;

use cluster::{Consistency, FailureReason, NodeId, Outcome, ReadQuorum};
use model::{PartitionSelection, ReadCommand, ReadPage, Token, VersionPage};
use storage::{Reconciled, Reconciliation, Step};

use super::ask::{Answer, Asked, Read};
use super::replicas::preferred;
use super::round::{Answers, ManyIndexes, Questions, Readers};
use super::together::Together;
use crate::error::RequestError;
use crate::shard::Shard;
use crate::trace::Traced;

/// Reads a partition from as many replicas of its token as the level asks for.
pub(super) async fn read(
    shard: &Rc<Shard>,
    (command, token): (&ReadCommand, Token),
    consistency: Consistency,
    timeout: Duration,
    trace: Traced<'_>,
) -> Result<ReadPage, RequestError> {
    let metadata = shard.metadata();
    let placement = metadata.placement(&command.table.keyspace);
    let replicas = preferred(shard, &metadata, placement, token);
    let data_center = &shard.local().data_center;
    let strategy = placement.strategy();
    let quorum = ReadQuorum::new(consistency, strategy, data_center, &replicas)?;
    let began = shard.env.now();
    // No index is asked for what is in one partition.
    let many_indexes = ManyIndexes::default();
    let readers = Readers {
        shard,
        metadata: &metadata,
        replicas: &replicas,
        consistency,
        began,
        deadline: began + timeout,
        speculation: shard.observed.speculation(&command.table, began),
        trace,
        many_indexes: &many_indexes,
    };
    let page = match quorum.block_for() {
        1 => readers.live(command, quorum).await,
        _ => readers.reconciled(command, &quorum).await,
    };
    let now = shard.env.now();
    let took = now.saturating_duration_since(began);
    shard.observed.have_read(command.table.id, took, now);
    page
}

impl Readers<'_> {
    /// Reads from one replica.
    pub(super) async fn live(
        &self,
        command: &ReadCommand,
        quorum: ReadQuorum,
    ) -> Result<ReadPage, RequestError> {
        let read = Read::new(Rc::new(command.clone())).traced(self.trace);
        let questions = Questions {
            first: Asked::Live,
            others: Asked::Live,
        };
        let answers = self.ask(&read, quorum, questions, Answers::new()).await?;
        let mut pages = answers.into_iter().filter_map(|(_, answer)| match answer {
            Answer::Live(page) => Some(page),
            _ => None,
        });
        let none = || RequestError::Server("a read ended without an answer".to_owned());
        pages.next().ok_or_else(none)
    }

    /// Reads from several replicas.
    pub(super) async fn reconciled(
        &self,
        command: &ReadCommand,
        quorum: &ReadQuorum,
    ) -> Result<ReadPage, RequestError> {
        let blocking = command.table.options.read_repair == "BLOCKING";
        let mut reading = Reading {
            readers: self,
            quorum,
            reconciliation: Reconciliation::new(command, 1, blocking),
            participants: Vec::new(),
        };
        reading.run().await?;
        let Reconciled { page, repairs } = reading.reconciliation.finish();
        if repairs.iter().any(|of| !of.is_empty()) {
            let repair = self.repair(&reading.participants, repairs);
            Box::pin(repair).await?;
        }
        Ok(page)
    }
}

/// A read that several replicas have to answer.
struct Reading<'r, 'c> {
    readers: &'r Readers<'r>,
    /// How many have to.
    quorum: &'r ReadQuorum,
    reconciliation: Reconciliation<'c>,
    /// Once they disagreed: who takes part, in the order of the reconciliation. Before, one speaks for
    /// all.
    participants: Vec<NodeId>,
}

impl Reading<'_, '_> {
    async fn run(&mut self) -> Result<(), RequestError> {
        loop {
            match self.reconciliation.step() {
                Step::Done => return Ok(()),
                Step::Working => self.readers.shard.env.maybe_yield().await,
                Step::Ask(asked) if self.participants.is_empty() => {
                    for (_, command) in asked {
                        self.ask_jointly(command).await?;
                    }
                }
                Step::Ask(asked) => self.ask_each(asked).await?,
            }
        }
    }

    /// Asks one for all and the others for digests; they part if these differ.
    async fn ask_jointly(&mut self, command: Rc<ReadCommand>) -> Result<(), RequestError> {
        let read = Read::new(command).traced(self.readers.trace);
        let questions = Questions {
            first: Asked::Digested,
            others: Asked::Digest,
        };
        let asking = self
            .readers
            .ask(&read, self.quorum.clone(), questions, Answers::new());
        match agreed(asking.await?) {
            Ok(page) => {
                self.reconciliation.answer(0, page);
                Ok(())
            }
            Err(answers) => self.part(&read, answers).await,
        }
    }

    /// From here on each of those who answered speaks for itself.
    fn split(&mut self, read: &Read, answers: Answers) {
        let placement = self
            .readers
            .metadata
            .placement(&read.command.table.keyspace);
        self.reconciliation.split(answers.len());
        for (number, (node, answer)) in answers.into_iter().enumerate() {
            self.participants.push(node);
            self.reconciliation.answer(number, versions(answer));
        }
        let is_pending = match &read.command.partitions {
            PartitionSelection::Key(key) => !placement.replicas(key.token()).pending.is_empty(),
            PartitionSelection::Range { .. } => {
                let mut ranges = placement.ranges();
                ranges.any(|(_, replicas)| !replicas.pending.is_empty())
            }
        };
        if is_pending {
            // Those that are to come are not asked, and yet have to know what the client gets to know.
            self.reconciliation.add_stranger();
        }
    }

    /// Has all say what they know.
    async fn part(&mut self, read: &Read, answers: Answers) -> Result<(), RequestError> {
        let readers = self.readers;
        readers.shard.metrics.mismatched_reads.add(1);
        if let (Some(trace), PartitionSelection::Key(key)) =
            (readers.trace, &read.command.partitions)
        {
            trace.mismatch(key);
        }
        let contacted: Vec<NodeId> = answers.iter().map(|(node, _)| *node).collect();
        // Those that answered first are asked first, and what they said is not asked again.
        let mut replicas = readers.replicas.to_vec();
        replicas.sort_by_key(|replica| !contacted.contains(&replica.node));
        let metadata = readers.metadata;
        let placement = metadata.placement(&read.command.table.keyspace);
        let data_center = &readers.shard.local().data_center;
        let strategy = placement.strategy();
        let quorum = ReadQuorum::new(readers.consistency, strategy, data_center, &replicas)?;
        let data = |(_, answer): &(NodeId, Answer)| matches!(answer, Answer::Digested(..));
        let known: Answers = answers.into_iter().filter(data).collect();
        let questions = Questions {
            first: Asked::Versions,
            others: Asked::Versions,
        };
        let readers = Readers {
            replicas: &replicas,
            ..*readers
        };
        let answers = readers.ask(read, quorum, questions, known).await?;
        self.split(read, answers);
        Ok(())
    }

    /// Asks some of those that take part to go on.
    async fn ask_each(&mut self, asked: Vec<(usize, Rc<ReadCommand>)>) -> Result<(), RequestError> {
        let readers = self.readers;
        let reads: Vec<(usize, Read)> = asked
            .into_iter()
            .map(|(number, command)| (number, Read::new(command).traced(readers.trace)))
            .collect();
        let mut pending = Together::new();
        for (number, read) in &reads {
            let node = self.participants[*number];
            pending.push(async move {
                let asking = read.ask(readers.shard, node, Asked::Versions, readers.deadline);
                (*number, asking.await)
            });
        }
        let block_for = self.quorum.block_for();
        // They have answered before: all but one are taken to do so again.
        let received = block_for.saturating_sub(1);
        loop {
            let left = readers
                .deadline
                .saturating_duration_since(readers.shard.env.now());
            match readers.shard.env.timeout(left, pending.next()).await {
                Ok(None) => return Ok(()),
                Ok(Some((number, Ok(answer)))) => {
                    self.reconciliation.answer(number, versions(answer));
                }
                Ok(Some((number, Err(reason)))) => {
                    let failures = [(self.participants[number], reason)];
                    let failed = Outcome::Failure {
                        received,
                        block_for,
                        failures: failures.into(),
                    };
                    let outcome = match reason {
                        FailureReason::Timeout => timeout(received, block_for),
                        _ => failed,
                    };
                    return Err(readers.error(outcome, true));
                }
                Err(_) => return Err(readers.error(timeout(received, block_for), true)),
            }
        }
    }
}

fn timeout(received: u32, block_for: u32) -> Outcome {
    Outcome::Timeout {
        received,
        block_for,
    }
}

/// What all know, if they know the same; else their answers.
fn agreed(answers: Answers) -> Result<VersionPage, Answers> {
    let digest = |(_, answer): &(NodeId, Answer)| match answer {
        Answer::Digested(_, digest) | Answer::Digest(digest) => Some(*digest),
        Answer::Live(_) | Answer::Versions(_) => None,
    };
    let first = answers.first().and_then(digest);
    let same = first.is_some() && answers.iter().all(|answer| digest(answer) == first);
    let data = |(_, answer): &(NodeId, Answer)| matches!(answer, Answer::Digested(..));
    match answers.iter().position(data) {
        Some(at) if same => {
            let mut answers = answers;
            Ok(versions(answers.swap_remove(at).1))
        }
        _ => Err(answers),
    }
}

/// What a replica knows.
fn versions(answer: Answer) -> VersionPage {
    match answer {
        Answer::Versions(page) | Answer::Digested(page, _) => page,
        Answer::Live(_) | Answer::Digest(_) => VersionPage::default(),
    }
}
