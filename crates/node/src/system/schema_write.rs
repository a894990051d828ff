//! Schema to rows of `system_schema` (`SchemaKeyspace`): exactly what a change inserts and
//! deletes, as one mutation a keyspace, so that a change is there whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cql::schema::is_counter_table;
use model::{
    Clustering, Column, ColumnMask, CompactForm, CqlType, DecoratedKey, DroppedColumn, IndexKind,
    Keyspace, Mutation, PartitionUpdate, RangeTombstone, Schema, Slice, Table, TableOptions,
    UserAggregate, UserType, View, collection,
};

use super::rows::{
    RowWriter, WriteTime, bigint, boolean, clustering, double, int, text, text_list, text_map, uuid,
};
use super::virtual_schema::{kind_and_position, order};

/// Tables that keep one row or more for each table of a keyspace.
const OF_TABLES: [&str; 6] = [
    "tables",
    "columns",
    "dropped_columns",
    "indexes",
    "triggers",
    "column_masks",
];

/// All tables of `system_schema`, keyed by keyspace.
const ALL: [&str; 11] = [
    "keyspaces",
    "types",
    "tables",
    "columns",
    "dropped_columns",
    "indexes",
    "triggers",
    "column_masks",
    "views",
    "functions",
    "aggregates",
];

/// When the rows of the system keyspaces themselves are written: before any change by a user, so
/// that a node may write them at each start and an altered replication stays.
pub const SYSTEM_SCHEMA_TIMESTAMP: i64 = 1;

/// What turns the rows of `old` into those of `new`; `new` knows the tables of `system_schema`.
/// `timestamp` (microseconds since 1970) must be later than that of any change before: a deletion
/// wins over an insert of the same time. Virtual keyspaces have no rows.
pub fn schema_to_mutations(old: &Schema, new: &Schema, timestamp: i64) -> Vec<Mutation> {
    let time = WriteTime::at(timestamp);
    let mut mutations = Vec::new();
    for (name, keyspace) in &old.keyspaces {
        if !keyspace.is_virtual && !new.keyspaces.contains_key(name) {
            let mut writer = KeyspaceWriter::new(new, name, time);
            for table in ALL {
                if let Some(update) = writer.update(table) {
                    update.deletion = time.deletion();
                }
            }
            mutations.extend(writer.finish());
        }
    }
    for (name, keyspace) in &new.keyspaces {
        let before = old.keyspaces.get(name);
        let same = before.is_some_and(|before| Arc::ptr_eq(before, keyspace) || before == keyspace);
        if !keyspace.is_virtual && !same {
            let mut writer = KeyspaceWriter::new(new, name, time);
            writer.write(before.map(Arc::as_ref), keyspace);
            mutations.extend(writer.finish());
        }
    }
    mutations
}

/// Collects what is said of one keyspace.
struct KeyspaceWriter<'a> {
    schema: &'a Schema,
    key: DecoratedKey,
    time: WriteTime,
    updates: BTreeMap<&'static str, PartitionUpdate>,
}

