//! Reading one partition from its end.
//!
//! The blocks of a slice are read from the last to the first, each of them forward into memory, and
//! given from its end. A partition without index of blocks is one block.
//!
//! Whoever wrote an sstable may have made its blocks as large as they liked, so a block that turns out
//! to hold too much for memory is taken *in parts*: it is gone through once without keeping anything
//! but where parts of it begin, then each part is read like a block, and if that is still too much,
//! taken in parts itself.

use std::cmp::Ordering;

use model::{Bound, DeletionTime, Slice};

use super::{PartitionReader, Pending, place_in};
use crate::sstable::blocks::Block;
use crate::sstable::error::SSTableError;
use crate::{RangeTombstoneMarker, Unfiltered};

/// What a block may have of a slice before it is taken in parts, in bytes of the file.
const MOST_AT_ONCE: u64 = 256 << 10;
/// How large parts of a block are, in bytes, if there are not too many.
const PART: u64 = 64 << 10;
/// How many parts a block may have: when there are more, each two become one.
const MOST_PARTS: usize = 1024;

/// Where a reader is that goes backwards.
#[derive(Default)]
pub(super) struct Backward {
    /// What was read and not given yet, the next one last.
    items: Vec<Unfiltered>,
    /// What is to be read next of this slice; none of it: the slice has not begun, or is over.
    next: Vec<NextBlock>,
}

/// A block, or a part of one, that is to be read from its end.
#[derive(Clone, Copy, Debug)]
struct NextBlock {
    offset: u64,
    open: Option<DeletionTime>,
    /// Where in the partition it ends.
    end: u64,
    /// Where the block starts that is the last one to read.
    stop: u64,
    /// Did it turn out to have no parts? Then it is read whatever it takes.
    whole: bool,
}

impl PartitionReader {
    /// The next item, from the last to the first.
    pub(super) async fn next_reversed(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        loop {
            if let Some(item) = self.backward.items.pop() {
                return Ok(Some(item));
            }
            let at = self.slices.len().checked_sub(self.slice + 1);
            let Some(slice) = at.and_then(|at| self.slices.get(at)).cloned() else {
                return Ok(None);
            };
            let block = match self.backward.next.pop() {
                Some(block) => block,
                None => match self.last_block_of(&slice).await? {
                    Some(block) => {
                        self.in_slice = false;
                        block
                    }
                    None => {
                        self.slice += 1;
                        continue;
                    }
                },
            };
            if !self.read_block(&slice, block).await? {
                let mut parts = self.parts(&slice, block).await?;
                self.backward.next.append(&mut parts);
                continue;
            }
            if self.backward.next.is_empty() {
                let before = self.block_before(block).await?;
                self.backward.next.extend(before);
            }
            if self.backward.next.is_empty() {
                self.slice += 1;
            }
        }
    }

    /// The last block that can have something of a slice.
    async fn last_block_of(&mut self, slice: &Slice) -> Result<Option<NextBlock>, SSTableError> {
        let items = self.items_start - self.start;
        let Some(blocks) = &mut self.blocks else {
            return Ok(Some(NextBlock {
                offset: items,
                open: None,
                end: u64::MAX,
                stop: items,
                whole: false,
            }));
        };
        let layout = &self.schema.layout;
        let comparator = self.schema.table.comparator();
        let first = match slice.start == Bound::BOTTOM {
            true => Some(items),
            false => {
                let first = blocks.first_of(layout, comparator, &slice.start).await?;
                first.map(|first| first.offset)
            }
        };
        let last = blocks.last_of(layout, comparator, &slice.end).await?;
        let stop = |last: Block| first.map_or(last.offset, |first| first.min(last.offset));
        Ok(last.map(|last| NextBlock {
            offset: last.offset,
            open: last.open,
            end: last.end.unwrap_or(u64::MAX),
            stop: stop(last),
            whole: false,
        }))
    }

