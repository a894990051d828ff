//! Guardrails that allow something or not (`EnableFlag`).

use super::violation;

/// Something that may be allowed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Switch {
    /// `USING TIMESTAMP`
    UserTimestamps,
    /// `GROUP BY`
    GroupBy,
    /// `DROP TABLE`, `TRUNCATE`
    DropTruncateTable,
    /// `DROP KEYSPACE`
    DropKeyspace,
    /// `CREATE INDEX`
    SecondaryIndexes,
    /// Tables without compression.
    UncompressedTables,
    /// `WITH COMPACT STORAGE`
    CompactTables,
    /// `ALTER TABLE` with columns.
    AlterTable,
    /// Writes of lists that have to read them.
    ReadBeforeWriteListOperations,
    /// `ALLOW FILTERING`
    AllowFiltering,
    /// Keyspaces of `SimpleStrategy`.
    SimpleStrategy,
    /// Tables in time windows whose rows live for ever.
    ZeroTtlOnTwcs,
    /// Filters on several regular columns, of several replicas.
    IntersectFilteringQuery,
    /// Queries by an index over all partitions.
    NonPartitionRestrictedIndexQuery,
    /// The type `vector`.
    VectorType,
}

impl Switch {
    /// All there are.
    pub const ALL: [Switch; 15] = [
        Switch::UserTimestamps,
        Switch::GroupBy,
        Switch::DropTruncateTable,
        Switch::DropKeyspace,
        Switch::SecondaryIndexes,
        Switch::UncompressedTables,
        Switch::CompactTables,
        Switch::AlterTable,
        Switch::ReadBeforeWriteListOperations,
        Switch::AllowFiltering,
        Switch::SimpleStrategy,
        Switch::ZeroTtlOnTwcs,
        Switch::IntersectFilteringQuery,
        Switch::NonPartitionRestrictedIndexQuery,
        Switch::VectorType,
    ];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Switch::UserTimestamps => "user_timestamps",
            Switch::GroupBy => "group_by",
            Switch::SecondaryIndexes => "secondary_indexes",
            Switch::CompactTables => "compact_tables",
            Switch::AlterTable => "alter_table",
            Switch::ReadBeforeWriteListOperations => "read_before_write_list_operations",
            Switch::AllowFiltering => "allow_filtering",
            Switch::SimpleStrategy => "simplestrategy",
            Switch::ZeroTtlOnTwcs => "zero_ttl_on_twcs",
            Switch::IntersectFilteringQuery => "intersect_filtering_query",
            other => other.option(),
        }
    }

    /// The option that allows it.
    pub fn option(self) -> &'static str {
        match self {
            Switch::UserTimestamps => "user_timestamps_enabled",
            Switch::GroupBy => "group_by_enabled",
            Switch::DropTruncateTable => "drop_truncate_table_enabled",
            Switch::DropKeyspace => "drop_keyspace_enabled",
            Switch::SecondaryIndexes => "secondary_indexes_enabled",
            Switch::UncompressedTables => "uncompressed_tables_enabled",
            Switch::CompactTables => "compact_tables_enabled",
            Switch::AlterTable => "alter_table_enabled",
            Switch::ReadBeforeWriteListOperations => "read_before_write_list_operations_enabled",
            Switch::AllowFiltering => "allow_filtering_enabled",
            Switch::SimpleStrategy => "simplestrategy_enabled",
            Switch::ZeroTtlOnTwcs => "zero_ttl_on_twcs_enabled",
            Switch::IntersectFilteringQuery => "intersect_filtering_query_enabled",
            Switch::NonPartitionRestrictedIndexQuery => {
                "non_partition_restricted_index_query_enabled"
            }
            Switch::VectorType => "vector_type_enabled",
        }
    }

    /// May it be allowed with a warning?
    pub fn warns(self) -> bool {
        matches!(
            self,
            Switch::ZeroTtlOnTwcs | Switch::IntersectFilteringQuery
        )
    }

    fn feature(self) -> &'static str {
        match self {
            Switch::UserTimestamps => "User provided timestamps (USING TIMESTAMP)",
            Switch::GroupBy => "GROUP BY functionality",
            Switch::DropTruncateTable => "DROP and TRUNCATE TABLE functionality",
            Switch::DropKeyspace => "DROP KEYSPACE functionality",
            Switch::SecondaryIndexes => "User creation of secondary indexes",
            Switch::UncompressedTables => "Uncompressed table",
            Switch::CompactTables => "Creation of new COMPACT STORAGE tables",
            Switch::AlterTable => "User access to ALTER TABLE statement for column mutation",
            Switch::ReadBeforeWriteListOperations => "List operation requiring read before write",
            Switch::AllowFiltering => "Querying with ALLOW FILTERING",
            Switch::SimpleStrategy => "SimpleStrategy",
            Switch::ZeroTtlOnTwcs => {
                "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy"
            }
            Switch::IntersectFilteringQuery => {
                "Filtering query with intersection on mutable columns at consistency level requiring \
                 coordinator reconciliation"
            }
            Switch::NonPartitionRestrictedIndexQuery => "Non-partition key restricted query",
            Switch::VectorType => "usage of the vector type",
        }
    }

    fn reason(self) -> Option<&'static str> {
        match self {
            Switch::AllowFiltering => Some(
                "ALLOW FILTERING can potentially visit all the data in the table and have unpredictable \
                 performance.",
            ),
            Switch::ZeroTtlOnTwcs => Some(
                "It is suspicious to use default_time_to_live set to 0 with such compaction strategy. \
                 Please keep in mind that data will not start to automatically expire after they are \
                 older than a respective compaction window unit of a certain size. Please set TTL for \
                 your INSERT or UPDATE statements if you expect data to be expired as table settings \
                 will not do it. ",
            ),
            Switch::IntersectFilteringQuery => Some(
                "Filtering queries involving an intersection on multiple mutable (i.e. non-key) columns \
                 over unrepaired data at read consistency levels that would require coordinator \
                 reconciliation may violate the guarantees of those consistency levels.",
            ),
            Switch::NonPartitionRestrictedIndexQuery => Some(
                "Executing a query on secondary indexes without partition key restriction might degrade \
                 performance",
            ),
            _ => None,
        }
    }

    /// What clients are told of it; `feature` in place of its own.
    pub(super) fn violation(self, feature: Option<&str>, verdict: &str) -> String {
        let feature = feature.unwrap_or(self.feature());
        violation(self.name(), &format!("{feature} {verdict}"), self.reason())
    }
}
