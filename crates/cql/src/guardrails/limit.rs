//! Guardrails with thresholds (`MaxThreshold`, `MinThreshold`).

use super::violation;

/// What the thresholds of a limit count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// How many.
    Count,
    /// Bytes.
    Size,
    /// Microseconds, how far from now.
    Time,
    /// A share of a hundred.
    Percentage,
}

/// A guardrail with thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Keyspaces of users.
    Keyspaces,
    /// Tables and views of users.
    Tables,
    /// Columns of a table.
    ColumnsPerTable,
    /// Indexes of a table.
    SecondaryIndexesPerTable,
    /// Views of a table.
    MaterializedViewsPerTable,
    /// Rows of a page.
    PageSize,
    /// Partitions that a SELECT asks for by IN.
    PartitionKeysInSelect,
    /// What IN on several columns of a key comes to.
    InSelectCartesianProduct,
    /// Bytes of a value.
    ColumnValueSize,
    /// Bytes that are written of a collection.
    CollectionSize,
    /// Elements that are written of a collection.
    ItemsPerCollection,
    /// Fields of a user type.
    FieldsPerUdt,
    /// Dimensions of a vector.
    VectorDimensions,
    /// The fewest copies of a partition.
    MinimumReplicationFactor,
    /// The most copies of a partition.
    MaximumReplicationFactor,
    /// How far ahead of now a statement's timestamp may be.
    MaximumTimestamp,
    /// How far behind now a statement's timestamp may be.
    MinimumTimestamp,
    /// Bytes of a text with a storage-attached index.
    SaiStringTermSize,
    /// Bytes of a frozen value with a storage-attached index.
    SaiFrozenTermSize,
    /// Bytes of a vector with a storage-attached index.
    SaiVectorTermSize,
    /// sstables of a storage-attached index that a query looks into on one shard. Replicas count them; the
    /// coordinator warns.
    SaiSstableIndexesPerQuery,
    /// Bytes of a partition in an sstable. Whoever writes it tells the log; no client is told.
    PartitionSize,
    /// Tombstones of a partition in an sstable. As above.
    PartitionTombstones,
    /// How much of the drive of the data is used: see [`super::DiskUsage`].
    DataDiskUsagePercentage,
}

impl Limit {
    /// All there are.
    pub const ALL: [Limit; 24] = [
        Limit::Keyspaces,
        Limit::Tables,
        Limit::ColumnsPerTable,
        Limit::SecondaryIndexesPerTable,
        Limit::MaterializedViewsPerTable,
        Limit::PageSize,
        Limit::PartitionKeysInSelect,
        Limit::InSelectCartesianProduct,
        Limit::ColumnValueSize,
        Limit::CollectionSize,
        Limit::ItemsPerCollection,
        Limit::FieldsPerUdt,
        Limit::VectorDimensions,
        Limit::MinimumReplicationFactor,
        Limit::MaximumReplicationFactor,
        Limit::MaximumTimestamp,
        Limit::MinimumTimestamp,
        Limit::SaiStringTermSize,
        Limit::SaiFrozenTermSize,
        Limit::SaiVectorTermSize,
        Limit::SaiSstableIndexesPerQuery,
        Limit::PartitionSize,
        Limit::PartitionTombstones,
        Limit::DataDiskUsagePercentage,
    ];

