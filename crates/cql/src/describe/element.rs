//! What DESCRIBE can show.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{CqlType, Keyspace, Table, UserType};

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
}

impl<'s> Element<'s> {
    pub(super) fn keyspace(&self) -> &'s str {
        match self {
            Element::Keyspace(keyspace)
            | Element::Type(keyspace, _)
            | Element::Table(keyspace, _) => &keyspace.name,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Element::Keyspace(_) => "keyspace",
            Element::Type(..) => "type",
            Element::Table(..) => "table",
        }
    }

    pub(super) fn name(&self) -> &'s str {
        match self {
            Element::Keyspace(keyspace) => &keyspace.name,
            Element::Type(_, ty) => &ty.name,
            Element::Table(_, table) => &table.name,
        }
    }

    pub(super) fn statement(&self, with_internals: bool) -> String {
        match self {
            Element::Keyspace(keyspace) => text::create_keyspace(keyspace),
            Element::Type(_, ty) => text::create_type(ty),
            Element::Table(_, table) => text::create_table(table, with_internals),
        }
    }
}

/// The types of a keyspace in an order in which they can be created: each after those it uses, by
/// name where that leaves a choice.
pub(super) fn types_in_order(keyspace: &Keyspace) -> Vec<&UserType> {
    let mut left: Vec<&Arc<UserType>> = keyspace.types.values().collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let ready = left.iter().position(|ty| {
            ty.fields
                .iter()
                .all(|(_, field)| uses_only(field, &done, keyspace))
        });
        // Types cannot go in circles; if rows from outside say so, any order is as good.
        let next = left.remove(ready.unwrap_or(0));
        done.insert(&next.name);
        ordered.push(next.as_ref());
    }
    ordered
}

fn uses_only(ty: &CqlType, done: &BTreeSet<&str>, keyspace: &Keyspace) -> bool {
    !ty.any(&|part| match part {
        CqlType::Udt { definition, .. } => {
            keyspace.types.contains_key(&definition.name) && !done.contains(&*definition.name)
        }
        _ => false,
    })
}
