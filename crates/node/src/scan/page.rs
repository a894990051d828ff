//! What the shards of a node answer of a window, and one page of it.

use model::{
    DataLimits, DecoratedKey, Partition, PartitionVersion, ReadPage, Scanned, VersionPage,
};

/// What a shard answers.
pub(crate) trait Page: Default {
    /// What it says of one partition.
    type Of: PageOf;

    /// The partitions, in ring order.
    fn partitions(&mut self) -> &mut Vec<Self::Of>;

    /// Is there more behind them?
    fn more(&mut self) -> &mut bool;

    /// What was gone through.
    fn scanned(&mut self) -> &mut Scanned;
}

/// What a shard answers of a partition.
pub(crate) trait PageOf {
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

impl Page for ReadPage {
    type Of = Partition;

    fn partitions(&mut self) -> &mut Vec<Partition> {
        &mut self.partitions
    }

    fn more(&mut self) -> &mut bool {
        &mut self.more
    }

    fn scanned(&mut self) -> &mut Scanned {
        &mut self.scanned
    }
}

impl PageOf for Partition {
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

impl Page for VersionPage {
    type Of = PartitionVersion;

    fn partitions(&mut self) -> &mut Vec<PartitionVersion> {
        &mut self.partitions
    }

    fn more(&mut self) -> &mut bool {
        &mut self.more
    }

    fn scanned(&mut self) -> &mut Scanned {
        &mut self.scanned
    }
}

impl PageOf for PartitionVersion {
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
pub(super) fn merge_pages<P: Page>(pages: Vec<P>, limits: &DataLimits, now_seconds: u32) -> P {
    let mut merged = P::default();
    let mut frontier: Option<DecoratedKey> = None;
    for mut page in pages {
        let more = *page.more();
        *merged.more() |= more;
        *merged.scanned() += *page.scanned();
        if let Some(last) = page.partitions().last().filter(|_| more)
            && frontier.as_ref().is_none_or(|key| last.key() < key)
        {
            frontier = Some(last.key().clone());
        }
        merged.partitions().append(page.partitions());
    }
    let partitions = merged.partitions();
    partitions.sort_by(|a, b| a.key().cmp(b.key()));
    if let Some(frontier) = frontier {
        partitions.truncate(partitions.partition_point(|p| *p.key() <= frontier));
    }
    let rows = truncate_rows(partitions, limits.rows as usize, now_seconds);
    // Each shard may have as many bytes as all together: a page goes to other nodes, too.
    let bytes = truncate_bytes(partitions, limits.bytes.into());
    *merged.more() |= rows | bytes;
    merged
}

/// Cuts off what comes after the partition that reaches so many bytes; says whether that was anything.
fn truncate_bytes<P: PageOf>(partitions: &mut Vec<P>, limit: u64) -> bool {
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
fn truncate_rows<P: PageOf>(partitions: &mut Vec<P>, limit: usize, now_seconds: u32) -> bool {
    let mut left = limit;
    for at in 0..partitions.len() {
        let partition = &mut partitions[at];
        let rows = partition.rows(now_seconds);
        if rows > left {
            partition.truncate(left);
            let keep = at + usize::from(left > 0);
            partitions.truncate(keep);
            return true;
        }
        left -= rows;
    }
    false
}
