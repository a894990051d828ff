//! What a node has of a table that another one has not any more, to be deleted: a snapshot says what
//! there is and not what there was.

use model::{Cell, DeletionTime, Mutation, NO_TTL, PartitionUpdate, Row};

/// Deletes what `own` has and `arriving` has not, as of `timestamp` (microseconds since 1970), which
/// all that was ever written is not later than. `None`: there is nothing.
pub(super) fn deletion(
    own: &PartitionUpdate,
    arriving: &[PartitionUpdate],
    timestamp: i64,
) -> Option<Mutation> {
    let deletion = DeletionTime {
        timestamp,
        local_deletion_time: u32::try_from(timestamp / 1_000_000).unwrap_or(0),
    };
    let mut update = PartitionUpdate::new(own.table.clone(), own.key.clone());
    let same = |other: &&PartitionUpdate| other.table.id == own.table.id && other.key == own.key;
    match arriving.iter().find(same) {
        None => update.deletion = deletion,
        Some(now) => {
            for row in &own.rows {
                let kept = now
                    .rows
                    .iter()
                    .find(|other| other.clustering == row.clustering);
                delete_from_row(&mut update, row, kept, deletion);
            }
        }
    }
    (!update.is_empty()).then(|| Mutation {
        updates: vec![update],
    })
}

fn delete_from_row(
    update: &mut PartitionUpdate,
    row: &Row,
    kept: Option<&Row>,
    deletion: DeletionTime,
) {
    let Some(kept) = kept else {
        update.row_mut(&row.clustering).deletion = deletion;
        return;
    };
    let table = update.table.clone();
    let is_kept = |cell: &Cell| {
        let mut cells = kept.cells_of(cell.column).iter();
        cells.any(|other| other.path == cell.path)
    };
    for cell in row.cells.iter().filter(|cell| !is_kept(cell)) {
        let tombstone = Cell {
            timestamp: deletion.timestamp,
            ttl: NO_TTL,
            local_deletion_time: deletion.local_deletion_time,
            value: bytes::Bytes::new(),
            ..cell.clone()
        };
        update.row_mut(&row.clustering).add_cell(tombstone, &table);
    }
}
