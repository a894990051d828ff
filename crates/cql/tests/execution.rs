//! Executions with values and pages: over a table in memory.

mod memory;

use bytes::Bytes;
use cql::{CqlError, Plan, Prepared, Request, Value};
use memory::{Memory, driver_name};
use model::{
    Cell, Clustering, DecoratedKey, Mutation, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row,
};
use proptest::prelude::*;

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn run(memory: &mut Memory, text: &str) -> Rows {
    let prepared = memory
        .prepare(text)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    memory
        .execute(&prepared, &[], None, None)
        .unwrap_or_else(|e| panic!("{text}: {e}"))
        .rows
}

fn with_tables() -> Memory {
    let mut memory = Memory::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.x (k int, c int, v int, s int static, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.two (a int, b text, c int, d int, v int, l list<int>, PRIMARY KEY ((a, b), \
         c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
    ] {
        run(&mut memory, text);
    }
    memory
}

fn pages(memory: &mut Memory, text: &str, page_size: u32) -> Rows {
    let prepared = memory.prepare(text).expect("valid");
    let mut rows = Vec::new();
    let mut state: Option<Vec<u8>> = None;
    for _ in 0..1_000 {
        let answer = memory
            .execute(&prepared, &[], Some(page_size), state.as_deref())
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let aggregate = text.contains("count(") && !text.contains("GROUP");
        assert!(
            answer.rows.len() <= page_size as usize || aggregate,
            "{text}"
        );
        rows.extend(answer.rows);
        state = answer.state;
        if state.is_none() {
            return rows;
        }
    }
    panic!("{text}: more pages than rows");
}

const QUERIES: [&str; 22] = [
    "SELECT * FROM ks.x",
    "SELECT k, c FROM ks.x",
    "SELECT s FROM ks.x",
    "SELECT * FROM ks.x LIMIT 5",
    "SELECT * FROM ks.x PER PARTITION LIMIT 2",
    "SELECT * FROM ks.x PER PARTITION LIMIT 2 LIMIT 5",
    "SELECT DISTINCT k, s FROM ks.x",
    "SELECT DISTINCT k FROM ks.x LIMIT 3",
    "SELECT * FROM ks.x WHERE k = 2",
    "SELECT * FROM ks.x WHERE k = 2 ORDER BY c DESC",
    "SELECT * FROM ks.x WHERE k = 2 AND c IN (1, 3, 5)",
    "SELECT * FROM ks.x WHERE k IN (1, 2, 3, 4)",
    "SELECT * FROM ks.x WHERE k IN (1, 2, 3, 4) LIMIT 4",
    "SELECT * FROM ks.x WHERE k IN (1, 2, 3, 4) PER PARTITION LIMIT 1",
    "SELECT * FROM ks.x WHERE k IN (1, 2, 3, 4) AND c > 1 AND c <= 4",
    "SELECT * FROM ks.x WHERE c > 2 ALLOW FILTERING",
    "SELECT * FROM ks.x WHERE v > 3 ALLOW FILTERING",
    "SELECT * FROM ks.x WHERE token(k) > 0",
    "SELECT count(*), sum(v), max(c) FROM ks.x",
    "SELECT k, count(*), sum(v) FROM ks.x GROUP BY k",
    "SELECT k, c, count(*) FROM ks.x GROUP BY k, c LIMIT 6",
    "SELECT k, c, count(v) FROM ks.x WHERE k IN (1, 2, 3) GROUP BY k, c PER PARTITION LIMIT 2",
];

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 64,
        ..ProptestConfig::default()
    })]

    /// Pages of any size, put together, are the result without pages.
    #[test]
    fn pages_make_up_the_result(
        rows in prop::collection::vec((0..5i32, prop::option::of(0..6i32), 0..9i32), 0..24),
        page_size in 1..8u32,
    ) {
        let mut memory = with_tables();
        for (k, c, v) in rows {
            match c {
                Some(c) => run(&mut memory, &format!(
                    "INSERT INTO ks.x (k, c, v) VALUES ({k}, {c}, {v})"
                )),
                None => run(&mut memory, &format!("INSERT INTO ks.x (k, s) VALUES ({k}, {v})")),
            };
        }
        for query in QUERIES {
            let whole = run(&mut memory, query);
            prop_assert_eq!(&pages(&mut memory, query, page_size), &whole, "{}", query);
        }
    }

    /// Tuples compare by their values, whatever the order of the columns in the table.
    #[test]
    fn slices_of_tuples_give_the_rows_that_compare_so(
        rows in prop::collection::btree_set((0..4i32, 0..4i32), 0..12),
        lower in (any::<bool>(), prop::collection::vec(0..4i32, 0..=2)),
        upper in (any::<bool>(), prop::collection::vec(0..4i32, 0..=2)),
        reversed in any::<bool>(),
    ) {
        let mut memory = with_tables();
        for (c, d) in &rows {
            run(&mut memory, &format!("INSERT INTO ks.two (a, b, c, d) VALUES (1, 'x', {c}, {d})"));
        }
        let mut query = "SELECT c, d FROM ks.two WHERE a = 1 AND b = 'x'".to_owned();
        for ((inclusive, values), operator) in [(&lower, ">"), (&upper, "<")] {
            let equal = if *inclusive { "=" } else { "" };
            match values[..] {
                [c] => query += &format!(" AND c {operator}{equal} {c}"),
                [c, d] => query += &format!(" AND (c, d) {operator}{equal} ({c}, {d})"),
                _ => {}
            }
        }
        if reversed {
            query += " ORDER BY c ASC";
        }
        let mut expected: Vec<[i32; 2]> = rows
            .into_iter()
            .map(|(c, d)| [c, d])
            .filter(|row| {
                let (above, below) = (&row[..lower.1.len()], &row[..upper.1.len()]);
                let above = above > &lower.1[..] || (above == &lower.1[..] && (lower.0 || above.is_empty()));
                let below = below < &upper.1[..] || (below == &upper.1[..] && (upper.0 || below.is_empty()));
                above && below
            })
            .collect();
        expected.sort_by_key(|[c, d]| (-c, *d));
        if reversed {
            expected.reverse();
        }
        let found: Vec<[i32; 2]> = run(&mut memory, &query)
            .iter()
            .map(|row| [0, 1].map(|i: usize| {
                let cell = row[i].as_deref().expect("a key column");
                i32::from_be_bytes(cell.try_into().expect("an int"))
            }))
            .collect();
        prop_assert_eq!(found, expected, "{}", query);
    }

    /// Whatever a client sends as paging state is refused or read, never a panic.
    #[test]
    fn any_paging_state_is_read_or_refused(state in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut memory = with_tables();
        run(&mut memory, "INSERT INTO ks.x (k, c, v) VALUES (1, 1, 1)");
        let prepared = memory.prepare("SELECT * FROM ks.x WHERE k IN (1, 2)").expect("valid");
        let _ = memory.execute(&prepared, &[], Some(1), Some(&state));
        let mut state = state;
        state.insert(0, 0x48);
        let _ = memory.execute(&prepared, &[], Some(1), Some(&state));
    }
}

fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

fn execute(
    memory: &mut Memory,
    prepared: &Prepared,
    values: &[Value<'_>],
) -> Result<Rows, CqlError> {
    memory
        .execute(prepared, values, None, None)
        .map(|answer| answer.rows)
}

fn message(result: Result<Rows, CqlError>) -> String {
    match result {
        Err(CqlError::Invalid(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn null_and_unset_values() {
    let mut memory = with_tables();
    let insert = memory
        .prepare("INSERT INTO ks.x (k, c, v) VALUES (?, ?, ?)")
        .expect("valid");
    let (one, two) = (int(1), int(2));
    let bytes = |v| Value::Bytes(v);
    execute(
        &mut memory,
        &insert,
        &[bytes(&one), bytes(&one), bytes(&two)],
    )
    .expect("valid");
    // Unset leaves the column, null deletes it.
    execute(
        &mut memory,
        &insert,
        &[bytes(&one), bytes(&one), Value::Unset],
    )
    .expect("valid");
    let select = "SELECT v FROM ks.x WHERE k = 1";
    assert_eq!(run(&mut memory, select), [vec![Some(two.to_vec())]]);
    execute(
        &mut memory,
        &insert,
        &[bytes(&one), bytes(&one), Value::Null],
    )
    .expect("valid");
    assert_eq!(run(&mut memory, select), [vec![None]]);

    let result = execute(
        &mut memory,
        &insert,
        &[Value::Null, bytes(&one), bytes(&one)],
    );
    assert_eq!(
        message(result),
        "Invalid null value in condition for column k"
    );
    let result = execute(
        &mut memory,
        &insert,
        &[bytes(&one), Value::Unset, bytes(&one)],
    );
    assert_eq!(message(result), "Invalid unset value for column c");
    let result = execute(
        &mut memory,
        &insert,
        &[bytes(&[1, 2, 3]), bytes(&one), bytes(&one)],
    );
    assert_eq!(message(result), "Expected 4 or 0 byte int (3)");
    let result = execute(&mut memory, &insert, &[bytes(&one)]);
    assert_eq!(
        message(result),
        "there were 3 markers(?) in CQL but 1 bound variables"
    );

    let limit = memory.prepare("SELECT * FROM ks.x LIMIT ?").expect("valid");
    assert_eq!(
        execute(&mut memory, &limit, &[Value::Unset])
            .expect("valid")
            .len(),
        1
    );
    assert_eq!(
        message(execute(&mut memory, &limit, &[Value::Null])),
        "Invalid null value of limit"
    );
    assert_eq!(
        message(execute(&mut memory, &limit, &[bytes(&int(-1))])),
        "LIMIT must be strictly positive"
    );
}

#[test]
fn values_by_name_serve_all_markers_of_the_name() {
    let memory = with_tables();
    let prepared = memory
        .prepare("SELECT * FROM ks.x WHERE k = :a AND c = :b AND v = :a ALLOW FILTERING")
        .expect("valid");
    let (one, two) = (int(1), int(2));
    let values = [Value::Bytes(&two), Value::Bytes(&one)];
    prepared
        .bind(&values, &["b", "a"])
        .expect("all names are there");
    let error = prepared
        .bind(&values, &["b", "c"])
        .expect_err("a is missing");
    assert_eq!(error.code(), 0x2200);
}

#[test]
fn tuples_and_lists_of_them_as_values() {
    let mut memory = with_tables();
    for (c, d) in [(1, 1), (1, 2), (2, 1), (3, 7)] {
        run(
            &mut memory,
            &format!("INSERT INTO ks.two (a, b, c, d, v) VALUES (1, 'x', {c}, {d}, {c}{d})"),
        );
    }
    let tuple = |c: i32, d: i32| {
        let mut out = Vec::new();
        for value in [c, d] {
            out.extend(4i32.to_be_bytes());
            out.extend(value.to_be_bytes());
        }
        out
    };
    let greater = memory
        .prepare("SELECT v FROM ks.two WHERE a = 1 AND b = 'x' AND (c, d) > ?")
        .expect("valid");
    assert_eq!(
        driver_name(&greater.bind_variables[0].ty),
        "frozen<tuple<int, int>>"
    );
    let edge = tuple(1, 1);
    let rows = execute(&mut memory, &greater, &[Value::Bytes(&edge)]).expect("valid");
    let shown = |rows: &Rows| -> Vec<i32> {
        let cell = |row: &Vec<Option<Vec<u8>>>| {
            let bytes = row[0].as_deref().expect("not null");
            i32::from_be_bytes(bytes.try_into().expect("an int"))
        };
        rows.iter().map(cell).collect()
    };
    assert_eq!(shown(&rows), [37, 21, 12]);

    let one_of = memory
        .prepare("SELECT v FROM ks.two WHERE a = 1 AND b = 'x' AND (c, d) IN ?")
        .expect("valid");
    let mut list = 2i32.to_be_bytes().to_vec();
    for tuple in [tuple(1, 2), tuple(3, 7)] {
        list.extend((tuple.len() as i32).to_be_bytes());
        list.extend(tuple);
    }
    let rows = execute(&mut memory, &one_of, &[Value::Bytes(&list)]).expect("valid");
    assert_eq!(shown(&rows), [37, 12]);

    let keys = memory
        .prepare("SELECT v FROM ks.x WHERE k IN ?")
        .expect("valid");
    let mut ints = 3i32.to_be_bytes().to_vec();
    for value in [5, 1, 5] {
        ints.extend(4i32.to_be_bytes());
        ints.extend(int(value));
    }
    run(&mut memory, "INSERT INTO ks.x (k, c, v) VALUES (1, 1, 11)");
    run(&mut memory, "INSERT INTO ks.x (k, c, v) VALUES (5, 1, 51)");
    let rows = execute(&mut memory, &keys, &[Value::Bytes(&ints)]).expect("valid");
    assert_eq!(shown(&rows), [11, 51]);
}

#[test]
fn ordering_partitions_together_needs_the_whole_result() {
    let mut memory = with_tables();
    let text = "SELECT v FROM ks.x WHERE k IN (1, 2) ORDER BY c";
    let prepared = memory.prepare(text).expect("valid");
    let limited = memory.prepare(&format!("{text} LIMIT 10")).expect("valid");
    for statement in [&prepared, &limited] {
        let error = memory
            .execute(statement, &[], Some(100), None)
            .expect_err("pages");
        assert!(
            error
                .to_string()
                .starts_with("Cannot page queries with both ORDER BY")
        );
        memory
            .execute(statement, &[], None, None)
            .expect("no pages");
    }
    // Of no partitions there is nothing to order.
    let none = "SELECT v FROM ks.x WHERE token(k) > 9223372036854775806 AND k IN (1, 2) ORDER BY c";
    for text in [none, "SELECT v FROM ks.x WHERE k IN () ORDER BY c"] {
        let prepared = memory.prepare(text).expect("valid");
        let answer = memory.execute(&prepared, &[], Some(100), None);
        assert!(answer.expect("empty").rows.is_empty());
    }
    // Where static columns are fetched, partitions are looked at though no row can be meant.
    run(
        &mut memory,
        "CREATE TABLE ks.y (k int, c int, s int static, v int, PRIMARY KEY (k, c))",
    );
    let mut answer = |columns: &str| {
        let text = format!("SELECT {columns} FROM ks.y WHERE k IN (1, 2) AND c IN () ORDER BY c");
        let prepared = memory.prepare(&text).expect("valid");
        memory.execute(&prepared, &[], Some(100), None)
    };
    assert!(answer("v").expect("empty").rows.is_empty());
    let error = answer("*").expect_err("refused").to_string();
    assert!(error.starts_with("Cannot page queries"), "{error}");
    // And where a range ends at null, before all rows, unless it begins somewhere.
    let mut answer = |range: &str| {
        let text = format!("SELECT v FROM ks.y WHERE k IN (1, 2) AND {range} ORDER BY c");
        let prepared = memory.prepare(&text).expect("valid");
        memory.execute(&prepared, &[Value::Null], Some(100), None)
    };
    let error = answer("c <= ?").expect_err("refused").to_string();
    assert!(error.starts_with("Cannot page queries"), "{error}");
    assert!(answer("c > 5 AND c < ?").expect("empty").rows.is_empty());
}

/// A type that is written backwards is a column that descends.
#[test]
fn reversed_types_descend() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "CREATE TABLE ks.r (k int, c 'ReversedType(Int32Type)', PRIMARY KEY (k, c))",
    );
    for c in 1..=3 {
        run(
            &mut memory,
            &format!("INSERT INTO ks.r (k, c) VALUES (1, {c})"),
        );
    }
    let all = memory.prepare("SELECT c FROM ks.r").expect("valid");
    let rows = execute(&mut memory, &all, &[]).expect("valid");
    let last: Vec<u8> = rows
        .iter()
        .filter_map(|row| row[0].as_ref()?.last().copied())
        .collect();
    assert_eq!(last, [3, 2, 1]);
}

/// What no sstable can hold is refused, however it is given.
#[test]
fn values_that_are_none_of_their_type_are_refused() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "CREATE TABLE ks.vectors (k int PRIMARY KEY, f vector<float, 3>, i vector<int, 2>, t \
         vector<timestamp, 2>, n vector<vector<int, 1>, 2>, x vector<text, 2>, l \
         list<vector<int, 1>>, tu tuple<int, vector<int, 1>>, u uuid)",
    );
    let refused = |memory: &mut Memory, text: &str| {
        let prepared = memory.prepare(text);
        let executed = prepared.and_then(|prepared| memory.execute(&prepared, &[], None, None));
        executed.expect_err(text).to_string()
    };
    const NULL: &str = "Element at index 0 is null (expected type ";
    for (column, value, reason) in [
        ("f", "0x01", "Invalid HEX constant (0x01) for \"f\""),
        ("f", "'01'", "Invalid STRING constant (01) for \"f\""),
        ("f", "0x", "Invalid HEX constant (0x) for \"f\""),
        ("i", "[blob_as_int(0x), 1]", NULL),
        ("t", "['', '2020-01-01']", NULL),
        (
            "n",
            "[0x01, 0x02]",
            "Invalid vector literal for n: value 0x01 is not of type vector<int, 1>",
        ),
        (
            "l",
            "[0x01]",
            "Invalid list literal for l: value 0x01 is not of type vector<int, 1>",
        ),
        ("l", "[[blob_as_int(0x)]]", NULL),
        (
            "tu",
            "(1, 0x01)",
            "Invalid tuple literal for tu: component 1 is not of type vector<int, 1>",
        ),
        ("tu", "(1, [blob_as_int(0x)])", NULL),
        (
            "tu",
            "0x01",
            "Not enough bytes to read size of 0th component",
        ),
    ] {
        let text = format!("INSERT INTO ks.vectors (k, {column}) VALUES (1, {value})");
        let error = refused(&mut memory, &text);
        assert!(error.starts_with(reason), "{text}: {error}");
    }
    let text = r#"INSERT INTO ks.vectors JSON '{"k": 1, "t": ["", "2020-01-01"]}'"#;
    let error = refused(&mut memory, text);
    assert!(error.contains(NULL), "{error}");
    let select = "SELECT [blob_as_int(0x), k] FROM ks.vectors";
    for text in [
        "INSERT INTO ks.vectors (k, f) VALUES (1, [1, 1, 1])",
        "INSERT INTO ks.vectors (k, x) VALUES (1, ['', 'a'])",
        "INSERT INTO ks.vectors (k, tu) VALUES (1, 0x0000000400000001)",
        "INSERT INTO ks.vectors (k, u) VALUES (1, blob_as_uuid(0x))",
        select,
    ] {
        run(&mut memory, text);
    }
    let into = memory.prepare("INSERT INTO ks.vectors (k, f) VALUES (1, ?)");
    let error = memory
        .execute(&into.expect("valid"), &[Value::Bytes(&[1])], None, None)
        .expect_err("no vector");
    assert!(error.to_string().starts_with("Not enough bytes"), "{error}");
}

#[test]
fn plans_are_shared_between_threads() {
    fn shareable<T: Send + Sync + 'static>() {}
    shareable::<Prepared>();
    shareable::<Plan>();
}

#[test]
fn a_plan_ends_with_its_table() {
    let mut memory = with_tables();
    let prepared = memory.prepare("SELECT * FROM ks.x").expect("valid");
    assert!(prepared.plan.is_valid_in(&memory.schema));
    run(&mut memory, "ALTER TABLE ks.two ADD w int");
    assert!(prepared.plan.is_valid_in(&memory.schema));
    run(&mut memory, "ALTER TABLE ks.x ADD w int");
    assert!(!prepared.plan.is_valid_in(&memory.schema));
}

#[test]
fn distinct_of_known_partitions_needs_no_whole_key() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "INSERT INTO ks.two (a, b, c, d, v) VALUES (1, 'b', 3, 0, 4)",
    );
    let known = memory.prepare("SELECT DISTINCT a FROM ks.two WHERE a = 1 AND b = 'b'");
    assert!(known.is_ok());
    let range = memory.prepare("SELECT DISTINCT a FROM ks.two");
    let error = range.expect_err("partitions that differ would look alike");
    assert!(error.to_string().contains("missing b"), "{error}");
}

