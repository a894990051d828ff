//! A table, its materialized views and its indexes, written to and asked by several clients at once while nodes die,
//! are cut off and are slow. Once all is well again, and the replicas of the table have been made equal by reads, each
//! view says what the table says, and each index finds what a scan finds: asked of all replicas, and of any of them
//! alone.
//!
//! Some views and indexes are there from the start, some are made while all of this goes on, so that they are built
//! from what there is then. Few rows and few values make most writes take a row of a view to another place.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use io::{Env, TaskGroup};
use node::Flaw;

use super::clients::Clients;
use super::session::Session;
use super::trouble::{self, Trouble};
use super::world::World;
use crate::Random;

/// How long clients work.
const WORK: Duration = Duration::from_secs(15);
/// How many of them there are.
const CLIENTS: u64 = 4;
/// How many partitions, rows of each, and values.
const PARTITIONS: u64 = 3;
const ROWS: u64 = 3;
const VALUES: u64 = 3;
/// How long a client rests between two statements at most, in milliseconds.
const REST: u64 = 300;
/// How long the nodes may take to be ready once nothing is wrong any more.
const SETTLE: Duration = Duration::from_secs(120);
/// How long clients go on when all is well: what they write then covers up what went wrong before.
const WELL: Duration = Duration::from_secs(1);
/// How long it may take until every view is as its table.
const EQUAL: Duration = Duration::from_secs(300);
/// How often to look.
const LOOK: Duration = Duration::from_secs(3);

/// The views, each with what it shows of a row of the table, as the values of its columns.
const VIEWS: [(&str, &str); 3] = [
    (
        "by_a",
        "CREATE MATERIALIZED VIEW k.by_a AS SELECT * FROM k.t WHERE p IS NOT NULL AND c IS NOT NULL AND a \
         IS NOT NULL PRIMARY KEY (a, p, c)",
    ),
    (
        "by_c",
        "CREATE MATERIALIZED VIEW k.by_c AS SELECT p, c, b FROM k.t WHERE p IS NOT NULL AND c IS NOT NULL \
         PRIMARY KEY (c, p)",
    ),
    (
        "by_b",
        "CREATE MATERIALIZED VIEW k.by_b AS SELECT p, c, b FROM k.t WHERE p IS NOT NULL AND c < 2 AND b IS \
         NOT NULL PRIMARY KEY ((p, b), c)",
    ),
];

/// The indexes, each with the place of its column among the values of a row.
const INDEXES: [(usize, &str); 3] = [
    (1, "CREATE INDEX IF NOT EXISTS t_c ON k.t (c)"),
    (2, "CREATE INDEX IF NOT EXISTS t_a ON k.t (a)"),
    (3, "CREATE INDEX IF NOT EXISTS t_b ON k.t (b) USING 'sai'"),
];
/// The columns of the table, in the order of the values of a row.
const COLUMNS: [&str; 4] = ["p", "c", "a", "b"];

/// The values of a row: `p`, `c`, `a`, `b`.
type Values = [Option<i64>; 4];

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Statements that were acknowledged.
    pub statements: u64,
    /// Those of which nobody knows.
    pub unknown: u64,
    /// Rows of views that were compared.
    pub compared: u64,
    /// Rows that were found by indexes, and compared.
    pub found: u64,
    /// What went wrong around them.
    pub trouble: Trouble,
    /// The trace of the run.
    pub trace: u64,
}

impl Report {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Report) {
        self.statements += other.statements;
        self.unknown += other.unknown;
        self.compared += other.compared;
        self.found += other.found;
        self.trouble.add(&other.trouble);
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} statements acknowledged, {} without an answer, {} rows of views compared, {} found by indexes; {}",
            self.statements, self.unknown, self.compared, self.found, self.trouble
        )
    }
}

/// What the clients share.
struct Shared {
    env: Env,
    addresses: Vec<std::net::SocketAddr>,
    clients: Clients,
    report: RefCell<Report>,
}

/// Lives a world.
///
/// # Errors
/// What is wrong, in words.
pub fn run(seed: u64) -> Result<Report, String> {
    run_with(seed, Flaw::None)
}

