//! Reads of single rows answer the same with the cache as without: whatever was written, flushed,
//! compacted, truncated or altered between them, of whatever columns, at whatever time. And replicas say
//! the same of what they know, wherever it is.

mod shown;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io::Env;
use model::{
    Cell, Clustering, ClusteringSelection, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    DeletionTime, Liveness, Mutation, NO_DELETION_TIME, NO_TTL, Order, Partition,
    PartitionSelection, PartitionUpdate, RangeTombstone, ReadCommand, ReadPage, Slice, Table,
    TableId, TableOptions,
};
use proptest::prelude::*;

use super::tests::{config, content, open, open_with, schema};
use super::*;
use crate::read::versions_in_memory;
use crate::read_partitions;
use crate::testing::{TempDir, run};

const CLUSTERING: ColumnId = ColumnId(1);
const V: ColumnId = ColumnId(2);
const W: ColumnId = ColumnId(3);
const SET: ColumnId = ColumnId(4);

/// A table with a clustering column `c`, columns `v` and `w` of one cell and a set, whose deletions
/// are never old enough to be purged: the writes of these tests come in any order of their times.
fn table() -> Arc<Table> {
    table_with(true)
}

/// The same, or without the set: rows of a table without collections are read the short way by who
/// wants to know all of them, too.
fn table_with(has_set: bool) -> Arc<Table> {
    let column = |id: ColumnId, name: &str, ty, kind| Column {
        id,
        name: name.into(),
        ty,
        kind,
        position: 0,
        order: Order::Ascending,
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    let mut columns = vec![
        column(ColumnId(0), "k", CqlType::Int, ColumnKind::PartitionKey),
        column(CLUSTERING, "c", CqlType::Int, ColumnKind::Clustering),
        column(V, "v", CqlType::Blob, ColumnKind::Regular),
        column(W, "w", CqlType::Blob, ColumnKind::Regular),
        column(SET, "s", set, ColumnKind::Regular),
    ];
    columns.truncate(if has_set { 5 } else { 4 });
    let options = TableOptions {
        gc_grace_seconds: i32::MAX,
        ..TableOptions::default()
    };
    Arc::new(Table::new(
        TableId::from_u128(7),
        "ks",
        "cached",
        columns,
        options,
    ))
}

fn int(number: u8) -> Bytes {
    Bytes::copy_from_slice(&u32::from(number).to_be_bytes())
}

fn key() -> DecoratedKey {
    DecoratedKey::new(int(1))
}

fn clustering(row: u8) -> Clustering {
    Clustering([int(row)].into_iter().collect())
}

/// Seconds since 1970 that no compaction sees as past (the format `nb` ends in 2038); what expires
/// does so a few seconds after.
const FAR: u32 = 2_100_000_000;

/// One write, at a time.
#[derive(Clone, Debug)]
enum Write {
    /// A marker, with a time to live unless it is 0.
    Marker(u8, u32),
    /// A cell of a column: a value of so many bytes with a time to live, or without value a
    /// tombstone.
    Cell(u8, ColumnId, Option<(u16, u32)>),
    /// An element of the set.
    Element(u8, u8),
    SetDeleted(u8),
    RowDeleted(u8),
    RangeDeleted(u8, u8),
    PartitionDeleted,
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Write>, i64),
    /// To another partition.
    WriteElsewhere,
    Flush,
    /// A write while a memtable is flushed.
    WriteBesideFlush(Vec<Write>, i64),
    Compact,
    Truncate,
    Alter,
    /// A row, which columns, and seconds after [`FAR`].
    Read(u8, Vec<ColumnId>, u32),
    /// All that is known of some rows, from the one to the other.
    Say((u8, u8), Vec<ColumnId>, u32),
}

/// How many rows there may be.
const ROWS: u8 = 3;

