//! Conditional updates and serial reads while nodes die, are cut off and have wrong clocks: could one copy
//! of each row, doing one after the other, have answered so?
//!
//! Clients add rows that are not there, change them from what they have read, delete them, and read, at
//! SERIAL and at QUORUM. Values are written once, so that each says who wrote it. What a client is not told of may have
//! been done, then or later, or never.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cluster::Consistency;
use io::{Env, TaskGroup};
use node::Flaw;

use super::client::{Answer, Failure};
use super::clients::Clients;
use super::session::Session;
use super::trouble::{self, Trouble};
use super::world::World;
use crate::Random;
use crate::linearizability::{self, Event, Model};

/// How many rows, each in a partition of its own.
const KEYS: i64 = 3;
/// How many clients.
const CLIENTS: u64 = 5;
/// How long clients are at work.
const WORK: Duration = Duration::from_secs(10);
/// How long the nodes may take to be ready once nothing is wrong any more.
const SETTLE: Duration = Duration::from_secs(120);
/// How long clients go on when all is well.
const WELL: Duration = Duration::from_secs(3);
/// How long a client rests between two requests, at most, in milliseconds.
const REST: u64 = 120;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What went wrong around it.
    pub trouble: Trouble,
    /// Updates that were applied.
    pub applied: u64,
    /// Updates whose conditions did not hold.
    pub refused: u64,
    /// Updates of which nobody knows.
    pub unknown: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// The trace of the run.
    pub trace: u64,
}

impl Report {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Report) {
        self.trouble.add(&other.trouble);
        self.applied += other.applied;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.reads += other.reads;
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, {} updates applied, {} refused, {} without an answer, {} reads, all linearizable",
            self.trouble, self.applied, self.refused, self.unknown, self.reads
        )
    }
}

/// The value of a row; `None`: there is none.
type Value = Option<i64>;

/// What a client asks of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// SELECT at SERIAL.
    Read,
    /// SELECT at QUORUM: what is committed there is seen.
    Look,
    /// INSERT IF NOT EXISTS.
    Insert(i64),
    /// UPDATE IF it has this value.
    Update(i64, i64),
    /// DELETE IF EXISTS.
    Delete,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// What was read, or kept it from being applied (of a DELETE, nothing).
    Found(Value),
    Applied,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    asked: Asked,
    told: Told,
}

impl Asked {
    fn text(self, key: i64) -> String {
        match self {
            Asked::Read | Asked::Look => format!("SELECT value FROM k.rows WHERE key = {key}"),
            Asked::Insert(value) => {
                format!("INSERT INTO k.rows (key, value) VALUES ({key}, {value}) IF NOT EXISTS")
            }
            Asked::Update(from, to) => {
                format!("UPDATE k.rows SET value = {to} WHERE key = {key} IF value = {from}")
            }
            Asked::Delete => format!("DELETE FROM k.rows WHERE key = {key} IF EXISTS"),
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Asked::Read | Asked::Look)
    }

    /// What becomes of a row; `None`: its condition does not hold.
    fn apply(self, value: Value) -> Option<Value> {
        match self {
            Asked::Read | Asked::Look => None,
            Asked::Insert(new) => value.is_none().then_some(Some(new)),
            Asked::Update(from, to) => (value == Some(from)).then_some(Some(to)),
            Asked::Delete => value.is_some().then_some(None),
        }
    }
}

/// One row.
struct OneRow;

impl Model for OneRow {
    type State = Value;
    type Operation = Operation;

    fn initial(&self) -> Value {
        None
    }

    fn step(&self, state: &Value, operation: &Operation) -> Option<Value> {
        let applied = operation.asked.apply(*state);
        match operation.told {
            Told::Unknown => Some(applied.unwrap_or(*state)),
            Told::Applied => applied,
            Told::Found(found) => (applied.is_none() && found == *state).then_some(*state),
        }
    }
}

