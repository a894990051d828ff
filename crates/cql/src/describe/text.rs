//! The CREATE statements of keyspaces, types and tables (`toCqlString` of `KeyspaceMetadata`,
//! `UserType`, `TableMetadata`).

use std::collections::BTreeMap;
use std::fmt::Write;

use model::{
    Column, ColumnKind, CompactForm, CqlType, DroppedColumn, Index, IndexKind, Keyspace, Order,
    Table, TableOptions, UserAggregate, UserFunction, UserType, argument_list, argument_type,
    quote_identifier as quote,
};

use crate::functions::double_text;

/// `CREATE KEYSPACE …;`
pub fn create_keyspace(keyspace: &Keyspace) -> String {
    let name = quote(&keyspace.name);
    if keyspace.is_virtual {
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with \
             CQL.\nStructure, for reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    format!(
        "CREATE KEYSPACE {name} WITH replication = {}  AND durable_writes = {};",
        replication(&keyspace.replication),
        keyspace.durable_writes
    )
}

/// The class comes first and short (`ReplicationParams.appendCqlTo`).
fn replication(options: &BTreeMap<String, String>) -> String {
    let class = options.get("class").map_or("", String::as_str);
    let short = class
        .strip_prefix("org.apache.cassandra.locator.")
        .unwrap_or(class);
    let mut text = format!("{{'class': {}", literal(short));
    for (name, value) in options.iter().filter(|(name, _)| *name != "class") {
        add(
            &mut text,
            format_args!(", {}: {}", literal(name), literal(value)),
        );
    }
    text + "}"
}

/// `CREATE TYPE …;`
pub fn create_type(ty: &UserType) -> String {
    let fields: Vec<String> = ty
        .fields
        .iter()
        .map(|(name, ty)| format!("    {} {ty}", quote(name)))
        .collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quote(&ty.keyspace),
        quote(&ty.name),
        fields.join(",\n")
    )
}

/// `CREATE FUNCTION …;` (`UDFunction.toCqlString`)
pub fn create_function(function: &UserFunction) -> String {
    let names = &function.argument_names;
    let arguments: Vec<String> = names
        .iter()
        .zip(&function.argument_types)
        .map(|(name, ty)| format!("{} {}", quote(name), argument_type(ty)))
        .collect();
    let on_null_input = match function.called_on_null_input {
        true => "CALLED",
        false => "RETURNS NULL",
    };
    format!(
        "CREATE FUNCTION {}.{}({})\n    {on_null_input} ON NULL INPUT\n    RETURNS {}\n    LANGUAGE \
         {}\n    AS {};",
        quote(&function.keyspace),
        quote(&function.name),
        arguments.join(", "),
        argument_type(&function.return_type),
        function.language,
        body(&function.body)
    )
}

/// Between dollars, as Cassandra writes it, unless it has two of them itself or one at its end.
fn body(text: &str) -> String {
    match text.contains("$$") || text.ends_with('$') {
        true => literal(text),
        false => format!("$${text}$$"),
    }
}

/// `CREATE AGGREGATE …;` (`UDAggregate.toCqlString`)
pub fn create_aggregate(aggregate: &UserAggregate) -> String {
    let mut text = format!(
        "CREATE AGGREGATE {}.{}({})\n    SFUNC {}\n    STYPE {}",
        quote(&aggregate.keyspace),
        quote(&aggregate.name),
        argument_list(&aggregate.argument_types),
        quote(&aggregate.state_function.name),
        argument_type(&aggregate.state_type)
    );
    if let Some(function) = &aggregate.final_function {
        add(
            &mut text,
            format_args!("\n    FINALFUNC {}", quote(&function.name)),
        );
    }
    if let Some(initial) = &aggregate.initial {
        let initial = aggregate.state_type.format_literal(initial);
        add(&mut text, format_args!("\n    INITCOND {initial}"));
    }
    text.push(';');
    text
}

/// `CREATE TABLE …;`, with its id and what was dropped from it if `with_internals` are wanted.
pub fn create_table(table: &Table, with_internals: bool) -> String {
    let name = format!("{}.{}", quote(&table.keyspace), quote(&table.name));
    let mut text = String::new();
    if table.is_virtual {
        add(
            &mut text,
            format_args!(
                "/*\nWarning: Table {name} is a virtual table and cannot be recreated with \
                 CQL.\nStructure, for reference:\nVIRTUAL "
            ),
        );
    }
    add(&mut text, format_args!("TABLE {name} (\n"));
    add_columns(&mut text, table, with_internals);
    text.push_str(") WITH ");
    if table.compact.is_some() {
        text.push_str("COMPACT STORAGE\n    AND ");
    }
    if with_internals {
        add(&mut text, format_args!("ID = {}\n    AND ", table.id));
    }
    let clustering: Vec<String> = table
        .clustering_key()
        .map(|column| format!("{} {}", quote(&column.name), order(column.order)))
        .collect();
    if !clustering.is_empty() {
        add(
            &mut text,
            format_args!("CLUSTERING ORDER BY ({})\n    AND ", clustering.join(", ")),
        );
    }
    if table.is_virtual {
        add(
            &mut text,
            format_args!("comment = {};\n*/", literal(&table.options.comment)),
        );
        return text;
    }
    add_options(&mut text, &table.options, false);
    if with_internals {
        add_drops(&mut text, table, &name);
    }
    if table.compact.is_some() {
        return format!(
            "/*\nWarning: Table {name} omitted because it has constructs not compatible with CQL \
             (was created via legacy API).\nApproximate structure, for reference:\n(this should \
             not be used to reproduce this schema)\n\nCREATE {text}\n*/"
        );
    }
    format!("CREATE {text}")
}