    /// The block before, if that can have something of the slice too.
    async fn block_before(&mut self, block: NextBlock) -> Result<Option<NextBlock>, SSTableError> {
        let Some(blocks) = &mut self.blocks else {
            return Ok(None);
        };
        if block.offset <= block.stop {
            return Ok(None);
        }
        match blocks.previous(&self.schema.layout).await? {
            Some(before) if before.offset < block.offset => Ok(Some(NextBlock {
                offset: before.offset,
                open: before.open,
                end: block.offset,
                stop: block.stop,
                whole: false,
            })),
            _ => Err(self
                .cursor
                .corrupt("its blocks are not in order in the index")),
        }
    }

    /// Reads what a block has of a slice, to be given from its end. `false`: that is too much, and
    /// nothing of it was taken.
    async fn read_block(&mut self, slice: &Slice, block: NextBlock) -> Result<bool, SSTableError> {
        let mut open = block.open;
        let end = self.go_to(block);
        let mut open_at_start = open;
        let mut items = Vec::new();
        let mut taken = 0;
        while self.cursor.position() < end {
            let begun = self.cursor.position();
            let pending = self.next_pending().await?;
            let comparator = self.schema.table.comparator();
            match place_in(&pending, comparator, slice) {
                Ordering::Less => {
                    if let Pending::Marker(marker) = &pending {
                        open = marker.opens;
                        open_at_start = open;
                    }
                    self.pass_over(pending)?;
                }
                Ordering::Equal => {
                    if taken >= MOST_AT_ONCE && !block.whole {
                        return Ok(false);
                    }
                    if let Pending::Marker(marker) = &pending {
                        open = marker.opens;
                    }
                    items.push(self.give(pending).await?);
                    taken += self.cursor.position() - begun;
                }
                Ordering::Greater => break,
            }
            self.sstable.env().maybe_yield().await;
        }
        // The items are taken from the end: what comes first goes last.
        if block.offset <= block.stop
            && let Some(open) = open_at_start
        {
            let marker = RangeTombstoneMarker::open(slice.start.clone(), open);
            self.backward.items.push(Unfiltered::Marker(marker));
        }
        self.backward.items.append(&mut items);
        if !self.in_slice {
            self.in_slice = true;
            if let Some(open) = open {
                let marker = RangeTombstoneMarker::close(slice.end.clone(), open);
                self.backward.items.push(Unfiltered::Marker(marker));
            }
        }
        Ok(true)
    }

    /// Cuts a block into parts, the first one with all that it has before the slice.
    async fn parts(
        &mut self,
        slice: &Slice,
        block: NextBlock,
    ) -> Result<Vec<NextBlock>, SSTableError> {
        let end = self.go_to(block);
        let mut parts = vec![block];
        let (mut open, mut size, mut filled) = (block.open, PART, 0);
        let mut behind = end;
        while self.cursor.position() < end {
            let begun = self.cursor.position();
            let pending = self.next_pending().await?;
            let place = place_in(&pending, self.schema.table.comparator(), slice);
            if place == Ordering::Greater {
                behind = begun;
                break;
            }
            if place == Ordering::Equal && filled >= size {
                parts.push(NextBlock {
                    offset: begun - self.start,
                    open,
                    ..block
                });
                filled = 0;
            }
            if parts.len() > MOST_PARTS {
                let mut at = 0..;
                parts.retain(|_| at.next().is_some_and(|at: usize| at.is_multiple_of(2)));
                size *= 2;
            }
            if let Pending::Marker(marker) = &pending {
                open = marker.opens;
            }
            self.pass_over(pending)?;
            if place == Ordering::Equal {
                filled += self.cursor.position() - begun;
            }
            self.sstable.env().maybe_yield().await;
        }
        let mut behind = behind.saturating_sub(self.start);
        let whole = parts.len() == 1;
        for part in parts.iter_mut().rev() {
            (part.end, part.whole) = (behind, whole);
            behind = part.offset;
        }
        Ok(parts)
    }

    /// Goes to the beginning of a block; says where in the file it ends.
    fn go_to(&mut self, block: NextBlock) -> u64 {
        self.cursor.seek(self.start.saturating_add(block.offset));
        self.ended = false;
        self.start.saturating_add(block.end)
    }
}
