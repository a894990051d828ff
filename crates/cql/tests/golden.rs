//! Statements with the answers of Cassandra 5.0.6, written down by asking one.
//!
//! After each statement: `! code message` for an error; `= name type, …` for the columns of a
//! result and `| cell cell …` for its rows, in hexadecimal; after PREPARE also `? keyspace.table.name
//! type, …` for the bind markers and `# index …` for those of the partition key. `WITH value …: `
//! before a statement are its bound values, in hexadecimal, `null` or `unset`. Answers to files that
//! name no server as their source can be had again with `oracle/ask.sh`.

mod memory;

use cql::{ColumnSpec, Value};
use memory::{Memory, driver_name};

fn columns(specs: &[ColumnSpec]) -> String {
    let texts: Vec<String> = specs
        .iter()
        .map(|spec| format!("{} {}", spec.name, driver_name(&spec.ty)))
        .collect();
    texts.join(", ")
}

fn cell(cell: &Option<Vec<u8>>) -> String {
    match cell {
        None => "null".to_owned(),
        Some(bytes) if bytes.is_empty() => "''".to_owned(),
        Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The bytes of hexadecimal digits; of what is none, nothing.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map_while(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

fn answer(memory: &mut Memory, statement: &str) -> Result<Vec<String>, cql::CqlError> {
    let mut lines = Vec::new();
    if let Some(text) = statement.strip_prefix("PREPARE ") {
        let prepared = memory.prepare(text)?;
        let markers: Vec<String> = prepared
            .bind_variables
            .iter()
            .map(|spec| {
                let ty = driver_name(&spec.ty);
                format!("{}.{}.{} {ty}", spec.keyspace, spec.table, spec.name)
            })
            .collect();
        lines.push(format!("? {}", markers.join(", ")));
        let indexes: Vec<String> = prepared
            .partition_key_indexes
            .iter()
            .map(u16::to_string)
            .collect();
        lines.push(format!("# {}", indexes.join(" ")));
        if let Some(specs) = &prepared.result_columns {
            lines.push(format!("= {}", columns(specs)));
        }
        return Ok(lines);
    }
    let (values, text) = match statement.strip_prefix("WITH ") {
        Some(rest) => rest.split_once(": ").expect("values, then a statement"),
        None => ("", statement),
    };
    let bytes: Vec<Vec<u8>> = values.split(' ').map(bytes).collect();
    let values = values
        .split(' ')
        .zip(&bytes)
        .filter(|(text, _)| !text.is_empty());
    let values: Vec<Value<'_>> = values
        .map(|(text, bytes)| match text {
            "null" => Value::Null,
            "unset" => Value::Unset,
            _ => Value::Bytes(bytes),
        })
        .collect();
    let prepared = memory.prepare(text)?;
    let answer = memory.execute(&prepared, &values, None, None)?;
    if let Some(specs) = &answer.columns {
        lines.push(format!("= {}", columns(specs)));
        for row in &answer.rows {
            let cells: Vec<String> = row.iter().map(cell).collect();
            lines.push(format!("| {}", cells.join(" ")));
        }
    }
    Ok(lines)
}

fn check(golden: &str) {
    let mut memory = Memory::new();
    let mut differences = Vec::new();
    let mut lines = golden.lines().peekable();
    while let Some(statement) = lines.next() {
        let is_answer = |line: &&str| {
            let mark = line.split(' ').next();
            ["!", "=", "|", "?", "#"]
                .iter()
                .any(|known| mark == Some(known))
        };
        if statement.is_empty() || statement.starts_with("--") {
            continue;
        }
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| is_answer(line)) {
            expected.push(line.trim_end().to_owned());
        }
        let found = match answer(&mut memory, statement) {
            Ok(lines) => lines.iter().map(|l| l.trim_end().to_owned()).collect(),
            Err(error) => vec![
                format!("! {:04x} {error}", error.code())
                    .trim_end()
                    .to_owned(),
            ],
        };
        if found != expected {
            differences.push(format!(
                "{statement}\n  Cassandra: {}\n  here:      {}",
                expected.join("\n             "),
                found.join("\n             ")
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn composites() {
    check(include_str!("golden/composites.cql"));
}

#[test]
fn tokens_beside_keys() {
    check(include_str!("golden/tokens_and_keys.cql"));
}

#[test]
fn moved_times() {
    check(include_str!("golden/moved_times.cql"));
}

#[test]
fn limits_of_what_is_sorted() {
    check(include_str!("golden/sorted_limits.cql"));
}

#[test]
fn conditional() {
    check(include_str!("golden/conditional.cql"));
}

#[test]
fn conditional_batches() {
    check(include_str!("golden/conditional_batches.cql"));
}

#[test]
fn counters() {
    check(include_str!("golden/counters.cql"));
}

#[test]
fn operators() {
    check(include_str!("golden/operators.cql"));
}

#[test]
fn modifications() {
    check(include_str!("golden/modifications.cql"));
}

#[test]
fn grouping() {
    check(include_str!("golden/grouping.cql"));
}

#[test]
fn syntax() {
    check(include_str!("golden/syntax.cql"));
}

#[test]
fn arguments_and_names() {
    check(include_str!("golden/arguments_and_names.cql"));
}

#[test]
fn hints() {
    check(include_str!("golden/hints.cql"));
}

#[test]
fn what_suites_found_is_answered_as_by_cassandra() {
    check(include_str!("golden/suites.cql"));
}

#[test]
fn decimals_are_rounded_as_by_cassandra() {
    check(include_str!("golden/decimals.cql"));
}

#[test]
fn odd_values() {
    check(include_str!("golden/odd_values.cql"));
}

#[test]
fn roles_and_triggers() {
    check(include_str!("golden/roles_and_triggers.cql"));
}

#[test]
fn generated() {
    check(include_str!("golden/generated.cql"));
    check(include_str!("golden/found.cql"));
}

#[test]
fn expressions() {
    check(include_str!("golden/expressions.cql"));
}

#[test]
fn indexes() {
    check(include_str!("golden/indexes.cql"));
}

#[test]
fn frozen_times() {
    check(include_str!("golden/frozen_times.cql"));
}

#[test]
fn lists() {
    check(include_str!("golden/lists.cql"));
}

#[test]
fn null_and_unset() {
    check(include_str!("golden/null_and_unset.cql"));
}

#[test]
fn restrictions() {
    check(include_str!("golden/restrictions.cql"));
}

#[test]
fn brackets() {
    check(include_str!("golden/brackets.cql"));
}

#[test]
fn permissions() {
    check(include_str!("golden/permissions.cql"));
}

#[test]
fn nearest() {
    check(include_str!("golden/nearest.cql"));
}

#[test]
fn statements() {
    check(include_str!("golden/statements.cql"));
}

#[test]
fn types() {
    check(include_str!("golden/types.cql"));
}

#[test]
fn metadata() {
    check(include_str!("golden/metadata.cql"));
}

#[test]
fn rows() {
    check(include_str!("golden/rows.cql"));
}

#[test]
fn compact_storage() {
    check(include_str!("golden/compact_storage.cql"));
}

#[test]
fn compact_storage_without_clustering_columns() {
    check(include_str!("golden/compact_static.cql"));
}

#[test]
fn compact_storage_without_a_value() {
    check(include_str!("golden/compact_no_value.cql"));
}
