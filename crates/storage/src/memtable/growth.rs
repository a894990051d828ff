//! By how much a write makes memtables grow at most: known before it is logged, so that there is
//! room for it when it is.

use model::{Cell, Clustering, Mutation, PartitionUpdate, RangeTombstone, Row, RowUpdate};

use super::partition::PLACE;
use super::row::MemRow;

/// Of a partition, with a node of a tree that has to be cut or is hardly filled.
const PARTITION: usize = 1024;

/// By how many bytes a write makes memtables grow at most, but for what the allocator rounds up of a
/// row that it makes longer, and for a row that becomes too large to lie in one piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// Whatever there is already.
    most: usize,
    /// By what is new alone. Beside that, what it changes doubles at most: rows are laid out anew and
    /// nodes cut.
    new: usize,
}

impl Growth {
    /// Of a write.
    pub(crate) fn of(mutation: &Mutation) -> Growth {
        Growth {
            most: most_growth(mutation),
            new: mutation.updates.iter().map(new_bytes).sum(),
        }
    }

    /// Of this and another one together.
    pub(crate) fn and(&self, other: &Growth) -> Growth {
        Growth {
            most: self.most.saturating_add(other.most),
            new: self.new.saturating_add(other.new),
        }
    }

    /// Where what is written to takes so many bytes.
    pub(crate) fn beside(&self, there: usize) -> usize {
        self.most.min(self.new.saturating_add(there))
    }
}

/// What [`Growth::beside`] is at most: cheaper, and near enough for a write of a few rows.
pub(crate) fn most_growth(mutation: &Mutation) -> usize {
    mutation.updates.iter().map(most_growth_of).sum()
}

/// The same, of one update.
pub(crate) fn most_growth_of(update: &PartitionUpdate) -> usize {
    beside_rows(update) + rows(update).map(of_row).sum::<usize>()
}

/// The same, of one row that is laid out already.
pub(crate) fn most_growth_of_row(update: &RowUpdate) -> usize {
    let row = &update.row;
    // Its length is more than all values together, and than the cells of its columns.
    let of_values = 64 * row.clustering().len() + row.len() / 4 * 5;
    let complex = update.table.columns().count();
    PARTITION
        + update.key.key().len()
        + ROW
        + of_values
        + 2 * size_of::<Cell>() * row.cells()
        + 64 * complex
}

/// Of a row beside its values.
const ROW: usize = size_of::<Row>() + 256;

fn of_row(row: &Row) -> usize {
    let cell = |cell: &Cell| {
        let path = cell.path.as_ref().map_or(0, |path| path.len());
        2 * size_of::<Cell>() + (path + cell.value.len()) / 4 * 5
    };
    ROW + of_values(&row.clustering)
        + row.cells.iter().map(cell).sum::<usize>()
        + row.complex_deletions.len() * 64
}

fn new_bytes(update: &PartitionUpdate) -> usize {
    let row = |row: &Row| PLACE + MemRow::most_bytes(row);
    beside_rows(update) + rows(update).map(row).sum::<usize>()
}

fn rows(update: &PartitionUpdate) -> impl Iterator<Item = &Row> {
    update.static_row.iter().chain(&update.rows)
}

fn beside_rows(update: &PartitionUpdate) -> usize {
    const TOMBSTONE: usize = 3 * (size_of::<RangeTombstone>() + 64);
    let tombstones = update.range_tombstones.iter().map(|tombstone| {
        let slice = &tombstone.slice;
        TOMBSTONE + 3 * (of_values(&slice.start.prefix) + of_values(&slice.end.prefix))
    });
    PARTITION + update.key.key().len() + tombstones.sum::<usize>()
}

