//! Reading a range of the ring from the shards of a node.
//!
//! Neighbouring slices of the ring belong to different shards. Where every shard were asked for the
//! whole of a range, each would read as many rows as the limits allow, and all but one part of what
//! they read would be thrown away. So a range is read in windows of slices, one after the other,
//! and only the shards that own slices of a window are asked, all at once. The first window is as
//! long as the limit seems to need, by the number of partitions that there are; the next ones by
//! what was found in those before.
//!
//! Each shard answers with its partitions in the order of the ring, as many as the limits allow.
//! Where one says that it has more, what lies behind its last partition is not complete yet: the
//! page ends there. No partition is on two shards, so sorting is all the merging there is.
//!
//! So it goes for pages of live rows and for pages of all that is known ([`Page`]).

mod page;

use model::{
    DataLimits, Page, PartitionBound, PartitionSelection, ReadCommand, Resume, ShardId, Sharder,
};

use page::merge_pages;
pub(crate) use page::{Paged, spend, truncate_rows};

/// Where nothing was found so far, the next window is so many times as long as all before it: few
/// steps lead from one slice to all of the ring.
const GROWTH: u64 = 64;

/// A range being read.
pub(crate) struct Sweep<'c, P> {
    sharder: Sharder,
    command: &'c ReadCommand,
    /// Where the next window begins: its bound, and its first slice.
    start: PartitionBound,
    slice: u64,
    /// Where the range ends: behind its last slice, and its bound there.
    end: u64,
    end_bound: &'c PartitionBound,
    /// Where in the first window the page before ended.
    resume: Option<Resume>,
    /// How many slices the next window has.
    length: u64,
    /// How many slices were read, and how many rows were found in them.
    read: u64,
    found: u64,
    /// What may still be given.
    limits: DataLimits,
    page: Page<P>,
}

/// A part of a range, to be asked of the shards that own slices of it.
#[derive(Debug)]
pub(crate) struct Window {
    /// What to ask them.
    pub(crate) command: ReadCommand,
    sharder: Sharder,
    slices: std::ops::Range<u64>,
}

impl Window {
    /// The shards that own slices of it.
    pub(crate) fn owners(&self) -> impl Iterator<Item = ShardId> + use<> {
        let shards = u64::from(self.sharder.shards());
        let last = self.slices.end.min(self.slices.start + shards);
        (self.slices.start..last).map(move |slice| (slice % shards) as ShardId)
    }
}

