//! Logged batches over several partitions of two tables.
//!
//! Each client has three partitions, and writes the same row into all of them with each batch, or removes one
//! with it that an earlier batch has added. The row is the time of the batch, so that a removal is later than
//! the addition. In each partition, its rows are what [`Elements`] says; between them nothing is promised
//! while batches are under way, as they are atomic and not isolated. But when all is well and the batches
//! that nobody has completed are replayed, each is there whole or not at all, acknowledged or not: the three
//! partitions are equal.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use cluster::Consistency;

use super::super::elements::Elements;
use super::super::session::Session;
use super::super::world::World;
use super::readers::{Known, Rows};
use super::{Shared, numbers};
use crate::Random;

/// How many clients write them.
pub(super) const WRITERS: u64 = 3;
/// How many partitions a batch writes to.
const PARTITIONS: usize = 3;
/// How long a client rests between two requests, at most, in milliseconds.
const REST: u64 = 200;
/// How long it may take until all batches are replayed: they are looked for every ten seconds.
const REPLAY: Duration = Duration::from_secs(90);
/// How often to look.
const LOOK: Duration = Duration::from_secs(2);

/// The tables that they write to.
pub(super) const TABLES: [&str; 2] = [
    "CREATE TABLE k.first (key bigint, row bigint, PRIMARY KEY (key, row))",
    "CREATE TABLE k.second (key bigint, row bigint, PRIMARY KEY (key, row))",
];

/// The partitions of all clients.
pub(super) struct Batches(RefCell<Vec<[Elements; PARTITIONS]>>);

/// A partition's table and key.
fn place(writer: usize, partition: usize) -> (&'static str, usize) {
    match partition {
        0 => ("k.first", writer),
        1 => ("k.second", writer),
        _ => ("k.first", 100 + writer),
    }
}

fn shown(rows: Rows) -> BTreeSet<i64> {
    numbers(rows).into_iter().collect()
}

/// What a batch says.
struct Batch {
    time: i64,
    adds: bool,
    removes: Vec<i64>,
}

impl Batch {
    fn choose(time: i64, random: &mut Random, known: &Elements) -> Batch {
        let there = known.certain();
        let adds = there.is_empty() || random.chance(80);
        let removes = match adds {
            true if there.is_empty() || random.chance(60) => Vec::new(),
            _ => vec![*random.pick(&there)],
        };
        Batch {
            time,
            adds,
            removes,
        }
    }

    fn text(&self, writer: usize) -> String {
        let mut text = format!("BEGIN BATCH USING TIMESTAMP {}", self.time);
        for partition in 0..PARTITIONS {
            let (table, key) = place(writer, partition);
            if self.adds {
                let row = self.time;
                text += &format!(" INSERT INTO {table} (key, row) VALUES ({key}, {row});");
            }
            for row in &self.removes {
                text += &format!(" DELETE FROM {table} WHERE key = {key} AND row = {row};");
            }
        }
        text + " APPLY BATCH"
    }
}

impl Batches {
    pub(super) fn new() -> Batches {
        Batches(RefCell::new(vec![Default::default(); WRITERS as usize]))
    }

    fn try_batch(&self, writer: usize, batch: &Batch) {
        for known in &mut self.0.borrow_mut()[writer] {
            known.removing(&batch.removes);
            if batch.adds {
                known.adding(batch.time);
            }
        }
    }

    fn acknowledge(&self, writer: usize, batch: &Batch) {
        for known in &mut self.0.borrow_mut()[writer] {
            known.removed(&batch.removes);
            if batch.adds {
                known.added(batch.time);
            }
        }
    }

    fn check_shown(
        &self,
        (writer, partition): (usize, usize),
        before: &Elements,
        shown: &BTreeSet<i64>,
    ) -> Result<(), String> {
        let checked = self.0.borrow_mut()[writer][partition].check(before, shown);
        checked.map_err(|problem| {
            let (table, key) = place(writer, partition);
            format!("{table}, partition {key}, of batches: {problem}")
        })
    }
}

impl Known for Batches {
    type Place = (usize, usize);
    type Before = Elements;
    const REST: u64 = REST;

    fn of(shared: &Shared) -> &Batches {
        &shared.batches
    }

    fn choose(random: &mut Random) -> (usize, usize) {
        let writer = random.below(WRITERS) as usize;
        (writer, random.below(PARTITIONS as u64) as usize)
    }

    fn question((writer, partition): (usize, usize)) -> String {
        let (table, key) = place(writer, partition);
        format!("SELECT row FROM {table} WHERE key = {key}")
    }

    fn before(&self, (writer, partition): (usize, usize)) -> Elements {
        self.0.borrow()[writer][partition].clone()
    }

    fn check(&self, place: (usize, usize), before: &Elements, rows: Rows) -> Result<(), String> {
        self.check_shown(place, before, &shown(rows))
    }
}

pub(super) async fn write(shared: &Shared, mut session: Session, writer: usize) {
    while !shared.clients.shall_end() {
        let known = shared.batches.before((writer, 0));
        let batch = Batch::choose(shared.tick(), session.random(), &known);
        shared.batches.try_batch(writer, &batch);
        let text = batch.text(writer);
        match session.run(&text, Consistency::Quorum).await {
            Ok(_) => {
                shared.batches.acknowledge(writer, &batch);
                shared.report.borrow_mut().batches += 1;
            }
            Err(failure) => shared.unknown(&failure),
        }
        session.rest(REST).await;
    }
}

/// At last every batch is there whole or not at all, once all are replayed.
pub(super) fn are_whole(
    world: &mut World,
    shared: &Shared,
    recovery: Duration,
) -> Result<(), String> {
    let until = world.simulation.now() + REPLAY;
    for writer in 0..WRITERS as usize {
        while let Err(problem) = is_whole(world, shared, writer, recovery)? {
            if world.simulation.now() > until {
                return Err(problem);
            }
            world.simulation.run_for(LOOK);
        }
    }
    Ok(())
}

/// Are the three partitions of a client equal? If not, how they differ.
fn is_whole(
    world: &mut World,
    shared: &Shared,
    writer: usize,
    recovery: Duration,
) -> Result<Result<(), String>, String> {
    let limit = world.simulation.now() + recovery;
    let mut all = Vec::new();
    for partition in 0..PARTITIONS {
        let node = (writer + partition) % world.len();
        let place = (writer, partition);
        let before = shared.batches.before(place);
        let text = Batches::question(place);
        let shown = shown(world.ask_until(limit, node, &text, Consistency::All)?);
        shared.batches.check_shown(place, &before, &shown)?;
        all.push(shown);
    }
    let torn = all
        .iter()
        .flat_map(|some| some.symmetric_difference(&all[0]));
    let torn: BTreeSet<_> = torn.collect();
    if torn.is_empty() {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "batches of client {writer} are torn, long after all was well again: the rows {torn:?} are in some \
         of their three partitions only"
    )))
}
