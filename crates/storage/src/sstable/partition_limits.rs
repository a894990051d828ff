//! Partitions that are larger than operators want them. Whoever writes one says so in the log, and writes it
//! (`SortedTableWriter.guardPartitionThreshold`); no client is told.

use std::fmt;
use std::path::Path;

use model::{DecoratedKey, Table};

use crate::dump::key_text;

/// From where on the log tells of a partition that is written to an sstable. Nothing is set of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Bytes before compression (`partition_size_warn_threshold`, `partition_size_fail_threshold`).
    pub size: PartitionLimit,
    /// Cells that are deleted or have expired, and deletions (`partition_tombstones_warn_threshold`,
    /// `partition_tombstones_fail_threshold`).
    pub tombstones: PartitionLimit,
}

/// What may be exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionLimit {
    /// Beyond it there is a warning.
    pub warn: Option<u64>,
    /// Beyond it there is an error in its place. The partition is written all the same.
    pub fail: Option<u64>,
}

/// A partition beyond a limit, in Cassandra's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// Is it beyond what is an error?
    is_failure: bool,
    message: String,
}

impl Violation {
    /// Tells the log.
    pub(super) fn log(&self) {
        let Violation {
            is_failure,
            message,
        } = self;
        match is_failure {
            true => tracing::error!("{message}"),
            false => tracing::warn!("{message}"),
        }
    }
}

impl PartitionLimits {
    /// What there is to say of a partition of `bytes` with so many tombstones in the sstable whose data is
    /// at `path`.
    pub(super) fn violations(
        &self,
        (table, key): (&Table, &DecoratedKey),
        path: &Path,
        (bytes, tombstones): (u64, u64),
    ) -> impl Iterator<Item = Violation> {
        let place = || Place { table, key, path };
        let size = self.size.exceeded_by(bytes).map(|excess| Violation {
            is_failure: excess.is_failure(),
            message: format!(
                "Guardrail partition_size violated: Partition {} has size {bytes}, this exceeds the {excess}. \
                 Too large partitions can cause performance problems.",
                place()
            ),
        });
        let tombstones = self.tombstones.exceeded_by(tombstones).map(|excess| Violation {
            is_failure: excess.is_failure(),
            message: format!(
                "Guardrail partition_tombstones violated: Partition {} has {tombstones} tombstones, this \
                 exceeds the {excess}. Partitions with too many tombstones can cause performance problems.",
                place()
            ),
        });
        size.into_iter().chain(tombstones)
    }
}

impl PartitionLimit {
    fn exceeded_by(&self, value: u64) -> Option<Excess> {
        let beyond = |threshold: &u64| value > *threshold;
        let failure = self.fail.filter(beyond).map(Excess::Failure);
        failure.or_else(|| self.warn.filter(beyond).map(Excess::Warning))
    }
}

/// The threshold that a value is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    Warning(u64),
    Failure(u64),
}

impl Excess {
    fn is_failure(self) -> bool {
        matches!(self, Excess::Failure(_))
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Warning(threshold) => write!(f, "warning threshold of {threshold}"),
            Excess::Failure(threshold) => write!(f, "failure threshold of {threshold}"),
        }
    }
}

/// A partition in an sstable.
struct Place<'p> {
    table: &'p Table,
    key: &'p DecoratedKey,
    path: &'p Path,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { table, key, path } = self;
        let key = key_text(table, key);
        let (keyspace, name) = (&table.keyspace, &table.name);
        write!(f, "{keyspace}.{name}:{key} on sstable {}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::Order;

    use super::*;
    use crate::testing::table;

    #[test]
    fn the_log_is_told_in_cassandras_words() {
        let limits = PartitionLimits {
            size: PartitionLimit {
                warn: Some(1024),
                fail: Some(4096),
            },
            tombstones: PartitionLimit {
                warn: Some(2),
                fail: None,
            },
        };
        let (table, path) = (table(Order::Ascending), Path::new("/d/nb-1-big-Data.db"));
        let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 7]));
        let told = |bytes, tombstones| -> Vec<(bool, String)> {
            let violations = limits.violations((&table, &key), path, (bytes, tombstones));
            violations.map(|v| (v.is_failure, v.message)).collect()
        };
        assert_eq!(told(1024, 2), []);
        let warning = "Guardrail partition_size violated: Partition ks.t:7 on sstable /d/nb-1-big-Data.db has \
                       size 3041, this exceeds the warning threshold of 1024. Too large partitions can cause \
                       performance problems.";
        assert_eq!(told(3041, 0), [(false, warning.to_owned())]);
        let failure = "Guardrail partition_size violated: Partition ks.t:7 on sstable /d/nb-1-big-Data.db has \
                       size 9043, this exceeds the failure threshold of 4096. Too large partitions can cause \
                       performance problems.";
        let tombstones = "Guardrail partition_tombstones violated: Partition ks.t:7 on sstable \
                          /d/nb-1-big-Data.db has 4 tombstones, this exceeds the warning threshold of 2. \
                          Partitions with too many tombstones can cause performance problems.";
        let both = [(true, failure.to_owned()), (false, tombstones.to_owned())];
        assert_eq!(told(9043, 4), both);
    }

    #[test]
    fn an_error_takes_the_place_of_a_warning() {
        let limit = PartitionLimit {
            warn: Some(10),
            fail: Some(20),
        };
        assert_eq!(limit.exceeded_by(10), None);
        assert_eq!(limit.exceeded_by(11), Some(Excess::Warning(10)));
        assert_eq!(limit.exceeded_by(20), Some(Excess::Warning(10)));
        assert_eq!(limit.exceeded_by(21), Some(Excess::Failure(20)));
        assert_eq!(PartitionLimit::default().exceeded_by(u64::MAX), None);
        let alone = PartitionLimit {
            warn: None,
            fail: Some(0),
        };
        assert_eq!(alone.exceeded_by(1), Some(Excess::Failure(0)));
    }
}
