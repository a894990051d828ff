//! What Cassandra's own classes answer about tokens, keys, and which of two versions stays,
//! asked by `oracle/Oracle.java` and kept in `oracle/rules.tsv`.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use bytes::Bytes;
use model::{
    Cell, ColumnId, CqlType, Index, IndexKind, Liveness, NO_DELETION_TIME, Token, counter,
    decode_key, encode_key, key_from_text, key_to_text,
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.strip_prefix("0x").expect("values start with 0x");
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// The questions of one kind: their fields, the answer last.
fn questions(operation: &str) -> Vec<Vec<&'static str>> {
    let found: Vec<Vec<&str>> = include_str!("oracle/rules.tsv")
        .lines()
        .filter_map(|line| line.strip_prefix(operation)?.strip_prefix('\t'))
        .map(|line| line.split('\t').collect())
        .collect();
    assert!(!found.is_empty(), "nothing was asked about {operation}");
    found
}

/// "timestamp,ttl,local deletion time,…"
fn times(text: &str) -> (i64, i32, u32, Vec<&str>) {
    let fields: Vec<&str> = text.split(',').collect();
    let end = match fields[2] {
        "-" => NO_DELETION_TIME,
        seconds => seconds.parse().unwrap(),
    };
    (
        fields[0].parse().unwrap(),
        fields[1].parse().unwrap(),
        end,
        fields,
    )
}

#[test]
fn tokens() {
    for question in questions("token") {
        let [key, answer] = question[..] else {
            panic!("{question:?}")
        };
        let expected: i64 = answer.parse().unwrap();
        assert_eq!(Token::of(&bytes(key)), Token(expected), "{key}");
    }
}

#[test]
fn cells() {
    let cell = |text: &str| {
        let (timestamp, ttl, local_deletion_time, fields) = times(text);
        Cell {
            column: ColumnId(0),
            path: None,
            timestamp,
            ttl,
            local_deletion_time,
            value: Bytes::from(bytes(fields[3])),
        }
    };
    for question in questions("cell") {
        let [a, b, answer] = question[..] else {
            panic!("{question:?}")
        };
        let expected = if answer == "1" { a } else { b };
        assert_eq!(cell(a).reconcile(cell(b)), cell(expected), "{a} {b}");
        assert_eq!(cell(b).reconcile(cell(a)), cell(expected), "{b} {a}");
    }
}

#[test]
fn markers() {
    let marker = |text: &str| {
        let (timestamp, ttl, expires_at, _) = times(text);
        Liveness {
            timestamp,
            ttl,
            expires_at,
        }
    };
    for question in questions("marker") {
        let [a, b, answer] = question[..] else {
            panic!("{question:?}")
        };
        let supersedes = marker(a).supersedes(&marker(b));
        assert_eq!(supersedes.to_string(), answer, "{a} {b}");
    }
}

#[test]
fn counters() {
    for question in questions("counter") {
        let [a, b, answer] = question[..] else {
            panic!("{question:?}")
        };
        let (merged, total) = answer.split_once("\\t").unwrap();
        assert_eq!(
            counter::merge(&bytes(a), &bytes(b)),
            bytes(merged),
            "{a} {b}"
        );
        assert_eq!(counter::total(&bytes(a)).to_string(), total, "{a}");
    }
}

#[test]
fn composite_keys() {
    for question in questions("key") {
        let [_, columns @ .., answer] = &question[..] else {
            panic!("{question:?}")
        };
        let columns: Vec<Vec<u8>> = columns.iter().map(|column| bytes(column)).collect();
        let key = encode_key(&columns).unwrap();
        assert_eq!(key, bytes(answer));
        assert_eq!(decode_key(&key, columns.len()).unwrap(), columns);
        assert!(decode_key(&key, columns.len() + 1).is_err());
        assert!(decode_key(&key, columns.len() - 1).is_err() || columns.len() == 2);
        for cut in 0..key.len() {
            assert!(decode_key(&key.slice(..cut), columns.len()).is_err());
        }
    }
    assert!(encode_key(&[vec![0; 0x10000]]).is_err());
    assert_eq!(
        decode_key(&Bytes::from_static(b"x"), 1).unwrap(),
        [&b"x"[..]]
    );
}

#[test]
fn keys_as_text() {
    for question in questions("keystr") {
        let [class, text, answer] = question[..] else {
            panic!("{question:?}")
        };
        let types = CqlType::key_types_from_marshal(class).unwrap();
        let types: Vec<&CqlType> = types.iter().collect();
        let key = key_from_text(text, &types).unwrap();
        assert_eq!(key, bytes(answer), "{text}");
        assert_eq!(key_to_text(&key, &types), text);
    }
}

/// The terms that a SASI cuts texts into.
#[test]
fn terms_of_texts() {
    for question in questions("terms") {
        let [class, options, text, answer] = question[..] else {
            panic!("{question:?}")
        };
        let options = options.split_terminator(',');
        let options = options.map(|option| option.split_once('=').unwrap());
        let classes = [("class_name", Index::SASI), ("analyzer_class", class)];
        let options = classes.into_iter().chain(options);
        let index = Index {
            name: "i".into(),
            table: "t".into(),
            column: Some("v".into()),
            kind: Some(IndexKind::Custom),
            options: options.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        };
        let terms = index.analyzer().terms(text.as_bytes());
        let terms: Vec<&str> = terms
            .iter()
            .map(|t| std::str::from_utf8(t).unwrap())
            .collect();
        assert_eq!(terms.join("|"), answer, "{:?}", index.options);
    }
}
