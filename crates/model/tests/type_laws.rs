//! The laws of types: their values have one order, and are read back from what is printed.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Clustering, ClusteringComparator, ComponentType, Composite, CqlType, Order,
    UserType, collection, duration::Duration, number,
};
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;

fn simple() -> impl Strategy<Value = CqlType> {
    use CqlType::*;
    proptest::sample::select(vec![
        Ascii,
        Bigint,
        Blob,
        Boolean,
        Counter,
        Date,
        Decimal,
        Double,
        Duration,
        Float,
        Inet,
        Int,
        Smallint,
        Text,
        Time,
        Timestamp,
        Timeuuid,
        Tinyint,
        Uuid,
        Varint,
        Custom("org.apache.cassandra.db.marshal.LexicalUUIDType".into()),
    ])
}

fn frozen_type() -> impl Strategy<Value = CqlType> {
    simple().prop_recursive(3, 12, 3, |inner| {
        let element = inner.clone().prop_map(Box::new);
        prop_oneof![
            element.clone().prop_map(|element| CqlType::List {
                element,
                frozen: true
            }),
            element.clone().prop_map(|element| CqlType::Set {
                element,
                frozen: true
            }),
            (element.clone(), element.clone()).prop_map(|(key, value)| CqlType::Map {
                key,
                value,
                frozen: true
            }),
            vec(inner.clone(), 1..3).prop_map(CqlType::Tuple),
            (element, 1..3u32)
                .prop_map(|(element, dimension)| CqlType::Vector { element, dimension }),
            vec(inner.clone(), 1..3).prop_map(|types| user_type(types, true)),
            composite(inner),
        ]
    })
}

fn any_type() -> impl Strategy<Value = CqlType> {
    let element = frozen_type().prop_map(Box::new).boxed();
    prop_oneof![
        3 => frozen_type(),
        1 => element.clone().prop_map(|element| CqlType::List { element, frozen: false }),
        1 => element.clone().prop_map(|element| CqlType::Set { element, frozen: false }),
        1 => (element.clone(), element)
            .prop_map(|(key, value)| CqlType::Map { key, value, frozen: false }),
        1 => vec(frozen_type(), 1..3).prop_map(|types| user_type(types, false)),
    ]
}

fn composite(inner: BoxedStrategy<CqlType>) -> impl Strategy<Value = CqlType> {
    let component = (inner, any::<bool>()).prop_map(|(ty, descending)| ComponentType {
        ty,
        order: order(descending),
    });
    let alias = proptest::sample::select(b"aqi1".to_vec());
    let dynamic = vec((alias, component.clone()), 0..4).prop_map(Composite::dynamic);
    prop_oneof![vec(component, 1..3).prop_map(Composite::Fixed), dynamic]
        .prop_map(|composite| CqlType::Composite(Arc::new(composite)))
}

fn user_type(types: Vec<CqlType>, frozen: bool) -> CqlType {
    // A name for each set of fields: a keyspace has one type of a name.
    let name = format!("Type {types:?}");
    let fields = types
        .into_iter()
        .enumerate()
        .map(|(i, ty)| (Arc::from(format!("f{i}")), ty))
        .collect();
    let definition = UserType {
        keyspace: Arc::from("ks"),
        name: Arc::from(name),
        fields,
    };
    CqlType::Udt {
        definition: Arc::new(definition),
        frozen,
    }
}

