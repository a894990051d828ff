//! Reads: what a coordinator asks of a replica and of a shard, and what comes back.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Bound, Clustering, ColumnId, DecoratedKey, DeletionTime, PackedRow, PartitionUpdate, Purge,
    RangeTombstone, Row, Slice, Table, Token,
};

/// One end of a range of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionBound {
    /// From the first, or to the last partition of the ring.
    Unbounded,
    /// With all partitions of this token.
    TokenInclusive(Token),
    /// Without the partitions of this token.
    TokenExclusive(Token),
    /// With this partition.
    KeyInclusive(DecoratedKey),
    /// Without this partition.
    KeyExclusive(DecoratedKey),
}

/// Which partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionSelection {
    /// One.
    Key(DecoratedKey),
    /// All between two places on the ring, in its order; never wraps.
    Range {
        /// The lower end.
        start: PartitionBound,
        /// The upper end.
        end: PartitionBound,
    },
}

/// Which rows of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringSelection {
    /// Sorted in the order of the table; they do not overlap. Empty: only the static row.
    pub slices: Vec<Slice>,
    /// From the last row to the first?
    pub reversed: bool,
}

/// How a filter compares a column with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOperator {
    /// Equal.
    Equal,
    /// Less than the value.
    Less,
    /// Less than or equal to the value.
    LessOrEqual,
    /// Greater than the value.
    Greater,
    /// Greater than or equal to the value.
    GreaterOrEqual,
    /// A collection that contains the value.
    Contains,
    /// A map that contains the key.
    ContainsKey,
    /// A map that contains the only entry of the value, which is a map.
    ContainsEntry,
    /// A text that begins with the value: `LIKE 'a%'`.
    LikePrefix,
    /// A text that ends with the value: `LIKE '%a'`.
    LikeSuffix,
    /// A text that contains the value: `LIKE '%a%'`.
    LikeContains,
    /// A text that is the value: `LIKE 'a'`.
    LikeMatches,
}

impl FilterOperator {
    /// Is it fulfilled by all values on one side of another?
    pub fn is_range(self) -> bool {
        use FilterOperator::{Greater, GreaterOrEqual, Less, LessOrEqual};
        matches!(self, Less | LessOrEqual | Greater | GreaterOrEqual)
    }

    /// What a pattern of LIKE means, and the part of it that is looked for
    /// (`SingleColumnRestriction.LikeRestriction.makeSpecific`); `None` if there is nothing to look for.
    pub fn like(pattern: &Bytes) -> Option<(FilterOperator, Bytes)> {
        let (open, rest) = match pattern.strip_prefix(b"%") {
            Some(rest) => (true, rest),
            None => (false, &pattern[..]),
        };
        let (operator, wanted) = match (open, rest.strip_suffix(b"%")) {
            (true, Some(middle)) => (FilterOperator::LikeContains, middle),
            (true, None) => (FilterOperator::LikeSuffix, rest),
            (false, Some(prefix)) => (FilterOperator::LikePrefix, prefix),
            (false, None) => (FilterOperator::LikeMatches, rest),
        };
        (!wanted.is_empty()).then(|| (operator, pattern.slice_ref(wanted)))
    }

    /// Does a text fulfil it, if it is one of LIKE?
    pub fn is_like(self, text: &[u8], wanted: &[u8]) -> bool {
        match self {
            FilterOperator::LikePrefix => text.starts_with(wanted),
            FilterOperator::LikeSuffix => text.ends_with(wanted),
            FilterOperator::LikeContains => {
                wanted.is_empty() || text.windows(wanted.len()).any(|part| part == wanted)
            }
            FilterOperator::LikeMatches => text == wanted,
            _ => false,
        }
    }
}

/// What a row (or, for key and static columns, its partition) must fulfil besides its place: the
/// filter of ALLOW FILTERING. All filters of a command must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFilter {
    /// Any column.
    pub column: ColumnId,
    /// How.
    pub operator: FilterOperator,
    /// What it is compared with: several values mean "one of them" (IN).
    pub values: Vec<Bytes>,
}

