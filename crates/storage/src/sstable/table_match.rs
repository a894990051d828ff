//! Is an sstable of this table?

use model::{Column, CqlType, Table};

use super::descriptor::Component;
use super::error::SSTableError;
use super::header::{HeaderColumn, SerializationHeader};
use super::reader::SSTable;

/// Refuses what lies in a table's folder and is not the table's: reads would leave out columns that
/// it does not have, and compactions would write without them.
pub(crate) fn check(sstable: &SSTable, table: &Table) -> Result<(), SSTableError> {
    if is_of_system(&table.keyspace) {
        return Ok(());
    }
    let Some(what) = mismatch(&sstable.statistics().header, table) else {
        return Ok(());
    };
    Err(SSTableError::Unsupported {
        path: sstable.descriptor().path(Component::Data),
        what: format!(
            "{what}, so that it is not of table {}.{}; move its files away, to the folder of the \
             table they are of, or give this one what it lacks (CREATE or ALTER), and start again",
            table.keyspace, table.name
        ),
    })
}

/// Is it a keyspace of the node or the cluster? What their tables had in other versions is not in
/// their definitions.
fn is_of_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

/// What of an sstable does not fit a table; `None` if it can be the table's. A column that the table
/// does not have must have been dropped from it, and types must be the same but for what CQL lets
/// people change (`SerializationHeader.Component.toHeader`).
pub(crate) fn mismatch(header: &SerializationHeader, table: &Table) -> Option<String> {
    if let Some(what) = key_mismatch(&header.key_type, table) {
        return Some(what);
    }
    let own: Vec<&Column> = table.clustering_key().collect();
    if own.len() != header.clustering.len() {
        let (theirs, own) = (header.clustering.len(), own.len());
        return Some(format!("it has {theirs} clustering columns, not {own}"));
    }
    for (own, (ty, order)) in own.iter().zip(&header.clustering) {
        // Keys are always of one piece; 3.0 did not say so of user types.
        if !sorts_as(&ty.freeze(), &own.ty.freeze()) || *order != own.order {
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

/// Partitions are in the order of their tokens, so that keys only have to be values of the types.
fn key_mismatch(theirs: &str, table: &Table) -> Option<String> {
    let own: Vec<&CqlType> = table.partition_key().map(|c| &c.ty).collect();
    let fits = CqlType::key_types_from_marshal(theirs).is_ok_and(|theirs| {
        let mut pairs = theirs.iter().zip(&own);
        theirs.len() == own.len() && pairs.all(|(a, b)| reads_as(&a.freeze(), &b.freeze()))
    });
    let own = CqlType::key_types_to_marshal(own);
    // A single column that is a composite itself has the class that several columns have.
    if fits || own == theirs {
        return None;
    }
    Some(format!("its partition key is {theirs}, not {own}"))
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
    // A user type that 3.0 wrote is what the table's is: see `layout`.
    let ty = match &theirs.ty {
        CqlType::Udt { frozen: false, .. } if !own.ty.is_multi_cell() => theirs.ty.freeze(),
        ty => ty.clone(),
    };
    if reads_as(&ty, &own.ty) {
        return None;
    }
    Some(format!(
        "its column `{name}` is of type {}, not {}",
        theirs.ty, own.ty
    ))
}

/// Is a value of one a value of the other? What `ALTER TABLE` allowed once, and what `ALTER TYPE`
/// does (`AbstractType.isValueCompatibleWith`).
fn reads_as(theirs: &CqlType, own: &CqlType) -> bool {
    use CqlType::{Bigint, Blob, Date, Int, Timestamp, Timeuuid, Uuid, Varint};
    if theirs.is_multi_cell() != own.is_multi_cell() {
        return false;
    }
    match (theirs, own) {
        (_, Blob) | (Timeuuid, Uuid) | (Int, Date) => true,
        (Int | Bigint | Timestamp, Varint) | (Timestamp, Bigint) | (Bigint, Timestamp) => true,
        (theirs, Bigint | Timestamp | Varint) if is_date_type(theirs) => true,
        (Bigint | Timestamp, own) if is_date_type(own) => true,
        _ => parts_fit(theirs, own, reads_as) || sorts_as(theirs, own),
    }
}

/// Are values of one values of the other, in the same order (`AbstractType.isCompatibleWith`)?
fn sorts_as(theirs: &CqlType, own: &CqlType) -> bool {
    use CqlType::{Ascii, Blob, Text, Timestamp};
    if theirs.is_multi_cell() != own.is_multi_cell() {
        return false;
    }
    match (theirs, own) {
        (Ascii, Text | Blob) | (Text, Blob) => true,
        // They differ before 1970 only, which Cassandra takes into account, too.
        (theirs, Timestamp) if is_date_type(theirs) => true,
        (Timestamp, own) if is_date_type(own) => true,
        _ => theirs == own || parts_fit(theirs, own, sorts_as),
    }
}

/// Timestamps as they were before Cassandra 1.2.
fn is_date_type(ty: &CqlType) -> bool {
    let CqlType::Custom(class) = ty else {
        return false;
    };
    class.rsplit('.').next() == Some("DateType")
}

/// Do types that are made of others fit each other, where `fits` says it of values that stand for
/// themselves? Keys of maps and elements of sets have to be in order in any case.
fn parts_fit(theirs: &CqlType, own: &CqlType, fits: fn(&CqlType, &CqlType) -> bool) -> bool {
    use CqlType::{Composite, List, Map, Set, Tuple, Udt, Vector};
    match (theirs, own) {
        (Composite(a), Composite(b)) => b.extends(a, |own, theirs| {
            own.order == theirs.order && fits(&theirs.ty, &own.ty)
        }),
        (List { element: a, .. }, List { element: b, .. }) => fits(a, b),
        (Set { element: a, .. }, Set { element: b, .. }) => sorts_as(a, b),
        (
            Map {
                key: a, value: v, ..
            },
            Map {
                key: b, value: w, ..
            },
        ) => sorts_as(a, b) && fits(v, w),
        (
            Vector {
                element: a,
                dimension: m,
            },
            Vector {
                element: b,
                dimension: n,
            },
        ) => m == n && sorts_as(a, b),
        (Tuple(a), Tuple(b)) => {
            a.len() <= b.len() && a.iter().zip(b).all(|(a, b)| fits(&a.freeze(), &b.freeze()))
        }
        // Fields may have got other names, and others behind them; a backup may be of another
        // keyspace.
        (Udt { definition: a, .. }, Udt { definition: b, .. }) => {
            let mut fields = a.fields.iter().zip(&b.fields);
            a.name == b.name && fields.all(|((_, a), (_, b))| fits(&a.freeze(), &b.freeze()))
        }
        // Cassandra's files have a dropped user type as a tuple.
        (Tuple(_), Udt { .. }) => true,
        _ => false,
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

    fn user_type(keyspace: &str, fields: usize, frozen: bool) -> CqlType {
        CqlType::Udt {
            definition: Arc::new(UserType {
                keyspace: keyspace.into(),
                name: "u".into(),
                fields: (0..fields)
                    .map(|n| (format!("f{n}").into(), CqlType::Int))
                    .collect(),
            }),
            frozen,
        }
    }

    #[test]
    fn user_types_may_have_got_fields() {
        let ty = |fields: usize| user_type("ks", fields, true);
        assert!(sorts_as(&ty(1), &ty(2)));
        assert!(sorts_as(&ty(1), &user_type("other", 2, true)));
        assert!(!reads_as(&ty(1), &CqlType::Int));
        assert!(!reads_as(&ty(1), &user_type("ks", 1, false)));
    }

    #[test]
    fn types_may_have_become_wider() {
        let old = CqlType::Custom("DateType".into());
        let list = |element: CqlType| CqlType::List {
            element: Box::new(element),
            frozen: true,
        };
        for (theirs, own, in_order) in [
            (CqlType::Ascii, CqlType::Text, true),
            (CqlType::Text, CqlType::Blob, true),
            (CqlType::Int, CqlType::Blob, false),
            (CqlType::Timeuuid, CqlType::Uuid, false),
            (CqlType::Bigint, CqlType::Varint, false),
            (old.clone(), CqlType::Timestamp, true),
            (CqlType::Timestamp, old, true),
            (list(CqlType::Int), list(CqlType::Varint), false),
        ] {
            assert!(reads_as(&theirs, &own), "{theirs} as {own}");
            assert_eq!(sorts_as(&theirs, &own), in_order, "{theirs} as {own}");
        }
        assert!(!reads_as(&CqlType::Text, &CqlType::Ascii));
        assert!(!reads_as(&CqlType::Uuid, &CqlType::Timeuuid));
        assert!(!reads_as(&CqlType::Bigint, &CqlType::Int));
    }

    /// The table whose partition key, clustering columns or `v` are of another type.
    fn with(change: impl Fn(&mut Column)) -> Table {
        let own = table(Order::Ascending);
        let mut columns: Vec<Column> = own.columns().cloned().collect();
        columns.iter_mut().for_each(change);
        Table::new(own.id, "ks", "t", columns, own.options.clone())
    }

    #[test]
    fn the_partition_key_may_have_got_a_wider_type() {
        let key = |ty: CqlType| {
            with(|column| {
                if column.kind == model::ColumnKind::PartitionKey {
                    column.ty = ty.clone();
                }
            })
        };
        let header = |own: &Table| SerializationHeader::of_table(own, EncodingStats::default());
        let (ascii, text) = (key(CqlType::Ascii), key(CqlType::Text));
        assert_eq!(mismatch(&header(&ascii), &text), None);
        assert!(mismatch(&header(&text), &ascii).is_some());
        let (old, new) = (
            key(user_type("old", 1, true)),
            key(user_type("ks", 2, true)),
        );
        assert_eq!(mismatch(&header(&old), &new), None);
    }

    #[test]
    fn user_types_of_3_0_are_as_frozen_as_the_table_has_them() {
        let own = |frozen| {
            with(move |column| {
                if *column.name == *"v" {
                    column.ty = user_type("ks", 1, frozen);
                }
            })
        };
        let header = SerializationHeader::of_table(&own(false), EncodingStats::default());
        assert_eq!(mismatch(&header, &own(true)), None);
        assert_eq!(mismatch(&header, &own(false)), None);
        let header = SerializationHeader::of_table(&own(true), EncodingStats::default());
        assert!(mismatch(&header, &own(false)).is_some());
    }
}
