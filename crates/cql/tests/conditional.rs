//! Conditional writes step by step: what is read, what is looked at, what is written. What a client
//! sees of them is in `golden/conditional.cql`.

mod memory;

use bytes::Bytes;
use cql::{
    CasRequest, CqlError, ModifyPlan, Plan, Prepared, Request, Value, Values, cas_of_batch,
    check_batch,
};
use memory::Memory;
use model::{
    Cell, Clustering, ColumnId, CqlType, DecoratedKey, DeletionTime, NO_DELETION_TIME, NO_TTL,
    Partition, PartitionUpdate, Row, Slice, collection,
};
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000_000_000;
const BALLOT: i64 = 1_800_000_000_000_000;

fn with_tables() -> Memory {
    let mut memory = Memory::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TYPE ks.ut (a int, b text)",
        "CREATE TABLE ks.x (k int, c int, v int, w text, s int static, t text static, l list<int>, \
         PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
        "CREATE TABLE ks.m (k int PRIMARY KEY, v int, l list<int>, m map<text, int>, fl \
         frozen<list<int>>, fm frozen<map<text, int>>, fu frozen<ut>, fs frozen<set<text>>)",
    ] {
        run(&mut memory, text);
    }
    memory
}

fn run(memory: &mut Memory, text: &str) {
    let prepared = memory
        .prepare(text)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    let answer = memory.execute(&prepared, &[], None, None);
    answer.unwrap_or_else(|e| panic!("{text}: {e}"));
}