#[test]
fn a_statement_may_say_how_long_it_may_take() {
    let memory = with_tables();
    let time = |text: &str, bound: Option<&[u8]>| {
        let values: Vec<Value<'_>> = bound.map(Value::Bytes).into_iter().collect();
        let prepared = memory.prepare(text).expect("valid");
        let values = prepared.bind(&values, &[]).expect("its values");
        let request = Request::new(values, 0, 0);
        let time = match &prepared.plan {
            Plan::Select(select) => select.timeout(&request),
            Plan::Modify(modify) => modify.timeout(&request),
            Plan::Batch(batch) => batch.timeout(&request),
            _ => panic!("neither reads nor writes: {text}"),
        };
        time.map(|time| time.map(|time| time.as_millis()))
    };
    for (text, expected) in [
        ("SELECT * FROM ks.x LIMIT 1 USING TIMEOUT 2s500ms", 2500),
        ("SELECT * FROM ks.x BYPASS CACHE USING TIMEOUT 0ms", 0),
        (
            "INSERT INTO ks.x (k, c) VALUES (1, 1) USING TIMEOUT 60m AND TTL 5 AND TIMESTAMP 3",
            3_600_000,
        ),
        (
            "INSERT INTO ks.x (k, c) VALUES (1, 1) USING TIMESTAMP 3 AND timeout 1s",
            1000,
        ),
        (
            "INSERT INTO ks.x JSON '{\"k\": 1, \"c\": 1}' USING TIMEOUT 1s",
            1000,
        ),
        (
            "UPDATE ks.x USING TIMEOUT 48h SET v = 5 WHERE k = 1 AND c = 1",
            172_800_000,
        ),
        ("DELETE FROM ks.x USING TIMEOUT 1ms WHERE k = 1", 1),
        (
            "DELETE FROM ks.x USING TIMEOUT 1ms AND TIMESTAMP 42 WHERE k = 1",
            1,
        ),
        (
            "DELETE FROM ks.x USING TIMESTAMP 42 AND TIMEOUT 1ms WHERE k = 1",
            1,
        ),
        (
            "BEGIN BATCH USING TIMEOUT 2s DELETE FROM ks.x USING TIMEOUT 1s WHERE k = 1 APPLY BATCH",
            2000,
        ),
        (
            "BEGIN BATCH DELETE FROM ks.x USING TIMEOUT 1s WHERE k = 1; INSERT INTO ks.x (k, c) VALUES (1, 1) \
          USING TIMEOUT 900ms; APPLY BATCH",
            900,
        ),
    ] {
        assert_eq!(time(text, None), Ok(Some(expected)), "{text}");
    }
    let bound = "UPDATE ks.x USING TIMEOUT ? SET v = 5 WHERE k = 1 AND c = 1";
    let encoded = |nanoseconds, days| {
        let duration = model::duration::Duration {
            months: 0,
            days,
            nanoseconds,
        };
        duration.encode()
    };
    assert_eq!(time(bound, Some(&encoded(7_000_000, 0))), Ok(Some(7)));
    assert!(time(bound, Some(&encoded(7_000_001, 0))).is_err());
    assert!(time(bound, Some(&encoded(0, 1))).is_err());
    assert_eq!(time("SELECT * FROM ks.x", None), Ok(None));
    for wrong in [
        "SELECT * FROM ks.x USING TTL 1",
        "SELECT * FROM ks.x USING TIMEOUT",
        "SELECT * FROM ks.x USING TIMEOUT 1mo",
        "SELECT * FROM ks.x USING TIMEOUT -1s",
        "SELECT * FROM ks.x USING TIMEOUT 60s5ns",
        "SELECT * FROM ks.x USING TIMEOUT null",
        "SELECT * FROM ks.x USING TIMEOUT 917",
        "SELECT * FROM ks.x USING TIMEOUT 'hey'",
        "SELECT * FROM ks.x USING TIMEOUT 1s AND TIMESTAMP 4",
        "SELECT * FROM ks.x BYPASS",
        "DELETE FROM ks.x USING TIMEOUT 60s AND TTL 42 WHERE k = 42",
        "DELETE FROM ks.x USING TIMESTAMP 60 AND TTL 42 WHERE k = 42",
    ] {
        assert!(memory.prepare(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_field_may_not_make_types_deeper_than_can_be_read_back() {
    let mut memory = with_tables();
    run(&mut memory, "CREATE TYPE ks.t0 (a int)");
    for i in 1..40 {
        let create = format!("CREATE TYPE ks.t{i} (a frozen<t{}>)", i - 1);
        run(&mut memory, &create);
    }
    run(
        &mut memory,
        "CREATE TABLE ks.deep (k int PRIMARY KEY, v frozen<list<t39>>)",
    );
    // A list, 40 user types, and what is in the last of them.
    let add = |lists: usize| {
        let (open, close) = ("list<".repeat(lists), ">".repeat(lists));
        format!("ALTER TYPE ks.t0 ADD b{lists} frozen<{open}int{close}>")
    };
    run(&mut memory, &add(23));
    let prepared = memory.prepare(&add(24)).expect("a statement");
    let refused = memory.execute(&prepared, &[], None, None);
    let message = refused.expect_err("too deep").to_string();
    assert!(
        message.contains("type of v of ks.deep") && message.contains("more than 64 deep"),
        "{message}"
    );
}

/// Showing them as digits, or dividing them, would take minutes.
#[test]
fn numbers_of_a_million_digits_are_bytes_and_nothing_else() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "CREATE TABLE ks.numbers (k int PRIMARY KEY, v varint, d decimal, l list<varint>)",
    );
    let digits = "9".repeat(1_000_000);
    for literal in [
        format!("INSERT INTO ks.numbers (k, v) VALUES (1, {digits})"),
        format!("INSERT INTO ks.numbers (k, d) VALUES (1, {digits})"),
        format!("INSERT INTO ks.numbers (k, d) VALUES (1, 0.{digits})"),
        format!("INSERT INTO ks.numbers JSON '{{\"k\": 1, \"v\": {digits}}}'"),
        format!("INSERT INTO ks.numbers JSON '{{\"k\": 1, \"v\": \"{digits}\"}}'"),
    ] {
        let run = memory.prepare(&literal).and_then(|prepared| {
            let answer = memory.execute(&prepared, &[], None, None);
            answer.map(|_| ())
        });
        let message = run.expect_err("it is too long").to_string();
        assert!(message.contains("10000 digits"), "{message}");
    }

    let number = vec![0x7f; 1_000_000];
    let decimal = [&[0, 0, 0, 3], &number[..]].concat();
    let list = [
        &1u32.to_be_bytes(),
        &1_000_000u32.to_be_bytes(),
        &number[..],
    ]
    .concat();
    let prepared = memory
        .prepare("INSERT INTO ks.numbers (k, v, d, l) VALUES (1, ?, ?, ?)")
        .expect("a statement");
    let values = [&number, &decimal, &list].map(|value| Value::Bytes(value));
    let written = memory.execute(&prepared, &values, None, None);
    written.expect("bytes are taken");
    let rows = run(&mut memory, "SELECT v, d, l, min(v) FROM ks.numbers");
    let same = [&number, &decimal, &list, &number].map(|value| Some(value.clone()));
    assert_eq!(rows, [same]);
    for what in [
        "CAST(v AS text)",
        "CAST(v AS double)",
        "CAST(d AS text)",
        "CAST(d AS varint)",
        "toJson(v)",
        "toJson(l)",
        "JSON d",
        "JSON l",
        "v / 3",
        "d % 7",
        "-v",
        "round(d)",
        "sum(v)",
        "avg(d)",
    ] {
        let prepared = memory.prepare(&format!("SELECT {what} FROM ks.numbers"));
        let prepared = prepared.expect(what);
        let refused = memory.execute(&prepared, &[], None, None);
        let message = refused.expect_err(what).to_string();
        assert!(message.contains("10000 digits"), "{what}: {message}");
    }
}

/// Writes to the hidden columns of a table `ks.…` WITH COMPACT STORAGE, as Thrift could.
fn write_hidden(memory: &mut Memory, table: &str, key: &str, name: &str) {
    let table = memory.schema.table("ks", table).expect("known").clone();
    let value = table.regulars().next().expect("hidden").id;
    let key = DecoratedKey::new(Bytes::copy_from_slice(key.as_bytes()));
    let mut row = Row::new(Clustering([Bytes::copy_from_slice(name.as_bytes())].into()));
    row.cells.push(Cell {
        column: value,
        path: None,
        timestamp: memory.now_micros,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value: Bytes::from_static(b"hidden"),
    });
    let mut update = PartitionUpdate::new(table, key);
    update.rows.push(row);
    memory.apply(vec![Mutation {
        updates: vec![update],
    }]);
}

/// Rows of a table WITH COMPACT STORAGE without clustering columns that clients of old protocols
/// wrote are there, and hidden: as a Cassandra answers that was given the same.
#[test]
fn hidden_rows_are_not_shown() {
    let mut memory = Memory::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.st (k text PRIMARY KEY, a int, b int) WITH COMPACT STORAGE",
        "INSERT INTO ks.st (k, a, b) VALUES ('both', 1, 2)",
        "INSERT INTO ks.st (k, a) VALUES ('shown', 7)",
    ] {
        run(&mut memory, text);
    }
    for (key, name) in [
        ("both", "x"),
        ("both", "y"),
        ("hidden", "x"),
        ("hidden", "y"),
    ] {
        write_hidden(&mut memory, "st", key, name);
    }
    let text = |value: &str| Some(value.as_bytes().to_vec());
    let number = |value: i32| Some(int(value).to_vec());
    let count = |value: i64| Some(value.to_be_bytes().to_vec());
    let all = vec![
        vec![text("shown"), number(7), None],
        vec![text("both"), number(1), number(2)],
    ];
    let keys = |keys: &[&str]| -> Rows { keys.iter().map(|key| vec![text(key)]).collect() };
    let cases: [(&str, Rows); 11] = [
        ("SELECT * FROM ks.st", all.clone()),
        ("SELECT * FROM ks.st LIMIT 1", all[..1].to_vec()),
        ("SELECT * FROM ks.st PER PARTITION LIMIT 1", all.clone()),
        ("SELECT k FROM ks.st", keys(&["shown", "both"])),
        ("SELECT a FROM ks.st WHERE k = 'hidden'", Vec::new()),
        (
            "SELECT k FROM ks.st WHERE k IN ('hidden', 'both')",
            keys(&["both"]),
        ),
        (
            "SELECT k FROM ks.st WHERE a > 0 ALLOW FILTERING",
            keys(&["shown", "both"]),
        ),
        ("SELECT count(*) FROM ks.st", vec![vec![count(2)]]),
        (
            "SELECT k, count(*) FROM ks.st GROUP BY k",
            vec![vec![text("shown"), count(1)], vec![text("both"), count(1)]],
        ),
        (
            "SELECT DISTINCT k FROM ks.st",
            keys(&["hidden", "shown", "both"]),
        ),
        (
            "SELECT DISTINCT k FROM ks.st WHERE k = 'hidden'",
            keys(&["hidden"]),
        ),
    ];
    for (query, rows) in cases {
        assert_eq!(run(&mut memory, query), rows, "{query}");
        if !query.contains("count(") {
            assert_eq!(pages(&mut memory, query, 1), rows, "{query}");
        }
    }
    run(&mut memory, "DELETE a, b FROM ks.st WHERE k = 'both'");
    assert_eq!(run(&mut memory, "SELECT k FROM ks.st"), keys(&["shown"]));
    run(&mut memory, "DELETE FROM ks.st WHERE k = 'hidden'");
    let distinct = "SELECT DISTINCT k FROM ks.st";
    assert_eq!(run(&mut memory, distinct), keys(&["shown", "both"]));
}

#[test]
fn who_has_not_logged_in_makes_no_superusers() {
    const CREATE: &str = "Only superusers can create a role with superuser status";
    const ALTER: &str = "Only superusers are allowed to alter superuser status";
    const ANONYMOUS: &str = "You have to be logged in and not anonymous to perform this request";
    let memory = with_tables();
    for (text, expected) in [
        ("CREATE ROLE r WITH SUPERUSER = true", CREATE),
        (
            "CREATE ROLE r WITH SUPERUSER = true AND PASSWORD = 'p'",
            CREATE,
        ),
        ("CREATE ROLE r WITH SUPERUSER = false", ANONYMOUS),
        ("CREATE USER u SUPERUSER", CREATE),
        ("CREATE USER u", ANONYMOUS),
        ("ALTER ROLE r WITH SUPERUSER = false", ALTER),
        ("ALTER ROLE r WITH LOGIN = true", ANONYMOUS),
        ("ALTER USER u NOSUPERUSER", ALTER),
        ("DROP ROLE r", ANONYMOUS),
    ] {
        match memory.prepare(text) {
            Err(CqlError::Unauthorized(message)) => assert_eq!(message, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// How many rows each page has.
fn page_lengths(memory: &mut Memory, text: &str, page_size: u32) -> Vec<usize> {
    let prepared = memory.prepare(text).expect("valid");
    let (mut lengths, mut state) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let answer = memory
            .execute(&prepared, &[], Some(page_size), state.as_deref())
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        lengths.push(answer.rows.len());
        state = answer.state;
        if state.is_none() {
            return lengths;
        }
    }
}

/// Clients that ask until a page is not full rely on whether an empty one comes at the end: as Cassandra 5.0.6
/// answers.
#[test]
fn pages_end_where_those_of_cassandra_do() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "CREATE TABLE ks.row (k int PRIMARY KEY, v int)",
    );
    for k in 0..4 {
        run(
            &mut memory,
            &format!("INSERT INTO ks.row (k, v) VALUES ({k}, 1)"),
        );
        for c in 0..4 {
            run(
                &mut memory,
                &format!("INSERT INTO ks.x (k, c, v) VALUES ({k}, {c}, 1)"),
            );
        }
    }
    run(&mut memory, "INSERT INTO ks.x (k, s) VALUES (4, 1)");
    let cases: [(&str, u32, &[usize]); 17] = [
        (
            "SELECT k, count(*) FROM ks.x WHERE k IN (0, 1) GROUP BY k",
            1,
            &[1, 1, 0],
        ),
        (
            "SELECT k, count(*) FROM ks.x WHERE k IN (0, 1) GROUP BY k",
            2,
            &[2, 0],
        ),
        (
            "SELECT k, count(*) FROM ks.x WHERE k IN (0, 1) GROUP BY k LIMIT 2",
            1,
            &[1, 1],
        ),
        ("SELECT k FROM ks.x GROUP BY k", 5, &[5, 0]),
        ("SELECT k FROM ks.x GROUP BY k", 3, &[3, 2]),
        ("SELECT k FROM ks.x WHERE k = 0 GROUP BY k", 1, &[1, 0]),
        ("SELECT k FROM ks.x WHERE k = 4 GROUP BY k", 1, &[1]),
        ("SELECT * FROM ks.x WHERE k = 0", 2, &[2, 2, 0]),
        (
            "SELECT * FROM ks.x WHERE k = 0 PER PARTITION LIMIT 2",
            1,
            &[1, 1],
        ),
        (
            "SELECT * FROM ks.x WHERE k = 0 PER PARTITION LIMIT 2",
            2,
            &[2],
        ),
        (
            "SELECT * FROM ks.x WHERE k = 0 AND c = 1 PER PARTITION LIMIT 1",
            1,
            &[1],
        ),
        ("SELECT * FROM ks.x WHERE k = 0 AND c = 1", 1, &[1, 0]),
        ("SELECT * FROM ks.x WHERE k = 4", 1, &[1]),
        ("SELECT DISTINCT k FROM ks.x WHERE k = 0", 1, &[1]),
        ("SELECT * FROM ks.row WHERE k = 0", 1, &[1]),
        ("SELECT * FROM ks.row WHERE k IN (0, 1)", 1, &[1, 1]),
        ("SELECT * FROM ks.row WHERE k IN (0, 1)", 2, &[2]),
    ];
    for (text, page_size, lengths) in cases {
        assert_eq!(
            page_lengths(&mut memory, text, page_size),
            lengths,
            "{text}, {page_size}"
        );
    }
}

#[test]
fn keys_that_are_too_long_are_measured_as_cassandra_measures_them() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "CREATE TABLE ks.long (a text, b text, c text, d text, PRIMARY KEY ((a, b), c, d))",
    );
    let long = |length: usize| "x".repeat(length);
    let insert = "INSERT INTO ks.long (a, b, c, d) VALUES";
    for (text, length) in [
        (
            format!("{insert} ('{}', 'dog', 'c', 'd')", long(65_535)),
            65_538,
        ),
        // No more than that themselves, but with what joins them.
        (
            format!("{insert} ('{}', 'dog', 'c', 'd')", long(65_530)),
            65_539,
        ),
        (
            format!("{insert} ('a', 'b', '{}', 'd')", long(65_535)),
            65_536,
        ),
        (
            format!(
                "UPDATE ks.two SET v = 1 WHERE a = 1 AND b = '{}' AND c = 1 AND d = 1",
                long(65_536)
            ),
            65_540,
        ),
    ] {
        let prepared = memory.prepare(&text).expect("valid");
        assert_eq!(
            message(
                memory
                    .execute(&prepared, &[], None, None)
                    .map(|answer| answer.rows)
            ),
            format!("Key length of {length} is longer than maximum of 65535")
        );
    }
}

