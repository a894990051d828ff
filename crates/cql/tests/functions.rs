//! User-defined functions, in a language of two words: what is evaluated again after a function gave
//! way gives the same as if it had not.

mod memory;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use cql::functions::{DISABLED, FunctionLanguage, Outcome, SuspendedCall};
use cql::{CqlError, Plan};
use memory::Memory;
use model::UserFunction;
use proptest::prelude::*;

/// Functions that add up their arguments (`sum`), nulls being 100, or fail (`fail`). Of the calls each
/// gives way so often as the bits of a number say.
#[derive(Debug, Default)]
struct Adding {
    patience: Cell<u64>,
    calls: Cell<u32>,
}

#[derive(Debug)]
struct Left(u32, i32);

impl SuspendedCall for Left {
    fn resume(self: Box<Self>) -> Result<Outcome, String> {
        Ok(match self.0 {
            0 => Outcome::Value(Some(Bytes::copy_from_slice(&self.1.to_be_bytes()))),
            left => Outcome::GaveWay(Box::new(Left(left - 1, self.1))),
        })
    }
}

impl FunctionLanguage for Adding {
    fn names(&self) -> &[(&str, &str)] {
        &[("adding", "Adding")]
    }

    fn check(&self, function: &UserFunction) -> Result<(), String> {
        match &*function.body {
            "sum" | "fail" => Ok(()),
            other => Err(format!("{other}?")),
        }
    }

    fn begin_turn(&self) {}

    fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<Bytes>],
        _: bool,
    ) -> Result<Outcome, String> {
        self.calls.set(self.calls.get() + 1);
        if &*function.body == "fail" {
            return Err("failed".to_owned());
        }
        let number = |value: &Option<Bytes>| match value {
            Some(value) => i32::from_be_bytes(value[..].try_into().expect("an int")),
            None => 100,
        };
        let sum = arguments.iter().map(number).sum();
        let turns = (self.patience.get() & 3) as u32;
        self.patience.set(self.patience.get().rotate_right(2));
        Box::new(Left(turns, sum)).resume()
    }
}

fn run(memory: &mut Memory, text: &str) -> Result<Vec<Vec<Option<i64>>>, CqlError> {
    let prepared = memory.prepare(text)?;
    let rows = memory.execute(&prepared, &[], None, None)?.rows;
    Ok(rows.into_iter().map(numbers).collect())
}

fn numbers(row: Vec<Option<Vec<u8>>>) -> Vec<Option<i64>> {
    let number = |bytes: Vec<u8>| bytes.iter().fold(0, |n, byte| n << 8 | i64::from(*byte));
    row.into_iter().map(|cell| cell.map(number)).collect()
}