fn of_values(clustering: &Clustering) -> usize {
    clustering.0.iter().map(|value| value.len() + 64).sum()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::Order;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::memtable::Memtable;
    use crate::testing::{Saying, row_update, saying, table, update};

    /// Takes an update in; gives by what that makes the memtable grow, and what was expected.
    fn apply(memtable: &Memtable, update: PartitionUpdate) -> (isize, usize) {
        let table = update.table.clone();
        let mutation = Mutation {
            updates: vec![update],
        };
        let expected = Growth::of(&mutation).beside(memtable.bytes());
        let grown = mutation.updates.into_iter();
        let grown = grown.map(|update| memtable.apply(update, &table, None));
        (grown.sum(), expected)
    }

    /// A value of so many bytes for each of these rows.
    fn values(rows: impl Iterator<Item = u32>, timestamp: i64, bytes: usize) -> PartitionUpdate {
        let table = table(Order::Ascending);
        let mut update = update(&table, &[Saying::Written([0, 0], timestamp, 1)]);
        let one = update.rows.remove(0);
        for number in rows {
            let mut row = one.clone();
            row.clustering.0[1] = Bytes::copy_from_slice(&number.to_be_bytes());
            row.cells[0].value = Bytes::from(vec![1; bytes]);
            update.rows.push(row);
        }
        update
    }

    #[test]
    fn many_small_rows_are_expected_to_take_little_more_than_they_do() {
        let memtable = Memtable::default();
        let (grown, expected) = apply(&memtable, values(0..40_000, 1, 4));
        let grown = grown as usize;
        assert!(
            grown <= expected && expected < 2 * grown,
            "{grown}, {expected}"
        );
    }

    #[test]
    fn rows_in_any_order_take_no_more_than_expected() {
        let (scattered, step) = (10_000, 6_181);
        for rows in [1, 2, 3, 5, 9, 17, 33, 100, scattered] {
            let orders: [Box<dyn Fn(u32) -> u32>; 3] = [
                Box::new(|n| n),
                Box::new(move |n| rows - 1 - n),
                Box::new(move |n| n * step % rows),
            ];
            for order in orders {
                let update = values((0..rows).map(order), 1, 4);
                let (grown, expected) = apply(&Memtable::default(), update);
                assert!(
                    grown as usize <= expected,
                    "{rows} rows: {grown}, {expected}"
                );
            }
        }
    }

    /// Nodes that are full are cut, and rows become longer.
    #[test]
    fn what_is_written_between_and_over_others_takes_no_more_than_expected() {
        for bytes in [0, 4, 100, 300, 600, 5000] {
            let memtable = Memtable::default();
            let day = 86_400_000_000;
            let updates = [
                values((0..2000).map(|n| 2 * n), 1, bytes),
                values((0..4000).step_by(60).map(|n| n + 1), day, bytes),
                values((0..2000).map(|n| 2 * n), 2 * day, bytes + bytes / 2),
                values(0..4000, 3 * day, bytes / 2 + 1),
            ];
            for update in updates {
                let (grown, expected) = apply(&memtable, update);
                assert!(grown <= expected as isize, "{bytes}: {grown}, {expected}");
            }
        }
    }

    proptest! {
        #[test]
        fn rows_that_are_laid_out_are_taken_in_like_others(updates in vec(row_update(), 1..12)) {
            let (table, laid_out, usual) = (table(Order::Ascending), Memtable::default(), Memtable::default());
            for written in updates {
                let most = most_growth_of_row(&written);
                usual.apply(written.clone().unpack(), &table, None);
                let grown = laid_out.apply_row(written, &table, None);
                prop_assert!(grown <= most as isize, "{grown} of {most}");
                prop_assert_eq!(laid_out.bytes(), usual.bytes());
                prop_assert_eq!(laid_out.items(), usual.items());
                prop_assert_eq!(laid_out.updates(), usual.updates());
                prop_assert_eq!(laid_out.times(), usual.times());
                let all = |memtable: &Memtable| -> Vec<model::Row> {
                    let key = update(&table, &[]).key;
                    let partition = memtable.get(&key).expect("it is there");
                    let rows = (0..partition.len()).filter_map(|i| partition.row_at(i));
                    rows.map(|row| row.to_row()).collect()
                };
                prop_assert_eq!(all(&laid_out), all(&usual));
            }
        }

        #[test]
        fn no_write_takes_more_than_expected(updates in vec(vec(saying(), 1..12), 1..12)) {
            let table = table(Order::Ascending);
            let memtable = Memtable::default();
            for sayings in updates {
                let (grown, expected) = apply(&memtable, update(&table, &sayings));
                prop_assert!(grown <= expected as isize, "{}, {}", grown, expected);
            }
        }
    }
}
