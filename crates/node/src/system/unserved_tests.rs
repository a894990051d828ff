//! Changes of the schema of a folder with what Helenus does not serve.

use std::collections::BTreeMap;

use bytes::Bytes;
use cql::CqlError;
use cql::schema::{SchemaChange, SchemaPlan};
use model::{DecoratedKey, PartitionUpdate, Schema};
use uuid::Uuid;

use super::rows::{RowWriter, WriteTime, clustering, int, text, text_list, text_map, uuid};
use super::{
    SCHEMA_TABLES, SchemaProblem, schema_from_rows, schema_to_mutations, system_keyspaces,
    unbuilt_mutations,
};

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

    /// A table of one column, in a form that is not served: a super column family.
    fn left_out(self, name: &str, ty: &str) -> Folder {
        let flags = ("flags", text_list(["super"]));
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

    /// A view of the table `t`.
    fn view(self, name: &str) -> Folder {
        let base = self.schema().table("k", "t").unwrap().id;
        let ids = [("id", uuid(VIEW_ID)), ("base_table_id", uuid(base))];
        self.row("views", &[name], &ids)
    }

    /// An index of the table `t`.
    fn index(self, name: &str, target: &str) -> Folder {
        let options = BTreeMap::from([("target".to_owned(), target.to_owned())]);
        let values = [
            ("kind", text("COMPOSITES")),
            ("options", text_map(&options)),
        ];
        self.row("indexes", &["t", name], &values)
    }

    /// A function of one int, or an aggregate if it has a state.
    fn function(self, name: &str, values: &[(&str, &str)]) -> Folder {
        let table = match values.iter().any(|(column, _)| *column == "state_type") {
            true => "aggregates",
            false => "functions",
        };
        let values: Vec<_> = values
            .iter()
            .map(|(name, value)| (*name, text(value)))
            .collect();
        let arguments = String::from_utf8(text_list(["int"]).to_vec()).unwrap();
        self.row(table, &[name, &arguments], &values)
    }

    fn read(&self) -> (Schema, Vec<SchemaProblem>) {
        let rows = self.rows.iter();
        let rows = rows.map(|(name, update)| (*name, vec![update.clone().into()]));
        schema_from_rows(&self.system, &rows.collect())
    }

    fn schema(&self) -> Schema {
        self.read().0
    }

    /// What the log says at the start.
    fn warnings(&self) -> Vec<String> {
        self.read().1.iter().map(ToString::to_string).collect()
    }
}

fn apply(schema: &Schema, text: &str) -> Result<SchemaChange, CqlError> {
    let plan = SchemaPlan::new(&cql::parse(text)?, Some("k"))?;
    let tables = schema.keyspaces.get("k").map_or(0, |k| k.tables.len());
    let ids = || Uuid::from_u128(100 + tables as u128);
    plan.expect("it changes the schema")
        .apply(schema, ids, 1_700_000_000_000_000, &["datacenter1"])
}

/// The rows of `column_masks` that a statement deletes: table and column.
fn unmasked(schema: &Schema, text: &str) -> Vec<String> {
    let change = apply(schema, text).unwrap();
    let mutations = schema_to_mutations(schema, &change.schema, 2);
    let updates = mutations.iter().flat_map(|mutation| &mutation.updates);
    let masks = updates.filter(|update| *update.table.name == *"column_masks");
    masks
        .flat_map(|update| &update.rows)
        .inspect(|row| assert_eq!(row.deletion.timestamp, 2))
        .map(|row| {
            let key = row.clustering.0.iter();
            key.map(|part| String::from_utf8_lossy(part))
                .collect::<Vec<_>>()
                .join(".")
        })
        .collect()
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
            "table k.users is not served: COMPACT STORAGE of this form is not supported yet. Only a \
             Cassandra on this folder can alter or drop it, and nothing else can have its name",
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
            message.starts_with("type k.u is not served: Unknown type gone. Only a Cassandra"),
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
            message.starts_with("materialized view k.v is not served."),
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
    let tables = ["t", "s"].map(|t| format!("CREATE TABLE {t} (k int PRIMARY KEY)"));
    let schema = Folder::new(&tables.each_ref().map(String::as_str))
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
    let of_s = schema.table("k", "s").unwrap().id;
    let same = format!("CREATE TABLE IF NOT EXISTS s (k int PRIMARY KEY) WITH id = {of_s}");
    assert_eq!(apply(&schema, &same).unwrap().event, None);
    // As a restore from a snapshot does it.
    let dropped = apply(&schema, "DROP TABLE s").unwrap().schema;
    let again = apply(&dropped, &same).unwrap().schema;
    assert_eq!(again.table("k", "s").unwrap().id, of_s);
}

const TABLE: &str =
    "CREATE TABLE t (k int, c int, v int, w set<int>, \"X\" text, PRIMARY KEY (k, c))";

