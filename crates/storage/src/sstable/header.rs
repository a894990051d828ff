//! The serialization header, part of `Statistics.db`: what a reader must know to decode rows.
//!
//! Times in rows are differences to the minima in the header; rows name their columns by position
//! in the header's lists; values are of the types in the header
//! (`org.apache.cassandra.db.SerializationHeader.Component`).

use model::{Column, CqlType, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, Order, Row, Table};

use super::error::DecodeError;
use super::input::{Input, write_vint_bytes};

/// 22 September 2015: what the minima are written as differences to (`EncodingStats`).
const EPOCH_SECONDS: u32 = 1_442_880_000;
const EPOCH_MICROS: i64 = EPOCH_SECONDS as i64 * 1_000_000;

/// Lower bounds of the times in an sstable. The nearer they are, the shorter rows become; what
/// lies below can be written too, only longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingStats {
    /// Microseconds since 1970.
    pub min_timestamp: i64,
    /// Seconds since 1970, of deletions and expirations.
    pub min_local_deletion_time: u32,
    /// Seconds.
    pub min_ttl: i32,
}

impl Default for EncodingStats {
    /// Where nothing is known (`EncodingStats.NO_STATS`).
    fn default() -> EncodingStats {
        EncodingStats {
            min_timestamp: EPOCH_MICROS,
            min_local_deletion_time: EPOCH_SECONDS,
            min_ttl: NO_TTL,
        }
    }
}

impl EncodingStats {
    /// Takes what `EncodingStats.Serializer` writes.
    pub(super) fn decode(input: &mut Input<'_>) -> Result<EncodingStats, DecodeError> {
        Ok(EncodingStats {
            min_timestamp: EPOCH_MICROS.wrapping_add(input.vint()? as i64),
            min_local_deletion_time: EPOCH_SECONDS.wrapping_add(input.vint()? as u32),
            min_ttl: input.vint()? as i32,
        })
    }

    /// The inverse of [`EncodingStats::decode`].
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let timestamp = self.min_timestamp.wrapping_sub(EPOCH_MICROS);
        model::vint::write_unsigned(out, timestamp as u64);
        let local = self.min_local_deletion_time.wrapping_sub(EPOCH_SECONDS);
        write_vint32(out, local);
        write_vint32(out, self.min_ttl as u32);
    }

    /// Lower bounds of two sets of rows (`EncodingStats.mergeWith`): what a compaction of two
    /// sstables writes with.
    pub fn merge(self, other: EncodingStats) -> EncodingStats {
        let none = EncodingStats::default();
        let least = |a: i64, b: i64, none: i64| match (a == none, b == none) {
            (true, _) => b,
            (_, true) => a,
            _ => a.min(b),
        };
        EncodingStats {
            min_timestamp: least(self.min_timestamp, other.min_timestamp, none.min_timestamp),
            min_local_deletion_time: least(
                self.min_local_deletion_time.into(),
                other.min_local_deletion_time.into(),
                none.min_local_deletion_time.into(),
            ) as u32,
            min_ttl: least(self.min_ttl.into(), other.min_ttl.into(), 0) as i32,
        }
    }
}

/// Finds the lower bounds of rows that are going to be written (`EncodingStats.Collector`).
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodingStatsCollector {
    min_timestamp: Option<i64>,
    min_local_deletion_time: Option<u32>,
    min_ttl: Option<i32>,
}

impl EncodingStatsCollector {
    /// Sees one set of times; those that say "none" do not count.
    pub fn update(&mut self, timestamp: i64, ttl: i32, local_deletion_time: u32) {
        fn lower<T: Ord>(least: &mut Option<T>, value: T) {
            if least.as_ref().is_none_or(|l| value < *l) {
                *least = Some(value);
            }
        }
        if timestamp != NO_TIMESTAMP {
            lower(&mut self.min_timestamp, timestamp);
        }
        if ttl != NO_TTL {
            lower(&mut self.min_ttl, ttl);
        }
        if local_deletion_time != NO_DELETION_TIME {
            lower(&mut self.min_local_deletion_time, local_deletion_time);
        }
    }

    /// Sees a deletion.
    pub fn update_deletion(&mut self, deletion: &model::DeletionTime) {
        self.update(deletion.timestamp, NO_TTL, deletion.local_deletion_time);
    }

    /// Sees all of a row.
    pub fn update_row(&mut self, row: &Row) {
        let liveness = &row.liveness;
        self.update(liveness.timestamp, liveness.ttl, liveness.expires_at);
        self.update_deletion(&row.deletion);
        for complex in &row.complex_deletions {
            self.update_deletion(&complex.deletion);
        }
        for cell in &row.cells {
            self.update(cell.timestamp, cell.ttl, cell.local_deletion_time);
        }
    }

    /// What was found.
    pub fn finish(&self) -> EncodingStats {
        let none = EncodingStats::default();
        EncodingStats {
            min_timestamp: self.min_timestamp.unwrap_or(none.min_timestamp),
            min_local_deletion_time: self
                .min_local_deletion_time
                .unwrap_or(none.min_local_deletion_time),
            min_ttl: self.min_ttl.unwrap_or(none.min_ttl),
        }
    }
}

