//! What Cassandra 5.0.6 answered, in files (`golden/`): a function a line, with tabs between
//!
//! * `t` if null is passed on to it (CALLED ON NULL INPUT), or `f`,
//! * the type of its argument `a`, and the bytes of it, or `null`,
//! * the type that it returns, and its body,
//! * what it gave, behind `! ` what was thrown or why it was refused. What Java 17 says of a null besides its class
//!   is left out.
//!
//! The user type `u` is `(n text, x int, l frozen<list<double>>, b blob)`.

use std::sync::Arc;

use model::{CqlType, UserType};

use crate::bodies;

fn ty(name: &str) -> CqlType {
    let parts = |inner: &str| -> Vec<CqlType> {
        let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
        for (at, c) in inner.char_indices() {
            match c {
                '<' => depth += 1,
                '>' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(ty(&inner[from..at]));
                    from = at + 1;
                }
                _ => {}
            }
        }
        parts.push(ty(&inner[from..]));
        parts
    };
    let Some((outer, inner)) = name.split_once('<') else {
        return simple(name);
    };
    let inner = inner.strip_suffix('>').expect("a closing bracket");
    if let (Some((element, dimension)), "vector") = (inner.rsplit_once(','), outer) {
        return CqlType::Vector {
            element: ty(element).into(),
            dimension: dimension.parse().expect("a dimension"),
        };
    }
    let mut parts = parts(inner);
    let mut next = || Box::new(parts.remove(0));
    let frozen = true;
    match outer {
        "frozen" => *next(),
        "list" => CqlType::List {
            element: next(),
            frozen,
        },
        "set" => CqlType::Set {
            element: next(),
            frozen,
        },
        "map" => CqlType::Map {
            key: next(),
            value: next(),
            frozen,
        },
        "tuple" => CqlType::Tuple(parts),
        _ => panic!("no type {outer}"),
    }
}

fn simple(name: &str) -> CqlType {
    use CqlType::{
        Bigint, Blob, Boolean, Date, Decimal, Double, Duration, Float, Inet, Int, Smallint, Text,
        Time, Timestamp, Tinyint, Uuid, Varint,
    };
    let types = [
        ("bigint", Bigint),
        ("blob", Blob),
        ("boolean", Boolean),
        ("date", Date),
        ("decimal", Decimal),
        ("double", Double),
        ("duration", Duration),
        ("float", Float),
        ("inet", Inet),
        ("int", Int),
        ("smallint", Smallint),
        ("text", Text),
        ("time", Time),
        ("timestamp", Timestamp),
        ("tinyint", Tinyint),
        ("uuid", Uuid),
        ("varint", Varint),
    ];
    if let Some((_, ty)) = types.into_iter().find(|(known, _)| *known == name) {
        return ty;
    }
    assert_eq!(name, "u");
    let fields = [
        ("n", "text"),
        ("x", "int"),
        ("l", "list<double>"),
        ("b", "blob"),
    ];
    let definition = UserType {
        keyspace: "j".into(),
        name: "u".into(),
        fields: fields
            .map(|(name, of)| (name.into(), ty(of)))
            .into_iter()
            .collect(),
    };
    CqlType::Udt {
        definition: Arc::new(definition),
        frozen: true,
    }
}

fn unescaped(text: &str) -> String {
    let mut unescaped = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => unescaped.push(match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                other => other.expect("a character"),
            }),
            c => unescaped.push(c),
        }
    }
    unescaped
}

fn check(lines: &str) {
    let mut wrong = String::new();
    for line in lines.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [on_null, takes, value, gives, body, expected] = parts[..] else {
            panic!("{line}");
        };
        let value = value.strip_prefix("0x").map(|hex| {
            let digits = hex.as_bytes().chunks(2);
            let bytes = digits.map(|two| {
                let two = std::str::from_utf8(two).expect("digits");
                u8::from_str_radix(two, 16).expect("a byte")
            });
            bytes.collect::<Vec<u8>>().into()
        });
        let (body, expected, gives) = (unescaped(body), unescaped(expected), ty(gives));
        let given = bodies::call_with(on_null == "t", &body, &[(value, ty(takes))], &gives);
        if given != expected {
            wrong += &format!("{body}\n of {takes} gives {given:?}, not {expected:?}\n");
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn values_have_the_texts_of_java() {
    check(include_str!("golden/texts_of_values.tsv"));
}

#[test]
fn values_have_the_hashes_of_java() {
    check(include_str!("golden/hashes.tsv"));
}

#[test]
fn texts_are_of_units() {
    check(include_str!("golden/strings.tsv"));
}

#[test]
fn blobs_are_buffers() {
    check(include_str!("golden/buffers.tsv"));
}

#[test]
fn regular_expressions_are_those_of_java() {
    check(include_str!("golden/regexes.tsv"));
}

#[test]
fn classes_are_asked_for() {
    check(include_str!("golden/instance.tsv"));
}

#[test]
fn variables_are_assigned_before_they_are_read() {
    check(include_str!("golden/assignment.tsv"));
}

#[test]
fn methods_that_do_not_exist_are_named() {
    check(include_str!("golden/methods.tsv"));
}