#[test]
fn an_index_keeps_its_column() {
    let schema = Folder::new(&[TABLE])
        .index("i", "v")
        .index("j", "c")
        .index("l", "values(w)")
        .index("m", "\"X\"")
        .schema();
    for (statement, text) in [
        (
            "ALTER TABLE t DROP v",
            "Cannot drop column v because it has dependent secondary indexes (i)",
        ),
        (
            "ALTER TABLE t DROP w",
            "Cannot drop column w because it has dependent secondary indexes (l)",
        ),
        (
            "ALTER TABLE t DROP \"X\"",
            "Cannot drop column X because it has dependent secondary indexes (m)",
        ),
        (
            "ALTER TABLE t RENAME c TO d",
            "Can't rename column c because it has dependent secondary indexes (j)",
        ),
    ] {
        assert_eq!(refusal(&schema, statement), text);
    }
    assert!(apply(&schema, "DROP INDEX IF EXISTS i").is_ok());
    assert!(apply(&schema, "ALTER TABLE t RENAME k TO l").is_ok());
    assert!(apply(&schema, "ALTER TABLE t ADD y int").is_ok());
}

#[test]
fn what_is_dropped_takes_along_what_depends_on_it() {
    let schema = Folder::new(&[TABLE]).index("i", "v").schema();
    let dropped = apply(&schema, "DROP TABLE t").unwrap().schema;
    assert_eq!(dropped.keyspaces["k"].unserved.indexes, []);
    let mutations = schema_to_mutations(&schema, &dropped, 2);
    let deletes_indexes = |update: &PartitionUpdate| {
        *update.table.name == *"indexes" && update.range_tombstones.len() == 1
    };
    assert!(mutations[0].updates.iter().any(deletes_indexes));

    let schema = Folder::new(&[TABLE]).view("v").function("f", &[]).schema();
    let dropped = apply(&schema, "DROP KEYSPACE k").unwrap().schema;
    for table in [
        "indexes",
        "views",
        "functions",
        "aggregates",
        "triggers",
        "column_masks",
    ] {
        let mutations = schema_to_mutations(&schema, &dropped, 2);
        let deletes = |update: &PartitionUpdate| {
            *update.table.name == *table && update.deletion.timestamp == 2
        };
        assert!(mutations[0].updates.iter().any(deletes), "{table}");
    }
}

#[test]
fn a_view_keeps_its_base() {
    let other = "CREATE TABLE other (k int PRIMARY KEY, v int)";
    let schema = Folder::new(&[TABLE, other]).view("a").view("b").schema();
    for (statement, text) in [
        (
            "ALTER TABLE t DROP v",
            "Cannot drop column v on base table t with materialized views",
        ),
        (
            "DROP TABLE t",
            "Cannot drop a table when materialized views still depend on it (k)",
        ),
        (
            "ALTER TABLE t RENAME c TO d",
            "Cannot rename column c of base table t with materialized views (a, b) that are not \
             served",
        ),
        (
            "ALTER TABLE t WITH gc_grace_seconds = 0",
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since \
             this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might \
             cause undelivered updates to expire before being replayed.",
        ),
    ] {
        assert_eq!(refusal(&schema, statement), text);
    }
    assert!(apply(&schema, "ALTER TABLE t WITH gc_grace_seconds = 1").is_ok());
    assert!(apply(&schema, "ALTER TABLE other DROP v").is_ok());
    assert!(apply(&schema, "DROP TABLE other").is_ok());
}

#[test]
fn functions_tables_and_types_keep_the_types_they_use() {
    let types = [
        "CREATE TYPE u (f int)",
        "CREATE TYPE outer (f frozen<u>)",
        "CREATE TYPE argument (f int)",
        "CREATE TYPE result (f int)",
        "CREATE TYPE state (f int)",
        "CREATE TYPE column (f int)",
        "CREATE TYPE field (f int)",
        "CREATE TYPE free (f int)",
    ];
    let arguments = String::from_utf8(text_list(["frozen<argument>"]).to_vec()).unwrap();
    let fields = text_list(["frozen<map<field, gone>>"]);
    let fields = [("field_names", text_list(["f"])), ("field_types", fields)];
    let schema = Folder::new(&types)
        .function("f", &[("return_type", "outer")])
        .function("g", &[("return_type", "list<frozen<result>>")])
        .row(
            "functions",
            &["h", &arguments],
            &[("return_type", text("int"))],
        )
        .function("sum", &[("state_type", "state"), ("initcond", "{f: 1}")])
        .function("max", &[("state_type", "free")])
        .left_out("users", "frozen<column>")
        .row("types", &["lost"], &fields)
        .schema();
    for (name, users) in [
        ("u", "functions k.f"),
        ("argument", "functions k.h"),
        ("result", "functions k.g"),
        ("state", "functions k.sum"),
        ("column", "tables users"),
        ("field", "user types lost"),
    ] {
        assert_eq!(
            refusal(&schema, &format!("DROP TYPE {name}")),
            format!("Cannot drop user type 'k.{name}' as it is still used by {users}")
        );
    }
    assert_eq!(
        refusal(&schema, "ALTER TYPE state RENAME f TO g"),
        "Cannot alter user type k.state as it is still used in INITCOND by aggregates k.sum"
    );
    assert!(apply(&schema, "ALTER TYPE free RENAME f TO g").is_ok());
    assert!(apply(&schema, "ALTER TYPE state ADD g int").is_ok());
    let drop = refusal(&schema, "DROP FUNCTION IF EXISTS f");
    assert!(drop.starts_with("function k.f is not served"), "{drop}");
    let drop = refusal(&schema, "DROP AGGREGATE sum(int)");
    assert!(drop.starts_with("function k.sum is not served"), "{drop}");
}

