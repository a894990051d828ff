//! A session of DDL and DESCRIBE whose answers a real Cassandra 5.0.6 gave: Helenus must give the
//! same, and what it writes to `system_schema` must read back as the same schema.
//!
//! In the golden file `>` is a statement, `+` the event it caused, `!` its error, `|` a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cql::CqlError;
use cql::ast::Statement;
use cql::describe::{ClusterDescription, DescribePlan, create_table, create_type};
use cql::schema::{ChangeEvent, ChangeKind, ChangeTarget, SchemaPlan, masks_disabled};
use model::{Keyspace, Mutation, Partition, PartitionUpdate, Row, Schema, Table, collection};
use uuid::Uuid;

use super::{
    SCHEMA_TABLES, SYSTEM_SCHEMA_TIMESTAMP, schema_from_rows, schema_to_mutations, system_keyspaces,
};

const DDL: &str = include_str!("golden/ddl.golden");
const MASKS: &str = include_str!("golden/masks.golden");

/// What Helenus answers otherwise on purpose: statement's start, and why.
const DIFFERENT: [(&str, &str); 1] = [(
    "CREATE TABLE a1.b (k int PRIMARY KEY) WITH read_repair = 'x'",
    "a server error there",
)];

/// A node that has only a schema and its rows.
struct Session {
    schema: Schema,
    rows: BTreeMap<&'static str, BTreeMap<Vec<u8>, PartitionUpdate>>,
    keyspace: Option<String>,
    now: i64,
    /// Is `dynamic_data_masking_enabled` on?
    masking: bool,
}

impl Session {
    fn new() -> Session {
        let mut session = Session {
            schema: system_keyspaces(),
            rows: BTreeMap::new(),
            keyspace: None,
            now: 1_700_000_000_000_000,
            masking: false,
        };
        let all = schema_to_mutations(&Schema::default(), &session.schema, SYSTEM_SCHEMA_TIMESTAMP);
        session.store(all);
        session
    }

    fn store(&mut self, mutations: Vec<Mutation>) {
        for update in mutations.into_iter().flat_map(|mutation| mutation.updates) {
            let name = SCHEMA_TABLES
                .iter()
                .find(|name| ***name == *update.table.name);
            let Some(name) = name else { continue };
            let partitions = self.rows.entry(name).or_default();
            match partitions.get_mut(&update.key.key()[..]) {
                Some(known) => known.merge(update),
                None => {
                    partitions.insert(update.key.key().to_vec(), update);
                }
            }
        }
    }

