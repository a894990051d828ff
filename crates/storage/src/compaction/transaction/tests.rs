//! Names of logs, and transactions that are cut off.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use io::sim::{Crash, SimConfig, Simulation};

use super::*;
use crate::sstable::{Component, Format};

#[test]
fn names_tell_whose_they_are() {
    let id = time_uuid(1_767_225_600_000_000, 300, u64::MAX);
    assert_eq!(id.get_version_num(), 1);
    assert_eq!(id.to_string()[..18], *"d0c3c000-e6a4-11f0");
    let name = format!("nb_txn_compaction_{id}.log");
    assert_eq!(owner_of(&name), Some(300));
    assert_eq!(owner_of(&format!("{name}.tmp")), Some(300));
    // `LogFile.FILE_REGEX`: of a Cassandra that writes `da`, and of one that names no version.
    for of_cassandra in [
        format!("bti-da_txn_compaction_{id}.log"),
        format!("big-oa_txn_compaction_{id}.log"),
        format!("txn_compaction_{id}.log"),
        format!("mc_txn_tree_a_b_{id}.log"),
    ] {
        assert_eq!(owner_of(&of_cassandra), Some(300), "{of_cassandra}");
    }
    for other in [
        "nb-1-big-Data.db",
        "nb_txn_compaction_1.log",
        "nbx_txn_compaction_72aa3800-e6a5-11f0-812c-ffffffffffff.log",
        "bti-da1_txn_compaction_72aa3800-e6a5-11f0-812c-ffffffffffff.log",
        "BTI-da_txn_compaction_72aa3800-e6a5-11f0-812c-ffffffffffff.log",
        "-da_txn_compaction_72aa3800-e6a5-11f0-812c-ffffffffffff.log",
        "nb_txn_72aa3800-e6a5-11f0-812c-ffffffffffff.log",
        "nb_compaction_72aa3800-e6a5-11f0-812c-ffffffffffff.log",
        "helenus-compaction-3.log",
    ] {
        assert_eq!(owner_of(other), None, "{other}");
    }
}

const OLD: [u64; 3] = [1, 2, 3];
const NEW: [u64; 2] = [7, 8];
const COMPONENTS: [Component; 4] = [
    Component::Index,
    Component::Statistics,
    Component::Data,
    Component::Toc,
];

fn dir() -> &'static Path {
    Path::new("/table")
}

async fn put(env: &Env, path: &Path) {
    let written = env.write_file(path, b"content".to_vec()).await;
    written.expect("it is written");
}

async fn write_sstable(env: &Env, generation: u64) {
    for component in COMPONENTS {
        put(
            env,
            &Descriptor::new(dir(), Format::Big, generation).path(component),
        )
        .await;
    }
    env.sync_dir(dir()).await.expect("it is synced");
}

/// Says when everything old is there, then replaces it.
async fn replace(env: Env, begun: Rc<RefCell<bool>>) {
    env.create_dir_all(dir()).await.expect("it is made");
    env.sync_dir(Path::new("/")).await.expect("it is synced");
    for generation in OLD {
        write_sstable(&env, generation).await;
    }
    *begun.borrow_mut() = true;
    let transaction = Transaction::begin(&env, dir(), Operation::Compaction).await;
    let mut transaction = transaction.expect("it begins");
    for generation in NEW {
        let added = transaction
            .add(&Descriptor::new(dir(), Format::Big, generation))
            .await;
        added.expect("it is written");
        write_sstable(&env, generation).await;
    }
    let old = OLD.map(|generation| Descriptor::new(dir(), Format::Big, generation));
    transaction.commit(&old).await.expect("it is written");
    transaction.finish().await.expect("it is finished");
}

/// Does what a start does, and lists what is left.
async fn start(env: Env, left: Rc<RefCell<Vec<String>>>) {
    env.sync_dir(dir()).await.expect("it is synced");
    let entries = env.read_dir(dir()).await.expect("it is listed");
    let found = leftovers(&env, dir(), &entries, |_| true).await;
    for leftover in found.expect("it is clear").expect("nobody else is there") {
        leftover.clean(&env, dir()).await.expect("it is cleaned");
    }
    let entries = env.read_dir(dir()).await.expect("it is listed");
    let names = entries.into_iter().map(|entry| entry.name);
    left.borrow_mut().extend(names);
}

/// Wherever it is cut off, also while a start cleans up, all of the old sstables are there or all
/// of the new ones, and nothing else.
#[test]
fn a_crash_leaves_the_old_or_the_new_files() {
    let names = |generations: &[u64]| {
        let mut names: Vec<String> = generations
            .iter()
            .flat_map(|generation| {
                COMPONENTS.map(|c| Descriptor::new(dir(), Format::Big, *generation).path(c))
            })
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        names
    };
    let (old, new) = (names(&OLD), names(&NEW));
    let mut seen = [0, 0];
    for seed in 0..400 {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let node = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 24);
        let begun = Rc::new(RefCell::new(false));
        let told = begun.clone();
        simulation.start(node, move |env| replace(env, told.clone()));
        assert!(simulation.run_until(Duration::from_secs(10), |_| *begun.borrow()));
        // It takes about 20 ms.
        let some_time = |number: u64| Duration::from_micros(number * 7919 % 24_000);
        simulation.run_until(some_time(seed), |_| false);
        let how = |number: u64| match number % 3 {
            0 => Crash::Process,
            _ => Crash::Power,
        };
        simulation.crash(node, how(seed));
        let nothing = Rc::new(RefCell::new(Vec::new()));
        simulation.start(node, move |env| start(env, nothing.clone()));
        simulation.run_until(some_time(seed) / 8, |_| false);
        simulation.crash(node, how(seed / 3));
        let left = Rc::new(RefCell::new(Vec::new()));
        let told = left.clone();
        simulation.start(node, move |env| start(env, told.clone()));
        assert!(simulation.run_to_end(node, Duration::from_secs(10)));
        let left = left.borrow();
        assert!(*left == old || *left == new, "seed {seed}: {left:?}");
        seen[usize::from(*left == new)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 40), "{seen:?}");
}
