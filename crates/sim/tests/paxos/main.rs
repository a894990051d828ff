//! Lightweight transactions in wild worlds: whatever the network, the drives, the clocks and the
//! deaths of coordinators do, the answers are those of one copy of the partition. And worlds in which
//! something is done wrong: that is found.

mod conditions;
mod coordinator;
mod history;
mod replica;
mod world;

use conditions::Fault;
use history::{Entry, linearizable, settled};
use sim::linearizability::NotLinearizable;
use world::{Report, World};

/// Fails if a history cannot be explained.
fn explain(seed: u64, history: &[Entry]) {
    let explained = linearizable(history).and_then(|()| settled(history));
    if let Err(error) = explained {
        let entries = history.iter().enumerate();
        let lines: Vec<String> = entries
            .map(|(i, entry)| format!("{i:3} {entry:?}"))
            .collect();
        panic!("seed {seed}: {error:?}\n{}", lines.join("\n"));
    }
}

#[test]
fn every_world_is_linearizable() {
    let mut total = Report::default();
    for seed in 0..3_000 {
        let (history, report) = World::new(seed, Fault::None).run();
        explain(seed, &history);
        total.add(&report);
    }
    println!("{total:?}");
    // It is not because nothing happened.
    let happened = [
        total.crashes,
        total.applied,
        total.read,
        total.fast,
        total.unknown,
        total.nothing,
        total.finished,
        total.refreshed,
        total.empty,
    ];
    assert!(happened.iter().all(|count| *count > 5_000), "{total:?}");
}

#[test]
fn in_calm_worlds_every_operation_is_answered() {
    let mut total = Report::default();
    for seed in 0..1_000 {
        let (history, report) = World::calm(seed).run();
        explain(seed, &history);
        total.add(&report);
    }
    assert_eq!(total.nothing, 0, "{total:?}");
    // Another round came in the way of these after somebody had accepted them.
    assert!(total.unknown * 50 < total.applied, "{total:?}");
    assert!(total.fast * 2 > total.read, "{total:?}");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..20 {
        let [(_, once), (_, again)] = [0, 1].map(|_| World::new(seed, Fault::None).run());
        assert_eq!(once, again);
        let (_, other) = World::new(seed + 1, Fault::None).run();
        assert_ne!(once.trace, other.trace);
    }
}

/// The first world in which a fault is seen.
fn found(fault: Fault, check: impl Fn(&[Entry]) -> Result<(), NotLinearizable>) -> Option<u64> {
    let is_wrong = |seed: &u64| {
        let (history, _) = World::new(*seed, fault).run();
        check(&history).is_err()
    };
    (0..2_000).find(is_wrong)
}

#[test]
fn what_is_done_wrong_is_found() {
    for fault in Fault::ALL {
        let seed = match fault.is_seen_by_clients() {
            true => found(fault, linearizable),
            false => found(fault, settled),
        };
        println!("{fault:?}: {seed:?}");
        assert!(seed.is_some(), "{fault:?}");
    }
}
