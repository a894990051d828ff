//! `Rows.db`: for each wide partition, where its blocks lie
//! (`org.apache.cassandra.io.sstable.format.bti.RowIndexReader`, `TrieIndexEntry`).
//!
//! The trie of a partition holds *separators*: of each block a text that lies behind all of the
//! block before and not behind any of this one, as short as it can be. The payload is where the
//! block starts, counted from the start of the partition, and the range deletion in force there.
//! One more lies behind the last block. After the trie comes the partition's entry: its key, where
//! it lies in the data, where the root is, the number of blocks and the partition's deletion.

use std::rc::Rc;

use model::vint::{write_signed, write_unsigned};
use model::{Bound, ClusteringComparator, DecoratedKey, DeletionTime};

use super::trie_writer::{Paged, Payload, TrieWriter};
use super::walk::{Found, Walk};
use super::{read_sized, sized_length, write_sized};
use crate::sstable::blocks::Block;
use crate::sstable::chunked_file::ChunkedFile;
use crate::sstable::cursor::Cursor;
use crate::sstable::encode::EncodeError;
use crate::sstable::error::{DecodeError, SSTableError};
use crate::sstable::input::{Input, write_deletion_time, write_short_bytes};
use crate::sstable::place::Place;
use crate::unfiltered::ItemPlace;

/// The flag of a payload that ends with a deletion.
const WITH_DELETION: u8 = 8;

/// What is said of a wide partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sstable) struct RowsEntry {
    /// The serialized key.
    pub(in crate::sstable) key: Vec<u8>,
    /// Where the partition lies in the data.
    pub(in crate::sstable) data: u64,
    /// Where the root of its trie lies.
    pub(in crate::sstable) root: u64,
    /// The number of its blocks.
    pub(in crate::sstable) blocks: u64,
}

impl RowsEntry {
    /// Reads the entry at a place of `Rows.db`.
    pub(in crate::sstable) async fn read(
        file: &Rc<ChunkedFile>,
        position: u64,
    ) -> Result<RowsEntry, SSTableError> {
        let mut cursor = Cursor::new(file.clone(), position);
        loop {
            match RowsEntry::decode(&mut cursor.input(), position) {
                Ok(entry) => return Ok(entry),
                Err(DecodeError::Incomplete) => cursor.extend().await?,
                Err(error) => return Err(cursor.failed(error)),
            }
        }
    }

    fn decode(input: &mut Input<'_>, position: u64) -> Result<RowsEntry, DecodeError> {
        let key = input.short_bytes()?.to_vec();
        let base = position + input.position() as u64;
        let data = input.vint()?;
        let distance = input.signed_vint()?;
        let blocks = input.vint()?;
        input.deletion_time(true)?;
        let root = base.checked_add_signed(distance);
        let root = root.filter(|root| *root < position);
        Ok(RowsEntry {
            key,
            data,
            root: root.ok_or(DecodeError::Invalid(
                "the index of a partition lies nowhere",
            ))?,
            blocks,
        })
    }
}

/// Takes what is said of a block.
fn decode_block((flags, bytes): &Found) -> Result<Block, DecodeError> {
    let mut input = Input::new(bytes);
    let length = usize::from(flags & !WITH_DELETION);
    let offset = read_sized(input.take(length)?);
    let open = match flags & WITH_DELETION {
        0 => None,
        _ => Some(input.deletion_time(true)?).filter(|open| !open.is_live()),
    };
    let offset = u64::try_from(offset);
    Ok(Block {
        offset: offset.map_err(|_| DecodeError::Invalid("a block lies nowhere"))?,
        end: None,
        open,
    })
}

/// The blocks of a partition.
pub(in crate::sstable) struct RowIndex {
    walk: Walk,
}

impl RowIndex {
    /// Of the partition whose trie has this root.
    pub(in crate::sstable) fn new(file: Rc<ChunkedFile>, root: u64) -> RowIndex {
        RowIndex {
            walk: Walk::new(file, root),
        }
    }

    /// The block in which a bound lies; one of nothing if it lies behind all.
    pub(in crate::sstable) async fn floor(
        &mut self,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Result<Option<Block>, SSTableError> {
        let bound = comparator.byte_comparable_bound(bound);
        let found = self.walk.floor(&bound).await?;
        self.block(found)
    }

    /// The block before the one that was given last.
    pub(in crate::sstable) async fn previous(&mut self) -> Result<Option<Block>, SSTableError> {
        let found = self.walk.previous().await?;
        self.block(found)
    }

    fn block(&self, found: Option<Found>) -> Result<Option<Block>, SSTableError> {
        let block = found.as_ref().map(decode_block).transpose();
        block.map_err(|e| self.walk.corrupt(&e.to_string()))
    }
}

struct Entry {
    offset: i64,
    open: DeletionTime,
}

impl Payload for Entry {
    fn measure(&self) -> (u8, usize) {
        let length = sized_length(self.offset);
        if self.open.is_live() {
            (length as u8, length)
        } else {
            (length as u8 | WITH_DELETION, length + 12)
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_sized(out, self.offset, sized_length(self.offset));
        if !self.open.is_live() {
            write_deletion_time(out, &self.open, true);
        }
    }
}

/// A block in the making.
struct OpenBlock {
    first: Place,
    last: Place,
    start: u64,
    /// The range deletion in force before it.
    open: DeletionTime,
}

/// Writes the index, partition by partition (`BtiFormatPartitionWriter`, `RowIndexWriter`).
pub(in crate::sstable) struct RowIndexWriter {
    comparator: ClusteringComparator,
    block_size: u64,
    trie: TrieWriter<Entry>,
    out: Paged,
    block: Option<OpenBlock>,
    blocks: u64,
    /// The place of the last item of the last block, and the separator of that block.
    previous: Vec<u8>,
    separator: Vec<u8>,
    /// The range deletion in force behind the last item.
    open: DeletionTime,
}

impl RowIndexWriter {
    /// Blocks end with the item with which they reach `block_size` bytes.
    pub(in crate::sstable) fn new(
        comparator: ClusteringComparator,
        block_size: u64,
    ) -> RowIndexWriter {
        RowIndexWriter {
            comparator,
            block_size,
            trie: TrieWriter::new(),
            out: Paged::default(),
            block: None,
            blocks: 0,
            previous: Vec::new(),
            separator: Vec::new(),
            open: DeletionTime::LIVE,
        }
    }

