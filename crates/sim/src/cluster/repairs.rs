//! Rows that are written once, or deleted once, while some replicas are away: hints bring them what they missed
//! ([`Round::Hints`]), or reads do ([`Round::Reads`]).
//!
//! All nodes are replicas of all rows, and nothing is written over: what a replica has missed, nothing hides.
//! Who is away is a minority, cut off or dead. A row is the time at which it was written, so that what
//! deletes it is later ([`Elements`]), and is gone when its value is: deletions are of cells, rows, ranges of
//! rows and whole partitions.
//!
//! After a round of hints, each node alone has what was acknowledged. In a round of reads there are no hints.
//! Only a minority has the statements, the witnesses; then the others that are needed for a quorum read with
//! them, and see it all, as every such quorum has a witness in it; then the witnesses are away, and every
//! quorum still sees it, as a read at QUORUM leaves a quorum that knows what it has shown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use io::TaskGroup;
use io::sim::Crash;
use node::Flaw;

use super::elements::Elements;
use super::session::Session;
use super::world::World;
use crate::Random;

/// How many rounds there are.
const ROUNDS: u64 = 3;
/// How many partitions.
const PARTITIONS: i64 = 3;
/// How many statements a round has before somebody is away, and then.
const BEFORE: u64 = 24;
const MEANWHILE: u64 = 40;
/// How long the nodes may take to be ready once nothing is wrong any more.
const SETTLE: Duration = Duration::from_secs(120);
/// How long it may take until a majority answers, when others have just gone or come back.
const RECOVERY: Duration = Duration::from_secs(60);
/// How long hints may take until all are delivered.
const HINTS: Duration = Duration::from_secs(120);
/// How long a client may take for all that it does at once.
const CLIENT: Duration = Duration::from_secs(600);
/// How often to look.
const LOOK: Duration = Duration::from_secs(1);
/// How long nodes take to be told something by an operator.
const TOLD: Duration = Duration::from_millis(20);
/// After how long nodes that are reached again do not take what was sent to them before.
const LATE: Duration = Duration::from_secs(4);
/// How wrong a clock may be, in milliseconds.
const WRONG: u64 = 4_000;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rounds in which hints bring what was missed.
    pub hints: u64,
    /// Rounds in which reads do.
    pub repairs: u64,
    /// Times that somebody was away.
    pub absences: u64,
    /// Writes and deletions that were acknowledged.
    pub statements: u64,
    /// Those of which nobody knows.
    pub unknown: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// The trace of the run.
    pub trace: u64,
}

impl Report {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Report) {
        self.hints += other.hints;
        self.repairs += other.repairs;
        self.absences += other.absences;
        self.statements += other.statements;
        self.unknown += other.unknown;
        self.reads += other.reads;
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} rounds of hints, {} of read repair, {} absences, {} statements acknowledged, {} without an \
             answer, {} reads checked",
            self.hints, self.repairs, self.absences, self.statements, self.unknown, self.reads
        )
    }
}

/// How replicas that were away get to know what they missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Hints,
    Reads,
}

/// What a statement does to a partition.
enum Change {
    Insert,
    /// As INSERT, without a marker of the row.
    Update,
    DeleteCell(i64),
    DeleteRow(i64),
    /// From the first of them to the last.
    DeleteRange(i64, i64),
    DeletePartition,
}

impl Change {
    fn choose(random: &mut Random, known: &Elements) -> Change {
        let there = known.certain();
        if there.is_empty() || random.chance(50) {
            return match random.chance(50) {
                true => Change::Insert,
                false => Change::Update,
            };
        }
        let row = *random.pick(&there);
        match random.below(10) {
            0 => Change::DeletePartition,
            1..4 => Change::DeleteCell(row),
            4..7 => Change::DeleteRange(row, row + random.below(3) as i64),
            _ => Change::DeleteRow(row),
        }
    }

    fn text(&self, key: i64, time: i64) -> String {
        let using = format!("USING TIMESTAMP {time}");
        let of_row = |row: &i64| format!("WHERE key = {key} AND row = {row}");
        match self {
            Change::Insert => {
                format!("INSERT INTO k.rows (key, row, value) VALUES ({key}, {time}, 1) {using}")
            }
            Change::Update => format!("UPDATE k.rows {using} SET value = 1 {}", of_row(&time)),
            Change::DeleteCell(row) => {
                format!("DELETE value FROM k.rows {using} {}", of_row(row))
            }
            Change::DeleteRow(row) => format!("DELETE FROM k.rows {using} {}", of_row(row)),
            Change::DeleteRange(first, last) => {
                let rows = format!("row >= {first} AND row <= {last}");
                format!("DELETE FROM k.rows {using} WHERE key = {key} AND {rows}")
            }
            Change::DeletePartition => format!("DELETE FROM k.rows {using} WHERE key = {key}"),
        }
    }

