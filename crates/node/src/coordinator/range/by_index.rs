//! Reading a range by an index of which several replicas have to answer: first they name rows
//! ([`Candidates`] says why that is enough), then these are read as any others.

use std::rc::Rc;

use cluster::ReadQuorum;
use model::{
    ClusteringSelection, DataLimits, DecoratedKey, PartitionSelection, ReadCommand, ReadPage, Slice,
};
use storage::{Candidates, Named};

use super::super::ask::{Answer, Asked, Read};
use super::super::round::{Answers, Questions, Readers};
use super::super::together::Together;
use crate::error::RequestError;
use crate::scan::{spend, truncate_rows};

/// How many partitions are read at once.
const AT_ONCE: usize = 16;

/// What was found so far.
struct Found<'c> {
    command: &'c ReadCommand,
    /// What may still be given.
    limits: DataLimits,
    page: ReadPage,
}

impl Readers<'_> {
    /// Reads the rows that the indexes of the replicas name.
    pub(super) async fn by_index(
        &self,
        command: &ReadCommand,
        mut candidates: Candidates,
        quorum: &ReadQuorum,
    ) -> Result<ReadPage, RequestError> {
        let mut found = Found {
            command,
            limits: command.limits,
            page: ReadPage::default(),
        };
        loop {
            let pages = self.named(&candidates, quorum).await?;
            let Some(window) = candidates.window(&pages) else {
                let error = "a replica does not say how far it has looked through an index";
                return Err(RequestError::Server(error.to_owned()));
            };
            let mut rest = &window.named[..];
            while !rest.is_empty() {
                if found.is_full() {
                    found.page.more = true;
                    return Ok(found.page);
                }
                let (next, behind) = rest.split_at(rest.len().min(AT_ONCE));
                let commands: Vec<ReadCommand> = next.iter().map(|n| found.command(n)).collect();
                for page in self.all(&commands, quorum).await {
                    if found.take(page?) {
                        return Ok(found.page);
                    }
                }
                rest = behind;
            }
            match window.behind {
                None => return Ok(found.page),
                Some(behind) => candidates.go_on(behind),
            }
        }
    }

    /// What each of as many replicas as have to answer names.
    async fn named(
        &self,
        candidates: &Candidates,
        quorum: &ReadQuorum,
    ) -> Result<Vec<ReadPage>, RequestError> {
        let read = Read::new(Rc::new(candidates.command().clone())).traced(self.trace);
        let questions = Questions {
            first: Asked::Live,
            others: Asked::Live,
        };
        let asking = self.ask(&read, quorum.clone(), questions, Answers::new());
        let answers = asking.await?.into_iter();
        Ok(answers
            .filter_map(|(_, answer)| match answer {
                Answer::Live(page) => Some(page),
                _ => None,
            })
            .collect())
    }

    /// The answers to some commands, in their order.
    async fn all(
        &self,
        commands: &[ReadCommand],
        quorum: &ReadQuorum,
    ) -> Vec<Result<ReadPage, RequestError>> {
        let mut reading = Together::new();
        for (number, command) in commands.iter().enumerate() {
            let page = self.reconciled(command, quorum);
            reading.push(async move { (number, page.await) });
        }
        let mut pages = Vec::with_capacity(commands.len());
        while let Some(page) = reading.next().await {
            pages.push(page);
        }
        pages.sort_by_key(|(number, _)| *number);
        pages.into_iter().map(|(_, page)| page).collect()
    }
}

impl Found<'_> {
    fn is_full(&self) -> bool {
        self.limits.rows == 0 || self.limits.bytes == 0
    }

    /// How many rows of a partition may still be given.
    fn left_of(&self, key: &DecoratedKey) -> u32 {
        let resume = self.command.resume.as_ref();
        let most = match resume.filter(|resume| resume.key == *key) {
            Some(resume) => resume.remaining_in_partition,
            None => self.limits.rows_per_partition,
        };
        let last = self.page.partitions.last();
        let given = last.filter(|last| last.key == *key);
        most.saturating_sub(given.map_or(0, |given| given.rows.len() as u32))
    }

    /// Reads what is named of a partition.
    fn command(&self, named: &Named) -> ReadCommand {
        let resume = self.command.resume.as_ref();
        let clustering = match &named.rows {
            None => self.command.clustering.clone(),
            Some(rows) => ClusteringSelection {
                slices: rows.iter().cloned().map(Slice::of_prefix).collect(),
                reversed: false,
            },
        };
        ReadCommand {
            partitions: PartitionSelection::Key(named.key.clone()),
            clustering,
            limits: DataLimits {
                rows_per_partition: self.left_of(&named.key),
                ..self.limits
            },
            // Rows that are named lie behind it.
            resume: resume
                .filter(|resume| named.rows.is_none() && resume.key == named.key)
                .cloned(),
            // What is found of a partition is put together, row by row.
            packed: false,
            ..self.command.clone()
        }
    }

    /// Takes what a partition gave; says whether the page is complete. What was read at the same time had
    /// the same limits.
    fn take(&mut self, mut page: ReadPage) -> bool {
        if page.partitions.is_empty() {
            return false;
        }
        if self.is_full() {
            self.page.more = true;
            return true;
        }
        let now = self.command.now_seconds;
        self.page.more = page.more | truncate_rows(&mut page.partitions, self.limits.rows, now);
        spend(&mut self.limits, &page.partitions, now);
        for partition in page.partitions {
            match self.page.partitions.last_mut() {
                Some(last) if last.key == partition.key => last.rows.extend(partition.rows),
                _ => self.page.partitions.push(partition),
            }
        }
        self.page.more
    }
}
