//! Types of columns that were dropped: which new ones can read what lies in files of them.

use model::CqlType;

/// Can values of the dropped type be read as the new one, cell by cell
/// (`AbstractType.isSerializationCompatibleWith`)?
pub(super) fn reads_dropped(ty: &CqlType, dropped: &CqlType) -> bool {
    use CqlType::{List, Map, Set};
    if ty.is_multi_cell() != dropped.is_multi_cell() {
        return false;
    }
    match (ty, dropped) {
        (List { element: a, .. }, List { element: b, .. }) => reads_dropped(a, b),
        (Set { element: a, .. }, Set { element: b, .. }) => sorts_as(a, b),
        (
            Map {
                key: a, value: v, ..
            },
            Map {
                key: b, value: w, ..
            },
        ) => sorts_as(a, b) && reads_dropped(v, w),
        // Files leave out the lengths of values that all have the same.
        _ => reads(ty, dropped) && ty.fixed_length() == dropped.fixed_length(),
    }
}

/// Is a value of the dropped type one of the new type (`isValueCompatibleWith`)?
fn reads(ty: &CqlType, dropped: &CqlType) -> bool {
    use CqlType::{
        Bigint, Blob, Composite, Date, Int, List, Map, Time, Timestamp, Timeuuid, Tuple, Uuid,
        Varint,
    };
    match (ty, dropped) {
        (Blob, _) | (Uuid, Timeuuid) | (Date, Int) | (Time, Bigint) => true,
        (Varint, Int | Bigint | Timestamp) | (Bigint, Timestamp) | (Timestamp, Bigint) => true,
        (List { element: a, .. }, List { element: b, .. }) => reads(a, b),
        (
            Map {
                key: a, value: v, ..
            },
            Map {
                key: b, value: w, ..
            },
        ) => sorts_as(a, b) && reads(v, w),
        (Tuple(a), Tuple(b)) => a.len() >= b.len() && a.iter().zip(b).all(|(a, b)| reads(a, b)),
        (Composite(a), Composite(b)) => a.extends(b, |a, b| reads(&a.ty, &b.ty)),
        // User types are kept as tuples once they are dropped, and Cassandra lets no user type read
        // a tuple.
        _ => sorts_as(ty, dropped),
    }
}

/// Is it so, and in the same order (`isCompatibleWith`)?
fn sorts_as(ty: &CqlType, dropped: &CqlType) -> bool {
    use CqlType::{Ascii, Blob, Composite, List, Map, Set, Text, Tuple};
    match (ty, dropped) {
        (Blob, Ascii | Text) | (Text, Ascii) => true,
        (List { element: a, .. }, List { element: b, .. })
        | (Set { element: a, .. }, Set { element: b, .. }) => sorts_as(a, b),
        (
            Map {
                key: a, value: v, ..
            },
            Map {
                key: b, value: w, ..
            },
        ) => sorts_as(a, b) && sorts_as(v, w),
        (Tuple(a), Tuple(b)) => a.len() >= b.len() && a.iter().zip(b).all(|(a, b)| sorts_as(a, b)),
        (Composite(a), Composite(b)) => {
            a.extends(b, |a, b| a.order == b.order && sorts_as(&a.ty, &b.ty))
        }
        _ => ty.freeze() == dropped.freeze(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use model::UserType;

    use super::*;

    /// Types of a keyspace that has `u`, a text.
    fn ty(text: &str) -> CqlType {
        let u = UserType {
            keyspace: Arc::from("k"),
            name: Arc::from("u"),
            fields: vec![(Arc::from("f"), CqlType::Text)],
        };
        CqlType::from_cql(text, &BTreeMap::from([(u.name.clone(), Arc::new(u))])).unwrap()
    }

    #[test]
    fn a_column_may_come_back_with_a_type_that_reads_the_dropped_one() {
        for (new, dropped) in [
            ("int", "int"),
            ("text", "ascii"),
            ("blob", "text"),
            ("blob", "date"),
            ("blob", "frozen<tuple<int>>"),
            ("bigint", "timestamp"),
            ("uuid", "timeuuid"),
            ("frozen<tuple<int, text>>", "frozen<tuple<int>>"),
            ("frozen<tuple<varint, date>>", "frozen<tuple<int, int>>"),
            ("frozen<list<text>>", "frozen<list<ascii>>"),
            ("list<text>", "list<ascii>"),
            ("frozen<set<text>>", "frozen<set<ascii>>"),
            ("set<blob>", "set<text>"),
            ("map<text, uuid>", "map<ascii, timeuuid>"),
            ("vector<int, 3>", "vector<int, 3>"),
            (
                "'CompositeType(UTF8Type, Int32Type)'",
                "'CompositeType(AsciiType)'",
            ),
            (
                "'CompositeType(ReversedType(BytesType))'",
                "'CompositeType(Int32Type)'",
            ),
            (
                "'DynamicCompositeType(i => Int32Type, s => UTF8Type)'",
                "'DynamicCompositeType(s => UTF8Type)'",
            ),
        ] {
            assert!(reads_dropped(&ty(new), &ty(dropped)), "{dropped} → {new}");
        }
        for (new, dropped) in [
            ("ascii", "text"),
            // Lengths that are not the same, or only one of them noted.
            ("varint", "int"),
            ("blob", "bigint"),
            ("date", "int"),
            ("list<varint>", "list<int>"),
            ("map<text, blob>", "map<text, int>"),
            ("blob", "vector<int, 3>"),
            ("frozen<tuple<int>>", "frozen<tuple<int, text>>"),
            ("frozen<list<int>>", "list<int>"),
            ("frozen<list<text>>", "frozen<set<text>>"),
            // Elements must be in order.
            ("frozen<set<uuid>>", "frozen<set<timeuuid>>"),
            ("map<uuid, int>", "map<timeuuid, int>"),
            ("vector<text, 3>", "vector<ascii, 3>"),
            ("frozen<tuple<text>>", "frozen<u>"),
            ("frozen<u>", "frozen<tuple<text>>"),
            ("list<frozen<u>>", "list<frozen<tuple<text>>>"),
            ("map<text, frozen<u>>", "map<text, frozen<tuple<text>>>"),
        ] {
            assert!(!reads_dropped(&ty(new), &ty(dropped)), "{dropped} → {new}");
        }
    }
}