    /// What a read of the tables of `system_schema` gives.
    fn stored(&self) -> BTreeMap<&'static str, Vec<Partition>> {
        let live = |update: &PartitionUpdate| Partition {
            key: update.key.clone(),
            deletion: update.deletion,
            static_row: None,
            rows: update
                .rows
                .iter()
                .filter(|row| row.is_live(0))
                .cloned()
                .collect(),
            packed: Vec::new(),
            range_tombstones: Vec::new(),
        };
        self.rows
            .iter()
            .map(|(name, partitions)| {
                let partitions = partitions.values().map(live);
                (*name, partitions.filter(|p| !p.rows.is_empty()).collect())
            })
            .collect()
    }

    fn run(&mut self, text: &str) -> Vec<String> {
        match self.answer(text) {
            Ok(lines) => lines,
            Err(CqlError::AlreadyExists { keyspace, table }) => {
                vec![format!("! 2400 {keyspace} {table}").trim_end().to_owned()]
            }
            Err(error) => vec![escape(&format!("! {:04x} {error}", error.code()))],
        }
    }

    fn answer(&mut self, text: &str) -> Result<Vec<String>, CqlError> {
        let statement = cql::parse(text)?;
        if let Statement::Describe(describe) = &statement {
            return self.describe(DescribePlan::new(describe, self.keyspace.as_deref()));
        }
        if let Statement::Use(keyspace) = &statement {
            self.keyspace = Some(keyspace.clone());
            return Ok(vec!["ok".to_owned()]);
        }
        let plan = SchemaPlan::new(&statement, self.keyspace.as_deref())?;
        let plan = plan.unwrap_or_else(|| panic!("{text} changes no schema"));
        if plan.gives_mask() && !self.masking {
            return Err(masks_disabled());
        }
        self.now += 1000;
        let now = self.now;
        let change = plan.apply(
            &self.schema,
            || Uuid::from_u128(now as u128),
            now,
            &["datacenter1"],
        )?;
        let mutations = schema_to_mutations(&self.schema, &change.schema, self.now);
        assert_eq!(mutations.is_empty(), change.event.is_none(), "{text}");
        self.store(mutations);
        self.check_read_back(text, &change.schema);
        if let Some(event) = &change.event {
            check_described(text, &change.schema, event);
        }
        self.schema = change.schema;
        Ok(vec![match change.event {
            None => "ok".to_owned(),
            Some(event) => shown(&event),
        }])
    }

    fn check_read_back(&self, text: &str, schema: &Schema) {
        let (read, problems) = schema_from_rows(&system_keyspaces(), &self.stored());
        assert!(problems.is_empty(), "after {text}: {problems:?}");
        assert_eq!(read.version, schema.version, "after {text}");
        for (name, keyspace) in &schema.keyspaces {
            let other = &read.keyspaces[name];
            assert_eq!(keyspace.types, other.types, "after {text}");
            assert_eq!(keyspace.replication, other.replication, "after {text}");
            assert!(
                keyspace.tables.keys().eq(other.tables.keys()),
                "after {text}"
            );
            for (name, table) in &keyspace.tables {
                assert_eq!(table.compact, other.tables[name].compact, "after {text}");
            }
        }
    }

    fn describe(&self, plan: DescribePlan) -> Result<Vec<String>, CqlError> {
        let cluster = ClusterDescription::default();
        let rows = plan.rows(&self.schema, &cluster)?;
        let names: Vec<&str> = plan.columns().iter().map(|(name, _)| *name).collect();
        let mut lines = vec![format!("columns {}", names.join(" "))];
        for row in rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| String::from_utf8(cell.as_ref().unwrap().to_vec()).unwrap())
                .collect();
            lines.push(escape(&format!("| {}", cells.join(" | "))));
        }
        Ok(lines)
    }

    /// `SELECT JSON * FROM system_schema.… WHERE keyspace_name = …`
    fn select_json(&self, statement: &str) -> Vec<String> {
        let words: Vec<&str> = statement.split_whitespace().collect();
        let name = words[4].strip_prefix("system_schema.").unwrap();
        let keyspace = words[8].trim_matches('\'');
        let table = self.schema.table("system_schema", name).unwrap();
        let mut lines = vec!["columns [json]".to_owned()];
        for partition in self.stored().get(name).into_iter().flatten() {
            if partition.key.key().as_ref() == keyspace.as_bytes() {
                let rows = partition.rows.iter();
                lines.extend(rows.map(|row| escape(&format!("| {}", json(table, keyspace, row)))));
            }
        }
        lines
    }
}

/// What DESCRIBE prints of what was changed makes it again.
fn check_described(text: &str, schema: &Schema, event: &ChangeEvent) {
    let Some(keyspace) = schema.keyspaces.get(event.keyspace.as_str()) else {
        return;
    };
    let mut without = Keyspace::clone(keyspace);
    let name = event.name.as_str();
    let described = match event.target {
        ChangeTarget::Table => match without.tables.remove(name) {
            // Of COMPACT STORAGE it prints a comment, as Cassandra does.
            Some(table) if table.compact.is_none() => create_table(&table, false),
            _ => return,
        },
        // What uses it cannot be there without it.
        ChangeTarget::Type => match without.types.remove(name) {
            Some(ty) => create_type(&ty),
            None => return,
        },
        _ => return,
    };
    let mut rest = schema.clone();
    rest.keyspaces
        .insert(keyspace.name.clone(), Arc::new(without));
    let statement = cql::parse(&described).unwrap_or_else(|error| panic!("{described}: {error}"));
    let plan = SchemaPlan::new(&statement, None).expect("valid");
    let made = plan
        .expect("it makes something")
        .apply(&rest, Uuid::nil, 0, &["datacenter1"]);
    let made = made.unwrap_or_else(|error| panic!("after {text}: {described}: {error}"));
    let again = &made.schema.keyspaces[event.keyspace.as_str()];
    assert_eq!(again.types, keyspace.types, "after {text}: {described}");
    if let Some(table) = keyspace.tables.get(name) {
        let (table, again) = (shape(table), shape(&again.tables[name]));
        assert_eq!(again, table, "after {text}: {described}");
    }
}

