//! A seed of each world of clusters, which tells the same story twice; `make sim` lives many.

use sim::cluster::{agreements, forming, registers};

#[test]
fn nodes_form_one_cluster_and_agree_on_its_schema() {
    let report = forming::run(3).expect("nothing is wrong");
    assert!(report.changes > 0, "nothing was changed");
    assert_eq!(forming::run(3), Ok(report));
}

#[test]
fn quorum_reads_see_quorum_writes() {
    let report = registers::run(1).expect("nothing is wrong");
    assert!(report.writes > 100 && report.reads > 100, "{report}");
}

#[test]
fn conditional_updates_come_one_after_the_other() {
    let report = agreements::run(1).expect("nothing is wrong");
    assert!(report.applied > 20 && report.reads > 20, "{report}");
}