/// What all clients share.
struct Shared {
    env: Env,
    addresses: Vec<SocketAddr>,
    histories: RefCell<BTreeMap<i64, Vec<Event<Operation>>>>,
    /// Counts calls and answers.
    clock: Cell<u64>,
    next_value: Cell<i64>,
    clients: Clients,
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
    let mut random = Random::new(seed ^ 0x0a9_2ee5);
    let nodes = 3 + random.below(3) as usize;
    let mut world = World::with_flaw((seed, flaw), nodes, &mut random);
    (0..nodes).for_each(|number| world.start(number));
    world.wait_until_ready(SETTLE)?;
    for text in [
        "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', \
         'datacenter1': 3}",
        "CREATE TABLE k.rows (key bigint PRIMARY KEY, value bigint)",
    ] {
        world.ask(0, text, Consistency::One)?;
    }
    let shared = begin(&world, &mut random);
    let until = world.simulation.now() + WORK;
    let mut trouble = Trouble::default();
    while world.simulation.now() < until && shared.clients.is_well() {
        trouble.make(&mut world, &mut random)?;
    }
    trouble::end(&mut world, SETTLE)?;
    shared.clients.end(&mut world, WELL)?;
    read_everywhere(&mut world, &shared)?;
    let mut report = check(&shared.histories.borrow())?;
    report.trouble = trouble;
    report.trace = world.simulation.trace_hash();
    Ok(report)
}

fn begin(world: &World, random: &mut Random) -> Rc<Shared> {
    let env = world.clients();
    let shared = Rc::new(Shared {
        env: env.clone(),
        addresses: (0..world.len()).map(|number| world.cql(number)).collect(),
        histories: RefCell::new((0..KEYS).map(|key| (key, Vec::new())).collect()),
        clock: Cell::new(0),
        next_value: Cell::new(1),
        clients: Clients::new(CLIENTS),
    });
    for _ in 0..CLIENTS {
        let (shared, random) = (shared.clone(), Random::new(random.next_u64()));
        let working = async move {
            work(&shared, random).await;
            shared.clients.one_has_ended();
        };
        env.spawn(TaskGroup::Foreground, working).detach();
    }
    shared
}

async fn work(shared: &Shared, random: Random) {
    let mut session = Session::new(&shared.env, &shared.addresses, random);
    let mut known: BTreeMap<i64, Value> = BTreeMap::new();
    while !shared.clients.shall_end() {
        let key = session.random().below(KEYS as u64) as i64;
        let value = known.get(&key).copied().flatten();
        let asked = shared.choose(session.random(), value);
        let place = shared.call(key, asked);
        let answer = session.run(&asked.text(key), level(asked)).await;
        let told = shared.told(asked, answer);
        shared.answer(key, place, told);
        let now = match told {
            Told::Found(found) => found,
            Told::Applied => asked.apply(value).unwrap_or(value),
            Told::Unknown => None,
        };
        known.insert(key, now);
        session.rest(REST).await;
    }
}

fn level(asked: Asked) -> Consistency {
    match asked {
        Asked::Read => Consistency::Serial,
        _ => Consistency::Quorum,
    }
}

impl Shared {
    fn choose(&self, random: &mut Random, known: Value) -> Asked {
        let new = self.next_value.get();
        self.next_value.set(new + 1);
        match (random.below(10), known) {
            (0..2, _) => Asked::Read,
            (2, _) => Asked::Look,
            (3, _) => Asked::Delete,
            (4..9, Some(value)) => Asked::Update(value, new),
            _ => Asked::Insert(new),
        }
    }

    fn tick(&self) -> u64 {
        let now = self.clock.get();
        self.clock.set(now + 1);
        now
    }

    /// A question is asked; gives its place in the history.
    fn call(&self, key: i64, asked: Asked) -> usize {
        let told = Told::Unknown;
        let event = Event {
            operation: Operation { asked, told },
            called: self.tick(),
            returned: None,
        };
        let mut histories = self.histories.borrow_mut();
        let history = histories.entry(key).or_default();
        history.push(event);
        history.len() - 1
    }

    /// It is answered; of an update that nobody knows of it is not, so that it may be done any time.
    fn answer(&self, key: i64, place: usize, told: Told) {
        let now = self.tick();
        let mut histories = self.histories.borrow_mut();
        let history = histories.entry(key).or_default();
        let event = &mut history[place];
        event.operation.told = told;
        event.returned = (told != Told::Unknown).then_some(now);
    }