/// A valid value; small numbers are common.
fn value(ty: &CqlType) -> BoxedStrategy<Bytes> {
    let fixed = |n: usize| prop_oneof![vec(any::<u8>(), n), vec(0..2u8, n)].boxed();
    let bytes: BoxedStrategy<Vec<u8>> = match ty {
        CqlType::Ascii => "[ -~]{0,5}".prop_map(String::into_bytes).boxed(),
        CqlType::Text => ".{0,5}".prop_map(String::into_bytes).boxed(),
        CqlType::Blob | CqlType::Varint => vec(any::<u8>(), 1..5).boxed(),
        CqlType::Boolean => prop_oneof![Just(vec![0]), Just(vec![1])].boxed(),
        CqlType::Tinyint => fixed(1),
        CqlType::Smallint => fixed(2),
        CqlType::Int | CqlType::Float | CqlType::Date => fixed(4),
        CqlType::Bigint | CqlType::Counter | CqlType::Double => fixed(8),
        // From year 1: before, Cassandra prints the year of the era without saying which.
        CqlType::Timestamp => (-62_135_596_800_000..10i64.pow(15))
            .prop_map(|t| t.to_be_bytes().to_vec())
            .boxed(),
        CqlType::Time => (0..86_400_000_000_000i64)
            .prop_map(|t| t.to_be_bytes().to_vec())
            .boxed(),
        CqlType::Inet => prop_oneof![fixed(4), fixed(16)].boxed(),
        CqlType::Uuid | CqlType::Custom(_) => fixed(16),
        CqlType::Timeuuid => fixed(16)
            .prop_map(|mut uuid| {
                uuid[6] = uuid[6] & 0xf | 0x10;
                uuid
            })
            .boxed(),
        CqlType::Decimal => (-3..4i32, -2000..2000i64)
            .prop_map(|(scale, unscaled)| {
                let mut value = scale.to_be_bytes().to_vec();
                value.extend(number::encode_varint(&BigInt::from(unscaled)));
                value
            })
            .boxed(),
        CqlType::Duration => (0..40i32, 0..40i32, 0..i64::MAX, any::<bool>())
            .prop_map(|(months, days, nanoseconds, negative)| {
                let sign = if negative { -1 } else { 1 };
                let duration = Duration {
                    months: sign * months,
                    days: sign * days,
                    nanoseconds: i64::from(sign) * nanoseconds,
                };
                duration.encode()
            })
            .boxed(),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => vec(value(element), 0..3)
            .prop_map(collection::pack_elements)
            .boxed(),
        CqlType::Map {
            key, value: values, ..
        } => vec((value(key), value(values)), 0..3)
            .prop_map(collection::pack_entries)
            .boxed(),
        CqlType::Vector { element, dimension } => {
            let ty = element.clone();
            vec(value(element), *dimension as usize)
                .prop_map(move |values| collection::pack_vector(&ty, values).unwrap())
                .boxed()
        }
        CqlType::Tuple(types) => tuple(types.iter()),
        CqlType::Udt { definition, .. } => tuple(definition.fields.iter().map(|(_, ty)| ty)),
        CqlType::Empty => Just(Vec::new()).boxed(),
        CqlType::Composite(composite) => components(composite),
    };
    bytes.prop_map(Bytes::from).boxed()
}

fn tuple<'t>(types: impl Iterator<Item = &'t CqlType>) -> BoxedStrategy<Vec<u8>> {
    let parts: Vec<_> = types.map(|ty| proptest::option::of(value(ty))).collect();
    parts.prop_map(collection::pack_tuple).boxed()
}

/// A value of a composite: with its types, as many as there are, or with those of a dynamic one in any
/// order, and with any end.
fn components(composite: &Composite) -> BoxedStrategy<Vec<u8>> {
    let component = |name: Vec<u8>, ty: &ComponentType| {
        let component = value(&ty.ty).prop_map(move |value| {
            let len = (value.len() as u16).to_be_bytes();
            [&name[..], &len, &value, &[0]].concat()
        });
        component.boxed()
    };
    let components = match composite {
        Composite::Fixed(types) => {
            let components: Vec<_> = types.iter().map(|ty| component(Vec::new(), ty)).collect();
            let count = 1..types.len() + 1;
            let is_static = prop_oneof![4 => Just(false), 1 => Just(true)];
            (components, count, is_static)
                .prop_map(|(components, count, is_static)| {
                    let start = if is_static { vec![0xff; 2] } else { Vec::new() };
                    (start, components[..count].concat())
                })
                .boxed()
        }
        Composite::Dynamic(aliases) => {
            let named = |class: &str, ty, order| {
                let name = [&(class.len() as u16).to_be_bytes(), class.as_bytes()].concat();
                component(name, &ComponentType { ty, order })
            };
            let mut known = vec![
                named("UTF8Type", CqlType::Text, Order::Ascending),
                named("ReversedType(Int32Type)", CqlType::Int, Order::Descending),
            ];
            known.extend(
                aliases
                    .iter()
                    .map(|(alias, ty)| component(vec![0x80, *alias], ty)),
            );
            vec(proptest::strategy::Union::new(known), 1..4)
                .prop_map(|components| (Vec::new(), components.concat()))
                .boxed()
        }
    };
    let end = prop_oneof![3 => Just(0), 1 => any::<u8>()];
    (components, end)
        .prop_map(|((start, mut components), end)| {
            if let Some(last) = components.last_mut() {
                *last = end;
            }
            [start, components].concat()
        })
        .boxed()
}