    /// A partition begins.
    pub(in crate::sstable) fn begin(&mut self) {
        self.trie.reset();
        self.block = None;
        self.blocks = 0;
        self.separator.clear();
        self.open = DeletionTime::LIVE;
    }

    /// An item was written between these places of the partition.
    pub(in crate::sstable) fn item(
        &mut self,
        item: ItemPlace<'_>,
        from: u64,
        to: u64,
    ) -> Result<(), EncodeError> {
        let open = self.open;
        if let ItemPlace::Marker(marker) = item {
            self.open = marker.opens.unwrap_or(DeletionTime::LIVE);
        }
        let place = Place::of(item);
        let block = match &mut self.block {
            Some(block) => {
                block.last = place;
                block
            }
            none => none.insert(OpenBlock {
                first: place.clone(),
                last: place,
                start: from,
                open,
            }),
        };
        if to - block.start >= self.block_size {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), EncodeError> {
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        let last = block.last.byte_comparable(&self.comparator);
        if self.blocks > 0 {
            let first = block.first.byte_comparable(&self.comparator);
            if first == self.previous {
                // Two items are at one place, so that nothing lies between these blocks: they are
                // one to the trie.
                self.previous = last;
                return Ok(());
            }
            let separator = separator(&self.previous, &first)
                .filter(|separator| *separator > self.separator)
                .ok_or(EncodeError::NotInOrder)?;
            self.separator = separator;
        }
        let entry = Entry {
            offset: block.start as i64,
            open: block.open,
        };
        self.trie.add(&mut self.out, &self.separator, entry);
        self.previous = last;
        self.blocks += 1;
        Ok(())
    }

    /// The partition that starts at `data` has all its items, which end `length` bytes from its
    /// start. The place of its entry; `None` if it has no index, being of one block.
    pub(in crate::sstable) fn end(
        &mut self,
        key: &DecoratedKey,
        deletion: &DeletionTime,
        (data, length): (u64, u64),
    ) -> Result<Option<u64>, EncodeError> {
        if self.blocks > 0 {
            self.end_block()?;
        }
        if self.blocks < 2 {
            return Ok(None);
        }
        let behind = behind(&self.previous, common(&self.previous, &self.separator));
        if behind <= self.separator {
            return Err(EncodeError::NotInOrder);
        }
        let entry = Entry {
            offset: length as i64,
            open: DeletionTime::LIVE,
        };
        self.trie.add(&mut self.out, &behind, entry);
        let root = self.trie.finish(&mut self.out);
        let position = self.out.position();
        write_short_bytes(&mut self.out.bytes, key.key());
        let base = self.out.position();
        let out = &mut self.out.bytes;
        write_unsigned(out, data);
        write_signed(out, root as i64 - base as i64);
        write_unsigned(out, self.blocks);
        write_deletion_time(out, deletion, true);
        Ok(Some(position))
    }

    /// The bytes that are to be written next.
    pub(in crate::sstable) fn ready(&self) -> usize {
        self.out.bytes.len()
    }

    /// Takes those bytes.
    pub(in crate::sstable) fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }
}

/// How many bytes two texts have in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A short text behind `before` and not behind `first`: the one as far as it is the same as the
/// other, and one more in the byte that differs. `None` if they are not in order.
fn separator(before: &[u8], first: &[u8]) -> Option<Vec<u8>> {
    let common = common(before, first);
    let mut separator = first.get(..=common)?.to_vec();
    match before.get(common) {
        Some(byte) if *byte < first[common] => separator[common] = byte + 1,
        Some(_) => return None,
        // What has all of it goes on behind it.
        None => {}
    }
    Some(separator)
}

/// Something a little behind `place`, with at least `at` of its bytes (`RowIndexWriter.nudge`).
fn behind(place: &[u8], at: usize) -> Vec<u8> {
    let full = place[at..].iter().take_while(|byte| **byte == 0xff).count();
    let end = (at + full + 1).min(place.len());
    let mut out = place[..end].to_vec();
    match out.get_mut(at + full) {
        Some(byte) => *byte += 1,
        None => out.push(0),
    }
    out
}
