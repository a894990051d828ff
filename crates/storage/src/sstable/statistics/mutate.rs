//! Changing what statistics say of an sstable's place in its table, where they stand
//! (`MetadataSerializer.mutateLevel`, `mutateRepairMetadata`).

use bytes::Bytes;

use super::{CommitLogPosition, EstimatedHistogram, STATS, TombstoneHistogram, contents};
use crate::sstable::error::DecodeError;
use crate::sstable::input::Input;
use crate::sstable::version::Version;

/// Bytes between the commit-log position and the times of deletions: timestamps, deletion times,
/// TTLs and the compression ratio.
const TIMES: usize = 8 + 8 + 4 + 4 + 4 + 4 + 8;

/// The same component with level 0, and not repaired, as far as each is asked for.
pub(crate) fn mutate(
    bytes: &Bytes,
    version: Version,
    (forget_level, forget_repair): (bool, bool),
) -> Result<Vec<u8>, DecodeError> {
    let features = version.features();
    let parts = contents(bytes, features)?;
    let stats = parts.into_iter().find(|(kind, _)| *kind == STATS);
    let (_, range) = stats.ok_or(DecodeError::Invalid("a part is missing"))?;
    let mut input = Input::new(&bytes[range.clone()]);
    EstimatedHistogram::decode(&mut input)?;
    EstimatedHistogram::decode(&mut input)?;
    CommitLogPosition::decode(&mut input)?;
    input.take(TIMES)?;
    TombstoneHistogram::decode(&mut input, features.v5_statistics)?;
    let level = range.start + input.position();
    // Level and time of the repair must be there, too.
    input.take(4 + 8)?;
    let mut mutated = bytes.to_vec();
    if forget_level {
        mutated[level..level + 4].fill(0);
    }
    if forget_repair {
        mutated[level + 4..level + 12].fill(0);
    }
    if features.metadata_checksum {
        let sum = crc32fast::hash(&mutated[range.clone()]);
        mutated[range.end..range.end + 4].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(mutated)
}

#[cfg(test)]
mod tests {
    use super::super::{PARTITIONER, SerializationHeader, Statistics, Stats};
    use super::*;
    use crate::sstable::header::EncodingStats;
    use crate::testing::table;

    #[test]
    fn level_and_repair_are_forgotten_and_nothing_else() {
        let table = table(model::Order::Ascending);
        let statistics = Statistics {
            partitioner: PARTITIONER.to_owned(),
            bloom_filter_fp_chance: 0.01,
            cardinality: Bytes::from_static(b"keys"),
            stats: Stats {
                level: 3,
                repaired_at: 1_795_259_748_682,
                ..Stats::default()
            },
            header: SerializationHeader::of_table(&table, EncodingStats::default()),
        };
        for version in [Version::Nb, Version::Da] {
            forgets(&statistics, version);
        }
    }

    fn forgets(statistics: &Statistics, version: Version) {
        let key = model::DecoratedKey::new(Bytes::from_static(b"key"));
        let bytes = Bytes::from(statistics.encode(version, (&key, &key)));
        let decode =
            |bytes: Vec<u8>| Statistics::decode(&Bytes::from(bytes), version).expect("it is whole");
        let before = decode(bytes.to_vec());
        for (level, repair) in [(true, false), (false, true), (true, true), (false, false)] {
            let mutated = mutate(&bytes, version, (level, repair)).expect("it is whole");
            let mut expected = before.clone();
            if level {
                expected.stats.level = 0;
            }
            if repair {
                expected.stats.repaired_at = 0;
            }
            assert_eq!(decode(mutated), expected);
        }
        for cut in 0..bytes.len() {
            let _ = mutate(&bytes.slice(..cut), version, (true, true));
        }
    }
}
