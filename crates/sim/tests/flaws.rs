//! Known-bad variants of a node are found: the worlds of clusters can see such mistakes.

use node::Flaw;
use sim::cluster::{agreements, forming, registers};

/// The first of these worlds in which something is wrong.
fn found(mut run: impl FnMut(u64) -> Result<(), String>, seeds: std::ops::Range<u64>) -> String {
    let mut seeds = seeds;
    let problem = seeds.find_map(|seed| Some((seed, run(seed).err()?)));
    let (seed, problem) = problem.expect("nothing was found");
    println!("seed {seed}: {problem}");
    problem
}

fn of_registers(flaw: Flaw, seeds: std::ops::Range<u64>) -> String {
    found(|seed| registers::run_with(seed, flaw).map(drop), seeds)
}

#[test]
fn a_quorum_off_by_one() {
    let problem = of_registers(Flaw::QuorumOffByOne, 0..5);
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
