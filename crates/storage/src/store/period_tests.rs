//! Memtables whose time is over, in virtual time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use io::Env;
use model::{Keyspace, Mutation, Order, Schema, Table, TableId};

use super::tests::{config, open_with, schema};
use super::*;
use crate::testing::{Saying, simulate, table, update};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// The table, flushed after so many milliseconds.
fn every(millis: i32) -> Arc<Table> {
    let mut table = Table::clone(&table(Order::Ascending));
    table.options.memtable_flush_period_in_ms = millis;
    Arc::new(table)
}

async fn open(env: &Env, schema: &Schema) -> Store {
    open_with(env, config(PathBuf::from("/node")), schema).await
}

async fn write(store: &Store, table: &Arc<Table>) {
    let updates = vec![update(table, &[Saying::Written([1, 1], 1, 1)])];
    store.apply(Mutation { updates }).await.expect("applied");
}

fn flushes(store: &Store, table: &Table) -> u64 {
    let table = store.inner.table(table.id).expect("it is there");
    table.counters.flushes.get()
}

/// How many tables have a time.
fn timed(store: &Store) -> usize {
    store.inner.periods.due.borrow().len()
}

#[test]
fn a_memtable_is_flushed_when_its_time_is_over() {
    simulate(|env| async move {
        let timed_table = every(60_000);
        let mut other = Table::clone(&every(0));
        other.id = TableId::from_u128(2);
        other.name = "other".into();
        let other = Arc::new(other);
        let mut tables = schema(&timed_table);
        let keyspace = tables.keyspaces.values_mut().next().expect("one");
        let all = &mut Arc::make_mut(keyspace).tables;
        all.insert(other.name.clone(), other.clone());

        let store = open(&env, &tables).await;
        assert_eq!(timed(&store), 1, "only the one that wants it");
        write(&store, &other).await;
        for round in 1..=3 {
            // The clock of an empty one goes on; what is written waits for its end.
            env.sleep(10 * MINUTE + MINUTE / 2).await;
            write(&store, &timed_table).await;
            assert_eq!(flushes(&store, &timed_table), round - 1);
            env.sleep(MINUTE + SECOND).await;
            assert_eq!(flushes(&store, &timed_table), round);
        }
        assert_eq!(flushes(&store, &other), 0);
        store.drain().await.expect("drained");
    });
}

#[test]
fn a_flush_for_another_reason_begins_the_time_anew() {
    simulate(|env| async move {
        let table = every(60_000);
        let store = open(&env, &schema(&table)).await;
        write(&store, &table).await;
        env.sleep(MINUTE / 2).await;
        store.flush(Some(table.id)).await.expect("flushed");
        write(&store, &table).await;
        env.sleep(MINUTE - SECOND).await;
        assert_eq!(
            flushes(&store, &table),
            1,
            "the new one is not a minute old"
        );
        env.sleep(2 * SECOND).await;
        assert_eq!(flushes(&store, &table), 2);
    });
}

#[test]
fn alter_table_gives_and_takes_the_time() {
    simulate(|env| async move {
        let forever = every(0);
        let store = open(&env, &schema(&forever)).await;
        write(&store, &forever).await;
        env.sleep(1440 * MINUTE).await;
        assert_eq!((flushes(&store, &forever), timed(&store)), (0, 0));

        let minute = schema(&every(60_000));
        store.set_schema(&minute).await.expect("altered");
        env.sleep(MINUTE - SECOND).await;
        assert_eq!(flushes(&store, &forever), 0);
        // Another change does not begin it anew.
        store.set_schema(&minute).await.expect("altered");
        env.sleep(2 * SECOND).await;
        assert_eq!(flushes(&store, &forever), 1);

        write(&store, &forever).await;
        store.set_schema(&schema(&forever)).await.expect("altered");
        env.sleep(1440 * MINUTE).await;
        assert_eq!((flushes(&store, &forever), timed(&store)), (1, 0));
    });
}

#[test]
fn a_dropped_table_leaves_no_timer() {
    simulate(|env| async move {
        let table = every(60_000);
        let tables = schema(&table);
        let store = open(&env, &tables).await;
        write(&store, &table).await;
        store.truncate(table.id).await.expect("truncated");
        assert_eq!(timed(&store), 1);
        let mut none = tables.clone();
        let keyspace = none.keyspaces.values_mut().next().expect("one");
        Arc::make_mut(keyspace).tables.clear();
        store.set_schema(&none).await.expect("dropped");
        assert_eq!(timed(&store), 0);
        env.sleep(10 * MINUTE).await;
        store.set_schema(&tables).await.expect("made");
        assert_eq!(timed(&store), 1);
    });
}

/// A write without the log loses no more than the period.
#[test]
fn what_the_log_does_not_have_is_flushed_in_time() {
    simulate(|env| async move {
        let table = every(60_000);
        let mut tables = schema(&table);
        let keyspace: &mut Arc<Keyspace> = tables.keyspaces.values_mut().next().expect("one");
        Arc::make_mut(keyspace).durable_writes = false;
        let store = open(&env, &tables).await;
        write(&store, &table).await;
        assert_eq!(store.stats().commitlog.records, 0);
        env.sleep(MINUTE + SECOND).await;
        assert_eq!(flushes(&store, &table), 1);
    });
}
