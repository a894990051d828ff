//! CQL that came after Cassandra 5.0.6: `BETWEEN`, `minwritetime`, `CREATE TABLE … LIKE`. There is no
//! server of that version to ask: each is held to statements of 5.0 that mean the same.

mod memory;

use cql::CqlError;
use memory::Memory;

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn run(memory: &mut Memory, text: &str) -> Result<Rows, CqlError> {
    let prepared = memory.prepare(text)?;
    Ok(memory.execute(&prepared, &[], None, None)?.rows)
}

fn all(memory: &mut Memory, texts: &[&str]) {
    for text in texts {
        run(memory, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// A node with a table of three partitions, each of 3 × 4 rows.
fn with_rows() -> Memory {
    let mut memory = Memory::new();
    all(
        &mut memory,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
            "CREATE KEYSPACE other WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
            "CREATE TABLE ks.t (k int, c int, d int, v int, between int, PRIMARY KEY (k, c, d)) WITH \
             CLUSTERING ORDER BY (c DESC, d ASC)",
        ],
    );
    for i in 0..36 {
        let (k, c, d) = (i / 12, i / 4 % 3, i % 4);
        let text = format!(
            "INSERT INTO ks.t (k, c, d, v, between) VALUES ({k}, {c}, {d}, {}, {d})",
            i * 7 % 10
        );
        all(&mut memory, &[&text]);
    }
    memory
}

#[test]
fn between_is_a_slice_with_both_ends() {
    let mut memory = with_rows();
    let cases = [
        ("k = 1 AND c BETWEEN 0 AND 1", "k = 1 AND c >= 0 AND c <= 1"),
        ("k = 1 AND c BETWEEN 1 AND 1", "k = 1 AND c = 1"),
        (
            "k = 1 AND c = 2 AND d BETWEEN 1 AND 2",
            "k = 1 AND c = 2 AND d IN (1, 2)",
        ),
        (
            "k IN (0, 2) AND (c, d) BETWEEN (0, 2) AND (1, 1)",
            "k IN (0, 2) AND (c, d) >= (0, 2) AND (c, d) <= (1, 1)",
        ),
        (
            "token(k) BETWEEN token(1) AND token(1)",
            "token(k) >= token(1) AND token(k) <= token(1)",
        ),
        (
            "v BETWEEN 3 AND 5 AND d = 2 ALLOW FILTERING",
            "v >= 3 AND d = 2 AND v <= 5 ALLOW FILTERING",
        ),
        (
            "between BETWEEN 1 AND 2 ALLOW FILTERING",
            "d IN (1, 2) ALLOW FILTERING",
        ),
    ];
    for (between, slice) in cases {
        let mut rows = |relations: &str| {
            let text = format!("SELECT * FROM ks.t WHERE {relations}");
            run(&mut memory, &text).unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let expected = rows(slice);
        assert!(!expected.is_empty(), "{slice}");
        assert_eq!(rows(between), expected, "{between}");
    }
    let empty = run(
        &mut memory,
        "SELECT * FROM ks.t WHERE k = 1 AND c BETWEEN 2 AND 0",
    );
    assert_eq!(empty, Ok(Vec::new()));
}

#[test]
fn between_deletes_a_range_and_says_what_it_cannot() {
    let mut memory = with_rows();
    all(
        &mut memory,
        &["DELETE FROM ks.t WHERE k = 1 AND c BETWEEN 0 AND 1"],
    );
    let left = run(&mut memory, "SELECT d FROM ks.t WHERE k = 1").expect("valid");
    assert_eq!(left.len(), 4);
    for (statement, problem) in [
        (
            "SELECT * FROM ks.t WHERE k = 1 AND c BETWEEN 0 AND 1 AND c > 0",
            "More than one restriction was found for the start bound on c",
        ),
        (
            "SELECT * FROM ks.t WHERE k BETWEEN 0 AND 1",
            "ALLOW FILTERING",
        ),
        (
            "SELECT * FROM ks.t WHERE k = 1 AND c BETWEEN 0",
            "mismatched input",
        ),
        (
            "SELECT * FROM ks.t WHERE k = 1 AND c BETWEEN 'a' AND 1",
            "c",
        ),
        (
            "UPDATE ks.t SET v = 1 WHERE k = 1 AND c BETWEEN 0 AND 1 AND d = 1",
            "d",
        ),
    ] {
        let error = run(&mut memory, statement).expect_err(statement);
        assert!(error.to_string().contains(problem), "{statement}: {error}");
    }
}

#[test]
fn minwritetime_is_the_first_time_of_all_cells() {
    let mut memory = with_rows();
    all(
        &mut memory,
        &[
            "CREATE TABLE ks.w (k int PRIMARY KEY, m map<int, int>, v int)",
            "UPDATE ks.w USING TIMESTAMP 20 SET m = {1: 1}, v = 1 WHERE k = 1",
            "UPDATE ks.w USING TIMESTAMP 30 SET m[2] = 2 WHERE k = 1",
            "UPDATE ks.w USING TIMESTAMP 40 SET m[3] = 3 WHERE k = 1",
        ],
    );
    let rows = run(
        &mut memory,
        "SELECT minwritetime(m), maxwritetime(m), minwritetime(v), minwritetime(m[2..]) FROM ks.w",
    );
    let times: Vec<Option<Vec<u8>>> = [20_i64, 40, 20, 30]
        .iter()
        .map(|time| Some(time.to_be_bytes().to_vec()))
        .collect();
    assert_eq!(rows, Ok(vec![times]));
}

#[test]
fn a_table_like_another_has_its_form_and_options_and_none_of_its_rows() {
    let mut memory = with_rows();
    all(
        &mut memory,
        &[
            "CREATE TYPE ks.inner (a int)",
            "CREATE TYPE ks.outer (i frozen<inner>, t text)",
            "CREATE TABLE ks.src (k int PRIMARY KEY, c frozen<outer>)",
            "ALTER TABLE ks.t DROP between",
            "ALTER TABLE ks.t WITH comment = 'mine' AND gc_grace_seconds = 60",
            "CREATE TABLE ks.copy LIKE ks.t WITH gc_grace_seconds = 70",
            "CREATE TABLE IF NOT EXISTS ks.copy LIKE ks.t",
            "CREATE TYPE other.inner (a int)",
            "CREATE TYPE other.outer (i frozen<inner>, t text)",
            "CREATE TABLE other.src LIKE ks.src",
            "INSERT INTO other.src (k, c) VALUES (1, {i: {a: 3}, t: 'x'})",
            "INSERT INTO ks.copy (k, c, d, v) VALUES (1, 1, 1, 1)",
        ],
    );
    let copy = memory.schema.keyspaces["ks"].tables["copy"].clone();
    let source = memory.schema.keyspaces["ks"].tables["t"].clone();
    assert_ne!(copy.id, source.id);
    assert_eq!(copy.options.gc_grace_seconds, 70);
    assert_eq!(copy.options.comment, "mine");
    assert!(copy.dropped.is_empty());
    assert_eq!(
        copy.columns()
            .map(|c| (&c.name, &c.ty, c.kind, c.order))
            .collect::<Vec<_>>(),
        source
            .columns()
            .map(|c| (&c.name, &c.ty, c.kind, c.order))
            .collect::<Vec<_>>(),
    );
    let rows = run(&mut memory, "SELECT * FROM ks.copy").expect("valid");
    assert_eq!(rows.len(), 1);
    let types = &memory.schema.keyspaces["other"];
    let column = types.tables["src"].column_named("c").expect("copied");
    assert!(
        matches!(&column.ty, model::CqlType::Udt { definition, .. } if *definition == types.types["outer"])
    );
}

#[test]
fn what_a_table_cannot_be_like_is_refused() {
    let mut memory = with_rows();
    all(
        &mut memory,
        &[
            "CREATE TYPE ks.inner (a int)",
            "CREATE TABLE ks.src (k int PRIMARY KEY, c frozen<inner>)",
        ],
    );
    let mut refused = |statement: &str, problem: &str| {
        let error = run(&mut memory, statement).expect_err(statement);
        assert!(error.to_string().contains(problem), "{statement}: {error}");
    };
    refused(
        "CREATE TABLE ks.n LIKE ks.none",
        "Source Table 'ks.none' doesn't exist",
    );
    refused(
        "CREATE TABLE ks.n LIKE none.t",
        "Source Keyspace 'none' doesn't exist",
    );
    refused(
        "CREATE TABLE none.n LIKE ks.t",
        "Target Keyspace 'none' doesn't exist",
    );
    refused(
        "CREATE TABLE ks.n LIKE system.local",
        "Source Keyspace 'system' doesn't exist",
    );
    refused("CREATE TABLE ks.src LIKE ks.t", "already existing table");
    refused("CREATE TABLE ks.n LIKE ks.t WITH nonsense = 1", "nonsense");
    refused(
        "CREATE TABLE ks.n LIKE ks.t WITH id = 5b0a5b0a-0000-0000-0000-000000000000",
        "id",
    );
    refused(
        "CREATE TABLE system.n LIKE ks.t",
        "system keyspace is not user-modifiable",
    );
    refused(
        "CREATE TABLE other.n LIKE ks.src",
        "UDTs inner do not exist in target keyspace 'other'",
    );
    all(&mut memory, &["CREATE TYPE other.inner (a bigint)"]);
    let error = run(&mut memory, "CREATE TABLE other.n LIKE ks.src").expect_err("differs");
    assert!(
        error.to_string().contains("but with different structure"),
        "{error}"
    );
}
