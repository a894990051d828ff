//! The files of segments: made ahead of need, and what of them was never written to.

use std::path::PathBuf;

use io::{File, OpenOptions};

use super::format::{BLOCK, SegmentHeader};
use super::log::Inner;

/// How much of a segment is filled with zeros at once: groups wait behind it in the drive's queue.
pub(super) const ZEROED: u64 = 256 << 10;

/// The file of a segment.
pub(super) struct SegmentFile {
    pub(super) file: File,
    /// Where the part of it begins that was never written to. A synced write there costs several:
    /// the file system has to note beside it that what it allocated holds data now.
    pub(super) blank_from: u64,
}

impl SegmentFile {
    /// Fills what is blank up to `end` with zeros, on the drive when this returns.
    pub(super) async fn fill(&mut self, end: u64) -> std::io::Result<()> {
        let mut zeros = Vec::new();
        while self.blank_from < end {
            zeros.resize(ZEROED.min(end - self.blank_from) as usize, 0);
            let at = self.blank_from;
            let (written, buffer) = self.file.write_all_synced_at(zeros, at).await;
            written?;
            self.blank_from += buffer.len() as u64;
            zeros = buffer;
        }
        Ok(())
    }
}

/// Makes the file of a segment, on the drive with its header and name when this returns.
pub(super) async fn create_segment(
    inner: &Inner,
    segment: u64,
    run: u64,
) -> std::io::Result<SegmentFile> {
    let path = inner.path(segment);
    let spare: Option<PathBuf> = inner.state.borrow_mut().spares.pop();
    if let Some(spare) = spare
        && let Err(error) = inner.env.rename(&spare, &path).await
    {
        inner.state.borrow_mut().spares.push(spare);
        return Err(error);
    }
    let options = OpenOptions {
        read: false,
        write: true,
        create: true,
        direct: inner.config.direct,
        ..OpenOptions::default()
    };
    let file = inner.env.open(&path, options).await?;
    let bytes = inner.config.segment_bytes;
    // A file that is used again has its room on the drive, and nothing about it changes.
    let fresh = file.len().await? != bytes;
    if fresh {
        file.allocate(bytes).await?;
    }
    let header = SegmentHeader {
        shard: inner.shard,
        sharder: inner.sharder,
        segment,
        run,
    };
    let mut block = vec![0; BLOCK];
    header.encode(&mut block);
    file.write_all_at(block, 0).await.0?;
    match fresh {
        true => file.sync_all().await?,
        false => file.sync_data().await?,
    }
    inner.env.sync_dir(&inner.dir).await?;
    let blank_from = if fresh { BLOCK as u64 } else { bytes };
    Ok(SegmentFile { file, blank_from })
}
