//! Some seeds of nodes that form a cluster.

#[test]
fn nodes_form_one_cluster_and_agree_on_its_schema() {
    for seed in 0..6 {
        let report = sim::cluster::forming::run(seed);
        let report = report.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        assert!(report.changes > 0, "seed {seed}: nothing was changed");
    }
}

#[test]
fn a_seed_tells_the_same_story() {
    let [first, second] = [(); 2].map(|()| sim::cluster::forming::run(3));
    assert_eq!(first, second);
}
