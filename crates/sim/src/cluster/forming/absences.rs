//! What happens while nodes of a cluster are away for long: something is dropped last of all, which they
//! learn by a snapshot; and so many of them that those who decide on metadata have to be replaced.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::Consistency;

use super::{Report, SETTLE, VOTER_SILENCE, agree_on_schema, crash};
use crate::Random;
use crate::cluster::trouble;
use crate::cluster::world::World;

/// Longer than it takes until a voter that went has been replaced: the others notice, and elect a leader first.
const REPLACED: Duration = VOTER_SILENCE.saturating_add(Duration::from_secs(15));
/// How long a change of the schema may take where there is a majority.
const DECIDED: Duration = Duration::from_secs(30);
/// How long it may take until as many nodes vote as should, when all are there.
const SETTLED: Duration = Duration::from_secs(15);
/// How long the log may take to be compacted.
const COMPACTED: Duration = Duration::from_secs(3);

/// A node goes, and what is dropped then is the last change of all.
pub(super) fn drop_something(
    world: &mut World,
    random: &mut Random,
    report: &mut Report,
    changed: &[String],
) -> Result<(), String> {
    let any = random.below(world.len() as u64) as usize;
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS last WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS last.t (a int PRIMARY KEY)",
        "CREATE TYPE IF NOT EXISTS last.u (a int)",
    ] {
        change(world, any, text)?;
    }
    agree_on_schema(world, changed)?;
    world.simulation.run_for(SETTLED);
    let away = random.below(world.len() as u64) as usize;
    leave(world, random, report, away);
    let there: Vec<usize> = (0..world.len()).filter(|number| *number != away).collect();
    let text = *random.pick(&[
        "DROP KEYSPACE IF EXISTS last",
        "DROP TABLE IF EXISTS last.t",
        "DROP TYPE IF EXISTS last.u",
    ]);
    change(world, *random.pick(&there), text)?;
    world.simulation.run_for(COMPACTED);
    come_back(world)?;
    agree_on_schema(world, changed)
}

/// Nodes go one after the other until two are left, each of them after the one before was replaced: these two
/// decide. When they do not hear each other either, none does.
pub(super) fn lose_voters(
    world: &mut World,
    random: &mut Random,
    report: &mut Report,
    changed: &[String],
) -> Result<(), String> {
    let mut there: BTreeSet<usize> = (0..world.len()).collect();
    // Those that were away are back for long enough to be asked.
    world.simulation.run_for(REPLACED);
    let mut made = changed.to_vec();
    while there.len() > 2 {
        let remaining: Vec<usize> = there.iter().copied().collect();
        let victim = *random.pick(&remaining);
        there.remove(&victim);
        leave(world, random, report, victim);
        report.lost += 1;
        world.simulation.run_for(REPLACED);
        let remaining: Vec<usize> = there.iter().copied().collect();
        let keyspace = format!("without{}", there.len());
        change(world, *random.pick(&remaining), &create(&keyspace))?;
        made.push(keyspace);
        if world.runs(victim) {
            refuses(world, victim)?;
        }
    }
    let last: Vec<usize> = there.into_iter().collect();
    world.cut(&last, &last);
    world.simulation.run_for(REPLACED);
    for number in &last {
        refuses(world, *number)?;
    }
    come_back(world)?;
    agree_on_schema(world, &made)
}

fn create(keyspace: &str) -> String {
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}}"
    )
}

/// A change of the schema that has to be decided.
fn change(world: &mut World, number: usize, text: &str) -> Result<(), String> {
    let limit = world.simulation.now() + DECIDED;
    let changed = world.ask_until(limit, number, text, Consistency::One);
    let problem = |problem| format!("a majority does not decide ({text}): {problem}");
    changed.map(drop).map_err(problem)
}

/// A node that cannot reach a majority says so.
fn refuses(world: &mut World, number: usize) -> Result<(), String> {
    match world.ask(number, &create("minority"), Consistency::One) {
        Err(problem) if problem.contains("no majority") => Ok(()),
        Err(problem) => Err(format!("no clear refusal: {problem}")),
        Ok(_) => Err(format!(
            "node {number} changed the schema without a majority"
        )),
    }
}

/// A node dies, or is cut off from all others.
fn leave(world: &mut World, random: &mut Random, report: &mut Report, number: usize) {
    let all: Vec<usize> = (0..world.len()).collect();
    match random.chance(50) {
        true => {
            world.crash(number, crash(random));
            report.crashes += 1;
        }
        false => {
            world.cut(&[number], &all);
            world.cut(&all, &[number]);
        }
    }
}

fn come_back(world: &mut World) -> Result<(), String> {
    trouble::end(world, SETTLE)
}
