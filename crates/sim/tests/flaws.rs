//! Known-bad variants of a node are found: the worlds of clusters can see such mistakes.

use node::Flaw;
use sim::cluster::{agreements, forming, registers, repairs};

/// The first of these worlds in which something is wrong.
fn found(mut run: impl FnMut(u64) -> Result<(), String>, seeds: std::ops::Range<u64>) -> String {
    let mut seeds = seeds;
    let problem = seeds.find_map(|seed| Some((seed, run(seed).err()?)));
    let (seed, problem) = problem.expect("nothing was found");
    println!("seed {seed}: {problem}");
    problem
}

#[test]
fn a_quorum_off_by_one() {
    let run = |seed| registers::run_with(seed, Flaw::QuorumOffByOne).map(drop);
    let problem = found(run, 0..5);
    assert!(problem.contains("had been acknowledged"), "{problem}");
}

#[test]
fn agreements_that_are_not_committed() {
    let run = |seed| agreements::run_with(seed, Flaw::NoCommit).map(drop);
    let problem = found(run, 0..5);
    assert!(problem.contains("no order"), "{problem}");
}

#[test]
fn voters_in_whose_place_nobody_comes() {
    let silence = std::time::Duration::from_secs(1 << 20);
    let run = |seed| forming::run_absences(seed, Flaw::None, silence).map(drop);
    let problem = found(run, 0..5);
    assert!(problem.contains("a majority does not decide"), "{problem}");
}

/// A row that a read has shown to be deleted is there again when the witness of its deletion is away.
#[test]
fn read_repair_that_drops_tombstones() {
    let run = |seed| repairs::run_with(seed, Flaw::RepairDropsTombstones).map(drop);
    let problem = found(run, 0..5);
    assert!(problem.contains("removed for good"), "{problem}");
}

/// A replica that was gone again while it was given what it had missed never gets the rest.
#[test]
fn hints_that_are_forgotten() {
    let run = |seed| repairs::run_with(seed, Flaw::HintsForget).map(drop);
    let problem = found(run, 0..10);
    assert!(
        problem.starts_with("Hints") && problem.contains("alone"),
        "{problem}"
    );
}
