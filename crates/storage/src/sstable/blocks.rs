//! The blocks of a wide partition: where to begin to read, whatever the format of the index.

use model::{Bound, ClusteringComparator, DeletionTime};

use super::big::blocks::PromotedIndex;
use super::bti::rows::RowIndex;
use super::error::SSTableError;
use super::layout::Layout;

/// A block of a partition's items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// Where it starts, from the start of the partition.
    pub(super) offset: u64,
    /// Where it ends, if the index says so.
    pub(super) end: Option<u64>,
    /// The range deletion in force before its first item.
    pub(super) open: Option<DeletionTime>,
}

/// The index of a partition's blocks.
pub(super) enum Blocks {
    /// Of a BIG sstable.
    Big(PromotedIndex),
    /// Of a BTI sstable.
    Bti(RowIndex),
}

impl Blocks {
    /// The first block that can have something behind `bound`; `None`: nothing has.
    pub(super) async fn first_of(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<Option<Block>, SSTableError> {
        match self {
            Blocks::Big(index) => index.first_of(layout, comparator, bound).await,
            Blocks::Bti(index) => index.floor(comparator, bound).await,
        }
    }

    /// The last block that can have something before `bound`; `None`: nothing has.
    pub(super) async fn last_of(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<Option<Block>, SSTableError> {
        match self {
            Blocks::Big(index) => index.last_of(layout, comparator, bound).await,
            Blocks::Bti(index) => index.floor(comparator, bound).await,
        }
    }

    /// The block before the one that was asked for last.
    pub(super) async fn previous(
        &mut self,
        layout: &Layout,
    ) -> Result<Option<Block>, SSTableError> {
        match self {
            Blocks::Big(index) => index.previous(layout).await,
            Blocks::Bti(index) => index.previous().await,
        }
    }
}
