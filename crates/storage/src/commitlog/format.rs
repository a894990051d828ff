//! The files of the commit log, byte by byte: a header, then groups.
//!
//! A segment is a file of fixed size, written from front to back in multiples of [`BLOCK`] bytes.
//! Its first block is the header. Every group is what one write to the drive carried: the records
//! that were waiting when the drive became free, under one checksum, padded to a whole block, so
//! that no later write ever touches the blocks of an earlier one. A file may be used again for a
//! new segment; what is left of the old one does not count, for a group names its segment and its
//! place.
//!
//! **Torn or damaged?** Each group also says up to which place the log was known to be on the
//! drive when it was written. Bytes that do not check out at or behind the last such place are the
//! tail that a crash tore: nobody was promised anything of them. Before it they are damage. A group
//! vouches only for the run of the node that wrote it, since what an earlier crash tore stays torn:
//! a segment's header says with which segment its run began.
//!
//! ```text
//! header = magic [8], version u16, shard u16, shards u16, ignored bits u16, segment u64,
//!          first segment of the run u64, crc u32
//! group  = magic [4], payload length u32, segment u64, offset u64,
//!          durable segment u64, durable offset u64, records u32, crc u32 (of all but itself),
//!          payload, zeros to the next block
//! ```
//! All numbers are little-endian.

use std::collections::BTreeMap;

use model::Sharder;

/// What is written at once, at least, and what everything is aligned to.
pub(super) const BLOCK: usize = 4096;

/// The version of the format that we write. In the first one there were no records of rows.
const VERSION: u16 = 2;
const FILE_MAGIC: [u8; 8] = *b"HelenusL";
const GROUP_MAGIC: [u8; 4] = *b"grp1";
/// Bytes of a file's header that mean something.
const FILE_HEADER: usize = 36;
/// Bytes of a group before its payload.
pub(super) const GROUP_HEADER: usize = 48;

const _: () = assert!(FILE_HEADER <= BLOCK && GROUP_HEADER < BLOCK);

/// A place in the log of one shard. Segments are numbered upwards through all runs of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The segment.
    pub(crate) segment: u64,
    /// Bytes from its beginning.
    pub(crate) offset: u64,
}

/// Who wrote a segment, and which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// The shard.
    pub(super) shard: u16,
    /// How the node's tokens were dealt to shards then.
    pub(super) sharder: Sharder,
    /// The segment's number.
    pub(super) segment: u64,
    /// The first segment that the same run of the node wrote.
    pub(super) run: u64,
}

/// Why a block is not a header that we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Not a header, or not whole.
    Invalid,
    /// Whole, but of a version that we do not know.
    Version(u16),
}

impl SegmentHeader {
    /// The header as the first block of the file.
    pub(super) fn encode(&self, out: &mut [u8]) {
        out[..BLOCK].fill(0);
        out[..8].copy_from_slice(&FILE_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&self.shard.to_le_bytes());
        out[12..14].copy_from_slice(&self.sharder.shards().to_le_bytes());
        out[14..16].copy_from_slice(&u16::from(self.sharder.ignored_bits()).to_le_bytes());
        out[16..24].copy_from_slice(&self.segment.to_le_bytes());
        out[24..32].copy_from_slice(&self.run.to_le_bytes());
        let crc = crc32fast::hash(&out[..32]);
        out[32..36].copy_from_slice(&crc.to_le_bytes());
    }

    /// The name of the file whose header this is.
    pub(super) fn name(&self) -> SegmentName {
        SegmentName::of_shard(self.segment, self.shard, self.sharder.shards())
    }

    /// Reads the first block of a file.
    pub(super) fn decode(block: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let header: &[u8; FILE_HEADER] = block.first_chunk().ok_or(HeaderError::Invalid)?;
        let crc = u32::from_le_bytes(field(header, 32));
        if header[..8] != FILE_MAGIC || crc32fast::hash(&header[..32]) != crc {
            return Err(HeaderError::Invalid);
        }
        let version = u16::from_le_bytes(field(header, 8));
        if !(1..=VERSION).contains(&version) {
            return Err(HeaderError::Version(version));
        }
        let shards = u16::from_le_bytes(field(header, 12));
        let ignored = u16::from_le_bytes(field(header, 14));
        if shards == 0 || ignored != u16::from(Sharder::IGNORED_BITS) {
            return Err(HeaderError::Invalid);
        }
        Ok(SegmentHeader {
            shard: u16::from_le_bytes(field(header, 10)),
            sharder: Sharder::new(shards),
            segment: u64::from_le_bytes(field(header, 16)),
            run: u64::from_le_bytes(field(header, 24)),
        })
    }
}

