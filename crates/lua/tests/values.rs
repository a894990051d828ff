//! Values come back from Lua as they went there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lua::{Engine, Limits, Progress};
use model::duration::Duration as CqlDuration;
use model::number::{encode_decimal, encode_varint};
use model::{CqlType, UserFunction, UserType, collection};
use proptest::prelude::*;

fn engine() -> Engine {
    let limits = Limits {
        call: Duration::from_secs(5),
        unyielding: Duration::from_secs(5),
        turn: Duration::from_secs(5),
        memory_bytes: 8 << 20,
    };
    Engine::new(limits, || Duration::ZERO)
}

/// What a function of one argument `a` makes of a value.
fn call(
    body: &str,
    (takes, gives): (&CqlType, &CqlType),
    value: Option<Bytes>,
) -> Result<Option<Bytes>, String> {
    let function = Arc::new(UserFunction {
        keyspace: "k".into(),
        name: "f".into(),
        argument_names: vec!["a".into()],
        argument_types: vec![takes.clone()],
        return_type: gives.clone(),
        called_on_null_input: true,
        language: "lua".into(),
        body: body.into(),
    });
    match engine().call(&function, &[value], false)? {
        Progress::Value(value) => Ok(value),
        Progress::Suspended(run) => panic!("{run:?} cannot give way"),
    }
}

/// A type with one of its values.
type Typed = (CqlType, Vec<u8>);

fn simple() -> impl Strategy<Value = Typed> {
    use CqlType::*;
    let real = any::<f64>().prop_filter("NaN is no key", |number| !number.is_nan());
    prop_oneof![
        any::<i8>().prop_map(|n| (Tinyint, n.to_be_bytes().to_vec())),
        any::<i16>().prop_map(|n| (Smallint, n.to_be_bytes().to_vec())),
        any::<i32>().prop_map(|n| (Int, n.to_be_bytes().to_vec())),
        any::<i64>().prop_map(|n| (Bigint, n.to_be_bytes().to_vec())),
        any::<i64>().prop_map(|n| (Timestamp, n.to_be_bytes().to_vec())),
        any::<u32>().prop_map(|n| (Date, n.to_be_bytes().to_vec())),
        (0..86_400_000_000_000i64).prop_map(|n| (Time, n.to_be_bytes().to_vec())),
        any::<i128>().prop_map(|n| (Varint, encode_varint(&n.into()))),
        (any::<i64>(), -40..40i64).prop_map(|(n, scale)| {
            let number = bigdecimal::BigDecimal::new(n.into(), scale);
            (Decimal, encode_decimal(&number).expect("few digits"))
        }),
        real.prop_map(|n| (Double, (n + 0.0).to_be_bytes().to_vec())),
        any::<i16>().prop_map(|n| (Float, (f32::from(n) / 8.0).to_be_bytes().to_vec())),
        any::<bool>().prop_map(|b| (Boolean, vec![u8::from(b)])),
        ".{0,8}".prop_map(|text| (Text, text.into_bytes())),
        "[ -~]{0,8}".prop_map(|text| (Ascii, text.into_bytes())),
        any::<Vec<u8>>().prop_map(|bytes| (Blob, bytes)),
        ".{0,8}".prop_map(|text| {
            let class = "DynamicCompositeType(s=>UTF8Type)";
            let ty = CqlType::from_marshal(class).expect("a type");
            let len = text.len() as u8;
            (ty, [&[0x80, b's', 0, len], text.as_bytes(), &[0]].concat())
        }),
        any::<[u8; 16]>().prop_map(|bytes| (Uuid, bytes.to_vec())),
        any::<[u8; 4]>().prop_map(|bytes| (Inet, bytes.to_vec())),
        (0..9i32, 0..99i32, 0..1i64 << 40).prop_map(|(months, days, nanoseconds)| {
            let duration = CqlDuration {
                months,
                days,
                nanoseconds,
            };
            (Duration, duration.encode())
        }),
    ]
}

/// With another value of the same type, in the order of the type.
fn in_order(ty: &CqlType, value: Vec<u8>) -> Vec<Vec<u8>> {
    let empty = matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    match empty && !value.is_empty() {
        true => vec![Vec::new(), value],
        false => vec![value],
    }
}