/// Everything is written at [`FAR`].
fn write() -> impl Strategy<Value = Write> {
    let row = || 0..ROWS;
    let ttl = || prop_oneof![2 => Just(0u32), 1 => 1u32..9];
    let column = || prop::sample::select(vec![V, W]);
    prop_oneof![
        4 => (row(), ttl()).prop_map(|(row, ttl)| Write::Marker(row, ttl)),
        6 => (row(), column(), (0u16..400, ttl()))
            .prop_map(|(row, column, value)| Write::Cell(row, column, Some(value))),
        2 => (row(), column()).prop_map(|(row, column)| Write::Cell(row, column, None)),
        2 => (row(), 0u8..3).prop_map(|(row, element)| Write::Element(row, element)),
        1 => row().prop_map(Write::SetDeleted),
        1 => row().prop_map(Write::RowDeleted),
        1 => (row(), row()).prop_map(|(a, b)| Write::RangeDeleted(a.min(b), a.max(b))),
        1 => Just(Write::PartitionDeleted),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let columns = || prop::sample::subsequence(vec![V, W], 0..=2);
    let rows = prop_oneof![3 => (0..ROWS).prop_map(|row| (row, row)), 1 => Just((0, ROWS - 1))];
    prop_oneof![
        8 => (prop::collection::vec(write(), 1..4), 1i64..12).prop_map(|(w, t)| Step::Write(w, t)),
        2 => Just(Step::WriteElsewhere),
        4 => Just(Step::Flush),
        2 => (prop::collection::vec(write(), 1..3), 1i64..12)
            .prop_map(|(w, t)| Step::WriteBesideFlush(w, t)),
        1 => Just(Step::Compact),
        1 => Just(Step::Truncate),
        1 => Just(Step::Alter),
        16 => (0u8..3, columns(), 0u32..10).prop_map(|(row, c, now)| Step::Read(row, c, now)),
        8 => (rows, columns(), 0u32..10).prop_map(|(rows, c, now)| Step::Say(rows, c, now)),
    ]
}

fn update(table: &Arc<Table>, writes: &[Write], timestamp: i64) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), key());
    let deletion = DeletionTime {
        timestamp,
        local_deletion_time: 0,
    };
    let cell = |column, path, value, ttl: u32| Cell {
        column,
        path,
        timestamp,
        ttl: ttl as i32,
        local_deletion_time: match ttl {
            0 => NO_DELETION_TIME,
            ttl => FAR + ttl,
        },
        value,
    };
    for write in writes {
        match *write {
            Write::Marker(row, ttl) => {
                let marker = Liveness {
                    timestamp,
                    ttl: ttl as i32,
                    expires_at: if ttl == 0 {
                        NO_DELETION_TIME
                    } else {
                        FAR + ttl
                    },
                };
                let row = update.row_mut(&clustering(row));
                row.liveness = row.liveness.merge(marker);
            }
            Write::Cell(row, column, value) => {
                let cell = match value {
                    Some((length, ttl)) => {
                        cell(column, None, vec![length as u8; length.into()].into(), ttl)
                    }
                    None => Cell {
                        ttl: NO_TTL,
                        local_deletion_time: 0,
                        ..cell(column, None, Bytes::new(), 0)
                    },
                };
                update.row_mut(&clustering(row)).add_cell(cell, table);
            }
            Write::Element(..) | Write::SetDeleted(_) if table.column(SET).is_none() => {}
            Write::Element(row, element) => {
                let cell = cell(SET, Some(int(element)), Bytes::new(), 0);
                update.row_mut(&clustering(row)).add_cell(cell, table);
            }
            Write::SetDeleted(row) => {
                let row = update.row_mut(&clustering(row));
                row.add_complex_deletion(SET, deletion);
            }
            Write::RowDeleted(row) => {
                let row = update.row_mut(&clustering(row));
                row.deletion = row.deletion.merge(deletion);
            }
            Write::RangeDeleted(from, to) => {
                let slice = Slice {
                    start: Slice::of_prefix(clustering(from)).start,
                    end: Slice::of_prefix(clustering(to)).end,
                };
                update.add_range_tombstone(RangeTombstone { slice, deletion });
            }
            Write::PartitionDeleted => update.deletion = update.deletion.merge(deletion),
        }
    }
    update
}

