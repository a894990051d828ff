//! What is written, and so what has to be read: every row is a function of its number.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    DeletionTime, Keyspace, Liveness, Mutation, NO_DELETION_TIME, NO_TTL, Order, PartitionUpdate,
    RangeTombstone, Row, Schema, Slice, Table, TableId, TableOptions,
};

/// Bytes of a value.
pub(crate) const VALUE: u64 = 1000;
/// Of these, a compressor can do nothing about so many.
const NOISE: usize = 180;
/// The column of the values.
pub(crate) const V: ColumnId = ColumnId(2);
/// The static column.
pub(crate) const S: ColumnId = ColumnId(3);
/// The partition is gone through so many times: in each round every so-manyth row is written.
const ROUNDS: u64 = 4;
/// In so many rows there is one deleted range.
const STRETCH: u64 = 4096;
/// Where it lies in its stretch.
const DELETED: std::ops::Range<u64> = 1000..1100;
/// Rows of one mutation.
const BATCH: usize = 8;

/// The table: a blob as the key, a number as the clustering, a value, a static value.
pub(crate) fn table() -> Arc<Table> {
    let column = |id: u32, name: &str, ty, kind| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position: 0,
        order: Order::Ascending,
    };
    let columns = vec![
        column(0, "k", CqlType::Blob, ColumnKind::PartitionKey),
        column(1, "c", CqlType::Bigint, ColumnKind::Clustering),
        column(2, "v", CqlType::Blob, ColumnKind::Regular),
        column(3, "s", CqlType::Blob, ColumnKind::Static),
    ];
    let id = TableId::from_u128(1);
    Arc::new(Table::new(
        id,
        "ks",
        "wide",
        columns,
        TableOptions::default(),
    ))
}

/// The schema with that table in it.
pub(crate) fn schema(table: &Arc<Table>) -> Schema {
    let keyspace = Keyspace {
        name: table.keyspace.clone(),
        replication: Default::default(),
        durable_writes: true,
        tables: [(table.name.clone(), table.clone())].into(),
        types: Default::default(),
        is_virtual: false,
        functions: Default::default(),
        unserved: Default::default(),
    };
    Schema {
        keyspaces: [(table.keyspace.clone(), Arc::new(keyspace))].into(),
        ..Schema::default()
    }
}

/// The partition's key.
pub(crate) fn key() -> DecoratedKey {
    DecoratedKey::new(Bytes::from_static(b"wide"))
}

/// The clustering of a row.
pub(crate) fn clustering(row: u64) -> Clustering {
    Clustering(
        [Bytes::copy_from_slice(&row.to_be_bytes())]
            .into_iter()
            .collect(),
    )
}

/// The number of a row.
pub(crate) fn number(clustering: &Clustering) -> u64 {
    let bytes = clustering.0[0][..].try_into();
    u64::from_be_bytes(bytes.expect("a bigint has eight bytes"))
}

/// The rows from one number to before another.
pub(crate) fn slice(from: u64, to: u64) -> Slice {
    let bound = |row, kind| Bound {
        prefix: clustering(row),
        kind,
    };
    Slice {
        start: bound(from, BoundKind::InclusiveStart),
        end: bound(to, BoundKind::ExclusiveEnd),
    }
}

/// The value that a row was given the n-th time.
pub(crate) fn value(row: u64, version: u8) -> Bytes {
    let mut value = vec![version; VALUE as usize];
    let mut state = (row << 8 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for piece in value[..NOISE].chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_be_bytes()[..piece.len()]);
    }
    value.into()
}

/// The value of the static column.
pub(crate) fn static_value() -> Bytes {
    value(u64::MAX, 1)
}

/// Which version of a row there is in the end, if it is there.
pub(crate) fn version(row: u64) -> Option<u8> {
    let at = row % STRETCH;
    match () {
        () if is_rewritten(row) => Some(2),
        () if DELETED.contains(&at) || is_deleted(row) => None,
        () if is_updated(row) => Some(1),
        () => Some(0),
    }
}

fn is_updated(row: u64) -> bool {
    row % 16 == 3
}

fn is_deleted(row: u64) -> bool {
    row % 64 == 5
}

