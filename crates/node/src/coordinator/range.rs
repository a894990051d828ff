//! Reading a range of the ring of which other nodes have replicas (`RangeCommandIterator`,
//! `ReplicaPlanIterator`, `ReplicaPlanMerger`).
//!
//! The range is cut where replicas change. Neighbouring [`pieces`] are read as one as long as enough
//! replicas have both of them, so that in a small cluster few questions are asked. The first pieces are
//! read one at a time or some at once, as many as the limit seems to need; the next ones by what was
//! found in those. Where an index decides a filter, replicas first name the rows that may be meant
//! ([`by_index`]). Results are in the order of the ring, and what comes behind a full page is dropped.

mod by_index;
mod pieces;

use std::rc::Rc;
use std::time::Duration;

use cluster::{Consistency, ReadQuorum, Replica};
use model::{DataLimits, PartitionBound, PartitionSelection, ReadCommand, ReadPage, Resume};
use smallvec::SmallVec;
use storage::Candidates;

use super::observed::Speculation;
use super::replicas::preferred;
use super::round::{ManyIndexes, Readers};
use super::together::Together;
use crate::error::RequestError;
use crate::metadata::Metadata;
use crate::scan::{spend, truncate_rows};
use crate::shard::Shard;
use crate::trace::Traced;
use pieces::Piece;

/// How many pieces are read at once at most: each may answer with a page.
const MOST_AT_ONCE: usize = 8;
/// So much less is taken to be found than is expected (`CONCURRENT_SUBREQUESTS_MARGIN`).
const MARGIN: f64 = 0.1;

/// Reads from as many replicas of each piece as the level asks for.
pub(super) async fn read(
    shard: &Rc<Shard>,
    command: &ReadCommand,
    consistency: Consistency,
    timeout: Duration,
    trace: Traced<'_>,
) -> Result<ReadPage, RequestError> {
    let metadata = shard.metadata();
    let mut scan = Scan::new(shard, &metadata, command, consistency);
    let many_indexes = ManyIndexes::default();
    let deadline = shard.env.now() + timeout;
    while let Some(batch) = scan.next_batch()? {
        let mut reading = Together::new();
        for (number, part) in batch.iter().enumerate() {
            let noting = (trace, &many_indexes);
            let reading_part = part.read(shard, &metadata, (consistency, deadline), noting);
            reading.push(async move { (number, reading_part.await) });
        }
        let mut pages: Vec<_> = batch.iter().map(|_| None).collect();
        while let Some((number, page)) = reading.next().await {
            pages[number] = Some(page);
        }
        drop(reading);
        scan.take(batch, pages.into_iter().flatten())?;
    }
    many_indexes.tell(&mut scan.page);
    Ok(scan.page)
}

/// A range being read.
struct Scan<'m> {
    shard: &'m Rc<Shard>,
    metadata: &'m Metadata,
    command: &'m ReadCommand,
    consistency: Consistency,
    /// What was not read yet, in reverse.
    pieces: Vec<Piece>,
    /// Where in the first piece the page before ended.
    resume: Option<Resume>,
    /// How many pieces are read at once.
    at_once: usize,
    /// How many were read, and how many rows were found in them.
    read: usize,
    found: u64,
    /// What may still be given.
    limits: DataLimits,
    page: ReadPage,
}

/// Some pieces that are read as one.
struct Part<'m> {
    command: ReadCommand,
    /// Those that have all of them, the preferred first.
    replicas: SmallVec<[Replica<'m>; 1]>,
    quorum: ReadQuorum,
    pieces: usize,
}

