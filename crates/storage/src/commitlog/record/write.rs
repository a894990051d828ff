//! Writing mutations.

use model::{
    Bound, BoundKind, Cell, Clustering, DeletionTime, Mutation, NO_DELETION_TIME, NO_TTL,
    PartitionUpdate, Row, vint,
};

use super::{
    CELL_DELETED, CELL_PATH, CELL_SAME_TIMESTAMP, CELL_TTL, MUTATION, ROW_COMPLEX, ROW_DELETION,
    ROW_LIVENESS, ROW_TTL, UPDATE_DELETION, UPDATE_STATIC, begin_record, end_record,
};

/// Appends the record of `mutation`; `numbers` gives the schema numbers of its updates, in order.
pub(in crate::commitlog) fn write_mutation(
    out: &mut Vec<u8>,
    mutation: &Mutation,
    numbers: &[u32],
) {
    debug_assert_eq!(mutation.updates.len(), numbers.len());
    let body = begin_record(out, MUTATION);
    write_bytes(out, mutation.key().key());
    vint::write_unsigned(out, mutation.updates.len() as u64);
    for (update, number) in mutation.updates.iter().zip(numbers) {
        vint::write_unsigned(out, u64::from(*number));
        write_update(out, update);
    }
    end_record(out, body);
}

fn write_update(out: &mut Vec<u8>, update: &PartitionUpdate) {
    let mut flags = 0;
    if !update.deletion.is_live() {
        flags |= UPDATE_DELETION;
    }
    if update.static_row.is_some() {
        flags |= UPDATE_STATIC;
    }
    out.push(flags);
    let mut last_timestamp = 0;
    if !update.deletion.is_live() {
        write_deletion(out, &update.deletion);
    }
    if let Some(row) = &update.static_row {
        write_row(out, row, &mut last_timestamp);
    }
    vint::write_unsigned(out, update.rows.len() as u64);
    for row in &update.rows {
        write_row(out, row, &mut last_timestamp);
    }
    vint::write_unsigned(out, update.range_tombstones.len() as u64);
    for tombstone in &update.range_tombstones {
        write_bound(out, &tombstone.slice.start);
        write_bound(out, &tombstone.slice.end);
        write_deletion(out, &tombstone.deletion);
    }
}

fn write_row(out: &mut Vec<u8>, row: &Row, last_timestamp: &mut i64) {
    let mut flags = 0;
    if !row.liveness.is_empty() {
        flags |= ROW_LIVENESS;
        if row.liveness.ttl != NO_TTL {
            flags |= ROW_TTL;
        }
    }
    if !row.deletion.is_live() {
        flags |= ROW_DELETION;
    }
    if !row.complex_deletions.is_empty() {
        flags |= ROW_COMPLEX;
    }
    out.push(flags);
    write_clustering(out, &row.clustering);
    if flags & ROW_LIVENESS != 0 {
        out.extend_from_slice(&row.liveness.timestamp.to_le_bytes());
        *last_timestamp = row.liveness.timestamp;
    }
    if flags & ROW_TTL != 0 {
        out.extend_from_slice(&row.liveness.ttl.to_le_bytes());
        out.extend_from_slice(&row.liveness.expires_at.to_le_bytes());
    }
    if flags & ROW_DELETION != 0 {
        write_deletion(out, &row.deletion);
    }
    if flags & ROW_COMPLEX != 0 {
        vint::write_unsigned(out, row.complex_deletions.len() as u64);
        for complex in &row.complex_deletions {
            vint::write_unsigned(out, u64::from(complex.column.0));
            write_deletion(out, &complex.deletion);
        }
    }
    vint::write_unsigned(out, row.cells.len() as u64);
    for cell in &row.cells {
        write_cell(out, cell, last_timestamp);
    }
}

fn write_cell(out: &mut Vec<u8>, cell: &Cell, last_timestamp: &mut i64) {
    let mut flags = 0;
    if cell.path.is_some() {
        flags |= CELL_PATH;
    }
    if cell.ttl != NO_TTL {
        flags |= CELL_TTL;
    } else if cell.local_deletion_time != NO_DELETION_TIME {
        flags |= CELL_DELETED;
    }
    if cell.timestamp == *last_timestamp {
        flags |= CELL_SAME_TIMESTAMP;
    }
    out.push(flags);
    vint::write_unsigned(out, u64::from(cell.column.0));
    if flags & CELL_SAME_TIMESTAMP == 0 {
        out.extend_from_slice(&cell.timestamp.to_le_bytes());
        *last_timestamp = cell.timestamp;
    }
    if flags & CELL_TTL != 0 {
        out.extend_from_slice(&cell.ttl.to_le_bytes());
    }
    if flags & (CELL_TTL | CELL_DELETED) != 0 {
        out.extend_from_slice(&cell.local_deletion_time.to_le_bytes());
    }
    if let Some(path) = &cell.path {
        write_bytes(out, path);
    }
    write_bytes(out, &cell.value);
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn write_clustering(out: &mut Vec<u8>, clustering: &Clustering) {
    vint::write_unsigned(out, clustering.0.len() as u64);
    for value in &clustering.0 {
        write_bytes(out, value);
    }
}

fn write_bound(out: &mut Vec<u8>, bound: &Bound) {
    out.push(match bound.kind {
        BoundKind::InclusiveStart => 0,
        BoundKind::ExclusiveStart => 1,
        BoundKind::InclusiveEnd => 2,
        BoundKind::ExclusiveEnd => 3,
    });
    write_clustering(out, &bound.prefix);
}

fn write_deletion(out: &mut Vec<u8>, deletion: &DeletionTime) {
    out.extend_from_slice(&deletion.timestamp.to_le_bytes());
    out.extend_from_slice(&deletion.local_deletion_time.to_le_bytes());
}
