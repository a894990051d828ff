//! Nodes form a cluster while they start in any order, die and come back, and messages are lost; and
//! change its schema from all sides. Then some are away for long ([`absences`]).

mod absences;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use io::TaskGroup;
use io::sim::Crash;
use node::{Flaw, MetadataConfig};

use super::client::Client;
use super::trouble;
use super::world::World;
use crate::Random;

/// How long the nodes may take to be ready once nothing is wrong any more.
const SETTLE: Duration = Duration::from_secs(120);
/// For how long a voter may be silent in these worlds.
pub const VOTER_SILENCE: Duration = Duration::from_secs(20);
/// How many changes of the schema each client makes.
const CHANGES: u64 = 12;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Crashes.
    pub crashes: u64,
    /// Changes of the schema that were acknowledged.
    pub changes: u64,
    /// Changes that were refused or not answered.
    pub unknown: u64,
    /// Nodes that were away until others voted in their place.
    pub lost: u64,
    /// The trace of the run.
    pub trace: u64,
}

impl Report {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Report) {
        self.nodes += other.nodes;
        self.crashes += other.crashes;
        self.changes += other.changes;
        self.unknown += other.unknown;
        self.lost += other.lost;
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} nodes, {} crashes, {} changes of the schema acknowledged, {} without an answer, {} \
             nodes lost for long",
            self.nodes, self.crashes, self.changes, self.unknown, self.lost
        )
    }
}

/// Lives a world.
///
/// # Errors
/// What is wrong, in words.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x5eed_0f0c_0c0a);
    let mut world = new_world(seed, &mut random, Flaw::None, VOTER_SILENCE);
    let mut report = Report {
        nodes: world.len() as u64,
        ..Report::default()
    };
    start_in_any_order(&mut world, &mut random, &mut report)?;
    trouble::end(&mut world, SETTLE)?;
    see_each_other(&mut world)?;
    let changed = change_schema(&mut world, &mut random, &mut report)?;
    trouble::end(&mut world, SETTLE)?;
    agree_on_schema(&mut world, &changed)?;
    absences::drop_something(&mut world, &mut random, &mut report, &changed)?;
    // It takes long.
    if random.chance(40) {
        absences::lose_voters(&mut world, &mut random, &mut report, &changed)?;
    }
    report.trace = world.simulation.trace_hash();
    Ok(report)
}

/// Lives the end of a world, in which nodes are away for long: of nodes with a mistake, or in which a voter
/// may be silent for so long.
///
/// # Errors
/// What is wrong, in words.
pub fn run_absences(seed: u64, flaw: Flaw, voter_silence: Duration) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x5eed_0f0c_0c0a);
    let mut world = new_world(seed, &mut random, flaw, voter_silence);
    let mut report = Report {
        nodes: world.len() as u64,
        ..Report::default()
    };
    trouble::end(&mut world, SETTLE)?;
    absences::drop_something(&mut world, &mut random, &mut report, &[])?;
    absences::lose_voters(&mut world, &mut random, &mut report, &[])?;
    report.trace = world.simulation.trace_hash();
    Ok(report)
}

fn new_world(seed: u64, random: &mut Random, flaw: Flaw, voter_silence: Duration) -> World {
    let nodes = 3 + random.below(5) as usize;
    let mut world = World::with_flaw((seed, flaw), nodes, random);
    // Often all that a node missed comes as a snapshot.
    world.set_metadata(MetadataConfig {
        snapshot_after: *random.pick(&[1, 5, 20]),
        kept: random.below(3),
        voter_silence,
    });
    world
}

fn start_in_any_order(
    world: &mut World,
    random: &mut Random,
    report: &mut Report,
) -> Result<(), String> {
    let mut waiting: Vec<usize> = (0..world.len()).collect();
    while !waiting.is_empty() {
        let at = random.below(waiting.len() as u64) as usize;
        world.start(waiting.swap_remove(at));
        let pause = Duration::from_millis(random.below(1500));
        world.simulation.run_for(pause);
        if random.chance(30) {
            let victim = random.below(world.len() as u64) as usize;
            if world.runs(victim) {
                world.crash(victim, crash(random));
                report.crashes += 1;
                waiting.push(victim);
            }
        }
        for number in 0..world.len() {
            let ready = world.is_ready(number);
            ready.map_err(|error| format!("node {number} does not start: {error}"))?;
        }
    }
    Ok(())
}

fn crash(random: &mut Random) -> Crash {
    match random.chance(50) {
        true => Crash::Process,
        false => Crash::Power,
    }
}