/// What stands before the payload of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHeader {
    /// Where the group begins.
    pub(super) at: Position,
    /// Up to where the log was known to be on the drive when the group was written.
    pub(super) durable: Position,
    /// How many records it holds.
    pub(super) records: u32,
    /// How long its payload is.
    pub(super) payload: usize,
}

impl GroupHeader {
    /// How many bytes it and its payload are.
    pub(super) fn len(&self) -> usize {
        GROUP_HEADER + self.payload
    }

    /// How many bytes of the file the group takes.
    pub(super) fn len_in_file(&self) -> usize {
        self.len().next_multiple_of(BLOCK)
    }
}

/// Fills in the header of the group whose payload already stands in `group` behind
/// [`GROUP_HEADER`] bytes of room; `group` ends with the payload.
pub(super) fn seal_group(group: &mut [u8], at: Position, durable: Position, records: u32) {
    let payload = (group.len() - GROUP_HEADER) as u32;
    group[..4].copy_from_slice(&GROUP_MAGIC);
    group[4..8].copy_from_slice(&payload.to_le_bytes());
    group[8..16].copy_from_slice(&at.segment.to_le_bytes());
    group[16..24].copy_from_slice(&at.offset.to_le_bytes());
    group[24..32].copy_from_slice(&durable.segment.to_le_bytes());
    group[32..40].copy_from_slice(&durable.offset.to_le_bytes());
    group[40..44].copy_from_slice(&records.to_le_bytes());
    let crc = group_crc(group);
    group[44..48].copy_from_slice(&crc.to_le_bytes());
}

/// Reads the header of a group without checking its checksum: `None` if what stands there is not
/// the beginning of a group of this segment at this offset that could fit into `file_len` bytes.
pub(super) fn peek_group(block: &[u8], at: Position, file_len: u64) -> Option<GroupHeader> {
    let header: &[u8; GROUP_HEADER] = block.first_chunk()?;
    let payload = u32::from_le_bytes(field(header, 4)) as usize;
    let group = GroupHeader {
        at: Position {
            segment: u64::from_le_bytes(field(header, 8)),
            offset: u64::from_le_bytes(field(header, 16)),
        },
        durable: Position {
            segment: u64::from_le_bytes(field(header, 24)),
            offset: u64::from_le_bytes(field(header, 32)),
        },
        records: u32::from_le_bytes(field(header, 40)),
        payload,
    };
    let fits = at
        .offset
        .checked_add(group.len_in_file() as u64)
        .is_some_and(|end| end <= file_len);
    (header[..4] == GROUP_MAGIC && group.at == at && fits).then_some(group)
}

/// Does the checksum of a group hold? `group` is its header and its payload.
pub(super) fn group_checks_out(group: &[u8]) -> bool {
    let Some((header, payload)) = group.split_first_chunk() else {
        return false;
    };
    let mut check = GroupCheck::begin(header);
    check.add(payload);
    check.holds()
}

fn group_crc(group: &[u8]) -> u32 {
    let mut hasher = header_crc(group);
    hasher.update(&group[GROUP_HEADER..]);
    hasher.finalize()
}

/// The checksum of a group begins with its header.
fn header_crc(group: &[u8]) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&group[..44]);
    hasher
}

/// The checksum of a group of which not all is in memory at once.
pub(super) struct GroupCheck {
    hasher: crc32fast::Hasher,
    expected: u32,
}

impl GroupCheck {
    /// Begins with the group's header.
    pub(super) fn begin(header: &[u8; GROUP_HEADER]) -> GroupCheck {
        GroupCheck {
            hasher: header_crc(header),
            expected: u32::from_le_bytes(field(header, 44)),
        }
    }

    /// Goes on with the next piece of its payload.
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    /// Does it hold, now that all of the payload was added?
    pub(super) fn holds(self) -> bool {
        self.hasher.finalize() == self.expected
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// What the name of a segment's file says: who wrote it, and its number. Ordered as replayed and
/// removed: what a Cassandra left is older than all of ours; then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    /// The version of Cassandra's commit log, if the file is one of Cassandra's.
    cassandra: std::cmp::Reverse<Option<u16>>,
    /// The segment's number.
    pub(crate) segment: u64,
    /// The shard.
    pub(crate) shard: u16,
    /// The number of shards then; 0 if it is Cassandra's.
    pub(crate) shards: u16,
}

impl SegmentName {
    /// A segment that a shard of ours writes.
    pub(crate) fn of_shard(segment: u64, shard: u16, shards: u16) -> SegmentName {
        SegmentName {
            cassandra: std::cmp::Reverse(None),
            segment,
            shard,
            shards,
        }
    }

