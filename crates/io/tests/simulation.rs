//! What the simulator promises besides the contract: determinism, crashes, faults.

#![allow(clippy::unwrap_used)] // Every line is part of a test.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use io::sim::{Crash, DiskFaults, LinkConfig, SimConfig, SimNode, Simulation};
use io::{Env, OpenOptions, TaskGroup};

const WRITING: OpenOptions = OpenOptions {
    read: true,
    write: true,
    create: true,
    create_new: false,
    truncate: false,
    direct: false,
};
const HOUR: Duration = Duration::from_secs(3600);

fn one_node(seed: u64) -> (Simulation, SimNode) {
    let mut simulation = Simulation::new(seed, SimConfig::default());
    let node = simulation.add_node([10, 0, 0, 1].into(), 2, 1 << 20);
    (simulation, node)
}

/// Two tasks a shard that sleep, write and sync.
async fn bustle(env: Env) {
    let tasks: Vec<_> = (0..2)
        .map(|number| {
            let env2 = env.clone();
            env.spawn(TaskGroup::Foreground, async move {
                let name = format!("/f{}-{number}", env2.shard().0);
                let file = env2.open(Path::new(&name), WRITING).await.unwrap();
                for round in 0..20u64 {
                    let pause = env2.random_u64() % 1_000_000;
                    env2.sleep(Duration::from_nanos(pause)).await;
                    let bytes = pause.to_le_bytes().to_vec();
                    file.write_all_at(bytes, round * 8).await.0.unwrap();
                    file.sync_data().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}

fn hash_of(seed: u64) -> u64 {
    let (mut simulation, node) = one_node(seed);
    simulation.start(node, bustle);
    assert!(simulation.run_to_end(node, HOUR));
    simulation.trace_hash()
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..20 {
        assert_eq!(hash_of(seed), hash_of(seed));
        assert_ne!(hash_of(seed), hash_of(seed + 1));
    }
}

/// Writes a synced part and one that is not, then waits to be killed.
async fn write_and_wait(env: Env) {
    if env.shard().0 > 0 {
        return;
    }
    let file = env.open(Path::new("/f"), WRITING).await.unwrap();
    file.write_all_at(vec![1; 20_000], 0).await.0.unwrap();
    file.sync_all().await.unwrap();
    env.sync_dir(Path::new("/")).await.unwrap();
    file.write_all_at(vec![2; 20_000], 10_000).await.0.unwrap();
    env.sleep(HOUR).await;
}

fn after_crash(seed: u64, how: Crash) -> Vec<u8> {
    let (mut simulation, node) = one_node(seed);
    simulation.start(node, write_and_wait);
    simulation.run_for(Duration::from_secs(1));
    simulation.crash(node, how);
    let found = Rc::new(RefCell::new(Vec::new()));
    let into = found.clone();
    simulation.start(node, move |env| {
        let into = into.clone();
        async move {
            if env.shard().0 == 0 {
                let file = env.open(Path::new("/f"), WRITING).await.unwrap();
                let len = file.len().await.unwrap() as usize;
                *into.borrow_mut() = file.read_exact_at(0, len).await.unwrap().to_vec();
            }
        }
    });
    assert!(simulation.run_to_end(node, HOUR));
    found.take()
}

#[test]
fn a_killed_process_leaves_what_it_wrote() {
    let mut whole = vec![1; 10_000];
    whole.extend(vec![2; 20_000]);
    assert_eq!(after_crash(1, Crash::Process), whole);
}

#[test]
fn without_power_only_what_was_synced_is_certain() {
    let (mut lost, mut torn) = (0, 0);
    for seed in 0..50 {
        let found = after_crash(seed, Crash::Power);
        assert!(found.len() >= 20_000);
        assert!(found[..10_000].iter().all(|byte| *byte == 1));
        assert!(found[10_000..20_000].iter().all(|b| *b == 1 || *b == 2));
        let kept = found[10_000..].iter().filter(|byte| **byte == 2).count();
        lost += u32::from(kept == 0);
        torn += u32::from(kept > 0 && kept < 20_000);
    }
    assert!(torn > 0, "some writes are torn");
    assert!(lost < 50, "some are kept");
}

#[test]
fn drives_fail_as_they_are_told_to() {
    let (mut simulation, node) = one_node(7);
    simulation.set_disk_faults(
        node,
        DiskFaults {
            write_error: 0.5,
            ..DiskFaults::NONE
        },
    );
    let failed = Rc::new(Cell::new(0));
    let count = failed.clone();
    simulation.start(node, move |env| {
        let count = count.clone();
        async move {
            let name = format!("/f{}", env.shard().0);
            let file = env.open(Path::new(&name), WRITING).await.unwrap();
            for _ in 0..100 {
                let written = file.write_all_at(vec![0; 10], 0).await.0;
                count.set(count.get() + u32::from(written.is_err()));
            }
        }
    });
    assert!(simulation.run_to_end(node, HOUR));
    assert!((50..150).contains(&failed.get()), "{}", failed.get());

    simulation.crash(node, Crash::Process);
    simulation.set_disk_faults(node, DiskFaults::NONE);
    simulation.start(node, |env| async move {
        if env.shard().0 == 0 {
            let file = env.open(Path::new("/big"), WRITING).await.unwrap();
            let written = file.write_all_at(vec![0; 2 << 20], 0).await.0;
            let kind = written.expect_err("the drive is full").kind();
            assert_eq!(kind, std::io::ErrorKind::StorageFull);
        }
    });
    assert!(simulation.run_to_end(node, HOUR));
}

#[test]
fn a_partition_holds_bytes_back_until_it_heals() {
    let mut simulation = Simulation::new(3, SimConfig::default());
    let server = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 20);
    let client = simulation.add_node([10, 0, 0, 2].into(), 1, 1 << 20);
    let address = SocketAddr::new([10, 0, 0, 1].into(), 9042);
    let received = Rc::new(Cell::new(0));
    let count = received.clone();
    simulation.start(server, move |env| {
        let count = count.clone();
        async move {
            let listener = env.listen(address, 8).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            loop {
                match stream.read(Vec::new()).await.0 {
                    Ok(0) | Err(_) => return,
                    Ok(read) => count.set(count.get() + read),
                }
            }
        }
    });
    simulation.run_for(Duration::from_millis(1));
    simulation.set_links(LinkConfig {
        loss: 0.1,
        ..LinkConfig::HEALTHY
    });
    simulation.start(client, move |env| async move {
        let stream = env.connect(address).await.unwrap();
        for _ in 0..20 {
            stream.write_all(vec![0; 100]).await.0.unwrap();
            env.sleep(Duration::from_millis(100)).await;
        }
    });
    simulation.run_for(Duration::from_millis(500));
    simulation.block(client, server);
    simulation.run_for(Duration::from_secs(1));
    let before = received.get();
    simulation.run_for(Duration::from_secs(5));
    assert_eq!(received.get(), before, "nothing gets through");
    simulation.heal();
    assert!(simulation.run_to_end(server, HOUR));
    assert_eq!(received.get(), 2_000);
}