    fn adds(&self) -> bool {
        matches!(self, Change::Insert | Change::Update)
    }

    fn removes(&self, known: &Elements) -> Vec<i64> {
        match self {
            Change::Insert | Change::Update => Vec::new(),
            Change::DeleteCell(row) | Change::DeleteRow(row) => vec![*row],
            Change::DeleteRange(first, last) => {
                let mut rows = known.possible();
                rows.retain(|row| (*first..=*last).contains(row));
                rows
            }
            Change::DeletePartition => known.possible(),
        }
    }
}

/// A change that was made.
struct Statement {
    key: i64,
    /// When, and what it adds, if it adds a row.
    time: i64,
    change: Change,
    removes: Vec<i64>,
}

impl Statement {
    fn text(&self) -> String {
        self.change.text(self.key, self.time)
    }
}

/// What is known, and what was done.
#[derive(Default)]
struct Rows {
    partitions: BTreeMap<i64, Elements>,
    clock: i64,
    report: Report,
}

impl Rows {
    fn partition(&mut self, key: i64) -> &mut Elements {
        self.partitions.entry(key).or_default()
    }

    /// A client tries something.
    fn begin(&mut self, random: &mut Random) -> Statement {
        self.clock += 1;
        let time = self.clock;
        let key = random.below(PARTITIONS as u64) as i64;
        let known = self.partition(key);
        let change = Change::choose(random, known);
        let removes = change.removes(known);
        known.removing(&removes);
        if change.adds() {
            known.adding(time);
        }
        Statement {
            key,
            time,
            change,
            removes,
        }
    }

    /// These are certain from now on: all that follows sees them.
    fn are_certain(&mut self, statements: Vec<Statement>) {
        for statement in statements {
            let known = self.partition(statement.key);
            known.removed(&statement.removes);
            if statement.change.adds() {
                known.added(statement.time);
            }
        }
    }
}

/// A world in rounds.
struct Story {
    world: World,
    random: Random,
    rows: Rc<RefCell<Rows>>,
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
    let mut random = Random::new(seed ^ 0x4e_9a12);
    let nodes = *random.pick(&[3, 3, 5, 7]);
    let mut world = World::with_flaw((seed, flaw), nodes, &mut random);
    (0..nodes).for_each(|number| world.start(number));
    world.wait_until_ready(SETTLE)?;
    for text in [
        &format!(
            "CREATE KEYSPACE k WITH replication = {{'class': 'NetworkTopologyStrategy', \
             'datacenter1': {nodes}}}"
        ),
        "CREATE TABLE k.rows (key bigint, row bigint, value bigint, PRIMARY KEY (key, row))",
    ] {
        world.ask(0, text, Consistency::One)?;
    }
    let mut story = Story {
        world,
        random,
        rows: Rc::default(),
    };
    for _ in 0..ROUNDS {
        let round = *story.random.pick(&[Round::Hints, Round::Reads]);
        let lived = match round {
            Round::Hints => story.hints(),
            Round::Reads => story.reads(),
        };
        lived.map_err(|problem| format!("{round:?}: {problem}"))?;
    }
    let mut report = story.rows.borrow().report;
    report.trace = story.world.simulation.trace_hash();
    Ok(report)
}

impl Story {
    /// A majority that goes on, and the minority that does not, which may be as small as one.
    fn split(&mut self) -> (Vec<usize>, Vec<usize>) {
        let mut all: Vec<usize> = (0..self.world.len()).collect();
        let most = (self.world.len() - 1) / 2;
        let away = 1 + self.random.below(most as u64) as usize;
        let away = (0..away).map(|_| {
            let at = self.random.below(all.len() as u64) as usize;
            all.swap_remove(at)
        });
        let away = away.collect();
        (all, away)
    }

    /// These are cut off, or die. What they say reaches nobody; what they are told may reach them.
    fn go_away(&mut self, away: &[usize], others: &[usize], may_die: bool) {
        self.rows.borrow_mut().report.absences += 1;
        if may_die && self.random.chance(40) {
            for node in away {
                let how = match self.random.chance(50) {
                    true => Crash::Process,
                    false => Crash::Power,
                };
                self.world.crash(*node, how);
            }
            return;
        }
        self.world.cut(away, others);
        if self.random.chance(70) {
            self.world.cut(others, away);
        }
    }

    /// All are back, and hear each other, though maybe slowly.
    fn come_back(&mut self) -> Result<(), String> {
        self.world.heal();
        for node in 0..self.world.len() {
            if !self.world.runs(node) {
                self.world.start(node);
            }
        }
        self.world.wait_until_ready(SETTLE)
    }