/// When to stop. What is counted are live rows; a partition with only static data counts one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataLimits {
    /// Rows in all.
    pub rows: u32,
    /// Rows of each partition.
    pub rows_per_partition: u32,
    /// Stop after the row with which the page reaches this many bytes, so that no page takes
    /// unbounded memory; the page then says that there is more.
    pub bytes: u32,
}

/// Where the page before ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The partition the last row was of.
    pub key: DecoratedKey,
    /// The last row given; `None`: the static row only, or the partition is finished.
    pub clustering: Option<Clustering>,
    /// How many more rows this partition may give (`rows_per_partition` less those given).
    pub remaining_in_partition: u32,
}

/// A read, as a replica understands it: no CQL, all names resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadCommand {
    /// The table, as the coordinator knows it.
    pub table: Arc<Table>,
    /// Which partitions.
    pub partitions: PartitionSelection,
    /// Which rows of them.
    pub clustering: ClusteringSelection,
    /// Which regular and static columns are wanted, sorted. Rows that have none of them live
    /// still count: CQL shows them with nulls.
    pub columns: Vec<ColumnId>,
    /// What rows must fulfil besides.
    pub filters: Vec<RowFilter>,
    /// When to stop.
    pub limits: DataLimits,
    /// Seconds since 1970: what has expired by then is gone.
    pub now_seconds: u32,
    /// Where the page before ended.
    pub resume: Option<Resume>,
    /// Is the cache of rows to be left as it is (`BYPASS CACHE`)?
    pub bypass_cache: bool,
    /// May rows come as memtables have them ([`Partition::packed`])? Only of a table whose columns have one cell
    /// each ([`Table::has_single_cells`]), and only for whoever wants no times of them. It is not told to other nodes.
    pub packed: bool,
}

/// A partition in an answer: its live rows, and for reconciliation between replicas also its
/// deletions.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The key.
    pub key: DecoratedKey,
    /// The deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row.
    pub static_row: Option<Row>,
    /// In the order asked for.
    pub rows: Vec<Row>,
    /// The rows, each in one piece that memtables share, where the command takes them so
    /// ([`ReadCommand::packed`]): then `rows` has none.
    pub packed: Vec<PackedRow>,
    /// In the order of the table.
    pub range_tombstones: Vec<RangeTombstone>,
}

impl Partition {
    /// How many rows it has.
    pub fn row_count(&self) -> usize {
        self.rows.len() + self.packed.len()
    }

    /// The place of the last of its rows.
    pub fn last_clustering(&self) -> Option<Clustering> {
        match self.packed.last() {
            Some(row) => Some(row.to_clustering()),
            None => self.rows.last().map(|row| row.clustering.clone()),
        }
    }

    /// Makes rows of the packed ones, for whoever does not take them as they are.
    pub fn unpack(&mut self) {
        let packed = std::mem::take(&mut self.packed);
        self.rows.extend(packed.iter().map(PackedRow::unpack));
    }

    /// Leaves out what is behind so many rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
        self.packed.truncate(rows);
    }

    /// As how many rows it counts: one with nothing but static data shows as one.
    pub fn counted_rows(&self) -> usize {
        self.row_count().max(1)
    }

    /// About how many bytes it takes in an answer, its rows left out.
    pub fn head_bytes(&self) -> u64 {
        let static_row = self.static_row.as_ref().map_or(0, Row::answer_bytes);
        self.key.key().len() as u64 + static_row
    }

    /// About how many bytes it takes in an answer.
    pub fn answer_bytes(&self) -> u64 {
        let rows = self.rows.iter().map(Row::answer_bytes);
        self.head_bytes() + rows.sum::<u64>() + self.packed_bytes()
    }

    /// Bytes of the rows that are packed.
    pub fn packed_bytes(&self) -> u64 {
        self.packed.iter().map(|row| row.len() as u64).sum()
    }
}

/// All that an update says, be it alive or not.
impl From<PartitionUpdate> for Partition {
    fn from(update: PartitionUpdate) -> Partition {
        Partition {
            key: update.key,
            deletion: update.deletion,
            static_row: update.static_row,
            rows: update.rows,
            packed: Vec::new(),
            range_tombstones: update.range_tombstones,
        }
    }
}

