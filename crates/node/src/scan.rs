//! Putting together what the shards of a node answer to a read of a range.
//!
//! Neighbouring tokens belong to different shards, so every shard is asked for the whole range and
//! answers with its partitions in the order of the ring, as many as the limits allow. Where a shard
//! says that it has more, what lies behind its last partition is not complete yet: the page ends
//! there. No partition is on two shards, so sorting is all the merging there is.

use model::{DataLimits, DecoratedKey, Partition, ReadPage};

/// One page from the answers of all shards, within `limits`.
pub(crate) fn merge_pages(pages: Vec<ReadPage>, limits: &DataLimits) -> ReadPage {
    let mut more = false;
    let mut frontier: Option<DecoratedKey> = None;
    for page in pages.iter().filter(|page| page.more) {
        more = true;
        if let Some(last) = page.partitions.last()
            && frontier.as_ref().is_none_or(|key| last.key < *key)
        {
            frontier = Some(last.key.clone());
        }
    }

    let mut partitions: Vec<Partition> =
        pages.into_iter().flat_map(|page| page.partitions).collect();
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    if let Some(frontier) = frontier {
        partitions.truncate(partitions.partition_point(|p| p.key <= frontier));
    }
    more |= truncate_rows(&mut partitions, limits.rows as usize);
    ReadPage { partitions, more }
}

/// Cuts off what comes after `limit` rows; says whether that was anything.
fn truncate_rows(partitions: &mut Vec<Partition>, limit: usize) -> bool {
    let mut left = limit;
    for at in 0..partitions.len() {
        let partition = &mut partitions[at];
        // A partition with nothing but static data shows as one row.
        let rows = partition.rows.len().max(1);
        if rows > left {
            partition.rows.truncate(left);
            let keep = at + usize::from(left > 0);
            partitions.truncate(keep);
            return true;
        }
        left -= rows;
    }
    false
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::{Clustering, DeletionTime, Row};

    use super::*;

    fn partition(key: &'static str, rows: usize) -> Partition {
        Partition {
            key: DecoratedKey::new(Bytes::from_static(key.as_bytes())),
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: (0..rows).map(|_| Row::new(Clustering::EMPTY)).collect(),
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
        };
        let odd = ReadPage {
            partitions: vec![all[1].clone(), all[3].clone(), all[5].clone()],
            more: false,
        };
        let page = merge_pages(vec![even, odd], &limits(100));
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
            }],
            &limits(3),
        );
        assert_eq!(page.partitions.len(), 2);
        assert_eq!(page.partitions[1].rows.len(), 1);
        assert!(page.more);

        let page = merge_pages(
            vec![ReadPage {
                partitions: all,
                more: false,
            }],
            &limits(6),
        );
        assert_eq!(page.partitions.len(), 3);
        assert!(!page.more);
    }
}
