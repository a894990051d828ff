//! Who waits for memory, who gets it, and what is flushed for it.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io::{Env, TaskGroup};
use model::{
    Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey, Mutation, NO_DELETION_TIME,
    NO_TTL, Order, PartitionUpdate, Table, TableId, TableOptions,
};

use super::tests::{config, open_with, schema};
use super::*;
use crate::error::WriteError;
use crate::testing::simulate;

const VALUE: ColumnId = ColumnId(2);
/// What memtables may take here.
const LIMIT: usize = 2 << 20;

/// A table of this number with an `int` as clustering and a blob.
fn table(number: u128) -> Arc<Table> {
    let column = |id: u32, ty, kind| Column {
        id: ColumnId(id),
        name: format!("c{id}").as_str().into(),
        ty,
        kind,
        position: 0,
        order: Order::Ascending,
    };
    let columns = vec![
        column(0, CqlType::Int, ColumnKind::PartitionKey),
        column(1, CqlType::Int, ColumnKind::Clustering),
        column(VALUE.0, CqlType::Blob, ColumnKind::Regular),
    ];
    let (id, name) = (TableId::from_u128(number), format!("t{number}"));
    let table = Table::new(id, "ks", name.as_str(), columns, TableOptions::default());
    Arc::new(table)
}

async fn open(env: &Env, tables: &[Arc<Table>]) -> Store {
    let mut config = config(PathBuf::from("/node"));
    config.memory = 2 * LIMIT as u64;
    config.commitlog.segment_bytes = 8 << 20;
    config.commitlog.total_bytes = 64 << 20;
    let mut all = schema(&tables[0]);
    let keyspace = all.keyspaces.values_mut().next().expect("one");
    let named = tables
        .iter()
        .map(|table| (table.name.clone(), table.clone()));
    Arc::make_mut(keyspace).tables = named.collect();
    open_with(env, config, &all).await
}

/// A write of so many rows of values of so many bytes to one partition.
fn rows(table: &Arc<Table>, key: u32, rows: u32, bytes: usize) -> Mutation {
    let key = DecoratedKey::new(Bytes::copy_from_slice(&key.to_be_bytes()));
    let mut update = PartitionUpdate::new(table.clone(), key);
    for number in 0..rows {
        let clustering = Clustering([int(number)].into_iter().collect());
        let mut row = model::Row::new(clustering);
        row.cells.push(model::Cell {
            column: VALUE,
            path: None,
            timestamp: 1,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: Bytes::from(vec![7; bytes]),
        });
        update.rows.push(row);
    }
    Mutation {
        updates: vec![update],
    }
}

fn int(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Writes less to each table than is flushed by itself.
async fn fill(store: &Store, tables: &[Arc<Table>]) {
    for (key, table) in (0..).zip(tables) {
        for number in 0..35 {
            let write = rows(table, 100 * key + number, 1, 10_000);
            store.apply(write).await.expect("applied");
        }
    }
    let memory = &store.inner.memory;
    assert!(memory.active.get() > LIMIT / 3, "{}", memory.active.get());
    assert_eq!(memory.flushing.get(), 0);
}

#[test]
fn idle_memtables_make_way_for_a_large_write() {
    simulate(|env| async move {
        let tables = [table(1), table(2)];
        for write in [
            rows(&tables[0], 7, 1, LIMIT / 8 * 7),
            rows(&tables[0], 7, 3, LIMIT / 4),
            rows(&tables[0], 7, 13_000, 4),
        ] {
            let store = open(&env, &tables).await;
            fill(&store, &tables).await;
            store.apply(write).await.expect("there is room for it");
            let stats = store.stats();
            assert!(stats.memtable_bytes <= stats.memtable_limit);
            store.drain().await.expect("drained");
        }
    });
}

#[test]
fn a_table_that_is_not_in_the_way_stays() {
    simulate(|env| async move {
        let tables = [table(1), table(2), table(3)];
        let store = open(&env, &tables).await;
        fill(&store, &tables[..2]).await;
        store
            .apply(rows(&tables[2], 1, 1, 10))
            .await
            .expect("applied");
        let large = rows(&tables[2], 2, 1, LIMIT / 10 * 7);
        store.apply(large).await.expect("there is room for it");
        let flushes = |table: &Arc<Table>| {
            let table = store.inner.table(table.id).expect("it is there");
            table.counters.flushes.get()
        };
        let all: u64 = tables[..2].iter().map(flushes).sum();
        assert_eq!(all, 1, "one of the two is enough");
    });
}

#[test]
fn what_can_never_fit_is_refused_with_limit_and_remedy() {
    simulate(|env| async move {
        let tables = [table(1)];
        let store = open(&env, &tables).await;
        for write in [
            rows(&tables[0], 1, 1, LIMIT + 1),
            rows(&tables[0], 1, 40_000, 4),
        ] {
            let refused = store.apply(write).await.expect_err("it is too large");
            assert!(matches!(refused, WriteError::TooLarge { .. }), "{refused}");
            let text = refused.to_string();
            for part in [&*LIMIT.to_string(), "--memory"] {
                assert!(text.contains(part), "{text}");
            }
        }
        store
            .apply(rows(&tables[0], 1, 1, 4))
            .await
            .expect("applied");
        assert_eq!(store.stats().refused_writes, 2);
    });
}

/// Writers that never leave half of the memory to anybody.
#[test]
fn a_large_write_is_served_in_turn() {
    simulate(|env| async move {
        let tables = [table(1), table(2)];
        let store = open(&env, &tables).await;
        let ended = Rc::new(Cell::new(false));
        let writers: Vec<_> = (0..64)
            .map(|writer| {
                let (store, table, ended) = (store.clone(), tables[0].clone(), ended.clone());
                env.spawn(TaskGroup::Foreground, async move {
                    let mut longest = Duration::ZERO;
                    let mut key = writer;
                    while !ended.get() {
                        key += 64;
                        let begun = store.inner.env.now();
                        let write = rows(&table, key, 1, 20_000);
                        store.apply(write).await.expect("applied");
                        longest = longest.max(store.inner.env.now() - begun);
                    }
                    longest
                })
            })
            .collect();
        for number in 0..10 {
            let large = rows(&tables[1], number, 1, LIMIT / 8 * 7);
            store
                .apply(large)
                .await
                .expect("it is not overtaken for ever");
            env.sleep(Duration::from_millis(5)).await;
        }
        ended.set(true);
        for writer in writers {
            let longest = writer.await;
            assert!(longest < Duration::from_secs(1), "{longest:?}");
        }
    });
}
