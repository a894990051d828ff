//! A row laid out in one piece of memory.
//!
//! ```text
//! flags        1 byte: what of the following there is
//! values at    4 bytes: where the values begin
//! clustering   number of values, then length and bytes of each
//! base         8 bytes: a timestamp; those that follow are differences from it
//! liveness     timestamp, and of a marker that expires: ttl, 4 bytes of expiry
//! deletion     timestamp, 4 bytes of local deletion time
//! complex      number of deletions, then column, timestamp, 4 bytes of local deletion time of each
//! cells        4 bytes: how many
//! a cell       column, flags, timestamp, ttl, 4 bytes of local deletion time, length and bytes of
//!              the path, length of the value; flags say what is left out
//! values       the bytes of the values of all cells
//! ```
//!
//! Numbers without a size are [`model::vint`]s. Most cells of a row are as old as its marker, so a cell
//! takes four bytes beside its value. Values stand behind everything else, so that who goes along
//! the cells does not touch them. Nothing of this leaves the process.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use model::{Cell, Clustering, CqlType, Row, Table, compare_cell_refs, vint};

use super::allocated::{COUNTS, allocated};
use read::{ClusteringValues, Parts};
pub(super) use write::most_len;
use write::{RowWriter, base_of, put_bytes};

/// A row of this module's layout. Readers share its memory, whole or value by value.
#[derive(Clone, Debug)]
pub(super) struct PackedRow(Arc<[u8]>);

const LIVENESS: u8 = 1;
const EXPIRING: u8 = 2;
const DELETION: u8 = 4;
const COMPLEX: u8 = 8;

/// Behind flags and the place of the values.
const CLUSTERING_AT: usize = 5;

const CELL_PATH: u8 = 1;
const CELL_TTL: u8 = 2;
const CELL_DELETION_TIME: u8 = 4;
const CELL_VALUE: u8 = 8;

impl PackedRow {
    /// Lays out a row of less than 4 GiB; `scratch` is memory to do it in.
    pub(super) fn new(row: &Row, scratch: &mut Vec<u8>) -> PackedRow {
        let base = base_of(row);
        let mut writer = RowWriter::new(scratch, row, base, |out| {
            vint::write_unsigned(out, row.clustering.0.len() as u64);
            row.clustering
                .values()
                .for_each(|value| put_bytes(out, value));
        });
        row.cells
            .iter()
            .for_each(|cell| writer.put(&cell.borrowed()));
        PackedRow(writer.finish())
    }

    /// Takes in another version of the row, as [`Row::merge`] does. Gives it back if that takes
    /// more than one pass over both, as counters do, which add up.
    pub(super) fn merge(
        &mut self,
        mut other: Row,
        table: &Table,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Row> {
        let counts = |cell: &Cell| {
            let column = table.column(cell.column);
            column.is_some_and(|column| column.ty == CqlType::Counter)
        };
        if other.cells.iter().any(counts) {
            return Err(other);
        }
        let mut known = self.read();
        let theirs = std::mem::take(&mut other.cells);
        let mut head = std::mem::replace(&mut known.head, Row::new(Clustering::EMPTY));
        head.merge(other, table);
        let base = match head.liveness.is_empty() {
            true => known.base,
            false => head.liveness.timestamp,
        };
        let mut writer = RowWriter::new(scratch, &head, base, |out| {
            out.extend_from_slice(known.clustering);
        });
        let mut theirs = theirs.iter().map(Cell::borrowed).peekable();
        for ours in known {
            let mut stays = ours;
            while let Some(cell) = theirs.peek() {
                match compare_cell_refs(table, cell, &ours) {
                    Ordering::Less => writer.put_unless_deleted(cell, &head),
                    Ordering::Equal if cell.wins_over(&ours) => stays = *cell,
                    Ordering::Equal => {}
                    Ordering::Greater => break,
                }
                theirs.next();
            }
            writer.put_unless_deleted(&stays, &head);
        }
        theirs.for_each(|cell| writer.put_unless_deleted(&cell, &head));
        let merged = writer.finish();
        self.0 = merged;
        Ok(())
    }

    /// The row. Its values share the memory of this one.
    pub(super) fn unpack(&self) -> Row {
        let shared = Bytes::from_owner(Shared(self.0.clone()));
        // All that is read lies in the memory of `shared`.
        let part = |bytes: &[u8]| match bytes {
            [] => Bytes::new(),
            _ => shared.slice_ref(bytes),
        };
        let mut parts = self.read();
        let mut row = std::mem::replace(&mut parts.head, Row::new(Clustering::EMPTY));
        row.clustering.0.extend(self.clustering().map(part));
        row.cells = Vec::with_capacity(parts.cells_left());
        for cell in parts {
            row.cells.push(Cell {
                column: cell.column,
                path: cell.path.map(part),
                timestamp: cell.timestamp,
                ttl: cell.ttl,
                local_deletion_time: cell.local_deletion_time,
                value: part(cell.value),
            });
        }
        row
    }

    /// The values of the clustering.
    pub(super) fn clustering(&self) -> ClusteringValues<'_> {
        ClusteringValues::of(&self.0)
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        allocated(COUNTS + self.0.len())
    }

    /// Bytes of its layout.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many cells it has.
    pub(super) fn cells(&self) -> usize {
        self.read().cells_left()
    }

    fn read(&self) -> Parts<'_> {
        Parts::of(&self.0)
    }
}

/// What values that are read keep alive.
struct Shared(Arc<[u8]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
