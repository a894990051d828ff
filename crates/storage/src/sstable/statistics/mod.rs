//! `Statistics.db`: what an sstable holds and how it is encoded.
//!
//! Four components behind a table of contents, each with a checksum since version `na`
//! (`org.apache.cassandra.io.sstable.metadata.MetadataSerializer`): *validation* (partitioner,
//! chance of the bloom filter), *compaction* (the cardinality of the keys), *stats* and the
//! serialization *header*.

mod cardinality;
mod collector;
mod histogram;
mod mutate;
mod tombstones;

pub(crate) use collector::Collector;
pub use histogram::EstimatedHistogram;
pub(crate) use mutate::mutate;
pub use tombstones::TombstoneHistogram;

use bytes::Bytes;
use model::vint::write_unsigned;
use model::{
    Bound, BoundKind, Clustering, CqlType, DecoratedKey, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL,
    Order, Slice,
};
use smallvec::SmallVec;
use uuid::Uuid;

use super::decode;
use super::encode;
use super::error::DecodeError;
use super::header::{SerializationHeader, decode_type, ordered_marshal};
use super::input::{
    Input, legacy_deletion_time, to_legacy_deletion_time, write_short_bytes, write_vint_bytes,
};
use super::version::{Features, Version};

/// The partitioner whose order the partitions are in.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// 155 buckets reach to 3.5 TB.
const PARTITION_HISTOGRAM_BUCKETS: usize = 155;
/// 118 buckets reach to 4 billion cells.
const CELL_HISTOGRAM_BUCKETS: usize = 118;
/// `compression_ratio` where nothing is compressed.
const NO_COMPRESSION_RATIO: f64 = -1.0;
/// `Double.NaN`.
const JAVA_NAN: u64 = 0x7ff8_0000_0000_0000;

const VALIDATION: u32 = 0;
const COMPACTION: u32 = 1;
const STATS: u32 = 2;
const HEADER: u32 = 3;

/// All of `Statistics.db`.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The Java class of the partitioner.
    pub partitioner: String,
    /// The chance for which the bloom filter was made.
    pub bloom_filter_fp_chance: f64,
    /// The serialized estimator of the number of keys.
    pub cardinality: Bytes,
    /// What the sstable holds.
    pub stats: Stats,
    /// How its rows are encoded.
    pub header: SerializationHeader,
}

/// What an sstable holds (`StatsMetadata`).
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Bytes of the partitions, before compression.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of the partitions.
    pub cells_per_partition: EstimatedHistogram,
    /// Microseconds since 1970.
    pub min_timestamp: i64,
    /// Microseconds since 1970.
    pub max_timestamp: i64,
    /// Seconds since 1970; [`NO_DELETION_TIME`] if nothing is deleted or expires.
    pub min_local_deletion_time: u32,
    /// Seconds since 1970; [`NO_DELETION_TIME`] if something neither is deleted nor expires.
    pub max_local_deletion_time: u32,
    /// Seconds; [`NO_TTL`] if something has none.
    pub min_ttl: i32,
    /// Seconds.
    pub max_ttl: i32,
    /// Compressed size by size; -1 if not compressed.
    pub compression_ratio: f64,
    /// When tombstones can be dropped.
    pub drop_times: TombstoneHistogram,
    /// The level in leveled compaction.
    pub level: u32,
    /// When it was repaired, in milliseconds since 1970; 0 if never.
    pub repaired_at: i64,
    /// All rows and range tombstones lie in here; `None` where it is not known for sure.
    pub covered: Option<Slice>,
    /// Has it counters of Cassandra before 2.1?
    pub has_legacy_counter_shards: bool,
    /// Columns with a value, of all rows together.
    pub columns_set: i64,
    /// Rows, static ones included.
    pub rows: i64,
    /// Which parts of the commit log of [`Stats::originating_host`] it holds.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// The repair session it is in.
    pub pending_repair: Option<Uuid>,
    /// Does it hold transiently replicated data?
    pub is_transient: bool,
    /// The node that wrote it.
    pub originating_host: Option<Uuid>,
    /// May there be deletions of whole partitions?
    pub has_partition_deletions: bool,
    /// How much of the node's tokens it covers, if a compaction of Cassandra said so.
    pub token_space_coverage: Option<f64>,
}

/// A place in Cassandra's commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitLogPosition {
    /// The segment.
    pub segment: i64,
    /// Where in it.
    pub position: i32,
}

impl CommitLogPosition {
    /// Before everything.
    pub const NONE: CommitLogPosition = CommitLogPosition {
        segment: -1,
        position: 0,
    };

    fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.segment.to_be_bytes());
        out.extend(self.position.to_be_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<CommitLogPosition, DecodeError> {
        Ok(CommitLogPosition {
            segment: input.i64()?,
            position: input.i32()?,
        })
    }
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            partition_sizes: EstimatedHistogram::new(PARTITION_HISTOGRAM_BUCKETS),
            cells_per_partition: EstimatedHistogram::new(CELL_HISTOGRAM_BUCKETS),
            min_timestamp: NO_TIMESTAMP,
            max_timestamp: i64::MAX,
            min_local_deletion_time: NO_DELETION_TIME,
            max_local_deletion_time: NO_DELETION_TIME,
            min_ttl: NO_TTL,
            max_ttl: NO_TTL,
            compression_ratio: NO_COMPRESSION_RATIO,
            drop_times: TombstoneHistogram::default(),
            level: 0,
            repaired_at: 0,
            covered: None,
            has_legacy_counter_shards: false,
            columns_set: 0,
            rows: 0,
            commit_log_intervals: Vec::new(),
            pending_repair: None,
            is_transient: false,
            originating_host: None,
            has_partition_deletions: false,
            token_space_coverage: None,
        }
    }
}

impl Stats {
    /// How many tombstones and expired cells could be dropped if `gc_before` (seconds since 1970)
    /// is the time up to which they are not needed any more, by cells in all: the ratio that
    /// `tombstone_threshold` is compared with.
    pub fn droppable_tombstone_ratio(&self, gc_before: i64) -> f64 {
        let cells = self
            .cells_per_partition
            .mean()
            .saturating_mul(self.cells_per_partition.count());
        if cells > 0 {
            self.drop_times.sum(gc_before) / cells as f64
        } else {
            0.0
        }
    }

    /// Of an sstable with these clustering columns and this first and last key.
    fn encode(
        &self,
        features: Features,
        clustering: &[(CqlType, Order)],
        (first, last): (&DecoratedKey, &DecoratedKey),
    ) -> Vec<u8> {
        let v5 = features.v5_statistics;
        let mut out = Vec::with_capacity(8192);
        self.partition_sizes.encode(&mut out);
        self.cells_per_partition.encode(&mut out);
        let intervals = &self.commit_log_intervals;
        let upper = intervals.last().map_or(CommitLogPosition::NONE, |i| i.1);
        upper.encode(&mut out);
        out.extend(self.min_timestamp.to_be_bytes());
        out.extend(self.max_timestamp.to_be_bytes());
        for time in [self.min_local_deletion_time, self.max_local_deletion_time] {
            if v5 {
                out.extend(time.to_be_bytes());
            } else {
                out.extend(to_legacy_deletion_time(time).to_be_bytes());
            }
        }
        out.extend(self.min_ttl.to_be_bytes());
        out.extend(self.max_ttl.to_be_bytes());
        out.extend(self.compression_ratio.to_be_bytes());
        self.drop_times.encode(&mut out, v5);
        out.extend(self.level.to_be_bytes());
        out.extend(self.repaired_at.to_be_bytes());
        let all = Slice::ALL;
        let covered = self.covered.as_ref().unwrap_or(&all);
        if v5 {
            encode_slice(&mut out, covered, clustering);
        } else {
            encode_values(&mut out, &covered.start);
            encode_values(&mut out, &covered.end);
        }
        out.push(self.has_legacy_counter_shards.into());
        out.extend(self.columns_set.to_be_bytes());
        out.extend(self.rows.to_be_bytes());
        let lower = intervals.first().map_or(CommitLogPosition::NONE, |i| i.0);
        lower.encode(&mut out);
        out.extend((intervals.len() as u32).to_be_bytes());
        for (start, end) in intervals {
            start.encode(&mut out);
            end.encode(&mut out);
        }
        encode_uuid(&mut out, self.pending_repair);
        out.push(self.is_transient.into());
        encode_uuid(&mut out, self.originating_host);
        if v5 {
            out.push(self.has_partition_deletions.into());
            write_vint_bytes(&mut out, first.key());
            write_vint_bytes(&mut out, last.key());
            // Only compactions that split by token know it.
            match self.token_space_coverage {
                Some(coverage) => out.extend(coverage.to_be_bytes()),
                None => out.extend(JAVA_NAN.to_be_bytes()),
            }
        }
        out
    }