impl<'a> KeyspaceWriter<'a> {
    fn new(schema: &'a Schema, keyspace: &str, time: WriteTime) -> KeyspaceWriter<'a> {
        KeyspaceWriter {
            schema,
            key: DecoratedKey::new(text(keyspace)),
            time,
            updates: BTreeMap::new(),
        }
    }

    fn finish(self) -> Option<Mutation> {
        let updates: Vec<PartitionUpdate> = self
            .updates
            .into_values()
            .filter(|update| !update.is_empty())
            .collect();
        (!updates.is_empty()).then_some(Mutation { updates })
    }

    /// The update of a table of `system_schema`; `None` if the schema has no such table.
    fn update(&mut self, table: &'static str) -> Option<&mut PartitionUpdate> {
        if !self.updates.contains_key(table) {
            let found = self.schema.table("system_schema", table);
            debug_assert!(found.is_some(), "system_schema has {table}");
            let update = PartitionUpdate::new(found?.clone(), self.key.clone());
            self.updates.insert(table, update);
        }
        self.updates.get_mut(table)
    }

    fn row(
        &mut self,
        table: &'static str,
        clustering: Clustering,
        write: impl FnOnce(&mut RowWriter<'_>),
    ) {
        let time = self.time;
        if let Some(update) = self.update(table) {
            let definition = update.table.clone();
            let row = update.row_mut(&clustering);
            write(&mut RowWriter::insert(&definition, row, time));
        }
    }

    fn delete_row(&mut self, table: &'static str, clustering: Clustering) {
        let deletion = self.time.deletion();
        if let Some(update) = self.update(table) {
            update.row_mut(&clustering).deletion = deletion;
        }
    }

    fn write(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        let properties = |k: &Keyspace| (k.replication.clone(), k.durable_writes);
        if before.map(properties) != Some(properties(after)) {
            self.row("keyspaces", Clustering::EMPTY, |row| {
                row.set("durable_writes", boolean(after.durable_writes))
                    .set("replication", text_map(&after.replication));
            });
        }
        self.write_types(before, after);
        for (name, table) in before.iter().flat_map(|before| &before.tables) {
            if !after.tables.contains_key(name) {
                self.drop_table(table);
            }
        }
        self.delete_masks(before, after);
        self.write_functions(before, after);
        self.write_aggregates(before, after);
        for (name, table) in &after.tables {
            let before = before.and_then(|before| before.tables.get(name));
            if before != Some(table) {
                self.write_table(before.map(Arc::as_ref), table);
            }
        }
    }

    fn write_types(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        for name in before.iter().flat_map(|before| before.types.keys()) {
            if !after.types.contains_key(name) {
                self.delete_row("types", clustering([&**name]));
            }
        }
        for (name, ty) in &after.types {
            if before.and_then(|before| before.types.get(name)) != Some(ty) {
                self.write_type(ty);
            }
        }
    }

    fn write_type(&mut self, ty: &UserType) {
        let types: Vec<String> = ty.fields.iter().map(|(_, ty)| ty.to_string()).collect();
        self.row("types", clustering([&*ty.name]), |row| {
            row.set(
                "field_names",
                text_list(ty.fields.iter().map(|(name, _)| &**name)),
            )
            .set("field_types", text_list(types.iter().map(String::as_str)));
        });
    }

    fn write_functions(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        let (after, before) = (&after.functions, before.map(|before| &before.functions));
        let key = |name: &str, types: &[CqlType]| signature_key(name, types);
        for (signature, old) in before.iter().flat_map(|before| &before.scalars) {
            if !after.scalars.contains_key(signature) {
                self.delete_row("functions", key(&old.name, &old.argument_types));
            }
        }
        for (signature, new) in &after.scalars {
            if before.and_then(|before| before.scalars.get(signature)) == Some(new) {
                continue;
            }
            self.row("functions", key(&new.name, &new.argument_types), |row| {
                let names = new.argument_names.iter().map(|name| &**name);
                row.set("argument_names", text_list(names))
                    .set("body", text(&new.body))
                    .set("called_on_null_input", boolean(new.called_on_null_input))
                    .set("language", text(&new.language))
                    .set("return_type", text(&new.return_type.to_string()));
            });
        }
    }

    fn write_aggregates(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        let (after, before) = (&after.functions, before.map(|before| &before.functions));
        for (signature, old) in before.iter().flat_map(|before| &before.aggregates) {
            if !after.aggregates.contains_key(signature) {
                let key = signature_key(&old.name, &old.argument_types);
                self.delete_row("aggregates", key);
            }
        }
        for (signature, new) in &after.aggregates {
            if before.and_then(|before| before.aggregates.get(signature)) == Some(new) {
                continue;
            }
            let key = signature_key(&new.name, &new.argument_types);
            self.row("aggregates", key, |row| write_aggregate(row, new));
        }
    }

    /// Those of a table that is dropped go with its other rows.
    fn delete_masks(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        let Some(before) = before else { return };
        for (table, column) in before.unserved.masks.difference(&after.unserved.masks) {
            let stays = |table: &Arc<Table>| !table.masks.contains_key(column);
            let was_served = before.tables.contains_key(table);
            if after.tables.get(table).map_or(!was_served, stays) {
                self.delete_row("column_masks", clustering([&**table, &**column]));
            }
        }
    }

    fn drop_table(&mut self, table: &Table) {
        let deletion = self.time.deletion();
        for name in OF_TABLES {
            if name == "tables" {
                self.delete_row(definitions_of(table), clustering([&*table.name]));
            } else if let Some(update) = self.update(name) {
                update.add_range_tombstone(RangeTombstone {
                    slice: Slice::of_prefix(clustering([&*table.name])),
                    deletion,
                });
            }
        }
    }

    fn write_table(&mut self, before: Option<&Table>, after: &Table) {
        let name = &*after.name;
        let same_row = before.is_some_and(|before| {
            before.id == after.id
                && before.options == after.options
                && before.view == after.view
                && is_counter_table(before) == is_counter_table(after)
        });
        if !same_row {
            let before = before.map(|before| &before.options);
            self.row(definitions_of(after), clustering([name]), |row| {
                match &after.view {
                    Some(view) => write_view(row, view),
                    None => {
                        row.set("flags", flags(after));
                    }
                }
                row.set("id", uuid(after.id));
                write_options(row, before, &after.options);
            });
        }
        for column in before.iter().flat_map(|before| before.columns()) {
            if after.column_named(&column.name).is_none() {
                self.delete_row("columns", clustering([name, &*column.name]));
            }
        }
        for column in after.columns() {
            let before = before.and_then(|before| before.column_named(&column.name));
            if !before.is_some_and(|before| same_column(before, column)) {
                self.write_column(name, column);
            }
        }
        self.write_indexes(before, after);
        self.write_masks(before, after);
        let dropped_before = before.map_or(&[][..], |before| &before.dropped);
        for column in dropped_before {
            if !after.dropped.iter().any(|c| c.name == column.name) {
                self.delete_row("dropped_columns", clustering([name, &*column.name]));
            }
        }
        for column in &after.dropped {
            if !dropped_before.contains(column) {
                self.write_dropped(name, column);
            }
        }
    }

    fn write_indexes(&mut self, before: Option<&Table>, after: &Table) {
        let name = &*after.name;
        for index in before.iter().flat_map(|before| &before.indexes) {
            if after.index(&index.name).is_none() {
                self.delete_row("indexes", clustering([name, &*index.name]));
            }
        }
        for index in &after.indexes {
            if before.and_then(|before| before.index(&index.name)) == Some(index) {
                continue;
            }
            self.row("indexes", clustering([name, &*index.name]), |row| {
                row.set("kind", text(index.kind.map_or("", IndexKind::name)))
                    .set("options", text_map(&index.options));
            });
        }
    }

    fn write_masks(&mut self, before: Option<&Table>, after: &Table) {
        let name = &*after.name;
        let masks_before = before.iter().flat_map(|before| &before.masks);
        for column in masks_before.map(|(column, _)| column) {
            if !after.masks.contains_key(column) {
                self.delete_row("column_masks", clustering([name, &**column]));
            }
        }
        for (column, mask) in &after.masks {
            if before.and_then(|before| before.masks.get(column)) != Some(mask) {
                self.row("column_masks", clustering([name, &**column]), |row| {
                    write_mask(row, mask);
                });
            }
        }
    }

    fn write_column(&mut self, table: &str, column: &Column) {
        let (kind, position) = kind_and_position(column);
        self.row("columns", clustering([table, &*column.name]), |row| {
            row.set("clustering_order", text(order(column)))
                .set("column_name_bytes", text(&column.name))
                .set("kind", text(kind))
                .set("position", int(position))
                .set("type", text(&column.ty.to_string()));
        });
    }

    fn write_dropped(&mut self, table: &str, column: &DroppedColumn) {
        let kind = if column.is_static {
            "static"
        } else {
            "regular"
        };
        self.row(
            "dropped_columns",
            clustering([table, &*column.name]),
            |row| {
                row.set("dropped_time", bigint(column.dropped_at.div_euclid(1000)))
                    .set("kind", text(kind))
                    .set("type", text(&column.ty.to_string()));
            },
        );
    }
}

/// The table of `system_schema` that a table or view has its row in.
fn definitions_of(table: &Table) -> &'static str {
    match table.view {
        Some(_) => "views",
        None => "tables",
    }
}

/// What a view says besides what any table does (`SchemaKeyspace.addViewToSchemaMutation`).
fn write_view(row: &mut RowWriter<'_>, view: &View) {
    row.set("base_table_id", uuid(view.base))
        .set("base_table_name", text(&view.base_name))
        .set("include_all_columns", boolean(view.includes_all))
        .set("where_clause", text(&view.where_clause));
}

fn signature_key(name: &str, types: &[CqlType]) -> Clustering {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    let types = text_list(types.iter().map(String::as_str));
    Clustering([text(name), types].into_iter().collect())
}

/// What a new one of the same signature does not have is cleared.
fn write_aggregate(row: &mut RowWriter<'_>, aggregate: &UserAggregate) {
    row.set("return_type", text(&aggregate.return_type.to_string()))
        .set("state_func", text(&aggregate.state_function.name))
        .set("state_type", text(&aggregate.state_type.to_string()));
    match &aggregate.final_function {
        Some(function) => row.set("final_func", text(&function.name)),
        None => row.clear("final_func"),
    };
    match &aggregate.initial {
        Some(value) => row.set(
            "initcond",
            text(&aggregate.state_type.format_literal(value)),
        ),
        None => row.clear("initcond"),
    };
}

fn write_mask(row: &mut RowWriter<'_>, mask: &ColumnMask) {
    let each = || mask.arguments.iter();
    let nulls = each().map(|(_, value)| [u8::from(value.is_none())]);
    let types: Vec<String> = each().map(|(ty, _)| ty.to_string()).collect();
    // A null is an empty text beside its mark.
    let shown = |(ty, value): &(CqlType, Option<Bytes>)| {
        value
            .as_ref()
            .map_or_else(String::new, |value| ty.format_string(value))
    };
    let values: Vec<String> = each().map(shown).collect();
    row.set(
        "function_argument_nulls",
        collection::pack_elements(nulls).into(),
    )
    .set(
        "function_argument_types",
        text_list(types.iter().map(String::as_str)),
    )
    .set(
        "function_argument_values",
        text_list(values.iter().map(String::as_str)),
    )
    .set("function_keyspace", text(&mask.keyspace))
    .set("function_name", text(&mask.function));
}

/// Ids are this process's own and not kept.
fn same_column(a: &Column, b: &Column) -> bool {
    (&a.ty, a.kind, a.position, a.order) == (&b.ty, b.kind, b.position, b.order)
}

/// Sorted, as elements of a set are.
fn flags(table: &Table) -> Bytes {
    let flags = [
        (
            "compound",
            match table.compact {
                None => true,
                Some(CompactForm::Dense) => table.clustering_key().len() > 1,
                Some(CompactForm::Static) => false,
            },
        ),
        ("counter", is_counter_table(table)),
        ("dense", table.compact == Some(CompactForm::Dense)),
    ];
    text_list(flags.into_iter().filter(|flag| flag.1).map(|flag| flag.0))
}

/// The columns that newer versions added are only set where they differ from the default, so that
/// older nodes can read the row (`addTableParamsToRowBuilder`).
fn write_options(row: &mut RowWriter<'_>, before: Option<&TableOptions>, options: &TableOptions) {
    let defaults = TableOptions::default();
    let extensions = collection::pack_entries(
        options
            .extensions
            .iter()
            .map(|(name, value)| (name.as_bytes(), value)),
    );
    row.set(
        "additional_write_policy",
        text(&options.additional_write_policy),
    )
    .set(
        "bloom_filter_fp_chance",
        double(options.bloom_filter_fp_chance),
    )
    .set("caching", text_map(&options.caching))
    .set("comment", text(&options.comment))
    .set("compaction", text_map(&options.compaction))
    .set("compression", text_map(&options.compression))
    .set("crc_check_chance", double(options.crc_check_chance))
    .set("dclocal_read_repair_chance", double(0.0))
    .set("default_time_to_live", int(options.default_time_to_live))
    .set("extensions", extensions.into())
    .set("gc_grace_seconds", int(options.gc_grace_seconds))
    .set("max_index_interval", int(options.max_index_interval))
    .set(
        "memtable_flush_period_in_ms",
        int(options.memtable_flush_period_in_ms),
    )
    .set("min_index_interval", int(options.min_index_interval))
    .set("read_repair", text(&options.read_repair))
    .set("read_repair_chance", double(0.0))
    .set("speculative_retry", text(&options.speculative_retry));

    let before = before.unwrap_or(&defaults);
    let mut unusual = |column: &str, value: Bytes, differs: bool, differed: bool| {
        if differs {
            row.set(column, value);
        } else if differed {
            row.clear(column);
        }
    };
    unusual(
        "allow_auto_snapshot",
        boolean(options.allow_auto_snapshot),
        options.allow_auto_snapshot != defaults.allow_auto_snapshot,
        before.allow_auto_snapshot != defaults.allow_auto_snapshot,
    );
    unusual(
        "cdc",
        boolean(options.cdc),
        options.cdc != defaults.cdc,
        before.cdc != defaults.cdc,
    );
    unusual(
        "incremental_backups",
        boolean(options.incremental_backups),
        options.incremental_backups != defaults.incremental_backups,
        before.incremental_backups != defaults.incremental_backups,
    );
    unusual(
        "memtable",
        text(&options.memtable),
        options.memtable != defaults.memtable,
        before.memtable != defaults.memtable,
    );
}
