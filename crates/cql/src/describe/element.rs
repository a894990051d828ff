//! What DESCRIBE can show.

use std::collections::BTreeSet;

use model::{
    CqlType, Index, Keyspace, Table, UserAggregate, UserFunction, UserType, argument_list,
    quote_identifier,
};

use super::text;

/// A part of a schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element<'s> {
    /// A keyspace, by itself.
    Keyspace(&'s Keyspace),
    /// A type of a keyspace.
    Type(&'s Keyspace, &'s UserType),
    /// A table of a keyspace.
    Table(&'s Keyspace, &'s Table),
    /// A materialized view of a keyspace.
    View(&'s Keyspace, &'s Table),
    /// An index of a table.
    Index(&'s Keyspace, &'s Table, &'s Index),
    /// A function of a keyspace.
    Function(&'s Keyspace, &'s UserFunction),
    /// An aggregate of a keyspace.
    Aggregate(&'s Keyspace, &'s UserAggregate),
}

impl<'s> Element<'s> {
    pub(super) fn keyspace(&self) -> &'s str {
        match self {
            Element::Keyspace(keyspace)
            | Element::Type(keyspace, _)
            | Element::Table(keyspace, _)
            | Element::View(keyspace, _)
            | Element::Index(keyspace, ..)
            | Element::Function(keyspace, _)
            | Element::Aggregate(keyspace, _) => &keyspace.name,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Element::Keyspace(_) => "keyspace",
            Element::Type(..) => "type",
            Element::Table(..) => "table",
            Element::View(..) => "materialized_view",
            Element::Index(..) => "index",
            Element::Function(..) => "function",
            Element::Aggregate(..) => "aggregate",
        }
    }

    pub(super) fn name(&self) -> &'s str {
        match self {
            Element::Keyspace(keyspace) => &keyspace.name,
            Element::Type(_, ty) => &ty.name,
            Element::Table(_, table) | Element::View(_, table) => &table.name,
            Element::Index(_, _, index) => &index.name,
            Element::Function(_, function) => &function.name,
            Element::Aggregate(_, aggregate) => &aggregate.name,
        }
    }

    /// Its name as it is listed: that of a function has the types of its arguments.
    pub(super) fn listed_name(&self) -> String {
        let name = quote_identifier(self.name());
        match self {
            Element::Function(_, function) => {
                format!("{name}({})", argument_list(&function.argument_types))
            }
            Element::Aggregate(_, aggregate) => {
                format!("{name}({})", argument_list(&aggregate.argument_types))
            }
            _ => name,
        }
    }

    pub(super) fn statement(&self, with_internals: bool) -> String {
        match self {
            Element::Keyspace(keyspace) => text::create_keyspace(keyspace),
            Element::Type(_, ty) => text::create_type(ty),
            Element::Table(_, table) => text::create_table(table, with_internals),
            Element::View(_, view) => text::create_view(view, with_internals),
            Element::Index(_, table, index) => text::create_index(table, index),
            Element::Function(_, function) => text::create_function(function),
            Element::Aggregate(_, aggregate) => text::create_aggregate(aggregate),
        }
    }
}

/// The types of a keyspace in an order in which they can be created: by name, but each after
/// those it uses (`Types.sortedStream`).
pub(super) fn types_in_order(keyspace: &Keyspace) -> Vec<&UserType> {
    let mut ordered = Vec::new();
    let mut done = BTreeSet::new();
    for ty in keyspace.types.values() {
        add_after_used(ty, keyspace, &mut done, &mut ordered);
    }
    ordered
}

fn add_after_used<'s>(
    ty: &'s UserType,
    keyspace: &'s Keyspace,
    done: &mut BTreeSet<&'s str>,
    ordered: &mut Vec<&'s UserType>,
) {
    if !done.insert(&ty.name) {
        return;
    }
    for (_, field) in &ty.fields {
        add_used_by(field, keyspace, done, ordered);
    }
    ordered.push(ty);
}

fn add_used_by<'s>(
    ty: &'s CqlType,
    keyspace: &'s Keyspace,
    done: &mut BTreeSet<&'s str>,
    ordered: &mut Vec<&'s UserType>,
) {
    if let CqlType::Udt { definition, .. } = ty {
        if let Some(used) = keyspace.types.get(&definition.name) {
            add_after_used(used, keyspace, done, ordered);
        }
        return;
    }
    for part in ty.parts() {
        add_used_by(part, keyspace, done, ordered);
    }
}
