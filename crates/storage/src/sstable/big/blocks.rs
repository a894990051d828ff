//! The promoted index of a wide partition: where its blocks are.
//!
//! Nothing of it is kept: a search reads the few entries that it compares, through the cache.

use std::cmp::Ordering;
use std::rc::Rc;

use model::{Bound, ClusteringComparator};

use super::index::{IndexInfo, PromotedHead};
use crate::sstable::blocks::Block;
use crate::sstable::chunked_file::ChunkedFile;
use crate::sstable::cursor::Cursor;
use crate::sstable::error::{DecodeError, SSTableError};
use crate::sstable::layout::Layout;

/// The promoted index of a partition.
pub(in crate::sstable) struct PromotedIndex {
    cursor: Cursor,
    /// The block that was asked for last.
    current: usize,
    head: PromotedHead,
    /// Where the first [`IndexInfo`] is, and where the table of their places is.
    infos: u64,
    offsets: u64,
}

impl PromotedIndex {
    /// Reads its beginning: it is at this place of the index, and so long.
    pub(in crate::sstable) async fn open(
        file: Rc<ChunkedFile>,
        layout: &Layout,
        (position, length): (u64, u64),
    ) -> Result<PromotedIndex, SSTableError> {
        let mut cursor = Cursor::new(file, position);
        let (head, infos) = loop {
            let mut input = cursor.input();
            match PromotedHead::decode(&mut input, layout) {
                Ok(head) => break (head, cursor.position() + input.position() as u64),
                Err(DecodeError::Incomplete) => cursor.extend().await?,
                Err(error) => return Err(cursor.failed(error)),
            }
        };
        let end = position.saturating_add(length);
        let offsets = (head.blocks as u64)
            .checked_mul(4)
            .and_then(|table| end.checked_sub(table))
            .filter(|offsets| *offsets >= infos && head.blocks > 0);
        match offsets {
            Some(offsets) => Ok(PromotedIndex {
                cursor,
                current: 0,
                head,
                infos,
                offsets,
            }),
            None => Err(cursor.corrupt("the blocks of a partition exceed its entry")),
        }
    }

    /// What the index says of a block.
    async fn info(&mut self, layout: &Layout, block: usize) -> Result<IndexInfo, SSTableError> {
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

    async fn block(
        &mut self,
        layout: &Layout,
        block: usize,
    ) -> Result<Option<Block>, SSTableError> {
        self.current = block;
        let open = match block.checked_sub(1) {
            Some(before) => self.info(layout, before).await?.open,
            None => None,
        };
        let info = self.info(layout, block).await?;
        Ok(Some(Block {
            offset: info.offset,
            end: info.offset.checked_add(info.width),
            open,
        }))
    }

    /// The first block that does not lie wholly before `bound`.
    pub(in crate::sstable) async fn first_of(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<Option<Block>, SSTableError> {
        let block = self.first_reaching(layout, comparator, bound).await?;
        if block == self.head.blocks {
            return Ok(None);
        }
        self.block(layout, block).await
    }

    /// The last block that does not lie wholly behind `bound`.
    pub(in crate::sstable) async fn last_of(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<Option<Block>, SSTableError> {
        let behind = match *bound == Bound::TOP {
            true => self.head.blocks,
            false => self.first_behind(layout, comparator, bound).await?,
        };
        match behind.checked_sub(1) {
            Some(block) => self.block(layout, block).await,
            None => Ok(None),
        }
    }

    /// The block before the one that was given last.
    pub(in crate::sstable) async fn previous(
        &mut self,
        layout: &Layout,
    ) -> Result<Option<Block>, SSTableError> {
        match self.current.checked_sub(1) {
            Some(block) => self.block(layout, block).await,
            None => Ok(None),
        }
    }

    /// The number of blocks that lie wholly before `bound`: that of the first which does not.
    async fn first_reaching(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<usize, SSTableError> {
        let before =
            |info: &IndexInfo| info.last.compare_to_bound(comparator, bound) == Ordering::Less;
        self.first_not(layout, before).await
    }

    /// The first block that lies wholly behind `bound`.
    async fn first_behind(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<usize, SSTableError> {
        let reaching =
            |info: &IndexInfo| info.first.compare_to_bound(comparator, bound) != Ordering::Greater;
        self.first_not(layout, reaching).await
    }

    /// The number of blocks at the beginning that are `so`, after which none is.
    async fn first_not(
        &mut self,
        layout: &Layout,
        so: impl Fn(&IndexInfo) -> bool,
    ) -> Result<usize, SSTableError> {
        let (mut low, mut high) = (0, self.head.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            match so(&self.info(layout, middle).await?) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }
}
