//! Filling a page: what of the merged rows the client gets, and when to stop.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use model::{
    ColumnId, DataLimits, DecoratedKey, DeletionTime, PackedRow, Partition, Purge, ReadCommand,
    ReadPage, Row, Table,
};

use super::filter::Filters;
use crate::memtable::MemRow;
use crate::{PartitionHead, RangeTombstoneMarker};

/// So many rows of a partition may keep alive the chunks that they were read from.
const IN_CHUNKS: usize = 32;
/// Rows of at least so many bytes may, too: a chunk is not much more.
const LARGE: u64 = 1024;

/// What to do after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    More,
    /// This partition has given all it may.
    PartitionDone,
    /// The page is full.
    PageDone,
}

/// A page being filled.
pub(crate) struct PageBuilder<'c> {
    command: &'c ReadCommand,
    /// The table, if columns of it were dropped: memtables may hold cells of them.
    dropped: Option<&'c Table>,
    filters: Filters<'c>,
    page: ReadPage,
    rows_left: u32,
    bytes_left: u64,
    /// What counts as a tombstone, and with how many more than this the page ends.
    purge: Purge,
    most_tombstones: u64,
    current: Option<Current>,
    /// Are all columns wanted that rows have? Known where rows come packed.
    wants_all: Option<bool>,
    /// Memory for laying out rows.
    scratch: Vec<u8>,
}

/// What the client would not see any more if it were forgotten.
pub(super) fn purge_of(command: &ReadCommand, table: &Table) -> Purge {
    let gc_grace = table.options.gc_grace_seconds.max(0) as u32;
    Purge {
        now_seconds: command.now_seconds,
        gc_before: command.now_seconds.saturating_sub(gc_grace),
        purgeable_before: i64::MAX,
    }
}

/// The partition whose rows come.
struct Current {
    key: DecoratedKey,
    static_row: Option<Row>,
    rows: Rows,
    rows_left: u32,
    /// Did the page before end within it?
    resumed: bool,
}

/// For how many rows room is made at once: pages end by their bytes, too.
const MOST_ROOM: usize = 1024;

/// The rows that a partition has given, in one form or the other.
enum Rows {
    Made(Vec<Row>),
    Packed(Vec<PackedRow>),
}

