//! Values that no sstable can hold: they are not as long as all values of their type are, or longer
//! than what their length is written in.
//!
//! Whoever has one must not let it into a memtable, as no flush could ever write that. What a commit
//! log holds of them (of a Helenus that did not look, or of another's) is left out when it is
//! replayed: no client could read such a value as what it is meant to be, Cassandra refuses it when
//! it is written, and a log that is kept for its sake would grow without end.

use model::{
    Cell, Clustering, ColumnId, DecoratedKey, PartitionUpdate, Row, RowUpdate, Slice, Table,
};

use super::encode::{EncodeError, MAX_CLUSTERING_VALUE, check_length};

/// The longest partition key, in bytes.
const MAX_KEY: usize = u16::MAX as usize;
/// So many bytes of a key are shown.
const SHOWN_KEY: usize = 32;

/// A value that no sstable can hold, and where it was to go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

/// Refuses an update with a value that no sstable can hold.
///
/// # Errors
/// The first such value.
pub fn check(update: &PartitionUpdate) -> Result<(), Misfit> {
    let (table, key) = (&*update.table, &update.key);
    if let Some(why) = of_key(key) {
        return Err(misfit(table, key, Place::Key, &why));
    }
    let mut rows = update.static_row.iter().chain(&update.rows);
    let mut slices = update.range_tombstones.iter().map(|t| &t.slice);
    let of_slices = |error| (Place::Clustering, error);
    let found = rows.find_map(|row| of_row(table, row));
    let found = found.or_else(|| slices.find_map(|s| of_slice(table, s)).map(of_slices));
    match found {
        Some((place, error)) => Err(misfit(table, key, place, &error.to_string())),
        None => Ok(()),
    }
}

/// Does an sstable hold an update? Values in columns of their own are what their types ask for, as who lays out a row
/// knows; what a key and a clustering may be is less than that.
pub(crate) fn holds(update: &RowUpdate) -> bool {
    debug_assert!(holds_cells(update), "a value that is none of its type");
    of_key(&update.key).is_none() && of_values(&update.table, update.row.clustering()).is_none()
}

/// Are the values in columns of one cell as long as they have to be?
fn holds_cells(update: &RowUpdate) -> bool {
    let (table, row) = (&*update.table, &update.row);
    let mut values = row.values();
    // The cells of what is spread over several lie side by side, and say how long they are.
    let mut spread = None;
    values.all(|(column, value)| {
        if value.is_empty() || spread == Some(column) {
            return true;
        }
        // What was dropped is not written.
        let column = table.column(column);
        spread = column.filter(|c| c.ty.is_multi_cell()).map(|c| c.id);
        column.is_none_or(|column| {
            column.ty.is_multi_cell() || check_length(value, column.ty.fixed_length()).is_ok()
        })
    })
}

/// Takes all that no sstable can hold out of an update: cells, rows and deletions of ranges, or
/// everything if it is the key.
pub(crate) fn take_out(update: &mut PartitionUpdate) -> Vec<Misfit> {
    // Nearly always there is nothing to take out.
    if check(update).is_ok() {
        return Vec::new();
    }
    let (table, key) = (update.table.clone(), update.key.clone());
    let mut found = Vec::new();
    let mut note = |place: Place, why: &str| found.push(misfit(&table, &key, place, why));
    if let Some(why) = of_key(&key) {
        note(Place::Key, &why);
        *update = PartitionUpdate::new(table, key);
        return found;
    }
    update.rows.retain(|row| {
        let error = of_clustering(&table, &row.clustering);
        error.inspect(|error| note(Place::Clustering, &error.to_string()));
        error.is_none()
    });
    let mut take_cells = |row: &mut Row| {
        row.cells.retain(|cell| {
            let error = of_cell(&table, cell);
            error.inspect(|error| note(Place::Column(cell.column), &error.to_string()));
            error.is_none()
        });
    };
    update.static_row.iter_mut().for_each(&mut take_cells);
    update.rows.iter_mut().for_each(&mut take_cells);
    update.static_row.take_if(|row| row.is_empty());
    update.rows.retain(|row| !row.is_empty());
    update.range_tombstones.retain(|tombstone| {
        let error = of_slice(&table, &tombstone.slice);
        error.inspect(|error| note(Place::Clustering, &error.to_string()));
        error.is_none()
    });
    found
}

/// Where in a partition.
#[derive(Clone, Copy, Debug)]
enum Place {
    Key,
    Clustering,
    Column(ColumnId),
}

/// Names the value of a row, or of the bound of a deletion, for which encoding failed.
pub(super) fn locate(
    table: &Table,
    key: &DecoratedKey,
    row: Option<&Row>,
    error: &EncodeError,
) -> Misfit {
    let found = row.and_then(|row| of_row(table, row));
    let place = found.map_or(Place::Clustering, |(place, _)| place);
    misfit(table, key, place, &error.to_string())
}

