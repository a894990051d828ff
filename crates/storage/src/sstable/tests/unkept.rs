//! Tools that know no schema are told of what they would not write as it was.

use model::CompactForm;

use super::roundtrip::table;
use super::support::{bare_row, options_for, read_all, write_all};
use crate::Unfiltered;
use crate::sstable::*;
use crate::testing::{TempDir, run};

/// What is noted of an sstable with a row whose clustering ends with an empty value, if its table is
/// one with COMPACT STORAGE, and if not.
fn noted(is_compact: bool) -> Option<&'static str> {
    run(move |env| async move {
        let mut own = model::Table::clone(&table(""));
        own.compact = is_compact.then_some(CompactForm::Dense);
        let (own, dir) = (std::sync::Arc::new(own), TempDir::new());
        let (head, row) = bare_row(&own);
        let written = vec![(head, vec![Unfiltered::Row(row)])];
        let options = options_for(&written);
        let descriptor = write_all(&env, &dir.0, &own, &written, (Format::Big, options));
        let descriptor = descriptor.await.expect("writes");
        let cache = ChunkCache::new(0);
        let sstable = SSTable::open(&env, &descriptor, &own, &cache).await;
        let sstable = sstable.expect("opens");
        let unkept = sstable.note_unkept();
        let read = read_all(&sstable, ScanOptions::default()).await;
        assert_eq!(read.expect("reads"), written);
        unkept.found()
    })
}

#[test]
fn nulls_of_compact_storage_are_noted() {
    assert_eq!(noted(false), None);
    assert!(noted(true).is_some_and(|what| what.contains("COMPACT STORAGE")));
}