/// `CREATE MATERIALIZED VIEW …;` (`ViewMetadata.toCqlString`)
pub fn create_view(view: &Table, with_internals: bool) -> String {
    let keyspace = quote(&view.keyspace);
    let mut text = format!(
        "CREATE MATERIALIZED VIEW {keyspace}.{} AS\n",
        quote(&view.name)
    );
    let definition = view.view.as_deref();
    let selected = match definition {
        Some(definition) if definition.includes_all => "*".to_owned(),
        _ => names(columns_as_selected(view).into_iter()),
    };
    let (base, rows) = definition.map_or(("", ""), |d| (&d.base_name, &d.where_clause));
    let partition = names(view.partition_key());
    let key = match view.partition_key().len() {
        1 => partition,
        _ => format!("({partition})"),
    };
    let clustering = names(view.clustering_key());
    let key = match clustering.is_empty() {
        true => key,
        false => format!("{key}, {clustering}"),
    };
    add(
        &mut text,
        format_args!(
            "    SELECT {selected}\n    FROM {keyspace}.{}\n    WHERE {rows}\n    PRIMARY KEY \
             ({key})\n WITH ",
            quote(base)
        ),
    );
    if with_internals {
        add(&mut text, format_args!("ID = {}\n    AND ", view.id));
    }
    let orders: Vec<String> = view
        .clustering_key()
        .map(|column| format!("{} {}", quote(&column.name), order(column.order)))
        .collect();
    if !orders.is_empty() {
        add(
            &mut text,
            format_args!("CLUSTERING ORDER BY ({})\n    AND ", orders.join(", ")),
        );
    }
    add_options(&mut text, &view.options, true);
    text
}

fn names<'c>(columns: impl Iterator<Item = &'c Column>) -> String {
    let names: Vec<String> = columns.map(|column| quote(&column.name)).collect();
    names.join(", ")
}

/// `CREATE INDEX …;` (`IndexMetadata.appendCqlTo`).
pub(super) fn create_index(table: &Table, index: &Index) -> String {
    let option = |name: &str| index.options.get(name).map_or("", String::as_str);
    let custom = index.kind == Some(IndexKind::Custom);
    let mut text = format!(
        "CREATE {}INDEX {} ON {}.{} ({})",
        if custom { "CUSTOM " } else { "" },
        quote(&index.name),
        quote(&table.keyspace),
        quote(&table.name),
        option("target"),
    );
    if custom {
        add(&mut text, format_args!(" USING '{}'", option("class_name")));
        let mut options = index.options.clone();
        options.retain(|name, _| name != "class_name" && name != "target");
        if !options.is_empty() {
            add(&mut text, format_args!(" WITH OPTIONS = {}", map(&options)));
        }
    }
    text.push(';');
    text
}

/// Writing to a string cannot fail, so that outcome is dropped.
fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    }
}

/// A text in single quotes.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// All columns as they are declared: the key, static and regular ones, each first those of one
/// cell (`allColumnsInCreateOrder`).
fn columns_in_order(table: &Table) -> Vec<&Column> {
    let mut values: Vec<&Column> = table.statics().chain(table.regulars()).collect();
    values.sort_by(|a, b| {
        let part = |column: &Column| (column.kind != ColumnKind::Static, column.ty.is_multi_cell());
        let by_part = part(a).cmp(&part(b));
        by_part.then_with(|| Column::compare_names(&a.name, &b.name))
    });
    let mut columns: Vec<&Column> = table.partition_key().collect();
    columns.extend(table.clustering_key());
    columns.extend(values);
    columns.retain(|column| !table.hides(column));
    columns
}

/// All columns of a view as `SELECT *` shows them: the key, the others by name
/// (`allColumnsInSelectOrder`).
fn columns_as_selected(view: &Table) -> Vec<&Column> {
    let mut columns = columns_in_order(view);
    let keys = view.partition_key().len() + view.clustering_key().len();
    columns[keys..].sort_by(|a, b| Column::compare_names(&a.name, &b.name));
    columns
}

/// Dropped columns, by name.
fn drops(table: &Table) -> Vec<&DroppedColumn> {
    let mut dropped: Vec<&DroppedColumn> = table.dropped.iter().collect();
    dropped.sort_by(|a, b| a.name.cmp(&b.name));
    dropped
}