impl<'m> Scan<'m> {
    fn new(
        shard: &'m Rc<Shard>,
        metadata: &'m Metadata,
        command: &'m ReadCommand,
        consistency: Consistency,
    ) -> Scan<'m> {
        let placement = metadata.placement(&command.table.keyspace);
        let mut pieces = pieces::split(command, placement.ranges().map(|(end, _)| end));
        pieces.reverse();
        let mut scan = Scan {
            shard,
            metadata,
            command,
            consistency,
            pieces,
            resume: command.resume.clone(),
            at_once: 1,
            read: 0,
            found: 0,
            limits: command.limits,
            page: ReadPage::default(),
        };
        scan.at_once = scan.first_at_once();
        scan
    }

    /// How many pieces to read at first, by what this node has of the table.
    fn first_at_once(&self) -> usize {
        let placement = self.metadata.placement(&self.command.table.keyspace);
        let shards = u64::from(self.shard.sharder.shards());
        let here = self.shard.store.partitions(self.command.table.id) * shards;
        let own = self.metadata.own();
        let (mut ranges, mut of_own) = (0u32, 0u32);
        for (_, replicas) in placement.ranges() {
            ranges += 1;
            of_own += u32::from(replicas.natural.contains(&own));
        }
        if here == 0 || of_own == 0 {
            return 1;
        }
        let of_piece = here as f64 / f64::from(of_own) * (1.0 - MARGIN);
        let wanted = (f64::from(self.limits.rows) / of_piece).ceil();
        (wanted as usize).clamp(1, MOST_AT_ONCE.min(ranges as usize))
    }

    /// The parts that are read next; `None` if the page is complete.
    fn next_batch(&mut self) -> Result<Option<Vec<Part<'m>>>, RequestError> {
        if self.page.more || self.pieces.is_empty() {
            return Ok(None);
        }
        if self.limits.rows == 0 || self.limits.bytes == 0 {
            self.page.more = true;
            return Ok(None);
        }
        let mut batch = Vec::new();
        let mut pieces = 0;
        while pieces < self.at_once
            && let Some(part) = self.next_part()?
        {
            pieces += part.pieces;
            batch.push(part);
        }
        Ok(Some(batch))
    }

    /// The next piece, with as many behind it as can be read with it.
    fn next_part(&mut self) -> Result<Option<Part<'m>>, RequestError> {
        let Some(first) = self.pieces.pop() else {
            return Ok(None);
        };
        let placement = self.metadata.placement(&self.command.table.keyspace);
        // A token of which the part has all replicas, as long as there is one.
        let mut all_of = Some(first.token);
        let mut part = self.part(first)?;
        while let Some(next) = self.pieces.last() {
            // In a small cluster nearly every piece is of this kind: there is nothing to choose then.
            if all_of.is_some_and(|token| placement.same_readers(token, next.token)) {
                part.extend(next.end.clone());
                self.pieces.pop();
                continue;
            }
            all_of = None;
            // An error is for when it is its turn.
            let Ok(other) = self.part(next.clone()) else {
                break;
            };
            let Some(both) = self.merged(&part, &other) else {
                break;
            };
            part = both;
            self.pieces.pop();
        }
        part.command.resume = self.resume.take();
        Ok(Some(part))
    }

    fn part(&self, piece: Piece) -> Result<Part<'m>, RequestError> {
        let placement = self.metadata.placement(&self.command.table.keyspace);
        let mut replicas = preferred(self.shard, self.metadata, placement, piece.token);
        replicas.retain(|replica| replica.alive);
        let quorum = self.quorum(&replicas)?;
        Ok(Part {
            command: ReadCommand {
                partitions: PartitionSelection::Range {
                    start: piece.start,
                    end: piece.end,
                },
                limits: self.limits,
                resume: None,
                ..self.command.clone()
            },
            replicas,
            quorum,
            pieces: 1,
        })
    }

    fn quorum(&self, replicas: &[Replica<'_>]) -> Result<ReadQuorum, cluster::Unavailable> {
        let placement = self.metadata.placement(&self.command.table.keyspace);
        let data_center = &self.shard.local().data_center;
        ReadQuorum::new(
            self.consistency,
            placement.strategy(),
            data_center,
            replicas,
        )
    }

    /// Two neighbours as one, if enough replicas have both. Not where a replica of another data centre
    /// had to be asked for neither of them (`isWorthMergingForRangeQuery`).
    fn merged(&self, left: &Part<'m>, right: &Part<'m>) -> Option<Part<'m>> {
        let has = |part: &Part<'m>, replica: &Replica<'m>| part.replicas.contains(replica);
        let both = left.replicas.iter().filter(|replica| has(right, replica));
        let replicas: SmallVec<[Replica<'m>; 1]> = both.cloned().collect();
        let quorum = self.quorum(&replicas).ok()?;
        let data_center = &self.shard.local().data_center;
        let goes_far = |part: &Part<'m>, quorum: &ReadQuorum| {
            let asked = |replica: &&Replica<'m>| quorum.contacts().contains(&replica.node);
            let mut asked = part.replicas.iter().filter(asked);
            asked.any(|replica| replica.datacenter != data_center)
        };
        let worth_it = !goes_far(left, &quorum)
            || goes_far(left, &left.quorum)
            || goes_far(right, &right.quorum);
        let (PartitionSelection::Range { start, .. }, PartitionSelection::Range { end, .. }) =
            (&left.command.partitions, &right.command.partitions)
        else {
            return None;
        };
        worth_it.then(|| Part {
            command: ReadCommand {
                partitions: PartitionSelection::Range {
                    start: start.clone(),
                    end: end.clone(),
                },
                ..left.command.clone()
            },
            replicas,
            quorum,
            pieces: left.pieces + right.pieces,
        })
    }

    /// Takes what was found in a batch, in the order of the ring, until the page is full.
    fn take(
        &mut self,
        batch: Vec<Part<'m>>,
        pages: impl Iterator<Item = Result<ReadPage, RequestError>>,
    ) -> Result<(), RequestError> {
        self.read += batch.iter().map(|part| part.pieces).sum::<usize>();
        for page in pages {
            // What comes behind a full page is of no use, nor is why it does not come.
            if self.page.more {
                break;
            }
            if self.limits.rows == 0 || self.limits.bytes == 0 {
                let is_nothing = |page: &ReadPage| page.partitions.is_empty();
                self.page.more = !page.as_ref().is_ok_and(is_nothing);
                continue;
            }
            let mut page = page?;
            // Pieces that are read at the same time have the same limit.
            let now = self.command.now_seconds;
            self.page.more = page.more | truncate_rows(&mut page.partitions, self.limits.rows, now);
            self.found += spend(&mut self.limits, &page.partitions, now);
            self.page.partitions.append(&mut page.partitions);
        }
        self.at_once = self.next_at_once();
        Ok(())
    }

    /// How many pieces to read next, by what was found so far (`computeConcurrencyFactor`).
    fn next_at_once(&self) -> usize {
        let most = MOST_AT_ONCE.min(self.pieces.len()).max(1);
        if self.found == 0 {
            return most;
        }
        let of_piece = self.found as f64 / self.read.max(1) as f64;
        let wanted = (f64::from(self.limits.rows) / of_piece).round();
        (wanted as usize).clamp(1, most)
    }
}

impl Part<'_> {
    /// Takes the piece behind it, which has the same replicas.
    fn extend(&mut self, piece_end: PartitionBound) {
        if let PartitionSelection::Range { end, .. } = &mut self.command.partitions {
            *end = piece_end;
            self.pieces += 1;
        }
    }

    async fn read(
        &self,
        shard: &Rc<Shard>,
        metadata: &Metadata,
        (consistency, deadline): (Consistency, io::Instant),
        (trace, many_indexes): (Traced<'_>, &ManyIndexes),
    ) -> Result<ReadPage, RequestError> {
        let readers = Readers {
            shard,
            metadata,
            replicas: &self.replicas,
            consistency,
            began: shard.env.now(),
            deadline,
            // Cassandra does not speculate here either.
            speculation: Speculation::Never,
            trace,
            many_indexes,
        };
        if self.quorum.block_for() == 1 {
            return readers.live(&self.command, self.quorum.clone()).await;
        }
        match Candidates::of(&self.command) {
            Some(candidates) => {
                let read = readers.by_index(&self.command, candidates, &self.quorum);
                Box::pin(read).await
            }
            None => readers.reconciled(&self.command, &self.quorum).await,
        }
    }
}