fn any_type() -> impl Strategy<Value = Typed> {
    simple().prop_recursive(3, 8, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            inner.clone().prop_map(|(ty, value)| {
                let list = collection::pack_elements([value.clone(), value]);
                let element = ty.freeze().into();
                (
                    CqlType::List {
                        element,
                        frozen: true,
                    },
                    list,
                )
            }),
            simple()
                .prop_filter("no set of durations", |(ty, _)| *ty != CqlType::Duration)
                .prop_map(|(ty, value)| {
                    let set = collection::pack_elements(in_order(&ty, value));
                    let element = ty.into();
                    (
                        CqlType::Set {
                            element,
                            frozen: true,
                        },
                        set,
                    )
                }),
            (simple(), inner.clone())
                .prop_filter("no durations as keys", |((ty, _), _)| *ty
                    != CqlType::Duration)
                .prop_map(|((key, k), (value, v))| {
                    let entries = in_order(&key, k).into_iter().map(|k| (k, v.clone()));
                    let map = collection::pack_entries(entries);
                    let (key, value) = (key.into(), value.freeze().into());
                    (
                        CqlType::Map {
                            key,
                            value,
                            frozen: true,
                        },
                        map,
                    )
                }),
            pair.clone().prop_map(|((a, x), (b, y))| {
                let tuple = collection::pack_tuple([Some(x), None, Some(y)]);
                (
                    CqlType::Tuple(vec![a.freeze(), a.freeze(), b.freeze()]),
                    tuple,
                )
            }),
            pair.prop_map(|((a, x), (b, y))| {
                let definition = UserType {
                    keyspace: "k".into(),
                    name: "u".into(),
                    fields: vec![("x".into(), a.freeze()), ("Y".into(), b.freeze())],
                };
                let definition = definition.into();
                let value = collection::pack_tuple([Some(x), Some(y)]);
                (
                    CqlType::Udt {
                        definition,
                        frozen: true,
                    },
                    value,
                )
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn values_come_back((ty, value) in any_type()) {
        let value = Bytes::from(value);
        let back = call("return a", (&ty, &ty), Some(value.clone()));
        prop_assert_eq!(back, Ok(Some(value)), "{}", ty);
    }

    /// Whatever bytes claim to be a value, there is a value of the type or an error.
    #[test]
    fn no_bytes_break_it((ty, _) in any_type(), bytes in any::<Vec<u8>>()) {
        if let Ok(Some(value)) = call("return a", (&ty, &ty), Some(bytes.into())) {
            prop_assert!(ty.validate(&value).is_ok(), "{}", ty);
        }
    }
}

/// What Lua gives for each type, as `format_string` shows it.
#[test]
fn values_are_converted_as_scylla_does() {
    use CqlType::*;
    let set = CqlType::Set {
        element: Int.into(),
        frozen: false,
    };
    let list = CqlType::List {
        element: Int.into(),
        frozen: false,
    };
    for (body, ty, shown) in [
        ("return '42'", Int, "42"),
        ("return 42.0", Int, "42"),
        ("return 1 << 32 | 5", Int, "5"),
        ("return 300", Tinyint, "44"),
        ("return '1e2'", Varint, "100"),
        ("return 1.5", Decimal, "1.5"),
        ("return '1.50'", Decimal, "1.50"),
        ("return 5", Text, "5"),
        ("return '007'", Text, "007"),
        ("return 0", Boolean, "true"),
        ("return '1.2.3.4'", Inet, "1.2.3.4"),
        (
            "return {year = 2020, month = 2, day = 29}",
            Date,
            "2020-02-29",
        ),
        ("return '2020-02-29'", Date, "2020-02-29"),
        (
            "return {year = 1970, month = 1, day = 1, hour = 0}",
            Timestamp,
            "1970-01-01T00:00:00.000Z",
        ),
        (
            "return {year = 1970, month = 1, day = 1}",
            Timestamp,
            "1970-01-01T12:00:00.000Z",
        ),
        ("return '01:02:03'", Time, "01:02:03.000000000"),
        (
            "return {months = 1, days = 2, nanoseconds = 3}",
            Duration,
            "1mo2d3ns",
        ),
        ("return '1mo2d'", Duration, "1mo2d"),
        ("return {[2] = true, [1] = true}", set.clone(), "[1, 2]"),
        ("return {3, 1}", list.clone(), "[3, 1]"),
    ] {
        let value = call(body, (&Int, &ty), None).expect(body).expect(body);
        let found = match &ty {
            Set { .. } | List { .. } => ty.to_json(&value),
            _ => ty.format_string(&value),
        };
        assert_eq!(found, shown, "{body}");
    }
    for (body, ty, message) in [
        ("return 1.5", Int, "value is not an integer"),
        ("return 'x'", Int, "value is not a number"),
        ("return {}", Text, "unexpected value"),
        (
            "return {[1] = false}",
            set,
            "sets are represented with tables with true values",
        ),
        ("return {[2] = 1}", list, "table is not a sequence"),
        ("return 1 << 33", Date, "date value must fit in 32 bits"),
    ] {
        assert_eq!(
            call(body, (&Int, &ty), None),
            Err(message.to_owned()),
            "{body}"
        );
    }
    assert_eq!(call("return a", (&Int, &Int), None), Ok(None));
    assert_eq!(call("return a", (&Int, &Int), Some(Bytes::new())), Ok(None));
}

/// Numbers that Lua has no type for are exact.
#[test]
fn large_numbers_are_calculated_with() {
    use CqlType::*;
    let parse = |ty: &CqlType, text: &str| ty.parse_string(text).expect(text);
    let large = "123456789012345678901234567890";
    for (body, ty, given, result) in [
        (
            "return a + 1",
            Varint,
            large,
            "123456789012345678901234567891",
        ),
        (
            "return 1 - a",
            Varint,
            large,
            "-123456789012345678901234567889",
        ),
        ("return a * 2", Decimal, "1.25", "2.50"),
        ("return -a", Varint, "5", "-5"),
        ("return a + '0.5'", Decimal, "1.5", "2.0"),
        ("return a < 2 and a or 0", Decimal, "1.5", "1.5"),
        ("return a + 1", Decimal, "1e2000000000", "digits"),
    ] {
        let back = call(body, (&ty, &ty), Some(parse(&ty, given)));
        match back {
            Ok(value) => assert_eq!(ty.format_string(&value.expect(body)), result, "{body}"),
            Err(error) => assert!(error.contains(result), "{body}: {error}"),
        }
    }
    let text = call(
        "return tostring(a)",
        (&Varint, &Text),
        Some(parse(&Varint, large)),
    );
    assert_eq!(text, Ok(Some(Bytes::from(large))));
}
