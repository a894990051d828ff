//! Checks of the house itself, run as `cargo xtask tidy` and `cargo xtask bench-check`.

mod bench_check;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Checks of the house itself.

Usage: cargo xtask <COMMAND>

Commands:
  tidy    Check that
            - crates import downwards only, by the floors of docs/ARCHITECTURE.md
            - no file has more than 1000 lines and no function more than 150
              (those above 600 and 70 are listed)
            - no file speaks of the machine it was written on, or of a package registry
            - what docs/ARCHITECTURE.md names exists, and it names every crate
          Prints what is wrong, and fails if anything is.
  bench-check [--record]
          Count the instructions of a request's way under valgrind, and compare them with
          bench/instructions.txt; fails if one has risen by more than 3 %. With --record
          the counts are written there instead
  help    Print this

Options:
  -h, --help    Print this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["help" | "-h" | "--help"] | ["tidy" | "bench-check", "-h" | "--help"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        ["tidy"] => run_tidy(),
        ["bench-check"] => run_bench_check(false),
        ["bench-check", "--record"] => run_bench_check(true),
        _ => {
            eprintln!("error: no command `{}`\n\n{HELP}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = own.parent().expect("xtask lies in the workspace");
    root.to_owned()
}

fn run_bench_check(record: bool) -> ExitCode {
    match bench_check::run(&root(), record) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> ExitCode {
    match tidy::check(&root()) {
        Ok(report) => {
            for remark in &report.remarks {
                println!("remark: {remark}");
            }
            for fault in &report.faults {
                println!("error: {fault}");
            }
            if report.faults.is_empty() {
                println!("tidy ({} remarks)", report.remarks.len());
                return ExitCode::SUCCESS;
            }
            println!("{} errors", report.faults.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