fn with_functions() -> (Memory, Rc<Adding>) {
    let mut memory = Memory::new();
    let language = Rc::new(Adding::default());
    memory.language = Some(language.clone());
    let function = |name: &str, arguments: &str, on_null: &str, body: &str| {
        format!(
            "CREATE FUNCTION ks.{name}({arguments}) {on_null} ON NULL INPUT RETURNS int LANGUAGE \
             adding AS '{body}'"
        )
    };
    let (called, not) = ("CALLED", "RETURNS NULL");
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
        &function("inc", "a int", not, "sum"),
        &function("plus", "a int, b int", called, "sum"),
        &function("strict", "a int, b int", not, "sum"),
        &function("boom", "a int", called, "fail"),
        "CREATE AGGREGATE ks.total(int) SFUNC plus STYPE int INITCOND 0",
        "CREATE AGGREGATE ks.finished(int) SFUNC strict STYPE int FINALFUNC inc INITCOND 1",
        "CREATE AGGREGATE ks.from_null(int) SFUNC plus STYPE int",
    ] {
        run(&mut memory, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    (memory, language)
}

const QUERIES: [&str; 8] = [
    "SELECT k, c, ks.plus(c, v), ks.inc(ks.plus(v, 1)), ks.strict(v, c) FROM ks.t",
    "SELECT ks.inc(c) FROM ks.t WHERE k = ks.plus(1, 1) LIMIT 3",
    "SELECT ks.total(v), count(v), ks.finished(v), sum(c), ks.from_null(c) FROM ks.t",
    "SELECT k, ks.total(v), max(c), ks.finished(c), plus(total(c), 1) FROM ks.t GROUP BY k",
    "SELECT k, c, ks.total(v), ks.total(ks.inc(c)) FROM ks.t GROUP BY k, c LIMIT 5",
    "SELECT ks.inc(c) FROM ks.t PER PARTITION LIMIT 2",
    "SELECT ks.plus(k, c) FROM ks.t WHERE k IN (0, 1, 2) ORDER BY c DESC",
    "SELECT ks.total(v) FROM ks.t WHERE k = 99",
];

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 64,
        ..ProptestConfig::default()
    })]

    #[test]
    fn who_gives_way_changes_nothing(
        rows in prop::collection::vec((0..4i32, 0..6i32, prop::option::of(0..9i32)), 0..24),
        patience: u64,
        page_size in 1..6u32,
    ) {
        let (mut memory, language) = with_functions();
        for (k, c, v) in rows {
            let v = v.map_or("null".to_owned(), |v| format!("ks.plus({v}, 1)"));
            language.patience.set(patience);
            let text = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, ks.plus({c}, 0), {v})");
            prop_assert_eq!(run(&mut memory, &text), Ok(Vec::new()));
        }
        for query in QUERIES {
            language.patience.set(0);
            language.calls.set(0);
            let whole = run(&mut memory, query).expect(query);
            let calls = language.calls.replace(0);
            language.patience.set(patience);
            let again = run(&mut memory, query).expect(query);
            prop_assert_eq!(&again, &whole, "{}", query);
            prop_assert_eq!(language.calls.get(), calls, "{}: none is called twice", query);
            if !query.contains("ORDER BY") {
                prop_assert_eq!(pages(&mut memory, query, page_size), whole, "{}", query);
            }
        }
    }
}

fn pages(memory: &mut Memory, text: &str, page_size: u32) -> Vec<Vec<Option<i64>>> {
    let prepared = memory.prepare(text).expect(text);
    let (mut rows, mut state) = (Vec::new(), None);
    loop {
        let page = memory.execute(&prepared, &[], Some(page_size), state.as_deref());
        let page = page.expect(text);
        rows.extend(page.rows.into_iter().map(numbers));
        state = page.state;
        if state.is_none() {
            return rows;
        }
    }
}

/// What Cassandra 5.0.6 answers to the same, with functions in Java.
#[test]
fn nulls_are_what_they_are_to_cassandra() {
    let (mut memory, _) = with_functions();
    for (c, v) in [(1, "10"), (2, "null")] {
        let text = format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, {v})");
        run(&mut memory, &text).expect("it fits");
    }
    for (text, row) in [
        // The state function is not called for a null, and the state stays.
        ("SELECT ks.finished(v) FROM ks.t", vec![Some(11)]),
        ("SELECT ks.total(v) FROM ks.t", vec![Some(110)]),
        // Of no rows the final function is called for the first state.
        (
            "SELECT ks.finished(v), ks.from_null(v) FROM ks.t WHERE k = 9",
            vec![Some(1), None],
        ),
        (
            "SELECT ks.inc(v) FROM ks.t WHERE k = 1 AND c = 2",
            vec![None],
        ),
    ] {
        assert_eq!(run(&mut memory, text), Ok(vec![row]), "{text}");
    }
}

#[test]
fn mistakes_are_told_as_cassandra_tells_them() {
    let (mut memory, _) = with_functions();
    run(&mut memory, "INSERT INTO ks.t (k, c) VALUES (1, 1)").expect("it fits");
    let function = "ks.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE adding AS 'sum'";
    for (text, error) in [
        (
            "CREATE FUNCTION ks.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE adding AS 'x'",
            "Adding source compilation failed:\nx?",
        ),
        (
            &format!("CREATE OR REPLACE FUNCTION IF NOT EXISTS {function}"),
            "Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives",
        ),
        (
            "DROP FUNCTION ks.plus",
            "Function 'ks.plus' is still referenced by aggregates ks.from_null, ks.total",
        ),
        (
            "DROP AGGREGATE ks.plus",
            "Aggregate 'ks.plus' doesn't exist",
        ),
        ("SELECT ks.nope(v) FROM ks.t", "Unknown function 'ks.nope'"),
        (
            "SELECT ks.inc(v, v) FROM ks.t",
            "Invalid number of arguments in call to function ks.inc: 1 required but 2 provided",
        ),
        (
            "SELECT ks.total(total(v)) FROM ks.t",
            "aggregate functions cannot be used as arguments of aggregate functions",
        ),
    ] {
        let found = run(&mut memory, text).expect_err(text);
        assert_eq!(found, CqlError::Invalid(error.to_owned()), "{text}");
    }
    let failed = CqlError::Function {
        keyspace: "ks".to_owned(),
        function: "boom".to_owned(),
        argument_types: vec!["int".to_owned()],
        message: "failed".to_owned(),
    };
    assert_eq!(run(&mut memory, "SELECT ks.boom(v) FROM ks.t"), Err(failed));
    memory.language = None;
    let off = Err(CqlError::Invalid(DISABLED.to_owned()));
    assert_eq!(
        run(&mut memory, &format!("CREATE FUNCTION {function}")),
        off
    );
    assert_eq!(run(&mut memory, "SELECT ks.inc(c) FROM ks.t"), off);
}

