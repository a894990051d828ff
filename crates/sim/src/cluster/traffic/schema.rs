//! Columns and tables that clients add and drop, on any node, while others work with the tables.
//!
//! Each has a name of its own, the time of the statement that makes it, and once dropped is not made again
//! ([`Elements`]). All clients add columns to the same two tables: a change that was made of an older version
//! of a table than the one it replaces would take a column away. What was acknowledged is there, on all nodes,
//! with all that was written to it.
//!
//! A node that is cut off serves the schema that it knows. So while there is trouble a statement may meet a
//! node that does not know its column or table; when all is well a change that is acknowledged is known
//! everywhere.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;

use super::super::elements::Elements;
use super::super::session::Session;
use super::super::world::World;
use super::{Shared, numbers};
use crate::Random;

/// How long a client rests between two changes, at most, in milliseconds.
const REST: u64 = 1500;
/// How long nodes may take to agree once nothing is wrong any more.
const AGREEMENT: Duration = Duration::from_secs(60);
/// How often to look whether they do.
const LOOK: Duration = Duration::from_millis(500);

/// Where columns are added, and the tables that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Columns of the table of sets.
    Sets,
    /// Columns of the first table of batches.
    First,
    /// Tables of the keyspace.
    Keyspace,
}

const PLACES: [Place; 3] = [Place::Sets, Place::First, Place::Keyspace];

impl Place {
    fn make(self, name: i64) -> String {
        match self {
            Place::Sets => format!("ALTER TABLE k.sets ADD c{name} bigint"),
            Place::First => format!("ALTER TABLE k.first ADD c{name} bigint"),
            Place::Keyspace => {
                format!("CREATE TABLE k.t{name} (key bigint PRIMARY KEY, value bigint)")
            }
        }
    }

    fn unmake(self, name: i64) -> String {
        match self {
            Place::Sets => format!("ALTER TABLE k.sets DROP c{name}"),
            Place::First => format!("ALTER TABLE k.first DROP c{name}"),
            Place::Keyspace => format!("DROP TABLE k.t{name}"),
        }
    }

    /// Writes its name into it, to a row that nobody else writes.
    fn write(self, name: i64) -> String {
        match self {
            Place::Sets => format!("INSERT INTO k.sets (key, c{name}) VALUES (-{name}, {name})"),
            Place::First => {
                format!("INSERT INTO k.first (key, row, c{name}) VALUES (-{name}, 0, {name})")
            }
            Place::Keyspace => format!("INSERT INTO k.t{name} (key, value) VALUES (0, {name})"),
        }
    }

    fn read(self, name: i64) -> String {
        match self {
            Place::Sets => format!("SELECT c{name} FROM k.sets WHERE key = -{name}"),
            Place::First => format!("SELECT c{name} FROM k.first WHERE key = -{name}"),
            Place::Keyspace => format!("SELECT value FROM k.t{name} WHERE key = 0"),
        }
    }

    /// The names of all that there are, as a node knows them.
    fn list(self) -> &'static str {
        match self {
            Place::Sets => {
                "SELECT column_name FROM system_schema.columns \
                 WHERE keyspace_name = 'k' AND table_name = 'sets'"
            }
            Place::First => {
                "SELECT column_name FROM system_schema.columns \
                 WHERE keyspace_name = 'k' AND table_name = 'first'"
            }
            Place::Keyspace => {
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'"
            }
        }
    }

    /// Which of them a name in that list is, if it is one.
    fn parse(self, name: &[u8]) -> Option<i64> {
        let prefix = match self {
            Place::Sets | Place::First => "c",
            Place::Keyspace => "t",
        };
        let name = std::str::from_utf8(name).ok()?;
        name.strip_prefix(prefix)?.parse().ok()
    }
}

/// What is known of them.
pub(super) struct Schemas {
    known: RefCell<[Elements; PLACES.len()]>,
    /// Those that something was written into, which was acknowledged.
    written: RefCell<BTreeSet<(usize, i64)>>,
}

impl Schemas {
    pub(super) fn new() -> Schemas {
        Schemas {
            known: RefCell::default(),
            written: RefCell::default(),
        }
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut Elements)) {
        change(&mut self.known.borrow_mut()[place]);
    }
}

/// Makes columns and tables, and drops some of its own.
pub(super) async fn change(shared: &Shared, mut session: Session) {
    let mut own: Vec<(usize, i64)> = Vec::new();
    while !shared.clients.shall_end() {
        session.leave();
        let drops = !own.is_empty() && session.random().chance(30);
        if drops {
            let at = session.random().below(own.len() as u64) as usize;
            let (place, name) = own.swap_remove(at);
            drop_one(shared, &mut session, place, name).await;
        } else {
            let place = session.random().below(PLACES.len() as u64) as usize;
            own.extend(make_one(shared, &mut session, place).await);
        }
        session.rest(REST).await;
    }
}

