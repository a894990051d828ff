//! What a shard knows of rows, dead and alive, before they are written.

use std::sync::Arc;

use model::{
    Bound, BoundKind, ClusteringSelection, DataLimits, DecoratedKey, Partition, PartitionSelection,
    ReadCommand, Slice, Table,
};
use storage::{ReadError, WriteError};

use crate::shard::Shard;

/// How many bytes of rows are read at once.
pub(super) const KNOWN_BYTES: u32 = 1 << 20;

/// A read of all that is known: what has expired or may be forgotten, too.
pub(super) fn command(
    table: &Arc<Table>,
    partitions: PartitionSelection,
    slices: Vec<Slice>,
) -> ReadCommand {
    ReadCommand {
        columns: table.regular_ids(),
        partitions,
        clustering: ClusteringSelection {
            slices,
            reversed: false,
        },
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: KNOWN_BYTES,
        },
        now_seconds: 0,
        resume: None,
        bypass_cache: false,
        packed: false,
        table: table.clone(),
    }
}

/// What this shard knows of these slices of a partition, from their beginning; and up to where that is all, if
/// not to the end.
pub(super) async fn rows_of(
    shard: &Shard,
    table: &Arc<Table>,
    key: &DecoratedKey,
    slices: Vec<Slice>,
) -> Result<(Partition, Option<Bound>), ReadError> {
    let partition = PartitionSelection::Key(key.clone());
    let command = command(table, partition, slices);
    let mut page = shard.store.read_versions(&command).await?;
    Ok(match page.partitions.pop() {
        Some(version) => (version.partition, version.end),
        None => (nothing(key), None),
    })
}

fn nothing(key: &DecoratedKey) -> Partition {
    Partition {
        key: key.clone(),
        deletion: model::DeletionTime::LIVE,
        static_row: None,
        rows: Vec::new(),
        packed: Vec::new(),
        range_tombstones: Vec::new(),
    }
}

/// What of slices lies at a place or behind it.
pub(super) fn slices_from(table: &Table, slices: &[Slice], place: &Bound) -> Vec<Slice> {
    let comparator = table.comparator();
    let start = Bound {
        prefix: place.prefix.clone(),
        kind: match place.kind {
            BoundKind::InclusiveEnd | BoundKind::ExclusiveStart => BoundKind::ExclusiveStart,
            BoundKind::InclusiveStart | BoundKind::ExclusiveEnd => BoundKind::InclusiveStart,
        },
    };
    let behind = slices.iter().map(|slice| {
        let starts_before = comparator.compare_bounds(&slice.start, &start).is_lt();
        Slice {
            start: if starts_before {
                start.clone()
            } else {
                slice.start.clone()
            },
            end: slice.end.clone(),
        }
    });
    behind.filter(|slice| !slice.is_empty(comparator)).collect()
}

/// A write is not applied where it is not known what it changes.
pub(super) fn unread(error: ReadError) -> WriteError {
    match error {
        ReadError::Closed => WriteError::Closed,
        ReadError::UnknownTable(table) => WriteError::UnknownTable(table),
        error => WriteError::Unread(error.to_string().into()),
    }
}
