//! `Index.db`: where each partition lies in the data, and where the blocks of wide ones lie.
//!
//! An entry is the key, the place in the data and the length of the *promoted index* that
//! follows, 0 for partitions of one block. The promoted index is the length of the partition's
//! head, its deletion, the number of blocks, for each block an [`IndexInfo`], and at its end the
//! place of each of those, so that blocks can be searched without reading all
//! (`org.apache.cassandra.io.sstable.format.big.RowIndexEntry`, `IndexInfo`).
//!
//! As its length comes first, a promoted index is in memory until its partition ends. How many bytes
//! a block has is the writer's choice, so when the index gets too large it is thinned: each two
//! blocks become one, and those that follow are twice as large. That keeps the lengths within what
//! Cassandra reads (31 bits), too.

use bytes::Bytes;
use io::Env;
use model::vint::{write_signed, write_unsigned};
use model::{DecoratedKey, DeletionTime};

use crate::RangeTombstoneMarker;
use crate::sstable::encode::{EncodeError, kind, write_bound, write_row_clustering};
use crate::sstable::error::DecodeError;
use crate::sstable::input::{Input, write_deletion_time, write_short_bytes};
use crate::sstable::layout::Layout;
use crate::sstable::place::Place;
use crate::unfiltered::ItemPlace;

/// The widths of blocks are written as differences to this one, the usual one.
const WIDTH_BASE: i64 = 64 * 1024;
/// How large a promoted index may become, in bytes. With clusterings of a few bytes and blocks of
/// 64 KiB that is enough for 30 GB; then blocks have 128 KiB, and so on.
const MOST_PROMOTED: usize = 16 << 20;
/// So many blocks are thinned between two looks at the time.
const BLOCKS_A_LOOK: usize = 512;

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
    /// Bytes at which a block ends, at the beginning of a partition and now.
    usual_block_size: u64,
    block_size: u64,
    /// Bytes of `infos` and `offsets` that are not to be exceeded for long.
    most: usize,
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
            usual_block_size: block_size,
            block_size,
            most: MOST_PROMOTED,
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
        self.block_size = self.usual_block_size;
        self.start = None;
        self.open = None;
        self.header_length = header_length;
    }

    /// An item was written between these places of the partition.
    pub(crate) fn item(
        &mut self,
        item: ItemPlace<'_>,
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
        if let ItemPlace::Marker(RangeTombstoneMarker { opens, .. }) = item {
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

    /// Has the index of the partition become too large?
    pub(crate) fn is_too_large(&self) -> bool {
        self.offsets.len() > 1 && self.infos.len() + 4 * self.offsets.len() > self.most
    }

    /// Thins it until it is not.
    pub(crate) async fn thin(&mut self, layout: &Layout, env: &Env) {
        while self.is_too_large() {
            let infos = Bytes::from(std::mem::take(&mut self.infos));
            let offsets = std::mem::take(&mut self.offsets);
            self.infos.reserve(infos.len() / 2);
            self.offsets.reserve(offsets.len().div_ceil(2));
            for (at, pair) in offsets.chunks(2).enumerate() {
                self.offsets.push(self.infos.len() as u32);
                let of = |offset: u32| InfoParts::of(infos.slice(offset as usize..), layout);
                let (first, second) = (of(pair[0]), pair.get(1).map(|offset| of(*offset)));
                first.joined(second).write(&mut self.infos);
                if at.is_multiple_of(BLOCKS_A_LOOK) {
                    env.maybe_yield().await;
                }
            }
            self.block_size = self.block_size.saturating_mul(2);
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

/// An [`IndexInfo`] as it was written: what is not a number is kept as it is.
struct InfoParts {
    first: Bytes,
    last: Bytes,
    start: u64,
    width: i64,
    /// The range deletion behind it, with the byte that says whether there is one.
    open: Bytes,
}

impl InfoParts {
    /// The first one in these bytes, which a writer wrote.
    fn of(bytes: Bytes, layout: &Layout) -> InfoParts {
        let mut input = Input::new(&bytes);
        let mut decode = || {
            Place::decode(&bytes, &mut input, &layout.clustering)?;
            let first = input.position();
            Place::decode(&bytes, &mut input, &layout.clustering)?;
            let last = input.position();
            let (start, width) = (input.vint()?, input.signed_vint()?);
            let numbers = input.position();
            if input.bool()? {
                input.deletion_time(layout.unsigned_deletion_time)?;
            }
            Ok::<_, DecodeError>(InfoParts {
                first: bytes.slice(..first),
                last: bytes.slice(first..last),
                start,
                width: width + WIDTH_BASE,
                open: bytes.slice(numbers..input.position()),
            })
        };
        decode().expect("the writer reads what it wrote")
    }

    /// With the block behind it, if there is one.
    fn joined(self, behind: Option<InfoParts>) -> InfoParts {
        match behind {
            Some(behind) => InfoParts {
                first: self.first,
                start: self.start,
                width: self.width + behind.width,
                ..behind
            },
            None => self,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(&self.first);
        out.extend(&self.last);
        write_unsigned(out, self.start);
        write_signed(out, self.width - WIDTH_BASE);
        out.extend(&self.open);
    }
}

fn write_place(out: &mut Vec<u8>, item: ItemPlace<'_>, layout: &Layout) -> Result<(), EncodeError> {
    match item {
        ItemPlace::Row(clustering) => {
            out.push(kind::CLUSTERING);
            write_row_clustering(out, clustering, layout)
        }
        ItemPlace::Marker(marker) => write_bound(out, marker, &layout.clustering),
    }
}