/// What was gone through for an answer, as Cassandra counts it (`ReadCommand.withMetricsRecording`).
///
/// Two are equal whatever sstables were met: that depends on what is cached and compacted, not on what is there.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Scanned {
    /// Live rows, those that filters left out as well.
    pub live_rows: u64,
    /// Cells that were deleted or have expired, deleted rows without such cells, and ends of deleted
    /// ranges, as far as no compaction may forget them yet.
    pub tombstones: u64,
    /// The token of the last partition.
    pub last: Option<Token>,
    /// How many sstables had something of the partition, or were gone through for the range: the most of any
    /// shard.
    pub sstables: u64,
    /// How many sstables of a storage-attached index were looked into, the most of any shard, if those are more
    /// than clients are warned of (`sai_sstable_indexes_per_query_warn_threshold`); else 0.
    pub index_sstables: u64,
    /// On how many nodes that was so, as far as whoever asked them counts them.
    pub index_nodes: u64,
}

impl PartialEq for Scanned {
    fn eq(&self, other: &Scanned) -> bool {
        let of = |this: &Scanned| (this.live_rows, this.tombstones, this.last);
        of(self) == of(other)
    }
}

impl std::ops::AddAssign for Scanned {
    fn add_assign(&mut self, other: Scanned) {
        self.live_rows += other.live_rows;
        self.tombstones += other.tombstones;
        self.last = self.last.max(other.last);
        self.sstables = self.sstables.max(other.sstables);
        self.index_sstables = self.index_sstables.max(other.index_sstables);
        self.index_nodes = self.index_nodes.max(other.index_nodes);
    }
}

impl Scanned {
    /// Counts a row.
    pub fn row(&mut self, row: &Row, purge: &Purge) {
        let dead = row.cells.iter().filter(|cell| purge.counts_cell(cell));
        let dead = dead.count() as u64;
        self.tombstones += dead;
        if row.is_live(purge.now_seconds) {
            self.live_rows += 1;
        } else if dead == 0 {
            self.tombstones += u64::from(!row.deletion.is_live() && !purge.forgets(&row.deletion));
        }
    }

    /// Counts the end of a deleted range and the beginning of one, if both are at the same place.
    pub fn marker(&mut self, deletions: [Option<DeletionTime>; 2], purge: &Purge) {
        let mut deletions = deletions.iter().flatten();
        self.tombstones += u64::from(deletions.any(|deletion| !purge.forgets(deletion)));
    }
}

/// The answer to a [`ReadCommand`]: what is said of one partition after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<P> {
    /// In ring order.
    pub partitions: Vec<P>,
    /// Is there anything behind the last of them? If so there is one.
    pub more: bool,
    /// What was gone through for it.
    pub scanned: Scanned,
}

impl<P> Default for Page<P> {
    fn default() -> Page<P> {
        Page {
            partitions: Vec::new(),
            more: false,
            scanned: Scanned::default(),
        }
    }
}

/// What is alive.
pub type ReadPage = Page<Partition>;

/// The answer of one of several replicas.
pub type VersionPage = Page<PartitionVersion>;

/// What one of several replicas knows of a partition, dead and alive: what of it has been deleted or has
/// expired is there as long as another replica may need to learn of it (`gc_grace_seconds`).
///
/// Of columns that were not asked for there are cells without their values: they may be what a row
/// lives by.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionVersion {
    /// What is known.
    pub partition: Partition,
    /// Up to where that is all there is, in the direction of reading: to before this place or, where
    /// there is none, to the end. The deletion of the partition and the static row are whole.
    pub end: Option<Bound>,
}

impl PartitionVersion {
    /// As how many rows it counts: live ones, and a partition with nothing but live static data as one.
    pub fn counted_rows(&self, now_seconds: u32) -> usize {
        let live = |row: &&Row| row.is_live(now_seconds);
        let rows = self.partition.rows.iter().filter(live).count();
        let static_row = self.partition.static_row.as_ref();
        rows.max(usize::from(static_row.as_ref().is_some_and(live)))
    }
}