fn declaration(name: &str, ty: &CqlType, is_static: bool) -> String {
    let is_static = if is_static { " static" } else { "" };
    format!("{} {ty}{is_static}", quote(name))
}

fn masked_with(table: &Table, column: &str) -> String {
    let mask = table.masks.get(column);
    mask.map_or_else(String::new, |mask| format!(" MASKED WITH {mask}"))
}

fn add_columns(text: &mut String, table: &Table, with_drops: bool) {
    let dropped = if with_drops { drops(table) } else { Vec::new() };
    let simple_key = table.partition_key().len() == 1 && table.clustering_key().len() == 0;
    let mut lines = Vec::new();
    for column in columns_in_order(table) {
        // A column that was dropped and added again comes with what is said of the drop.
        if dropped.iter().any(|drop| drop.name == column.name) {
            continue;
        }
        let is_static =
            column.kind == ColumnKind::Static && table.compact != Some(CompactForm::Static);
        let mut line = declaration(&column.name, &column.ty, is_static);
        line.push_str(&masked_with(table, &column.name));
        if simple_key && column.kind == ColumnKind::PartitionKey {
            line.push_str(" PRIMARY KEY");
        }
        lines.push(line);
    }
    lines.extend(
        dropped
            .iter()
            .map(|drop| declaration(&drop.name, &drop.ty, drop.is_static)),
    );
    if !simple_key {
        lines.push(primary_key(table));
    }
    for (i, line) in lines.iter().enumerate() {
        let comma = if i + 1 < lines.len() { "," } else { "" };
        add(text, format_args!("    {line}{comma}\n"));
    }
}

fn primary_key(table: &Table) -> String {
    let names = |columns: Vec<&Column>| {
        let quoted: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
        quoted.join(", ")
    };
    let mut key = names(table.partition_key().collect());
    if table.partition_key().len() > 1 {
        key = format!("({key})");
    }
    let clustering: Vec<&Column> = table.clustering_key().filter(|c| !table.hides(c)).collect();
    if !clustering.is_empty() {
        key = format!("{key}, {}", names(clustering));
    }
    format!("PRIMARY KEY ({key})")
}

fn map(options: &BTreeMap<String, String>) -> String {
    let entries: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("{}: {}", literal(name), literal(value)))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

fn extensions(options: &BTreeMap<String, Vec<u8>>) -> String {
    let entries: Vec<String> = options
        .iter()
        .map(|(name, value)| {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}: 0x{digits}", literal(name))
        })
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// The options; a view has no `default_time_to_live`.
fn add_options(text: &mut String, options: &TableOptions, of_view: bool) {
    let lines = [
        (
            "additional_write_policy",
            literal(&options.additional_write_policy),
        ),
        (
            "allow_auto_snapshot",
            options.allow_auto_snapshot.to_string(),
        ),
        (
            "bloom_filter_fp_chance",
            double_text(options.bloom_filter_fp_chance),
        ),
        ("caching", map(&options.caching)),
        ("cdc", options.cdc.to_string()),
        ("comment", literal(&options.comment)),
        ("compaction", map(&options.compaction)),
        ("compression", map(&options.compression)),
        ("memtable", literal(&options.memtable)),
        ("crc_check_chance", double_text(options.crc_check_chance)),
        (
            "default_time_to_live",
            options.default_time_to_live.to_string(),
        ),
        ("extensions", extensions(&options.extensions)),
        ("gc_grace_seconds", options.gc_grace_seconds.to_string()),
        (
            "incremental_backups",
            options.incremental_backups.to_string(),
        ),
        ("max_index_interval", options.max_index_interval.to_string()),
        (
            "memtable_flush_period_in_ms",
            options.memtable_flush_period_in_ms.to_string(),
        ),
        ("min_index_interval", options.min_index_interval.to_string()),
        ("read_repair", literal(&options.read_repair)),
        ("speculative_retry", literal(&options.speculative_retry)),
    ];
    let lines: Vec<String> = lines
        .iter()
        .filter(|(name, _)| !(of_view && *name == "default_time_to_live"))
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    text.push_str(&lines.join("\n    AND "));
    text.push(';');
}

/// The drops as statements that repeat them, so that old files are read the same way.
fn add_drops(text: &mut String, table: &Table, name: &str) {
    for drop in drops(table) {
        let column = quote(&drop.name);
        add(
            text,
            format_args!(
                "\nALTER TABLE {name} DROP {column} USING TIMESTAMP {};",
                drop.dropped_at
            ),
        );
        if let Some(again) = table.column_named(&drop.name) {
            let is_static = again.kind == ColumnKind::Static;
            let declared = declaration(&again.name, &again.ty, is_static);
            let mask = masked_with(table, &again.name);
            add(
                text,
                format_args!("\nALTER TABLE {name} ADD {declared}{mask};"),
            );
        }
    }
}
