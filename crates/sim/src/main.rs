//! `helenus-sim`: worlds by their seeds.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

/// Run the storage engine in simulated worlds, with crashes and drives that fail
#[derive(Parser)]
#[command(
    name = "helenus-sim",
    after_help = "Examples:\n  helenus-sim --seeds 500\n  helenus-sim --start 4711 --seeds 1"
)]
struct Options {
    /// How many worlds
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The seed of the first one; the others follow
    #[arg(long, default_value_t = 1)]
    start: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut total = sim::storage::Report::default();
    let mut failed = 0;
    let terminal = std::io::stderr().is_terminal();
    for seed in options.start..options.start.saturating_add(options.seeds) {
        match sim::storage::run(seed) {
            Ok(report) => {
                total.crashes += report.crashes;
                total.faulty += report.faulty;
                total.full += report.full;
                total.refused += report.refused;
                total.writes += report.writes;
                total.reads += report.reads;
                total.cached += report.cached;
                total.snapshots += report.snapshots;
                total.bits += report.bits;
                total.damage += report.damage;
            }
            Err(problem) => {
                failed += 1;
                println!("{problem}\nagain: helenus-sim --start {seed} --seeds 1");
            }
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
    println!(
        "sim: {} seeds, {failed} failed, {} crashes, {} lives with a failing drive, {} with \
         a full one, {} writes acknowledged, {} refused, {} reads checked, {} of them cached, {} \
         snapshots looked into, {} bits changed, {} errors that said so",
        options.seeds,
        total.crashes,
        total.faulty,
        total.full,
        total.writes,
        total.refused,
        total.reads,
        total.cached,
        total.snapshots,
        total.bits,
        total.damage
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