    /// Something that takes nothing from anybody.
    fn disturb(&mut self) {
        let node = self.random.below(self.world.len() as u64) as usize;
        match self.random.below(4) {
            0 => self.world.spoil_links(),
            1 => self.world.slow_drive(node),
            2 => {
                let ahead = self.random.below(2 * WRONG) as i64 - WRONG as i64;
                self.world.set_clock(node, ahead * 1000);
            }
            _ => {}
        }
    }

    /// Hints bring all that a minority has missed, which comes and goes while they are brought.
    fn hints(&mut self) -> Result<(), String> {
        self.rows.borrow_mut().report.hints += 1;
        self.keep_hints(true);
        let (there, away) = self.split();
        // Hints die with who keeps them: all coordinators live on.
        let changes = self.write(&there, BEFORE, Consistency::Quorum)?;
        self.rows.borrow_mut().are_certain(changes);
        let absences = 1 + self.random.below(3);
        for _ in 0..absences {
            self.go_away(&away, &there, true);
            self.disturb();
            let changes = self.write(&there, MEANWHILE / absences, Consistency::Quorum)?;
            self.rows.borrow_mut().are_certain(changes);
            let rest = Duration::from_millis(self.random.below(12_000));
            self.world.simulation.run_for(rest);
            self.come_back()?;
            let rest = Duration::from_millis(self.random.below(4_000));
            self.world.simulation.run_for(rest);
        }
        self.come_back()?;
        self.each_has_all(HINTS)
    }

    /// Reads bring what only a minority has, and nobody brings otherwise.
    fn reads(&mut self) -> Result<(), String> {
        self.rows.borrow_mut().report.repairs += 1;
        self.keep_hints(false);
        let everybody: Vec<usize> = (0..self.world.len()).collect();
        let changes = self.write(&everybody, BEFORE, Consistency::All)?;
        self.rows.borrow_mut().are_certain(changes);
        let (others, witnesses) = self.split();
        self.world.cut(&witnesses, &others);
        if self.random.chance(60) {
            self.world.cut(&others, &witnesses);
        }
        // One coordinator: who it is, is in every quorum that follows.
        let witness = *self.random.pick(&witnesses);
        let changes = self.write(&[witness], MEANWHILE, Consistency::One)?;
        self.world.simulation.run_for(LATE);
        self.come_back()?;
        self.keep_hints(false);
        // The witness, and as many as just make a quorum with it.
        let mut rest = everybody.clone();
        rest.retain(|node| *node != witness);
        let quorum = self.world.len() / 2 + 1;
        let mut with = vec![witness];
        while with.len() < quorum {
            let at = self.random.below(rest.len() as u64) as usize;
            with.push(rest.swap_remove(at));
        }
        self.go_away(&rest, &with, true);
        self.disturb();
        self.rows.borrow_mut().are_certain(changes);
        self.read(&with, Consistency::Quorum)?;
        self.come_back()?;
        self.keep_hints(false);
        // Now without the witness, and without as many others as a quorum can do without.
        let mut away = vec![witness];
        let mut without = everybody;
        without.retain(|node| *node != witness);
        while without.len() > quorum {
            let at = self.random.below(without.len() as u64) as usize;
            away.push(without.swap_remove(at));
        }
        self.go_away(&away, &without, true);
        self.disturb();
        self.read(&without, Consistency::Quorum)?;
        self.come_back()?;
        // Who was away learns the rest.
        let everybody: Vec<usize> = (0..self.world.len()).collect();
        self.read(&everybody, Consistency::All)?;
        self.each_has_all(Duration::ZERO)
    }

    fn keep_hints(&mut self, kept: bool) {
        for node in 0..self.world.len() {
            self.world.keep_hints(node, kept);
        }
        self.world.simulation.run_for(TOLD);
    }