/// Bytes that may be a value, or nearly one, or anything.
fn nearly(ty: &CqlType) -> BoxedStrategy<Bytes> {
    let cut = (value(ty), 0..8usize).prop_map(|(v, cut)| v.slice(..v.len().saturating_sub(cut)));
    let noise = vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    prop_oneof![3 => value(ty), 1 => cut, 1 => noise].boxed()
}

fn typed<const N: usize>(
    of: fn(&CqlType) -> BoxedStrategy<Bytes>,
) -> impl Strategy<Value = (CqlType, [Bytes; N])> {
    any_type().prop_flat_map(move |ty| {
        let values = vec(of(&ty), N).prop_map(|values| values.try_into().unwrap());
        (Just(ty), values)
    })
}

fn order(descending: bool) -> Order {
    match descending {
        true => Order::Descending,
        false => Order::Ascending,
    }
}

fn kinds() -> impl Strategy<Value = BoundKind> {
    use BoundKind::*;
    proptest::sample::select(vec![
        InclusiveStart,
        ExclusiveStart,
        InclusiveEnd,
        ExclusiveEnd,
    ])
}

/// Durations are in no clustering, and of not-a-numbers Cassandra translates the bits it finds.
fn has_byte_order(ty: &CqlType) -> bool {
    let not = |ty: &CqlType| matches!(ty, CqlType::Duration | CqlType::Float | CqlType::Double);
    !ty.any(&not) && !ty.is_multi_cell()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn any_bytes_have_a_place_in_one_order((ty, [a, b, c]) in typed(nearly)) {
        prop_assert_eq!(ty.compare(&a, &a), Ordering::Equal);
        prop_assert_eq!(ty.compare(&a, &b), ty.compare(&b, &a).reverse());
        if ty.compare(&a, &b) != Ordering::Greater && ty.compare(&b, &c) != Ordering::Greater {
            prop_assert_ne!(ty.compare(&a, &c), Ordering::Greater, "{} {:?}", ty, (a, b, c));
        }
    }

    #[test]
    fn translated_bytes_sort_as_values(
        (ty, [a, b]) in typed(value).prop_filter("has an order", |(ty, _)| has_byte_order(ty)),
        second in vec(0..3i32, 2),
        descending: bool,
    ) {
        let order = order(descending);
        let comparator = ClusteringComparator::new(vec![(ty, order), (CqlType::Int, order)]);
        let clustering = |value: &Bytes, second: i32| {
            let second = Bytes::copy_from_slice(&second.to_be_bytes());
            Clustering([value.clone(), second].into_iter().collect())
        };
        let (a, b) = (clustering(&a, second[0]), clustering(&b, second[1]));
        let translate = |c: &Clustering| comparator.byte_comparable(c);
        prop_assert_eq!(translate(&a).cmp(&translate(&b)), comparator.compare(&a, &b));
        for kind in [
            BoundKind::InclusiveStart,
            BoundKind::ExclusiveStart,
            BoundKind::InclusiveEnd,
            BoundKind::ExclusiveEnd,
        ] {
            let prefix = Clustering([b.0[0].clone()].into_iter().collect());
            let bound = Bound { prefix, kind };
            let translated = comparator.byte_comparable_bound(&bound);
            prop_assert_eq!(translate(&a).cmp(&translated), comparator.compare_to_bound(&a, &bound));
        }
    }

    #[test]
    fn ranks_sort_as_clusterings(
        (first, a) in typed::<2>(nearly),
        (second, b) in typed::<2>(nearly),
        descending: [bool; 2],
        (len, kind) in (0..3usize, kinds()),
    ) {
        let columns = [first, second].into_iter().zip(descending.map(order)).collect();
        let comparator = ClusteringComparator::new(columns);
        let row = |i: usize, j: usize| Clustering([&a[i], &b[j]].into_iter().cloned().collect());
        // Many are equal in their first value.
        let rows: Vec<Clustering> = [(0, 0), (0, 1), (1, 1), (1, 0)].map(|(i, j)| row(i, j)).into();
        let [x, y]: [&Bytes; 2] = [&a[0], &b[0]];
        let prefix = Clustering([x, y].into_iter().take(len).cloned().collect());
        let bounds = [kind, BoundKind::InclusiveStart, BoundKind::InclusiveEnd]
            .map(|kind| Bound { prefix: prefix.clone(), kind });
        for one in &rows {
            for other in &rows {
                if comparator.compare(one, other).is_le() {
                    prop_assert!(comparator.rank_of(one) <= comparator.rank_of(other));
                }
            }
            for bound in &bounds {
                let (rank, of_bound) = (comparator.rank_of(one), comparator.rank_of_bound(bound));
                match comparator.compare_to_bound(one, bound) {
                    Ordering::Less => prop_assert!(rank <= of_bound),
                    _ => prop_assert!(rank >= of_bound),
                }
                let full = Bound { prefix: one.clone(), kind };
                if comparator.compare_bounds(bound, &full).is_le() {
                    prop_assert!(of_bound <= comparator.rank_of_bound(&full));
                } else {
                    prop_assert!(of_bound >= comparator.rank_of_bound(&full));
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_translated((ty, [value]) in typed(nearly)) {
        let comparator = ClusteringComparator::new(vec![(ty, Order::Ascending)]);
        comparator.byte_comparable(&Clustering([value].into_iter().collect()));
    }

    #[test]
    fn values_are_valid_and_other_bytes_never_panic((ty, [good, any]) in typed(value), noise in vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(ty.validate(&good), Ok(()));
        let mixed = [&any[..any.len() / 2], &noise].concat();
        for bytes in [&noise, &mixed] {
            let _ = ty.validate(bytes);
            ty.format_literal(bytes);
            ty.to_json(bytes);
            ty.format_string(bytes);
        }
    }

    #[test]
    fn parts_one_by_one_are_all_parts((ty, [good, noise]) in typed(nearly), any in vec(any::<u8>(), 0..40)) {
        let _ = ty;
        for value in [&good[..], &noise, &any] {
            let elements = collection::each_element(value).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let elements = elements.map(|all| all.into_iter().map(|[element]| element).collect::<Vec<_>>());
            prop_assert_eq!(&elements, &collection::elements(value));
            if let Ok(elements) = elements {
                prop_assert_eq!(collection::pack_elements(elements), value);
            }
            let entries = collection::each_entry(value).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let entries = entries.map(|all| all.into_iter().map(|[key, of]| (key, of)).collect::<Vec<_>>());
            prop_assert_eq!(&entries, &collection::entries(value));
            if let Ok(entries) = entries {
                prop_assert_eq!(collection::pack_entries(entries), value);
            }
        }
    }

    #[test]
    fn simple_values_are_read_back((ty, value) in simple().prop_flat_map(|ty| (Just(ty.clone()), value(&ty)))) {
        let text = ty.format_string(&value);
        let read = ty.parse_string(&text);
        prop_assert!(read.is_ok(), "{ty} {text}: {read:?}");
        prop_assert_eq!(ty.compare(&read.unwrap(), &value), Ordering::Equal, "{} {}", ty, text);
    }

    #[test]
    fn parsing_never_panics(ty in any_type(), text in ".{0,20}") {
        let _ = ty.parse_string(&text);
        let _ = CqlType::from_marshal(&text);
        let _ = CqlType::from_cql(&text, &BTreeMap::new());
        let _ = text.parse::<Duration>();
    }

    #[test]
    fn nearly_dates_never_panic(text in "[+-]?[0-9]{0,6}-[0-9]{1,2}-[0-9]{1,2}[ T]?[0-9:.]{0,12}[ A-Z+0-9:]{0,6}") {
        for ty in [CqlType::Timestamp, CqlType::Date, CqlType::Time, CqlType::Duration] {
            let _ = ty.parse_string(&text);
        }
    }

    #[test]
    fn types_are_read_back(ty in any_type()) {
        prop_assert_eq!(CqlType::from_marshal(&ty.to_marshal()), Ok(ty.clone()), "{}", ty);
        prop_assert_eq!(CqlType::from_cql(&ty.to_string(), &user_types(&ty)), Ok(ty.clone()), "{}", ty);
        prop_assert!(!ty.freeze().is_multi_cell());
    }
}

/// The user types in a type.
fn user_types(ty: &CqlType) -> BTreeMap<Arc<str>, Arc<UserType>> {
    let mut found = BTreeMap::new();
    let mut open = vec![ty];
    while let Some(ty) = open.pop() {
        if let CqlType::Udt { definition, .. } = ty {
            found.insert(definition.name.clone(), definition.clone());
        }
        open.extend(ty.parts());
    }
    found
}
