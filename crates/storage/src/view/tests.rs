//! A view is as its table, in whatever order writes come and what follows from them arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Cell, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey, DeletionTime, Liveness,
    NO_DELETION_TIME, NO_TTL, Order, Partition, PartitionUpdate, RangeTombstone, Row, Slice, Table,
    TableOptions, View, ViewRows, decode_key,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::{Now, ViewRule, ViewUpdates, slices_touched};

/// Seconds since 1970 of all that happens.
const NOW: u32 = 1_700_000_000;

fn number(value: u8) -> Bytes {
    Bytes::copy_from_slice(&i32::from(value).to_be_bytes())
}

fn table(name: &str, columns: &[(&str, ColumnKind, usize)]) -> Table {
    let columns = columns.iter().zip(0..);
    let columns = columns.map(|((name, kind, position), id)| Column {
        id: ColumnId(id),
        name: (*name).into(),
        ty: CqlType::Int,
        kind: *kind,
        position: *position,
        order: Order::Ascending,
    });
    let id = Uuid::from_bytes([name.as_bytes()[0]; 16]);
    Table::new(id, "ks", name, columns.collect(), TableOptions::default())
}

fn base() -> Arc<Table> {
    use ColumnKind::{Clustering, PartitionKey, Regular};
    Arc::new(table(
        "t",
        &[
            ("p", PartitionKey, 0),
            ("c", Clustering, 0),
            ("a", Regular, 0),
            ("b", Regular, 0),
        ],
    ))
}

const A: ColumnId = ColumnId(2);
const B: ColumnId = ColumnId(3);

/// A view by `a`, one of all columns by `c`, and one by `c` that does not show `a`.
fn rules(base: &Arc<Table>) -> Vec<ViewRule> {
    use ColumnKind::{Clustering, PartitionKey, Regular};
    let rule = |mut view: Table, includes_all, strict_liveness| {
        view.view = Some(Arc::new(View {
            base: base.id,
            base_name: base.name.clone(),
            includes_all,
            where_clause: String::new(),
            strict_liveness,
        }));
        let rows = ViewRows {
            keys: None,
            slices: vec![Slice::ALL],
            filters: Vec::new(),
        };
        ViewRule::new(base, &Arc::new(view), rows).expect("it is a view of the table")
    };
    let by_c = [("c", PartitionKey, 0), ("p", Clustering, 0)];
    let by_a = [
        ("a", PartitionKey, 0),
        ("p", Clustering, 0),
        ("c", Clustering, 1),
    ];
    let with = |key: &[(&'static str, ColumnKind, usize)], values: &[&'static str]| {
        let values = values.iter().map(|name| (*name, Regular, 0));
        key.iter().copied().chain(values).collect::<Vec<_>>()
    };
    vec![
        rule(table("a", &with(&by_a, &["b"])), true, true),
        rule(table("c", &with(&by_c, &["a", "b"])), true, false),
        rule(table("d", &with(&by_c, &["b"])), false, false),
    ]
}

/// What one write does to the row `c` at a time.
#[derive(Clone, Debug)]
enum Change {
    Marker,
    Set(ColumnId, u8),
    Unset(ColumnId),
    DeleteRow,
    DeleteFrom,
    DeletePartition,
}

#[derive(Clone, Debug)]
struct Write {
    c: u8,
    at: i64,
    change: Change,
}

impl Write {
    fn update(&self, table: &Arc<Table>) -> PartitionUpdate {
        let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(number(7)));
        let deletion = DeletionTime {
            timestamp: self.at,
            local_deletion_time: NOW,
        };
        let clustering = Clustering([number(self.c)].into_iter().collect());
        let cell = |column, value: Option<u8>| Cell {
            column,
            path: None,
            timestamp: self.at,
            ttl: NO_TTL,
            local_deletion_time: value.map_or(NOW, |_| NO_DELETION_TIME),
            value: value.map_or(Bytes::new(), number),
        };
        match self.change {
            Change::Marker => {
                update.row_mut(&clustering).liveness = Liveness {
                    timestamp: self.at,
                    ..Liveness::NONE
                };
            }
            Change::Set(column, value) => {
                update.row_mut(&clustering).cells = vec![cell(column, Some(value))];
            }
            Change::Unset(column) => {
                update.row_mut(&clustering).cells = vec![cell(column, None)];
            }
            Change::DeleteRow => update.row_mut(&clustering).deletion = deletion,
            Change::DeleteFrom => update.add_range_tombstone(RangeTombstone {
                slice: Slice {
                    start: Slice::of_prefix(clustering).start,
                    ..Slice::ALL
                },
                deletion,
            }),
            Change::DeletePartition => update.deletion = deletion,
        }
        update
    }
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let column = prop_oneof![Just(A), Just(B)];
    let change = prop_oneof![
        3 => Just(Change::Marker),
        6 => (column.clone(), 0u8..3).prop_map(|(column, value)| Change::Set(column, value)),
        3 => column.prop_map(Change::Unset),
        2 => Just(Change::DeleteRow),
        1 => Just(Change::DeleteFrom),
        1 => Just(Change::DeletePartition),
    ];
    let write = (0u8..3, 1i64..12, change).prop_map(|(c, at, change)| Write { c, at, change });
    prop::collection::vec(write, 1..25)
}

