//! The parser: what it takes, what it refuses and in which words, and that no text harms it.

use cql::CqlError;
use cql::ast::{
    AlterTableAction, ArithmeticOperator, Comparison, Conditions, DescribeTarget, InValues, Marker,
    Modification, Operation, RelationTarget, RelationValue, Resource, SelectClause, Selector,
    Statement, Term,
};
use cql::parse;
use proptest::prelude::*;

fn error(text: &str) -> String {
    match parse(text) {
        Err(CqlError::Syntax(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

/// As a Cassandra 5.0.6 answers them: the lines of a statement are joined, and two tokens behind the
/// one where its parser stands are shown if it has looked at them.
#[test]
fn mistakes_in_several_lines() {
    for (text, message) in [
        (
            "select *\nfrom t1\nwhere k=1 x y",
            "line 3:10 no viable alternative at input 'x' (...from t1where k=1 [x]...)",
        ),
        (
            "select *\n from t1 x\n where k = 1",
            "line 2:9 no viable alternative at input 'x' (select * from [t1] x...)",
        ),
        (
            "insert into t1(k)\nvalues (k,\n1)",
            "line 2:9 no viable alternative at input ',' (...into t1(k)values ([k],...)",
        ),
        (
            "create table t9 (\n k int primary key,\n v int x\n)",
            "line 3:7 no viable alternative at input 'x' (... int primary key, v [int] x...)",
        ),
        (
            "select k from t1 where k = 'a\nb' x",
            "line 2:3 no viable alternative at input 'x' (...t1 where k = 'ab' [x])",
        ),
        (
            "\n\nselect k k from t1",
            "line 3:9 no viable alternative at input 'k' (select [k] k...)",
        ),
        (
            "select k from t1\nwhere k = 1 and\n",
            "line 0:-1 no viable alternative at input '<EOF>'",
        ),
        (
            "insert into t1(k) values (\n'a''b' 'c')",
            "line 2:7 no viable alternative at input 'c' (...(k) values ('a''b' [']...)",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

/// As a Cassandra 5.0.6 answers them.
#[test]
fn mistakes_in_the_words_of_cassandra() {
    for (text, message) in [
        (
            "SELECT * FROM ks.t WHERE k = ",
            "line 0:-1 no viable alternative at input '<EOF>'",
        ),
        (
            "SELEC 1",
            "line 1:0 no viable alternative at input 'SELEC' ([SELEC]...)",
        ),
        (";", "line 1:0 no viable alternative at input ';' ([;])"),
        ("SELECT", "line 0:-1 no viable alternative at input '<EOF>'"),
        (
            "DELETE FROM ks.t",
            "line 0:-1 mismatched input '<EOF>' expecting K_WHERE",
        ),
        (
            "INSERT INTO ks.t (k, v) VALUES (1, 'a",
            "line 1:37 mismatched character '<EOF>' expecting '''",
        ),
        (
            "SELECT * FROM ks.t WHERE k = 1; SELECT 1",
            "line 1:32 mismatched input 'SELECT' expecting EOF (... WHERE k = 1; [SELECT]...)",
        ),
        (
            "SELECT * FROM ks.t WHERE k = 1 AND v ! 2",
            "line 1:38 mismatched character ' ' expecting '='",
        ),
        (
            "SELECT $ FROM ks.t",
            "line 1:8 mismatched character ' ' expecting '$'",
        ),
        (
            "SELECT @ FROM ks.t",
            "line 1:7 no viable alternative at character '@'",
        ),
        (
            "SELECT k FROM ks.t // c",
            "line 1:23 mismatched character '<EOF>' expecting set null",
        ),
        (
            "UPDATE ks.t SET v = 1 , w = WHERE k = 1",
            "line 1:28 no viable alternative at input 'WHERE' (...= 1 , w = [WHERE]...)",
        ),
        (
            "SELECT k AS \"\" FROM ks.t",
            "line 1:12 no viable alternative at input '\"\"' (SELECT k AS [\"\"]...)",
        ),
        (
            "USE ks.t",
            "line 1:6 mismatched input '.' expecting EOF (USE ks[.]...)",
        ),
        (
            "BEGIN BATCH SELECT 1 APPLY BATCH",
            "line 1:12 mismatched input 'SELECT' expecting K_APPLY (BEGIN BATCH [SELECT]...)",
        ),
        (
            "SELECT * FROM ks.t ORDER k",
            "line 1:25 mismatched input 'k' expecting K_BY (...* FROM ks.t ORDER [k])",
        ),
        ("USE ?", "Bind variables cannot be used for keyspace names"),
        (
            "SELECT * FROM ? ",
            "Bind variables cannot be used for table names",
        ),
        (
            "CREATE KEYSPACE z WITH replication = {'class': ?}",
            "Invalid property value: ? for property: 'class' (bind variables are not supported in DDL queries)",
        ),
        (
            "CREATE KEYSPACE z WITH replication = {'class': 'a', 'class': 'b'}",
            "Multiple definition for property class",
        ),
        (
            "UPDATE ks.t SET v = 1, v = 2 WHERE k = 1",
            "Multiple incompatible setting of column v",
        ),
        (
            "UPDATE ks.t SET v = w + 1 WHERE k = 1",
            "Only expressions of the form X = X +<value> are supported.",
        ),
        (
            "UPDATE ks.t SET v = w -1 WHERE k = 1",
            "Only expressions of the form X = X - <value> are supported.",
        ),
        (
            "UPDATE ks.t SET v = 1 + w WHERE k = 1",
            "Only expressions of the form X = <value> + X are supported.",
        ),
        (
            "GRANT SELECT ON ALL ROLES TO x",
            "Resource type RoleResource does not support any of the requested permissions",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn statements_that_cassandra_5_0_does_not_take() {
    for text in [
        "CREATE SCHEMA z WITH replication = {}",
        "LIST SUPERUSERS",
        "SELECT * FROM t WHERE k NOT IN (1, 2)",
        "CREATE ROLE r WITH GENERATED PASSWORD",
        "CREATE TABLE chk (k int PRIMARY KEY, v int CHECK v > 1)",
        "SELECT 1 -2 FROM t",
        "SELECT k-1 FROM t",
        "INSERT INTO t (k, v) VALUES (1, .5)",
        "INSERT INTO t (k, v) VALUES (1, 2) IF EXISTS",
        "INSERT INTO t (k) VALUES ()",
        "SELECT * FROM t WHERE k == 1",
        "SELECT * FROM t LIMIT 1.5",
        "CREATE TYPE ks.date (a int)",
        "CREATE TYPE ks.byte (a int)",
        "CREATE USER \"x\"",
        "SELECT min(*) FROM t",
        "SELECT token FROM t",
        "SELECT CAST(k AS foo) FROM t",
    ] {
        error(text);
    }
}

#[test]
fn every_statement_of_the_grammar() {
    for text in include_str!("statements.cql").split(";\n") {
        let text = text.trim();
        if !text.is_empty() {
            parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }
}

fn select(text: &str) -> cql::ast::Select {
    match parse(text) {
        Ok(Statement::Select(select)) => select,
        other => panic!("{text}: {other:?}"),
    }
}

fn selectors(text: &str) -> Vec<Selector> {
    match select(&format!("SELECT {text} FROM t")).selection {
        SelectClause::Items(items) => items.into_iter().map(|item| item.selector).collect(),
        SelectClause::Wildcard => panic!("{text}"),
    }
}

#[test]
fn words_that_are_both_keywords_and_columns() {
    assert_eq!(selectors("json"), [Selector::Column("json".into())]);
    assert_eq!(selectors("distinct, ttl").len(), 2);
    assert_eq!(
        selectors("Count, WRITETIME")[1],
        Selector::Column("writetime".into())
    );
    let json = select("SELECT JSON json FROM t");
    assert!(json.json);
    let distinct = select("SELECT JSON DISTINCT distinct FROM t");
    assert!(distinct.json && distinct.distinct);
    assert_eq!(
        selectors("\"Ab\"\"c\", AB")[0],
        Selector::Column("Ab\"c".into())
    );
    assert_eq!(
        selectors("\"Ab\"\"c\", AB")[1],
        Selector::Column("ab".into())
    );
}

#[test]
fn selectors_bind_as_they_should() {
    let Selector::Operation { operator, left, .. } = &selectors("a - b - c * d")[0] else {
        panic!();
    };
    assert_eq!(*operator, ArithmeticOperator::Subtract);
    assert!(matches!(**left, Selector::Operation { .. }));
    for text in [
        "a + b * c",
        "(int)1",
        "cast(a as text)",
        "ks.f(a, 1)",
        "a.b.c",
        "m['a'..'b']",
        "m[..'b']",
        "m['a'..]",
        "[a, b]",
        "{a, b}",
        "{a: b}",
        "(a, b)",
        "writetime(m['a'])",
        "-a",
        "\"A\"",
    ] {
        assert_eq!(selectors(text)[0].to_string(), text);
    }
}

#[test]
fn markers_are_numbered_in_the_order_of_the_text() {
    let select = select("SELECT (int)? FROM t WHERE k IN :a AND (c, d) > (?, :b) LIMIT ?");
    let RelationValue::In(InValues::Marker(marker)) = &select.relations[0].value else {
        panic!();
    };
    let named = |index, name: &str| Marker {
        index,
        name: Some(name.to_owned()),
    };
    assert_eq!(*marker, named(1, "a"));
    let RelationValue::Term(Term::Tuple(items)) = &select.relations[1].value else {
        panic!();
    };
    assert_eq!(items[1], Term::Marker(named(3, "b")));
    assert_eq!(
        select.limit,
        Some(Term::Marker(Marker {
            index: 4,
            name: None
        }))
    );
}

#[test]
fn relations_of_all_forms() {
    let relations = select(
        "SELECT * FROM t WHERE (a = 1) AND (b) = (2) AND token(a) > 3 AND m['x'] = 4 \
         AND c CONTAINS KEY 5 AND d IS NOT NULL AND (e, f) IN ((1, 2), (3, 4)) AND expr(i, 'x')",
    )
    .relations;
    let column = |name: &str| RelationTarget::Column(name.to_owned());
    assert_eq!(relations[0].target, column("a"));
    assert_eq!(
        relations[1].target,
        RelationTarget::Columns(vec!["b".into()])
    );
    assert_eq!(relations[2].target, RelationTarget::Token(vec!["a".into()]));
    assert!(matches!(relations[3].target, RelationTarget::Element(..)));
    assert_eq!(relations[4].comparison, Comparison::ContainsKey);
    assert_eq!(relations[5].comparison, Comparison::IsNot);
    assert_eq!(relations[6].comparison, Comparison::In);
    assert!(matches!(relations[7].target, RelationTarget::Expression(_)));
}

#[test]
fn assignments_of_all_forms() {
    let text = "UPDATE t SET a = 1, b = b + 2, c = c -3, d = [4] + d, e += 5, f -= 6, g[7] = 8, \
                h.x = 9, i = f(1) + i WHERE k = 1 IF EXISTS";
    let Ok(Statement::Modification(Modification::Update(update))) = parse(text) else {
        panic!();
    };
    let kinds: Vec<&str> = update
        .assignments
        .iter()
        .map(|assignment| match &assignment.operation {
            Operation::Set(_) => "set",
            Operation::SetElement(..) => "element",
            Operation::SetField(..) => "field",
            Operation::Add(_) => "add",
            Operation::Subtract(_) => "subtract",
            Operation::Prepend(_) => "prepend",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "set", "add", "add", "prepend", "add", "subtract", "element", "field", "prepend"
        ]
    );
    assert_eq!(update.conditions, Conditions::Exists);
}

#[test]
fn a_few_shapes_of_other_statements() {
    let Ok(Statement::CreateTable(table)) = parse(
        "CREATE TABLE IF NOT EXISTS ks.t (a int, b frozen<list<ut>>, c text STATIC MASKED WITH \
         mask_inner(1, 1), PRIMARY KEY ((a, b), c),) WITH CLUSTERING ORDER BY (c DESC) \
         AND comment = 'x' AND compaction = {'class': 'y'} AND COMPACT STORAGE",
    ) else {
        panic!();
    };
    assert_eq!((table.columns.len(), table.primary_keys.len()), (3, 1));
    assert_eq!(table.primary_keys[0].partition, ["a", "b"]);
    assert!(table.compact_storage && table.columns[2].is_static);
    assert_eq!(table.properties.len(), 2);
    let Ok(Statement::AlterTable(alter)) = parse("ALTER TABLE t DROP (a, b) USING TIMESTAMP -5")
    else {
        panic!();
    };
    let AlterTableAction::Drop {
        columns, timestamp, ..
    } = alter.action
    else {
        panic!();
    };
    assert_eq!((columns.len(), timestamp), (2, Some(-5)));
    let Ok(Statement::GrantPermissions(grant)) = parse("GRANT ALL ON role TO x") else {
        panic!();
    };
    assert!(matches!(grant.resource, Resource::Table(_)));
    assert!(matches!(
        parse("GRANT all TO x"),
        Ok(Statement::GrantRole { .. })
    ));
    let Ok(Statement::Describe(describe)) = parse("DESC tables.x WITH INTERNALS") else {
        panic!();
    };
    assert!(matches!(describe.target, DescribeTarget::Generic(_)) && describe.with_internals);
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("f(", ")"),
        ("-", ""),
        ("(int)", ""),
    ] {
        let inner = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        error(&format!("SELECT {inner} FROM t"));
        error(&format!("SELECT * FROM t WHERE k = {inner}"));
    }
    error(&format!(
        "SELECT * FROM t WHERE {}k = 1",
        "(".repeat(100_000)
    ));
    error(&format!("CREATE TABLE t (k {}int", "list<".repeat(100_000)));
    error(&format!("SELECT a{} FROM t", " + a".repeat(100_000)));
    error(&format!("SELECT a{} FROM t", ".a".repeat(100_000)));
    error(&format!(
        "INSERT INTO t (k) VALUES (1{})",
        " * 1".repeat(100_000)
    ));
    // What is wide, not deep, is fine.
    parse(&format!(
        "INSERT INTO t (k) VALUES ({}1)",
        "1 + 1,".repeat(100_000)
    ))
    .expect("wide");
}

/// Pieces of statements, so that random texts get deep into the grammar.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "SELECT",
        "INSERT INTO",
        "UPDATE",
        "DELETE",
        "FROM",
        "WHERE",
        "SET",
        "VALUES",
        "USING",
        "TTL",
        "TIMESTAMP",
        "AND",
        "IF",
        "NOT",
        "EXISTS",
        "IN",
        "CONTAINS KEY",
        "LIKE",
        "IS",
        "NULL",
        "JSON",
        "DISTINCT",
        "count",
        "*",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "=",
        "+",
        "-",
        "/",
        "%",
        ",",
        ".",
        "..",
        ":",
        ";",
        "?",
        ":a",
        "k",
        "v",
        "\"Q\"",
        "\"\"",
        "'s'",
        "$$s$$",
        "1",
        "-1",
        "1.5",
        "1..2",
        "0xca",
        "1y2d",
        "NaN",
        "-Infinity",
        "true",
        "f(",
        "token(",
        "expr(",
        "cast(",
        "AS",
        "int",
        "text",
        "map<",
        "frozen<",
        "CREATE",
        "ALTER",
        "DROP",
        "TABLE",
        "KEYSPACE",
        "TYPE",
        "INDEX",
        "FUNCTION",
        "AGGREGATE",
        "ROLE",
        "USER",
        "MATERIALIZED VIEW",
        "PRIMARY KEY",
        "WITH",
        "ON",
        "TO",
        "OF",
        "GRANT",
        "REVOKE",
        "LIST",
        "ALL",
        "PERMISSIONS",
        "DESCRIBE",
        "BEGIN BATCH",
        "APPLY BATCH",
        "LIMIT",
        "ORDER BY",
        "GROUP BY",
        "PER PARTITION LIMIT",
        "ALLOW FILTERING",
        "!",
        "@",
        "--",
        "/*",
        "\u{b5}",
        "'",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn any_pieces_are_parsed_or_refused(text in pieces()) {
        let _ = parse(&text);
    }

    /// What a term prints as reads as the same term.
    #[test]
    fn terms_print_as_they_read(text in term()) {
        let read = cql::parse_term(&text).expect("made of valid parts");
        let again = cql::parse_term(&read.to_string()).expect("what was printed");
        prop_assert_eq!(read, again);
    }
}

/// Terms without quotes in strings and without bind markers' names: `Display` is for messages.
fn term() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "-2",
        "3.5",
        "true",
        "'abc'",
        "0xcafe",
        "1y2mo",
        "NaN",
        "-Infinity",
        "NULL",
        "f()",
        "01234567-89ab-cdef-0123-456789abcdef",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let many = prop::collection::vec(inner.clone(), 1..4).prop_map(|items| items.join(", "));
        prop_oneof![
            many.clone().prop_map(|items| format!("[{items}]")),
            many.clone().prop_map(|items| format!("{{{items}}}")),
            many.clone().prop_map(|items| format!("ks.f({items})")),
            (many, inner.clone()).prop_map(|(items, last)| format!("({items}, {last})")),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| format!("{{{k}: {v}}}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{a: {a}, \"B\": {b}}}")),
            inner.prop_map(|item| format!("(frozen<list<int>>)f({item})")),
        ]
    })
}
