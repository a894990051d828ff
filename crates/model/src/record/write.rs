//! Writing what is known of a partition.

use super::{
    CELL_DELETED, CELL_PATH, CELL_SAME_TIMESTAMP, CELL_TTL, CONTENT_DELETION, CONTENT_STATIC,
    ContentRef, ROW_COMPLEX, ROW_DELETION, ROW_LIVENESS, ROW_TTL, WriteColumns,
};
use crate::{
    Bound, BoundKind, Cell, Clustering, ComplexDeletion, DeletionTime, NO_DELETION_TIME, NO_TTL,
    Row, vint,
};

/// Appends what is known of a partition.
pub fn write_content(out: &mut Vec<u8>, content: ContentRef<'_>, columns: &impl WriteColumns) {
    let mut flags = 0;
    if !content.deletion.is_live() {
        flags |= CONTENT_DELETION;
    }
    if content.static_row.is_some() {
        flags |= CONTENT_STATIC;
    }
    out.push(flags);
    let mut last_timestamp = 0;
    if !content.deletion.is_live() {
        write_deletion(out, &content.deletion);
    }
    if let Some(row) = content.static_row {
        write_row(out, row, &mut last_timestamp, columns);
    }
    vint::write_unsigned(out, content.rows.len() as u64);
    for row in content.rows {
        write_row(out, row, &mut last_timestamp, columns);
    }
    vint::write_unsigned(out, content.range_tombstones.len() as u64);
    for tombstone in content.range_tombstones {
        write_bound(out, &tombstone.slice.start);
        write_bound(out, &tombstone.slice.end);
        write_deletion(out, &tombstone.deletion);
    }
}

fn write_row(out: &mut Vec<u8>, row: &Row, last_timestamp: &mut i64, columns: &impl WriteColumns) {
    if columns.keep_order() {
        let number = |column| columns.number(column).unwrap_or(u32::MAX);
        let complex = row.complex_deletions.iter();
        let complex = complex.map(|complex| (number(complex.column), complex));
        let cells = row.cells.iter().map(|cell| (number(cell.column), cell));
        return write_row_of(out, row, last_timestamp, (complex, cells));
    }
    let complex = row.complex_deletions.iter();
    let complex = complex.filter_map(|c| Some((columns.number(c.column)?, c)));
    let mut complex: Vec<(u32, &ComplexDeletion)> = complex.collect();
    complex.sort_by_key(|(number, _)| *number);
    let cells = row.cells.iter();
    let cells = cells.filter_map(|cell| Some((columns.number(cell.column)?, cell)));
    let mut cells: Vec<(u32, &Cell)> = cells.collect();
    // Those of one column stay in their order.
    cells.sort_by_key(|(number, _)| *number);
    write_row_of(
        out,
        row,
        last_timestamp,
        (complex.into_iter(), cells.into_iter()),
    );
}

fn write_row_of<'r>(
    out: &mut Vec<u8>,
    row: &Row,
    last_timestamp: &mut i64,
    (complex, cells): (
        impl ExactSizeIterator<Item = (u32, &'r ComplexDeletion)>,
        impl ExactSizeIterator<Item = (u32, &'r Cell)>,
    ),
) {
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
    if complex.len() > 0 {
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
        vint::write_unsigned(out, complex.len() as u64);
        for (number, complex) in complex {
            vint::write_unsigned(out, u64::from(number));
            write_deletion(out, &complex.deletion);
        }
    }
    vint::write_unsigned(out, cells.len() as u64);
    for (number, cell) in cells {
        write_cell(out, (number, cell), last_timestamp);
    }
}

fn write_cell(out: &mut Vec<u8>, (number, cell): (u32, &Cell), last_timestamp: &mut i64) {
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
    vint::write_unsigned(out, u64::from(number));
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

/// Appends a length and so many bytes.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn write_clustering(out: &mut Vec<u8>, clustering: &Clustering) {
    vint::write_unsigned(out, clustering.0.len() as u64);
    for value in &clustering.0 {
        write_bytes(out, value);
    }
}

pub(super) fn write_bound(out: &mut Vec<u8>, bound: &Bound) {
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
