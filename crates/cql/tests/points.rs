//! Which statements are of one row, or one partition, that may be shown as it lies, or written at once, and where that is. That it is
//! shown and written as in any other way, all tests see to that read and write by [`memory::Memory`].

mod memory;

use bytes::Bytes;
use cql::{ModifyPlan, Plan, Prepared, Value};
use memory::{Memory, at_once};
use model::collection;

fn with_tables() -> Memory {
    let mut memory = Memory::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.one (k text PRIMARY KEY, v int, w text)",
        "CREATE TABLE ks.wide (p int, q text, c int, d decimal, v blob, PRIMARY KEY ((p, q), c, d))",
        "CREATE TABLE ks.stat (k int, c int, s int static, v int, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.many (k int PRIMARY KEY, v int, l list<int>)",
        "CREATE TABLE ks.sets (k frozen<set<int>> PRIMARY KEY, v frozen<list<int>>)",
        "CREATE TABLE ks.maps (k int PRIMARY KEY, s set<int>, m map<int, frozen<set<int>>>, f frozen<map<int, int>>)",
        "CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)",
        "CREATE TABLE ks.brief (k int PRIMARY KEY, v int, m map<int, int>) WITH default_time_to_live = 600",
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
fn statements_of_one_partition_are_known() {
    let memory = with_tables();
    let is_partition = |text: &str| match &prepared(&memory, text).plan {
        Plan::Select(select) => select.partition().is_some(),
        other => panic!("{other:?}"),
    };
    for text in [
        "SELECT * FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT v, d, d AS again FROM ks.wide WHERE q = 'q' AND p = ?",
        "SELECT p FROM ks.wide WHERE p = ? AND q = ? ORDER BY c ASC",
    ] {
        assert!(is_partition(text), "{text}");
    }
    for text in [
        "SELECT * FROM ks.one WHERE k = ?",
        "SELECT * FROM ks.wide",
        "SELECT * FROM ks.wide WHERE p = ? ALLOW FILTERING",
        "SELECT * FROM ks.wide WHERE p = ? AND q IN (?, ?)",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND c = ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND c > ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND v = ? ALLOW FILTERING",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? AND token(p, q) > 0",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? LIMIT 100",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? LIMIT ?",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? PER PARTITION LIMIT 100",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? ORDER BY c DESC",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? GROUP BY c",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? BYPASS CACHE",
        "SELECT * FROM ks.wide WHERE p = ? AND q = ? USING TIMEOUT 1s",
        "SELECT DISTINCT p, q FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT count(*) FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT JSON * FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT ttl(v) FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT c + 1 FROM ks.wide WHERE p = ? AND q = ?",
        "SELECT * FROM ks.stat WHERE k = ?",
    ] {
        assert!(!is_partition(text), "{text}");
    }
}

#[test]
fn a_partition_is_that_of_its_values() {
    let memory = with_tables();
    let prepared = prepared(&memory, "SELECT * FROM ks.wide WHERE q = ? AND p = ?");
    let Plan::Select(select) = &prepared.plan else {
        panic!("it selects");
    };
    let partition = select.partition().expect("it is of one partition");
    let key = |values: &[Value<'_>]| partition.key(values, Bytes::copy_from_slice);
    let (q, p) = (Value::Bytes(b"q"), Value::Bytes(&[0, 0, 0, 5]));
    let expected = b"\0\x04\0\0\0\x05\0\0\x01q\0";
    assert_eq!(&key(&[q, p]).expect("it is one").key()[..], expected);
    let (wrong, long) = (Value::Bytes(&[0xff]), vec![b'q'; 70_000]);
    for values in [
        [Value::Null, p],
        [q, Value::Unset],
        [q, wrong],
        [Value::Bytes(&long), p],
    ] {
        assert_eq!(key(&values), None, "{values:?}");
    }
    assert_eq!(key(&[q]), None);
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

fn is_point_write(memory: &Memory, text: &str) -> bool {
    written_by(&prepared(memory, text)).is_point()
}

fn written_by(prepared: &Prepared) -> &ModifyPlan {
    match &prepared.plan {
        Plan::Modify(modify) => modify,
        other => panic!("{other:?}"),
    }
}

#[test]
fn writes_of_one_row_are_known() {
    let memory = with_tables();
    for text in [
        "INSERT INTO ks.one (k, v, w) VALUES (?, ?, ?)",
        "INSERT INTO ks.one (w, k) VALUES ('w', ?)",
        "INSERT INTO ks.one (k) VALUES ('k')",
        "UPDATE ks.one SET w = ?, v = 1 WHERE k = ?",
        "INSERT INTO ks.wide (p, q, c, d, v) VALUES (?, ?, ?, ?, ?)",
        "UPDATE ks.wide SET v = ? WHERE p = ? AND q = 'q' AND (c, d) = (?, 1)",
        "INSERT INTO ks.stat (k, c, v) VALUES (?, ?, ?)",
        "INSERT INTO ks.many (k, v) VALUES (?, ?)",
        "INSERT INTO ks.sets (k, v) VALUES ({1, 2}, [3])",
        "INSERT INTO ks.sets (k, v) VALUES ({1, 2}, ?)",
        "INSERT INTO ks.maps (k, m, s, f) VALUES (?, ?, {3, 1}, ?)",
        "UPDATE ks.maps SET s = ?, m = {1: {2}} WHERE k = ?",
        "INSERT INTO ks.one (k, v) VALUES (?, ?) USING TTL ?",
        "INSERT INTO ks.one (k, v) VALUES (?, ?) USING TIMESTAMP 1",
        "UPDATE ks.maps USING TIMESTAMP ? AND TTL 60 SET s = ? WHERE k = ?",
        "INSERT INTO ks.brief (k, m) VALUES (?, ?)",
    ] {
        assert!(is_point_write(&memory, text), "{text}");
    }
    for text in [
        "INSERT INTO ks.one (k, v) VALUES (?, null)",
        "INSERT INTO ks.one (k, v) VALUES (?, ?) IF NOT EXISTS",
        "INSERT INTO ks.one (k, v) VALUES (?, ?) USING TIMEOUT 1s",
        "INSERT INTO ks.one (k, w) VALUES (?, cast(now() AS text))",
        "INSERT INTO ks.one JSON ?",
        "UPDATE ks.one SET v = ? WHERE k IN (?, ?)",
        "UPDATE ks.one SET v = ? WHERE k = ? IF v = 1",
        "DELETE FROM ks.one WHERE k = ?",
        "DELETE v FROM ks.one WHERE k = ?",
        "UPDATE ks.wide SET v = ? WHERE p = ? AND q = ? AND c = ? AND d IN (?, ?)",
        "UPDATE ks.wide SET v = ? WHERE p = ? AND q = ? AND (c, d) = ?",
        "INSERT INTO ks.stat (k, s) VALUES (?, ?)",
        "INSERT INTO ks.stat (k, c, s, v) VALUES (?, ?, ?, ?)",
        "UPDATE ks.stat SET s = ? WHERE k = ?",
        "INSERT INTO ks.many (k, l) VALUES (?, ?)",
        "UPDATE ks.many SET l = l + ? WHERE k = ?",
        // What is bound has to be put in order.
        "INSERT INTO ks.sets (k, v) VALUES (?, ?)",
        "UPDATE ks.maps SET m = m + ? WHERE k = ?",
        "UPDATE ks.maps SET m[1] = ? WHERE k = ?",
        "INSERT INTO ks.maps (k, s) VALUES (?, null)",
        "UPDATE ks.counts SET n = n + 1 WHERE k = ?",
    ] {
        assert!(!is_point_write(&memory, text), "{text}");
    }
}

#[test]
fn a_row_gets_what_its_values_say() {
    let mut memory = with_tables();
    let text = "UPDATE ks.one SET v = ?, w = ? WHERE k = ?";
    let prepared = prepared(&memory, text);
    let modify = written_by(&prepared);
    let update = |values: &[Value<'_>]| at_once(modify, values, (1_000_000, 1));
    let (one, wrong, w, k) = (
        Value::Bytes(&[0, 0, 0, 1]),
        Value::Bytes(&[1, 2, 3]),
        Value::Bytes(b"w"),
        Value::Bytes(b"k"),
    );
    let cells = |values: &[Value<'_>]| {
        let update = update(values).expect("there is nothing unusual about it");
        let [row] = &update.rows[..] else {
            panic!("{update:?}")
        };
        let cells = row.cells.iter();
        cells
            .map(|cell| (cell.value.to_vec(), cell.is_tombstone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cells(&[one, w, k]),
        [(vec![0, 0, 0, 1], false), (b"w".to_vec(), false)]
    );
    assert_eq!(
        cells(&[Value::Null, w, k]),
        [(vec![], true), (b"w".to_vec(), false)]
    );
    assert_eq!(cells(&[Value::Unset, w, k]), [(b"w".to_vec(), false)]);
    // Somebody else says what becomes of these.
    for values in [
        [wrong, w, k],
        [one, w, Value::Null],
        [one, w, Value::Bytes(b"")],
        [Value::Unset, Value::Unset, k],
    ] {
        assert_eq!(update(&values), None, "{values:?}");
    }
    for values in [[one, w, k], [Value::Null, w, k], [Value::Unset, w, k]] {
        let answer = memory.execute(&prepared, &values, None, None);
        answer.unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn long_values_are_written_at_once_as_well() {
    let mut memory = with_tables();
    let prepared = prepared(&memory, "INSERT INTO ks.one (k, v, w) VALUES (?, ?, ?)");
    let modify = written_by(&prepared);
    for length in [0, 1, 8 << 10, (8 << 10) + 1, 1 << 20] {
        let (long, one) = (vec![b'w'; length], number(1));
        let values = [&b"k"[..], &one, &long].map(Value::Bytes);
        let update = at_once(modify, &values, (1_000_000, 1));
        let update = update.expect("there is nothing unusual about it");
        assert_eq!(update.rows[0].cells[1].value, long);
        // The same in the usual way.
        let answer = memory.execute(&prepared, &values, None, None);
        answer.unwrap_or_else(|error| panic!("{error}"));
        // There is no time before this one.
        assert_eq!(at_once(modify, &values, (i64::MIN, 1)), None);
    }
}

#[test]
fn what_expires_is_written_at_once_as_well() {
    let mut memory = with_tables();
    let text = "INSERT INTO ks.brief (k, v, m) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?";
    let prepared = prepared(&memory, text);
    let modify = written_by(&prepared);
    let now = (memory.now_micros / 1_000_000) as u32;
    let update = |values: &[Value<'_>]| at_once(modify, values, (7, now));
    let (k, map) = (
        number(1),
        collection::pack_entries([(number(1), number(2))]),
    );
    let no_map = collection::pack_elements(Vec::<Vec<u8>>::new());
    let (k, v) = (Value::Bytes(&k), Value::Bytes(&[0, 0, 0, 2]));
    let (time, brief, never) = (5i64.to_be_bytes(), number(60), number(0));
    for (ttl, expected) in [
        (Value::Bytes(&brief), 60),
        (Value::Bytes(&never), 0),
        (Value::Bytes(b""), 0),
        (Value::Null, 0),
        // As the table says.
        (Value::Unset, 600),
    ] {
        for m in [Value::Bytes(&map), Value::Bytes(&no_map), Value::Null] {
            for (v, time, timestamp) in [
                (v, Value::Bytes(&time), 5),
                (Value::Null, Value::Unset, 7),
                (Value::Unset, Value::Unset, 7),
            ] {
                let values = [k, v, m, time, ttl];
                let update = update(&values).expect("there is nothing unusual about it");
                let row = &update.rows[0];
                assert_eq!(
                    (row.liveness.ttl, row.liveness.timestamp),
                    (expected, timestamp)
                );
                let live = row.cells.iter().filter(|cell| !cell.is_tombstone());
                assert!(live.clone().all(|cell| cell.ttl == expected), "{values:?}");
                assert!(row.cells.iter().all(|cell| cell.timestamp == timestamp));
                // The same in the usual way.
                let answer = memory.execute(&prepared, &values, None, None);
                answer.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
    // Somebody else says what is wrong with these.
    let (negative, too_long, least) = (number(-1), number(i32::MAX), i64::MIN.to_be_bytes());
    for (time, ttl) in [
        (Value::Null, Value::Unset),
        (Value::Bytes(&least), Value::Unset),
        (Value::Bytes(b""), Value::Unset),
        (Value::Unset, Value::Bytes(&negative)),
        (Value::Unset, Value::Bytes(&too_long)),
        (Value::Unset, Value::Bytes(&[1, 2, 3])),
    ] {
        assert_eq!(
            update(&[k, v, Value::Null, time, ttl]),
            None,
            "{time:?}, {ttl:?}"
        );
    }
    // It would be the end of what sstables know.
    let values = [k, v, Value::Null, Value::Unset, Value::Bytes(&brief)];
    assert!(at_once(modify, &values, (7, i32::MAX as u32 - 62)).is_some());
    assert_eq!(at_once(modify, &values, (7, i32::MAX as u32 - 60)), None);
}

fn number(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

/// A set of integers as a client sends it, in whatever order.
fn set(elements: &[i32]) -> Vec<u8> {
    collection::pack_elements(elements.iter().copied().map(number))
}

#[test]
fn sets_and_maps_are_put_in_order() {
    let mut memory = with_tables();
    let text = "UPDATE ks.maps SET s = ?, m = ?, f = ? WHERE k = ?";
    let prepared = prepared(&memory, text);
    let modify = written_by(&prepared);
    let map = |keys: &[i32], of: &dyn Fn(i32) -> Vec<u8>| {
        collection::pack_entries(keys.iter().map(|key| (number(*key), of(*key))))
    };
    let of_sets = |key: i32| set(&[key, -1, key]);
    let of_numbers = |key: i32| number(key).to_vec();
    let k = number(1);
    for keys in [
        &[][..],
        &[5],
        &[-7, 0, 3],
        &[3, -7, 0],
        &[2, 2],
        &[9, 1, 9, 1],
    ] {
        let (s, m, f) = (set(keys), map(keys, &of_sets), map(keys, &of_numbers));
        let values = [&s[..], &m, &f, &k].map(Value::Bytes);
        let update = at_once(modify, &values, (1_000_000, 1));
        let update = update.expect("there is nothing unusual about it");
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let of = |name: &str| {
            let column = update.table.column_named(name).expect("it has one").id;
            update.rows[0].cells_of(column)
        };
        for name in ["s", "m"] {
            let paths = of(name)
                .iter()
                .map(|cell| cell.path.clone().expect("a path"));
            let expected = sorted
                .iter()
                .map(|key| Bytes::copy_from_slice(&number(*key)));
            assert!(paths.eq(expected), "{name} of {keys:?}");
        }
        let sets = of("m").iter().map(|cell| cell.value.to_vec());
        let expected = sorted.iter().map(|key| match *key {
            key if key < -1 => set(&[key, -1]),
            key => set(&[-1, key]),
        });
        assert!(sets.eq(expected), "values of {keys:?}");
        assert_eq!(of("f")[0].value, map(&sorted, &of_numbers));
        // The same in the usual way.
        let answer = memory.execute(&prepared, &values, None, None);
        answer.unwrap_or_else(|error| panic!("{error}"));
    }
    // Somebody else says what is wrong with these.
    let (good, null) = (set(&[1]), [0, 0, 0, 1, 255, 255, 255, 255]);
    for wrong in [&null[..], &[255, 255, 255, 255], &good[..7], &[0, 0, 0, 1]] {
        for at in 0..2 {
            let mut values = [Value::Null, Value::Null, Value::Null, Value::Bytes(&k)];
            values[at] = Value::Bytes(wrong);
            let update = at_once(modify, &values, (1_000_000, 1));
            assert_eq!(update, None, "{wrong:?}");
        }
    }
}