/// Rows amid deleted ranges, written after that.
fn is_rewritten(row: u64) -> bool {
    row % STRETCH == (DELETED.start + DELETED.end) / 2
}

/// All writes that make the partition, in phases that come one after the other. The first rows are
/// written twice, with a deletion of the whole partition between. `now_seconds`: when that is, in
/// seconds since 1970; too lately for a deletion to be forgotten.
pub(crate) fn phases(
    rows: u64,
    table: Arc<Table>,
    now_seconds: u32,
) -> Vec<Box<dyn Iterator<Item = Mutation>>> {
    let maker = Maker { table, now_seconds };
    let covered = rows / 64;
    let mut phases: Vec<Box<dyn Iterator<Item = Mutation>>> = vec![
        Box::new(maker.clone().writes((0..covered).collect(), 9, 10)),
        Box::new(maker.head().into_iter()),
    ];
    for round in 0..ROUNDS {
        let all = (round..rows).step_by(ROUNDS as usize);
        let written = maker.clone().written(all, 0, 100 + round as i64);
        phases.push(Box::new(written));
    }
    let updated = (0..rows).filter(|row| is_updated(*row));
    phases.push(Box::new(maker.clone().written(updated, 1, 1000)));
    let deleted = (0..rows).filter(|row| is_deleted(*row));
    let deleting = maker.clone();
    phases.push(Box::new(deleted.map(move |row| deleting.deletion(row))));
    let ranges = (0..rows).step_by(STRETCH as usize);
    let deleting = maker.clone();
    phases.push(Box::new(ranges.map(move |start| deleting.range(start))));
    let rewritten = (0..rows).filter(|row| is_rewritten(*row));
    phases.push(Box::new(maker.written(rewritten, 2, 3000)));
    phases
}

#[derive(Clone)]
struct Maker {
    table: Arc<Table>,
    /// When what is deleted was, in seconds since 1970.
    now_seconds: u32,
}

impl Maker {
    fn deleted_at(&self, timestamp: i64) -> DeletionTime {
        DeletionTime {
            timestamp,
            local_deletion_time: self.now_seconds,
        }
    }

    fn mutation(&self, say: impl FnOnce(&mut PartitionUpdate)) -> Mutation {
        let mut update = PartitionUpdate::new(self.table.clone(), key());
        say(&mut update);
        Mutation {
            updates: vec![update],
        }
    }

    fn writes(self, rows: Vec<u64>, version: u8, time: i64) -> impl Iterator<Item = Mutation> {
        self.written(rows.into_iter(), version, time)
    }

    /// Rows, some in each mutation.
    fn written(
        self,
        mut rows: impl Iterator<Item = u64>,
        version: u8,
        time: i64,
    ) -> impl Iterator<Item = Mutation> {
        std::iter::from_fn(move || {
            let some: Vec<Row> = rows
                .by_ref()
                .take(BATCH)
                .map(|row| written(row, version, time))
                .collect();
            (!some.is_empty()).then(|| self.mutation(|update| update.rows = some))
        })
    }

    /// The deletion of what was written before, and the static row.
    fn head(&self) -> [Mutation; 2] {
        let deletion = self.mutation(|update| update.deletion = self.deleted_at(20));
        let mut row = Row::new(Clustering::EMPTY);
        row.cells.push(cell(S, static_value(), 30));
        [
            deletion,
            self.mutation(|update| update.static_row = Some(row)),
        ]
    }

    fn deletion(&self, number: u64) -> Mutation {
        let mut row = Row::new(clustering(number));
        row.deletion = self.deleted_at(2000);
        self.mutation(|update| update.rows.push(row))
    }

    fn range(&self, stretch: u64) -> Mutation {
        let range = RangeTombstone {
            slice: slice(stretch + DELETED.start, stretch + DELETED.end),
            deletion: self.deleted_at(2000),
        };
        self.mutation(|update| update.range_tombstones.push(range))
    }
}

fn written(number: u64, version: u8, timestamp: i64) -> Row {
    let mut row = Row::new(clustering(number));
    row.liveness = Liveness {
        timestamp,
        ..row.liveness
    };
    row.cells.push(cell(V, value(number, version), timestamp));
    row
}

fn cell(column: ColumnId, value: Bytes, timestamp: i64) -> Cell {
    Cell {
        column,
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value,
    }
}