impl<'c> PageBuilder<'c> {
    /// For a command on `table`, the table of today.
    pub(crate) fn new(command: &'c ReadCommand, table: &'c Table) -> PageBuilder<'c> {
        let DataLimits { rows, bytes, .. } = command.limits;
        PageBuilder {
            command,
            dropped: Some(table).filter(|table| !table.dropped.is_empty()),
            filters: Filters::new(&command.filters, command, table),
            page: ReadPage::default(),
            rows_left: rows,
            bytes_left: u64::from(bytes),
            purge: purge_of(command, table),
            most_tombstones: u64::MAX,
            current: None,
            wants_all: None,
            scratch: Vec::new(),
        }
    }

    /// May rows come in one piece? Then who expects plain ones begins the partition by [`PageBuilder::begin_packed`], and
    /// gives them to [`PageBuilder::memory_row`] and [`PageBuilder::plain_row`]; others to [`PageBuilder::row`], as always.
    pub(crate) fn takes_packed(&self) -> bool {
        self.command.packed && self.dropped.is_none() && self.command.filters.is_empty()
    }

    /// The page ends where it has met more tombstones than this.
    pub(crate) fn stop_at(&mut self, most_tombstones: u64) {
        self.most_tombstones = most_tombstones;
    }

    /// So many sstables are read for it.
    pub(crate) fn met_sstables(&mut self, sstables: u64) {
        self.page.scanned.sstables = sstables;
    }

    /// So many sstables of an index are looked into for it, of which whoever asked is warned.
    pub(crate) fn met_index_sstables(&mut self, sstables: u64) {
        self.page.scanned.index_sstables = sstables;
    }

    /// The columns whose values are needed, sorted.
    pub(crate) fn columns(&self) -> Cow<'c, [ColumnId]> {
        let asked = &self.command.columns;
        if self.command.filters.is_empty() {
            return Cow::Borrowed(asked);
        }
        let mut columns: Vec<ColumnId> = asked.clone();
        columns.extend(self.filters.columns());
        columns.sort();
        columns.dedup();
        Cow::Owned(columns)
    }

    /// May anything be added at all?
    pub(crate) fn is_full(&self) -> bool {
        self.rows_left == 0
            || self.bytes_left == 0
            || self.page.scanned.tombstones > self.most_tombstones
    }

    /// Begins a partition; `false` if nothing of it is wanted. `resumed`, if the page before ended
    /// within it, says how many rows it may still give.
    pub(crate) fn begin(
        &mut self,
        head: &PartitionHead,
        resumed: Option<u32>,
        table: &Table,
    ) -> bool {
        self.begin_with(head, resumed, table, || Rows::Made(rows_of(table)))
    }

    /// As [`PageBuilder::begin`], of a partition that may have plain rows.
    pub(crate) fn begin_packed(
        &mut self,
        head: &PartitionHead,
        resumed: Option<u32>,
        table: &Table,
    ) -> bool {
        debug_assert!(self.takes_packed());
        let wanted = &self.command.columns;
        let is_wanted = |id: ColumnId| wanted.binary_search(&id).is_ok();
        let all = || table.regulars().all(|column| is_wanted(column.id));
        self.wants_all.get_or_insert_with(all);
        self.begin_with(head, resumed, table, || Rows::Packed(Vec::new()))
    }

    fn begin_with(
        &mut self,
        head: &PartitionHead,
        resumed: Option<u32>,
        table: &Table,
        rows: impl FnOnce() -> Rows,
    ) -> bool {
        self.page.scanned.last = Some(head.key.token());
        let mut static_row = head.static_row.clone();
        if let Some(row) = &mut static_row {
            self.forget_dropped(row);
            row.retain_live(self.command.now_seconds);
        }
        static_row.take_if(|row| row.is_empty());
        let passes = self
            .filters
            .partition_passes(&head.key, static_row.as_ref(), table);
        if !passes {
            return false;
        }
        if let Some(row) = &mut static_row {
            row.retain_columns(&self.command.columns);
        }
        static_row.take_if(|row| row.is_empty());
        self.current = Some(Current {
            key: head.key.clone(),
            static_row,
            rows: rows(),
            rows_left: resumed.unwrap_or(self.command.limits.rows_per_partition),
            resumed: resumed.is_some(),
        });
        true
    }

    /// So many rows may come of a partition that began packed.
    pub(crate) fn make_room(&mut self, rows: usize) {
        let Some(current) = &mut self.current else {
            return;
        };
        if let Rows::Packed(known) = &mut current.rows {
            let allowed = self.rows_left.min(current.rows_left) as usize;
            known.reserve(rows.min(allowed).min(MOST_ROOM));
        }
    }

    /// A row of a partition that began packed: shared, if all that it says is seen.
    pub(crate) fn memory_row(&mut self, row: &MemRow) -> Flow {
        let now_seconds = self.command.now_seconds;
        let packed = match row {
            MemRow::Packed(packed) if packed.is_plain_at(now_seconds) => packed,
            _ => return self.row(row.to_row()),
        };
        self.plain_row(packed.clone())
    }

    /// Memory for laying out rows.
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// A row of a partition that began packed, of which all is seen.
    pub(crate) fn plain_row(&mut self, packed: PackedRow) -> Flow {
        let columns = &self.command.columns;
        let bytes = match self.wants_all {
            Some(true) => packed.len() as u64,
            _ => packed.answer_bytes(|column| columns.binary_search(&column).is_ok()),
        };
        let current = self.current.as_mut().filter(|it| it.rows_left > 0);
        let Some(Rows::Packed(rows)) = current.map(|current| &mut current.rows) else {
            return Flow::PartitionDone;
        };
        self.page.scanned.live_rows += 1;
        rows.push(packed);
        self.taken(bytes)
    }

    fn forget_dropped(&self, row: &mut Row) {
        if let Some(table) = self.dropped {
            row.retain_columns_of(table);
        }
    }

    /// A merged row of the partition.
    pub(crate) fn row(&mut self, mut row: Row) -> Flow {
        self.forget_dropped(&mut row);
        let Some(current) = &mut self.current else {
            return Flow::PartitionDone;
        };
        if current.rows_left == 0 {
            return Flow::PartitionDone;
        }
        self.page.scanned.row(&row, &self.purge);
        if !self.command.table.shows(&row, self.command.now_seconds) {
            return self.flow();
        }
        row.retain_live(self.command.now_seconds);
        if !self.filters.row_passes(&row) {
            return self.flow();
        }
        row.retain_columns(&self.command.columns);
        let bytes = row.answer_bytes();
        match &mut current.rows {
            Rows::Packed(rows) => rows.push(PackedRow::new(&row, &mut self.scratch)),
            Rows::Made(rows) => {
                detach_small(&mut row, bytes, rows.len());
                rows.push(row);
            }
        }
        self.taken(bytes)
    }

    /// Counts a row that the client gets.
    fn taken(&mut self, bytes: u64) -> Flow {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.rows_left -= 1;
        let left = self.current.as_mut().map(|current| {
            current.rows_left -= 1;
            current.rows_left
        });
        let partition_done = left == Some(0);
        if self.is_full() {
            Flow::PageDone
        } else if partition_done {
            Flow::PartitionDone
        } else {
            Flow::More
        }
    }

    /// The beginning or the end of a deleted range.
    pub(crate) fn marker(&mut self, marker: &RangeTombstoneMarker) -> Flow {
        let deletions = [marker.closes, marker.opens];
        self.page.scanned.marker(deletions, &self.purge);
        self.flow()
    }

    /// What to do after an item that gave no row.
    fn flow(&self) -> Flow {
        match self.is_full() {
            true => Flow::PageDone,
            false => Flow::More,
        }
    }

    /// Ends the partition. Says whether the page is full.
    pub(crate) fn end(&mut self) -> bool {
        let Some(current) = self.current.take() else {
            return self.is_full();
        };
        let (rows, packed) = match current.rows {
            Rows::Made(rows) => (rows, Vec::new()),
            Rows::Packed(packed) => (Vec::new(), packed),
        };
        if rows.is_empty() && packed.is_empty() {
            let alone =
                current.static_row.is_some() && !current.resumed && !self.filters.want_rows();
            if !alone {
                return self.is_full();
            }
            // Static data without rows shows as one row.
            self.rows_left = self.rows_left.saturating_sub(1);
        }
        let partition = Partition {
            key: current.key,
            deletion: DeletionTime::LIVE,
            static_row: current.static_row,
            rows,
            packed,
            range_tombstones: Vec::new(),
        };
        self.bytes_left = self.bytes_left.saturating_sub(partition.head_bytes());
        self.page.partitions.push(partition);
        self.is_full()
    }

    /// May the current partition give more rows than it has given?
    pub(crate) fn partition_may_go_on(&self) -> bool {
        self.current.as_ref().is_some_and(|c| c.rows_left > 0)
    }

    /// The page; `more` says whether there is anything behind it.
    pub(crate) fn finish(mut self, more: bool) -> ReadPage {
        self.end();
        self.page.more = more && !self.page.partitions.is_empty();
        self.page
    }
}

