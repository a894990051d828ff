//! Who knows of a partition, of what the table consists of, by the numbers of it: see [`crate::cache`].

use std::ops::RangeBounds;

use model::DecoratedKey;

use super::{TableStore, is_same};
use crate::sstable::SSTable;

impl TableStore {
    /// Does a memtable that is being flushed, and has one of these numbers, know of a partition?
    pub(super) fn is_in_flushing(
        &self,
        key: &DecoratedKey,
        numbers: &impl RangeBounds<u64>,
    ) -> bool {
        let flushing = self.flushing.borrow();
        flushing.iter().any(|memtable| {
            let number = memtable.number();
            number.is_none_or(|number| numbers.contains(&number)) && memtable.get(key).is_some()
        })
    }

    /// May an sstable that has one of these numbers, and is none of `others`, know of a partition?
    pub(super) fn may_be_in_numbered(
        &self,
        key: &DecoratedKey,
        numbers: &impl RangeBounds<u64>,
        others: &[SSTable],
    ) -> bool {
        let is_other = |sstable: &SSTable| {
            let mut others = others.iter();
            others.any(|other| is_same(other.descriptor(), sstable.descriptor()))
        };
        let sstables = self.sstables.borrow();
        let asked = sstables.iter().filter(|sstable| {
            let number = sstable.number();
            number.is_none_or(|number| numbers.contains(&number)) && !is_other(sstable)
        });
        SSTable::any_may_contain(asked, key)
    }
}
