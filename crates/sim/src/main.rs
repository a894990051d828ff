//! `helenus-sim`: worlds by their seeds.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

/// As the server has it: a quarter of a world's time went to the system's.
#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

/// A kind of world.
#[derive(Clone, Copy, ValueEnum)]
enum World {
    /// The storage engine of one node.
    Storage,
    /// Nodes that form a cluster and change its schema.
    Forming,
    /// Writes and reads at QUORUM.
    Registers,
    /// Conditional updates and serial reads.
    Agreements,
    /// Counters, sets, logged batches and changes of the schema.
    Traffic,
    /// What replicas miss while they are away.
    Repairs,
    /// Tables and their materialized views.
    Views,
}

impl World {
    fn name(self) -> &'static str {
        match self {
            World::Storage => "storage",
            World::Forming => "forming",
            World::Registers => "registers",
            World::Agreements => "agreements",
            World::Traffic => "traffic",
            World::Repairs => "repairs",
            World::Views => "views",
        }
    }
}

/// Run simulated worlds: crashes, drives that fail, networks that lose and delay
#[derive(Parser)]
#[command(
    name = "helenus-sim",
    after_help = "Examples:\n  helenus-sim --seeds 500\n  helenus-sim --start 4711 --seeds 1\n  \
                  helenus-sim --world forming --seeds 200"
)]
struct Options {
    /// Which worlds: the storage engine of one node, or one of those of clusters
    #[arg(long, value_enum, default_value_t = World::Storage)]
    world: World,
    /// How many worlds
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The seed of the first one; the others follow
    #[arg(long, default_value_t = 1)]
    start: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    use sim::{cluster, storage};
    match options.world {
        World::Storage => live(&options, storage::run, storage::Report::add),
        World::Forming => live(
            &options,
            cluster::forming::run,
            cluster::forming::Report::add,
        ),
        World::Registers => live(
            &options,
            cluster::registers::run,
            cluster::registers::Report::add,
        ),
        World::Agreements => live(
            &options,
            cluster::agreements::run,
            cluster::agreements::Report::add,
        ),
        World::Traffic => live(
            &options,
            cluster::traffic::run,
            cluster::traffic::Report::add,
        ),
        World::Repairs => live(
            &options,
            cluster::repairs::run,
            cluster::repairs::Report::add,
        ),
        World::Views => live(&options, cluster::views::run, cluster::views::Report::add),
    }
}

/// Lives the worlds and tells what they did together.
fn live<R: Default + Display>(
    options: &Options,
    world: fn(u64) -> Result<R, String>,
    add: fn(&mut R, &R),
) -> ExitCode {
    let mut total = R::default();
    let failed = run(options, |seed| {
        add(&mut total, &world(seed)?);
        Ok(())
    });
    println!("sim: {} seeds, {failed} failed, {total}", options.seeds);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Lives the worlds; how many have failed.
fn run(options: &Options, mut live: impl FnMut(u64) -> Result<(), String>) -> u64 {
    let mut failed = 0;
    let terminal = std::io::stderr().is_terminal();
    for seed in options.start..options.start.saturating_add(options.seeds) {
        if let Err(problem) = live(seed) {
            failed += 1;
            let world = options.world.name();
            println!("{problem}\nagain: helenus-sim --world {world} --start {seed} --seeds 1");
        }
        if terminal {
            eprint!("\rseed {seed}, {failed} failed ");
            let _ = std::io::stderr().flush();
        }
        if failed >= 10 {
            println!("stopped after 10 failures");
            break;
        }
    }
    failed
}
