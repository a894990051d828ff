//! The promoted index of a wide partition: where its blocks are.
//!
//! Nothing of it is kept: a search reads the few entries that it compares, through the cache.

use std::cmp::Ordering;

use model::{Bound, ClusteringComparator};

use super::cursor::Cursor;
use super::error::{DecodeError, SSTableError};
use super::index::{IndexInfo, PromotedHead};
use super::layout::Layout;
use super::reader::{Location, SSTable};

/// The promoted index of a partition.
pub(super) struct Blocks {
    cursor: Cursor,
    head: PromotedHead,
    /// Where the first [`IndexInfo`] is, and where the table of their places is.
    infos: u64,
    offsets: u64,
}

impl Blocks {
    /// Reads its beginning; `None` if the partition has none.
    pub(super) async fn open(
        sstable: &SSTable,
        layout: &Layout,
        location: Location,
    ) -> Result<Option<Blocks>, SSTableError> {
        let (position, length) = location.promoted;
        if length == 0 {
            return Ok(None);
        }
        let mut cursor = Cursor::new(sstable.index().clone(), position);
        let (head, infos) = loop {
            let mut input = cursor.input();
            match PromotedHead::decode(&mut input, layout) {
                Ok(head) => break (head, cursor.position() + input.position() as u64),
                Err(DecodeError::Incomplete) => cursor.extend().await?,
                Err(error) => return Err(cursor.failed(error)),
            }
        };
        let end = position.saturating_add(length as u64);
        let offsets = (head.blocks as u64)
            .checked_mul(4)
            .and_then(|table| end.checked_sub(table))
            .filter(|offsets| *offsets >= infos && head.blocks > 0);
        match offsets {
            Some(offsets) => Ok(Some(Blocks {
                cursor,
                head,
                infos,
                offsets,
            })),
            None => Err(cursor.corrupt("the blocks of a partition exceed its entry")),
        }
    }

    /// The number of blocks, at least one.
    pub(super) fn count(&self) -> usize {
        self.head.blocks
    }

    /// A block.
    pub(super) async fn info(
        &mut self,
        layout: &Layout,
        block: usize,
    ) -> Result<IndexInfo, SSTableError> {
        let cursor = &mut self.cursor;
        cursor.seek(self.offsets + 4 * block as u64);
        cursor.require(4).await?;
        let offset = cursor.input().u32().map_err(|e| cursor.failed(e))?;
        let position = self.infos + u64::from(offset);
        if position >= self.offsets {
            return Err(cursor.corrupt("a block lies outside of its entry"));
        }
        cursor.seek(position);
        loop {
            let mut input = cursor.input();
            match IndexInfo::decode(cursor.window(), &mut input, layout) {
                Ok(info) => return Ok(info),
                Err(DecodeError::Incomplete) => cursor.extend().await?,
                Err(error) => return Err(cursor.failed(error)),
            }
        }
    }

    /// The number of blocks that lie wholly before `bound`: that of the first which does not.
    pub(super) async fn first_reaching(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<usize, SSTableError> {
        let (mut low, mut high) = (0, self.head.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let info = self.info(layout, middle).await?;
            if info.last.compare_to_bound(comparator, bound) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first block that lies wholly behind `bound`.
    pub(super) async fn first_behind(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<usize, SSTableError> {
        let (mut low, mut high) = (0, self.head.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let info = self.info(layout, middle).await?;
            if info.first.compare_to_bound(comparator, bound) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}
