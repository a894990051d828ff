//! The ids of columns when the schema changes: memtables and caches hold cells by them, so a column keeps
//! its own as long as the node runs. What is read from `system_schema` has ids of its own making.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Column, ColumnId, ColumnKind, Keyspace, Schema, Table};

/// `new` with the ids that the columns have in `old`; a column that was not there gets one that nobody
/// had. What is as it was is the same: statements on it stay prepared.
pub(super) fn keep(old: &Schema, mut new: Schema) -> Schema {
    for keyspace in new.keyspaces.values_mut() {
        let Some(before) = old.keyspaces.get(&keyspace.name) else {
            continue;
        };
        let mut kept = Keyspace::clone(keyspace);
        for table in kept.tables.values_mut() {
            let mut tables = before.tables.values();
            let Some(known) = tables.find(|known| known.id == table.id) else {
                continue;
            };
            if let Some(with_ids) = with_ids_of(known, table) {
                *table = Arc::new(with_ids);
            }
            if *table == *known {
                *table = known.clone();
            }
        }
        *keyspace = match kept == **before {
            true => before.clone(),
            false => Arc::new(kept),
        };
    }
    new
}

/// The table with the ids of its columns in `old`; `None` if it has them.
fn with_ids_of(old: &Table, new: &Table) -> Option<Table> {
    let mut next = old.next_column_id();
    let mut columns: Vec<Column> = new.columns().cloned().collect();
    let ids: Vec<Option<ColumnId>> = columns.iter().map(|c| same_column(old, new, c)).collect();
    let taken: BTreeSet<ColumnId> = ids.iter().flatten().copied().collect();
    debug_assert_eq!(
        taken.len(),
        ids.iter().flatten().count(),
        "no column is two"
    );
    for (column, id) in columns.iter_mut().zip(ids) {
        column.id = id.unwrap_or_else(|| {
            let id = next;
            next = ColumnId(id.0 + 1);
            id
        });
    }
    let same = columns
        .iter()
        .zip(new.columns())
        .all(|(kept, read)| kept.id == read.id);
    if same && new.next_column_id() == next {
        return None;
    }
    let (id, keyspace, name) = (new.id, new.keyspace.clone(), new.name.clone());
    let mut kept = Table::new(id, keyspace, name, columns, new.options.clone());
    kept.dropped = new.dropped.clone();
    kept.masks = new.masks.clone();
    kept.is_virtual = new.is_virtual;
    kept.compact = new.compact;
    kept.view = new.view.clone();
    kept.indexes = new.indexes.clone();
    kept.reserve_column_ids(next);
    Some(kept)
}

/// The id of a column of `new` in `old`; `None` if it was not there, or was dropped since and is another
/// one of its name.
fn same_column(old: &Table, new: &Table, column: &Column) -> Option<ColumnId> {
    let is_key = matches!(
        column.kind,
        ColumnKind::PartitionKey | ColumnKind::Clustering
    );
    if is_key {
        // Renamed, perhaps.
        let same = |known: &&Column| known.kind == column.kind && known.position == column.position;
        return old.columns().find(same).map(|known| known.id);
    }
    let values = |table: &Table| -> BTreeSet<Arc<str>> {
        let values = table.statics().chain(table.regulars());
        values.map(|column| column.name.clone()).collect()
    };
    let dropped_at = |table: &Table, name: &str| {
        let dropped = table
            .dropped
            .iter()
            .filter(|dropped| &*dropped.name == name);
        dropped.map(|dropped| dropped.dropped_at).max()
    };
    if let Some(known) = old
        .column_named(&column.name)
        .filter(|known| known.kind == column.kind)
    {
        let again = dropped_at(new, &column.name) > dropped_at(old, &column.name);
        return (!again).then_some(known.id);
    }
    // The value of a table with COMPACT STORAGE can be renamed: one name has gone and one has come.
    let (before, now) = (values(old), values(new));
    let gone: Vec<_> = before.difference(&now).collect();
    let come: Vec<_> = now.difference(&before).collect();
    match (&gone[..], &come[..]) {
        ([gone], [come])
            if **come == column.name && dropped_at(new, gone) == dropped_at(old, gone) =>
        {
            let known = old.column_named(gone)?;
            (known.kind == column.kind).then_some(known.id)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{SCHEMA_TABLES, schema_from_rows, schema_to_mutations, system_keyspaces};
    use model::Partition;
    use std::collections::BTreeMap;

    /// A schema as a statement makes it of another one.
    fn changed(schema: &Schema, text: &str, timestamp: i64) -> Schema {
        let context = cql::Context {
            schema,
            keyspace: None,
        };
        let prepared = cql::prepare(text, &context).expect("it is right");
        let cql::Plan::Schema(plan) = prepared.plan else {
            panic!("{text} changes no schema");
        };
        let id = || uuid::Uuid::from_u128(7);
        plan.apply(schema, id, timestamp, &["dc"])
            .expect("it fits")
            .schema
    }

    /// The same as a node reads it from its tables.
    fn read(schema: &Schema) -> Schema {
        let system = system_keyspaces();
        let mut rows: BTreeMap<&str, Vec<Partition>> = BTreeMap::new();
        for mutation in schema_to_mutations(&Schema::default(), schema, 50) {
            for update in mutation.updates {
                let name = SCHEMA_TABLES
                    .into_iter()
                    .find(|name| **name == *update.table.name);
                rows.entry(name.expect("a table of system_schema"))
                    .or_default()
                    .push(update.into());
            }
        }
        schema_from_rows(&system, &rows).0
    }

    #[test]
    fn a_column_keeps_its_id_whatever_becomes_of_the_others() {
        let mut schema = system_keyspaces();
        for text in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (p int, c int, m text, z list<int>, PRIMARY KEY (p, c))",
        ] {
            schema = changed(&schema, text, 10);
        }
        let statements = [
            "ALTER TABLE k.t ADD a text",
            "ALTER TABLE k.t ADD s int static",
            "ALTER TABLE k.t DROP m",
            "ALTER TABLE k.t RENAME c TO d",
            "ALTER TABLE k.t ADD (m text, b int)",
            "ALTER TABLE k.t WITH comment = 'x'",
        ];
        for (text, time) in statements.into_iter().zip(20..) {
            let asked = changed(&schema, text, time);
            let kept = keep(&schema, read(&asked));
            let ids = |schema: &Schema| -> BTreeMap<Arc<str>, ColumnId> {
                let table = schema.table("k", "t").expect("it is there");
                table.columns().map(|c| (c.name.clone(), c.id)).collect()
            };
            let next = |schema: &Schema| schema.table("k", "t").map(|t| t.next_column_id());
            assert_eq!(next(&kept), next(&asked), "{text}");
            let (kept_ids, asked_ids) = (ids(&kept), ids(&asked));
            for (name, id) in &asked_ids {
                match Some(*id) < next(&schema) {
                    true => assert_eq!(kept_ids[name], *id, "{text}: {name}"),
                    // Of those that come together any may be the first.
                    false => assert!(Some(kept_ids[name]) >= next(&schema), "{text}: {name}"),
                }
            }
            assert_eq!(kept_ids.len(), asked_ids.len(), "{text}");
            schema = kept;
        }
    }
}
