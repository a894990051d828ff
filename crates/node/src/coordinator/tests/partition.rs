//! Reads of a partition.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Consistency, FailureReason, Outcome};
use model::{
    Bound, BoundKind, ColumnId, ColumnKind, DeletionTime, FilterOperator, RangeTombstone, Resume,
    RowFilter, Slice, Table,
};

use super::content::{cell, clustering, decorated, delete, int, rows, set, update};
use super::world::{Plan, SECOND, World, schema};
use crate::error::RequestError;
use crate::metadata::Metadata;

fn outcome<T: std::fmt::Debug>(result: Result<T, RequestError>) -> (Outcome, bool) {
    match result {
        Err(RequestError::Read {
            outcome,
            data_present,
            ..
        }) => (outcome, data_present),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_quorum_sees_what_a_quorum_wrote() {
    let mut world = World::new(
        1,
        Plan {
            shards: 2,
            ..Plan::default()
        },
    );
    let table = world.table();
    for key in 0..30 {
        let away = key as usize % 3;
        world.cut_off(away);
        let writer = (away + 1) % 3;
        let written = world.write(writer, set(&table, (key, 1), key, 10), Consistency::Quorum);
        written.expect("two of three");
        world.simulation.heal();
        let away = (away + 2) % 3;
        world.cut_off(away);
        world.all_believe(away, false);
        let reader = (away + 1 + key as usize / 3 % 2) % 3;
        let page = world.read(reader, world.command(key), Consistency::Quorum);
        assert_eq!(rows(&page.expect("two of three")), [(1, key)]);
        world.all_believe(away, true);
        world.simulation.heal();
        world.simulation.run_for(SECOND);
    }
}

#[test]
fn replicas_that_differ_are_reconciled() {
    let mut world = World::new(2, Plan::default());
    let table = world.table();
    world.write_at(0, set(&table, (1, 1), 1, 10));
    world.write_at(0, set(&table, (1, 2), 2, 20));
    world.write_at(0, set(&table, (1, 3), 3, 10));
    world.write_at(1, set(&table, (1, 1), 11, 30));
    world.write_at(1, delete(&table, (1, 2), 15));
    world.write_at(2, delete(&table, (1, 3), 40));
    let mut ranges = update(&table, 1);
    ranges.add_range_tombstone(RangeTombstone {
        slice: Slice {
            start: Bound {
                prefix: clustering(4),
                kind: BoundKind::InclusiveStart,
            },
            end: Bound::TOP,
        },
        deletion: DeletionTime {
            timestamp: 25,
            local_deletion_time: 100,
        },
    });
    world.write_at(1, ranges);
    world.write_at(0, set(&table, (1, 5), 5, 20));
    world.write_at(2, set(&table, (1, 6), 6, 26));
    for node in 0..3 {
        let page = world.read(node, world.command(1), Consistency::All);
        assert_eq!(rows(&page.expect("all are up")), [(1, 11), (2, 2), (6, 6)]);
    }
    let one = world.read(0, world.command(1), Consistency::One);
    let alone = rows(&one.expect("it is here"));
    assert!(
        alone.contains(&(1, 11)) || alone.contains(&(1, 1)),
        "{alone:?}"
    );
}

#[test]
fn rows_that_one_has_deleted_are_made_up_for() {
    let plan = Plan {
        options: model::TableOptions {
            read_repair: "NONE".to_owned(),
            ..Default::default()
        },
        ..Plan::default()
    };
    let mut world = World::new(3, plan);
    let table = world.table();
    for c in 0..50 {
        for node in 0..3 {
            world.write_at(node, set(&table, (1, c), c, 10));
        }
    }
    // Each page of one replica is what another one has deleted.
    for c in 0..20 {
        world.write_at(1, delete(&table, (1, c), 20));
    }
    let mut command = world.command(1);
    command.limits.rows = 5;
    let page = world
        .read(0, command.clone(), Consistency::All)
        .expect("all are up");
    assert_eq!(
        rows(&page),
        [(20, 20), (21, 21), (22, 22), (23, 23), (24, 24)]
    );
    assert!(page.more);
    command.resume = Some(Resume {
        key: decorated(1),
        clustering: Some(clustering(24)),
        remaining_in_partition: u32::MAX,
    });
    let page = world
        .read(2, command.clone(), Consistency::All)
        .expect("all are up");
    assert_eq!(
        rows(&page),
        [(25, 25), (26, 26), (27, 27), (28, 28), (29, 29)]
    );
    command.resume = None;
    command.clustering.reversed = true;
    command.limits.rows = 31;
    let page = world
        .read(2, command, Consistency::All)
        .expect("all are up");
    let expected: Vec<_> = (20..50).rev().map(|c| (c, c)).collect();
    assert_eq!(rows(&page), expected);
}

#[test]
fn filters_are_of_what_all_know() {
    let mut world = World::new(4, Plan::default());
    let table = world.table();
    // `v` is new on one of them, `w` on another.
    world.write_at(0, set(&table, (1, 1), 5, 20));
    world.write_at(1, set(&table, (1, 1), 4, 10));
    let mut other = update(&table, 1);
    other
        .row_mut(&clustering(1))
        .add_cell(cell(3, 6, 20), &table);
    world.write_at(1, other);
    let filter = |column, value| RowFilter {
        column: ColumnId(column),
        operator: FilterOperator::Equal,
        values: vec![int(value)],
    };
    let mut command = world.command(1);
    command.filters = vec![filter(2, 5), filter(3, 6)];
    let page = world
        .read(2, command.clone(), Consistency::All)
        .expect("all are up");
    assert_eq!(rows(&page), [(1, 5)]);
    // Only one of them would say so.
    command.filters = vec![filter(2, 4)];
    let page = world
        .read(2, command, Consistency::All)
        .expect("all are up");
    assert_eq!(rows(&page), []);
}

#[test]
fn a_read_is_refused_where_too_few_are_up() {
    let mut world = World::new(5, Plan::default());
    world.believe_up(0, &[]);
    let refused = world.read(0, world.command(1), Consistency::Quorum);
    let Err(RequestError::Unavailable(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((unavailable.required, unavailable.alive), (2, 1));
    let read = world.read(0, world.command(1), Consistency::LocalOne);
    read.expect("one is here");
}

#[test]
fn a_read_that_too_few_answer_times_out() {
    let mut world = World::new(6, Plan::default());
    world.cut_off(1);
    world.cut_off(2);
    let began = world.simulation.now();
    let late = outcome(world.read(0, world.command(1), Consistency::Quorum));
    let timeout = Outcome::Timeout {
        received: 1,
        block_for: 2,
    };
    assert_eq!(late, (timeout, true));
    let took = world.simulation.now().saturating_duration_since(began);
    assert!((4 * SECOND..6 * SECOND).contains(&took), "{took:?}");
}

#[test]
fn another_replica_is_asked_for_one_that_fails() {
    let mut world = World::new(7, Plan::default());
    let table = world.table();
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::All);
    written.expect("all are up");
    // It is not known to be down, but does not take connections.
    world.crash(1);
    for _ in 0..5 {
        let page = world.read(0, world.command(1), Consistency::Quorum);
        assert_eq!(rows(&page.expect("two of three")), [(1, 1)]);
    }
    let shard = world.shard(0);
    let without = schema(&world.plan, Vec::new());
    let changed = world.run(&shard, |shard| async move {
        shard.store.set_schema(&without).await
    });
    changed.expect("the drive is fine");
    let page = world.read(0, world.command(1), Consistency::One);
    assert_eq!(rows(&page.expect("another has it")), [(1, 1)]);
    let failed = world.read(0, world.command(1), Consistency::Quorum);
    let Err(RequestError::Read {
        outcome,
        failures,
        data_present,
        ..
    }) = failed
    else {
        panic!("{failed:?}");
    };
    let Outcome::Failure { block_for: 2, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(!data_present, "the third is not waited for");
    let own = (
        ([10, 0, 0, 1], 7000).into(),
        FailureReason::IncompatibleSchema,
    );
    assert!(failures.contains(&own), "{failures:?}");
}

#[test]
fn nodes_with_other_columns_understand_each_other() {
    let mut world = World::new(8, Plan::default());
    let table = world.table();
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::All);
    written.expect("all are up");
    // One of them knows a column more already, and has other ids.
    let shard = world.shard(2);
    let mut columns: Vec<model::Column> = table.columns().cloned().collect();
    columns.push(model::Column {
        id: ColumnId(5),
        name: "u".into(),
        ..columns[2].clone()
    });
    let later = Table::new(table.id, "ks", "t", columns, table.options.clone());
    let later = Arc::new(schema(&world.plan, vec![later]));
    let changed = world.run(&shard, |shard| async move {
        let changed = shard.store.set_schema(&later).await;
        let membership = shard.metadata().membership().cloned();
        shard.set_metadata(Metadata::new(later, membership));
        changed
    });
    changed.expect("the drive is fine");
    let written = world.write(0, set(&table, (1, 2), 2, 20), Consistency::All);
    written.expect("all understand it");
    for node in [0, 2] {
        let page = world.read(node, world.command(1), Consistency::All);
        assert_eq!(rows(&page.expect("all understand it")), [(1, 1), (2, 2)]);
    }
    // What one of them does not know it cannot write.
    let later = world
        .shard(2)
        .metadata()
        .schema
        .table("ks", "t")
        .expect("it is there")
        .clone();
    assert_eq!(
        later
            .columns()
            .filter(|c| c.kind == ColumnKind::Regular)
            .count(),
        3
    );
    let mut unknown = update(&later, 1);
    unknown
        .row_mut(&clustering(3))
        .add_cell(cell(5, 3, 30), &later);
    let failed = world.write(2, unknown, Consistency::Quorum);
    let Err(RequestError::Write {
        outcome: Outcome::Failure { received: 1, .. },
        failures,
        ..
    }) = failed
    else {
        panic!("{failed:?}");
    };
    let reasons: Vec<FailureReason> = failures.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [FailureReason::IncompatibleSchema; 2]);
}

#[test]
fn who_knows_less_of_the_cluster_waits_until_it_knows_it() {
    let mut world = World::new(9, Plan::default());
    let table = world.table();
    let later = {
        let metadata = world.shard(0).metadata();
        let mut membership = metadata.membership().expect("it is a member").clone();
        let epoch = membership.cluster.epoch() + 1;
        let entry = cluster::MetadataEntry::Topology(cluster::Transformation::Cancel {
            from: cluster::Phase::Prepared,
        });
        membership.cluster = Arc::new(membership.cluster.apply(epoch, &entry).0);
        (metadata.schema.clone(), membership)
    };
    let learn = |world: &World, node: usize| {
        let shard = world.shard(node);
        let own = cluster::NodeId(node as u32);
        let membership = crate::metadata::Membership {
            own,
            ..later.1.clone()
        };
        shard.set_metadata(Metadata::new(later.0.clone(), Some(membership)));
    };
    learn(&world, 0);
    learn(&world, 1);
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::Quorum);
    written.expect("two know it");
    world.simulation.run_for(Duration::from_millis(100));
    assert_eq!(world.rows_at(2, 1), []);
    learn(&world, 2);
    world.simulation.run_for(Duration::from_millis(100));
    assert_eq!(world.rows_at(2, 1), [(1, 1)]);
}
