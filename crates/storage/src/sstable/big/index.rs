//! `Index.db`: where each partition lies in the data, and where the blocks of wide ones lie.
//!
//! An entry is the key, the place in the data and the length of the *promoted index* that
//! follows, 0 for partitions of one block. The promoted index is the length of the partition's
//! head, its deletion, the number of blocks, for each block an [`IndexInfo`], and at its end the
//! place of each of those, so that blocks can be searched without reading all
//! (`org.apache.cassandra.io.sstable.format.big.RowIndexEntry`, `IndexInfo`).

use bytes::Bytes;
use model::vint::{write_signed, write_unsigned};
use model::{DecoratedKey, DeletionTime};

use crate::sstable::encode::{EncodeError, kind, write_bound, write_row_clustering};
use crate::sstable::error::DecodeError;
use crate::sstable::input::{Input, write_deletion_time, write_short_bytes};
use crate::sstable::layout::Layout;
use crate::sstable::place::Place;
use crate::{RangeTombstoneMarker, Unfiltered};

/// The widths of blocks are written as differences to this one, the usual one.
const WIDTH_BASE: i64 = 64 * 1024;

/// An entry of the index, without what it says of blocks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexEntry<'a> {
    /// The serialized key.
    pub key: &'a [u8],
    /// Where the partition starts in the data.
    pub position: u64,
    /// How many bytes of promoted index follow.
    pub promoted_length: usize,
}

impl<'a> IndexEntry<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<IndexEntry<'a>, DecodeError> {
        Ok(IndexEntry {
            key: input.short_bytes()?,
            position: input.vint()?,
            promoted_length: input.vint_len()?,
        })
    }
}

/// The beginning of a promoted index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PromotedHead {
    /// The length of the partition's beginning: key, deletion, static row.
    pub header_length: u64,
    /// The number of blocks.
    pub blocks: usize,
}

impl PromotedHead {
    pub(crate) fn decode(
        input: &mut Input<'_>,
        layout: &Layout,
    ) -> Result<PromotedHead, DecodeError> {
        let header_length = input.vint()?;
        input.deletion_time(layout.unsigned_deletion_time)?;
        Ok(PromotedHead {
            header_length,
            blocks: input.vint_len()?,
        })
    }
}

/// A block of a partition's items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexInfo {
    /// Where its first item is.
    pub first: Place,
    /// Where its last item is.
    pub last: Place,
    /// Where it starts, from the start of the partition.
    pub offset: u64,
    /// How long it is. That of the last block includes the byte that ends the partition.
    pub width: u64,
    /// The range deletion in force after its last item.
    pub open: Option<DeletionTime>,
}

impl IndexInfo {
    pub(crate) fn decode(
        bytes: &Bytes,
        input: &mut Input<'_>,
        layout: &Layout,
    ) -> Result<IndexInfo, DecodeError> {
        let first = Place::decode(bytes, input, &layout.clustering)?;
        let last = Place::decode(bytes, input, &layout.clustering)?;
        let offset = input.vint()?;
        let width = input.signed_vint()?.saturating_add(WIDTH_BASE);
        let open = if input.bool()? {
            Some(input.deletion_time(layout.unsigned_deletion_time)?)
        } else {
            None
        };
        Ok(IndexInfo {
            first,
            last,
            offset,
            width: u64::try_from(width)
                .map_err(|_| DecodeError::Invalid("a block has a negative length"))?,
            open: open.filter(|o| !o.is_live()),
        })
    }
}

/// Writes the index, partition by partition.
pub(crate) struct IndexWriter {
    block_size: u64,
    infos: Vec<u8>,
    offsets: Vec<u32>,
    /// The first and the last place of the block in the making, serialized, and where it starts.
    first: Vec<u8>,
    last: Vec<u8>,
    start: Option<u64>,
    open: Option<DeletionTime>,
    header_length: u64,
}

impl IndexWriter {
    /// Blocks end with the item with which they reach `block_size` bytes.
    pub(crate) fn new(block_size: u64) -> IndexWriter {
        IndexWriter {
            block_size,
            infos: Vec::new(),
            offsets: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            start: None,
            open: None,
            header_length: 0,
        }
    }

    /// A partition begins, its head takes so many bytes.
    pub(crate) fn begin(&mut self, header_length: u64) {
        self.infos.clear();
        self.offsets.clear();
        self.start = None;
        self.open = None;
        self.header_length = header_length;
    }

    /// An item was written between these places of the partition.
    pub(crate) fn item(
        &mut self,
        item: &Unfiltered,
        from: u64,
        to: u64,
        layout: &Layout,
    ) -> Result<(), EncodeError> {
        self.last.clear();
        write_place(&mut self.last, item, layout)?;
        if self.start.is_none() {
            self.start = Some(from);
            self.first.clone_from(&self.last);
        }
        if let Unfiltered::Marker(RangeTombstoneMarker { opens, .. }) = item {
            self.open = *opens;
        }
        if self
            .start
            .is_some_and(|start| to - start >= self.block_size)
        {
            self.end_block(to, layout);
        }
        Ok(())
    }

    fn end_block(&mut self, end: u64, layout: &Layout) {
        let Some(start) = self.start.take() else {
            return;
        };
        self.offsets.push(self.infos.len() as u32);
        let out = &mut self.infos;
        out.extend(&self.first);
        out.extend(&self.last);
        write_unsigned(out, start);
        write_signed(out, (end - start) as i64 - WIDTH_BASE);
        out.push(self.open.is_some().into());
        if let Some(open) = self.open {
            write_deletion_time(out, &open, layout.unsigned_deletion_time);
        }
    }

    /// The partition that starts at `position` ended after `length` bytes: appends its entry.
    pub(crate) fn end(
        &mut self,
        out: &mut Vec<u8>,
        key: &DecoratedKey,
        deletion: &DeletionTime,
        (position, length): (u64, u64),
        layout: &Layout,
    ) {
        self.end_block(length, layout);
        write_short_bytes(out, key.key());
        write_unsigned(out, position);
        if self.offsets.len() < 2 {
            write_unsigned(out, 0);
            return;
        }
        let mut head = Vec::with_capacity(32);
        write_unsigned(&mut head, self.header_length);
        write_deletion_time(&mut head, deletion, layout.unsigned_deletion_time);
        write_unsigned(&mut head, self.offsets.len() as u64);
        let promoted_length = head.len() + self.infos.len() + 4 * self.offsets.len();
        write_unsigned(out, promoted_length as u64);
        out.extend(head);
        out.extend(&self.infos);
        for offset in &self.offsets {
            out.extend(offset.to_be_bytes());
        }
    }
}

fn write_place(out: &mut Vec<u8>, item: &Unfiltered, layout: &Layout) -> Result<(), EncodeError> {
    match item {
        Unfiltered::Row(row) => {
            out.push(kind::CLUSTERING);
            write_row_clustering(out, &row.clustering, layout)
        }
        Unfiltered::Marker(marker) => write_bound(out, marker, &layout.clustering),
    }
}