/// All of a table that a client sees.
fn shape(table: &Table) -> impl PartialEq + std::fmt::Debug {
    let columns = table.columns().map(|column| {
        let place = (column.kind, column.position, column.order);
        (column.name.clone(), (column.ty.clone(), place))
    });
    let columns: BTreeMap<_, _> = columns.collect();
    (columns, table.options.clone(), table.masks.clone())
}

fn json(table: &Arc<Table>, keyspace: &str, row: &Row) -> String {
    let mut members = vec![format!("\"keyspace_name\": \"{keyspace}\"")];
    let mut add = |name: &str, value: String| {
        members.push(format!("\"{name}\": {value}"));
    };
    for (column, value) in table.clustering_key().zip(&row.clustering.0) {
        add(&column.name, column.ty.to_json(value));
    }
    for column in table.regulars() {
        let cell = row
            .cells_of(column.id)
            .first()
            .filter(|c| !c.is_tombstone());
        let value = cell.map_or("null".to_owned(), |cell| column.ty.to_json(&cell.value));
        add(&column.name, value);
    }
    format!("{{{}}}", members.join(", "))
}

fn shown(event: &ChangeEvent) -> String {
    let kind = match event.kind {
        ChangeKind::Created => "CREATED",
        ChangeKind::Updated => "UPDATED",
        ChangeKind::Dropped => "DROPPED",
    };
    let target = match event.target {
        ChangeTarget::Keyspace => "KEYSPACE",
        ChangeTarget::Table => "TABLE",
        ChangeTarget::Type => "TYPE",
        ChangeTarget::Function => "FUNCTION",
        ChangeTarget::Aggregate => "AGGREGATE",
    };
    format!("+ {kind} {target} {} {}", event.keyspace, event.name)
        .trim_end()
        .to_owned()
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// Ids and times of drops differ between runs; the index on `system.paxos` is Cassandra's own.
fn comparable(line: &str) -> String {
    let mut line = line.to_owned();
    for before in [" WITH ID = ", " AND ID = "] {
        if let Some(start) = line.find(before) {
            let start = start + before.len();
            line.replace_range(start..start + 36, "…");
        }
    }
    for member in ["\"id\": \"", "\"dropped_time\": \"2"] {
        if let Some(start) = line.find(member) {
            let start = start + member.len();
            let end = start + line[start..].find('"').unwrap();
            line.replace_range(start..end, "…");
        }
    }
    line
}

fn same(expected: &[&str], given: &[String]) -> bool {
    // Syntax errors of the grammar have the parser's own words.
    let grammar = |line: &str| line.starts_with("! 2000 line ");
    if let ([expected], [given]) = (expected, given)
        && grammar(expected)
    {
        return given.starts_with("! 2000 ");
    }
    let expected = expected
        .iter()
        .filter(|line| !line.starts_with("| system | index |"));
    let expected: Vec<String> = expected.map(|line| comparable(line)).collect();
    let given: Vec<String> = given.iter().map(|line| comparable(line)).collect();
    expected == given
}

#[test]
fn ddl_and_describe_answer_as_cassandra_does() {
    check(DDL, 400, Session::new());
}

#[test]
fn masks_answer_as_in_cassandra() {
    let mut session = Session::new();
    session.masking = true;
    check(MASKS, 50, session);
}

/// Holds Helenus to a golden file of more than so many statements.
fn check(golden: &str, statements: usize, mut session: Session) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for block in golden.split("\n\n") {
        let mut lines = block.lines();
        let Some(statement) = lines.next().and_then(|line| line.strip_prefix("> ")) else {
            continue;
        };
        let expected: Vec<&str> = lines.collect();
        let given = if statement.starts_with("SELECT JSON") {
            session.select_json(statement)
        } else {
            session.run(statement)
        };
        compared += 1;
        if DIFFERENT
            .iter()
            .any(|(start, _)| statement.starts_with(start))
        {
            continue;
        }
        if !same(&expected, &given) {
            wrong.push(difference(statement, &expected, &given));
        }
    }
    assert!(compared > statements, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Why `c.t`, which was made so, is not served after a column of a row of `system_schema` changed.
fn refused(
    made: &str,
    (place, row): (&'static str, &[&str]),
    (column, value): (&str, Bytes),
) -> Option<String> {
    let mut session = Session::new();
    session.run(
        "CREATE KEYSPACE c WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    assert_eq!(session.run(made), ["+ CREATED TABLE c t"]);
    let table = session
        .schema
        .table("system_schema", place)
        .unwrap()
        .clone();
    let partition = session.rows.get_mut(place).unwrap().get_mut(&b"c"[..]);
    let rows = &mut partition.unwrap().rows;
    let is_wanted = |found: &&mut Row| {
        let values = found.clustering.0.iter().map(|value| &value[..]);
        values.eq(row.iter().map(|name| name.as_bytes()))
    };
    let cells = &mut rows.iter_mut().find(is_wanted).unwrap().cells;
    let id = table.column_named(column).unwrap().id;
    cells
        .iter_mut()
        .find(|cell| cell.column == id)
        .unwrap()
        .value = value;

    let (read, mut problems) = schema_from_rows(&system_keyspaces(), &session.stored());
    assert_eq!(read.table("c", "t").is_some(), problems.is_empty());
    problems.pop().map(|problem| problem.to_string())
}

#[test]
fn tables_that_thrift_alone_could_make_are_told_of() {
    let flags = |names: &[&str]| collection::pack_elements(names.iter().map(|n| n.as_bytes()));
    let made = "CREATE TABLE c.t (k int PRIMARY KEY, a int) WITH COMPACT STORAGE";
    let changed =
        |names: &[&str]| refused(made, ("tables", &["t"]), ("flags", flags(names).into()));
    assert_eq!(changed(&[]), None);
    assert_eq!(
        changed(&["super"]).unwrap(),
        "table c.t is not served: COMPACT STORAGE of this form is not supported yet"
    );
    let wide = "CREATE TABLE c.t (k int, c int, d int, a int, b int, PRIMARY KEY (k, c, d))";
    let changed =
        |names: &[&str]| refused(wide, ("tables", &["t"]), ("flags", flags(names).into()));
    assert_eq!(
        changed(&["dense"]).unwrap(),
        "table c.t is not served: a table WITH COMPACT STORAGE has clustering columns and one \
         value, not 2 and 2"
    );
    assert_eq!(
        changed(&[]).unwrap(),
        "table c.t is not served: a table WITH COMPACT STORAGE has one clustering column and one \
         value, not 2 and 2"
    );
    let name = |bytes| ("column_name_bytes", Bytes::from_static(bytes));
    assert_eq!(refused(made, ("columns", &["t", "a"]), name(b"a")), None);
    assert_eq!(
        refused(made, ("columns", &["t", "a"]), name(&[0, 97])).unwrap(),
        "table c.t is not served: the name of column a is not text"
    );
}

/// The statement and the first lines that differ.
fn difference(statement: &str, expected: &[&str], given: &[String]) -> String {
    let at = expected
        .iter()
        .zip(given)
        .position(|(e, g)| comparable(e) != comparable(g))
        .unwrap_or(expected.len().min(given.len()));
    let line = |line: Option<String>| line.unwrap_or_else(|| "(nothing)".to_owned());
    format!(
        "> {statement}\n  Cassandra: {}\n  Helenus:   {}",
        line(expected.get(at).map(|l| (*l).to_owned())),
        line(given.get(at).cloned())
    )
}
