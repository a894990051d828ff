//! Writing anew what can be read of an sstable (`SortedTableScrubber`).
//!
//! Each partition is read twice: once to see how much of it can be read, once to be written, so
//! that memory stays bounded. One that is damaged is kept up to where it is; Cassandra drops it.
//! Partitions that are not in order are remembered, by place, and written afterwards, in order, to
//! sstables of their own.

use std::cell::Cell;
use std::fmt;

use model::{DecoratedKey, ShardId, Sharder};

use super::error::{SSTableError, WriteError};
use super::salvage::{Found, Salvage, closed, reinsert_overflowed};
use super::version::Version;
use super::writer::Writer;
use crate::{PartitionHead, Unfiltered};

/// Goes through an sstable that is scrubbed.
pub struct Scrub {
    salvage: Salvage,
    owner: Option<(Sharder, ShardId)>,
    /// Are expiries that overflowed made good?
    reinserts: bool,
    last: Option<DecoratedKey>,
    /// Partitions that come too late to be in order.
    late: Vec<Piece>,
    /// A partition that is cut, after it was said.
    cut: Option<Piece>,
    ended: bool,
    report: ScrubReport,
    fixed_rows: Cell<u64>,
}

/// What a scrub came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Partitions that are kept.
    pub kept: u64,
    /// Of them those that are cut, as the rest of them cannot be read.
    pub cut: u64,
    /// Of them those that were not in order.
    pub late: u64,
    /// Partitions with nothing in them.
    pub empty: u64,
    /// Partitions of which nothing can be read, as far as the index knows of them.
    pub lost: u64,
    /// Bytes of data behind the last partition that could be found without the index.
    pub lost_bytes: u64,
    /// Rows whose expiry had overflowed.
    pub fixed_rows: u64,
}

impl ScrubReport {
    /// The sum of what two came to.
    pub fn and(self, other: ScrubReport) -> ScrubReport {
        ScrubReport {
            kept: self.kept + other.kept,
            cut: self.cut + other.cut,
            late: self.late + other.late,
            empty: self.empty + other.empty,
            lost: self.lost + other.lost,
            lost_bytes: self.lost_bytes + other.lost_bytes,
            fixed_rows: self.fixed_rows + other.fixed_rows,
        }
    }

    /// Is anything lost?
    pub fn is_loss(&self) -> bool {
        self.cut + self.lost + self.lost_bytes > 0
    }
}

impl fmt::Display for ScrubReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} partitions in new sstable and {} empty (tombstoned) partitions dropped",
            self.kept, self.empty
        )?;
        if self.late > 0 {
            let late = self.late;
            write!(
                f,
                "; {late} out of order partitions are in a new sstable of their own"
            )?;
        }
        if self.fixed_rows > 0 {
            let rows = self.fixed_rows;
            write!(f, "; fixed {rows} rows with overflowed local deletion time")?;
        }
        if self.is_loss() {
            write!(
                f,
                "; {} partitions were cut and {} lost",
                self.cut, self.lost
            )?;
        }
        if self.lost_bytes > 0 {
            let bytes = self.lost_bytes;
            write!(
                f,
                ", the last one with {bytes} bytes behind which nobody knows where to go on"
            )?;
        }
        Ok(())
    }
}

/// A partition to be written, or the first items of it.
#[derive(Clone, Debug)]
pub struct Piece {
    found: Found,
    /// How many items of it.
    items: u64,
    /// Are they not all of it?
    is_cut: bool,
}

impl Piece {
    /// The partition.
    pub fn key(&self) -> &DecoratedKey {
        self.found.key()
    }

    /// How many rows and markers of it can be read.
    pub fn items(&self) -> u64 {
        self.items
    }
}

/// What comes next in an sstable that is scrubbed.
#[derive(Debug)]
pub enum ScrubEvent {
    /// A partition that is to be written now.
    Piece(Piece),
    /// A partition that comes after its place.
    Late(DecoratedKey),
    /// The index is of no use any more: as long as the data is sound, nothing is lost.
    NoIndex(SSTableError),
    /// A partition cannot be read, or not to its end.
    Damaged {
        /// Which, if that can be read; it is kept up to the damage then if it is `cut`.
        key: Option<DecoratedKey>,
        /// Is its beginning kept?
        cut: bool,
        /// What is wrong.
        error: SSTableError,
    },
}

impl Scrub {
    /// Goes through what a salvage finds; only what is this shard's, if there is an `owner`.
    pub fn new(salvage: Salvage, owner: Option<(Sharder, ShardId)>, reinserts: bool) -> Scrub {
        let version = salvage.sstable().descriptor().version;
        Scrub {
            salvage,
            owner,
            // Later versions have room.
            reinserts: reinserts && version < Version::Oa,
            last: None,
            late: Vec::new(),
            cut: None,
            ended: false,
            report: ScrubReport::default(),
            fixed_rows: Cell::new(0),
        }
    }

    /// What it came to so far.
    pub fn report(&self) -> ScrubReport {
        ScrubReport {
            fixed_rows: self.fixed_rows.get(),
            ..self.report
        }
    }

    /// Bytes of data that are behind it.
    pub fn done(&self) -> u64 {
        let length = self.salvage.sstable().data_length();
        length.saturating_sub(self.salvage.left())
    }

