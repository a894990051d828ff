//! What becomes of writes that are begun together.

use model::{Mutation, Order, RowUpdate, Slice};

use super::tests::{command, content, open, undying};
use super::*;
use crate::testing::{Saying, TempDir, run, update};

fn write(table: &Arc<Table>, row: u8, value: u8) -> Mutation {
    let said = [Saying::Written([1, row], i64::from(value), value)];
    Mutation {
        updates: vec![update(table, &said)],
    }
}

async fn rows(store: &Store, table: &Arc<Table>) -> usize {
    let page = store.read(&command(table, vec![Slice::ALL], false)).await;
    let page = content(page.expect("it can be read"));
    page.partitions
        .iter()
        .map(|partition| partition.rows.len())
        .sum()
}

#[test]
fn they_are_visible_in_their_order_and_there_after_a_restart() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = undying(Order::Ascending);
        let store = open(&env, dir.clone(), &table).await;
        let mut begun = store.begin_writes(3, env.now());
        assert!(begun.is_empty() && begun.next().await.is_none());
        for row in 0..3 {
            begun
                .begin(write(&table, row, 7))
                .expect("nothing is in its way");
        }
        assert_eq!(
            rows(&store, &table).await,
            0,
            "the drive does not have them yet"
        );
        for count in 1..=3 {
            begun
                .next()
                .await
                .expect("there is one")
                .expect("it is written");
            assert_eq!(rows(&store, &table).await, count);
        }
        assert!(begun.next().await.is_none());
        assert_eq!(store.stats().tables[0].writes, 3);
        drop((begun, store));
        let store = open(&env, dir, &table).await;
        assert_eq!(rows(&store, &table).await, 3);
    });
}

#[test]
fn rows_that_are_laid_out_go_the_same_way() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = undying(Order::Ascending);
        let store = open(&env, dir.clone(), &table).await;
        let written = |row, value| write(&table, row, value).updates.remove(0);
        let laid_out = |update| RowUpdate::of(&update, &mut Vec::new()).expect("it is one row");
        let mut begun = store.begin_writes(4, env.now());
        for (row, value) in [(0, 7), (1, 7), (0, 9), (0, 8)] {
            let begins = begun.begin_row(laid_out(written(row, value)));
            begins.expect("nothing is in its way");
        }
        assert_eq!(
            rows(&store, &table).await,
            0,
            "the drive does not have them yet"
        );
        while let Some(result) = begun.next().await {
            result.expect("it is written");
        }
        let all = command(&table, vec![Slice::ALL], false);
        let page = content(store.read(&all).await.expect("it can be read"));
        let values = |page: &model::ReadPage| -> Vec<u8> {
            let rows = page.partitions.iter().flat_map(|partition| &partition.rows);
            let last = |row: &model::Row| *row.cells[0].value.last().expect("it has a byte");
            rows.map(last).collect()
        };
        assert_eq!(values(&page), [9, 7], "the later one stays");
        assert_eq!(store.stats().tables[0].writes, 4);
        let mut unknown = Table::clone(&table);
        unknown.id = TableId::from_u128(0x77);
        let mut other = written(1, 7);
        other.table = Arc::new(unknown);
        let other = begun.begin_row(laid_out(other));
        other.expect_err("there is no such table");
        drop((begun, store));
        let store = open(&env, dir, &table).await;
        let page = content(store.read(&all).await.expect("it can be read"));
        assert_eq!(values(&page), [9, 7]);
        store.drain().await.expect("drained");
        let mut begun = store.begin_writes(1, env.now());
        let closed = begun.begin_row(laid_out(written(1, 7)));
        closed.expect_err("the store is closed");
    });
}

#[test]
fn what_is_dropped_is_given_up() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = undying(Order::Ascending);
        let store = open(&env, dir.clone(), &table).await;
        let mut begun = store.begin_writes(2, env.now());
        for row in 0..2 {
            begun
                .begin(write(&table, row, 7))
                .expect("nothing is in its way");
        }
        begun
            .next()
            .await
            .expect("there is one")
            .expect("it is written");
        drop(begun);
        assert_eq!(rows(&store, &table).await, 1);
        // Nothing waits for it, neither a truncation nor the log.
        store.truncate(table.id).await.expect("truncated");
        store.drain().await.expect("drained");
        drop(store);
        let store = open(&env, dir, &table).await;
        assert_eq!(rows(&store, &table).await, 0);
    });
}

#[test]
fn what_has_to_wait_is_not_begun() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = undying(Order::Ascending);
        let store = open(&env, dir.clone(), &table).await;
        let mut begun = store.begin_writes(1, env.now());
        let two = Mutation {
            updates: (0..2)
                .flat_map(|row| write(&table, row, 7).updates)
                .collect(),
        };
        let two = begun.begin(two).expect_err("it is of two partitions");
        assert_eq!(two.updates.len(), 2);
        let mut other = Table::clone(&table);
        other.id = TableId::from_u128(0x77);
        let other = Arc::new(other);
        begun
            .begin(write(&other, 1, 7))
            .expect_err("there is no such table");
        store.drain().await.expect("drained");
        begun
            .begin(write(&table, 1, 7))
            .expect_err("the store is closed");
        assert!(begun.is_empty());
    });
}
