//! The version of a schema: a digest of its content, the same for the same content wherever and
//! however it came about.

use std::fmt::Write;

use model::{
    Column, Keyspace, Schema, Table, UserAggregate, UserFunction, argument_list, murmur3_x64_128,
};
use uuid::Uuid;

use super::is_virtual_keyspace;

/// What `schema_version` shows for this schema.
pub fn version_of(schema: &Schema) -> Uuid {
    let mut text = String::new();
    for keyspace in schema.keyspaces.values() {
        if !is_virtual_keyspace(&keyspace.name) {
            describe_keyspace(&mut text, keyspace);
        }
    }
    let [high, low] = murmur3_x64_128(text.as_bytes());
    let bytes = (u128::from(high as u64) << 64) | u128::from(low as u64);
    // A version 3 uuid, as Cassandra's are.
    uuid::Builder::from_md5_bytes(bytes.to_be_bytes()).into_uuid()
}

/// Writing to a string cannot fail, so that outcome is dropped.
fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
    text.push('\0');
}

fn describe_keyspace(text: &mut String, keyspace: &Keyspace) {
    add(
        text,
        format_args!(
            "keyspace {} {:?} {}",
            keyspace.name, keyspace.replication, keyspace.durable_writes
        ),
    );
    for user_type in keyspace.types.values() {
        add(text, format_args!("type {}", user_type.name));
        for (name, ty) in &user_type.fields {
            add(text, format_args!("field {name} {ty}"));
        }
    }
    for table in keyspace.tables.values() {
        describe_table(text, table);
    }
    for function in keyspace.functions.scalars.values() {
        describe_function(text, function);
    }
    for aggregate in keyspace.functions.aggregates.values() {
        describe_aggregate(text, aggregate);
    }
}

fn describe_function(text: &mut String, function: &UserFunction) {
    let names = &function.argument_names;
    for (name, ty) in names.iter().zip(&function.argument_types) {
        add(text, format_args!("argument {name} {ty}"));
    }
    add(
        text,
        format_args!(
            "function {} {} {} {}",
            function.name, function.return_type, function.called_on_null_input, function.language
        ),
    );
    add(text, format_args!("{}", function.body));
}

fn describe_aggregate(text: &mut String, aggregate: &UserAggregate) {
    let last = aggregate.final_function.as_ref();
    add(
        text,
        format_args!(
            "aggregate {}({}) {} {} {:?} {:?}",
            aggregate.name,
            argument_list(&aggregate.argument_types),
            aggregate.state_function.name,
            aggregate.state_type,
            last.map(|last| &last.name),
            aggregate.initial
        ),
    );
}

fn describe_table(text: &mut String, table: &Table) {
    add(
        text,
        format_args!("table {} {} {:?}", table.name, table.id, table.options),
    );
    if let Some(view) = &table.view {
        add(
            text,
            format_args!(
                "view {} {} {}",
                view.base, view.includes_all, view.where_clause
            ),
        );
    }
    // By name: ids of columns are this process's own.
    let mut columns: Vec<&Column> = table.columns().collect();
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    for column in columns {
        add(
            text,
            format_args!(
                "column {} {} {:?} {} {:?}",
                column.name, column.ty, column.kind, column.position, column.order
            ),
        );
    }
    for index in &table.indexes {
        let (name, kind, options) = (&index.name, index.kind, &index.options);
        add(text, format_args!("index {name} {kind:?} {options:?}"));
    }
    for (column, mask) in &table.masks {
        add(text, format_args!("mask {column} {mask}"));
    }
    let mut dropped: Vec<_> = table.dropped.iter().collect();
    dropped.sort_by(|a, b| a.name.cmp(&b.name));
    for column in dropped {
        // Milliseconds: what system_schema keeps.
        add(
            text,
            format_args!(
                "dropped {} {} {} {}",
                column.name,
                column.ty,
                column.is_static,
                column.dropped_at.div_euclid(1000)
            ),
        );
    }
}
