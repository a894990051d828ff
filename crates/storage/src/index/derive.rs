//! The entries that an update of a table makes.

use bytes::Bytes;
use model::{
    Cell, Clustering, ColumnKind, DecoratedKey, Indexed, Liveness, NO_TIMESTAMP, PartitionUpdate,
    Row, collection,
};

use super::{IndexDefinition, LONGEST_VALUE, prefix_of};

impl IndexDefinition {
    /// The entries of what an update writes; `None` if there are none. Deletions make none: what they
    /// leave behind is found to be stale.
    pub(crate) fn entries_of(&self, update: &PartitionUpdate) -> Option<PartitionUpdate> {
        let mut entries = PartitionUpdate::new(self.entries.clone(), IndexDefinition::partition());
        let mut add = Entries {
            key: &update.key,
            entries: &mut entries,
        };
        let column = &self.column;
        match column.kind {
            ColumnKind::Static => {
                let rows = update.static_row.iter();
                let cells = rows.flat_map(|row| row.cells_of(column.id));
                cells.for_each(|cell| self.add_cell(&mut add, None, cell));
            }
            ColumnKind::Regular => {
                for row in &update.rows {
                    let cells = row.cells_of(column.id).iter();
                    cells.for_each(|cell| self.add_cell(&mut add, Some(&row.clustering), cell));
                }
            }
            ColumnKind::Clustering => {
                for row in &update.rows {
                    let value = row.clustering.0.get(column.position);
                    if let (Some(value), Some(time)) = (value, latest_of(row)) {
                        for term in self.terms(value) {
                            add.add(&term, Some(&row.clustering), &[], lasting(time));
                        }
                    }
                }
            }
            ColumnKind::PartitionKey => {
                let rows = update.static_row.iter().chain(&update.rows);
                let time = rows.filter_map(latest_of).max();
                let value = self.of_key(&update.key);
                if let (Some(value), Some(time)) = (value, time) {
                    for term in self.terms(&value) {
                        add.add(&term, None, &[], lasting(time));
                    }
                }
            }
        }
        (!entries.rows.is_empty()).then_some(entries)
    }

    fn of_key(&self, key: &DecoratedKey) -> Option<Bytes> {
        // An index is on one of several columns: that of a single one is refused.
        let mut rest = &key.key()[..];
        for _ in 0..self.column.position {
            let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
            rest = rest.get(3 + length..)?;
        }
        let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        Some(key.key().slice_ref(rest.get(2..2 + length)?))
    }

    fn add_cell(&self, add: &mut Entries<'_>, row: Option<&Clustering>, cell: &Cell) {
        if cell.is_tombstone() {
            return;
        }
        let liveness = Liveness {
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            expires_at: cell.local_deletion_time,
        };
        let path = cell.path.as_ref();
        let value = match self.index.part_of(&self.column, cell) {
            Some(Indexed::Value(value)) => value.clone(),
            Some(Indexed::Entry(key, value)) => {
                collection::pack_entries([(key.as_ref(), value.as_ref())]).into()
            }
            None => return,
        };
        for term in self.terms(&value) {
            add.add(&term, row, path.map_or(&[], |path| path), liveness);
        }
    }
}

/// When anything of a row was written last, unless nothing is.
fn latest_of(row: &Row) -> Option<i64> {
    let cells = row.cells.iter().filter(|cell| !cell.is_tombstone());
    let cells = cells.map(|cell| cell.timestamp);
    let marker = Some(row.liveness.timestamp).filter(|time| *time != NO_TIMESTAMP);
    cells.chain(marker).max()
}

/// Of what lives until it is deleted.
fn lasting(timestamp: i64) -> Liveness {
    Liveness {
        timestamp,
        ..Liveness::NONE
    }
}

/// The entries of one partition, as they are found.
struct Entries<'e> {
    key: &'e DecoratedKey,
    entries: &'e mut PartitionUpdate,
}

impl Entries<'_> {
    fn add(&mut self, value: &Bytes, row: Option<&Clustering>, path: &[u8], liveness: Liveness) {
        if value.len() > LONGEST_VALUE {
            return;
        }
        let mut clustering = prefix_of(value, self.key);
        clustering.extend(row.iter().flat_map(|row| row.0.iter().cloned()));
        clustering.push(Bytes::copy_from_slice(path));
        let entry = self.entries.row_mut(&Clustering(clustering));
        if entry.liveness.is_empty() || entry.liveness.timestamp < liveness.timestamp {
            entry.liveness = liveness;
        }
    }
}