async fn drop_one(shared: &Shared, session: &mut Session, place: usize, name: i64) {
    let schemas = &shared.schemas;
    schemas.change(place, |known| known.removing(&[name]));
    let text = PLACES[place].unmake(name);
    match session.run(&text, Consistency::Quorum).await {
        Ok(_) => {
            schemas.change(place, |known| known.removed(&[name]));
            shared.report.borrow_mut().changes += 1;
        }
        Err(failure) => shared.unknown(&failure),
    }
}

/// Makes one, and uses it. What it is; `None` if nobody knows whether it was made.
async fn make_one(shared: &Shared, session: &mut Session, place: usize) -> Option<(usize, i64)> {
    let name = shared.tick();
    let schemas = &shared.schemas;
    schemas.change(place, |known| known.adding(name));
    let text = PLACES[place].make(name);
    if let Err(failure) = session.run(&text, Consistency::Quorum).await {
        shared.unknown(&failure);
        return None;
    }
    schemas.change(place, |known| known.added(name));
    shared.report.borrow_mut().changes += 1;
    // Other nodes know it, if they can be reached.
    session.leave();
    let text = PLACES[place].write(name);
    if session.run(&text, Consistency::Quorum).await.is_ok() {
        schemas.written.borrow_mut().insert((place, name));
        session.leave();
        let text = PLACES[place].read(name);
        if let Ok(answer) = session.run(&text, Consistency::Quorum).await
            && numbers(answer.rows) != [name]
        {
            let problem = format!("{text} does not give what had been written there");
            shared.clients.blame(problem);
        }
    }
    Some((place, name))
}

/// At last all nodes have the same schema, in which nothing is missing that was acknowledged, with all that
/// was written to it.
pub(super) fn agree(world: &mut World, shared: &Shared, recovery: Duration) -> Result<(), String> {
    let until = world.simulation.now() + AGREEMENT;
    while let Err(problem) = is_agreed(world, shared)? {
        if world.simulation.now() > until {
            return Err(problem);
        }
        world.simulation.run_for(LOOK);
    }
    read_everywhere(world, shared, recovery)
}

fn is_agreed(world: &mut World, shared: &Shared) -> Result<Result<(), String>, String> {
    let mut versions = BTreeSet::new();
    for node in 0..world.len() {
        let rows = world.ask(
            node,
            "SELECT schema_version FROM system.local",
            Consistency::One,
        )?;
        versions.extend(rows.into_iter().flatten());
        for (at, place) in PLACES.iter().enumerate() {
            let names = list(world, node, *place)?;
            let known = &shared.schemas.known.borrow()[at];
            if let Err(problem) = known.explain(known, &names) {
                return Ok(Err(format!("node {node}, {place:?}: {problem}")));
            }
        }
    }
    let problem = || format!("{} versions of the schema", versions.len());
    Ok((versions.len() == 1).then_some(()).ok_or_else(problem))
}

fn list(world: &mut World, node: usize, place: Place) -> Result<BTreeSet<i64>, String> {
    let rows = world.ask(node, place.list(), Consistency::One)?;
    let names: Vec<Bytes> = rows.into_iter().flatten().flatten().collect();
    let names = names.iter().filter_map(|name| place.parse(name));
    Ok(names.collect())
}

fn read_everywhere(world: &mut World, shared: &Shared, recovery: Duration) -> Result<(), String> {
    let limit = world.simulation.now() + recovery;
    for (at, place) in PLACES.iter().enumerate() {
        let there = list(world, 0, *place)?;
        for name in there {
            let is_written = shared.schemas.written.borrow().contains(&(at, name));
            let node = (name as usize) % world.len();
            let text = place.read(name);
            let values = numbers(world.ask_until(limit, node, &text, Consistency::Quorum)?);
            if is_written && values != [name] {
                return Err(format!("node {node}: {text} has lost what was written"));
            }
        }
    }
    Ok(())
}

/// What is made on one node now is there on all at once. Only being late is no mistake: two of three
/// connections of a shard may have been broken without a word and not been used since, and a request needs
/// its time to notice each.
pub(super) fn is_known_at_once(
    world: &mut World,
    shared: &Shared,
    random: &mut Random,
    recovery: Duration,
) -> Result<(), String> {
    let limit = world.simulation.now() + recovery;
    for made_on in 0..world.len() {
        let name = shared.tick();
        let place = *random.pick(&PLACES);
        world.ask(made_on, &place.make(name), Consistency::Quorum)?;
        for used_on in 0..world.len() {
            for text in [place.write(name), place.read(name)] {
                let rows = loop {
                    match world.ask(used_on, &text, Consistency::Quorum) {
                        Err(problem)
                            if problem.contains("Timeout") && world.simulation.now() < limit => {}
                        rows => break rows,
                    }
                };
                let rows =
                    rows.map_err(|problem| format!("made on node {made_on}: {text}: {problem}"))?;
                if text == place.read(name) && numbers(rows) != [name] {
                    return Err(format!("node {used_on}: {text} has lost what was written"));
                }
            }
        }
    }
    Ok(())
}
