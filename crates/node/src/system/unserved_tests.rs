//! Changes of the schema of a folder with what Helenus does not serve.

use std::collections::BTreeMap;

use bytes::Bytes;
use cql::CqlError;
use cql::schema::{SchemaChange, SchemaPlan};
use model::{DecoratedKey, PartitionUpdate, Schema};
use uuid::Uuid;

use super::rows::{RowWriter, WriteTime, clustering, int, text, text_list, uuid};
use super::{SCHEMA_TABLES, schema_from_rows, schema_to_mutations, system_keyspaces};

const VIEW_ID: Uuid = Uuid::from_u128(7);
const LEFT_OUT_ID: Uuid = Uuid::from_u128(8);

/// The schema of a folder whose keyspace `k` Cassandra made.
struct Folder {
    rows: BTreeMap<&'static str, PartitionUpdate>,
    system: Schema,
}

impl Folder {
    fn new(statements: &[&str]) -> Folder {
        let system = system_keyspaces();
        let mut schema = system.clone();
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
                        'replication_factor': 1}";
        for statement in [keyspace].iter().chain(statements) {
            schema = apply(&schema, statement).unwrap().schema;
        }
        let mut folder = Folder {
            rows: BTreeMap::new(),
            system,
        };
        for mutation in schema_to_mutations(&folder.system, &schema, 1) {
            for update in mutation.updates {
                if let Some(name) = SCHEMA_TABLES.iter().find(|n| ***n == *update.table.name) {
                    folder.rows.insert(name, update);
                }
            }
        }
        folder
    }

    /// Adds a row to a table of `system_schema`.
    fn row(mut self, table: &'static str, key: &[&str], values: &[(&str, Bytes)]) -> Folder {
        let definition = self.system.table("system_schema", table).unwrap();
        let update = self.rows.entry(table).or_insert_with(|| {
            PartitionUpdate::new(definition.clone(), DecoratedKey::new(text("k")))
        });
        let row = update.row_mut(&clustering(key.iter().copied()));
        let mut writer = RowWriter::insert(definition, row, WriteTime::at(1));
        for (column, value) in values {
            writer.set(column, value.clone());
        }
        self
    }

    /// A table of one column, made WITH COMPACT STORAGE in a form that is not served.
    fn left_out(self, name: &str, ty: &str) -> Folder {
        let flags = ("flags", text_list([]));
        self.row("tables", &[name], &[("id", uuid(LEFT_OUT_ID)), flags])
            .row(
                "columns",
                &[name, "k"],
                &[
                    ("kind", text("partition_key")),
                    ("position", int(0)),
                    ("type", text(ty)),
                ],
            )
    }

    /// A view of the base table `t`.
    fn view(self, name: &str) -> Folder {
        self.row("views", &[name], &[("id", uuid(VIEW_ID))])
    }

    fn schema(&self) -> Schema {
        let rows = self.rows.iter();
        let rows = rows.map(|(name, update)| (*name, vec![update.clone().into()]));
        schema_from_rows(&self.system, &rows.collect()).0
    }
}

fn apply(schema: &Schema, text: &str) -> Result<SchemaChange, CqlError> {
    let plan = SchemaPlan::new(&cql::parse(text)?, Some("k"))?;
    let ids = || Uuid::from_u128(99);
    plan.expect("it changes the schema")
        .apply(schema, ids, 1_700_000_000_000_000, &["datacenter1"])
}

/// Why a statement is refused.
#[track_caller]
fn refusal(schema: &Schema, text: &str) -> String {
    match apply(schema, text) {
        Err(CqlError::Invalid(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_table_that_is_not_served_is_not_overwritten() {
    let schema = Folder::new(&[]).left_out("users", "text").schema();
    assert!(schema.table("k", "users").is_none());
    for statement in [
        "CREATE TABLE users (k text PRIMARY KEY, a int)",
        "CREATE TABLE IF NOT EXISTS users (k text PRIMARY KEY, a int)",
        "ALTER TABLE users ADD b int",
        "ALTER TABLE IF EXISTS users ADD b int",
        "DROP TABLE users",
        "DROP TABLE IF EXISTS users",
    ] {
        assert_eq!(
            refusal(&schema, statement),
            "table k.users is not served: COMPACT STORAGE of this form is not supported yet. Only \
             Cassandra can alter or drop it: start one on this folder, or use another name",
            "{statement}"
        );
    }
    assert!(apply(&schema, "CREATE TABLE others (k text PRIMARY KEY, a int)").is_ok());
    assert!(apply(&schema, "DROP KEYSPACE k").is_ok());
}

#[test]
fn a_type_that_is_not_served_is_not_overwritten() {
    let field = [
        ("field_names", text_list(["f"])),
        ("field_types", text_list(["gone"])),
    ];
    let schema = Folder::new(&[]).row("types", &["u"], &field).schema();
    for statement in [
        "CREATE TYPE u (f int)",
        "CREATE TYPE IF NOT EXISTS u (f int)",
        "ALTER TYPE u ADD g int",
        "ALTER TYPE IF EXISTS u RENAME f TO g",
        "DROP TYPE u",
        "DROP TYPE IF EXISTS u",
    ] {
        let message = refusal(&schema, statement);
        assert!(
            message.starts_with("type k.u is not served: Unknown type gone. Only Cassandra"),
            "{statement}: {message}"
        );
    }
}

#[test]
fn a_view_is_not_overwritten() {
    let table = "CREATE TABLE t (k int PRIMARY KEY, v int)";
    let schema = Folder::new(&[table]).view("v").schema();
    for statement in [
        "CREATE TABLE v (k int PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS v (k int PRIMARY KEY)",
        "DROP MATERIALIZED VIEW v",
        "DROP MATERIALIZED VIEW IF EXISTS v",
    ] {
        let message = refusal(&schema, statement);
        assert!(
            message
                .starts_with("materialized view k.v is not served: views are not supported yet."),
            "{statement}: {message}"
        );
    }
    let alter = refusal(&schema, "ALTER TABLE v ADD w int");
    assert!(
        alter.starts_with("Cannot use ALTER TABLE on a materialized view"),
        "{alter}"
    );
    let drop = refusal(&schema, "DROP TABLE IF EXISTS v");
    assert!(
        drop.starts_with("Cannot use DROP TABLE on a materialized view"),
        "{drop}"
    );
}

#[test]
fn no_two_tables_have_the_same_id() {
    let schema = Folder::new(&["CREATE TABLE t (k int PRIMARY KEY)"])
        .left_out("users", "text")
        .view("v")
        .schema();
    let of_t = schema.table("k", "t").unwrap().id;
    for (id, user) in [(of_t, "k.t"), (LEFT_OUT_ID, "k.users"), (VIEW_ID, "k.v")] {
        let statement = format!("CREATE TABLE copy (k int PRIMARY KEY) WITH id = {id}");
        assert_eq!(
            apply(&schema, &statement),
            Err(CqlError::Config(format!(
                "Table id {id} is already used by {user}: leave the id out to get another one"
            )))
        );
    }
    let same = format!("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY) WITH id = {of_t}");
    assert_eq!(apply(&schema, &same).unwrap().event, None);
    // As a restore from a snapshot does it.
    let dropped = apply(&schema, "DROP TABLE t").unwrap().schema;
    let again = apply(&dropped, &same).unwrap().schema;
    assert_eq!(again.table("k", "t").unwrap().id, of_t);
}
