//! Reading one partition: its head, then the items of the slices that are asked for.
//!
//! *Forward*, items are passed over until a slice begins, given until it ends, and so on for the
//! next slice; if the partition has a promoted index, the reader goes to the first block that can
//! have something of the slice. Which range deletion is in force there, the index knows.
//!
//! *Reversed*, blocks are read from the last to the first, each of them forward into memory, and
//! given from its end. A partition without promoted index is one block.
//!
//! A range deletion in force where a slice begins or ends is given as one that begins or ends
//! there, so that what a reader gives is well formed on its own.

use std::cmp::Ordering;
use std::rc::Rc;

use model::{Bound, Clustering, ClusteringComparator, DecoratedKey, DeletionTime, Slice};

use super::blocks::Blocks;
use super::cursor::Cursor;
use super::decode::{ColumnSelection, Item};
use super::error::SSTableError;
use super::items::{read_head, read_item, read_marker, read_row};
use super::reader::{Location, SSTable, Schema};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// Slices, whether they are read in reverse, and columns.
pub(super) type Selection = (Rc<[Slice]>, bool, ColumnSelection);

/// Reads a partition.
pub struct PartitionReader {
    sstable: SSTable,
    schema: Schema,
    cursor: Cursor,
    head: PartitionHead,
    columns: ColumnSelection,
    slices: Rc<[Slice]>,
    reversed: bool,
    /// Where the partition starts, and where its first item is.
    start: u64,
    items_start: u64,
    blocks: Option<Blocks>,
    /// The slice that is being read: its number, counted in the direction of reading.
    slice: usize,
    in_slice: bool,
    positioned: bool,
    /// Deletion in force before the next item.
    open: Option<DeletionTime>,
    /// An item that was met behind the end of a slice.
    peeked: Option<Pending>,
    /// Reversed: what was read and not given yet, the next one last.
    block: Vec<Unfiltered>,
    /// Reversed: the next block to read of this slice, and its last one.
    next_block: Option<(usize, usize)>,
    ended: bool,
}

/// An item whose head was decoded; of a row, the body is still at the cursor.
enum Pending {
    Row {
        flags: (u8, u8),
        clustering: Clustering,
        body: usize,
    },
    Marker(RangeTombstoneMarker),
    End,
}

impl PartitionReader {
    pub(super) async fn open(
        sstable: SSTable,
        mut cursor: Cursor,
        location: Location,
        key: &DecoratedKey,
        (slices, reversed, columns): Selection,
    ) -> Result<PartitionReader, SSTableError> {
        let schema = sstable.schema();
        cursor.seek(location.data);
        let head = read_head(&mut cursor, &schema.layout, key, &columns).await?;
        let blocks = Blocks::open(&sstable, &schema.layout, location).await?;
        Ok(PartitionReader {
            items_start: cursor.position(),
            start: location.data,
            sstable,
            schema,
            cursor,
            head,
            columns,
            slices,
            reversed,
            blocks,
            slice: 0,
            in_slice: false,
            positioned: false,
            open: None,
            peeked: None,
            block: Vec::new(),
            next_block: None,
            ended: false,
        })
    }

    /// Key, deletion and static row.
    pub fn head(&self) -> &PartitionHead {
        &self.head
    }

