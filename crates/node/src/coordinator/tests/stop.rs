//! A node that stops while its writes are under way: what replicas missed is kept for them.

use std::path::Path;
use std::time::Duration;

use cluster::Consistency;

use super::content::set;
use super::world::{Plan, SECOND, World};
use crate::stop;

/// A world in which nodes keep hints and node 2 is cut off, though nobody has noticed.
fn world(seed: u64) -> World {
    let plan = Plan {
        hints: true,
        ..Plan::default()
    };
    let mut world = World::new(seed, plan);
    world.simulation.run_for(SECOND);
    world.cut_off(2);
    world
}

/// Bytes of all files of hints that node 0 has on its drive.
fn bytes_of_hints(world: &mut World) -> usize {
    let shard = world.shard(0);
    world.run(&shard, |shard| async move {
        let folder = Path::new("/data/hints");
        let mut bytes = 0;
        for entry in shard.env.read_dir(folder).await.expect("it is there") {
            let file = shard.env.read_file(&folder.join(entry.name)).await;
            bytes += file.expect("the drive is fine").len();
        }
        bytes
    })
}

#[test]
fn hints_of_writes_under_way_are_on_the_drive() {
    let mut world = world(40);
    let table = world.table();
    for key in 0..3 {
        let written = world.write(0, set(&table, (key, 1), key, 10), Consistency::Quorum);
        written.expect("two of three");
    }
    assert_eq!((world.missed(0), bytes_of_hints(&mut world)), (0, 0));
    let shard = world.shard(0);
    let began = world.simulation.now();
    for _ in 0..2 {
        let settled = world.run(&shard, |shard| async move { stop::settle(&shard).await });
        assert_eq!(settled, Ok(()));
    }
    let took = world.simulation.now().saturating_duration_since(began);
    assert!(took < 3 * SECOND, "{took:?}");
    let metrics = &shard.metrics;
    assert_eq!((world.missed(0), metrics.hints_kept.get()), (3, 3));
    let bytes = bytes_of_hints(&mut world);
    assert!(bytes > 3 * 16, "{bytes} bytes of hints");
    let flushed = world.run(&shard, |shard| async move { stop::flush(&shard).await });
    assert_eq!(flushed, Ok(()));

    let refused = world.write(0, set(&table, (9, 1), 9, 10), Consistency::All);
    refused.expect_err("nothing is written any more");
    world.simulation.run_for(5 * SECOND);
    assert_eq!(metrics.hints_kept.get(), 3);
    assert!(metrics.hints_dropped.get() > 0, "none is kept any more");
    assert_eq!(bytes_of_hints(&mut world), bytes);
}

#[test]
fn a_node_without_writes_under_way_does_not_wait() {
    let mut world = world(41);
    let shard = world.shard(0);
    let began = world.simulation.now();
    let settled = world.run(&shard, |shard| async move { stop::settle(&shard).await });
    assert_eq!(settled, Ok(()));
    let took = world.simulation.now().saturating_duration_since(began);
    assert!(took < Duration::from_millis(20), "{took:?}");
}
