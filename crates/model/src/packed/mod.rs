//! A row laid out in one piece of memory: how memtables keep rows, and how pages of them go to clients.
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
//! the cells does not touch them. Nothing of this leaves the process but to its own commit log, from
//! where [`crate::record::read_packed_row`] reads it.

mod head;
mod read;
mod write;

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Cell, CellRef, Clustering, ColumnId, CqlType, EXPIRED_TTL, Liveness, NO_DELETION_TIME, NO_TTL,
    Row, Table, compare_cell_refs,
};
use head::{Head, HeadRef};
use read::Parts;
pub use read::{PackedClustering, PackedValues};
pub use write::{RowWriter, most_packed_len};
use write::{base_of, put_clustering};

/// A row of this module's layout. Readers share its memory, whole or value by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedRow(Arc<[u8]>);

pub(crate) const LIVENESS: u8 = 1;
pub(crate) const EXPIRING: u8 = 2;
pub(crate) const DELETION: u8 = 4;
pub(crate) const COMPLEX: u8 = 8;
pub(crate) const PLAIN: u8 = 16;
/// As plain as that, as long as nothing of it has expired.
pub(crate) const FADING: u8 = 32;

/// Behind flags and the place of the values.
const CLUSTERING_AT: usize = 5;

pub(crate) const CELL_PATH: u8 = 1;
pub(crate) const CELL_TTL: u8 = 2;
pub(crate) const CELL_DELETION_TIME: u8 = 4;
pub(crate) const CELL_VALUE: u8 = 8;

/// Rows up to this many bytes of values are laid out in one piece, and anew with every write.
const SMALL: usize = 8 << 10;

/// So are those whose cells are shorter than this in the mean: going along them costs as much as
/// copying them. Of others a write should not copy the rest.
const SHORT: usize = 512;

/// What is larger than this has no room in the layout.
const MOST: usize = 1 << 30;

impl PackedRow {
    /// Should a row with so many bytes of values in so many cells lie in one piece, where it may be written to?
    pub fn suits(bytes: usize, cells: usize) -> bool {
        bytes <= SMALL
            || bytes <= SHORT.saturating_mul(cells) && bytes.saturating_add(32 * cells) <= MOST
    }

    /// Would cells of so many bytes of values each be short enough for [`PackedRow::suits`] by far, however many there
    /// are?
    pub fn suits_by_far(bytes: usize, cells: usize) -> bool {
        bytes < SHORT / 2 * cells.max(1)
    }

    /// Lays out a row of less than 4 GiB; `scratch` is memory to do it in.
    pub fn new(row: &Row, scratch: &mut Vec<u8>) -> PackedRow {
        let base = base_of(row);
        let values = row.clustering.values();
        let writer = RowWriter::new(scratch, row.into(), base, |out| put_clustering(out, values));
        let mut writer = writer.with_capacity(row.cells.len());
        row.cells
            .iter()
            .for_each(|cell| writer.put(&cell.borrowed()));
        writer.into_row()
    }

    /// Lays out a row cell by cell: one that nothing deletes, with its marker, or [`Liveness::NONE`]. `base` is a
    /// timestamp that is like those of its cells; `scratch` is memory to do it in.
    pub fn writer<'o, 'v>(
        clustering: impl ExactSizeIterator<Item = &'v [u8]>,
        marker: Liveness,
        base: i64,
        scratch: &'o mut Vec<u8>,
    ) -> RowWriter<'o, 'v> {
        let head = Head::of_marker(marker);
        RowWriter::new(scratch, head.borrowed(), base, |out| {
            put_clustering(out, clustering);
        })
    }

    /// Takes in another version of the row, as [`Row::merge`] does. Gives it back if that takes
    /// more than one pass over both, as counters do, which add up.
    pub fn merge(
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
        let cells = std::mem::take(&mut other.cells);
        let mut known = self.read();
        known.head.merge(HeadRef::from(&other));
        *self = merge_cells(known, cells.iter().map(Cell::borrowed), table, scratch);
        Ok(())
    }

    /// As [`PackedRow::merge`], of one that is laid out, and has no counters and no cells that its own deletions cover.
    pub fn merge_packed(&mut self, other: PackedRow, table: &Table, scratch: &mut Vec<u8>) {
        let (mut known, theirs) = (self.read(), other.read());
        known.head.merge(theirs.head.borrowed());
        *self = match is_covered(&known, &theirs, table) {
            true => other,
            false => merge_cells(known, theirs.cells, table, scratch),
        };
    }

    /// Lays out a row cell by cell: one of which `head` has all but the cells, none of which its deletions cover.
    /// `base` and `scratch` are as in [`PackedRow::writer`].
    pub fn writer_below<'o, 'v>(
        head: &Row,
        base: i64,
        scratch: &'o mut Vec<u8>,
    ) -> RowWriter<'o, 'v> {
        debug_assert!(head.cells.is_empty());
        let clustering = head.clustering.values();
        RowWriter::new(scratch, head.into(), base, |out| {
            put_clustering(out, clustering);
        })
    }

