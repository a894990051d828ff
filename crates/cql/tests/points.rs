//! Which statements are of one row that may be shown as it lies, and where that row is. That it is shown as any other
//! way shows it, all tests see to that read by [`memory::Memory`].

mod memory;

use bytes::Bytes;
use cql::{Plan, Prepared, Value};
use memory::Memory;

fn with_tables() -> Memory {
    let mut memory = Memory::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.one (k text PRIMARY KEY, v int, w text)",
        "CREATE TABLE ks.wide (p int, q text, c int, d decimal, v blob, PRIMARY KEY ((p, q), c, d))",
        "CREATE TABLE ks.stat (k int, c int, s int static, v int, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.many (k int PRIMARY KEY, v int, l list<int>)",
        "CREATE TABLE ks.sets (k frozen<set<int>> PRIMARY KEY, v frozen<list<int>>)",
        "CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)",
    ] {
        let prepared = memory.prepare(text);
        let prepared = prepared.unwrap_or_else(|error| panic!("{text}: {error}"));
        let answer = memory.execute(&prepared, &[], None, None);
        answer.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    memory
}

fn prepared(memory: &Memory, text: &str) -> Prepared {
    let prepared = memory.prepare(text);
    prepared.unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn statements_of_one_row_are_known() {
    let memory = with_tables();
    let is_point = |text: &str| match &prepared(&memory, text).plan {
        Plan::Select(select) => select.point().is_some(),
        other => panic!("{other:?}"),
    };
    for text in [
        "SELECT * FROM ks.one WHERE k = ?",
        "SELECT w, k, w AS again FROM ks.one WHERE k = 'x'",
        "SELECT k FROM ks.one WHERE k = ? LIMIT 1",
        "SELECT v FROM ks.one WHERE k = ? PER PARTITION LIMIT 3 ALLOW FILTERING",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND c = ? AND d = ?",
        "SELECT v FROM ks.wide WHERE d = ? AND q = 'q' AND c = 1 AND p = ?",
        "SELECT v FROM ks.wide WHERE p = ? AND q = ? AND (c, d) = (?, ?)",
        "SELECT v FROM ks.wide WHERE p = ? AND q = ? AND c = ? AND d = ? ORDER BY c DESC",
        "SELECT v FROM ks.sets WHERE k = {1, 2}",
    ] {
        assert!(is_point(text), "{text}");
    }
    for text in [
        "SELECT * FROM ks.one",
        "SELECT * FROM ks.one WHERE k IN (?, ?)",
        "SELECT * FROM ks.one WHERE k IN ?",
        "SELECT * FROM ks.one WHERE token(k) = ?",
        "SELECT * FROM ks.one WHERE k = ? AND token(k) > 0",
        "SELECT * FROM ks.one WHERE k = ? AND v = 1 ALLOW FILTERING",
        "SELECT count(*) FROM ks.one WHERE k = ?",
        "SELECT v + 1 FROM ks.one WHERE k = ?",
        "SELECT JSON * FROM ks.one WHERE k = ?",
        "SELECT DISTINCT k FROM ks.one WHERE k = ?",
        "SELECT writetime(v) FROM ks.one WHERE k = ?",
        "SELECT v FROM ks.one WHERE k = ? GROUP BY k",
        "SELECT v FROM ks.one WHERE k = ? LIMIT ?",
        "SELECT v FROM ks.one WHERE k = ? BYPASS CACHE",
        "SELECT v FROM ks.one WHERE k = ? USING TIMEOUT 1s",
        "SELECT v FROM ks.one WHERE k = cast(now() AS text)",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND c = ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND c = ? AND d > ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND c IN (1, 2) AND d = ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND (c, d) = ?",
        // Static columns are to be seen where there is no row, too.
        "SELECT v FROM ks.stat WHERE k = ? AND c = ?",
        // Of several cells, or added up.
        "SELECT v FROM ks.many WHERE k = ?",
        "SELECT n FROM ks.counts WHERE k = ?",
        // What is bound has to be put in order.
        "SELECT v FROM ks.sets WHERE k = ?",
    ] {
        assert!(!is_point(text), "{text}");
    }
}

#[test]
fn a_row_is_where_its_values_say() {
    let memory = with_tables();
    let text = "SELECT * FROM ks.wide WHERE d = ? AND q = ? AND c = 7 AND p = ?";
    let prepared = prepared(&memory, text);
    let Plan::Select(select) = &prepared.plan else {
        panic!("it selects");
    };
    let point = select.point().expect("it is of one row");
    let place = |values: &[Value<'_>]| point.place(values, Bytes::copy_from_slice);
    let (d, q, p) = (
        Value::Bytes(&[0, 0, 0, 1, 10]),
        Value::Bytes(b"q"),
        Value::Bytes(&[0, 0, 0, 5]),
    );
    let (key, clustering) = place(&[d, q, p]).expect("it is somewhere");
    assert_eq!(&key.key()[..], b"\0\x04\0\0\0\x05\0\0\x01q\0");
    let expected = [&[0, 0, 0, 7][..], &[0, 0, 0, 1, 10]];
    assert!(clustering.values().eq(expected));
    // Somebody else says what is wrong with these.
    let wrong = Value::Bytes(&[0xff]);
    let long = vec![b'q'; 70_000];
    for values in [
        [Value::Null, q, p],
        [d, Value::Unset, p],
        [d, wrong, p],
        [d, q, wrong],
        [d, Value::Bytes(&long), p],
    ] {
        assert_eq!(place(&values), None, "{values:?}");
    }
    assert_eq!(place(&[d, q]), None);
}
