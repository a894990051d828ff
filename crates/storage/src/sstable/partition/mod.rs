//! Reading one partition: its head, then the items of the slices that are asked for.
//!
//! *Forward*, items are passed over until a slice begins, given until it ends, and so on for the
//! next slice; if the partition has a promoted index, the reader goes to the first block that can
//! have something of the slice. Which range deletion is in force there, the index knows.
//!
//! *Reversed*: see [`reversed`].
//!
//! A range deletion in force where a slice begins or ends is given as one that begins or ends
//! there, so that what a reader gives is well formed on its own.

mod reversed;

use std::cmp::Ordering;
use std::rc::Rc;

use bytes::Bytes;
use model::{
    Bound, Clustering, ClusteringComparator, DecoratedKey, DeletionTime, PackedRow, Slice,
};

use crate::sstable::blocks::Blocks;
use crate::sstable::cursor::Cursor;
use crate::sstable::decode::{ColumnSelection, Item};
use crate::sstable::error::SSTableError;
use crate::sstable::index::Location;
use crate::sstable::items::{read_head, read_item, read_marker, read_row};
use crate::sstable::plain_row::{PlainRequest, PlainRows, Values};
use crate::sstable::reader::{SSTable, Schema};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};
use reversed::Backward;

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
    /// Where the item that was decoded last begins.
    pending_start: u64,
    ended: bool,
    backward: Backward,
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
    /// Of no partition yet: see [`PartitionReader::turn_to`].
    pub(super) fn new(
        sstable: SSTable,
        cursor: Cursor,
        (slices, reversed, columns): Selection,
    ) -> PartitionReader {
        PartitionReader {
            head: PartitionHead {
                key: DecoratedKey::new(Bytes::new()),
                deletion: DeletionTime::LIVE,
                static_row: None,
            },
            schema: sstable.schema(),
            sstable,
            cursor,
            columns,
            slices,
            reversed,
            start: 0,
            items_start: 0,
            blocks: None,
            slice: 0,
            in_slice: false,
            positioned: false,
            open: None,
            peeked: None,
            pending_start: 0,
            ended: true,
            backward: Backward::default(),
        }
    }

    /// Reads that of `key`, which lies there.
    pub(super) async fn open(
        sstable: SSTable,
        cursor: Cursor,
        location: Location,
        key: &DecoratedKey,
        selection: Selection,
    ) -> Result<PartitionReader, SSTableError> {
        let mut reader = PartitionReader::new(sstable, cursor, selection);
        reader.turn_to(key.clone(), location).await?;
        Ok(reader)
    }

    /// Goes to the partition of `key`, which lies there.
    pub(super) async fn turn_to(
        &mut self,
        key: DecoratedKey,
        location: Location,
    ) -> Result<(), SSTableError> {
        self.schema = self.sstable.schema();
        let layout = &self.schema.layout;
        self.cursor.seek(location.data);
        self.head = read_head(&mut self.cursor, layout, key, &self.columns).await?;
        self.start = location.data;
        self.items_start = self.cursor.position();
        self.blocks = self.sstable.index().blocks(layout, location).await?;
        self.slice = 0;
        self.in_slice = false;
        self.positioned = false;
        self.open = None;
        self.peeked = None;
        self.ended = false;
        self.backward = Backward::default();
        Ok(())
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

    /// The next row in the form that pages have, if all of it is to be seen, and if it lies in what is in memory already. Without one, [`PartitionReader::next`] knows what is next.
    pub(crate) fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        let goes_on = !self.reversed && !self.ended && self.open.is_none() && self.peeked.is_none();
        let slice = self.slices.get(self.slice).filter(|_| goes_on)?;
        // Where it begins, who passes over what lies before it has to find out.
        if !self.in_slice && slice.start != Bound::BOTTOM {
            return None;
        }
        let Schema { table, layout } = &self.schema;
        let rows = PlainRows {
            layout,
            columns: &self.columns,
            now_seconds: request.now_seconds,
            alone: request.alone,
        };
        let is_within = |values: &Values<'_>| {
            let values = values.iter().copied();
            let order = || {
                table
                    .comparator()
                    .compare_values_to_bound(values, &slice.end)
            };
            slice.end == Bound::TOP || order() != Ordering::Greater
        };
        let mut input = self.cursor.input();
        let packed = rows.take(&mut input, is_within, request.scratch)?;
        let taken = input.position();
        self.cursor.advance(taken);
        (self.positioned, self.in_slice) = (true, true);
        Some(packed)
    }

    /// Does the cache have what was read last ([`Cursor::is_cached`])?
    pub(super) fn is_cached(&self) -> bool {
        self.cursor.is_cached()
    }

    /// Where in the data the reader is, in bytes: behind what was given last.
    pub(super) fn position(&self) -> u64 {
        match self.peeked {
            Some(_) => self.pending_start,
            None => self.cursor.position(),
        }
    }

    /// What was given last cannot be what it should be.
    pub(super) fn corrupt(&self, what: &str) -> SSTableError {
        self.cursor.corrupt(what)
    }

    /// Where the partition ends, of a reader that goes forward. What was not given is passed over,
    /// as is a marker at the very end, in whose place the end of the last slice was given.
    pub(super) async fn end(mut self) -> Result<u64, SSTableError> {
        loop {
            let pending = match self.peeked.take() {
                Some(pending) => pending,
                None => self.next_pending().await?,
            };
            if matches!(pending, Pending::End) {
                return Ok(self.cursor.position());
            }
            self.pass_over(pending)?;
            self.sstable.env().maybe_yield().await;
        }
    }

    /// The data, wherever it is read: before another partition is gone to.
    pub(super) fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    async fn next_forward(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        let slices = self.slices.clone();
        loop {
            let Some(slice) = slices.get(self.slice) else {
                return Ok(None);
            };
            if !self.positioned {
                self.positioned = true;
                self.jump(slice).await?;
            }
            let pending = match self.peeked.take() {
                Some(pending) => pending,
                None => self.next_pending().await?,
            };
            let comparator = self.schema.table.comparator();
            match place_in(&pending, comparator, slice) {
                Ordering::Less => {
                    self.pass_over(pending)?;
                    self.sstable.env().maybe_yield().await;
                }
                _ if !self.in_slice => {
                    self.in_slice = true;
                    self.peeked = Some(pending);
                    if let Some(open) = self.open {
                        let marker = RangeTombstoneMarker::open(slice.start.clone(), open);
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
                        let marker = RangeTombstoneMarker::close(slice.end.clone(), open);
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
        let block = blocks.first_of(layout, comparator, &slice.start).await?;
        let Some(block) = block else {
            // After the last block nothing is left but the end.
            self.ended = true;
            self.open = None;
            self.peeked = Some(Pending::End);
            return Ok(());
        };
        let position = self.start.saturating_add(block.offset);
        if position > self.cursor.position() {
            self.cursor.seek(position);
            self.open = block.open;
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
        self.pending_start = self.cursor.position();
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
