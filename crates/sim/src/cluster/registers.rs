//! Writes and reads at QUORUM while nodes die, are cut off and come back.
//!
//! Each key has one writer, which writes rising numbers under rising timestamps; some of them by deleting. So what a read may give
//! is simple: not less than what was acknowledged, or read by anybody, before it began, and not more than
//! was ever tried.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use cluster::Consistency;
use io::{Env, TaskGroup};
use node::Flaw;

use super::client::Answer;
use super::clients::Clients;
use super::session::Session;
use super::trouble::{self, Trouble};
use super::world::World;
use crate::Random;

/// How many keys are written to.
const KEYS: u64 = 12;
/// How many clients read.
const READERS: u64 = 3;
/// How long clients are at work.
const WORK: Duration = Duration::from_secs(12);
/// How long the nodes may take to be ready once nothing is wrong any more.
const SETTLE: Duration = Duration::from_secs(120);
/// How long nodes may take to find out, when all is well again, which connections are broken.
const RECOVERY: Duration = Duration::from_secs(20);
/// How long hints may take until all are delivered.
const HINTS: Duration = Duration::from_secs(60);
/// One number in so many is written by deleting the row.
const DELETES: i64 = 4;
/// How long clients go on when all is well.
const WELL: Duration = Duration::from_secs(5);
/// How long a client rests between two requests, at most, in milliseconds.
const REST: u64 = 40;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What went wrong around it.
    pub trouble: Trouble,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Writes of which nobody knows.
    pub unknown: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// The trace of the run.
    pub trace: u64,
}

impl Report {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Report) {
        self.trouble.add(&other.trouble);
        self.writes += other.writes;
        self.unknown += other.unknown;
        self.reads += other.reads;
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, {} writes acknowledged, {} without an answer, {} reads checked",
            self.trouble, self.writes, self.unknown, self.reads
        )
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
struct Key {
    /// The greatest number that was tried.
    tried: i64,
    /// The greatest that was acknowledged.
    acknowledged: i64,
    /// The greatest that was acknowledged, or read.
    seen: i64,
}

/// The first number from this one on that is written by deleting; 0 is where nothing was.
fn deletion_from(number: i64) -> i64 {
    (number + DELETES - 1) / DELETES * DELETES
}

/// Nobody reads it while there is trouble: what repairs a replica then is hints alone.
fn is_left_to_hints(key: u64) -> bool {
    key.is_multiple_of(4)
}

/// What all clients share.
struct Shared {
    env: Env,
    addresses: Vec<std::net::SocketAddr>,
    keys: RefCell<BTreeMap<u64, Key>>,
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
    let mut random = Random::new(seed ^ 0x7e91_57e2);
    // Where nobody dies, hints bring all that was acknowledged to each of three.
    let is_calm = random.chance(25);
    let nodes = if is_calm {
        3
    } else {
        3 + random.below(3) as usize
    };
    let mut world = World::with_flaw((seed, flaw), nodes, &mut random);
    (0..nodes).for_each(|number| world.start(number));
    world.wait_until_ready(SETTLE)?;
    make_table(&mut world)?;
    let shared = begin(&world, &mut random);
    let until = world.simulation.now() + WORK;
    let mut trouble = Trouble::default();
    while world.simulation.now() < until && shared.clients.is_well() {
        trouble.make_but(&mut world, &mut random, !is_calm)?;
    }
    trouble::end(&mut world, SETTLE)?;
    shared.clients.end(&mut world, WELL)?;
    if is_calm {
        world.simulation.run_for(HINTS);
        read_alone(&mut world, &shared)?;
    }
    read_everywhere(&mut world, &shared)?;
    let mut report = *shared.report.borrow();
    report.trouble = trouble;
    report.trace = world.simulation.trace_hash();
    Ok(report)
}

fn make_table(world: &mut World) -> Result<(), String> {
    for text in [
        "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', \
         'datacenter1': 3}",
        "CREATE TABLE k.registers (key bigint PRIMARY KEY, value bigint)",
    ] {
        world.ask(0, text, Consistency::One)?;
    }
    Ok(())
}

fn begin(world: &World, random: &mut Random) -> Rc<Shared> {
    let env = world.clients();
    let shared = Rc::new(Shared {
        env: env.clone(),
        addresses: (0..world.len()).map(|number| world.cql(number)).collect(),
        keys: RefCell::new((0..KEYS).map(|key| (key, Key::default())).collect()),
        clients: Clients::new(KEYS + READERS),
        report: RefCell::default(),
    });
    for client in 0..KEYS + READERS {
        let (shared, random) = (shared.clone(), Random::new(random.next_u64()));
        let working = async move {
            match client < KEYS {
                true => write(&shared, random, client).await,
                false => read(&shared, random).await,
            }
            shared.clients.one_has_ended();
        };
        env.spawn(TaskGroup::Foreground, working).detach();
    }
    shared
}