/// A write of another partition.
fn elsewhere(table: &Arc<Table>) -> PartitionUpdate {
    let mut update = update(table, &[Write::Marker(0, 0)], 1);
    update.key = DecoratedKey::new(int(2));
    update
}

/// Begins to write all memtables.
fn begin_flush(env: &Env, store: &Store) -> io::Task<()> {
    let store = store.clone();
    env.spawn(io::TaskGroup::Foreground, async move {
        store.flush(None).await.expect("it can be flushed");
    })
}

fn command(table: &Arc<Table>, row: u8, columns: &[ColumnId], now_seconds: u32) -> ReadCommand {
    ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Key(key()),
        clustering: ClusteringSelection {
            slices: vec![Slice::of_prefix(clustering(row))],
            reversed: false,
        },
        columns: columns.to_vec(),
        filters: Vec::new(),
        limits: model::DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        },
        now_seconds,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}

/// A row, if there is one: its clustering, and what it has of columns.
type Values = Option<(Vec<Bytes>, Vec<(ColumnId, Bytes)>)>;

/// A row that is shown, with what it has of columns that are asked for.
fn copied<'r>(
    clustering: impl Iterator<Item = &'r [u8]>,
    values: impl Iterator<Item = (ColumnId, &'r [u8])>,
    columns: &[ColumnId],
) -> Values {
    let copy = Bytes::copy_from_slice;
    let values = values.filter(|(column, _)| columns.contains(column));
    let values = values.map(|(column, value)| (column, copy(value)));
    Some((clustering.map(copy).collect(), values.collect()))
}

/// What rows that lie in memory as they are to be seen are shown as, up to the first that takes a read.
fn shown_together(
    env: &Env,
    store: &Store,
    table: TableId,
    rows: &[u8],
    (columns, now_seconds): (&[ColumnId], u32),
) -> Vec<Values> {
    let (key, clusterings) = (key(), rows.iter().map(|row| clustering(*row)));
    let clusterings: Vec<Clustering> = clusterings.collect();
    let places: Vec<_> = clusterings.iter().map(|row| (&key, row)).collect();
    let mut found = Vec::new();
    let when = (env.now(), || now_seconds);
    let shown = store.with_plain_rows(table, &places, columns, when, |row| {
        let copy = |row: PlainRow<'_>| copied(row.clustering(), row.values(), columns);
        found.push(row.and_then(copy));
        true
    });
    assert_eq!(shown.map_or(0, |(count, _)| count), found.len());
    found
}

/// What a row is shown as; `None` if it takes a read.
fn shown_plain(env: &Env, store: &Store, command: &ReadCommand, row: u8) -> Option<Values> {
    let asked = (&command.columns[..], command.now_seconds);
    let mut shown = shown_together(env, store, command.table.id, &[row], asked);
    shown.pop()
}

/// What the partition is shown as; `None` if it takes a read.
fn shown_whole(env: &Env, store: &Store, command: &ReadCommand) -> Option<Vec<Values>> {
    let (key, columns) = (key(), &command.columns);
    let mut found = Vec::new();
    let keys = [&key];
    let when = (env.now(), command.now_seconds);
    let shown = store.with_plain_partitions(command.table.id, &keys, when, |rows| {
        rows.all(|row| {
            found.push(copied(row.clustering(), row.values(), columns));
            true
        })
    });
    shown.map(|_| found)
}

/// The same of a page.
fn values_of(page: &ReadPage, columns: &[ColumnId]) -> Values {
    all_values_of(page, columns).into_iter().next()?
}