#[test]
fn plans_of_a_function_that_changed_are_stale() {
    let (mut memory, _) = with_functions();
    let prepared = [
        "SELECT ks.inc(v) FROM ks.t",
        "SELECT ks.finished(v) FROM ks.t",
        "SELECT v FROM ks.t",
    ];
    let prepared = prepared.map(|text| memory.prepare(text).expect(text));
    let valid = |memory: &Memory| prepared.each_ref().map(|p| p.is_valid_in(&memory.schema));
    assert_eq!(valid(&memory), [true, true, true]);
    let replace = "CREATE OR REPLACE FUNCTION ks.inc(a int) RETURNS NULL ON NULL INPUT RETURNS int \
                   LANGUAGE adding AS 'fail'";
    run(&mut memory, replace).expect("it fits");
    // `finished` calls it at its end.
    assert_eq!(valid(&memory), [false, false, true]);
    assert!(matches!(prepared[0].plan, Plan::Select(_)));
}

/// What Cassandra 5.0.6 answers to the same, with functions in Java.
#[test]
fn first_states_are_evaluated_when_they_are_said() {
    let (mut memory, language) = with_functions();
    let aggregate = |name: &str, state: &str, initial: &str| {
        format!("CREATE AGGREGATE ks.{name}(int) SFUNC {state} STYPE int INITCOND {initial}")
    };
    for (initial, state) in [
        ("inc(3)", Some(3)),
        ("ks.plus(ks.inc(1), plus(1, 2))", Some(4)),
        ("1 + inc(1)", Some(2)),
        ("(int) inc(1)", Some(1)),
        ("plus(null, 1)", Some(101)),
        ("blob_as_int(0x00000005)", Some(5)),
    ] {
        language.patience.set(0b11_10_01);
        run(&mut memory, &aggregate("a", "plus", initial)).expect(initial);
        let rows = run(&mut memory, "SELECT ks.a(v) FROM ks.t");
        assert_eq!(rows, Ok(vec![vec![state]]), "{initial}");
        run(&mut memory, "DROP AGGREGATE ks.a").expect("it is there");
    }
    const EMPTY: &str = "INITCOND must not be empty for all types except TEXT, ASCII, BLOB";
    for (state, initial, error) in [
        ("plus", "inc(null)", EMPTY),
        ("strict", "inc(null)", EMPTY),
        ("plus", "nosuch(1)", "Unknown function nosuch called"),
        (
            "plus",
            "system.inc(1)",
            "Unknown function system.inc called",
        ),
        (
            "plus",
            "inc('x')",
            "Type error: 'x' cannot be passed as argument 0 of function ks.inc of type int",
        ),
        (
            "plus",
            "total(1)",
            "Aggregation function are not supported in the where clause",
        ),
        (
            "plus",
            "now()",
            "Type error: cannot assign result of function system.now (type timeuuid) to (dummy) \
             (type int)",
        ),
    ] {
        let found = run(&mut memory, &aggregate("a", state, initial)).expect_err(initial);
        assert_eq!(found, CqlError::Invalid(error.to_owned()), "{initial}");
    }
    let failed = run(&mut memory, &aggregate("a", "plus", "boom(1)"));
    assert!(
        matches!(failed, Err(CqlError::Function { .. })),
        "{failed:?}"
    );
}
