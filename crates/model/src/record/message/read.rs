//! Reads between nodes.

use std::sync::Arc;

use bytes::Bytes;

use super::mutation::read_key;
use super::{MessageError, Numbering, read_slice, read_table, write_table};
use crate::record::read::room;
use crate::record::write::{write_bound, write_clustering};
use crate::record::{Input, RecordError, write_bytes};
use crate::{
    ClusteringSelection, ColumnId, ColumnKind, DataLimits, FilterOperator, PartitionBound,
    PartitionSelection, ReadCommand, Resume, RowFilter, Table, TableId, Token, vint,
};

/// What a replica is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReadKind {
    /// The live rows: nobody else is asked.
    Live = 0,
    /// All that it knows ([`crate::VersionPage`]).
    Versions = 1,
    /// The digest of that.
    Digest = 2,
}

/// How long a read is that asks for a row or two.
const USUAL_BYTES: usize = 128;

/// Filters, in the order of their codes.
const OPERATORS: [FilterOperator; 12] = [
    FilterOperator::Equal,
    FilterOperator::Less,
    FilterOperator::LessOrEqual,
    FilterOperator::Greater,
    FilterOperator::GreaterOrEqual,
    FilterOperator::Contains,
    FilterOperator::ContainsKey,
    FilterOperator::ContainsEntry,
    FilterOperator::LikePrefix,
    FilterOperator::LikeSuffix,
    FilterOperator::LikeContains,
    FilterOperator::LikeMatches,
];

/// Writes a read, with the names of columns or without.
pub fn encode_read(kind: ReadKind, command: &ReadCommand, named: bool) -> Vec<u8> {
    let table = &command.table;
    let mut out = Vec::with_capacity(USUAL_BYTES);
    out.push(kind as u8);
    write_table(&mut out, table, named);
    write_partitions(&mut out, &command.partitions);
    let clustering = &command.clustering;
    out.push(u8::from(clustering.reversed));
    write_count(&mut out, clustering.slices.len());
    for slice in &clustering.slices {
        write_bound(&mut out, &slice.start);
        write_bound(&mut out, &slice.end);
    }
    // Those that were dropped since have no values any more.
    let number = |column: &ColumnId| table.number_of(*column);
    let columns: Vec<u32> = command.columns.iter().filter_map(number).collect();
    write_count(&mut out, columns.len());
    for column in columns {
        vint::write_unsigned(&mut out, u64::from(column));
    }
    write_count(&mut out, command.filters.len());
    for filter in &command.filters {
        // A filter on nothing is a filter that nothing fulfils.
        let number = number(&filter.column).unwrap_or(u32::MAX);
        vint::write_unsigned(&mut out, u64::from(number));
        let code = OPERATORS.iter().position(|o| *o == filter.operator);
        out.push(code.map_or(u8::MAX, |code| code as u8));
        write_count(&mut out, filter.values.len());
        filter.values.iter().for_each(|v| write_bytes(&mut out, v));
    }
    let limits = &command.limits;
    for limit in [limits.rows, limits.rows_per_partition, limits.bytes] {
        vint::write_unsigned(&mut out, u64::from(limit));
    }
    out.extend_from_slice(&command.now_seconds.to_le_bytes());
    write_resume(&mut out, command.resume.as_ref());
    out.push(u8::from(command.bypass_cache));
    out
}

fn write_count(out: &mut Vec<u8>, count: usize) {
    vint::write_unsigned(out, count as u64);
}

fn write_partitions(out: &mut Vec<u8>, partitions: &PartitionSelection) {
    match partitions {
        PartitionSelection::Key(key) => {
            out.push(0);
            write_bytes(out, key.key());
        }
        PartitionSelection::Range { start, end } => {
            out.push(1);
            write_partition_bound(out, start);
            write_partition_bound(out, end);
        }
    }
}

fn write_partition_bound(out: &mut Vec<u8>, bound: &PartitionBound) {
    let (kind, token, key) = match bound {
        PartitionBound::Unbounded => (0, None, None),
        PartitionBound::TokenInclusive(token) => (1, Some(token), None),
        PartitionBound::TokenExclusive(token) => (2, Some(token), None),
        PartitionBound::KeyInclusive(key) => (3, None, Some(key)),
        PartitionBound::KeyExclusive(key) => (4, None, Some(key)),
    };
    out.push(kind);
    if let Some(token) = token {
        out.extend_from_slice(&token.0.to_le_bytes());
    }
    if let Some(key) = key {
        write_bytes(out, key.key());
    }
}

fn write_resume(out: &mut Vec<u8>, resume: Option<&Resume>) {
    let Some(resume) = resume else {
        out.push(0);
        return;
    };
    out.push(1 + u8::from(resume.clustering.is_some()));
    write_bytes(out, resume.key.key());
    if let Some(clustering) = &resume.clustering {
        write_clustering(out, clustering);
    }
    vint::write_unsigned(out, u64::from(resume.remaining_in_partition));
}

