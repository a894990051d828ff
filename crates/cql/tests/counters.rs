//! Increments as data: what plans give to the replica that leads them.

mod memory;

use cql::{CqlError, ModifyPlan, Plan, Prepared, Request, Value, merge_counter_mutations};
use memory::Memory;
use model::{CounterMutation, NO_DELETION_TIME, NO_TTL, counter};

const NOW: i64 = 1_700_000_000_000_000;

fn with_tables() -> Memory {
    let mut memory = Memory::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.a (k int, r int, s counter static, c counter, d counter, PRIMARY KEY (k, r))",
        "CREATE TABLE ks.b (k int PRIMARY KEY, c counter)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    ] {
        let prepared = memory.prepare(text).expect("valid");
        memory.execute(&prepared, &[], None, None).expect("valid");
    }
    memory
}

fn modify(prepared: &Prepared) -> &ModifyPlan {
    match &prepared.plan {
        Plan::Modify(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn written(
    memory: &Memory,
    text: &str,
    values: &[Value<'_>],
) -> Result<Vec<CounterMutation>, CqlError> {
    let prepared = memory.prepare(text)?;
    let request = Request::new(prepared.bind(values, &[])?, NOW, 1);
    match &prepared.plan {
        Plan::Batch(batch) => batch.counter_mutations(&request),
        _ => modify(&prepared).counter_mutations(&request),
    }
}

/// Table, key, clustering, column and delta of each increment.
fn increments(mutations: &[CounterMutation]) -> Vec<String> {
    let mut found = Vec::new();
    for mutation in mutations {
        for update in &mutation.unled().updates {
            for row in update.static_row.iter().chain(&update.rows) {
                for cell in &row.cells {
                    let column = update.table.column(cell.column).expect("known");
                    let place: Vec<u8> = row.clustering.values().map(|v| v[3]).collect();
                    let delta = counter::delta(&cell.value).expect("an update");
                    assert_eq!(cell.timestamp, NOW);
                    assert_eq!(
                        (cell.ttl, cell.local_deletion_time),
                        (NO_TTL, NO_DELETION_TIME)
                    );
                    found.push(format!(
                        "{}.{}[{}{place:?}] {delta}",
                        update.table.name,
                        column.name,
                        update.key.key()[3]
                    ));
                }
            }
        }
    }
    found
}

#[test]
fn increments_are_updates_with_the_time_of_the_request() {
    let memory = with_tables();
    let text = "UPDATE ks.a SET c = c + 5, d = d - ?, s += 1 WHERE k = 1 AND r IN (2, 3)";
    let seven = 7i64.to_be_bytes();
    let mutations = written(&memory, text, &[Value::Bytes(&seven)]).expect("valid");
    assert_eq!(mutations.len(), 1);
    assert_eq!(
        increments(&mutations),
        [
            "a.s[1[]] 2",
            "a.c[1[2]] 5",
            "a.d[1[2]] -7",
            "a.c[1[3]] 5",
            "a.d[1[3]] -7"
        ]
    );
    let text = "UPDATE ks.b SET c = c + 1 WHERE k IN (1, 2)";
    let mutations = written(&memory, text, &[]).expect("valid");
    assert_eq!(mutations.len(), 2, "one for each partition");
}

#[test]
fn a_batch_gives_one_mutation_for_each_key() {
    let memory = with_tables();
    let text = "BEGIN COUNTER BATCH UPDATE ks.a SET c = c + 1 WHERE k = 1 AND r = 1; \
                UPDATE ks.b SET c = c + 10 WHERE k = 1; UPDATE ks.a SET c = c - 4 WHERE k = 1 AND \
                r = 1; UPDATE ks.b SET c = c + 100 WHERE k = 2; APPLY BATCH";
    let mutations = written(&memory, text, &[]).expect("valid");
    assert_eq!(mutations.len(), 2);
    let expected = ["a.c[1[1]] -3", "b.c[1[]] 10", "b.c[2[]] 100"];
    assert_eq!(increments(&mutations), expected);

    // The same, as a BATCH message brings it.
    let statements = [
        "UPDATE ks.a SET c = c + 1 WHERE k = 1 AND r = 1",
        "UPDATE ks.b SET c = c + 10 WHERE k = 1",
        "UPDATE ks.a SET c = c - 4 WHERE k = 1 AND r = 1",
        "UPDATE ks.b SET c = c + 100 WHERE k = 2",
    ];
    let all = statements
        .iter()
        .flat_map(|text| written(&memory, text, &[]).expect("valid"));
    assert_eq!(merge_counter_mutations(all.collect()), mutations);
}

#[test]
fn increments_are_never_given_as_rows() {
    let memory = with_tables();
    let prepared = memory
        .prepare("UPDATE ks.b SET c = c + 1 WHERE k = 1")
        .expect("valid");
    let plan = modify(&prepared);
    assert!(plan.is_counter());
    let request = Request::new(cql::Values::NONE, NOW, 1);
    assert!(plan.mutations(&request, &[]).is_err());
    let prepared = memory
        .prepare("BEGIN COUNTER BATCH UPDATE ks.b SET c = c + 1 WHERE k = 1; APPLY BATCH")
        .expect("valid");
    let Plan::Batch(batch) = &prepared.plan else {
        panic!("{prepared:?}");
    };
    assert!(batch.is_counter());
    assert!(batch.mutations(&request, &[]).is_err());
    let prepared = memory
        .prepare("INSERT INTO ks.t (k, v) VALUES (1, 2)")
        .expect("valid");
    assert!(!modify(&prepared).is_counter());
}

#[test]
fn an_empty_value_is_no_increment() {
    let memory = with_tables();
    let text = "UPDATE ks.b SET c = c + ? WHERE k = 1";
    let error = written(&memory, text, &[Value::Bytes(&[])]).expect_err("no number");
    assert_eq!(
        error,
        CqlError::Invalid("Invalid empty value for counter increment".to_owned())
    );
}