    /// A client does something with these nodes; what comes of it.
    fn employ<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        nodes: &[usize],
        work: impl FnOnce(Rc<RefCell<Rows>>, Session) -> F,
    ) -> Result<T, String> {
        let env = self.world.clients();
        let nodes = nodes.iter();
        let addresses: Vec<SocketAddr> = nodes.map(|node| self.world.cql(*node)).collect();
        let random = Random::new(self.random.next_u64());
        let working = work(self.rows.clone(), Session::new(&env, &addresses, random));
        let result: Rc<RefCell<Option<T>>> = Rc::default();
        let of_task = result.clone();
        let working = async move {
            let worked = working.await;
            *of_task.borrow_mut() = Some(worked);
        };
        env.spawn(TaskGroup::Foreground, working).detach();
        let simulation = &mut self.world.simulation;
        simulation.run_until(CLIENT, |_| result.borrow().is_some());
        let worked = result.take();
        worked.ok_or_else(|| "a client waits for ever".to_owned())
    }

    /// So many statements; those of them that were acknowledged, of which nothing is certain yet.
    fn write(
        &mut self,
        nodes: &[usize],
        count: u64,
        level: Consistency,
    ) -> Result<Vec<Statement>, String> {
        self.employ(nodes, async move |rows, mut session| {
            let mut acknowledged = Vec::new();
            for _ in 0..count {
                let statement = rows.borrow_mut().begin(session.random());
                if session.random().chance(20) {
                    session.leave();
                }
                match session.run(&statement.text(), level).await {
                    Ok(_) => {
                        rows.borrow_mut().report.statements += 1;
                        acknowledged.push(statement);
                    }
                    Err(_) => rows.borrow_mut().report.unknown += 1,
                }
            }
            acknowledged
        })
    }

    /// Everything is read at a level of at least QUORUM, by partitions or all at once, and is as it should be.
    fn read(&mut self, nodes: &[usize], level: Consistency) -> Result<(), String> {
        let until = self.world.simulation.now() + RECOVERY;
        let env = self.world.clients();
        self.employ(nodes, async move |rows, mut session| {
            let whole = session.random().chance(30);
            let ask: Vec<Option<i64>> = match whole {
                true => vec![None],
                false => (0..PARTITIONS).map(Some).collect(),
            };
            for key in ask {
                let text = question(key, session.random());
                let before = rows.borrow().partitions.clone();
                let answer = loop {
                    match session.run(&text, level).await {
                        Ok(answer) => break answer,
                        Err(failure) if env.now() > until => {
                            return Err(format!("no answer at {level:?}: {failure:?}"));
                        }
                        Err(_) => session.rest(1000).await,
                    }
                };
                let mut rows = rows.borrow_mut();
                rows.report.reads += 1;
                let shown = by_partition(&answer.rows);
                for key in key.map_or(0..PARTITIONS, |key| key..key + 1) {
                    let none = BTreeSet::new();
                    let shown = shown.get(&key).unwrap_or(&none);
                    let before = before.get(&key).cloned().unwrap_or_default();
                    let checked = rows.partition(key).check(&before, shown);
                    checked.map_err(|problem| format!("partition {key}, {level:?}: {problem}"))?;
                }
            }
            Ok(())
        })?
    }

    /// Each node, asked alone, has all that is certain, before long.
    fn each_has_all(&mut self, limit: Duration) -> Result<(), String> {
        let until = self.world.simulation.now() + limit;
        for node in 0..self.world.len() {
            loop {
                let lacks = self.lacks(node);
                if lacks.is_ok() {
                    break;
                }
                if self.world.simulation.now() > until {
                    return lacks;
                }
                self.world.simulation.run_for(LOOK);
            }
        }
        Ok(())
    }

    /// What a node has not of what is certain.
    fn lacks(&mut self, node: usize) -> Result<(), String> {
        for key in 0..PARTITIONS {
            let text = question(Some(key), &mut self.random);
            let answer = self.world.ask(node, &text, Consistency::One)?;
            let shown = by_partition(&answer).remove(&key).unwrap_or_default();
            let mut rows = self.rows.borrow_mut();
            rows.report.reads += 1;
            let known = rows.partition(key);
            let explained = known.explain(known, &shown);
            explained
                .map_err(|problem| format!("partition {key}, node {node} alone: {problem}"))?;
        }
        Ok(())
    }
}

fn question(key: Option<i64>, random: &mut Random) -> String {
    let select = "SELECT key, row, value FROM k.rows";
    match key {
        None => select.to_owned(),
        Some(key) if random.chance(30) => {
            format!("{select} WHERE key = {key} ORDER BY row DESC")
        }
        Some(key) => format!("{select} WHERE key = {key}"),
    }
}

/// The rows that are there, as their values are: those of each partition.
fn by_partition(rows: &[Vec<Option<Bytes>>]) -> BTreeMap<i64, BTreeSet<i64>> {
    let number = |row: &Vec<Option<Bytes>>, at: usize| {
        let bytes: &[u8] = row.get(at)?.as_deref()?;
        Some(i64::from_be_bytes(bytes.try_into().ok()?))
    };
    let mut partitions: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for row in rows {
        let place = (number(row, 0), number(row, 1), number(row, 2));
        if let (Some(key), Some(row), Some(_)) = place {
            partitions.entry(key).or_default().insert(row);
        }
    }
    partitions
}
