//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The input is the text of a statement. What parses is planned against a schema with a table of
//! every shape, and what can be planned is executed up to where storage would begin, with values
//! of every kind bound to its markers.

use std::sync::OnceLock;

use cql::ast::Statement;
use cql::describe::ClusterDescription;
use cql::{Context, Paging, Plan, Prepared, Request, Value};
use model::{ReadPage, Schema};
use uuid::Uuid;

/// The schema that statements meet; `ks` is in use.
const DEFINITIONS: [&str; 17] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE ks.ut (a int, b text)",
    "CREATE TYPE ks.nest (u frozen<ut>, l frozen<list<int>>)",
    "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w text)",
    "CREATE TABLE ks.c (a int, b text, c int, d int, e int, s int static, v text, w int, PRIMARY \
     KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)",
    "CREATE TABLE ks.m (k int PRIMARY KEY, l list<int>, st set<text>, m map<text, int>, fl \
     frozen<list<int>>, fm frozen<map<text, int>>, u ut, fu frozen<ut>, tu tuple<int, text>, vec \
     vector<float, 3>, n frozen<nest>)",
    "CREATE TABLE ks.x (k int, c int, v int, s int static, PRIMARY KEY (k, c))",
    "CREATE TABLE ks.n (k int PRIMARY KEY, a ascii, bi bigint, bl blob, bo boolean, da date, de \
     decimal, dbl double, du duration, f float, i inet, ii int, si smallint, t text, ti time, ts \
     timestamp, tu timeuuid, tiny tinyint, u uuid, vi varint)",
    "CREATE TABLE ks.txt (k text PRIMARY KEY, v int)",
    "CREATE TABLE ks.ttl (k int PRIMARY KEY, v int) WITH default_time_to_live = 1000",
    "CREATE TABLE ks.ck (k timeuuid, c frozen<tuple<int, text>>, d decimal, v blob, PRIMARY KEY \
     (k, c, d))",
    "CREATE TABLE ks.ix (k int, c int, v int, w text, m map<text, int>, e vector<float, 3>, PRIMARY \
     KEY (k, c))",
    "CREATE INDEX ON ks.ix (v)",
    "CREATE INDEX ON ks.ix (entries(m))",
    "CREATE INDEX ON ks.ix (w) USING 'sai'",
    "CREATE INDEX ON ks.ix (c) USING 'sai'",
    "CREATE INDEX ON ks.ix (e) USING 'sai'",
];
/// The time of every request, in microseconds since 1970.
const NOW: i64 = 1_700_000_000_000_000;

/// Any text gives a statement or an error, and the same one each time.
pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let once = cql::parse(text);
    let again = cql::parse(text);
    assert_eq!(format!("{once:?}"), format!("{again:?}"));
    if let Ok(statement) = once {
        plan(&statement);
    }
}

fn plan(statement: &Statement) {
    let schema = schema();
    let context = Context {
        schema,
        keyspace: Some("ks"),
    };
    let Ok(prepared) = cql::prepare_statement(statement, &context) else {
        return;
    };
    let markers = prepared.bind_variables.len();
    let (four, sixteen) = ([0; 4], [0x11; 16]);
    let kinds = [
        Value::Null,
        Value::Unset,
        Value::Bytes(&[]),
        Value::Bytes(&four),
        Value::Bytes(&sixteen),
    ];
    for kind in &kinds[..if markers == 0 { 1 } else { kinds.len() }] {
        execute(schema, &prepared, &vec![*kind; markers]);
    }
}

/// Any error will do: that it is one, and no panic, is what counts.
fn execute(schema: &Schema, prepared: &Prepared, values: &[Value<'_>]) {
    let values = prepared.bind(values, &[]).expect("as many as markers");
    let request = Request::new(values, NOW, 42);
    match &prepared.plan {
        Plan::Select(select) => {
            let paging = Paging {
                page_size: Some(10),
                state: None,
            };
            let Ok(mut run) = select.start(&request, paging) else {
                return;
            };
            let mut sink = |_: &[Option<&[u8]>]| {};
            // Each partition of an IN is a round at most, and the text bounds them.
            loop {
                let commands = run.reads();
                if commands.is_empty() {
                    break;
                }
                for _ in commands {
                    if run.absorb(&ReadPage::default(), &mut sink).is_err() {
                        return;
                    }
                }
            }
            drop(run.finish(&mut sink));
        }
        Plan::Modify(modify) => {
            if let Ok(reads) = modify.reads(&request) {
                let pages: Vec<ReadPage> = reads.iter().map(|_| ReadPage::default()).collect();
                drop(modify.mutations(&request, &pages));
            }
        }
        Plan::Batch(batch) => {
            if let Ok(reads) = batch.reads(&request) {
                let pages: Vec<ReadPage> = reads.iter().map(|_| ReadPage::default()).collect();
                drop(batch.mutations(&request, &pages));
            }
        }
        Plan::Describe(describe) => drop(describe.rows(schema, &ClusterDescription::default())),
        Plan::Schema(change) => drop(change.apply(schema, Uuid::nil, NOW, &["datacenter1"])),
        Plan::Truncate(_) | Plan::Use(_) => {}
    }
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut ids = 0;
        DEFINITIONS.iter().fold(Schema::default(), |schema, text| {
            let context = Context {
                schema: &schema,
                keyspace: None,
            };
            let prepared = cql::prepare(text, &context).expect(text);
            let Plan::Schema(change) = prepared.plan else {
                panic!("{text} defines nothing");
            };
            let next = || {
                ids += 1;
                Uuid::from_u128(ids)
            };
            let changed = change.apply(&schema, next, NOW, &["datacenter1"]);
            changed.expect(text).schema
        })
    })
}