fn modify(prepared: &Prepared) -> &ModifyPlan {
    match &prepared.plan {
        Plan::Modify(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn request<'v>(prepared: &Prepared, values: &'v [Value<'v>]) -> Request<'v> {
    Request::new(prepared.bind(values, &[]).expect("valid"), NOW, 1)
}

/// What `look` sees of one execution of a statement or of a batch.
fn cas<T>(
    memory: &Memory,
    text: &str,
    values: &[Value<'_>],
    look: impl FnOnce(&CasRequest<'_>) -> T,
) -> Result<T, CqlError> {
    let prepared = memory.prepare(text)?;
    let request = request(&prepared, values);
    match &prepared.plan {
        Plan::Batch(batch) => Ok(look(&batch.cas(&request)?)),
        _ => Ok(look(&modify(&prepared).cas(&request)?)),
    }
}

fn message<T: std::fmt::Debug>(result: Result<T, CqlError>) -> String {
    match result {
        Err(CqlError::Invalid(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn id(memory: &Memory, table: &str, column: &str) -> ColumnId {
    let table = memory.schema.table("ks", table).expect("known");
    table.column_named(column).expect("known").id
}

fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

fn clustering(c: i32) -> Clustering {
    Clustering([int(c)].into_iter().collect())
}

fn row_slice(c: i32) -> Slice {
    Slice::of_prefix(clustering(c))
}

#[test]
fn as_much_is_read_as_tells_a_row_of_nulls_from_none() {
    let memory = with_tables();
    let ids = |names: &[&str]| {
        let mut ids: Vec<ColumnId> = names.iter().map(|n| id(&memory, "x", n)).collect();
        ids.sort_unstable();
        ids
    };
    let read = |text: &str| {
        let command = cas(&memory, text, &[], |cas| cas.read_command()).expect("valid");
        assert_eq!(command.now_seconds, (NOW / 1_000_000) as u32);
        assert!(!command.clustering.reversed && command.filters.is_empty());
        assert_eq!(command.limits.rows_per_partition, u32::MAX);
        (
            command.clustering.slices,
            command.limits.rows,
            command.columns,
        )
    };
    let rows = ids(&["v", "w", "l"]);
    assert_eq!(
        read("INSERT INTO ks.x (k, c) VALUES (1, 2) IF NOT EXISTS"),
        (vec![row_slice(2)], u32::MAX, rows.clone())
    );
    assert_eq!(
        read("UPDATE ks.x SET v = 1, s = 2 WHERE k = 1 AND c = 2 IF EXISTS").2,
        ids(&["v", "w", "l", "s", "t"])
    );
    assert_eq!(
        read("UPDATE ks.x SET v = 1 WHERE k = 1 AND c = 2 IF s = 3").2,
        ids(&["v", "w", "l", "s"])
    );
    // A row beside the static one says that the partition is there.
    assert_eq!(
        read("UPDATE ks.x SET s = 1 WHERE k = 1 IF s = 3"),
        (vec![Slice::ALL], 1, ids(&["s", "t"]))
    );
    assert_eq!(
        read("DELETE s FROM ks.x WHERE k = 1 AND c = 2 IF v = 3").2,
        ids(&["v", "w", "l", "s", "t"])
    );
    // Rows with conditions, in the order of the table, each once.
    let batch = "BEGIN BATCH UPDATE ks.x SET v = 1 WHERE k = 1 AND c = 1 IF v = 1; \
                 UPDATE ks.x SET v = 1 WHERE k = 1 AND c = 5; \
                 UPDATE ks.x SET v = 1 WHERE k = 1 AND c = 3 IF w = 'x' AND s = 3; \
                 UPDATE ks.x SET w = 'x' WHERE k = 1 AND c = 1 IF w = 'y'; APPLY BATCH";
    assert_eq!(
        read(batch),
        (
            vec![row_slice(3), row_slice(1)],
            u32::MAX,
            ids(&["v", "w", "l", "s"])
        )
    );
}

fn update(memory: &Memory, text: &str, ballot: i64) -> PartitionUpdate {
    let update = cas(memory, text, &[], |cas| {
        let page = memory.read(&cas.read_command());
        let current = page.partitions.first();
        assert!(cas.applies_to(current).expect("comparable"), "{text}");
        cas.update(current, ballot)
    });
    update.flatten().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn all_is_written_at_the_time_of_the_ballot_and_deleted_just_before() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "INSERT INTO ks.x (k, c, v, l) VALUES (1, 1, 1, [1])",
    );
    let text = "UPDATE ks.x USING TTL 10 SET v = 2, w = null, l = [2, 3], s = 4 WHERE k = 1 AND c \
                = 1 IF v = 1";
    let written = update(&memory, text, BALLOT);
    let [row] = &written.rows[..] else {
        panic!("{written:?}")
    };
    let ends = NOW / 1_000_000 + 10;
    for cell in row
        .cells
        .iter()
        .chain(&written.static_row.as_ref().expect("s").cells)
    {
        if cell.is_tombstone() {
            assert_eq!(cell.timestamp, BALLOT - 1);
        } else {
            assert_eq!((cell.timestamp, cell.ttl), (BALLOT, 10));
            assert_eq!(i64::from(cell.local_deletion_time), ends);
        }
    }
    assert_eq!(
        row.cells.iter().filter(|cell| cell.is_tombstone()).count(),
        1
    );
    let l = id(&memory, "x", "l");
    assert_eq!(row.complex_deletion(l).timestamp, BALLOT - 1);
    assert!(row.liveness.is_empty(), "UPDATE makes no marker");

    let text = "INSERT INTO ks.x (k, c) VALUES (1, 2) IF NOT EXISTS";
    assert_eq!(
        update(&memory, text, BALLOT).rows[0].liveness.timestamp,
        BALLOT
    );
    let text = "DELETE FROM ks.x WHERE k = 1 AND c = 1 IF EXISTS";
    assert_eq!(
        update(&memory, text, BALLOT).rows[0].deletion.timestamp,
        BALLOT - 1
    );

    let text = "BEGIN BATCH DELETE FROM ks.x WHERE k = 1; DELETE FROM ks.x WHERE k = 1 AND c > 5; \
                UPDATE ks.x SET v = 2 WHERE k = 1 AND c = 1 IF v = 1; APPLY BATCH";
    let mut written = update(&memory, text, BALLOT);
    assert_eq!(written.deletion.timestamp, BALLOT - 1);
    let before = written.clone();
    written.drop_shadowed();
    assert_eq!(written.rows, before.rows, "what is written stays");
}

#[test]
fn elements_that_are_appended_lie_where_the_ballot_says() {
    let mut memory = with_tables();
    run(&mut memory, "INSERT INTO ks.x (k, c, l) VALUES (1, 1, [1])");
    let text = "BEGIN BATCH UPDATE ks.x SET l = l + [2, 3] WHERE k = 1 AND c = 1 IF EXISTS; \
                UPDATE ks.x SET l = l + [4] WHERE k = 1 AND c = 1; APPLY BATCH";
    let written = |ballot| {
        let update = update(&memory, text, ballot);
        let cells = update.rows[0].cells.iter();
        cells
            .map(|cell| (cell.path.clone().expect("a list"), cell.value.clone()))
            .collect::<Vec<_>>()
    };
    let once = written(BALLOT);
    let values: Vec<Bytes> = once.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(values, [int(2), int(3), int(4)]);
    assert!(once.is_sorted_by(|(a, _), (b, _)| CqlType::Timeuuid.compare(a, b).is_lt()));
    // Whoever finishes the proposal, and whenever: the same.
    assert_eq!(written(BALLOT), once);
    let later = written(BALLOT + 1);
    assert!(CqlType::Timeuuid.compare(&once[2].0, &later[0].0).is_lt());
}

#[test]
fn statements_of_a_message_have_values_of_their_own() {
    let mut memory = with_tables();
    run(&mut memory, "INSERT INTO ks.x (k, c, v) VALUES (1, 1, 10)");
    let first = memory
        .prepare("UPDATE ks.x SET v = ? WHERE k = ? AND c = 1 IF v = ?")
        .expect("valid");
    let second = memory
        .prepare("INSERT INTO ks.x (k, c, v) VALUES (?, ?, ?)")
        .expect("valid");
    let [one, two, ten, eleven] = [1, 2, 10, 11].map(int);
    let plans = [modify(&first), modify(&second)];
    check_batch(cql::ast::BatchKind::Logged, plans.into_iter()).expect("valid");
    let outcome = |expected: &Bytes, partition: &Bytes| {
        let values = [&eleven, &one, expected].map(|value| Value::Bytes(value));
        let a = request(&first, &values);
        let values = [partition, &two, &ten].map(|value| Value::Bytes(value));
        let b = request(&second, &values);
        let cas = cas_of_batch([(plans[0], &a), (plans[1], &b)])?;
        let page = memory.read(&cas.read_command());
        let current = page.partitions.first();
        match cas.applies_to(current)? {
            true => Ok((true, cas.update(current, BALLOT)?.rows.len())),
            false => Ok((false, cas.not_applied(current)?.columns.len())),
        }
    };
    assert_eq!(outcome(&ten, &one), Ok((true, 2)));
    // [applied], k, c, v
    assert_eq!(outcome(&eleven, &one), Ok((false, 4)));
    assert_eq!(
        message(outcome(&ten, &two)),
        "Batch with conditions cannot span multiple partitions"
    );
}

#[test]
fn results_say_of_which_table_they_are() {
    let memory = with_tables();
    let text = "UPDATE ks.x SET v = 1 WHERE k = 1 AND c = 1 IF v = 1";
    let prepared = memory.prepare(text).expect("valid");
    assert!(
        prepared.result_columns.is_none(),
        "as Cassandra's are not known"
    );
    let (applied, not) = cas(&memory, text, &[], |cas| {
        let current = Partition {
            key: cas.key().clone(),
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: vec![held(1, vec![(id(&memory, "x", "v"), int(5))])],
            packed: Vec::new(),
            range_tombstones: Vec::new(),
        };
        assert_eq!(cas.applies_to(Some(&current)), Ok(false));
        (
            cas.applied(),
            cas.not_applied(Some(&current)).expect("shown"),
        )
    })
    .expect("valid");
    let name = |spec: &cql::ColumnSpec| {
        format!("{}.{}.{} {}", spec.keyspace, spec.table, spec.name, spec.ty)
    };
    let names = |specs: &[cql::ColumnSpec]| specs.iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(&applied.columns), ["ks.x.[applied] boolean"]);
    assert_eq!(applied.rows, [[Some(Bytes::from_static(&[1]))]]);
    assert_eq!(
        names(&not.columns),
        ["ks.x.[applied] boolean", "ks.x.v int"]
    );
    assert_eq!(not.rows, [[Some(Bytes::from_static(&[0])), Some(int(5))]]);
}

fn held(c: i32, cells: Vec<(ColumnId, Bytes)>) -> Row {
    let mut row = Row::new(clustering(c));
    row.cells = cells
        .into_iter()
        .map(|(column, value)| Cell {
            column,
            path: None,
            timestamp: NOW,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value,
        })
        .collect();
    row
}

#[test]
fn what_has_expired_or_is_deleted_is_not_there() {
    let memory = with_tables();
    let v = id(&memory, "x", "v");
    let holds = |text: &str, row: Row| {
        cas(&memory, text, &[], |cas| {
            let partition = Partition {
                key: DecoratedKey::new(int(1)),
                deletion: DeletionTime::LIVE,
                static_row: None,
                rows: vec![row],
                packed: Vec::new(),
                range_tombstones: Vec::new(),
            };
            cas.applies_to(Some(&partition))
        })
        .flatten()
        .expect("comparable")
    };
    let mut expired = held(1, vec![(v, int(1))]);
    expired.cells[0].ttl = 5;
    expired.cells[0].local_deletion_time = (NOW / 1_000_000) as u32;
    let mut live = expired.clone();
    live.cells[0].local_deletion_time += 1;
    let exists = "UPDATE ks.x SET w = 'x' WHERE k = 1 AND c = 1 IF EXISTS";
    let equal = "UPDATE ks.x SET w = 'x' WHERE k = 1 AND c = 1 IF v = 1";
    let is_new = "INSERT INTO ks.x (k, c) VALUES (1, 1) IF NOT EXISTS";
    assert!(holds(exists, live.clone()) && holds(equal, live.clone()) && !holds(is_new, live));
    assert!(!holds(exists, expired.clone()) && !holds(equal, expired.clone()));
    assert!(holds(is_new, expired));
}

#[test]
fn conditional_writes_are_never_given_as_rows() {
    let memory = with_tables();
    let request = Request::new(Values::NONE, NOW, 1);
    let prepared = memory
        .prepare("INSERT INTO ks.m (k) VALUES (1) IF NOT EXISTS")
        .expect("valid");
    assert!(modify(&prepared).is_conditional());
    assert!(modify(&prepared).mutations(&request, &[]).is_err());
    let text = "BEGIN BATCH INSERT INTO ks.m (k) VALUES (1) IF NOT EXISTS; APPLY BATCH";
    let prepared = memory.prepare(text).expect("valid");
    let Plan::Batch(batch) = &prepared.plan else {
        panic!("{prepared:?}")
    };
    assert!(batch.is_conditional());
    assert!(batch.mutations(&request, &[]).is_err());
    let prepared = memory
        .prepare("INSERT INTO ks.m (k) VALUES (1)")
        .expect("valid");
    assert!(!modify(&prepared).is_conditional());
    assert!(modify(&prepared).cas(&request).is_err());
    assert!(cas_of_batch([(modify(&prepared), &request)]).is_err());
    assert!(cas_of_batch([]).is_err());
}

#[test]
fn what_cassandra_fails_on_is_refused() {
    let memory = with_tables();
    let refused = |text: &str, values: &[Value<'_>]| {
        let result = cas(&memory, text, values, |cas| {
            cas.applies_to(None)?;
            cas.update(None, BALLOT)
        });
        message(result.flatten())
    };
    assert_eq!(
        refused("UPDATE ks.m SET v = 1 WHERE k = 1 IF v.a = 1", &[]),
        "Invalid field access syntax for non-UDT column v"
    );
    let text = "UPDATE ks.m SET v = 1 WHERE k = 1 IF l[?] = 1";
    assert_eq!(
        refused(text, &[Value::Unset]),
        "Invalid unset value for list element access"
    );
    let text = "UPDATE ks.m SET v = 1 WHERE k = 1 IF l = ?";
    assert_eq!(
        refused(text, &[Value::Unset]),
        "Invalid 'unset' value in condition"
    );
    let text = "UPDATE ks.m SET v = 1 WHERE k = 1 IF l[?] = null";
    assert_eq!(
        refused(text, &[Value::Bytes(&[])]),
        "Invalid empty list index"
    );
    let text = "UPDATE ks.m SET v = v + ? WHERE k = 1 IF v = null";
    assert_eq!(
        refused(text, &[Value::Null]),
        "Invalid null value for column v"
    );
    assert_eq!(
        refused(text, &[Value::Unset]),
        "Invalid unset value for column v"
    );
    let text = "BEGIN BATCH UPDATE ks.m SET v = 1 WHERE k IN (1, 2) IF v = 1; APPLY BATCH";
    assert_eq!(
        refused(text, &[]),
        "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition \
         key)"
    );
    // Of conditions that fail before, nothing has to be known.
    assert_eq!(
        refused(
            "UPDATE ks.m SET v = 1 WHERE k = 1 IF v = 5 AND v < null",
            &[]
        ),
        "Invalid comparison with null for operator \"<\""
    );
}

#[test]
fn elements_of_maps_compare_by_their_own_type() {
    let mut memory = with_tables();
    run(
        &mut memory,
        "INSERT INTO ks.m (k, m, fm) VALUES (1, {'a': -1}, {'a': -1})",
    );
    for condition in ["m['a'] < 1", "fm['a'] < 1", "m['a'] > -2 AND fm['a'] >= -1"] {
        let text = format!("UPDATE ks.m SET v = 1 WHERE k = 1 IF {condition}");
        let prepared = memory.prepare(&text).expect("valid");
        let answer = memory
            .execute(&prepared, &[], None, None)
            .expect("comparable");
        assert_eq!(answer.rows, [[Some(vec![1])]], "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a client binds and whatever lies on the drive: an answer or an error, no panic.
    #[test]
    fn any_bytes_are_compared_or_refused(
        bound in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..24),
        held_bytes in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..24),
        column in prop::sample::select(vec!["v", "fl", "fm", "fu", "fs"]),
    ) {
        let memory = with_tables();
        let conditions = match column {
            "v" => vec!["v IN ?", "v < ?"],
            "fl" => vec!["fl IN ?", "fl[?] = 1", "fl CONTAINS ?", "fl > ?", "fl[0] IN ?"],
            "fm" => vec!["fm IN ?", "fm[?] = 1", "fm CONTAINS KEY ?", "fm <= ?", "fm['a'] IN ?"],
            "fu" => vec!["fu IN ?", "fu.a = ?", "fu.b IN ?", "fu < ?"],
            _ => vec!["fs IN ?", "fs CONTAINS ?", "fs = ?"],
        };
        for condition in conditions {
            let text = format!("UPDATE ks.m SET v = 1 WHERE k = 1 IF {condition}");
            let mut row = held(0, vec![(id(&memory, "m", column), held_bytes.clone().into())]);
            row.clustering = Clustering::EMPTY;
            let _ = cas(&memory, &text, &[Value::Bytes(&bound)], |cas| {
                let partition = Partition {
                    key: cas.key().clone(),
                    deletion: DeletionTime::LIVE,
                    static_row: None,
                    rows: vec![row],
                    packed: Vec::new(),
                    range_tombstones: Vec::new(),
                };
                let _ = cas.applies_to(Some(&partition));
                let _ = cas.not_applied(Some(&partition));
            });
        }
    }

    /// Nulls among the values of IN are kept, what is no list is refused.
    #[test]
    fn nullable_elements_are_what_was_packed(
        items in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..4)), 0..6),
        cut in 0..30usize,
    ) {
        let mut list = (items.len() as i32).to_be_bytes().to_vec();
        list.extend(collection::pack_tuple(items.iter().map(Option::as_ref)));
        let found = collection::nullable_elements(&list).expect("a list");
        let expected: Vec<Option<&[u8]>> = items.iter().map(Option::as_deref).collect();
        prop_assert_eq!(found, expected);
        if let Some(part) = list.get(..cut).filter(|part| part.len() < list.len()) {
            prop_assert!(collection::nullable_elements(part).is_err());
        }
    }
}
