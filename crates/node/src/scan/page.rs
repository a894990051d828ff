//! One page from what the shards of a node answer of a window.

use model::{DataLimits, DecoratedKey, Page, Partition, PartitionVersion};

/// What a page says of one partition.
pub(crate) trait Paged {
    /// Which.
    fn key(&self) -> &DecoratedKey;

    /// As how many rows it counts.
    fn rows(&self, now_seconds: u32) -> usize;

    /// About how many bytes it takes.
    fn bytes(&self) -> u64;

    /// Leaves out what is behind so many rows, or nothing: a page may be longer than its limit if
    /// whoever asked takes no more of it than he wants.
    fn truncate(&mut self, rows: usize);
}

impl Paged for Partition {
    fn key(&self) -> &DecoratedKey {
        &self.key
    }

    fn rows(&self, _now_seconds: u32) -> usize {
        self.counted_rows()
    }

    fn bytes(&self) -> u64 {
        self.answer_bytes()
    }

    fn truncate(&mut self, rows: usize) {
        Partition::truncate(self, rows);
    }
}

impl Paged for PartitionVersion {
    fn key(&self) -> &DecoratedKey {
        &self.partition.key
    }

    fn rows(&self, now_seconds: u32) -> usize {
        self.counted_rows(now_seconds)
    }

    fn bytes(&self) -> u64 {
        // Deleted ranges take about as much as small rows.
        self.partition.answer_bytes() + 32 * self.partition.range_tombstones.len() as u64
    }

    fn truncate(&mut self, _rows: usize) {}
}

/// One page from the answers of the shards of a window, within `limits`.
pub(super) fn merge_pages<P: Paged>(
    pages: Vec<Page<P>>,
    limits: &DataLimits,
    now_seconds: u32,
) -> Page<P> {
    let mut merged = Page::default();
    let mut frontier: Option<DecoratedKey> = None;
    for mut page in pages {
        merged.more |= page.more;
        merged.scanned += page.scanned;
        if let Some(last) = page.partitions.last().filter(|_| page.more)
            && frontier.as_ref().is_none_or(|key| last.key() < key)
        {
            frontier = Some(last.key().clone());
        }
        merged.partitions.append(&mut page.partitions);
    }
    let partitions = &mut merged.partitions;
    partitions.sort_by(|a, b| a.key().cmp(b.key()));
    if let Some(frontier) = frontier {
        partitions.truncate(partitions.partition_point(|p| *p.key() <= frontier));
    }
    let rows = truncate_rows(partitions, limits.rows, now_seconds);
    // Each shard may have as many bytes as all together: a page goes to other nodes, too.
    let bytes = truncate_bytes(partitions, limits.bytes.into());
    merged.more |= rows | bytes;
    merged
}

/// Cuts off what comes after the partition that reaches so many bytes; says whether that was anything.
fn truncate_bytes<P: Paged>(partitions: &mut Vec<P>, limit: u64) -> bool {
    let mut bytes = 0;
    let full = partitions.iter().position(|partition| {
        bytes += partition.bytes();
        bytes >= limit
    });
    let keep = full.map_or(partitions.len(), |last| last + 1);
    let cut = keep < partitions.len();
    partitions.truncate(keep);
    cut
}

/// Cuts off what comes after `limit` rows; says whether that was anything.
pub(crate) fn truncate_rows<P: Paged>(
    partitions: &mut Vec<P>,
    limit: u32,
    now_seconds: u32,
) -> bool {
    let mut left = limit as usize;
    for at in 0..partitions.len() {
        let partition = &mut partitions[at];
        let rows = partition.rows(now_seconds);
        if rows > left {
            partition.truncate(left);
            partitions.truncate(at + usize::from(left > 0));
            return true;
        }
        left -= rows;
    }
    false
}

/// Takes what is given off what may still be given; says how many rows it is.
pub(crate) fn spend<P: Paged>(limits: &mut DataLimits, partitions: &[P], now_seconds: u32) -> u64 {
    let rows = partitions
        .iter()
        .map(|partition| partition.rows(now_seconds));
    let rows: usize = rows.sum();
    let bytes: u64 = partitions.iter().map(Paged::bytes).sum();
    limits.rows = limits.rows.saturating_sub(rows as u32);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    limits.bytes = limits.bytes.saturating_sub(bytes);
    rows as u64
}