impl<'c, P: Paged> Sweep<'c, P> {
    /// Of the range of `command`, in a table of about so many partitions.
    ///
    /// # Panics
    /// If the command is for one partition.
    pub(crate) fn new(sharder: Sharder, command: &'c ReadCommand, partitions: u64) -> Sweep<'c, P> {
        let PartitionSelection::Range { start, end } = &command.partitions else {
            panic!("one partition is read from the shard that owns it");
        };
        let first = match (&command.resume, start) {
            (Some(resume), _) => sharder.slice_of(resume.key.token()),
            (None, bound) => slice_of(sharder, bound).unwrap_or(0),
        };
        let last = slice_of(sharder, end).unwrap_or(sharder.slices() - 1);
        let rows = u64::from(command.limits.rows);
        Sweep {
            start: start.clone(),
            slice: first,
            end: last + 1,
            end_bound: end,
            resume: command.resume.clone(),
            length: slices_for(rows, partitions, sharder.slices()),
            read: 0,
            found: 0,
            limits: command.limits,
            page: Page::default(),
            sharder,
            command,
        }
    }

    /// What is to be read next; `None` if the page is complete.
    pub(crate) fn next_window(&mut self) -> Option<Window> {
        if self.page.more || self.slice >= self.end {
            return None;
        }
        let slices = self.slice..self.slice.saturating_add(self.length).min(self.end);
        let behind = self.sharder.end_of_slice(slices.end - 1);
        let end = match slices.end == self.end {
            true => self.end_bound.clone(),
            false => PartitionBound::TokenInclusive(behind),
        };
        let start = std::mem::replace(&mut self.start, PartitionBound::TokenExclusive(behind));
        self.slice = slices.end;
        self.length = slices.end - slices.start;
        self.read += self.length;
        Some(Window {
            command: ReadCommand {
                partitions: PartitionSelection::Range { start, end },
                limits: self.window_limits(),
                resume: self.resume.take(),
                ..self.command.clone()
            },
            sharder: self.sharder,
            slices,
        })
    }

    /// A page that is full is followed by one row or none: whether there is more depends on it.
    fn window_limits(&self) -> DataLimits {
        DataLimits {
            rows: self.limits.rows.max(1),
            bytes: self.limits.bytes.max(1),
            ..self.limits
        }
    }

    fn is_full(&self) -> bool {
        self.limits.rows == 0 || self.limits.bytes == 0
    }

    /// What the shards of the window answered.
    pub(crate) fn take(&mut self, pages: Vec<Page<P>>) {
        let now = self.command.now_seconds;
        let mut page = merge_pages(pages, &self.window_limits(), now);
        if self.is_full() {
            self.page.more = !page.partitions.is_empty();
            page.partitions.clear();
        }
        self.found += spend(&mut self.limits, &page.partitions, now);
        self.page.partitions.append(&mut page.partitions);
        self.page.more |= page.more;
        self.page.scanned += page.scanned;
        // Twice as long at least: the steps are few even where the estimate is wrong.
        self.length = match self.found {
            0 => self.read.saturating_mul(GROWTH),
            found => {
                let estimate = slices_for(u64::from(self.limits.rows), found, self.read);
                estimate.max(self.length.saturating_mul(2))
            }
        };
    }

    /// The page.
    pub(crate) fn finish(self) -> Page<P> {
        self.page
    }
}

/// The slice of a bound, if it has a token.
fn slice_of(sharder: Sharder, bound: &PartitionBound) -> Option<u64> {
    let token = match bound {
        PartitionBound::Unbounded => return None,
        PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => *token,
        PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => key.token(),
    };
    Some(sharder.slice_of(token))
}

/// In how many slices there are `rows`, and a quarter more, if `found` are in `read` slices.
fn slices_for(rows: u64, found: u64, read: u64) -> u64 {
    let wanted = u128::from(rows) * u128::from(read) * 5;
    let slices = wanted.div_ceil(4 * u128::from(found.max(1))).max(1);
    u64::try_from(slices).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use model::{
        Clustering, ClusteringSelection, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
        DeletionTime, Order, Partition, ReadPage, Row, Slice, Table, TableId, TableOptions,
    };
    use proptest::prelude::*;

    use super::*;

    fn partition(key: &'static str, rows: usize) -> Partition {
        Partition {
            key: DecoratedKey::new(Bytes::from_static(key.as_bytes())),
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: (0..rows).map(|_| Row::new(Clustering::EMPTY)).collect(),
            packed: Vec::new(),
            range_tombstones: Vec::new(),
        }
    }

    fn sorted(keys: &[&'static str]) -> Vec<Partition> {
        let mut partitions: Vec<Partition> = keys.iter().map(|k| partition(k, 2)).collect();
        partitions.sort_by(|a, b| a.key.cmp(&b.key));
        partitions
    }

    fn limits(rows: u32) -> DataLimits {
        DataLimits {
            rows,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        }
    }

    #[test]
    fn a_page_ends_where_a_shard_that_has_more_ended() {
        let all = sorted(&["a", "b", "c", "d", "e", "f"]);
        let even = ReadPage {
            partitions: vec![all[0].clone(), all[2].clone()],
            more: true,
            ..ReadPage::default()
        };
        let odd = ReadPage {
            partitions: vec![all[1].clone(), all[3].clone(), all[5].clone()],
            more: false,
            ..ReadPage::default()
        };
        let page = merge_pages(vec![even, odd], &limits(100), 0);
        assert_eq!(page.partitions, all[..3]);
        assert!(page.more);
    }

    #[test]
    fn rows_past_the_limit_are_left_for_the_next_page() {
        let all = sorted(&["a", "b", "c"]);
        let page = merge_pages(
            vec![ReadPage {
                partitions: all.clone(),
                more: false,
                ..ReadPage::default()
            }],
            &limits(3),
            0,
        );
        assert_eq!(page.partitions.len(), 2);
        assert_eq!(page.partitions[1].rows.len(), 1);
        assert!(page.more);

        let page = merge_pages(
            vec![ReadPage {
                partitions: all,
                more: false,
                ..ReadPage::default()
            }],
            &limits(6),
            0,
        );
        assert_eq!(page.partitions.len(), 3);
        assert!(!page.more);
    }

    fn command(start: PartitionBound, end: PartitionBound, limits: DataLimits) -> ReadCommand {
        let key = Column {
            id: ColumnId(0),
            name: "k".into(),
            ty: CqlType::Blob,
            kind: ColumnKind::PartitionKey,
            position: 0,
            order: Order::Ascending,
        };
        let id = TableId::from_u128(1);
        let table = Table::new(id, "ks", "t", vec![key], TableOptions::default());
        ReadCommand {
            table: Arc::new(table),
            partitions: PartitionSelection::Range { start, end },
            clustering: ClusteringSelection {
                slices: vec![Slice::ALL],
                reversed: false,
            },
            columns: Vec::new(),
            filters: Vec::new(),
            limits,
            now_seconds: 0,
            resume: None,
            bypass_cache: false,
            packed: false,
        }
    }

    fn within(key: &DecoratedKey, start: &PartitionBound, end: &PartitionBound) -> bool {
        let behind_start = match start {
            PartitionBound::Unbounded => true,
            PartitionBound::TokenInclusive(token) => key.token() >= *token,
            PartitionBound::TokenExclusive(token) => key.token() > *token,
            PartitionBound::KeyInclusive(start) => key >= start,
            PartitionBound::KeyExclusive(start) => key > start,
        };
        behind_start
            && match end {
                PartitionBound::Unbounded => true,
                PartitionBound::TokenInclusive(token) => key.token() <= *token,
                PartitionBound::TokenExclusive(token) => key.token() < *token,
                PartitionBound::KeyInclusive(end) => key <= end,
                PartitionBound::KeyExclusive(end) => key < end,
            }
    }

    /// What a store answers that has `all`, in ring order. Rows are numbered by their clusterings.
    fn answer<'p>(all: impl Iterator<Item = &'p Partition>, command: &ReadCommand) -> ReadPage {
        let PartitionSelection::Range { start, end } = &command.partitions else {
            unreachable!("ranges only");
        };
        let mut page = ReadPage::default();
        let (mut rows, mut bytes) = (command.limits.rows as usize, command.limits.bytes.into());
        for partition in all {
            let mut partition = partition.clone();
            let wanted = match &command.resume {
                Some(resume) if resume.key == partition.key => {
                    let Some(last) = &resume.clustering else {
                        continue;
                    };
                    partition.rows.retain(|row| row.clustering.0 > last.0);
                    !partition.rows.is_empty()
                }
                Some(resume) => {
                    let start = PartitionBound::KeyExclusive(resume.key.clone());
                    within(&partition.key, &start, end)
                }
                None => within(&partition.key, start, end),
            };
            if !wanted {
                continue;
            }
            if rows == 0 || bytes == 0 {
                page.more = true;
                return page;
            }
            page.more = partition.rows.len() > rows;
            partition.rows.truncate(rows);
            rows -= partition.counted_rows();
            bytes = u64::saturating_sub(bytes, partition.answer_bytes());
            page.partitions.push(partition);
            if page.more {
                return page;
            }
        }
        page
    }

    /// The same from shards, each with its own.
    fn swept(
        all: &[Partition],
        sharder: Sharder,
        command: &ReadCommand,
        partitions: u64,
    ) -> ReadPage {
        let mut sweep = Sweep::new(sharder, command, partitions);
        let mut windows = 0;
        while let Some(window) = sweep.next_window() {
            windows += 1;
            assert!(windows < 40, "the windows grow");
            let own = |shard| {
                let owned = move |p: &&Partition| sharder.shard_of(p.key.token()) == shard;
                all.iter().filter(owned)
            };
            let owners: Vec<ShardId> = window.owners().collect();
            assert!(owners.len() <= usize::from(sharder.shards()));
            let pages = owners.iter().map(|s| answer(own(*s), &window.command));
            sweep.take(pages.collect());
        }
        sweep.finish()
    }

    fn ring(sizes: &[u8]) -> Vec<Partition> {
        let numbered = sizes.iter().enumerate().map(|(number, rows)| {
            let key = Bytes::copy_from_slice(&(number as u32).to_be_bytes());
            let row = |n: u8| Row::new(Clustering([Bytes::copy_from_slice(&[n])].into()));
            Partition {
                key: DecoratedKey::new(key),
                rows: (0..*rows).map(row).collect(),
                ..partition("", 0)
            }
        });
        let mut all: Vec<Partition> = numbered.collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    fn bound() -> impl Strategy<Value = PartitionBound> {
        let key = |n: u32| DecoratedKey::new(Bytes::copy_from_slice(&n.to_be_bytes()));
        prop_oneof![
            4 => Just(PartitionBound::Unbounded),
            1 => (0u32..300).prop_map(move |n| PartitionBound::KeyInclusive(key(n))),
            1 => (0u32..300).prop_map(move |n| PartitionBound::KeyExclusive(key(n))),
            1 => (0u32..300).prop_map(move |n| PartitionBound::TokenInclusive(key(n).token())),
            1 => (0u32..300).prop_map(move |n| PartitionBound::TokenExclusive(key(n).token())),
        ]
    }

    proptest! {
        /// A range of a node is the range of one store that has all, page by page.
        #[test]
        fn shards_answer_as_one(
            sizes in prop::collection::vec(0u8..4, 0..300),
            shards in 2u16..6,
            (start, end) in (bound(), bound()),
            (rows, bytes) in (1u32..200, prop_oneof![Just(u32::MAX), 1u32..2000]),
            estimate in prop_oneof![Just(0u64), 1u64..1000, 1_000_000u64..1_000_000_000],
        ) {
            let (all, sharder) = (ring(&sizes), Sharder::new(shards));
            let limits = DataLimits { bytes, ..limits(rows) };
            let mut command = command(start.clone(), end.clone(), limits);
            let unlimited = ReadCommand { limits: self::limits(u32::MAX), ..command.clone() };
            let expected = answer(all.iter(), &unlimited).partitions;
            prop_assert_eq!(&swept(&all, sharder, &unlimited, estimate).partitions, &expected);
            let mut found: Vec<Partition> = Vec::new();
            for _ in 0..2000 {
                let page = swept(&all, sharder, &command, estimate);
                if bytes == u32::MAX {
                    prop_assert_eq!(&page, &answer(all.iter(), &command));
                }
                let given: usize = page.partitions.iter().map(Partition::counted_rows).sum();
                prop_assert!(given <= rows as usize);
                prop_assert!(!page.more || given > 0, "a page that says so can be followed");
                command.resume = page.partitions.last().map(|last| Resume {
                    key: last.key.clone(),
                    clustering: last.rows.last().map(|row| row.clustering.clone()),
                    remaining_in_partition: u32::MAX,
                });
                for partition in page.partitions {
                    match found.last_mut() {
                        Some(last) if last.key == partition.key => last.rows.extend(partition.rows),
                        _ => found.push(partition),
                    }
                }
                if !page.more {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    /// Of a large table a few rows are read from the shard that has them, and from no other.
    #[test]
    fn few_rows_are_read_from_one_shard() {
        let sharder = Sharder::new(4);
        let start = PartitionBound::TokenInclusive(model::Token(0));
        let command = command(start, PartitionBound::Unbounded, limits(50));
        let mut sweep: Sweep<'_, Partition> = Sweep::new(sharder, &command, 100_000_000);
        let window = sweep.next_window().expect("the first window");
        let owners: Vec<ShardId> = window.owners().collect();
        assert_eq!(owners, [sharder.shard_of(model::Token(0))]);
        sweep.take(vec![ReadPage {
            partitions: ring(&[1; 50]),
            more: true,
            ..ReadPage::default()
        }]);
        assert!(sweep.next_window().is_none());
        assert_eq!(sweep.finish().partitions.len(), 50);
    }
}