/// Its folder would be longer than file systems take, here and in Cassandra.
#[test]
fn a_name_of_an_index_that_is_too_long_is_refused() {
    let mut memory = with_tables();
    let create = |length: usize| format!("CREATE INDEX {} ON ks.x (v)", "i".repeat(length));
    run(&mut memory, &create(254));
    run(&mut memory, &format!("DROP INDEX ks.{}", "i".repeat(254)));
    let prepared = memory.prepare(&create(255)).expect("valid");
    let refused = message(
        memory
            .execute(&prepared, &[], None, None)
            .map(|answer| answer.rows),
    );
    assert!(
        refused.starts_with("Index name must not be more than 254 characters long (got 255"),
        "{refused}"
    );
}

/// A state is a place in a partition: of another one it means the same place there, as in Cassandra 5.0.6.
#[test]
fn a_state_of_another_partition_goes_on_at_its_place() {
    let mut memory = with_tables();
    for (k, c) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4)] {
        let insert = format!("INSERT INTO ks.x (k, c, v) VALUES ({k}, {c}, 0)");
        run(&mut memory, &insert);
    }
    let first = memory
        .prepare("SELECT c FROM ks.x WHERE k = 1")
        .expect("valid");
    let first = memory.execute(&first, &[], Some(2), None).expect("a page");
    let state = first.state.expect("there is more");
    let mut after = |text: &str| {
        let prepared = memory.prepare(text).expect("valid");
        let answer = memory.execute(&prepared, &[], Some(10), Some(&state));
        answer.expect("a page").rows
    };
    let row = |c: i32| vec![Some(c.to_be_bytes().to_vec())];
    assert_eq!(after("SELECT c FROM ks.x WHERE k = 2"), [row(3), row(4)]);
    let backwards = "SELECT c FROM ks.x WHERE k = 2 ORDER BY c DESC";
    assert_eq!(after(backwards), [row(1)]);
    assert_eq!(after("SELECT c FROM ks.x WHERE k = 9"), Rows::new());
    // Which of several partitions it would be nobody knows.
    assert_eq!(after("SELECT c FROM ks.x WHERE k IN (2, 3)"), Rows::new());
}
