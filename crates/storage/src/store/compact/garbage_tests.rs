//! What `nodetool garbagecollect` leaves, and that no answer changes by it.

use std::sync::Arc;

use io::Env;
use model::{Bound, BoundKind, Clustering, DeletionTime, Order, ReadPage, Slice, Table};
use proptest::prelude::*;

use super::super::Store;
use super::super::tests::{command, open, undying};
use super::Granularity;
use super::tests::{count, int, overwritten, sstables, write};
use crate::Unfiltered;
use crate::sstable::ScanOptions;
use crate::testing::{Saying, TempDir, run, saying, slice, update};

#[test]
fn garbage_is_collected_by_row_and_by_cell() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let (store, table) = overwritten(&env, dir).await;
        assert_eq!(count(&store, &table).await, (400, 400));
        let collected = store.garbage_collect(table.id, Granularity::Row).await;
        assert_eq!(collected.expect("it is collected"), 2);
        assert_eq!(count(&store, &table).await, (300, 300));
        let collected = store.garbage_collect(table.id, Granularity::Cell).await;
        assert_eq!(collected.expect("it is collected"), 2);
        assert_eq!(count(&store, &table).await, (200, 200));
        assert_eq!(sstables(&store, &table).len(), 2);
    });
}

/// A store with these updates of one partition, each in an sstable of its own that no strategy
/// compacts.
async fn in_layers(
    env: &Env,
    dir: std::path::PathBuf,
    layers: &[Vec<Saying>],
) -> (Store, Arc<Table>) {
    let mut table = Table::clone(&undying(Order::Ascending));
    let options = &mut table.options.compaction;
    options.insert("enabled".to_owned(), "false".to_owned());
    let table = Arc::new(table);
    let store = open(env, dir, &table).await;
    for layer in layers {
        write(&store, update(&table, layer)).await;
        store.flush(None).await.expect("it is flushed");
    }
    (store, table)
}

/// The places of all markers, with what opens there, by sstable.
async fn markers(store: &Store, table: &Arc<Table>) -> Vec<Vec<(Bound, Option<DeletionTime>)>> {
    let mut all = Vec::new();
    for sstable in sstables(store, table).iter() {
        let mut markers = Vec::new();
        let mut scanner = sstable.scan(ScanOptions::default());
        while scanner.next_partition().await.expect("readable").is_some() {
            while let Some(item) = scanner.next().await.expect("readable") {
                if let Unfiltered::Marker(marker) = item {
                    markers.push((marker.bound, marker.opens));
                }
            }
        }
        all.push(markers);
    }
    all
}

/// A deletion of the rows from the first to the last of these, both included.
fn range(first: u32, last: u32, timestamp: i64) -> Saying {
    let bound = |of, kind| Bound {
        prefix: Clustering([int(of)].into_iter().collect()),
        kind,
    };
    let start = bound(first, BoundKind::InclusiveStart);
    let end = bound(last, BoundKind::InclusiveEnd);
    Saying::Range(Slice { start, end }, timestamp)
}

/// What is left of the markers of the first layer.
fn left_of(first: Saying, second: Saying) -> Vec<(BoundKind, Option<i64>)> {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    let at = match first {
        Saying::Range(_, timestamp) => timestamp,
        other => panic!("{other:?} has no markers"),
    };
    run(move |env| async move {
        let (store, table) = in_layers(&env, dir, &[vec![first], vec![second]]).await;
        let collected = store.garbage_collect(table.id, Granularity::Row).await;
        collected.expect("it is collected");
        let all = markers(&store, &table).await;
        let opens_there = |markers: &&Vec<(Bound, Option<DeletionTime>)>| {
            let mut opened = markers.iter().filter_map(|(_, opens)| *opens);
            opened.any(|opens| opens.timestamp == at)
        };
        let first = all.iter().find(opens_there).cloned().unwrap_or_default();
        let brief = first.into_iter();
        brief
            .map(|(bound, opens)| (bound.kind, opens.map(|o| o.timestamp)))
            .collect()
    })
}

#[test]
fn deletions_of_ranges_go_where_others_cover_them() {
    use BoundKind::{ExclusiveStart, InclusiveEnd, InclusiveStart};
    let whole = [(InclusiveStart, Some(3)), (InclusiveEnd, None)];
    assert_eq!(left_of(range(1, 2, 3), range(0, 3, 5)), []);
    assert_eq!(left_of(range(1, 2, 3), Saying::Partition(5)), []);
    let behind = left_of(range(1, 3, 3), range(0, 2, 5));
    assert_eq!(behind, [(ExclusiveStart, Some(3)), (InclusiveEnd, None)]);
    let within = left_of(range(0, 3, 3), range(1, 2, 5));
    assert_eq!(within, whole, "one range is less than two");
    assert_eq!(left_of(range(0, 3, 3), range(0, 3, 2)), whole);
    assert_eq!(left_of(range(0, 3, 3), range(0, 3, 3)), whole, "the same");
}

/// Writes layers of sstables, collects their garbage, compacts them: the answers of a read before
/// and after each.
async fn answers(
    env: Env,
    dir: std::path::PathBuf,
    layers: Vec<Vec<Saying>>,
    looked_at: Slice,
    granularity: Granularity,
) -> Vec<Vec<ReadPage>> {
    let (store, table) = in_layers(&env, dir, &layers).await;
    let answer = async || {
        let mut answers = Vec::new();
        for slice in [Slice::ALL, looked_at.clone()] {
            let read = store.read(&command(&table, vec![slice], false)).await;
            answers.push(read.expect("it reads"));
        }
        answers
    };
    let mut answers = vec![answer().await];
    let collected = store.garbage_collect(table.id, granularity).await;
    collected.expect("it is collected");
    answers.push(answer().await);
    store.compact(table.id).await.expect("it is compacted");
    answers.push(answer().await);
    answers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn collecting_garbage_changes_no_answer(
        layers in prop::collection::vec(prop::collection::vec(saying(), 0..10), 2..5),
        looked_at in slice(),
        by_cell in any::<bool>(),
    ) {
        let folder = TempDir::new();
        let dir = folder.0.clone();
        let granularity = if by_cell { Granularity::Cell } else { Granularity::Row };
        let table = undying(Order::Ascending);
        let looked_at = match looked_at.is_empty(table.comparator()) {
            true => Slice::ALL,
            false => looked_at,
        };
        let all = run(move |env| answers(env, dir, layers, looked_at, granularity));
        prop_assert_eq!(&all[0], &all[1], "collected");
        prop_assert_eq!(&all[0], &all[2], "compacted");
    }
}
