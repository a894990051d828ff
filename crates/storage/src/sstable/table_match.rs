//! Is an sstable of this table?

use model::{Column, CqlType, Table};

use super::header::{HeaderColumn, SerializationHeader};

/// What of an sstable does not fit a table; `None` if it can be the table's. A column that the table
/// does not have must have been dropped from it, and types must be the same but for what CQL lets
/// people change (`SerializationHeader.Component.toHeader`).
pub(crate) fn mismatch(header: &SerializationHeader, table: &Table) -> Option<String> {
    let own_key = CqlType::key_types_to_marshal(table.partition_key().map(|c| &c.ty));
    if header.key_type != own_key {
        let theirs = &header.key_type;
        return Some(format!("its partition key is {theirs}, not {own_key}"));
    }
    let own: Vec<&Column> = table.clustering_key().collect();
    if own.len() != header.clustering.len() {
        let (theirs, own) = (header.clustering.len(), own.len());
        return Some(format!("it has {theirs} clustering columns, not {own}"));
    }
    for (own, (ty, order)) in own.iter().zip(&header.clustering) {
        if !same(ty, &own.ty) || *order != own.order {
            return Some(format!(
                "its clustering column `{}` is of another type or order",
                own.name
            ));
        }
    }
    let columns = |columns: &[HeaderColumn], is_static: bool| {
        columns
            .iter()
            .find_map(|column| column_mismatch(column, is_static, table))
    };
    columns(&header.statics, true).or_else(|| columns(&header.regulars, false))
}

fn column_mismatch(theirs: &HeaderColumn, is_static: bool, table: &Table) -> Option<String> {
    let mut dropped = table.dropped.iter();
    if dropped.any(|dropped| *dropped.name == *theirs.name) {
        return None;
    }
    let name = &theirs.name;
    let Some(own) = table.column_named(name) else {
        return Some(format!("it has a column `{name}`, which the table has not"));
    };
    if (own.kind == model::ColumnKind::Static) != is_static {
        return Some(format!("its column `{name}` is static, or the table's is"));
    }
    if same(&theirs.ty, &own.ty) || own.ty == CqlType::Blob && !theirs.ty.is_multi_cell() {
        return None;
    }
    Some(format!(
        "its column `{name}` is of type {}, not {}",
        theirs.ty, own.ty
    ))
}

/// Can values of one be read as the other? User types may have got fields since.
fn same(theirs: &CqlType, own: &CqlType) -> bool {
    if theirs.is_multi_cell() != own.is_multi_cell() {
        return false;
    }
    match (theirs, own) {
        (CqlType::List { element: a, .. }, CqlType::List { element: b, .. })
        | (CqlType::Set { element: a, .. }, CqlType::Set { element: b, .. }) => same(a, b),
        (
            CqlType::Map { key, value, .. },
            CqlType::Map {
                key: k, value: v, ..
            },
        ) => same(key, k) && same(value, v),
        (
            CqlType::Vector {
                element: a,
                dimension: m,
            },
            CqlType::Vector {
                element: b,
                dimension: n,
            },
        ) => m == n && same(a, b),
        (CqlType::Tuple(a), CqlType::Tuple(b)) => {
            a.len() <= b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (CqlType::Udt { definition: a, .. }, CqlType::Udt { definition: b, .. }) => {
            a.name == b.name
        }
        // Cassandra's files have a dropped user type as a tuple.
        (CqlType::Tuple(_), CqlType::Udt { .. }) => true,
        _ => theirs == own,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Order, UserType};

    use super::*;
    use crate::sstable::EncodingStats;
    use crate::testing::table;

    #[test]
    fn a_table_fits_itself_and_no_other() {
        let own = table(Order::Ascending);
        let header = SerializationHeader::of_table(&own, EncodingStats::default());
        assert_eq!(mismatch(&header, &own), None);
        let text = |header: &SerializationHeader| mismatch(header, &own).expect("it does not fit");

        let mut other = header.clone();
        other.key_type = "org.apache.cassandra.db.marshal.UTF8Type".to_owned();
        assert!(text(&other).contains("partition key"), "{}", text(&other));
        let mut other = header.clone();
        other.clustering.pop();
        assert_eq!(text(&other), "it has 1 clustering columns, not 2");
        let mut other = header.clone();
        other.clustering[0].1 = Order::Descending;
        assert!(text(&other).contains("`a`"), "{}", text(&other));
        let mut other = header.clone();
        other.regulars[0].name = "w".to_owned();
        assert_eq!(text(&other), "it has a column `w`, which the table has not");
        let mut other = header.clone();
        other.regulars[0].ty = CqlType::Text;
        assert_eq!(text(&other), "its column `v` is of type text, not int");
        let mut other = header.clone();
        other.statics.append(&mut other.regulars);
        assert!(text(&other).contains("static"), "{}", text(&other));
    }

    #[test]
    fn user_types_may_have_got_fields() {
        let ty = |fields: usize| CqlType::Udt {
            definition: Arc::new(UserType {
                keyspace: "ks".into(),
                name: "u".into(),
                fields: (0..fields)
                    .map(|n| (format!("f{n}").into(), CqlType::Int))
                    .collect(),
            }),
            frozen: true,
        };
        assert!(same(&ty(1), &ty(2)));
        assert!(!same(&ty(1), &CqlType::Int));
    }
}
