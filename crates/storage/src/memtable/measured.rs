//! A memtable as benches and tests of its memory see it, from outside of this crate.

use std::rc::Rc;
use std::sync::Arc;

use model::{Clustering, ColumnId, DecoratedKey, PartitionBound, PartitionUpdate, Slice, Table};

use super::{MemStream, Memtable};
use crate::Unfiltered;

/// A memtable to measure; nothing else should use it.
#[derive(Default)]
pub struct MeasuredMemtable(Memtable);

impl MeasuredMemtable {
    /// Takes in an update, as a write does.
    pub fn apply(&self, update: PartitionUpdate) {
        let table = update.table.clone();
        self.0.apply(update, &table, None);
    }

    /// The bytes that it believes to take.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// A partition as a reader has it, as long as this lives.
    pub fn hold(&self, key: &DecoratedKey) -> impl Sized + use<> {
        self.0.get(key)
    }

    /// Gives all rows of a partition that lie in a slice to `seen`, as a read does.
    pub fn read(
        &self,
        key: &DecoratedKey,
        table: &Arc<Table>,
        slice: Slice,
        seen: &mut impl FnMut(Unfiltered),
    ) {
        if let Some(partition) = self.0.get(key) {
            let slices: Rc<[Slice]> = Rc::new([slice]);
            let mut stream = MemStream::new(partition, table.clone(), slices, false);
            while let Some(item) = stream.next() {
                seen(item);
            }
        }
    }

    /// Gives the columns and values of a row that is plain to `seen`, where they lie. Is it there?
    pub fn show(
        &self,
        key: &DecoratedKey,
        table: &Table,
        clustering: &Clustering,
        seen: &mut impl FnMut(ColumnId, &[u8]),
    ) -> bool {
        let partition = self.0.get(key);
        let row = partition.as_ref().and_then(|partition| {
            let row = partition.plain_row(table.comparator(), clustering);
            row.flatten()
        });
        if let Some(row) = row {
            row.values().for_each(|(column, value)| seen(column, value));
        }
        row.is_some()
    }

    /// Gives all rows of all partitions to `seen`, in the order of the ring.
    pub fn scan(&self, table: &Arc<Table>, seen: &mut impl FnMut(Unfiltered)) {
        let ends = PartitionBound::Unbounded;
        let mut after = None;
        while let Some(partition) = self.0.next(&ends, &ends, after.as_ref()) {
            after = Some(partition.key());
            let slices: Rc<[Slice]> = Rc::new([Slice::ALL]);
            let mut stream = MemStream::new(partition, table.clone(), slices, false);
            while let Some(item) = stream.next() {
                seen(item);
            }
        }
    }
}
