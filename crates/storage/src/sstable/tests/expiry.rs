//! Which format what expires after 2038 is written anew in.

use super::roundtrip::table;
use super::support::{bare_row, options_for, read_all, write_all};
use crate::Unfiltered;
use crate::sstable::*;
use crate::testing::{TempDir, run};

const NOW: u32 = 1_800_000_000;

/// The format for an sstable with a row that expires then, written in this one; and when the row
/// expires as it is read.
fn output(format: Format, expires_at: u32) -> (Format, u32) {
    run(move |env| async move {
        let (own, dir) = (table(""), TempDir::new());
        let (head, mut row) = bare_row(&own);
        row.liveness.ttl = i32::try_from(expires_at - NOW).expect("a time to live");
        row.liveness.expires_at = expires_at;
        let written = vec![(head, vec![Unfiltered::Row(row)])];
        let options = options_for(&written);
        let descriptor = write_all(&env, &dir.0, &own, &written, (format, options));
        let descriptor = descriptor.await.expect("writes");
        let cache = ChunkCache::new(0);
        let sstable = SSTable::open(&env, &descriptor, &own, &cache).await;
        let sstable = sstable.expect("opens");
        let read = read_all(&sstable, ScanOptions::default()).await;
        let Unfiltered::Row(row) = &read.expect("reads")[0].1[0] else {
            panic!("a row was written");
        };
        let output = output_format(Format::Big, [&sstable], NOW);
        (output, row.liveness.expires_at)
    })
}

#[test]
fn what_expires_after_2038_is_written_where_there_is_room() {
    let (before, after) = (NOW + 1000, i32::MAX as u32 + 1000);
    assert_eq!(output(Format::Bti, before), (Format::Big, before));
    assert_eq!(output(Format::Bti, after), (Format::Bti, after));
    // There it has been cut already.
    let last = i32::MAX as u32 - 1;
    assert_eq!(output(Format::Big, after), (Format::Big, last));
}
