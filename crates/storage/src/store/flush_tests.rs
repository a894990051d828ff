//! What a flush does with what cannot be written, and what keeps it from getting there.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{
    Column, DroppedColumn, Keyspace, Mutation, Order, PartitionUpdate, Schema, Slice, Table,
    TableId,
};

use super::tests::{command, config, open, open_with, schema};
use super::*;
use crate::testing::{Saying, TempDir, run, table, update};
use crate::{FlushError, WriteError};

fn written(table: &Arc<Table>) -> PartitionUpdate {
    update(table, &[Saying::Written([1, 1], 3, 7)])
}

/// With a value that is shorter than its type has them.
fn misfit(table: &Arc<Table>) -> PartitionUpdate {
    let sayings = [Saying::Written([2, 1], 3, 7), Saying::Written([2, 2], 3, 7)];
    let mut update = update(table, &sayings);
    update.rows[0].cells[0].value = Bytes::from_static(&[1]);
    update
}

fn mutation(update: PartitionUpdate) -> Mutation {
    Mutation {
        updates: vec![update],
    }
}

/// Two tables, and the store of both.
async fn two_tables(env: &Env, dir: PathBuf) -> (Store, Arc<Table>, Arc<Table>) {
    let first = table(Order::Ascending);
    let mut second = Table::clone(&first);
    second.id = TableId::from_u128(2);
    second.name = "other".into();
    let second = Arc::new(second);
    let mut keyspace = Keyspace::clone(&schema(&first).keyspaces[&first.keyspace]);
    keyspace.tables.insert(second.name.clone(), second.clone());
    let mut schema = Schema::default();
    schema
        .keyspaces
        .insert(keyspace.name.clone(), Arc::new(keyspace));
    let store = open_with(env, config(dir), &schema).await;
    (store, first, second)
}

async fn rows(store: &Store, table: &Arc<Table>) -> usize {
    let page = store.read(&command(table, vec![Slice::ALL], false)).await;
    let partitions = page.expect("it reads").partitions;
    partitions
        .iter()
        .map(|partition| partition.rows.len())
        .sum()
}

#[test]
fn what_no_sstable_can_hold_is_refused() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, path, &table).await;
        let refused = store.apply(mutation(misfit(&table))).await;
        let error = refused.expect_err("it cannot be written");
        assert!(matches!(error, WriteError::Misfit(_)), "{error}");
        assert!(error.to_string().contains("`v` of ks.t"), "{error}");
        assert_eq!(rows(&store, &table).await, 0);
        store.drain().await.expect("nothing is in the way");
    });
}

#[test]
fn what_cannot_be_written_keeps_no_other_table_from_being_flushed() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let (store, first, second) = two_tables(&env, path).await;
        // As if it had got past what refuses it.
        let stuck = store.inner.table(first.id).expect("known");
        let grown = stuck.active().apply(misfit(&first), &first, None);
        store.inner.memory.grow_active(grown);
        let error = store.flush(Some(first.id)).await.expect_err("no sstable");
        assert!(matches!(error, FlushError::Unwritable(_)), "{error}");
        for part in ["`v` of ks.t", "partition 0x00000007", "restart the node"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        for _ in 0..3 {
            let applied = store.apply(mutation(written(&second))).await;
            applied.expect("it is taken");
            store.flush(Some(second.id)).await.expect("it is flushed");
        }
        let more = store.apply(mutation(written(&first))).await;
        more.expect("it is taken");
        store.flush(None).await.expect_err("one of them is stuck");
        let flushed = |table: &Arc<Table>| {
            let known = store.inner.table(table.id).expect("known");
            known.sstables().len()
        };
        assert_eq!((flushed(&first), flushed(&second)), (1, 3));
        assert_eq!(rows(&store, &first).await, 3, "memory still has it");
        store.truncate(first.id).await.expect("truncated");
        store.flush(None).await.expect("nothing is stuck any more");
    });
}

#[test]
fn a_log_from_before_does_not_bring_it_back() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, path, &table).await;
        for update in [written(&table), misfit(&table)] {
            let ticket = store.inner.log.append(&mutation(update));
            let ticket = ticket.expect("it is logged");
            let acknowledged = store.inner.log.acknowledge(ticket).await;
            acknowledged.expect("it is on the drive");
        }
    });
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, path, &table).await;
        assert_eq!(rows(&store, &table).await, 2);
        store.drain().await.expect("all of it can be written");
    });
}

