//! What Cassandra's own type classes answer, asked by `oracle/Oracle.java` and kept in
//! `oracle/answers.tsv` (see there how to ask again): class names, orders, texts, messages.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use std::cmp::Ordering;

use bytes::Bytes;
use model::{Clustering, ClusteringComparator, CqlType, Order};

/// Lines where Helenus differs, by their beginning, and why.
const DIFFERENT: [(&str, &str); 14] = [
    (
        "type\torg.apache.cassandra.db.marshal.DateType",
        "a class of Cassandra 1, kept as a custom one",
    ),
    (
        "lit\tInetAddressType\tlocalhost",
        "names would make a value depend on the network",
    ),
    (
        "lit\tCounterColumnType\t5",
        "Cassandra fails: it takes it for hexadecimal digits",
    ),
    (
        "str\tCounterColumnType",
        "Cassandra prints hexadecimal digits",
    ),
    (
        "lit\tFloatType\t0x1p3",
        "hexadecimal floats are Java's, not CQL's",
    ),
    (
        "lit\tDoubleType\t0x1p3",
        "hexadecimal floats are Java's, not CQL's",
    ),
    (
        "lit\tTimestampType\t2015-05-03 13:30:54 IST",
        "ambiguous; Java takes it for Iceland's",
    ),
    (
        "str\tTimeType\t0xffffffffffffffff",
        "not a time of day; Cassandra prints 00:00:00.00000000-1",
    ),
    ("cql\tTimeType\t0xffffffffffffffff", "as above"),
    ("json\tTimeType\t0xffffffffffffffff", "as above"),
    (
        "str\tDoubleType\t0x44b52d02c7e14af6",
        "Java 17 does not print the shortest text; later ones do",
    ),
    ("cql\tDoubleType\t0x44b52d02c7e14af6", "as above"),
    ("json\tDoubleType\t0x44b52d02c7e14af6", "as above"),
    (
        "cql\tMapType(Int32Type,UUIDType)\t0x0000000100000000ffffffff",
        "a null is no value of a map",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.strip_prefix("0x").expect("values start with 0x");
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold("0x".to_owned(), |text, b| text + &format!("{b:02x}"))
}

/// What Helenus answers to the same question.
fn answer(operation: &str, class: &str, arguments: &[&str]) -> String {
    let refused = |error: &dyn std::fmt::Display| format!("!MarshalException: {error}");
    let ty = match CqlType::from_marshal(class) {
        Ok(ty) => ty,
        Err(error) => return refused(&error),
    };
    match operation {
        "type" => {
            let fixed = ty.fixed_length().map_or(-1, |n| n as i64);
            format!("{ty}\t{}\t{fixed}", ty.to_marshal())
        }
        "lit" => match ty.parse_string(arguments[0]) {
            Ok(value) => hex(&value),
            Err(error) => refused(&error),
        },
        "val" => match ty.validate(&bytes(arguments[0])) {
            Ok(()) => "ok".to_owned(),
            Err(error) => refused(&error),
        },
        "cmp" => {
            let (a, b) = (bytes(arguments[0]), bytes(arguments[1]));
            assert_eq!(
                ty.compare(&a, &b),
                ty.compare(&b, &a).reverse(),
                "{class} {arguments:?}"
            );
            match ty.compare(&a, &b) {
                Ordering::Less => "-1".to_owned(),
                Ordering::Equal => "0".to_owned(),
                Ordering::Greater => "1".to_owned(),
            }
        }
        "bytes" => {
            let comparator = ClusteringComparator::new(vec![(ty, Order::Ascending)]);
            let value = Bytes::from(bytes(arguments[0]));
            hex(&comparator.byte_comparable(&Clustering([value].into_iter().collect())))
        }
        "cql" => ty.format_literal(&bytes(arguments[0])),
        "json" => ty.to_json(&bytes(arguments[0])),
        "str" => ty.format_string(&bytes(arguments[0])),
        other => panic!("unknown operation {other}"),
    }
}

/// The same answer? Where Cassandra refuses with anything but its own exception, or fails, any
/// refusal will do, and any text for what is no value.
fn agrees(operation: &str, expected: &str, actual: &str) -> bool {
    if expected.starts_with('!') && matches!(operation, "cql" | "json" | "str" | "bytes") {
        return true;
    }
    let refused = expected.starts_with('!');
    // Texts of Java's libraries, and of places where Cassandra shows the wrong number.
    let loosely = [
        "!MarshalException: Invalid ASCII character",
        "!MarshalException: Invalid version for TimeUUID",
    ];
    let exactly = expected.starts_with("!MarshalException")
        && !loosely.iter().any(|prefix| expected.starts_with(prefix));
    if refused && !exactly {
        return actual.starts_with('!');
    }
    expected == actual
}

#[test]
fn types_answer_as_cassandra_does() {
    let answers = include_str!("oracle/answers.tsv");
    let (mut asked, mut wrong) = (0, Vec::new());
    for line in answers.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [operation, class, arguments @ .., expected] = &fields[..] else {
            panic!("a line has an operation, a class and an answer: {line}");
        };
        if DIFFERENT.iter().any(|(start, _)| line.starts_with(start)) {
            continue;
        }
        asked += 1;
        let escape = |c: &str, as_text: &str, text: String| text.replace(c, as_text);
        let actual = escape("\\", "\\\\", answer(operation, class, arguments));
        let actual = escape("\t", "\\t", escape("\n", "\\n", actual));
        if !agrees(operation, expected, &actual) {
            wrong.push(format!("{line}\n    but Helenus says {actual}"));
        }
    }
    assert!(asked > 1000, "{asked} questions");
    assert!(
        wrong.is_empty(),
        "{} of {asked} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn differences_are_still_asked() {
    let answers = include_str!("oracle/answers.tsv");
    for (start, why) in DIFFERENT {
        let found = answers.lines().any(|line| line.starts_with(start));
        assert!(found, "no line starts with {start:?} ({why})");
    }
}