fn misfit(table: &Table, key: &DecoratedKey, place: Place, why: &str) -> Misfit {
    let what = match place {
        Place::Key => "the partition key".to_owned(),
        Place::Clustering => "a clustering key".to_owned(),
        Place::Column(id) => match table.column(id) {
            Some(column) => format!("a value of the column `{}`", column.name),
            None => "a value of a dropped column".to_owned(),
        },
    };
    let digits = key.key().iter().take(SHOWN_KEY);
    let mut shown: String = digits.map(|byte| format!("{byte:02x}")).collect();
    if key.key().len() > SHOWN_KEY {
        shown.push('…');
    }
    let (keyspace, name) = (&table.keyspace, &table.name);
    Misfit(format!(
        "{what} of {keyspace}.{name}, in the partition 0x{shown}, cannot be written: {why}"
    ))
}

fn of_key(key: &DecoratedKey) -> Option<String> {
    let length = key.key().len();
    (length > MAX_KEY).then(|| format!("its {length} bytes are more than {MAX_KEY}"))
}

fn of_row(table: &Table, row: &Row) -> Option<(Place, EncodeError)> {
    if let Some(error) = of_clustering(table, &row.clustering) {
        return Some((Place::Clustering, error));
    }
    let of_cell = |cell: &Cell| Some((Place::Column(cell.column), of_cell(table, cell)?));
    row.cells.iter().find_map(of_cell)
}

fn of_clustering(table: &Table, clustering: &Clustering) -> Option<EncodeError> {
    of_values(table, clustering.values())
}

/// Of a clustering of these values.
fn of_values<'v>(table: &Table, values: impl Iterator<Item = &'v [u8]>) -> Option<EncodeError> {
    let mut values = table.clustering_key().zip(values);
    values.find_map(|(column, value)| {
        if value.len() > MAX_CLUSTERING_VALUE {
            return Some(EncodeError::TooLong(value.len()));
        }
        check_length(value, column.ty.fixed_length()).err()
    })
}

fn of_slice(table: &Table, slice: &Slice) -> Option<EncodeError> {
    let start = of_clustering(table, &slice.start.prefix);
    start.or_else(|| of_clustering(table, &slice.end.prefix))
}

fn of_cell(table: &Table, cell: &Cell) -> Option<EncodeError> {
    // What was dropped is not written.
    let column = table.column(cell.column)?;
    // The cells of what is spread over several say how long they are.
    if cell.value.is_empty() || column.ty.is_multi_cell() {
        return None;
    }
    check_length(&cell.value, column.ty.fixed_length()).err()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::{Bound, BoundKind, Order, RangeTombstone};

    use super::*;
    use crate::testing::{Saying, table, update};

    fn broken() -> PartitionUpdate {
        let table = table(Order::Ascending);
        let sayings = [
            Saying::Static(1, 1),
            Saying::Written([1, 1], 1, 1),
            Saying::Written([2, 1], 1, 1),
            Saying::Marked([3, 1], 1),
            Saying::Written([3, 1], 1, 1),
        ];
        let mut update = update(&table, &sayings);
        let short = Bytes::from_static(&[1]);
        let bound = |kind| Bound {
            prefix: Clustering([short.clone()].into_iter().collect()),
            kind,
        };
        update.range_tombstones.push(RangeTombstone {
            slice: Slice {
                start: bound(BoundKind::InclusiveStart),
                end: bound(BoundKind::InclusiveEnd),
            },
            deletion: model::DeletionTime {
                timestamp: 1,
                local_deletion_time: 1,
            },
        });
        if let Some(row) = &mut update.static_row {
            row.cells[0].value = short.clone();
        }
        update.rows[1].cells[0].value = short.clone();
        update.rows[2].cells[0].value = short.clone();
        update
    }

    #[test]
    fn what_fits_is_left() {
        let table = table(Order::Ascending);
        let mut good = update(
            &table,
            &[Saying::Written([1, 1], 1, 1), Saying::Partition(1)],
        );
        good.row_mut(&Clustering(good.rows[0].clustering.0.clone()))
            .cells[0]
            .value = Bytes::new();
        let before = good.clone();
        assert_eq!(check(&good), Ok(()));
        assert_eq!(take_out(&mut good), []);
        assert_eq!(good, before);
    }

    #[test]
    fn what_does_not_fit_is_taken_out_and_named() {
        let mut update = broken();
        let error = check(&update).expect_err("a value is too short");
        assert_eq!(
            error.to_string(),
            "a value of the column `s` of ks.t, in the partition 0x00000007, cannot be written: a \
             value of 1 bytes where the type has 4"
        );
        assert_eq!(take_out(&mut update).len(), 4);
        assert_eq!(check(&update), Ok(()));
        // The row with a marker stays, the one without anything left does not.
        assert_eq!(update.rows.len(), 2);
        assert!(update.static_row.is_none() && update.range_tombstones.is_empty());
        assert_eq!(take_out(&mut update), []);
    }

    #[test]
    fn keys_have_a_longest() {
        let table = table(Order::Ascending);
        let key = DecoratedKey::new(vec![1; MAX_KEY + 1].into());
        let mut update = PartitionUpdate::new(table.clone(), key);
        update.static_row_mut();
        let error = check(&update).expect_err("the key is too long");
        assert!(error.to_string().contains("0x0101"), "{error}");
        assert_eq!(take_out(&mut update).len(), 1);
        assert!(update.is_empty());
    }
}