    /// Its name, with which its options begin.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Keyspaces => "keyspaces",
            Limit::Tables => "tables",
            Limit::ColumnsPerTable => "columns_per_table",
            Limit::SecondaryIndexesPerTable => "secondary_indexes_per_table",
            Limit::MaterializedViewsPerTable => "materialized_views_per_table",
            Limit::PageSize => "page_size",
            Limit::PartitionKeysInSelect => "partition_keys_in_select",
            Limit::InSelectCartesianProduct => "in_select_cartesian_product",
            Limit::ColumnValueSize => "column_value_size",
            Limit::CollectionSize => "collection_size",
            Limit::ItemsPerCollection => "items_per_collection",
            Limit::FieldsPerUdt => "fields_per_udt",
            Limit::VectorDimensions => "vector_dimensions",
            Limit::MinimumReplicationFactor => "minimum_replication_factor",
            Limit::MaximumReplicationFactor => "maximum_replication_factor",
            Limit::MaximumTimestamp => "maximum_timestamp",
            Limit::MinimumTimestamp => "minimum_timestamp",
            Limit::SaiStringTermSize => "sai_string_term_size",
            Limit::SaiFrozenTermSize => "sai_frozen_term_size",
            Limit::SaiVectorTermSize => "sai_vector_term_size",
            Limit::SaiSstableIndexesPerQuery => "sai_sstable_indexes_per_query",
            Limit::PartitionSize => "partition_size",
            Limit::PartitionTombstones => "partition_tombstones",
            Limit::DataDiskUsagePercentage => "data_disk_usage_percentage",
        }
    }

    /// What its thresholds count.
    pub fn unit(self) -> Unit {
        match self {
            Limit::ColumnValueSize
            | Limit::CollectionSize
            | Limit::SaiStringTermSize
            | Limit::SaiFrozenTermSize
            | Limit::SaiVectorTermSize
            | Limit::PartitionSize => Unit::Size,
            Limit::MaximumTimestamp | Limit::MinimumTimestamp => Unit::Time,
            Limit::DataDiskUsagePercentage => Unit::Percentage,
            _ => Unit::Count,
        }
    }

    /// Is what is below its thresholds too little?
    pub fn is_minimum(self) -> bool {
        self == Limit::MinimumReplicationFactor
    }

    /// Must its thresholds be in order, and none of them 0 bytes? Cassandra looks at those of all others
    /// (`GuardrailsOptions`).
    pub fn is_checked(self) -> bool {
        !matches!(
            self,
            Limit::SaiStringTermSize | Limit::SaiFrozenTermSize | Limit::SaiVectorTermSize
        )
    }

    fn reason(self) -> Option<&'static str> {
        match self {
            Limit::MaximumTimestamp => Some(
                "Timestamps too far in the future can lead to data that can't be easily overwritten",
            ),
            Limit::MinimumTimestamp => {
                Some("Timestamps too far in the past can cause writes can be unexpectedly lost")
            }
            _ => None,
        }
    }

    /// What clients are told when `value` of `what` is beyond the threshold.
    pub(super) fn violation(
        self,
        is_warning: bool,
        what: &str,
        value: impl std::fmt::Display,
        threshold: impl std::fmt::Display,
    ) -> String {
        let message = match is_warning {
            true => self.warning(what, &value, &threshold),
            false => self.failure(what, &value, &threshold),
        };
        let message = message.unwrap_or_else(|| {
            let kind = if is_warning { "warning" } else { "failure" };
            self.either(what, &value, &format_args!("{kind} threshold"), &threshold)
        });
        violation(self.name(), &message, self.reason())
    }

    /// The words of a warning, where those of an error are others.
    fn warning(
        self,
        what: &str,
        value: &dyn std::fmt::Display,
        threshold: &dyn std::fmt::Display,
    ) -> Option<String> {
        let creating = |noun: &str, nouns: &str| {
            format!(
                "Creating {noun} {what}, current number of {nouns} {value} exceeds warning threshold of \
                 {threshold}."
            )
        };
        Some(match self {
            Limit::Keyspaces => creating("keyspace", "keyspaces"),
            Limit::Tables => creating("table", "tables"),
            Limit::SecondaryIndexesPerTable => creating("secondary index", "indexes"),
            Limit::MaterializedViewsPerTable => creating("materialized view", "views"),
            Limit::ColumnsPerTable => format!(
                "The table {what} has {value} columns, this exceeds the warning threshold of {threshold}."
            ),
            Limit::FieldsPerUdt => format!(
                "The user type {what} has {value} columns, this exceeds the warning threshold of \
                 {threshold}."
            ),
            Limit::PageSize => format!(
                "Query for table {what} with page size {value} exceeds warning threshold of {threshold}."
            ),
            Limit::PartitionKeysInSelect => format!(
                "Query with partition keys in IN clause on table {what}, with number of partition keys \
                 {value} exceeds warning threshold of {threshold}."
            ),
            Limit::InSelectCartesianProduct => format!(
                "The cartesian product of the IN restrictions on {what} produces {value} values, this \
                 exceeds warning threshold of {threshold}."
            ),
            _ => return None,
        })
    }

    /// The words of an error, where those of a warning are others.
    fn failure(
        self,
        what: &str,
        value: &dyn std::fmt::Display,
        threshold: &dyn std::fmt::Display,
    ) -> Option<String> {
        let no_more = |whose: &str, noun: &str, nouns: &str| {
            format!(
                "{whose} have more than {threshold} {nouns}, aborting the creation of {noun} {what}"
            )
        };
        Some(match self {
            Limit::Keyspaces => no_more("Cannot", "keyspace", "keyspaces"),
            Limit::Tables => no_more("Cannot", "table", "tables"),
            Limit::SecondaryIndexesPerTable => {
                no_more("Tables cannot", "secondary index", "secondary indexes")
            }
            Limit::MaterializedViewsPerTable => {
                no_more("Tables cannot", "materialized view", "materialized views")
            }
            Limit::ColumnsPerTable => format!(
                "Tables cannot have more than {threshold} columns, but {value} provided for table {what}"
            ),
            Limit::FieldsPerUdt => format!(
                "User types cannot have more than {threshold} columns, but {value} provided for user \
                 type {what}."
            ),
            Limit::PageSize => format!(
                "Aborting query for table {what}, page size {value} exceeds fail threshold of \
                 {threshold}."
            ),
            Limit::PartitionKeysInSelect => format!(
                "Aborting query with partition keys in IN clause on table {what}, number of partition \
                 keys {value} exceeds fail threshold of {threshold}."
            ),
            Limit::InSelectCartesianProduct => format!(
                "Aborting query because the cartesian product of the IN restrictions on {what} produces \
                 {value} values, this exceeds fail threshold of {threshold}."
            ),
            _ => return None,
        })
    }

    /// The words of both.
    fn either(
        self,
        what: &str,
        value: &dyn std::fmt::Display,
        kind: &dyn std::fmt::Display,
        threshold: &dyn std::fmt::Display,
    ) -> String {
        match self {
            Limit::CollectionSize => format!(
                "Detected collection {what} of size {value}, this exceeds the {kind} of {threshold}."
            ),
            Limit::ItemsPerCollection => format!(
                "Detected collection {what} with {value} items, this exceeds the {kind} of {threshold}."
            ),
            Limit::VectorDimensions => format!(
                "{what} has a vector of {value} dimensions, this exceeds the {kind} of {threshold}."
            ),
            Limit::MinimumReplicationFactor => format!(
                "The keyspace {what} has a replication factor of {value}, below the {kind} of \
                 {threshold}."
            ),
            Limit::MaximumReplicationFactor => format!(
                "The keyspace {what} has a replication factor of {value}, above the {kind} of \
                 {threshold}."
            ),
            Limit::MaximumTimestamp => format!(
                "The modification to table {what} has a timestamp {value} after the maximum allowable \
                 {kind} {threshold}"
            ),
            Limit::MinimumTimestamp => format!(
                "The modification to table {what} has a timestamp {value} before the minimum allowable \
                 {kind} {threshold}"
            ),
            _ => format!(
                "Value of column '{what}' has size {value}, this exceeds the {kind} of {threshold}."
            ),
        }
    }
}