/// A column as the header names it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderColumn {
    /// Its name.
    pub name: String,
    /// Its type when the sstable was written.
    pub ty: CqlType,
}

/// How the rows of an sstable are encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct SerializationHeader {
    /// What times are differences to.
    pub encoding: EncodingStats,
    /// The Java class of the partition key.
    pub key_type: String,
    /// The types of the clustering columns, and their directions.
    pub clustering: Vec<(CqlType, Order)>,
    /// The static columns in the order of their positions.
    pub statics: Vec<HeaderColumn>,
    /// The regular columns in the order of their positions.
    pub regulars: Vec<HeaderColumn>,
}

/// Cassandra's order of columns: those of one cell first, then by name
/// (`ColumnMetadata.compareTo`).
pub(super) fn in_file_order<'t>(columns: impl Iterator<Item = &'t Column>) -> Vec<&'t Column> {
    let mut columns: Vec<&Column> = columns.collect();
    columns.sort_by(|a, b| {
        let simple_first = a.ty.is_multi_cell().cmp(&b.ty.is_multi_cell());
        simple_first.then_with(|| Column::compare_names(&a.name, &b.name))
    });
    columns
}

fn header_columns<'t>(columns: impl Iterator<Item = &'t Column>) -> Vec<HeaderColumn> {
    in_file_order(columns)
        .into_iter()
        .map(|c| HeaderColumn {
            name: c.name.to_string(),
            ty: c.ty.clone(),
        })
        .collect()
}

impl SerializationHeader {
    /// The header of a new sstable of this table.
    pub fn of_table(table: &Table, encoding: EncodingStats) -> SerializationHeader {
        SerializationHeader {
            encoding,
            key_type: CqlType::key_types_to_marshal(table.partition_key().map(|c| &c.ty)),
            clustering: table
                .clustering_key()
                .map(|c| (c.ty.clone(), c.order))
                .collect(),
            statics: header_columns(table.statics()),
            regulars: header_columns(table.regulars()),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encoding.encode(&mut out);
        write_vint_bytes(&mut out, self.key_type.as_bytes());
        model::vint::write_unsigned(&mut out, self.clustering.len() as u64);
        for (ty, order) in &self.clustering {
            write_vint_bytes(&mut out, ordered_marshal(ty, *order).as_bytes());
        }
        for columns in [&self.statics, &self.regulars] {
            model::vint::write_unsigned(&mut out, columns.len() as u64);
            for column in columns {
                write_vint_bytes(&mut out, column.name.as_bytes());
                write_vint_bytes(&mut out, column.ty.to_marshal().as_bytes());
            }
        }
        out
    }

    pub(crate) fn decode(input: &mut Input<'_>) -> Result<SerializationHeader, DecodeError> {
        let encoding = EncodingStats::decode(input)?;
        let key_type = text(input)?.to_owned();
        let mut clustering = Vec::new();
        for _ in 0..count(input)? {
            clustering.push(decode_type(input)?);
        }
        let statics = decode_columns(input)?;
        let regulars = decode_columns(input)?;
        Ok(SerializationHeader {
            encoding,
            key_type,
            clustering,
            statics,
            regulars,
        })
    }
}

/// The Java class of a clustering column.
pub(crate) fn ordered_marshal(ty: &CqlType, order: Order) -> String {
    match order {
        Order::Ascending => ty.to_marshal(),
        Order::Descending => format!(
            "org.apache.cassandra.db.marshal.ReversedType({})",
            ty.to_marshal()
        ),
    }
}

/// Appends a 32-bit number as `writeUnsignedVInt32` does: negative ones are extended to 64 bits.
pub(crate) fn write_vint32(out: &mut Vec<u8>, value: u32) {
    model::vint::write_unsigned(out, i64::from(value as i32) as u64);
}

fn text<'a>(input: &mut Input<'a>) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(input.vint_bytes()?)
        .map_err(|_| DecodeError::Invalid("a type is not UTF-8"))
}

/// A number of things of at least one byte each.
pub(super) fn count(input: &mut Input<'_>) -> Result<usize, DecodeError> {
    let count = input.vint_len()?;
    if count > input.remaining() {
        return Err(DecodeError::Invalid("a count exceeds the file"));
    }
    Ok(count)
}

/// A type, by its Java class.
pub(crate) fn decode_type(input: &mut Input<'_>) -> Result<(CqlType, Order), DecodeError> {
    CqlType::from_marshal_ordered(text(input)?)
        .map_err(|_| DecodeError::Invalid("a type is not known"))
}

fn decode_columns(input: &mut Input<'_>) -> Result<Vec<HeaderColumn>, DecodeError> {
    let mut columns = Vec::new();
    for _ in 0..count(input)? {
        // Tables made through Thrift may have names that are not text; they cannot be asked for.
        let name = String::from_utf8_lossy(input.vint_bytes()?).into_owned();
        let (ty, _) = decode_type(input)?;
        columns.push(HeaderColumn { name, ty });
    }
    Ok(columns)
}