    /// The next event; `None` at the end. An error is one of the drive.
    pub async fn next(&mut self) -> Result<Option<ScrubEvent>, SSTableError> {
        loop {
            if let Some(piece) = self.cut.take() {
                return Ok(Some(self.keep(piece)));
            }
            if let Some(error) = self.salvage.take_index_damage() {
                return Ok(Some(ScrubEvent::NoIndex(error)));
            }
            if self.ended {
                return Ok(None);
            }
            let found = match self.salvage.next().await {
                Ok(None) => return Ok(None),
                Ok(Some(found)) => found,
                Err(error) => match self.lost(None, error).await? {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                },
            };
            if let Some(event) = self.found(found).await? {
                return Ok(Some(event));
            }
        }
    }

    async fn found(&mut self, found: Found) -> Result<Option<ScrubEvent>, SSTableError> {
        let readable = match self.salvage.measure(&found).await {
            Ok(readable) => readable,
            Err(error) => return self.lost(Some(found.key().clone()), error).await,
        };
        let items = readable.items;
        if let Some(error) = readable.damage {
            if !error.is_corruption() {
                return Err(error);
            }
            self.pass_over().await;
            if !self.is_ours(Some(found.key())) {
                return Ok(None);
            }
            if readable.is_empty {
                self.report.lost += 1;
                let (key, cut) = (Some(found.key().clone()), false);
                return Ok(Some(ScrubEvent::Damaged { key, cut, error }));
            }
            self.report.cut += 1;
            let (key, is_cut) = (Some(found.key().clone()), true);
            self.cut = Some(Piece {
                found,
                items,
                is_cut,
            });
            let cut = true;
            return Ok(Some(ScrubEvent::Damaged { key, cut, error }));
        }
        if !self.is_ours(Some(found.key())) {
            return Ok(None);
        }
        if readable.is_empty {
            self.report.empty += 1;
            return Ok(None);
        }
        let is_cut = false;
        let piece = Piece {
            found,
            items,
            is_cut,
        };
        Ok(Some(self.keep(piece)))
    }

    /// A partition is worth writing: now, or later.
    fn keep(&mut self, piece: Piece) -> ScrubEvent {
        self.report.kept += 1;
        if self.last.as_ref().is_some_and(|last| last >= piece.key()) {
            let key = piece.key().clone();
            self.report.late += 1;
            self.late.push(piece);
            return ScrubEvent::Late(key);
        }
        self.last = Some(piece.key().clone());
        ScrubEvent::Piece(piece)
    }

    async fn lost(
        &mut self,
        key: Option<DecoratedKey>,
        error: SSTableError,
    ) -> Result<Option<ScrubEvent>, SSTableError> {
        if !error.is_corruption() {
            return Err(error);
        }
        self.pass_over().await;
        if !self.is_ours(key.as_ref()) {
            return Ok(None);
        }
        self.report.lost += 1;
        let cut = false;
        Ok(Some(ScrubEvent::Damaged { key, cut, error }))
    }

    /// Goes behind a partition that cannot be read to its end.
    async fn pass_over(&mut self) {
        if !self.salvage.skip().await {
            self.ended = true;
            if self.is_ours(None) {
                self.report.lost_bytes = self.salvage.left();
            }
        }
    }

    /// Is the partition this shard's? One that nobody knows is the first shard's.
    fn is_ours(&self, key: Option<&DecoratedKey>) -> bool {
        match (self.owner, key) {
            (None, _) => true,
            (Some((sharder, shard)), Some(key)) => sharder.shard_of(key.token()) == shard,
            (Some((_, shard)), None) => shard == 0,
        }
    }

    /// The partitions that came too late, in order, as many as can be in one sstable. To be called
    /// until there are none left.
    pub fn take_late(&mut self) -> Vec<Piece> {
        let mut late = std::mem::take(&mut self.late);
        late.sort_by(|a, b| a.key().cmp(b.key()));
        let mut taken: Vec<Piece> = Vec::new();
        for piece in late {
            match taken.last().is_some_and(|last| last.key() == piece.key()) {
                true => self.late.push(piece),
                false => taken.push(piece),
            }
        }
        taken
    }

    /// Writes a partition.
    pub async fn write(&self, writer: &mut Writer, piece: &Piece) -> Result<(), ScrubError> {
        let mut reader = self.salvage.read(&piece.found).await?;
        let mut head: PartitionHead = reader.head().clone();
        if let Some(row) = &mut head.static_row {
            self.fix(row);
        }
        writer.begin_partition(&head).await?;
        let table = self.salvage.sstable().schema().table;
        let (mut open, mut last): (_, Option<Unfiltered>) = (None, None);
        for _ in 0..piece.items {
            let Some(mut item) = reader.next().await? else {
                break;
            };
            match &mut item {
                Unfiltered::Marker(marker) => open = marker.opens,
                Unfiltered::Row(row) => self.fix(row),
            }
            last = match last.take() {
                Some(last) if last.compare(&item, table.comparator()).is_eq() => {
                    last.join(item, &table)
                }
                behind => {
                    if let Some(behind) = behind {
                        writer.append(&behind).await?;
                    }
                    Some(item)
                }
            };
        }
        match last {
            Some(item) if piece.is_cut => {
                for item in closed(item, open) {
                    writer.append(&item).await?;
                }
            }
            Some(item) => writer.append(&item).await?,
            None => {}
        }
        Ok(writer.end_partition().await?)
    }

    fn fix(&self, row: &mut model::Row) {
        if self.reinserts && reinsert_overflowed(row) {
            self.fixed_rows.set(self.fixed_rows.get() + 1);
        }
    }
}

/// A partition cannot be written anew.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// It was readable a moment ago.
    #[error(transparent)]
    Read(#[from] SSTableError),
    /// The new sstable cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
