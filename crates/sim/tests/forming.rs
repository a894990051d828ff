//! Some seeds of nodes that form a cluster.

#[test]
fn nodes_form_one_cluster_and_agree_on_its_schema() {
    for seed in 0..6 {
        let report = sim::cluster::forming::run(seed);
        let report = report.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        assert!(report.changes > 0, "seed {seed}: nothing was changed");
    }
}

/// A leader that lost entries with its power led on in the same term and gave their places to others.
#[test]
fn a_leader_that_lost_its_power_does_not_lead_on() {
    for seed in [181, 315] {
        let report = sim::cluster::forming::run(seed);
        report.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    }
}

#[test]
fn a_seed_tells_the_same_story() {
    let [first, second] = [(); 2].map(|()| sim::cluster::forming::run(3));
    assert_eq!(first, second);
}