fn all_values_of(page: &ReadPage, columns: &[ColumnId]) -> Vec<Values> {
    let rows = page.partitions.iter().flat_map(|partition| &partition.rows);
    let values_of_row = |row: &model::Row| {
        let asked = row.cells.iter();
        let asked = asked.filter(|cell| columns.contains(&cell.column));
        let values = asked.map(|cell| (cell.column, cell.value.clone()));
        Some((row.clustering.0.to_vec(), values.collect()))
    };
    rows.map(values_of_row).collect()
}

/// What the table should answer.
async fn expected(env: &Env, command: &ReadCommand, all: &PartitionUpdate) -> ReadPage {
    let page = read_partitions(env, command, vec![Partition::from(all.clone())]).await;
    content(page.expect("memory is read without a drive"))
}

/// Rows that are shown without a read are as they should be.
async fn check_shown(
    env: &Env,
    store: &Store,
    table: &Arc<Table>,
    all: &PartitionUpdate,
) -> Result<(), TestCaseError> {
    for row in 0..ROWS {
        let command = command(table, row, &[V, W], FAR);
        if let Some(shown) = shown_plain(env, store, &command, row) {
            let expected = expected(env, &command, all).await;
            prop_assert_eq!(shown, values_of(&expected, &[V, W]));
        }
    }
    Ok(())
}

/// Takes the steps; gives how many reads of those the cache answered.
async fn live(
    env: Env,
    dir: PathBuf,
    (mut table, steps): (Arc<Table>, Vec<Step>),
) -> Result<u64, TestCaseError> {
    let mut config = config(dir);
    // Nothing is compacted but when a step says so, or everything would be in one sstable soon.
    config.memory = 1 << 20;
    let store = open_with(&env, config, &schema(&table)).await;
    store.set_auto_compaction(table.id, false);
    let mut all = update(&table, &[], 0);
    let mut hits = 0;
    for step in &steps {
        match step {
            Step::Write(writes, timestamp) => {
                let written = update(&table, writes, *timestamp);
                all.merge(written.clone());
                let updates = vec![written];
                let applied = store.apply(Mutation { updates }).await;
                applied.expect("the write is taken");
            }
            Step::WriteElsewhere => {
                let updates = vec![elsewhere(&table)];
                store.apply(Mutation { updates }).await.expect("taken");
            }
            Step::Flush => store.flush(None).await.expect("it can be flushed"),
            Step::WriteBesideFlush(writes, timestamp) => {
                let flush = begin_flush(&env, &store);
                env.yield_now().await;
                let written = update(&table, writes, *timestamp);
                all.merge(written.clone());
                let updates = vec![written];
                store.apply(Mutation { updates }).await.expect("taken");
                for _ in 0..8 {
                    check_shown(&env, &store, &table, &all).await?;
                    env.yield_now().await;
                }
                flush.await;
                check_shown(&env, &store, &table, &all).await?;
            }
            Step::Compact => store.compact(table.id).await.expect("it can be compacted"),
            Step::Truncate => {
                store.truncate(table.id).await.expect("it can be truncated");
                all = update(&table, &[], 0);
            }
            Step::Alter => {
                let mut altered = Table::clone(&table);
                altered.options.comment.push('.');
                table = Arc::new(altered);
                let altered = store.set_schema(&schema(&table)).await;
                altered.expect("it can be altered");
                all.table = table.clone();
            }
            Step::Read(row, columns, now) => {
                let command = command(&table, *row, columns, FAR + now);
                let expected = expected(&env, &command, &all).await;
                let before = shown_plain(&env, &store, &command, *row);
                let known = store.stats().row_cache.hits;
                let found = store.read(&command).await.expect("it can be read");
                prop_assert_eq!(&content(found), &expected);
                hits += store.stats().row_cache.hits - known;
                // What lies in memory may be another thing once it was read.
                let after = shown_plain(&env, &store, &command, *row);
                for plain in before.into_iter().chain(after) {
                    prop_assert_eq!(plain, values_of(&expected, columns));
                }
                // Side by side they are shown as alone, up to the first that is not.
                let alone = (0..ROWS).map(|row| shown_plain(&env, &store, &command, row));
                let alone: Vec<Values> = alone.map_while(|shown| shown).collect();
                let rows: Vec<u8> = (0..ROWS).collect();
                let asked = (&columns[..], command.now_seconds);
                let together = shown_together(&env, &store, table.id, &rows, asked);
                prop_assert_eq!(together, alone);
                // As is the whole partition.
                let mut whole = command;
                whole.clustering.slices = vec![Slice::ALL];
                if let Some(shown) = shown_whole(&env, &store, &whole) {
                    let expected = content(self::expected(&env, &whole, &all).await);
                    prop_assert_eq!(shown, all_values_of(&expected, columns));
                }
            }
            Step::Say((from, to), columns, now) => {
                let mut command = command(&table, *from, columns, FAR + now);
                let upto = Slice::of_prefix(clustering(*to)).end;
                command.clustering.slices[0].end = upto;
                let said = store.read_versions(&command).await.expect("it can be read");
                let all = vec![Partition::from(all.clone())];
                prop_assert_eq!(said, versions_in_memory(&env, &command, all).await);
            }
        }
        let stats = store.stats();
        let (rows, chunks) = (stats.row_cache, stats.chunk_cache);
        prop_assert!(rows.size <= rows.capacity && rows.size + chunks.size <= 1 << 18);
    }
    Ok(hits)
}