/// Reads what [`encode_read`] wrote; `find` knows the tables of today. The answer is to have the
/// numbers that come with it.
///
/// # Errors
/// It is something else, or about a table or columns that are not known.
pub fn decode_read(
    bytes: Bytes,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<(ReadKind, ReadCommand, Numbering), MessageError> {
    let mut input = Input::new(bytes);
    let kind = match input.u8()? {
        0 => ReadKind::Live,
        1 => ReadKind::Versions,
        2 => ReadKind::Digest,
        _ => return Err(RecordError::Unknown("kind of read").into()),
    };
    let numbering = read_table(&mut input, find)?;
    let command = read_command(&mut input, &numbering)?;
    match input.is_empty() {
        true => Ok((kind, command, numbering)),
        false => Err(RecordError::Unsound("something behind its end").into()),
    }
}

fn read_command(input: &mut Input, numbering: &Numbering) -> Result<ReadCommand, RecordError> {
    let table = numbering.table();
    Ok(ReadCommand {
        table: table.clone(),
        partitions: read_partitions(input)?,
        clustering: read_clusterings(input, table)?,
        columns: read_columns(input, numbering)?,
        filters: read_filters(input, numbering)?,
        limits: DataLimits {
            rows: read_u32(input)?,
            rows_per_partition: read_u32(input)?,
            bytes: read_u32(input)?,
        },
        now_seconds: u32::from_le_bytes(input.array()?),
        resume: read_resume(input, table)?,
        bypass_cache: input.u8()? != 0,
        packed: false,
    })
}

fn read_u32(input: &mut Input) -> Result<u32, RecordError> {
    u32::try_from(input.vint()?).map_err(|_| RecordError::Unsound("a number that is too large"))
}

fn read_partitions(input: &mut Input) -> Result<PartitionSelection, RecordError> {
    match input.u8()? {
        0 => Ok(PartitionSelection::Key(read_key(input)?)),
        1 => Ok(PartitionSelection::Range {
            start: read_partition_bound(input)?,
            end: read_partition_bound(input)?,
        }),
        _ => Err(RecordError::Unknown("selection of partitions")),
    }
}

fn read_partition_bound(input: &mut Input) -> Result<PartitionBound, RecordError> {
    let kind = input.u8()?;
    let mut token = || Ok(Token(i64::from_le_bytes(input.array()?)));
    Ok(match kind {
        0 => PartitionBound::Unbounded,
        1 => PartitionBound::TokenInclusive(token()?),
        2 => PartitionBound::TokenExclusive(token()?),
        3 => PartitionBound::KeyInclusive(read_key(input)?),
        4 => PartitionBound::KeyExclusive(read_key(input)?),
        _ => return Err(RecordError::Unknown("bound of partitions")),
    })
}

fn read_clusterings(input: &mut Input, table: &Table) -> Result<ClusteringSelection, RecordError> {
    let reversed = match input.u8()? {
        0 => false,
        1 => true,
        _ => return Err(RecordError::Unknown("direction of a read")),
    };
    let count = input.vint()?;
    let mut slices = Vec::with_capacity(room(count));
    for _ in 0..count {
        slices.push(read_slice(input, table)?);
    }
    Ok(ClusteringSelection { slices, reversed })
}

/// Regular and static ones, sorted.
fn read_columns(input: &mut Input, numbering: &Numbering) -> Result<Vec<ColumnId>, RecordError> {
    let count = input.vint()?;
    let mut columns = Vec::with_capacity(room(count));
    for _ in 0..count {
        let id = numbering.any(input.vint()?)?;
        let column = numbering.table().column(id);
        let has_cells = column
            .is_some_and(|column| matches!(column.kind, ColumnKind::Static | ColumnKind::Regular));
        if !has_cells {
            return Err(RecordError::UnknownColumn);
        }
        columns.push(id);
    }
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}

fn read_filters(input: &mut Input, numbering: &Numbering) -> Result<Vec<RowFilter>, RecordError> {
    let mut filters = Vec::new();
    for _ in 0..input.vint()? {
        let column = numbering.any(input.vint()?)?;
        let operator = OPERATORS.get(usize::from(input.u8()?)).copied();
        let mut values = Vec::new();
        for _ in 0..input.vint()? {
            values.push(input.bytes()?);
        }
        filters.push(RowFilter {
            column,
            operator: operator.ok_or(RecordError::Unknown("operator of a filter"))?,
            values,
        });
    }
    Ok(filters)
}

fn read_resume(input: &mut Input, table: &Table) -> Result<Option<Resume>, RecordError> {
    let with_clustering = match input.u8()? {
        0 => return Ok(None),
        1 => false,
        2 => true,
        _ => return Err(RecordError::Unknown("place to go on from")),
    };
    let key = read_key(input)?;
    let clustering = match with_clustering {
        false => None,
        true => {
            let clustering = input.clustering()?;
            if clustering.0.len() != table.clustering_key().len() {
                return Err(RecordError::Unsound("a clustering that is not whole"));
            }
            Some(clustering)
        }
    };
    Ok(Some(Resume {
        key,
        clustering,
        remaining_in_partition: read_u32(input)?,
    }))
}
