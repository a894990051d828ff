//! What clients are told of: what lies between two schemas (`SchemaChangeNotifier`, `KeyspacesDiff`).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{CqlType, Keyspace, Schema, Table, UserAggregate, UserFunctions, told_argument_type};

use super::{ChangeEvent, ChangeKind, ChangeTarget};

use ChangeKind::{Created, Dropped, Updated};

/// The changes from a schema to another one, in the order in which Cassandra tells of them: what is dropped, what
/// is new, what has changed; of a keyspace that is dropped what was in it comes first.
pub fn events_between(old: &Schema, new: &Schema) -> Vec<ChangeEvent> {
    let mut events = Vec::new();
    for (name, before) in &old.keyspaces {
        if !new.keyspaces.contains_key(name) {
            events.append(&mut Changes::within(before, &nothing_of(before)).dropped);
            events.push(keyspace(Dropped, name));
        }
    }
    for (name, after) in &new.keyspaces {
        if !old.keyspaces.contains_key(name) {
            events.push(keyspace(Created, name));
            events.append(&mut Changes::within(&nothing_of(after), after).created);
        }
    }
    for (name, after) in &new.keyspaces {
        let before = old.keyspaces.get(name);
        let Some(before) = before.filter(|before| !Arc::ptr_eq(before, after)) else {
            continue;
        };
        let mut changes = Changes::within(before, after);
        events.append(&mut changes.dropped);
        events.append(&mut changes.created);
        let parameters = |keyspace: &Keyspace| {
            let replication = keyspace.replication.clone();
            (replication, keyspace.durable_writes)
        };
        if parameters(before) != parameters(after) {
            events.push(keyspace(Updated, name));
        }
        events.append(&mut changes.updated);
    }
    events
}

fn keyspace(kind: ChangeKind, name: &str) -> ChangeEvent {
    event(kind, ChangeTarget::Keyspace, (name, ""), &[])
}

fn event(
    kind: ChangeKind,
    target: ChangeTarget,
    (keyspace, name): (&str, &str),
    arguments: &[CqlType],
) -> ChangeEvent {
    ChangeEvent {
        kind,
        target,
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        arguments: arguments.iter().map(told_argument_type).collect(),
    }
}

/// A keyspace without anything in it.
fn nothing_of(keyspace: &Keyspace) -> Keyspace {
    Keyspace {
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
        functions: UserFunctions::default(),
        ..keyspace.clone()
    }
}

/// Is an aggregate as it was? It calls a function by its name, whatever that does by now.
fn is_same_aggregate(a: &UserAggregate, b: &UserAggregate) -> bool {
    let called = |aggregate: &UserAggregate| {
        let last = aggregate.final_function.as_ref();
        let last = last.map(|function| function.signature());
        (aggregate.state_function.signature(), last)
    };
    (&a.state_type, &a.return_type, &a.initial) == (&b.state_type, &b.return_type, &b.initial)
        && called(a) == called(b)
}

/// The changes of what is in a keyspace.
#[derive(Default)]
struct Changes {
    dropped: Vec<ChangeEvent>,
    created: Vec<ChangeEvent>,
    updated: Vec<ChangeEvent>,
}

/// The parts of one kind that a schema had, and those that it has.
type BeforeAndAfter<'a, K, V> = (&'a BTreeMap<K, Arc<V>>, &'a BTreeMap<K, Arc<V>>);

impl Changes {
    fn within(before: &Keyspace, after: &Keyspace) -> Changes {
        let name = &*before.name;
        let aggregates = Changes::told(
            (&before.functions.aggregates, &after.functions.aggregates),
            |kind, aggregate| {
                let place = (name, &*aggregate.name);
                event(
                    kind,
                    ChangeTarget::Aggregate,
                    place,
                    &aggregate.argument_types,
                )
            },
            is_same_aggregate,
        );
        let functions = Changes::of(
            (&before.functions.scalars, &after.functions.scalars),
            |kind, function| {
                let place = (name, &*function.name);
                event(
                    kind,
                    ChangeTarget::Function,
                    place,
                    &function.argument_types,
                )
            },
        );
        let of_tables = |views: bool| {
            let tables = |keyspace: &Keyspace| -> BTreeMap<Arc<str>, Arc<Table>> {
                let tables = keyspace.tables.iter();
                let tables = tables.filter(|(_, table)| table.view.is_some() == views);
                tables
                    .map(|(n, table)| (n.clone(), table.clone()))
                    .collect()
            };
            Changes::of((&tables(before), &tables(after)), |kind, table| {
                event(kind, ChangeTarget::Table, (name, &*table.name), &[])
            })
        };
        let types = Changes::of((&before.types, &after.types), |kind, ty| {
            event(kind, ChangeTarget::Type, (name, &*ty.name), &[])
        });
        let (views, tables) = (of_tables(true), of_tables(false));
        let mut all = Changes::default();
        for part in [&aggregates, &functions, &views, &tables, &types] {
            all.dropped.extend_from_slice(&part.dropped);
        }
        for part in [&types, &tables, &views, &functions, &aggregates] {
            all.created.extend_from_slice(&part.created);
            all.updated.extend_from_slice(&part.updated);
        }
        all
    }

    /// Of parts of one kind.
    fn of<K: Ord, V: PartialEq>(
        parts: BeforeAndAfter<'_, K, V>,
        event: impl Fn(ChangeKind, &V) -> ChangeEvent,
    ) -> Changes {
        Changes::told(parts, event, |earlier, part| earlier == part)
    }

    /// Of parts that clients are told of only where they are not the same to them.
    fn told<K: Ord, V>(
        (before, after): BeforeAndAfter<'_, K, V>,
        event: impl Fn(ChangeKind, &V) -> ChangeEvent,
        same: impl Fn(&V, &V) -> bool,
    ) -> Changes {
        let dropped = before.iter().filter(|(key, _)| !after.contains_key(key));
        let created = after.iter().filter(|(key, _)| !before.contains_key(key));
        let updated = after.iter().filter(|(key, part)| {
            let earlier = before.get(*key);
            earlier.is_some_and(|earlier| !Arc::ptr_eq(earlier, part) && !same(earlier, part))
        });
        Changes {
            dropped: dropped.map(|(_, part)| event(Dropped, part)).collect(),
            created: created.map(|(_, part)| event(Created, part)).collect(),
            updated: updated.map(|(_, part)| event(Updated, part)).collect(),
        }
    }
}
