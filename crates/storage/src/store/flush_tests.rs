//! What a flush does with what cannot be written, and what keeps it from getting there.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{Keyspace, Mutation, Order, PartitionUpdate, Schema, Slice, Table, TableId};

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