fn lives(table: Arc<Table>, steps: Vec<Step>) -> Result<u64, TestCaseError> {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| live(env, dir, (table, steps)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_the_same_with_the_cache(
        steps in prop::collection::vec(step(), 1..50),
        has_set in any::<bool>(),
    ) {
        lives(table_with(has_set), steps)?;
    }
}

/// The steps of each line are what an entry might get wrong.
#[test]
fn what_an_entry_leaves_out_is_read_when_it_matters() {
    let value = |length| Some((length, 0));
    let read = |columns: &[ColumnId], now| Step::Read(0, columns.to_vec(), now);
    let write = |write, timestamp| Step::Write(vec![write], timestamp);
    let cases: Vec<(&str, Vec<Step>, u64)> = vec![
        (
            "the second read is a hit, and one of fewer columns",
            vec![
                write(Write::Cell(0, V, value(9)), 1),
                Step::Flush,
                read(&[V, W], 0),
                read(&[V, W], 0),
                read(&[V], 0),
            ],
            2,
        ),
        (
            "a marker that made older sstables needless expires",
            vec![
                write(Write::Cell(0, W, value(9)), 1),
                Step::Flush,
                Step::Write(
                    vec![Write::Marker(0, 5), Write::Cell(0, V, Some((3, 5)))],
                    2,
                ),
                Step::Flush,
                read(&[V], 1),
                read(&[V], 1),
                // Alive by a column that nobody asked for, in the sstable that was passed over.
                read(&[V], 6),
            ],
            1,
        ),
        (
            "the column that a row lived by was not asked for",
            vec![
                write(Write::Element(0, 1), 2),
                write(Write::Cell(0, V, None), 2),
                Step::Flush,
                read(&[V], 0),
                write(Write::SetDeleted(0), 3),
                read(&[V], 0),
            ],
            0,
        ),
        (
            "writes, flushes and compactions leave an entry alone",
            vec![
                write(Write::Cell(0, V, value(9)), 1),
                Step::Flush,
                read(&[V], 0),
                write(Write::Cell(0, V, value(8)), 2),
                read(&[V], 0),
                Step::Flush,
                write(Write::RowDeleted(0), 3),
                Step::Compact,
                // The deletion is later than anything in the sstable of the flush.
                read(&[V], 0),
                read(&[V], 0),
            ],
            3,
        ),
        (
            "a flush tells the entries of rows what it writes of them",
            vec![
                write(Write::Cell(0, V, value(9)), 1),
                Step::Flush,
                read(&[V, W], 0),
                write(Write::Cell(0, W, value(8)), 2),
                Step::Flush,
                read(&[V, W], 0),
                read(&[V, W], 0),
            ],
            2,
        ),
        (
            "a truncated table has no rows",
            vec![
                write(Write::Cell(0, V, value(9)), 1),
                Step::Flush,
                read(&[V], 0),
                Step::Truncate,
                read(&[V], 0),
            ],
            0,
        ),
    ];
    for (what, mut steps, hits) in cases {
        // A row comes in when it is asked for again.
        let first = steps.iter().position(|step| matches!(step, Step::Read(..)));
        let first = first.expect("it is read");
        steps.insert(first, steps[first].clone());
        let found = lives(table(), steps).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found, hits, "{what}");
    }
}

