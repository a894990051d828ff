//! `helenus-bench`: the workloads people judge a database by, over a real driver, or, where that would be what is
//! measured, over frames alone (`--client plain`).
//!
//! Speaks CQL to any server, so that Helenus and its peers are measured by the same client. Load
//! comes from threads with an executor and a session each, so that the client is seldom what is
//! measured; each keeps a number of operations in flight (closed loop), or issues them when they
//! are due (`--rate`), whether or not the ones before have been answered. Beside requests, what
//! connections cost: `storm` opens and closes them, `idle` holds them.

// Here real time is what is measured.
#![allow(clippy::disallowed_methods)]

mod client;
mod connection;
mod cpu;
mod descriptors;
mod gate;
mod generator;
mod idle;
#[cfg(test)]
mod made_up_server;
mod measurement;
mod options;
mod pacing;
mod plain;
mod progress;
mod raw;
mod report;
mod routing;
mod run;
mod storm;
mod table;
mod workload;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let options = options::Options::parse();
    match run::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
