//! What tests of the engine share: a shard, a folder, random writes.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use io::Env;
use io::sim::{SimConfig, Simulation};
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    DeletionTime, NO_TTL, Order, PartitionUpdate, RangeTombstone, Row, RowUpdate, Slice, Table,
    TableId, TableOptions,
};
use proptest::prelude::*;

/// Runs one shard on the real driver.
pub(crate) fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    body: impl FnOnce(Env) -> F + Send + 'static,
) -> T {
    let body = Mutex::new(Some(body));
    let (result, results) = mpsc::channel();
    let main = move |env| {
        let body = body.lock().expect("nobody panicked").take();
        let result = result.clone();
        async move { drop(result.send(body.expect("one shard")(env).await)) }
    };
    let runtime = io::Runtime::start(io::RuntimeConfig::default(), main).expect("a runtime");
    runtime.join().expect("the body does not fail");
    results.recv().expect("the body's result")
}

/// Where a simulated node is.
pub(crate) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs one shard in virtual time, on a drive of its own.
pub(crate) fn simulate<F: Future<Output = ()> + 'static>(body: impl Fn(Env) -> F) {
    const LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);
    let mut simulation = Simulation::new(1, SimConfig::default());
    let node = simulation.add_node(ADDRESS, 1, 1 << 28);
    simulation.start(node, body);
    assert!(simulation.run_to_end(node, LIMIT), "it ends");
}

/// A folder of its own, removed at the end.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-storage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A table with two clustering columns, the first in this order, a regular column `v` (3) and a
/// static one `s` (4), all of type `int`.
pub(crate) fn table(order: Order) -> Arc<Table> {
    let column = |id: u32, name: &str, kind, position, order| Column {
        id: ColumnId(id),
        name: name.into(),
        ty: CqlType::Int,
        kind,
        position,
        order,
    };
    let columns = vec![
        column(0, "k", ColumnKind::PartitionKey, 0, Order::Ascending),
        column(1, "a", ColumnKind::Clustering, 0, order),
        column(2, "b", ColumnKind::Clustering, 1, Order::Ascending),
        column(3, "v", ColumnKind::Regular, 0, Order::Ascending),
        column(4, "s", ColumnKind::Static, 0, Order::Ascending),
    ];
    let id = TableId::from_u128(1);
    Arc::new(Table::new(id, "ks", "t", columns, TableOptions::default()))
}

fn int(n: u8) -> Bytes {
    Bytes::copy_from_slice(&u32::from(n).to_be_bytes())
}

pub(crate) fn clustering(values: &[u8]) -> Clustering {
    Clustering(values.iter().map(|n| int(*n)).collect())
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime {
        timestamp,
        local_deletion_time: timestamp as u32,
    }
}

fn cell(column: u32, timestamp: i64, value: u8) -> Cell {
    Cell {
        column: ColumnId(column),
        path: None,
        timestamp,
        ttl: model::NO_TTL,
        local_deletion_time: model::NO_DELETION_TIME,
        value: int(value),
    }
}

/// One thing that an update says.
#[derive(Clone, Debug)]
pub(crate) enum Saying {
    Partition(i64),
    Static(i64, u8),
    Deleted([u8; 2], i64),
    Written([u8; 2], i64, u8),
    Marked([u8; 2], i64),
    Range(Slice, i64),
}

fn bound(kinds: [BoundKind; 2]) -> impl Strategy<Value = Bound> {
    let prefix = prop_oneof![
        1 => Just(clustering(&[])),
        4 => (0u8..4).prop_map(|a| clustering(&[a])),
        4 => (0u8..4, 0u8..3).prop_map(|(a, b)| clustering(&[a, b])),
    ];
    (prefix, prop::sample::select(kinds.to_vec())).prop_map(move |(prefix, kind)| {
        // The empty prefix has no outside.
        let kind = if prefix.0.is_empty() { kinds[0] } else { kind };
        Bound { prefix, kind }
    })
}

/// A range of rows, which may be empty.
pub(crate) fn slice() -> impl Strategy<Value = Slice> {
    let start = bound([BoundKind::InclusiveStart, BoundKind::ExclusiveStart]);
    let end = bound([BoundKind::InclusiveEnd, BoundKind::ExclusiveEnd]);
    (start, end).prop_map(|(start, end)| Slice { start, end })
}

