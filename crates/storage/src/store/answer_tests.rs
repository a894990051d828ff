//! The store answers as one merged update would, whatever was flushed, compacted, or left to the
//! commit log of a process that ended without a word.

use std::path::PathBuf;
use std::sync::Arc;

use io::Env;
use model::{Mutation, Order, Partition, PartitionUpdate, ReadCommand, Slice, Table};
use proptest::prelude::*;

use super::tests::{command, content, open, undying};
use super::*;
use crate::testing::{Saying, TempDir, living, run, saying, slice, update};
use crate::{ReadError, read_partitions};

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Saying>),
    Flush,
    Compact,
}

fn step(saying: impl Strategy<Value = Saying>) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(saying, 1..5).prop_map(Step::Write),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
    ]
}

/// What the lives of a process do one after the other.
fn lives(saying: impl Strategy<Value = Saying>) -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(saying), 0..12), 1..4)
}

/// What the store answers, and what it should.
async fn answers(
    env: &Env,
    store: &Store,
    all: &PartitionUpdate,
    command: ReadCommand,
) -> Result<(ReadPage, ReadPage), ReadError> {
    let found = store.read(&command).await?;
    let packed = read_packed(store, &command).await?;
    assert_eq!(content(packed), content(found.clone()), "{command:?}");
    let expected = read_partitions(env, &command, vec![Partition::from(all.clone())]).await?;
    Ok((content(found), content(expected)))
}

/// What the store answers to whoever takes rows packed, as rows of the columns that were asked for.
async fn read_packed(store: &Store, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let packed = ReadCommand {
        packed: true,
        ..command.clone()
    };
    let mut page = store.read(&packed).await?;
    for partition in &mut page.partitions {
        assert!(partition.rows.is_empty() || partition.packed.is_empty());
        partition.unpack();
        for row in &mut partition.rows {
            row.retain_columns(&command.columns);
        }
    }
    Ok(page)
}

/// One life of a process: it ends without draining.
async fn live(
    env: Env,
    dir: PathBuf,
    table: Arc<Table>,
    steps: Vec<Step>,
    mut all: PartitionUpdate,
    looked_at: Slice,
) -> PartitionUpdate {
    let store = open(&env, dir, &table).await;
    for step in steps {
        match step {
            Step::Write(sayings) => {
                let written = update(&table, &sayings);
                all.merge(written.clone());
                let updates = vec![written];
                let applied = store.apply(Mutation { updates }).await;
                applied.expect("the write is taken");
            }
            Step::Flush => store.flush(None).await.expect("it can be flushed"),
            Step::Compact => store.compact(table.id).await.expect("it can be compacted"),
        }
    }
    for (slices, reversed) in [
        (vec![Slice::ALL], false),
        (vec![Slice::ALL], true),
        (vec![looked_at], false),
    ] {
        let asked = command(&table, slices, reversed);
        // A row may be there for a column that nobody asks for.
        let nothing = ReadCommand {
            columns: Vec::new(),
            ..asked.clone()
        };
        for asked in [asked, nothing] {
            let (found, expected) = answers(&env, &store, &all, asked).await.expect("it reads");
            assert_eq!(found, expected);
        }
    }
    all
}

/// Any lives, in which such things are written, and what one merged update would answer.
fn law(lives: Vec<Vec<Step>>, looked_at: Slice, descending: bool) {
    let folder = TempDir::new();
    let order = if descending {
        Order::Descending
    } else {
        Order::Ascending
    };
    let table = undying(order);
    let looked_at = match looked_at.is_empty(table.comparator()) {
        true => Slice::ALL,
        false => looked_at,
    };
    let mut all = update(&table, &[]);
    for steps in lives {
        let (dir, table, looked_at) = (folder.0.clone(), table.clone(), looked_at.clone());
        all = run(move |env| live(env, dir, table, steps, all, looked_at));
    }
}

/// Its marker is older than a deletion that another sstable has; the value is not.
#[test]
fn a_row_lives_by_a_column_that_nobody_asks_for() {
    let there = [0, 1];
    let steps = vec![
        Step::Write(vec![Saying::Deleted(there, 5)]),
        Step::Flush,
        Step::Write(vec![Saying::Marked(there, 3), Saying::Written(there, 7, 1)]),
        Step::Flush,
    ];
    law(vec![steps], Slice::ALL, false);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn it_answers_as_one_merged_update(
        lives in lives(saying()),
        looked_at in slice(),
        descending in any::<bool>(),
    ) {
        law(lives, looked_at, descending);
    }

    /// Rows are then plain, or deleted one by one, and lie in several sources.
    #[test]
    fn so_it_does_of_rows_that_live(
        lives in lives(living()),
        looked_at in slice(),
        descending in any::<bool>(),
    ) {
        law(lives, looked_at, descending);
    }
}