#[test]
fn whatever_compression_a_table_asks_for_it_is_flushed() {
    for (class, kilobytes) in [
        ("org.apache.cassandra.io.compress.LZ4Compressor", "131072"),
        ("com.example.Compressor", "16"),
    ] {
        let dir = TempDir::new();
        let path = dir.0.clone();
        run(move |env| async move {
            let mut table = Table::clone(&table(Order::Ascending));
            let options = [("class", class), ("chunk_length_in_kb", kilobytes)];
            let options = options.map(|(k, v)| (k.to_owned(), v.to_owned()));
            table.options.compression = options.into();
            let table = Arc::new(table);
            let store = open(&env, path, &table).await;
            let applied = store.apply(mutation(written(&table))).await;
            applied.expect("it is taken");
            store.flush(None).await.expect("it is written otherwise");
            assert_eq!(rows(&store, &table).await, 1);
        });
    }
}

/// The test table without `v`, dropped at 2; then with a new `v` of the number 5.
fn dropped_and_added() -> (Arc<Table>, Arc<Table>) {
    let own = table(Order::Ascending);
    let mut columns: Vec<Column> = own.columns().cloned().collect();
    let mut v = columns.remove(3);
    let new = |columns| Table::new(own.id, "ks", "t", columns, own.options.clone());
    let mut without = new(columns.clone());
    without.reserve_column_ids(own.next_column_id());
    without.dropped.push(DroppedColumn {
        name: v.name.clone(),
        ty: v.ty.clone(),
        is_static: false,
        dropped_at: 2,
    });
    v.id = own.next_column_id();
    columns.push(v);
    let mut again = new(columns);
    again.dropped.clone_from(&without.dropped);
    (Arc::new(without), Arc::new(again))
}

/// The timestamps of the cells of the new `v`.
async fn timestamps(store: &Store, again: &Arc<Table>) -> Vec<i64> {
    let mut all = command(again, vec![Slice::ALL], false);
    all.columns = vec![model::ColumnId(5)];
    let partitions = store.read(&all).await.expect("it reads").partitions;
    let rows = partitions.iter().flat_map(|partition| &partition.rows);
    let cells = rows.flat_map(|row| &row.cells);
    cells.map(|cell| cell.timestamp).collect()
}

fn times(times: &[u8]) -> Vec<Saying> {
    let saying = |time: &u8| Saying::Written([1, *time], i64::from(*time), *time);
    times.iter().map(saying).collect()
}

#[test]
fn what_is_newer_than_its_drop_is_there_when_the_column_is_added_again() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let (without, again) = dropped_and_added();
        let store = open(&env, path, &table).await;
        let written = mutation(update(&table, &times(&[1, 2, 3])));
        store.apply(written).await.expect("it is taken");
        for changed in [&without, &again] {
            let set = store.set_schema(&schema(changed)).await;
            set.expect("it is changed");
        }
        assert_eq!(timestamps(&store, &again).await, [3]);
    });
}

#[test]
fn compactions_keep_what_is_newer_than_its_drop() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let (without, again) = dropped_and_added();
        let store = open(&env, path.clone(), &table).await;
        let written = mutation(update(&table, &times(&[1, 2, 3])));
        store.apply(written).await.expect("it is taken");
        let set = store.set_schema(&schema(&without)).await;
        set.expect("it is changed");
        let marked = [Saying::Marked([2, 2], 4), Saying::Static(4, 4)];
        let written = mutation(update(&without, &marked));
        store.apply(written).await.expect("it is taken");
        store.flush(None).await.expect("it is flushed");
        for _ in 0..2 {
            let compacted = store.compact(table.id).await;
            compacted.expect("it is compacted");
        }
        let sstables = store.inner.table(table.id).expect("known").sstables();
        assert_eq!(sstables.len(), 1);
        assert_eq!(rows(&store, &without).await, 1, "they are of no column");
        let set = store.set_schema(&schema(&again)).await;
        set.expect("it is changed");
        assert_eq!(timestamps(&store, &again).await, [3]);
    });
    // Nothing but names is known after a restart.
    let path = dir.0.clone();
    run(move |env| async move {
        let (_, again) = dropped_and_added();
        let store = open(&env, path, &again).await;
        assert_eq!(timestamps(&store, &again).await, [3]);
    });
}
