//! Reads of the partition, held against what was written.

use std::sync::Arc;

use io::Env;
use model::{
    ClusteringSelection, DataLimits, PartitionSelection, ReadCommand, Resume, Row, Slice, Table,
};
use storage::Store;

use crate::content::{self, S, V};

/// Rows of a page, and bytes at which it ends.
const PAGE_ROWS: u32 = 5000;
const PAGE_BYTES: u32 = 1 << 20;

/// Which rows to read.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) slices: Vec<Slice>,
    pub(crate) reversed: bool,
    /// No more rows than this.
    pub(crate) limit: u64,
    /// With their values, or only counted?
    pub(crate) values: bool,
}

impl Wanted {
    /// All rows of these slices.
    pub(crate) fn of(slices: Vec<Slice>) -> Wanted {
        Wanted {
            slices,
            reversed: false,
            limit: u64::MAX,
            values: true,
        }
    }

    pub(crate) fn reversed(self) -> Wanted {
        Wanted {
            reversed: true,
            ..self
        }
    }

    pub(crate) fn limit(self, limit: u64) -> Wanted {
        Wanted { limit, ..self }
    }

    pub(crate) fn counted(self) -> Wanted {
        Wanted {
            values: false,
            ..self
        }
    }

    fn command(&self, table: &Arc<Table>, resume: Option<Resume>, left: u64) -> ReadCommand {
        ReadCommand {
            table: table.clone(),
            partitions: PartitionSelection::Key(content::key()),
            clustering: ClusteringSelection {
                slices: self.slices.clone(),
                reversed: self.reversed,
            },
            columns: if self.values { vec![V] } else { Vec::new() },
            filters: Vec::new(),
            limits: DataLimits {
                rows: u32::try_from(left).unwrap_or(u32::MAX).min(PAGE_ROWS),
                rows_per_partition: u32::MAX,
                bytes: PAGE_BYTES,
            },
            now_seconds: 1,
            resume,
            bypass_cache: false,
            packed: false,
        }
    }
}

/// Pages through what is wanted and compares each row with the next of `expected`. Gives how many
/// there were.
pub(crate) async fn check(
    store: &Store,
    env: &Env,
    table: &Arc<Table>,
    wanted: &Wanted,
    mut expected: impl Iterator<Item = u64>,
) -> u64 {
    let mut count = 0;
    let mut resume = None;
    loop {
        let command = wanted.command(table, resume.take(), wanted.limit - count);
        let page = store.read(&command).await.expect("it can be read");
        let rows = page.partitions.first().map_or(&[][..], |p| &p.rows);
        for row in rows {
            let number = expected.next().expect("no row more than expected");
            check_row(row, number, wanted.values);
            env.maybe_yield().await;
        }
        count += rows.len() as u64;
        let last = rows.last().map(|row| row.clustering.clone());
        if !page.more || count >= wanted.limit {
            break;
        }
        resume = Some(Resume {
            key: content::key(),
            clustering: Some(last.expect("a page that is not the last one has rows")),
            remaining_in_partition: u32::MAX,
        });
    }
    let rest = expected.next();
    assert!(
        count >= wanted.limit || rest.is_none(),
        "row {rest:?} is missing"
    );
    count
}

fn check_row(row: &Row, number: u64, values: bool) {
    assert_eq!(content::number(&row.clustering), number, "another row");
    if values {
        let version = content::version(number).expect("what is expected is there");
        let value = row.cells.first().map(|cell| &cell.value);
        let right = content::value(number, version);
        assert!(value == Some(&right), "row {number} has another value");
    }
}

/// Reads nothing but the static row.
pub(crate) async fn check_static(store: &Store, table: &Arc<Table>) {
    let wanted = Wanted::of(Vec::new());
    let command = ReadCommand {
        columns: vec![S],
        ..wanted.command(table, None, 1)
    };
    let page = store.read(&command).await.expect("it can be read");
    let row = page.partitions.first().and_then(|p| p.static_row.as_ref());
    let value = row
        .and_then(|row| row.cells.first())
        .map(|cell| &cell.value);
    assert_eq!(value, Some(&content::static_value()), "the static row");
}