/// A row as a client sees it: `c`, `a`, `b`.
type Seen = (Bytes, Option<Bytes>, Option<Bytes>);

fn value(row: &Row, column: ColumnId) -> Option<Bytes> {
    let cell = row.cells_of(column).first()?;
    cell.is_live(NOW).then(|| cell.value.clone())
}

fn expected(view: usize, base: &PartitionUpdate) -> BTreeSet<Seen> {
    let live = base.rows.iter().filter(|row| row.is_live(NOW));
    let seen = live.filter_map(|row| {
        let (a, b) = (value(row, A), value(row, B));
        match view {
            0 => Some((row.clustering.0[0].clone(), Some(a?), b)),
            1 => Some((row.clustering.0[0].clone(), a, b)),
            _ => Some((row.clustering.0[0].clone(), None, b)),
        }
    });
    seen.collect()
}

fn shown(rule: &ViewRule, view: usize, of_key: &PartitionUpdate) -> Vec<Seen> {
    let key = decode_key(of_key.key.key(), 1).expect("a key of one column")[0].clone();
    let named = |name: &str| rule.view().column_named(name).map(|column| column.id);
    let live = of_key.rows.iter().filter(|row| rule.view().shows(row, NOW));
    let seen = live.map(|row| {
        let b = named("b").and_then(|b| value(row, b));
        match view {
            0 => (row.clustering.0[1].clone(), Some(key.clone()), b),
            1 => (key.clone(), named("a").and_then(|a| value(row, a)), b),
            _ => (key.clone(), None, b),
        }
    });
    seen.collect()
}

fn merge(into: &mut BTreeMap<DecoratedKey, PartitionUpdate>, update: PartitionUpdate) {
    match into.get_mut(&update.key) {
        Some(known) => known.merge(update),
        None => {
            into.insert(update.key.clone(), update);
        }
    }
}

proptest! {
    #[test]
    fn views_are_as_their_table(writes in writes(), order in any::<prop::sample::Index>(), split in 0usize..25, clock in prop::sample::select(vec![1_i64, 10, 1000])) {
        let table = base();
        let rules = rules(&table);
        let mut known = PartitionUpdate::new(table.clone(), DecoratedKey::new(number(7)));
        let mut told = Vec::new();
        let now = |micros| Now { seconds: NOW, micros };
        // Some of the times of the writes are ahead of this clock.
        let mut micros = clock;
        for (number, write) in writes.iter().enumerate() {
            let update = write.update(&table);
            prop_assert!(!slices_touched(&rules, &update).is_empty());
            let mut views = ViewUpdates::new(&rules, &update.key, now(micros));
            views.add(&update, &Partition::from(known.clone()));
            micros = views.latest_marker().unwrap_or(micros).max(micros) + 1;
            told.extend(views.finish());
            // What a view that is new is built from, meanwhile.
            if number == split {
                let mut views = ViewUpdates::new(&rules, &update.key, now(clock - 1));
                views.add_all(&table, &Partition::from(known.clone()));
                told.extend(views.finish());
            }
            known.merge(update);
        }
        let turn = order.index(told.len().max(1));
        if !told.is_empty() {
            told.rotate_left(turn);
        }
        if turn % 2 == 1 {
            told.reverse();
        }
        let mut views: Vec<BTreeMap<DecoratedKey, PartitionUpdate>> = vec![BTreeMap::new(); rules.len()];
        for update in told.into_iter().flat_map(|mutation| mutation.updates) {
            let view = rules.iter().position(|rule| rule.view().id == update.table.id);
            merge(&mut views[view.expect("it is one of the views")], update);
        }
        for (number, rule) in rules.iter().enumerate() {
            let rows: Vec<Seen> = views[number].values().flat_map(|of_key| shown(rule, number, of_key)).collect();
            let there: BTreeSet<Seen> = rows.iter().cloned().collect();
            prop_assert_eq!(rows.len(), there.len(), "a row is there twice");
            prop_assert_eq!(there, expected(number, &known), "view {}", number);
        }
    }
}