    fn decode(
        bytes: &Bytes,
        input: &mut Input<'_>,
        features: Features,
    ) -> Result<Stats, DecodeError> {
        let v5 = features.v5_statistics;
        let mut stats = Stats {
            partition_sizes: EstimatedHistogram::decode(input)?,
            cells_per_partition: EstimatedHistogram::decode(input)?,
            ..Stats::default()
        };
        // The ends of the intervals below, for versions that have none.
        CommitLogPosition::decode(input)?;
        stats.min_timestamp = input.i64()?;
        stats.max_timestamp = input.i64()?;
        let times = [input.u32()?, input.u32()?].map(|time| {
            if v5 {
                time
            } else {
                legacy_deletion_time(time as i32)
            }
        });
        [stats.min_local_deletion_time, stats.max_local_deletion_time] = times;
        stats.min_ttl = input.i32()?;
        stats.max_ttl = input.i32()?;
        stats.compression_ratio = input.f64()?;
        stats.drop_times = TombstoneHistogram::decode(input, v5)?;
        stats.level = input.u32()?;
        stats.repaired_at = input.i64()?;
        if v5 {
            stats.covered = Some(decode_slice(bytes, input)?);
        } else {
            let start = decode_values(bytes, input, BoundKind::InclusiveStart)?;
            let end = decode_values(bytes, input, BoundKind::InclusiveEnd)?;
            stats.covered = features.accurate_min_max.then_some(Slice { start, end });
        }
        stats.has_legacy_counter_shards = input.bool()?;
        stats.columns_set = input.i64()?;
        stats.rows = input.i64()?;
        stats.decode_origin(input, features)?;
        Ok(stats)
    }

    /// Where the sstable comes from.
    fn decode_origin(
        &mut self,
        input: &mut Input<'_>,
        features: Features,
    ) -> Result<(), DecodeError> {
        CommitLogPosition::decode(input)?;
        for _ in 0..input.count(24)? {
            let start = CommitLogPosition::decode(input)?;
            let end = CommitLogPosition::decode(input)?;
            self.commit_log_intervals.push((start, end));
        }
        if features.repair_session {
            self.pending_repair = decode_uuid(input)?;
            self.is_transient = input.bool()?;
        }
        if features.originating_host {
            self.originating_host = decode_uuid(input)?;
        }
        self.has_partition_deletions = if features.v5_statistics {
            input.bool()?
        } else {
            // Not recorded: there is none for sure only if nothing is deleted at all.
            self.min_local_deletion_time != NO_DELETION_TIME
        };
        if features.v5_statistics {
            // The first and the last key, which the index has too.
            input.vint_bytes()?;
            input.vint_bytes()?;
            self.token_space_coverage = Some(input.f64()?).filter(|coverage| !coverage.is_nan());
        }
        Ok(())
    }
}

/// A bound as it was written before version `oa`.
fn encode_values(out: &mut Vec<u8>, bound: &Bound) {
    let values = &bound.prefix.0;
    out.extend((values.len() as u32).to_be_bytes());
    for value in values {
        write_short_bytes(out, value);
    }
}

/// Types and bounds of a slice as they are written since version `oa`.
fn encode_slice(out: &mut Vec<u8>, slice: &Slice, clustering: &[(CqlType, Order)]) {
    write_unsigned(out, clustering.len() as u64);
    for (ty, order) in clustering {
        write_vint_bytes(out, ordered_marshal(ty, *order).as_bytes());
    }
    let lengths: Vec<_> = clustering.iter().map(|(ty, _)| ty.fixed_length()).collect();
    for bound in [&slice.start, &slice.end] {
        // What is written as a clustering can be written as a bound.
        let _ = encode::write_plain_bound(out, bound, &lengths);
    }
}

fn encode_uuid(out: &mut Vec<u8>, uuid: Option<Uuid>) {
    out.push(uuid.is_some().into());
    if let Some(uuid) = uuid {
        out.extend(uuid.as_bytes());
    }
}

fn decode_uuid(input: &mut Input<'_>) -> Result<Option<Uuid>, DecodeError> {
    if !input.bool()? {
        return Ok(None);
    }
    let bytes = input.take(16)?;
    Ok(Uuid::from_slice(bytes).ok())
}

/// The values of a bound as they were written before version `oa`.
fn decode_values(
    bytes: &Bytes,
    input: &mut Input<'_>,
    kind: BoundKind,
) -> Result<Bound, DecodeError> {
    let mut values = SmallVec::new();
    for _ in 0..input.count(2)? {
        values.push(bytes.slice_ref(input.short_bytes()?));
    }
    Ok(Bound {
        prefix: Clustering(values),
        kind,
    })
}

/// Types and bounds of a slice as they are written since version `oa`.
fn decode_slice(bytes: &Bytes, input: &mut Input<'_>) -> Result<Slice, DecodeError> {
    let mut lengths = Vec::new();
    for _ in 0..input.vint_len()? {
        lengths.push(decode_type(input)?.0.fixed_length());
    }
    let mut bound = || {
        let code = input.u8()?;
        decode::bound(bytes, input, &lengths, code).map(|place| place.bound)
    };
    Ok(Slice {
        start: bound()?,
        end: bound()?,
    })
}

impl Statistics {
    /// How many distinct keys there are, estimated; `None` if the estimator is of an unknown form.
    pub fn estimated_keys(&self) -> Option<u64> {
        cardinality::estimate(&self.cardinality)
    }