    /// The next row or marker, in the direction of reading; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        if self.reversed {
            self.next_reversed().await
        } else {
            self.next_forward().await
        }
    }

    /// Gives the cursor back, wherever it is.
    pub(super) fn into_cursor(self) -> Cursor {
        self.cursor
    }

    async fn next_forward(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        loop {
            let Some(slice) = self.slices.get(self.slice).cloned() else {
                return Ok(None);
            };
            if !self.positioned {
                self.positioned = true;
                self.jump(&slice).await?;
            }
            let pending = match self.peeked.take() {
                Some(pending) => pending,
                None => self.next_pending().await?,
            };
            let comparator = self.schema.table.comparator();
            match place_in(&pending, comparator, &slice) {
                Ordering::Less => {
                    self.pass_over(pending)?;
                    self.sstable.env().maybe_yield().await;
                }
                _ if !self.in_slice => {
                    self.in_slice = true;
                    self.peeked = Some(pending);
                    if let Some(open) = self.open {
                        let marker = RangeTombstoneMarker::open(slice.start, open);
                        return Ok(Some(Unfiltered::Marker(marker)));
                    }
                }
                Ordering::Equal => return self.give(pending).await.map(Some),
                Ordering::Greater => {
                    self.peeked = Some(pending);
                    self.slice += 1;
                    self.in_slice = false;
                    self.positioned = false;
                    if let Some(open) = self.open {
                        let marker = RangeTombstoneMarker::close(slice.end, open);
                        return Ok(Some(Unfiltered::Marker(marker)));
                    }
                }
            }
        }
    }

    /// Goes to the first block that can have something of the slice, if that is further on.
    async fn jump(&mut self, slice: &Slice) -> Result<(), SSTableError> {
        let Some(blocks) = &mut self.blocks else {
            return Ok(());
        };
        let layout = &self.schema.layout;
        let comparator = self.schema.table.comparator();
        if slice.start == Bound::BOTTOM {
            return Ok(());
        }
        let block = blocks
            .first_reaching(layout, comparator, &slice.start)
            .await?;
        if block == 0 || block >= blocks.count() {
            // After the last block nothing is left but the end.
            if block > 0 {
                self.ended = true;
                self.open = None;
                self.peeked = Some(Pending::End);
            }
            return Ok(());
        }
        let before = blocks.info(layout, block - 1).await?;
        let info = blocks.info(layout, block).await?;
        let position = self.start.saturating_add(info.offset);
        if position > self.cursor.position() {
            self.cursor.seek(position);
            self.open = before.open;
            self.peeked = None;
        }
        Ok(())
    }

    fn pass_over(&mut self, pending: Pending) -> Result<(), SSTableError> {
        match pending {
            Pending::Row { body, .. } => self.skip(body),
            Pending::Marker(marker) => {
                self.open = marker.opens;
                Ok(())
            }
            Pending::End => Ok(()),
        }
    }

    fn skip(&mut self, body: usize) -> Result<(), SSTableError> {
        let end = self.cursor.position().saturating_add(body as u64);
        if end > self.cursor.length() {
            return Err(self.cursor.corrupt("a row exceeds the file"));
        }
        self.cursor.seek(end);
        Ok(())
    }

    async fn give(&mut self, pending: Pending) -> Result<Unfiltered, SSTableError> {
        match pending {
            Pending::Row {
                flags,
                clustering,
                body,
            } => {
                let row = read_row(
                    &mut self.cursor,
                    &self.schema.layout,
                    (flags, clustering, body),
                    &self.columns,
                )
                .await?;
                Ok(Unfiltered::Row(row))
            }
            Pending::Marker(marker) => {
                self.open = marker.opens;
                Ok(Unfiltered::Marker(marker))
            }
            Pending::End => unreachable!("the end lies behind every slice"),
        }
    }

    /// Decodes the head of the next item, and all of a marker.
    async fn next_pending(&mut self) -> Result<Pending, SSTableError> {
        if self.ended {
            return Ok(Pending::End);
        }
        match read_item(&mut self.cursor, &self.schema.layout).await? {
            Item::End => {
                self.ended = true;
                Ok(Pending::End)
            }
            Item::Row {
                flags,
                extension,
                clustering,
                body,
            } => Ok(Pending::Row {
                flags: (flags, extension),
                clustering,
                body,
            }),
            Item::Marker { place, body } => {
                read_marker(&mut self.cursor, &self.schema.layout, place, body)
                    .await
                    .map(Pending::Marker)
            }
        }
    }

    async fn next_reversed(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        loop {
            if let Some(item) = self.block.pop() {
                return Ok(Some(item));
            }
            let at = self.slices.len().checked_sub(self.slice + 1);
            let Some(slice) = at.and_then(|at| self.slices.get(at)).cloned() else {
                return Ok(None);
            };
            let (block, last) = match self.next_block.take() {
                Some(range) => range,
                None => match self.blocks_of(&slice).await? {
                    Some(range) => {
                        self.in_slice = false;
                        range
                    }
                    None => {
                        self.slice += 1;
                        continue;
                    }
                },
            };
            self.read_block(&slice, block, last).await?;
            if block == last {
                self.slice += 1;
            } else {
                self.next_block = Some((block - 1, last));
            }
        }
    }

    /// The last and the first block that can have something of a slice.
    async fn blocks_of(&mut self, slice: &Slice) -> Result<Option<(usize, usize)>, SSTableError> {
        let Some(blocks) = &mut self.blocks else {
            return Ok(Some((0, 0)));
        };
        let layout = &self.schema.layout;
        let comparator = self.schema.table.comparator();
        let after = blocks.first_behind(layout, comparator, &slice.end).await?;
        let Some(last) = after.checked_sub(1) else {
            return Ok(None);
        };
        let first = blocks
            .first_reaching(layout, comparator, &slice.start)
            .await?;
        Ok(Some((last, first.min(last))))
    }

    /// Reads what a block has of a slice, to be given from its end. `first` is the first block of
    /// the slice, that is the one read last.
    async fn read_block(
        &mut self,
        slice: &Slice,
        block: usize,
        first: usize,
    ) -> Result<(), SSTableError> {
        let layout = self.schema.layout.clone();
        let (mut open, end) = match &mut self.blocks {
            None => {
                self.cursor.seek(self.items_start);
                (None, u64::MAX)
            }
            Some(blocks) => {
                let open = match block.checked_sub(1) {
                    Some(before) => blocks.info(&layout, before).await?.open,
                    None => None,
                };
                let info = blocks.info(&layout, block).await?;
                let start = self.start.saturating_add(info.offset);
                self.cursor.seek(start);
                (open, start.saturating_add(info.width))
            }
        };
        self.ended = false;
        let mut open_at_start = open;
        let mut items = Vec::new();
        while self.cursor.position() < end {
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
                    if let Pending::Marker(marker) = &pending {
                        open = marker.opens;
                    }
                    items.push(self.give(pending).await?);
                }
                Ordering::Greater => break,
            }
            self.sstable.env().maybe_yield().await;
        }
        // The items are taken from the end: what comes first goes last.
        if block == first
            && let Some(open) = open_at_start
        {
            let marker = RangeTombstoneMarker::open(slice.start.clone(), open);
            self.block.push(Unfiltered::Marker(marker));
        }
        self.block.append(&mut items);
        if !self.in_slice {
            self.in_slice = true;
            if let Some(open) = open {
                let marker = RangeTombstoneMarker::close(slice.end.clone(), open);
                self.block.push(Unfiltered::Marker(marker));
            }
        }
        Ok(())
    }
}

/// Does an item lie before, in or behind a slice? A marker at the very end of a slice lies
/// outside: it says nothing about what is inside.
fn place_in(pending: &Pending, comparator: &ClusteringComparator, slice: &Slice) -> Ordering {
    match pending {
        Pending::Row { clustering, .. } => {
            if comparator.compare_to_bound(clustering, &slice.start) == Ordering::Less {
                Ordering::Less
            } else if comparator.compare_to_bound(clustering, &slice.end) == Ordering::Greater {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        }
        Pending::Marker(marker) => {
            if comparator.compare_bounds(&marker.bound, &slice.start) != Ordering::Greater {
                Ordering::Less
            } else if comparator.compare_bounds(&marker.bound, &slice.end) != Ordering::Less {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        }
        Pending::End => Ordering::Greater,
    }
}