    /// A segment that a Cassandra wrote.
    pub(super) fn of_cassandra(version: u16, segment: u64) -> SegmentName {
        SegmentName {
            cassandra: std::cmp::Reverse(Some(version)),
            ..SegmentName::of_shard(segment, 0, 0)
        }
    }

    /// What is known of it among others; what `new` makes, if that is nothing. It is nearly always the last of them that is
    /// written to, which is found without comparing any.
    pub(crate) fn entry_in<V>(
        self,
        known: &mut BTreeMap<SegmentName, V>,
        new: impl FnOnce() -> V,
    ) -> &mut V {
        let last = known.last_key_value();
        match last.is_some_and(|(name, _)| *name == self) {
            true => known.last_entry().expect("just seen").into_mut(),
            false => known.entry(self).or_insert_with(new),
        }
    }

    /// Did a Cassandra write it?
    pub(crate) fn is_cassandra(&self) -> bool {
        self.cassandra.0.is_some()
    }

    /// The name of the file; ours sort by number within a shard.
    pub(crate) fn file_name(&self) -> String {
        let SegmentName {
            cassandra,
            segment,
            shard,
            shards,
        } = self;
        match cassandra.0 {
            Some(version) => format!("CommitLog-{version}-{segment}.log"),
            None => format!("helenus-{shard}of{shards}-{segment:012}.log"),
        }
    }

    /// The shard that wrote it, and of how many.
    pub(super) fn writer(&self) -> (u16, u16) {
        (self.shard, self.shards)
    }

    /// Reads the name of a segment's file; `None` for other files.
    pub(crate) fn parse(name: &str) -> Option<SegmentName> {
        let found = match name.strip_prefix("CommitLog-") {
            Some(rest) => {
                let (version, segment) = rest.strip_suffix(".log")?.split_once('-')?;
                SegmentName::of_cassandra(version.parse().ok()?, segment.parse().ok()?)
            }
            None => {
                let (writer, segment) = name
                    .strip_prefix("helenus-")?
                    .strip_suffix(".log")?
                    .split_once('-')?;
                let (shard, shards) = writer.split_once("of")?;
                let (shard, shards) = (shard.parse().ok()?, shards.parse().ok()?);
                let of_shard = SegmentName::of_shard(segment.parse().ok()?, shard, shards);
                (shard < shards).then_some(of_shard)?
            }
        };
        (found.file_name() == name).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            shard: 2,
            sharder: Sharder::new(5),
            segment: 77,
            run: 70,
        }
    }

    #[test]
    fn a_header_survives_and_any_flipped_bit_does_not() {
        let mut block = vec![0xff; BLOCK];
        header().encode(&mut block);
        assert_eq!(SegmentHeader::decode(&block), Ok(header()));
        for bit in 0..FILE_HEADER * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&block).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn names_name_the_header() {
        let name = SegmentName::of_shard(77, 2, 5);
        assert_eq!(SegmentName::parse(&name.file_name()), Some(name));
        // Numbers begin with the time, and once did with 1.
        let timed = SegmentName::of_shard(1_795_258_768_842, 2, 5);
        assert_eq!(SegmentName::parse(&timed.file_name()), Some(timed));
        assert!(name.file_name() < timed.file_name());
        let foreign = "CommitLog-7-1795258768842.log";
        let foreign = SegmentName::parse(foreign).expect("it is Cassandra's");
        assert_eq!(foreign.file_name(), "CommitLog-7-1795258768842.log");
        assert!(foreign.is_cassandra() && !name.is_cassandra());
        assert!(foreign < name, "what Cassandra left goes first");
        for other in [
            "",
            "helenus-.log",
            "helenus-3of3-000000000001.log",
            "helenus-0of0-000000000001.log",
            "helenus-0of1-1.log",
            "CommitLog-7.log",
            "CommitLog-7-01.log",
        ] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_group_is_known_only_in_its_own_place() {
        let at = Position {
            segment: 7,
            offset: 8192,
        };
        let mut group = vec![0; GROUP_HEADER];
        group.extend_from_slice(b"payload");
        seal_group(&mut group, at, Position::default(), 3);
        let found = peek_group(&group, at, 1 << 20).expect("a group");
        assert_eq!((found.records, found.payload), (3, 7));
        assert_eq!(found.len_in_file(), BLOCK);
        assert!(group_checks_out(&group));
        let elsewhere = Position { offset: 4096, ..at };
        assert!(peek_group(&group, elsewhere, 1 << 20).is_none());
        assert!(peek_group(&group, at, 8192).is_none(), "does not fit");
        for bit in 0..group.len() * 8 {
            group[bit / 8] ^= 1 << (bit % 8);
            assert!(!group_checks_out(&group), "bit {bit}");
            group[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