/// Lives a world of nodes with a mistake.
///
/// # Errors
/// What is wrong, in words.
pub fn run_with(seed: u64, flaw: Flaw) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x71e3_5a0d);
    let nodes = *random.pick(&[1, 3, 4, 5]);
    let mut world = World::with_flaw((seed, flaw), nodes, &mut random);
    (0..nodes).for_each(|number| world.start(number));
    world.wait_until_ready(SETTLE)?;
    let replicas = nodes.min(3);
    for text in [
        &format!(
            "CREATE KEYSPACE k WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': \
             {replicas}}}"
        ),
        "CREATE TABLE k.t (p bigint, c bigint, a bigint, b bigint, PRIMARY KEY (p, c))",
    ] {
        world.ask(0, text, Consistency::One)?;
    }
    let indexes = INDEXES.iter().map(|(_, text)| *text);
    let made = VIEWS.iter().map(|(_, text)| *text).chain(indexes);
    let (first, late): (Vec<_>, Vec<_>) = made.partition(|_| random.chance(60));
    for text in first {
        world.ask(0, text, Consistency::One)?;
    }
    let shared = begin(&world, &mut random, late);
    let until = world.simulation.now() + WORK;
    let mut trouble = Trouble::default();
    while world.simulation.now() < until && shared.clients.is_well() {
        trouble.make(&mut world, &mut random)?;
    }
    trouble::end(&mut world, SETTLE)?;
    shared.clients.end(&mut world, WELL)?;
    become_equal(&mut world, &shared)?;
    let mut report = *shared.report.borrow();
    report.trouble = trouble;
    report.trace = world.simulation.trace_hash();
    Ok(report)
}

fn begin(world: &World, random: &mut Random, late: Vec<&'static str>) -> Rc<Shared> {
    let env = world.clients();
    let shared = Rc::new(Shared {
        env: env.clone(),
        addresses: (0..world.len()).map(|number| world.cql(number)).collect(),
        clients: Clients::new(CLIENTS + 1),
        report: RefCell::default(),
    });
    for _ in 0..CLIENTS {
        let (shared, random) = (shared.clone(), Random::new(random.next_u64()));
        let working = async move {
            write(&shared, random).await;
            shared.clients.one_has_ended();
        };
        env.spawn(TaskGroup::Foreground, working).detach();
    }
    let (of_task, random) = (shared.clone(), Random::new(random.next_u64()));
    let making = async move {
        make(&of_task, random, late).await;
        of_task.clients.one_has_ended();
    };
    env.spawn(TaskGroup::Foreground, making).detach();
    shared
}

/// Makes views and indexes while others write.
async fn make(shared: &Shared, random: Random, late: Vec<&'static str>) {
    let mut session = Session::new(&shared.env, &shared.addresses, random);
    for text in late {
        session.rest(WORK.as_millis() as u64 / 2).await;
        let text = text.replace("VIEW k.", "VIEW IF NOT EXISTS k.");
        while session.run(&text, Consistency::One).await.is_err() {
            session.rest(1000).await;
        }
    }
}

async fn write(shared: &Shared, random: Random) {
    let mut session = Session::new(&shared.env, &shared.addresses, random);
    while !shared.clients.shall_end() {
        let text = statement(session.random());
        let mut report = Report::default();
        match session.run(&text, Consistency::Quorum).await {
            Ok(_) => report.statements = 1,
            Err(_) => report.unknown = 1,
        }
        shared.report.borrow_mut().add(&report);
        session.rest(REST).await;
    }
}

fn statement(random: &mut Random) -> String {
    let (p, c) = (random.below(PARTITIONS), random.below(ROWS));
    let value = random.below(VALUES);
    let of_row = format!("WHERE p = {p} AND c = {c}");
    let column = *random.pick(&["a", "b"]);
    match random.below(24) {
        // What is found cannot be known now; entries that are stale are.
        20.. => format!("SELECT p, c FROM k.t WHERE {column} = {value} ALLOW FILTERING"),
        0..6 => {
            let other = random.below(VALUES);
            format!("INSERT INTO k.t (p, c, a, b) VALUES ({p}, {c}, {value}, {other})")
        }
        6..12 => format!("UPDATE k.t SET {column} = {value} {of_row}"),
        12..14 => format!("DELETE {column} FROM k.t {of_row}"),
        14..17 => format!("DELETE FROM k.t {of_row}"),
        17 => format!("DELETE FROM k.t WHERE p = {p} AND c >= {c}"),
        18 => format!("DELETE FROM k.t WHERE p = {p}"),
        _ => format!(
            "BEGIN UNLOGGED BATCH UPDATE k.t SET a = {value} {of_row}; DELETE b FROM k.t {of_row}; APPLY \
             BATCH"
        ),
    }
}

