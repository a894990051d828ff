//! What is found by an index, whatever was written, in whatever order, and read by it before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{
    ColumnId, FilterOperator, Index, IndexKind, Mutation, Order, ReadCommand, RowFilter, Slice,
    Table,
};
use proptest::prelude::*;

use super::tests::{command, open, undying};
use super::*;
use crate::index::IndexDefinition;
use crate::testing::{Saying, TempDir, run, saying, update};

/// The value column, and the first of the clustering.
const INDEXED: [(&str, u32); 2] = [("v", 3), ("a", 1)];

fn indexed() -> Arc<Table> {
    let mut table = Table::clone(&undying(Order::Ascending));
    let index = |(column, _): &(&str, u32)| Index {
        name: format!("t_{column}_idx").into(),
        table: "t".into(),
        column: Some((*column).into()),
        kind: Some(IndexKind::Composites),
        options: BTreeMap::from([("target".to_owned(), (*column).to_owned())]),
    };
    table.indexes = INDEXED.iter().map(index).collect();
    Arc::new(table)
}

async fn open_indexed(env: &Env, dir: &Path, table: &Arc<Table>) -> Store {
    let store = open(env, dir.to_owned(), table).await;
    store.replay().await.expect("the log is whole");
    let built = |store: &Store| {
        let table = store.inner.table(table.id).expect("it is there");
        let indexes = table.indexes.borrow();
        indexes.iter().all(|index| index.built.get())
    };
    for _ in 0..1000 {
        if built(&store) {
            return store;
        }
        env.sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("an index is not built in five seconds");
}

fn int(n: u8) -> Bytes {
    Bytes::copy_from_slice(&u32::from(n).to_be_bytes())
}

fn command_for(table: &Arc<Table>, column: u32, value: u8) -> ReadCommand {
    let mut command = command(table, vec![Slice::ALL], false);
    command.filters.push(RowFilter {
        column: ColumnId(column),
        operator: FilterOperator::Equal,
        values: vec![int(value)],
    });
    command
}

/// The rows that a command gives: where they lie, and their value.
async fn rows(store: &Store, command: &ReadCommand) -> Vec<(Vec<Bytes>, Option<Bytes>)> {
    let page = store.read(command).await.expect("it can be read");
    let rows = page.partitions.into_iter().flat_map(|of| of.rows);
    rows.map(|row| {
        let value = row.cells_of(ColumnId(3)).first().map(|v| v.value.clone());
        (row.clustering.0.to_vec(), value)
    })
    .collect()
}

/// How many live entries the index of a column has.
async fn entries(store: &Store, table: &Arc<Table>, number: usize) -> usize {
    let index = IndexDefinition::new(table, &table.indexes[number]).expect("it has entries");
    let mut command = command(&index.entries, vec![Slice::ALL], false);
    command.columns.clear();
    rows(store, &command).await.len()
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Saying>),
    Flush,
    /// Stops without a word, and starts again.
    Restart,
    Find(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let few = |saying: Saying| match saying {
        Saying::Written(place, time, value) => Saying::Written(place, time, value % 3),
        other => other,
    };
    prop_oneof![
        6 => prop::collection::vec(saying().prop_map(few), 1..4).prop_map(Step::Write),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
        5 => (0u8..3).prop_map(Step::Find),
    ]
}

/// What is found by an index is what a scan finds.
async fn check(store: &Store, table: &Arc<Table>, value: u8) {
    let all = rows(store, &command(table, vec![Slice::ALL], false)).await;
    let wanted = int(value);
    let by_value = |row: &&(Vec<Bytes>, Option<Bytes>)| row.1.as_ref() == Some(&wanted);
    let by_place = |row: &&(Vec<Bytes>, Option<Bytes>)| row.0[0] == wanted;
    let expected: Vec<_> = all.iter().filter(by_value).cloned().collect();
    assert_eq!(rows(store, &command_for(table, 3, value)).await, expected);
    let expected: Vec<_> = all.iter().filter(by_place).cloned().collect();
    assert_eq!(rows(store, &command_for(table, 1, value)).await, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn what_was_removed_as_stale_hides_nothing(steps in prop::collection::vec(step(), 1..25)) {
        let folder = TempDir::new();
        let dir = folder.0.clone();
        run(move |env| async move {
            let table = indexed();
            let mut store = open_indexed(&env, &dir, &table).await;
            for step in steps {
                match step {
                    Step::Write(sayings) => {
                        let updates = vec![update(&table, &sayings)];
                        store.apply(Mutation { updates }).await.expect("it is taken");
                    }
                    Step::Flush => store.flush(None).await.expect("flushed"),
                    Step::Restart => {
                        store.drain().await.expect("drained");
                        store = open_indexed(&env, &dir, &table).await;
                    }
                    Step::Find(value) => check(&store, &table, value).await,
                }
            }
            for value in 0..3 {
                check(&store, &table, value).await;
            }
        });
    }
}

#[test]
fn entries_of_what_was_overwritten_are_met_once() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = indexed();
        let store = open_indexed(&env, &dir, &table).await;
        // Of each of ten rows the values from 1 to 5, one after the other, and at last 6.
        for time in 1..=6u8 {
            for row in 0..10 {
                let said = Saying::Written([row, 0], i64::from(time), time);
                let updates = vec![update(&table, &[said])];
                let applied = store.apply(Mutation { updates }).await;
                applied.expect("it is taken");
            }
            if time == 3 {
                store.flush(None).await.expect("flushed");
            }
        }
        assert_eq!(entries(&store, &table, 0).await, 60);
        assert_eq!(rows(&store, &command_for(&table, 3, 1)).await, []);
        assert_eq!(entries(&store, &table, 0).await, 50);
        for value in 2..=5 {
            assert_eq!(rows(&store, &command_for(&table, 3, value)).await, []);
        }
        assert_eq!(entries(&store, &table, 0).await, 10);
        assert_eq!(rows(&store, &command_for(&table, 3, 6)).await.len(), 10);
        // A row that was deleted is met by either index, and removed from it.
        let updates = vec![update(&table, &[Saying::Deleted([4, 0], 9)])];
        let applied = store.apply(Mutation { updates }).await;
        applied.expect("it is taken");
        assert_eq!(rows(&store, &command_for(&table, 3, 6)).await.len(), 9);
        assert_eq!(entries(&store, &table, 0).await, 9);
        assert_eq!(rows(&store, &command_for(&table, 1, 4)).await, []);
        assert_eq!(entries(&store, &table, 1).await, 9);
        // What is written again is found again.
        let updates = vec![update(&table, &[Saying::Written([4, 0], 10, 6)])];
        let applied = store.apply(Mutation { updates }).await;
        applied.expect("it is taken");
        store.flush(None).await.expect("flushed");
        assert_eq!(rows(&store, &command_for(&table, 3, 6)).await.len(), 10);
        assert_eq!(rows(&store, &command_for(&table, 1, 4)).await.len(), 1);
    });
}