    fn told(&self, asked: Asked, answer: Result<Answer, Failure>) -> Told {
        let Ok(answer) = answer else {
            return Told::Unknown;
        };
        let row = answer.rows.first();
        let number = |at: usize| {
            let value: &[u8] = row?.get(at)?.as_deref()?;
            Some(i64::from_be_bytes(value.try_into().ok()?))
        };
        if asked.is_read() {
            return Told::Found(number(0));
        }
        match row.and_then(|row| row.first()?.as_deref()) {
            Some([1]) => Told::Applied,
            // INSERT shows the key before the value.
            Some([0]) if matches!(asked, Asked::Insert(_)) => Told::Found(number(2)),
            Some([0]) => Told::Found(number(1)),
            other => {
                let problem = format!("{asked:?} was answered with {other:?}");
                self.clients.blame(problem);
                Told::Unknown
            }
        }
    }
}

/// At last every node gives what the others give.
fn read_everywhere(world: &mut World, shared: &Shared) -> Result<(), String> {
    let limit = world.simulation.now() + Duration::from_secs(20);
    for key in 0..KEYS {
        for node in 0..world.len() {
            let place = shared.call(key, Asked::Read);
            let text = Asked::Read.text(key);
            let rows = world.ask_until(limit, node, &text, Consistency::Serial)?;
            let told = shared.told(Asked::Read, Ok(Answer { rows }));
            shared.answer(key, place, told);
        }
    }
    Ok(())
}

/// Looks whether all answers can be explained, and counts them.
fn check(histories: &BTreeMap<i64, Vec<Event<Operation>>>) -> Result<Report, String> {
    let mut report = Report::default();
    for (key, history) in histories {
        // A read without an answer says nothing.
        let says = |event: &&Event<Operation>| {
            !event.operation.asked.is_read() || event.returned.is_some()
        };
        let history: Vec<Event<Operation>> = history.iter().filter(says).cloned().collect();
        for event in &history {
            match (event.operation.asked, event.operation.told) {
                (asked, _) if asked.is_read() => report.reads += 1,
                (_, Told::Applied) => report.applied += 1,
                (_, Told::Found(_)) => report.refused += 1,
                (_, Told::Unknown) => report.unknown += 1,
            }
        }
        if let Err(error) = linearizability::check(&OneRow, &history) {
            let stuck: Vec<String> = error
                .stuck
                .iter()
                .map(|place| format!("{:?}", history[*place]))
                .collect();
            return Err(format!(
                "key {key}: no order of what was asked explains the answers; {} of {} are in order, and \
                 none of these can be next: {}",
                error.longest.len(),
                history.len(),
                stuck.join("; ")
            ));
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(history: &[(Asked, Told, u64, u64)]) -> Result<Report, String> {
        let event = |(asked, told, called, returned): &(Asked, Told, u64, u64)| Event {
            operation: Operation {
                asked: *asked,
                told: *told,
            },
            called: *called,
            returned: (*told != Told::Unknown).then_some(*returned),
        };
        let history = history.iter().map(event).collect();
        check(&BTreeMap::from([(0, history)]))
    }

    #[test]
    fn what_no_order_explains_is_found() {
        let insert = |value| Asked::Insert(value);
        // Whoever is second finds the first.
        let twice = [
            (insert(1), Told::Applied, 0, 5),
            (insert(2), Told::Found(Some(1)), 1, 4),
        ];
        assert!(checked(&twice).is_ok());
        let both = [
            (insert(1), Told::Applied, 0, 5),
            (insert(2), Told::Applied, 1, 4),
        ];
        assert!(checked(&both).is_err());
        // What nobody knows of may be done late, but not undone.
        let late = [
            (insert(1), Told::Unknown, 0, 0),
            (Asked::Read, Told::Found(None), 2, 3),
            (Asked::Read, Told::Found(Some(1)), 4, 5),
        ];
        assert!(checked(&late).is_ok());
        let undone = [
            (insert(1), Told::Unknown, 0, 0),
            (Asked::Read, Told::Found(Some(1)), 2, 3),
            (Asked::Read, Told::Found(None), 4, 5),
        ];
        assert!(checked(&undone).is_err());
    }
}