/// An entry from before a deletion, and a compaction that forgets the deletion and all it covers: the
/// entry is all that is left of the row, and must not be believed.
#[test]
fn what_was_purged_does_not_come_back_from_the_cache() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        for deletion in [Write::PartitionDeleted, Write::RangeDeleted(0, 1)] {
            let mut table = Table::clone(&table());
            table.options.gc_grace_seconds = 0;
            let table = Arc::new(table);
            let dir = dir.join(format!("{deletion:?}"));
            let store = open(&env, dir, &table).await;
            store.set_auto_compaction(table.id, false);
            let command = command(&table, 0, &[V], FAR);
            for (writes, timestamp) in [(Write::Cell(0, V, Some((9, 0))), 1), (deletion, 2)] {
                let updates = vec![update(&table, &[writes], timestamp)];
                store.apply(Mutation { updates }).await.expect("applied");
                store.flush(None).await.expect("it can be flushed");
                // Two reads, and the row is kept; nobody asks for it after the deletion.
                for _ in 0..if timestamp == 1 { 2 } else { 0 } {
                    let found = store.read(&command).await.expect("it can be read");
                    assert_eq!(found.partitions.len(), 1);
                }
            }
            // As long as the commit log has the row, the deletion stays.
            for timestamp in 3..12 {
                let later = [Write::Cell(2, W, Some((50_000, 0)))];
                let updates = vec![update(&table, &later, timestamp)];
                store.apply(Mutation { updates }).await.expect("applied");
            }
            store.flush(None).await.expect("it can be flushed");
            let segments = || store.stats().commitlog.segments;
            for _ in (0..500).take_while(|_| segments() > 1) {
                env.sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(segments(), 1, "the others go");
            store.compact(table.id).await.expect("it can be compacted");
            let found = store.read(&command).await.expect("it can be read");
            assert_eq!(found.partitions, [], "the row is deleted");
        }
    });
}

/// What is read once and never again leaves no trace, and what is there is not asked.
#[test]
fn a_read_may_bypass_the_cache() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table();
        let store = open(&env, dir, &table).await;
        let updates = vec![update(&table, &[Write::Cell(0, V, Some((9, 0)))], 1)];
        store.apply(Mutation { updates }).await.expect("applied");
        store.flush(None).await.expect("it can be flushed");
        let cached = || {
            let cache = store.stats().row_cache;
            (cache.entries, cache.hits + cache.misses)
        };
        let usual = command(&table, 0, &[V], FAR);
        let bypassing = ReadCommand {
            bypass_cache: true,
            packed: false,
            ..usual.clone()
        };
        let begin = cached();
        for _ in 0..3 {
            let found = store.read(&bypassing).await.expect("it can be read");
            assert_eq!(found.partitions.len(), 1);
        }
        assert_eq!(cached(), begin);
        for _ in 0..3 {
            store.read(&usual).await.expect("it can be read");
        }
        let filled = cached();
        assert!(filled.0 > begin.0 && filled.1 > begin.1);
        let found = store.read(&bypassing).await.expect("it can be read");
        assert_eq!(found.partitions.len(), 1);
        assert_eq!(cached(), filled);
    });
}
