//! A partition of few rows that lies in memory as it is to be seen: as in [`super::plain_row`], for who asks for all of
//! its rows.

use model::{DecoratedKey, PackedRow};

use super::TableStore;
use crate::memtable::{MemPartition, MemRow};

/// Partitions of more rows are read in pages, which give way to others.
const MOST_ROWS: usize = 128;

/// The rows of a partition around which nothing is deleted; none of a partition that nobody knows of.
#[derive(Clone, Copy, Debug)]
pub struct PlainRows<'r> {
    partition: Option<&'r MemPartition>,
    /// What expires until then is not to be seen.
    now_seconds: u32,
}

impl<'r> PlainRows<'r> {
    /// How many.
    pub fn count(self) -> usize {
        self.partition.map_or(0, MemPartition::len)
    }

    /// Gives each to `show`, in their order, as long as all of it is to be seen and `show` has shown the one before.
    /// Were all of them shown?
    pub fn all(self, mut show: impl FnMut(&'r PackedRow) -> bool) -> bool {
        let Some(partition) = self.partition else {
            return true;
        };
        let (mut next, end) = (0, partition.len());
        while next < end {
            let rows = partition.rows_side_by_side(next..end, false);
            next += rows.len();
            for row in rows {
                let shown = match row {
                    MemRow::Packed(row) if row.is_plain_at(self.now_seconds) => show(row),
                    _ => false,
                };
                if !shown {
                    return false;
                }
            }
        }
        true
    }
}

impl TableStore {
    /// Lets `show` show partitions, one after the other, as long as it takes no read to know their rows and `show` has
    /// shown the one before, so many seconds after 1970. Regular columns are asked for, each of one cell and no counter.
    /// Gives how many were shown.
    pub(crate) fn with_plain_partitions(
        &self,
        keys: &[&DecoratedKey],
        now_seconds: u32,
        mut show: impl FnMut(PlainRows<'_>) -> bool,
    ) -> usize {
        // Memtables may have cells of columns that are gone.
        if !self.schema.borrow().dropped.is_empty() {
            return 0;
        }
        let active = self.active.borrow();
        active.with_partitions(keys.iter().copied(), |partitions| {
            let partitions = keys.iter().zip(partitions);
            partitions
                .take_while(|(key, known)| {
                    self.with_plain_partition(key, **known, now_seconds, &mut show)
                })
                .count()
        })
    }

    /// Of the partition the active memtable knows what it is given, or nothing. Was it shown?
    fn with_plain_partition(
        &self,
        key: &DecoratedKey,
        known: Option<&MemPartition>,
        now_seconds: u32,
        show: &mut impl FnMut(PlainRows<'_>) -> bool,
    ) -> bool {
        let shown = self.known_once(key, known, |known| {
            let is_plain = known
                .is_none_or(|partition| partition.has_only_rows() && partition.len() <= MOST_ROWS);
            let rows = PlainRows {
                partition: known,
                now_seconds,
            };
            let shown = is_plain && !self.may_be_in_sstables(key) && show(rows);
            if shown {
                let skipped = self.sstables.borrow().len() as u64;
                self.reads.partition_in_memory(rows.count() as u64, skipped);
            }
            shown
        });
        shown == Some(true)
    }
}