#[test]
fn cassandra_is_told_to_build_indexes_and_views_anew() {
    let deleted = |folder: &Folder| -> Vec<String> {
        let mutations = unbuilt_mutations(&folder.schema(), 5);
        let updates = mutations.iter().flat_map(|mutation| &mutation.updates);
        updates
            .inspect(|update| {
                assert_eq!(update.key.key().as_ref(), b"k");
                assert_eq!(update.deletion.timestamp, 5);
            })
            .map(|update| format!("{}.{}", update.table.keyspace, update.table.name))
            .collect()
    };
    let folder = Folder::new(&[TABLE]);
    assert_eq!(deleted(&folder), [""; 0]);
    let folder = folder.index("i", "v");
    assert_eq!(deleted(&folder), ["system.IndexInfo"]);
    let views = ["system.built_views", "system.view_builds_in_progress"];
    assert_eq!(deleted(&folder.view("v"))[1..], views);
}

#[test]
fn a_mask_that_is_not_served_goes_with_its_column_or_by_drop_masked() {
    let mask = [
        ("function_keyspace", text("k")),
        ("function_name", text("in_java")),
        ("function_argument_nulls", text_list([])),
        ("function_argument_types", text_list([])),
        ("function_argument_values", text_list([])),
    ];
    let folder = Folder::new(&[TABLE])
        .row("column_masks", &["t", "v"], &mask)
        .row("column_masks", &["t", "c"], &mask)
        // Of a column that was dropped when nobody looked at masks.
        .row("column_masks", &["t", "old"], &mask);
    assert_eq!(
        folder.warnings(),
        [
            "columns of keyspace k have masks of functions that are not served: they are kept and not \
          described"
        ]
    );
    let schema = folder.schema();
    assert_eq!(
        unmasked(&schema, "ALTER TABLE t ALTER v DROP MASKED"),
        ["t.v"]
    );
    assert_eq!(unmasked(&schema, "ALTER TABLE t DROP v"), ["t.old", "t.v"]);
    assert_eq!(unmasked(&schema, "ALTER TABLE t ADD old int"), ["t.old"]);
    let change = apply(&schema, "ALTER TABLE t ALTER v DROP MASKED").unwrap();
    assert!(change.event.is_some());
    let again = apply(&change.schema, "ALTER TABLE t ALTER v DROP MASKED").unwrap();
    assert_eq!(again.event, None);
    let rename = refusal(&schema, "ALTER TABLE t RENAME c TO d");
    assert!(
        rename.starts_with("Cannot rename column c: it has a mask"),
        "{rename}"
    );
    assert_eq!(unmasked(&schema, "DROP TABLE t"), [""; 0]);

    let schema = folder
        .view("w")
        .row("column_masks", &["w", "v"], &mask)
        .schema();
    assert_eq!(
        unmasked(&schema, "ALTER TABLE t ALTER v DROP MASKED"),
        ["t.v", "w.v"]
    );
}

/// One of `system` is served, and takes the place of one that is not.
#[test]
fn a_mask_of_cassandras_is_read_and_replaces_one_that_is_not_served() {
    let served = [
        ("function_keyspace", text("system")),
        ("function_name", text("mask_default")),
        ("function_argument_nulls", text_list([])),
        ("function_argument_types", text_list([])),
        ("function_argument_values", text_list([])),
    ];
    let folder = Folder::new(&[TABLE]).row("column_masks", &["t", "v"], &served);
    assert_eq!(folder.warnings(), [""; 0]);
    let schema = folder.schema();
    let mask = |schema: &Schema| schema.table("k", "t").unwrap().masks["v"].to_string();
    assert_eq!(mask(&schema), "system.mask_default()");
    assert_eq!(unmasked(&schema, "ALTER TABLE t DROP v"), ["t.v"]);

    let folder = Folder::new(&[TABLE]).row("column_masks", &["t", "v"], &[]);
    let schema = folder.schema();
    let changed = apply(&schema, "ALTER TABLE t ALTER v MASKED WITH DEFAULT").unwrap();
    assert_eq!(mask(&changed.schema), "system.mask_default()");
    let mutations = schema_to_mutations(&schema, &changed.schema, 2);
    let updates = mutations.iter().flat_map(|mutation| &mutation.updates);
    let rows: Vec<_> = updates.flat_map(|update| &update.rows).collect();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].deletion.is_live() && !rows[0].cells.is_empty());
}

#[test]
fn triggers_are_warned_of() {
    let options = BTreeMap::from([("class".to_owned(), "Audit".to_owned())]);
    let folder = Folder::new(&[TABLE]);
    let folder = folder.row(
        "triggers",
        &["t", "audit"],
        &[("options", text_map(&options))],
    );
    assert_eq!(
        folder.warnings(),
        ["triggers of keyspace k are not served: they are not supported yet"]
    );
}