/// Every node knows all others, and nobody twice.
fn see_each_other(world: &mut World) -> Result<(), String> {
    let mut own = BTreeSet::new();
    for number in 0..world.len() {
        let rows = world.ask(number, "SELECT host_id FROM system.local", Consistency::One)?;
        own.extend(rows.into_iter().flatten());
    }
    if own.len() != world.len() {
        return Err(format!(
            "{} nodes have {} identities",
            world.len(),
            own.len()
        ));
    }
    let limit = world.simulation.now() + Duration::from_secs(30);
    for number in 0..world.len() {
        loop {
            let rows = world.ask(
                number,
                "SELECT host_id, tokens FROM system.peers",
                Consistency::One,
            )?;
            let known: BTreeSet<_> = rows.iter().map(|row| row[0].clone()).collect();
            let with_tokens = rows.iter().all(|row| row[1].is_some());
            if rows.len() == world.len() - 1 && known.is_subset(&own) && with_tokens {
                break;
            }
            if world.simulation.now() > limit {
                return Err(format!("node {number} knows {} other nodes", rows.len()));
            }
            world.simulation.run_for(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// What clients know of the changes that they asked for.
#[derive(Default)]
struct Changes {
    acknowledged: Vec<String>,
    unknown: u64,
    finished: usize,
}

/// Clients of all nodes make keyspaces and tables while nodes die and are cut off.
fn change_schema(
    world: &mut World,
    random: &mut Random,
    report: &mut Report,
) -> Result<Vec<String>, String> {
    let changes: Rc<RefCell<Changes>> = Rc::default();
    let env = world.clients();
    for number in 0..world.len() {
        let (of_task, address, changes) = (env.clone(), world.cql(number), changes.clone());
        let changing = async move {
            for change in 0..CHANGES {
                let keyspace = format!("k{number}_{change}");
                let text = format!(
                    "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', \
                     'replication_factor': 1}}"
                );
                let made = match Client::connect(&of_task, address).await {
                    Ok(mut client) => client.query(&text, Consistency::One).await,
                    Err(failure) => Err(failure),
                };
                match made {
                    Ok(_) => changes.borrow_mut().acknowledged.push(keyspace),
                    Err(_) => changes.borrow_mut().unknown += 1,
                }
            }
            changes.borrow_mut().finished += 1;
        };
        env.spawn(TaskGroup::Foreground, changing).detach();
    }
    for _ in 0..3000 {
        if changes.borrow().finished == world.len() {
            break;
        }
        world.simulation.run_for(Duration::from_millis(100));
        disturb(world, random, report);
        for number in 0..world.len() {
            let ready = world.is_ready(number);
            ready.map_err(|error| format!("node {number} does not start: {error}"))?;
        }
    }
    let changes = changes.borrow();
    if changes.finished < world.len() {
        return Err("clients wait for ever".to_owned());
    }
    report.changes = changes.acknowledged.len() as u64;
    report.unknown = changes.unknown;
    Ok(changes.acknowledged.clone())
}

fn disturb(world: &mut World, random: &mut Random, report: &mut Report) {
    let victim = random.below(world.len() as u64) as usize;
    match random.below(12) {
        0 if world.runs(victim) => {
            world.crash(victim, crash(random));
            report.crashes += 1;
        }
        1 | 2 if !world.runs(victim) => world.start(victim),
        3 => {
            let others: Vec<usize> = (0..world.len()).collect();
            world.cut(&[victim], &others);
            if random.chance(50) {
                world.cut(&others, &[victim]);
            }
        }
        4 | 5 => world.heal(),
        _ => {}
    }
}

/// What was acknowledged is there, on all nodes, and all have the same schema.
fn agree_on_schema(world: &mut World, changed: &[String]) -> Result<(), String> {
    let limit = world.simulation.now() + Duration::from_secs(60);
    loop {
        let problem = disagreement(world, changed)?;
        match problem {
            None => return Ok(()),
            Some(problem) if world.simulation.now() > limit => return Err(problem),
            Some(_) => world.simulation.run_for(Duration::from_millis(500)),
        }
    }
}

fn disagreement(world: &mut World, changed: &[String]) -> Result<Option<String>, String> {
    let mut versions = BTreeSet::new();
    let mut schemas = BTreeSet::new();
    for number in 0..world.len() {
        let rows = world.ask(
            number,
            "SELECT schema_version FROM system.local",
            Consistency::One,
        )?;
        versions.extend(rows.into_iter().flatten());
        let rows = world.ask(
            number,
            "SELECT keyspace_name FROM system_schema.keyspaces",
            Consistency::One,
        )?;
        let names: BTreeSet<Bytes> = rows.into_iter().flatten().flatten().collect();
        let missing = changed.iter().find(|name| !names.contains(name.as_bytes()));
        if let Some(missing) = missing {
            return Ok(Some(format!("node {number} has lost {missing}")));
        }
        let mut schema = BTreeSet::new();
        for (kind, name) in [("tables", "table_name"), ("types", "type_name")] {
            let text = format!("SELECT keyspace_name, {name} FROM system_schema.{kind}");
            let rows = world.ask(number, &text, Consistency::One)?;
            schema.extend(rows.into_iter().map(|row| (kind, row)));
        }
        schemas.insert((names, schema));
    }
    Ok(match (versions.len(), schemas.len()) {
        (1, 1) => None,
        (versions, schemas) => Some(format!(
            "{versions} versions of the schema, and {schemas} contents"
        )),
    })
}