/// What an update may say of a few rows, most of which live.
pub(crate) fn living() -> impl Strategy<Value = Saying> {
    let place = || (0u8..2, 0u8..2).prop_map(|(a, b)| [a, b]);
    let time = || 1i64..9;
    prop_oneof![
        2 => (place(), time()).prop_map(|(p, t)| Saying::Deleted(p, t)),
        8 => (place(), time(), any::<u8>()).prop_map(|(p, t, v)| Saying::Written(p, t, v)),
        4 => (place(), time()).prop_map(|(p, t)| Saying::Marked(p, t)),
    ]
}

/// Anything that an update may say.
pub(crate) fn saying() -> impl Strategy<Value = Saying> {
    let place = || (0u8..4, 0u8..3).prop_map(|(a, b)| [a, b]);
    let time = || 1i64..9;
    prop_oneof![
        1 => time().prop_map(Saying::Partition),
        1 => (time(), any::<u8>()).prop_map(|(t, v)| Saying::Static(t, v)),
        2 => (place(), time()).prop_map(|(p, t)| Saying::Deleted(p, t)),
        6 => (place(), time(), any::<u8>()).prop_map(|(p, t, v)| Saying::Written(p, t, v)),
        2 => (place(), time()).prop_map(|(p, t)| Saying::Marked(p, t)),
        3 => (slice(), time()).prop_map(|(s, t)| Saying::Range(s, t)),
    ]
}

/// An update that says these things.
pub(crate) fn update(table: &Arc<Table>, sayings: &[Saying]) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(int(7)));
    for saying in sayings {
        match saying {
            Saying::Partition(t) => update.deletion = update.deletion.merge(deletion(*t)),
            Saying::Static(t, v) => update.static_row_mut().add_cell(cell(4, *t, *v), table),
            Saying::Deleted(place, t) => {
                let row = update.row_mut(&clustering(place));
                row.deletion = row.deletion.merge(deletion(*t));
            }
            Saying::Written(place, t, v) => update
                .row_mut(&clustering(place))
                .add_cell(cell(3, *t, *v), table),
            Saying::Marked(place, t) => {
                let row = update.row_mut(&clustering(place));
                row.liveness.timestamp = row.liveness.timestamp.max(*t);
            }
            Saying::Range(slice, t) => update.add_range_tombstone(RangeTombstone {
                slice: slice.clone(),
                deletion: deletion(*t),
            }),
        }
    }
    update
}

/// A write of one row, as memtables lay it out.
pub(crate) fn row_update() -> impl Strategy<Value = RowUpdate> {
    let saying = |place| {
        prop_oneof![
            1 => (1i64..9).prop_map(move |t| Saying::Deleted(place, t)),
            6 => (1i64..9, any::<u8>()).prop_map(move |(t, v)| Saying::Written(place, t, v)),
            2 => (1i64..9).prop_map(move |t| Saying::Marked(place, t)),
        ]
    };
    let place = (0u8..4, 0u8..3).prop_map(|(a, b)| [a, b]);
    let sayings = place.prop_flat_map(move |place| prop::collection::vec(saying(place), 1..4));
    let ttl = prop_oneof![2 => Just(NO_TTL), 1 => 1..9i32];
    (sayings, ttl).prop_filter_map("nothing is left of it", |(sayings, ttl)| {
        let mut said = update(&table(Order::Ascending), &sayings);
        if ttl != NO_TTL {
            said.rows.iter_mut().for_each(|row| expire(row, ttl));
        }
        RowUpdate::of(&said, &mut Vec::new())
    })
}

/// What a row says and has no end gets one.
fn expire(row: &mut Row, ttl: i32) {
    let expires_at = 1_000 + ttl.unsigned_abs();
    if !row.liveness.is_empty() {
        (row.liveness.ttl, row.liveness.expires_at) = (ttl, expires_at);
    }
    for cell in &mut row.cells {
        (cell.ttl, cell.local_deletion_time) = (ttl, expires_at);
    }
}