    /// The row. Its values share the memory of this one.
    pub fn unpack(&self) -> Row {
        let shared = Bytes::from_owner(Shared(self.0.clone()));
        // All that is read lies in the memory of `shared`.
        let part = |bytes: &[u8]| match bytes {
            [] => Bytes::new(),
            _ => shared.slice_ref(bytes),
        };
        let mut row = self.head();
        row.clustering.0.extend(self.clustering().map(part));
        let cells = self.read().cells;
        row.cells = Vec::with_capacity(cells.left());
        for cell in cells {
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
    pub fn clustering(&self) -> PackedClustering<'_> {
        PackedClustering::of(&self.0)
    }

    /// The clustering, copied.
    pub fn to_clustering(&self) -> Clustering {
        Clustering(self.clustering().map(Bytes::copy_from_slice).collect())
    }

    /// Does it say no more than that it is there, and what it has in columns of one cell each: are there no deletions
    /// and nothing that expires? Whoever reads it then, sees all of it.
    pub fn is_plain(&self) -> bool {
        self.0[0] & PLAIN != 0
    }

    /// Is it as plain as that until something of it expires ([`PackedRow::plain_until`])?
    pub fn is_plain_for_a_time(&self) -> bool {
        self.0[0] & (PLAIN | FADING) != 0
    }

    /// Is all of it to be seen, and nothing deleted, so many seconds after 1970?
    pub fn is_plain_at(&self, now_seconds: u32) -> bool {
        self.is_plain() || self.is_plain_for_a_time() && now_seconds < self.plain_until()
    }

    /// Up to which second since 1970, that one left out, all of a row that is plain for a time is to be seen;
    /// [`NO_DELETION_TIME`] if nothing of it expires.
    pub fn plain_until(&self) -> u32 {
        debug_assert!(self.is_plain_for_a_time());
        if self.is_plain() {
            return NO_DELETION_TIME;
        }
        let Parts { head, cells, .. } = self.read();
        let marker = match head.liveness.ttl {
            NO_TTL => NO_DELETION_TIME,
            EXPIRED_TTL => 0,
            _ => head.liveness.expires_at,
        };
        let cells = cells.map(|cell| cell.local_deletion_time);
        cells.fold(marker, u32::min)
    }

    /// Has it no marker, no deletion, and no cell?
    pub fn says_nothing(&self) -> bool {
        self.0[0] & (LIVENESS | DELETION | COMPLEX) == 0 && self.cells() == 0
    }

    /// Its marker.
    pub fn marker(&self) -> Liveness {
        self.read().head.liveness
    }

    /// The row without its cells, and these, in their order.
    pub fn head_and_cells(&self) -> (Row, impl Iterator<Item = CellRef<'_>> + Clone) {
        let Parts { head, cells, .. } = self.read();
        (head.into_row(self.to_clustering()), cells)
    }

    /// The columns that it has something in, and what: an empty value may be one, or none. The cells of a collection
    /// come one by one.
    pub fn values(&self) -> PackedValues<'_> {
        self.clustering().then_values()
    }

    /// The cells, in their order.
    pub fn cell_refs(&self) -> impl Iterator<Item = CellRef<'_>> {
        self.read().cells
    }

    /// About as [`Row::answer_bytes`], of the columns that are `wanted`; of all of them it is [`PackedRow::len`].
    pub fn answer_bytes(&self, wanted: impl Fn(ColumnId) -> bool) -> u64 {
        let clustering: usize = self.clustering().map(|value| value.len() + 4).sum();
        let cells = self.values().filter(|(column, _)| wanted(*column));
        let cells: usize = cells.map(|(_, value)| 16 + value.len()).sum();
        (16 + clustering + cells) as u64
    }

    /// Bytes of its layout: never none.
    #[expect(
        clippy::len_without_is_empty,
        reason = "no row is laid out in no bytes"
    )]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The memory that it lies in.
    pub fn memory(&self) -> &[u8] {
        &self.0
    }

    /// How many cells it has.
    pub fn cells(&self) -> usize {
        self.values().left()
    }

    /// All but its clustering and its cells.
    pub fn head(&self) -> Row {
        self.read().head.into_row(Clustering::EMPTY)
    }

    /// Is it a row that should lie in one piece where it may be written to ([`PackedRow::suits`])?
    pub fn suits_whole(&self) -> bool {
        let mut behind_flags = &self.0[1..];
        let values_at = u32::from_be_bytes(read::fixed(&mut behind_flags)) as usize;
        let bytes = self.0.len() - values_at;
        PackedRow::suits(bytes, 0) || PackedRow::suits(bytes, self.cells())
    }

    fn read(&self) -> Parts<'_> {
        Parts::of(&self.0)
    }
}

/// The version of a row of which `known` has the merged head and the clustering, with the cells of both.
fn merge_cells<'v>(
    known: Parts<'v>,
    theirs: impl Iterator<Item = CellRef<'v>>,
    table: &Table,
    scratch: &mut Vec<u8>,
) -> PackedRow {
    let head = known.head;
    let base = match head.liveness.is_empty() {
        true => known.base,
        false => head.liveness.timestamp,
    };
    let mut writer = RowWriter::new(scratch, head.borrowed(), base, |out| {
        out.extend_from_slice(known.clustering);
    });
    let mut theirs = theirs.peekable();
    for ours in known.cells {
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
    writer.into_row()
}

/// Is all that `known` says, of which the head is merged already, said again by another version of its row, or deleted?
/// Mostly that is seen by its first cell.
fn is_covered(known: &Parts<'_>, theirs: &Parts<'_>, table: &Table) -> bool {
    // Values that are the same in order may be others in bytes.
    if known.head != theirs.head || known.clustering != theirs.clustering {
        return false;
    }
    let (mut known_cells, mut theirs) = (known.cells.clone(), theirs.cells.clone());
    known_cells.all(|ours| {
        let place = |cell: &CellRef<'_>| compare_cell_refs(table, cell, &ours);
        let covers = |cell: CellRef<'_>| place(&cell).is_eq() && !ours.wins_over(&cell);
        known.head.deletes(&ours) || theirs.find(|cell| place(cell).is_ge()).is_some_and(covers)
    })
}

/// What values that are read keep alive.
struct Shared(Arc<[u8]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