#[test]
fn a_read_by_a_storage_attached_index_looks_into_so_many_sstables() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let mut table = Table::clone(&indexed());
        for index in &mut table.indexes {
            index.kind = Some(IndexKind::Custom);
            let class = ("class_name".to_owned(), "StorageAttachedIndex".to_owned());
            index.options.extend([class]);
        }
        let table = Arc::new(table);
        let config = StoreConfig {
            index_sstables: IndexSSTables { warn: 1, fail: 2 },
            ..super::tests::config(dir)
        };
        let store = super::tests::open_with(&env, config, &super::tests::schema(&table)).await;
        store.set_auto_compaction(table.id, false);
        let of = |value: u8| {
            let (store, table) = (&store, &table);
            async move {
                let page = store.read(&command_for(table, 3, value)).await;
                page.map(|page| page.scanned.index_sstables)
            }
        };
        for time in 1..=3u8 {
            let said = [
                Saying::Written([time, 0], i64::from(time), 7),
                Saying::Written([time, 1], i64::from(time), 10 + time),
            ];
            let updates = vec![update(&table, &said)];
            store
                .apply(Mutation { updates })
                .await
                .expect("it is taken");
            assert_eq!(
                of(7).await.ok(),
                [Some(0), Some(0), Some(2)][usize::from(time) - 1]
            );
            store.flush(None).await.expect("flushed");
        }
        let refused = of(7).await;
        let too_many = matches!(
            refused,
            Err(ReadError::TooManyIndexes {
                referenced: 3,
                most: 2
            })
        );
        assert!(too_many, "{refused:?}");
        // Those that cannot have the value are not looked into: 11 is in the first alone.
        assert_eq!(of(6).await.ok(), Some(0));
        assert_eq!(of(13).await.ok(), Some(0));
        // In one partition no index is looked into.
        let mut command = command_for(&table, 3, 7);
        let key = update(&table, &[]).key;
        command.partitions = PartitionSelection::Key(key);
        let page = store.read(&command).await.expect("it is read");
        assert_eq!(page.scanned.index_sstables, 0);
    });
}
