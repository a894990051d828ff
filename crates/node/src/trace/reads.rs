//! What a trace says of reads (`SinglePartitionReadCommand`, `PartitionRangeReadCommand`, `RangeCommands`).

use model::{
    BoundKind, CqlType, DecoratedKey, PartitionBound, PartitionSelection, ReadCommand, Scanned,
    Slice, Table, Token,
};

use super::Trace;

/// `Index.getEstimatedResultRows` of a storage-attached index, which comes first, and of others of which nothing
/// is known.
const BEST_CARDINALITY: i64 = i64::MAX;
const UNKNOWN_CARDINALITY: i64 = -1;

impl Trace {
    /// A coordinator begins with a range, which has so many parts with replicas of their own and about so many
    /// partitions.
    pub(crate) fn querying(&self, command: &ReadCommand, ranges: usize, partitions: u64) {
        if command.table.is_virtual || !is_range(command) {
            return;
        }
        self.choosing(command);
        self.event("Computing ranges to query");
        let expected = partitions as f32 / ranges.max(1) as f32;
        self.event(format!(
            "Submitting range requests on {ranges} ranges with a concurrency of 1 ({expected:?} rows per range \
             expected)"
        ));
        self.event("Submitted 1 concurrent range requests");
    }

    /// An index was chosen, if there is one for the filters.
    fn choosing(&self, command: &ReadCommand) {
        if let Some(name) = index_of(command) {
            let is_attached = |table: &Table| {
                let mut indexes = table.indexes.iter();
                indexes.any(|index| *index.name == *name && index.is_storage_attached())
            };
            let cardinality = match is_attached(&command.table) {
                true => BEST_CARDINALITY,
                false => UNKNOWN_CARDINALITY,
            };
            self.event(format!(
                "Index mean cardinalities are {name}:{cardinality}. Scanning with {name}."
            ));
        }
    }

    /// Another node has this one read.
    pub(crate) fn asked_to_read(&self, command: &ReadCommand) {
        self.asked(messages(command).0);
        self.reading(command);
    }

    /// This node has read for another.
    pub(crate) fn have_read_for_other(&self, command: &ReadCommand, scanned: Scanned) {
        self.have_read(command, scanned);
        self.answering(messages(command).1);
    }

    /// This node begins to read as a replica.
    pub(crate) fn reading(&self, command: &ReadCommand) {
        let table = &command.table;
        if table.is_virtual {
            return;
        }
        if is_range(command) {
            if let Some(index) = index_of(command) {
                let (keyspace, table) = (&table.keyspace, &table.name);
                self.event(format!(
                    "Executing read on {keyspace}.{table} using index {index}"
                ));
            }
            return;
        }
        self.event(format!(
            "Executing single-partition query on {}",
            table.name
        ));
        self.event("Acquiring sstable references");
        if names_rows(command) {
            self.event("Merging memtable contents");
        }
    }

    /// This node has read as a replica.
    pub(crate) fn have_read(&self, command: &ReadCommand, scanned: Scanned) {
        if command.table.is_virtual {
            return;
        }
        let Scanned {
            live_rows,
            tombstones,
            sstables,
            ..
        } = scanned;
        match &command.partitions {
            PartitionSelection::Key(_) if names_rows(command) => {}
            PartitionSelection::Key(_) => {
                self.event(format!(
                    "Merged data from memtables and {sstables} sstables"
                ));
            }
            PartitionSelection::Range { .. } if index_of(command).is_some() => {}
            PartitionSelection::Range { start, end } => {
                let (start, end) = (bound(start, false), bound(end, true));
                self.event(format!(
                    "Executing seq scan across {sstables} sstables for ({start}, {end}]"
                ));
            }
        }
        self.event(format!(
            "Read {live_rows} live rows and {tombstones} tombstone cells"
        ));
    }

    /// The replicas of a partition know different things of it (`DigestMismatchException`).
    pub(crate) fn mismatch(&self, key: &DecoratedKey) {
        self.event(format!("Digest mismatch: Mismatch for key {}", shown(key)));
    }

    /// A replica is slow, and one more is asked (`AbstractReadExecutor`).
    pub(crate) fn speculating(&self) {
        self.event("Speculating read retry");
    }
}

/// What Cassandra calls the message of a read, and the answer to it (`Verb`).
pub(crate) fn messages(command: &ReadCommand) -> (&'static str, &'static str) {
    match command.partitions {
        PartitionSelection::Key(_) => ("READ_REQ", "READ_RSP"),
        PartitionSelection::Range { .. } => ("RANGE_REQ", "RANGE_RSP"),
    }
}

/// As Cassandra writes a key (`DecoratedKey.toString`).
fn shown(key: &DecoratedKey) -> String {
    let bytes = CqlType::Blob.format_literal(key.key());
    let digits = bytes.trim_start_matches("0x");
    format!("DecoratedKey({}, {digits})", key.token().0)
}

fn is_range(command: &ReadCommand) -> bool {
    matches!(command.partitions, PartitionSelection::Range { .. })
}

fn index_of(command: &ReadCommand) -> Option<String> {
    match command.filters.is_empty() {
        true => None,
        false => storage::asked_index(command),
    }
}

/// Are single rows asked for (`ClusteringIndexNamesFilter`)?
fn names_rows(command: &ReadCommand) -> bool {
    let full = command.table.clustering_key().len();
    let is_row = |slice: &Slice| {
        full == 0
            || slice.start.prefix == slice.end.prefix
                && slice.start.prefix.0.len() == full
                && slice.start.kind == BoundKind::InclusiveStart
                && slice.end.kind == BoundKind::InclusiveEnd
    };
    command.clustering.slices.iter().all(is_row)
}

/// A place of the ring (`Token.KeyBound`, `DecoratedKey`), the end of a range or its start.
fn bound(bound: &PartitionBound, is_end: bool) -> String {
    let with = |side: bool, token: Token| match side {
        true => format!("max({})", token.0),
        false => format!("min({})", token.0),
    };
    match bound {
        PartitionBound::Unbounded => with(false, Token::MIN),
        PartitionBound::TokenInclusive(token) => with(is_end, *token),
        PartitionBound::TokenExclusive(token) => with(!is_end, *token),
        PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => shown(key),
    }
}