    /// The bytes of the component of an sstable with this first and last key.
    pub(crate) fn encode(&self, version: Version, keys: (&DecoratedKey, &DecoratedKey)) -> Vec<u8> {
        let stats = &self.stats;
        let stats = stats.encode(version.features(), &self.header.clustering, keys);
        let mut validation = Vec::new();
        write_short_bytes(&mut validation, self.partitioner.as_bytes());
        validation.extend(self.bloom_filter_fp_chance.to_be_bytes());
        let mut compaction = Vec::new();
        compaction.extend((self.cardinality.len() as u32).to_be_bytes());
        compaction.extend(&self.cardinality);
        let components = [
            (VALIDATION, validation),
            (COMPACTION, compaction),
            (STATS, stats),
            (HEADER, self.header.encode()),
        ];
        let count = components.len() as u32;
        let mut out = Vec::new();
        out.extend(count.to_be_bytes());
        out.extend(crc32fast::hash(&out).to_be_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&count.to_be_bytes());
        let mut position = 4 + 4 + 8 * count + 4;
        for (kind, content) in &components {
            let entry = [kind.to_be_bytes(), position.to_be_bytes()].concat();
            checksum.update(&entry);
            out.extend(entry);
            position += content.len() as u32 + 4;
        }
        out.extend(checksum.finalize().to_be_bytes());
        for (_, content) in &components {
            out.extend(content);
            out.extend(crc32fast::hash(content).to_be_bytes());
        }
        out
    }

    /// Reads the component. The error comes with an offset in the file.
    pub(crate) fn decode(
        bytes: &Bytes,
        version: Version,
    ) -> Result<Statistics, (u64, DecodeError)> {
        let features = version.features();
        let contents = contents(bytes, features).map_err(|e| (0, e))?;
        let part = |kind: u32| {
            contents
                .iter()
                .find(|(k, _)| *k == kind)
                .map(|(_, range)| range.clone())
                .ok_or((0, DecodeError::Invalid("a part is missing")))
        };
        let at = |range: &std::ops::Range<usize>| {
            let start = range.start as u64;
            move |e| (start, e)
        };

        let range = part(VALIDATION)?;
        let mut input = Input::new(&bytes[range.clone()]);
        let partitioner = input.utf().map_err(at(&range))?.to_owned();
        let bloom_filter_fp_chance = input.f64().map_err(at(&range))?;

        let range = part(COMPACTION)?;
        let mut input = Input::new(&bytes[range.clone()]);
        let cardinality = bytes.slice_ref(input.int_bytes().map_err(at(&range))?);

        let range = part(STATS)?;
        let mut input = Input::new(&bytes[range.clone()]);
        let stats = Stats::decode(bytes, &mut input, features).map_err(at(&range))?;

        let range = part(HEADER)?;
        let mut input = Input::new(&bytes[range.clone()]);
        let header = SerializationHeader::decode(&mut input).map_err(at(&range))?;
        Ok(Statistics {
            partitioner,
            bloom_filter_fp_chance,
            cardinality,
            stats,
            header,
        })
    }
}

/// Where each part lies; checks the checksums.
fn contents(
    bytes: &Bytes,
    features: Features,
) -> Result<Vec<(u32, std::ops::Range<usize>)>, DecodeError> {
    const MOST_PARTS: u32 = 16;
    const WRONG: DecodeError = DecodeError::Invalid("the checksum does not match");
    let mut input = Input::new(bytes);
    let mut checksum = crc32fast::Hasher::new();
    let count = input.u32()?;
    checksum.update(&count.to_be_bytes());
    if features.metadata_checksum && input.u32()? != checksum.clone().finalize() {
        return Err(WRONG);
    }
    if count > MOST_PARTS {
        return Err(DecodeError::Invalid("it has too many parts"));
    }
    let mut starts = Vec::new();
    for _ in 0..count {
        let (kind, position) = (input.u32()?, input.u32()?);
        checksum.update(&kind.to_be_bytes());
        checksum.update(&position.to_be_bytes());
        starts.push((kind, position as usize));
    }
    if features.metadata_checksum && input.u32()? != checksum.finalize() {
        return Err(WRONG);
    }
    let mut contents = Vec::new();
    for (kind, start) in &starts {
        // Other servers than Cassandra do not keep the parts in the order of the table.
        let behind = starts.iter().map(|(_, s)| *s).filter(|s| s > start);
        let mut end = behind.min().unwrap_or(bytes.len());
        let part = bytes.get(*start..end).ok_or(DecodeError::Incomplete)?;
        if features.metadata_checksum {
            let content = part.len().checked_sub(4).ok_or(DecodeError::Incomplete)?;
            let (content, sum) = part.split_at(content);
            if sum != crc32fast::hash(content).to_be_bytes() {
                return Err(WRONG);
            }
            end -= 4;
        }
        contents.push((*kind, *start..end));
    }
    Ok(contents)
}