/// Room for the rows of a partition: for the one that there is where nothing tells rows apart.
pub(super) fn rows_of(table: &Table) -> Vec<Row> {
    match table.comparator().columns().is_empty() {
        true => Vec::with_capacity(1),
        false => Vec::new(),
    }
}

/// Detaches a small row from the chunk that it was read from if `taken` rows before it keep theirs.
pub(super) fn detach_small(row: &mut Row, bytes: u64, taken: usize) {
    if bytes < LARGE && taken >= IN_CHUNKS {
        detach(row, bytes);
    }
}

/// Copies the values of a row, of `bytes` in all, into memory of their own. What is left of a row
/// may be a few bytes of a chunk of 16 KiB, and a page must not take a thousand times what it
/// counts.
fn detach(row: &mut Row, bytes: u64) {
    let mut piece = BytesMut::with_capacity(bytes as usize);
    let mut take = |value: &mut Bytes| {
        piece.extend_from_slice(value);
        *value = piece.split().freeze();
    };
    row.clustering.0.iter_mut().for_each(&mut take);
    for cell in &mut row.cells {
        cell.path.iter_mut().for_each(&mut take);
        take(&mut cell.value);
    }
}

#[cfg(test)]
mod tests {
    use model::{ClusteringSelection, Order, PartitionSelection, Slice};

    use super::*;
    use crate::testing;

    #[test]
    fn a_page_does_not_keep_the_chunks_of_many_small_rows() {
        let table = testing::table(Order::Ascending);
        let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
        let command = ReadCommand {
            table: table.clone(),
            partitions: PartitionSelection::Key(key.clone()),
            clustering: ClusteringSelection {
                slices: vec![Slice::ALL],
                reversed: false,
            },
            columns: Vec::new(),
            filters: Vec::new(),
            limits: DataLimits {
                rows: 1000,
                rows_per_partition: 1000,
                bytes: 1 << 20,
            },
            now_seconds: 1,
            resume: None,
            bypass_cache: false,
            packed: false,
        };
        let head = PartitionHead {
            key,
            deletion: DeletionTime::LIVE,
            static_row: None,
        };
        let mut page = PageBuilder::new(&command, &table);
        assert!(page.begin(&head, None, &table));
        let mut chunks = Vec::new();
        for number in 0..1000u32 {
            let chunk = Bytes::from([&number.to_be_bytes()[..], &[0; 16 << 10]].concat());
            let values = [chunk.slice(..4), chunk.slice(..4)];
            let mut row = Row::new(model::Clustering(values.into_iter().collect()));
            row.liveness.timestamp = 1;
            page.row(row);
            chunks.push(chunk);
        }
        let page = page.finish(false);
        let rows = &page.partitions[0].rows;
        assert_eq!(rows.len(), 1000);
        let kept = chunks.iter().filter(|chunk| !chunk.is_unique()).count();
        assert_eq!(kept, IN_CHUNKS);
        for (number, row) in (0u32..).zip(rows) {
            let value = &number.to_be_bytes()[..];
            assert!(row.clustering.0.iter().all(|part| part == value));
        }
    }
}
