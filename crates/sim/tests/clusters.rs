//! A seed of each world of clusters, which tells the same story twice; `make sim` lives many.

use sim::cluster::{agreements, forming, registers, repairs, traffic, views};

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

#[test]
fn counters_sets_batches_and_schemas_are_what_was_acknowledged() {
    let report = traffic::run(1).expect("nothing is wrong");
    assert!(report.added > 100 && report.sets > 100, "{report}");
    assert!(report.batches > 50 && report.changes > 5, "{report}");
    assert_eq!(traffic::run(1), Ok(report));
}

/// A node whose clock was set back while it was dead stayed down for the others: the life before had begun
/// later, by its clock.
#[test]
fn who_starts_with_a_clock_that_was_set_back_is_up_again() {
    traffic::run(119).expect("nothing is wrong");
}

/// A node whose clock was ahead in its life before went on saying the version of the schema that it had then:
/// what it wrote into `system.local` afterwards was earlier.
#[test]
fn what_a_node_says_of_itself_is_later_than_what_it_said() {
    traffic::run(201392).expect("nothing is wrong");
}

#[test]
fn replicas_get_what_they_have_missed() {
    let report = repairs::run(2).expect("nothing is wrong");
    assert!(report.hints > 0 && report.repairs > 0, "{report}");
    assert_eq!(repairs::run(2), Ok(report));
}

#[test]
fn views_say_what_their_tables_say() {
    let report = views::run(1).expect("nothing is wrong");
    assert!(report.statements > 100 && report.compared > 0, "{report}");
    assert_eq!(views::run(1), Ok(report));
}

/// A view that a node hears of at its start is built from what the batch log has for the table, too; a row lives by
/// an older write than what is known of it.
#[test]
fn views_follow_what_a_start_finds_and_what_is_older() {
    for seed in [1_002_537, 1_000_059] {
        views::run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
