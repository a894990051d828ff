//! What nodes say of how much their ranges have, as connectors that split whole tables among workers read it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use sim::Random;
use sim::cluster::World;

/// Until all nodes have said it once; again, after as long as it takes until they say it anew.
const SAID: Duration = Duration::from_secs(40);
const SAID_AGAIN: Duration = Duration::from_secs(310);

/// Each node has so many in these worlds.
const TOKENS: usize = 4;

/// The ranges that all nodes say a table to have, each once, or twice.
fn ranges(world: &mut World, text: &str) -> (usize, BTreeSet<(i64, i64)>) {
    let token = |cell: &Option<Bytes>| -> i64 {
        let text = cell.as_ref().expect("it is part of the key");
        let text = std::str::from_utf8(text).expect("it is text");
        text.parse().expect("it is a token")
    };
    let mut rows = Vec::new();
    for node in 0..world.len() {
        rows.extend(
            world
                .ask(node, text, Consistency::One)
                .expect("it is there"),
        );
    }
    let all = rows.iter().map(|row| (token(&row[0]), token(&row[1])));
    (rows.len(), all.collect())
}

#[test]
fn all_nodes_together_tell_of_each_range_once() {
    let mut world = World::new(1, 3, &mut Random::new(1));
    for node in 0..3 {
        world.start(node);
    }
    world
        .wait_until_ready(Duration::from_secs(60))
        .expect("they start");
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
        "CREATE TABLE ks.t (a int PRIMARY KEY)",
    ] {
        world
            .ask(0, text, Consistency::One)
            .expect("it can be made");
    }
    world.simulation.run_for(SAID);
    let sizes =
        "SELECT range_start, range_end FROM system.size_estimates WHERE keyspace_name = 'ks'";
    let (count, said) = ranges(&mut world, sizes);
    assert_eq!(
        count,
        3 * TOKENS + 1,
        "a range for each token, and one goes over the end"
    );
    assert_eq!(said.len(), count, "none twice");
    // Where one ends another begins, once round the ring.
    let begins: BTreeSet<i64> = said.iter().map(|(start, _)| *start).collect();
    let ends: BTreeSet<i64> = said.iter().map(|(_, end)| *end).collect();
    assert_eq!((begins.len(), &begins), (count, &ends));
    world
        .ask(1, "DROP KEYSPACE ks", Consistency::One)
        .expect("it is there");
    world.simulation.run_for(SAID_AGAIN);
    assert_eq!(ranges(&mut world, sizes).0, 0);
}