fn number(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// The first values of rows, as numbers.
fn numbers(answer: Answer) -> Vec<Option<i64>> {
    let rows = answer.rows.into_iter();
    rows.map(|row| number(row.first()?.as_deref()?)).collect()
}

async fn write(shared: &Shared, random: Random, key: u64) {
    let mut session = Session::new(&shared.env, &shared.addresses, random);
    for value in 1.. {
        if shared.clients.shall_end() {
            return;
        }
        shared.change(key, |known| known.tried = value);
        let text = match value % DELETES {
            0 => format!("DELETE FROM k.registers USING TIMESTAMP {value} WHERE key = {key}"),
            _ => format!(
                "INSERT INTO k.registers (key, value) VALUES ({key}, {value}) USING TIMESTAMP {value}"
            ),
        };
        match session.run(&text, Consistency::Quorum).await {
            Ok(_) => {
                shared.change(key, |known| {
                    known.acknowledged = value;
                    known.seen = known.seen.max(value);
                });
                shared.report.borrow_mut().writes += 1;
            }
            Err(_) => {
                shared.report.borrow_mut().unknown += 1;
                // What is written later would cover up what becomes of it.
                if key.is_multiple_of(2) && session.random().chance(40) {
                    return;
                }
            }
        }
        if is_left_to_hints(key) && session.random().chance(2) {
            return;
        }
        session.rest(REST).await;
    }
}

async fn read(shared: &Shared, random: Random) {
    let mut session = Session::new(&shared.env, &shared.addresses, random);
    while !shared.clients.shall_end() {
        let key = session.random().below(KEYS);
        if is_left_to_hints(key) {
            session.rest(REST).await;
            continue;
        }
        let before = shared.key(key);
        let text = format!("SELECT value FROM k.registers WHERE key = {key}");
        if let Ok(answer) = session.run(&text, Consistency::Quorum).await {
            let value = numbers(answer).first().copied().flatten();
            shared.check(key, before, value);
        }
        session.rest(REST).await;
    }
}

impl Shared {
    fn key(&self, key: u64) -> Key {
        self.keys.borrow().get(&key).copied().unwrap_or_default()
    }

    fn change(&self, key: u64, change: impl FnOnce(&mut Key)) {
        if let Some(known) = self.keys.borrow_mut().get_mut(&key) {
            change(known);
        }
    }

    /// A read that began when `before` was known has given this.
    fn check(&self, key: u64, before: Key, value: Option<i64>) {
        self.report.borrow_mut().reads += 1;
        // Where there is nothing, one of the deletions was the last: the first that it may be.
        let value = value.unwrap_or_else(|| deletion_from(before.seen));
        let tried = self.key(key).tried;
        if value < before.seen || value > tried {
            let problem = format!(
                "key {key}: a read gave {value}, where {} had been acknowledged or read before, and \
                 {tried} was the last that was tried",
                before.seen
            );
            self.clients.blame(problem);
        }
        self.change(key, |known| known.seen = known.seen.max(value));
    }
}

/// Each of three nodes has all that was acknowledged, asked alone.
fn read_alone(world: &mut World, shared: &Shared) -> Result<(), String> {
    for key in 0..KEYS {
        for node in 0..world.len() {
            let text = format!("SELECT value FROM k.registers WHERE key = {key}");
            let rows = world.ask(node, &text, Consistency::One)?;
            let row = rows.first();
            let value = row.and_then(|row| number(row.first()?.as_deref()?));
            let Key {
                acknowledged,
                tried,
                ..
            } = shared.key(key);
            let value = value.unwrap_or_else(|| deletion_from(acknowledged));
            if value < acknowledged || value > tried {
                return Err(format!(
                    "key {key}: node {node} has {value} and not {acknowledged}, which was acknowledged, long \
                     after all was well again"
                ));
            }
        }
    }
    Ok(())
}

/// At last every node gives, at ALL, what there is to give.
fn read_everywhere(world: &mut World, shared: &Shared) -> Result<(), String> {
    let limit = world.simulation.now() + RECOVERY;
    for key in 0..KEYS {
        for node in 0..world.len() {
            let before = shared.key(key);
            let text = format!("SELECT value FROM k.registers WHERE key = {key}");
            let rows = world.ask_until(limit, node, &text, Consistency::All)?;
            let value = rows
                .first()
                .and_then(|row| number(row.first()?.as_deref()?));
            shared.check(key, before, value);
        }
    }
    shared.clients.result()
}