/// Waits until each view says what the table says.
fn become_equal(world: &mut World, shared: &Shared) -> Result<(), String> {
    let until = world.simulation.now() + EQUAL;
    loop {
        let differs = look(world, shared, until);
        if differs.is_ok() || world.simulation.now() > until {
            return differs;
        }
        world.simulation.run_for(LOOK);
    }
}

fn look(world: &mut World, shared: &Shared, until: io::Instant) -> Result<(), String> {
    // At ALL: what some replicas lack they are told.
    let table = world.ask_until(until, 0, "SELECT p, c, a, b FROM k.t", Consistency::All)?;
    let table: BTreeSet<Values> = table.iter().map(|row| values(row)).collect();
    for node in 0..world.len() {
        let built = "SELECT view_name FROM system.built_views WHERE keyspace_name = 'k'";
        let built = world.ask(node, built, Consistency::One)?;
        if built.len() != VIEWS.len() {
            return Err(format!("node {node} has built {} views", built.len()));
        }
    }
    for (name, _) in VIEWS {
        let expected: BTreeSet<Values> = table.iter().filter_map(|row| shown(name, row)).collect();
        let columns = match name {
            "by_a" => "p, c, a, b",
            _ => "p, c, b",
        };
        let text = format!("SELECT {columns} FROM k.{name}");
        let all = (0, Consistency::All);
        let alone = (0..world.len()).map(|node| (node, Consistency::One));
        for (node, level) in std::iter::once(all).chain(alone) {
            let rows = world.ask(node, &text, level)?;
            let there: BTreeSet<Values> = rows.iter().map(|row| of_view(name, row)).collect();
            if there != expected || there.len() != rows.len() {
                let lacks: Vec<_> = expected.difference(&there).collect();
                let more: Vec<_> = there.difference(&expected).collect();
                return Err(format!(
                    "{name}, node {node} at {level:?}: lacks {lacks:?}, has {more:?} that the table does not \
                     have"
                ));
            }
            shared.report.borrow_mut().compared += rows.len() as u64;
        }
    }
    find(world, shared, &table)
}

/// What indexes find is what the table has.
fn find(world: &mut World, shared: &Shared, table: &BTreeSet<Values>) -> Result<(), String> {
    for (at, _) in INDEXES {
        for value in 0..VALUES.max(ROWS) as i64 {
            let column = COLUMNS[at];
            let expected: BTreeSet<Values> = table
                .iter()
                .filter(|row| row[at] == Some(value))
                .copied()
                .collect();
            let text = format!("SELECT p, c, a, b FROM k.t WHERE {column} = {value}");
            let all = [Consistency::All, Consistency::Quorum].map(|level| (0, level));
            let alone = (0..world.len()).map(|node| (node, Consistency::One));
            for (node, level) in all.into_iter().chain(alone) {
                let rows = world.ask(node, &text, level)?;
                let there: BTreeSet<Values> = rows.iter().map(|row| values(row)).collect();
                if there != expected || there.len() != rows.len() {
                    return Err(format!(
                        "{column} = {value}, node {node} at {level:?}: {there:?} by the index, {expected:?} in \
                         the table"
                    ));
                }
                shared.report.borrow_mut().found += rows.len() as u64;
            }
        }
    }
    Ok(())
}

/// What a view shows of a row of the table.
fn shown(view: &str, [p, c, a, b]: &Values) -> Option<Values> {
    match view {
        "by_a" => a.map(|_| [*p, *c, *a, *b]),
        "by_b" => b.filter(|_| *c < Some(2)).map(|_| [*p, *c, None, *b]),
        _ => Some([*p, *c, None, *b]),
    }
}

fn values(row: &[Option<Bytes>]) -> Values {
    let number = |at: usize| {
        let bytes: &[u8] = row.get(at)?.as_deref()?;
        Some(i64::from_be_bytes(bytes.try_into().ok()?))
    };
    [0, 1, 2, 3].map(number)
}

fn of_view(view: &str, row: &[Option<Bytes>]) -> Values {
    match (view, values(row)) {
        ("by_a", row) => row,
        (_, [p, c, b, _]) => [p, c, None, b],
    }
}
