//! The binary `helenus`.
//!
//! `helenus start` runs a node: this crate reads the command line and the configuration file, looks at
//! what the machine allows, guards the data folder, answers HTTP on a thread of its own and waits for
//! signals. `helenus cluster` runs several of them, `helenus nodetool` operates one over its REST API. All that a database does is in `node` and below.

mod archiving;
mod command;
mod config_file;
mod control;
mod data_folder;
mod encryption;
mod guardrails;
mod http;
mod limits;
mod local_cluster;
mod logging;
mod machine;
mod metrics;
mod nodetool;
mod options;
mod rest;
mod settings;
mod size;
mod sstable_tools;
mod start;

use std::process::ExitCode;
use std::sync::OnceLock;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

/// What it gives out.
static MEMORY: io::Arenas = io::Arenas::new();

/// Did it get it?
static RESERVED: OnceLock<std::io::Result<()>> = OnceLock::new();

/// Called by the loader, before the runtime of the language allocates its first words: for these the allocator would ask the
/// system for a gibibyte, and take all from there until it is full.
#[used]
// SAFETY: the section has the addresses of functions without arguments, which are called on the only thread, in any order; this
// one asks nothing of what others prepare.
#[allow(unsafe_code)]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = reserve_memory;

extern "C" fn reserve_memory() {
    let _ = RESERVED.set(MEMORY.reserve());
}

fn main() -> ExitCode {
    let reserved = RESERVED.get_or_init(|| MEMORY.reserve());
    let memory = reserved.as_ref().map(|()| &MEMORY);
    let arguments = sstable_tools::spell_out(nodetool::spell_out(std::env::args_os()));
    // Cassandra's tools have one code for all that is wrong with a command line.
    let tools = ["nodetool", "sstable"];
    let is_nodetool = arguments.get(1).is_some_and(|word| word == "nodetool");
    let is_tool = arguments
        .get(1)
        .is_some_and(|word| tools.iter().any(|tool| word == tool));
    let command = match command::CommandLine::try_parse_from(arguments) {
        Ok(command::CommandLine { command }) => command,
        Err(error) => return tell(&error, is_tool, is_nodetool),
    };
    let result = match command {
        command::Command::Start(options) => {
            start::start(*options, memory).map_err(|error| error.to_string())
        }
        command::Command::Cluster(options) => {
            local_cluster::run(&options).map_err(|error| error.to_string())
        }
        command::Command::Sstable(verb) => return sstable_tools::run(verb),
        command::Command::Nodetool(options) => return nodetool::run(*options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, as an operator reads it in a log among those of other services.
            eprintln!("helenus: {}", error.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// Prints help, or what is wrong with the command line.
fn tell(error: &clap::Error, is_tool: bool, is_nodetool: bool) -> ExitCode {
    if is_nodetool && let Some(complaint) = nodetool::complaint(error) {
        eprintln!("nodetool: {complaint}");
        return ExitCode::FAILURE;
    }
    // Who asked may have gone.
    let _ = error.print();
    match u8::try_from(error.exit_code()) {
        Ok(0) => ExitCode::SUCCESS,
        // As Cassandra's; the 2 of its nodetool is for what went wrong.
        _ if is_tool => ExitCode::FAILURE,
        code => ExitCode::from(code.unwrap_or(1)),
    }
}
