//! What replicas answer.

use std::cmp::Ordering;

use bytes::Bytes;
use twox_hash::xxhash3_128;

use super::mutation::{check_content, read_key};
use super::{Numbering, check_prefix, digest};
use crate::record::{
    ContentRef, Input, RecordError, read::room, read_content, write::write_bound, write_bytes,
    write_content,
};
use crate::{Bound, Partition, PartitionVersion, ReadPage, Scanned, VersionPage, vint};

/// About how many bytes are digested at once: what stays in the nearest cache.
const PIECE: usize = 8 << 10;

/// There is more behind the page.
const MORE: u8 = 1;
/// So many sstables of an index were looked into that the client is to be warned: how many comes next.
const MANY_INDEXES: u8 = 2;

/// Writes a page of live rows, for whoever numbers columns so. Of what was gone through for it only that is told
/// of which clients are warned.
pub fn encode_page(page: &ReadPage, columns: &Numbering) -> Vec<u8> {
    let partitions = page.partitions.iter().map(|partition| (partition, None));
    encode(
        partitions,
        (page.more, page.scanned.index_sstables),
        columns,
    )
}

/// Writes what a replica knows, for whoever numbers columns so. What is known alike is written alike.
pub fn encode_versions(page: &VersionPage, columns: &Numbering) -> Vec<u8> {
    let versions = page.partitions.iter();
    let partitions = versions.map(|version| (&version.partition, version.end.as_ref()));
    encode(partitions, (page.more, 0), columns)
}

/// The [`digest`] of what [`encode_versions`] would write. Of many partitions it is made piece by piece: most
/// replicas are asked for nothing else, and no page has to be made for it.
pub fn digest_versions(page: &VersionPage, columns: &Numbering) -> [u8; 16] {
    if page.partitions.len() < 2 {
        return digest(&encode_versions(page, columns));
    }
    let mut hasher = xxhash3_128::Hasher::new();
    let mut piece = Vec::with_capacity(2 * PIECE);
    write_head(&mut piece, page.partitions.len(), (page.more, 0));
    for version in &page.partitions {
        let end = version.end.as_ref();
        write_partition(&mut piece, &version.partition, end, columns);
        if piece.len() >= PIECE {
            hasher.write(&piece);
            piece.clear();
        }
    }
    hasher.write(&piece);
    hasher.finish_128().to_be_bytes()
}

fn encode<'p>(
    partitions: impl ExactSizeIterator<Item = (&'p Partition, Option<&'p Bound>)> + Clone,
    head: (bool, u64),
    columns: &Numbering,
) -> Vec<u8> {
    let about = |(partition, _): (&Partition, Option<&Bound>)| {
        assert!(
            partition.packed.is_empty(),
            "other nodes are not asked for packed rows"
        );
        partition.key.key().len() + ContentRef::from(partition).about_bytes()
    };
    let about: usize = partitions.clone().map(about).sum();
    let mut out = Vec::with_capacity(16 + about);
    write_head(&mut out, partitions.len(), head);
    for (partition, end) in partitions {
        write_partition(&mut out, partition, end, columns);
    }
    out
}

fn write_head(out: &mut Vec<u8>, partitions: usize, (more, index_sstables): (bool, u64)) {
    let more = if more { MORE } else { 0 };
    match index_sstables {
        0 => out.push(more),
        many => {
            out.push(more | MANY_INDEXES);
            vint::write_unsigned(out, many);
        }
    }
    vint::write_unsigned(out, partitions as u64);
}

fn write_partition(
    out: &mut Vec<u8>,
    partition: &Partition,
    end: Option<&Bound>,
    columns: &Numbering,
) {
    write_bytes(out, partition.key.key());
    out.push(u8::from(end.is_some()));
    if let Some(end) = end {
        write_bound(out, end);
    }
    write_content(out, partition.into(), columns);
}

/// Reads what [`encode_page`] wrote in answer to a read in this direction.
///
/// # Errors
/// It is something else.
pub fn decode_page(
    bytes: Bytes,
    columns: &Numbering,
    reversed: bool,
) -> Result<ReadPage, RecordError> {
    let mut input = Input::new(bytes);
    let flags = input.u8()?;
    let index_sstables = match flags & MANY_INDEXES {
        0 => 0,
        _ => match input.vint()? {
            0 => return Err(RecordError::Unsound("a warning of no index")),
            many => many,
        },
    };
    let more = flag(flags & !MANY_INDEXES)?;
    let partitions = decode_partitions(input, more, columns, reversed)?.into_iter();
    Ok(ReadPage {
        partitions: partitions.map(|version| version.partition).collect(),
        more,
        scanned: Scanned {
            index_sstables,
            ..Scanned::default()
        },
    })
}

/// Reads what [`encode_versions`] wrote in answer to a read in this direction.
///
/// # Errors
/// It is something else.
pub fn decode_versions(
    bytes: Bytes,
    columns: &Numbering,
    reversed: bool,
) -> Result<VersionPage, RecordError> {
    let mut input = Input::new(bytes);
    let more = flag(input.u8()?)?;
    Ok(VersionPage {
        partitions: decode_partitions(input, more, columns, reversed)?,
        more,
        scanned: Scanned::default(),
    })
}

fn decode_partitions(
    mut input: Input,
    more: bool,
    columns: &Numbering,
    reversed: bool,
) -> Result<Vec<PartitionVersion>, RecordError> {
    let forward = match reversed {
        false => Ordering::Less,
        true => Ordering::Greater,
    };
    let count = input.vint()?;
    let mut partitions: Vec<PartitionVersion> = Vec::with_capacity(room(count));
    for _ in 0..count {
        let key = read_key(&mut input)?;
        let end = match flag(input.u8()?)? {
            false => None,
            true => Some(input.bound()?),
        };
        if let Some(end) = &end {
            check_prefix(columns.table(), &end.prefix)?;
        }
        let content = read_content(&mut input, columns)?;
        check_content(columns.table(), &content, forward)?;
        if partitions
            .last()
            .is_some_and(|last| last.partition.key >= key)
        {
            return Err(RecordError::Unsound("partitions that are not in order"));
        }
        let partition = Partition {
            key,
            deletion: content.deletion,
            static_row: content.static_row,
            rows: content.rows,
            packed: Vec::new(),
            range_tombstones: content.range_tombstones,
        };
        partitions.push(PartitionVersion { partition, end });
    }
    if more && partitions.is_empty() {
        return Err(RecordError::Unsound("nothing to go on behind"));
    }
    if !input.is_empty() {
        return Err(RecordError::Unsound("something behind its end"));
    }
    Ok(partitions)
}

fn flag(byte: u8) -> Result<bool, RecordError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(RecordError::Unknown("flag of a page")),
    }
}
