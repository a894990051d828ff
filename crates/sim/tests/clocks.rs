//! What a node says of the cluster after its clock was ahead in its life before.

use std::time::Duration;

use cluster::Consistency;
use io::sim::Crash;
use sim::Random;
use sim::cluster::World;

/// How far the clock is ahead, in microseconds.
const AHEAD: i64 = 3_600_000_000;
const START: Duration = Duration::from_secs(60);

#[test]
fn peers_are_as_they_are_where_the_clock_was_ahead() {
    let mut world = World::new(1, 2, &mut Random::new(1));
    world.set_clock(0, AHEAD);
    for node in 0..2 {
        world.start(node);
    }
    world.wait_until_ready(START).expect("they start");
    world.crash(0, Crash::Process);
    world.set_clock(0, 0);
    world.start(0);
    world.wait_until_ready(START).expect("it starts again");
    let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}";
    let made = world.ask(1, keyspace, Consistency::One);
    made.expect("it can be made");
    world.simulation.run_for(Duration::from_secs(5));
    let mut version = |table: &str| {
        let text = format!("SELECT schema_version FROM system.{table}");
        let rows = world.ask(0, &text, Consistency::One).expect("it is there");
        rows[0][0].clone().expect("it is set")
    };
    let local = version("local");
    assert_eq!(version("peers"), local);
    assert_eq!(version("peers_v2"), local);
}
