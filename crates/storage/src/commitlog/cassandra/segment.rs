//! A segment of Cassandra's commit log, byte by byte.
//!
//! ```text
//! file     = version i32, id i64, length u16, parameters (JSON), crc,      CommitLogDescriptor
//!            section*
//! section  = offset of the next one i32, crc (of id and own offset), content
//!                                                       CommitLogSegment.writeSyncMarker
//! content  = mutation*, or length i32 and those compressed       CompressedSegment
//! mutation = length i32, crc (of the length), bytes, crc (of the length and the bytes)
//! ```
//! All numbers are big-endian. A section ends where a sync of Cassandra did; zeros in the place of
//! a section's head or of a mutation mean that nothing was written there. Positions, by which
//! sstables say what they hold, count bytes as if nothing were compressed.

use bytes::Bytes;

use crate::sstable::{Algorithm, CommitLogPosition, Decompressor};

/// Bytes of a section before its content.
const MARKER: usize = 8;
/// The versions that are read: those of Cassandra 3.0 to 5.0.
const VERSIONS: std::ops::RangeInclusive<u32> = 6..=8;
/// From this version on, times of deletion are unsigned.
const UNSIGNED_DELETION_TIME: u32 = 8;
/// A mutation that is shorter is none (`CommitLogReader.readSection`).
const MIN_MUTATION: usize = 10;
/// The longest section that is believed.
const MAX_SECTION: usize = 1 << 30;

/// What stands at the beginning of a file (`CommitLogDescriptor`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    version: u32,
    /// The number of the segment.
    pub(super) id: i64,
    compression: Option<Algorithm>,
    /// How long it is.
    len: usize,
}

/// Why the beginning of a file is not one that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DescriptorError {
    /// Nothing was written there.
    Empty,
    /// It does not check out.
    Invalid,
    /// It checks out, but says something that is not supported.
    Unsupported(String),
}

impl Descriptor {
    fn decode(file: &[u8]) -> Result<Descriptor, DescriptorError> {
        let head: &[u8; 14] = match file.first_chunk() {
            Some(head) if head.iter().any(|byte| *byte != 0) => head,
            _ => return Err(DescriptorError::Empty),
        };
        let version = be32(head);
        let id = i64::from_be_bytes(chunk(&head[4..]));
        let parameters_len = usize::from(u16::from_be_bytes(chunk(&head[12..])));
        let rest = &file[14..];
        let (Some(parameters), Some(crc)) = (
            rest.get(..parameters_len),
            rest.get(parameters_len..parameters_len + 4),
        ) else {
            return Err(DescriptorError::Invalid);
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..4]);
        hash_id(&mut hasher, id);
        hasher.update(&(parameters_len as u32).to_be_bytes());
        hasher.update(parameters);
        if hasher.finalize() != be32(crc) {
            return Err(DescriptorError::Invalid);
        }
        if !VERSIONS.contains(&version) {
            let what = format!("is of version {version} of Cassandra's commit log, not 6, 7 or 8");
            return Err(DescriptorError::Unsupported(what));
        }
        Ok(Descriptor {
            version,
            id,
            compression: compression(parameters)?,
            len: 14 + parameters_len + 4,
        })
    }

    /// Are deletion times unsigned?
    pub(super) fn unsigned_deletion_time(&self) -> bool {
        self.version >= UNSIGNED_DELETION_TIME
    }
}

/// What the parameters say of compression. They are the compact JSON of one library
/// (`CommitLogDescriptor.constructParametersString`), so that finding the keys is enough.
fn compression(parameters: &[u8]) -> Result<Option<Algorithm>, DescriptorError> {
    const CLASS: &str = "\"compressionClass\":\"";
    const CIPHER: &str = "\"encCipher\"";
    let text = String::from_utf8_lossy(parameters);
    if text.contains(CIPHER) {
        let what = "is encrypted; start Cassandra on the folder once more, run `nodetool drain` \
                    and stop it"
            .to_owned();
        return Err(DescriptorError::Unsupported(what));
    }
    let Some(at) = text.find(CLASS) else {
        return Ok(None);
    };
    let class = text[at + CLASS.len()..].split('"').next().unwrap_or("");
    match Algorithm::of_class(class) {
        Ok(algorithm) => Ok(Some(algorithm)),
        Err(what) => Err(DescriptorError::Unsupported(format!(
            "is compressed: {what}"
        ))),
    }
}

/// As `FBUtilities.updateChecksumInt` of the low and the high half.
fn hash_id(hasher: &mut crc32fast::Hasher, id: i64) {
    hasher.update(&(id as u32).to_be_bytes());
    hasher.update(&((id >> 32) as u32).to_be_bytes());
}

fn chunk<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("the caller has so many bytes")
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(chunk(bytes))
}

/// Bytes that are not what Cassandra wrote, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Where in the file.
    pub(super) offset: u64,
    /// What is wrong.
    pub(super) what: &'static str,
    /// Is it in the last section, which a crash may have torn?
    pub(super) in_last_section: bool,
}

/// A mutation, not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its end, by which sstables know it.
    pub(super) end: CommitLogPosition,
    /// Where in the file it, or the compressed section that holds it, begins.
    pub(super) offset: u64,
    /// It.
    pub(super) body: Bytes,
}

/// Reads a file from its beginning to its end. After damage it goes on behind it.
pub(super) struct SegmentReader {
    file: Bytes,
    descriptor: Descriptor,
    /// Where the head of the next section stands; `None` behind the last one.
    next: Option<usize>,
    /// Where that is if nothing is compressed.
    logical: u64,
    section: Option<Section>,
}

struct Section {
    /// Its content, decompressed.
    bytes: Bytes,
    at: usize,
    /// Where its content begins: in the file, and if nothing were compressed.
    file_start: usize,
    logical_start: u64,
}

enum Marker {
    /// There is no section.
    End,
    /// There is one, up to here.
    Section(usize),
    /// There is one, but the file does not go to its end.
    CutOff,
    /// Neither.
    Damaged,
}

impl SegmentReader {
    /// Begins to read a file.
    pub(super) fn new(file: Bytes) -> Result<SegmentReader, DescriptorError> {
        let descriptor = Descriptor::decode(&file)?;
        Ok(SegmentReader {
            file,
            descriptor,
            next: Some(descriptor.len),
            logical: descriptor.len as u64,
            section: None,
        })
    }

    /// What the file says of itself.
    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Is there no section in it? So is a segment that Cassandra has made, but not come to yet.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.marker(self.descriptor.len), Marker::End)
    }

    /// The next mutation; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Damage> {
        loop {
            if let Some(section) = &mut self.section {
                match section.next(self.descriptor.id) {
                    Ok(Some(mut entry)) => {
                        entry.offset = self.file_offset(entry.offset as usize);
                        return Ok(Some(entry));
                    }
                    Ok(None) => self.section = None,
                    Err(what) => {
                        let at = section.at;
                        let damage = self.damage(self.file_offset(at), what);
                        if what != BAD_CRC {
                            self.section = None;
                        }
                        return Err(damage);
                    }
                }
                continue;
            }
            let Some(at) = self.next else {
                return Ok(None);
            };
            match self.marker(at) {
                Marker::End => self.next = None,
                Marker::Section(end) => {
                    self.next = Some(end);
                    self.open_section(at + MARKER, end)?;
                }
                Marker::CutOff => {
                    self.next = None;
                    return Err(self.damage(at as u64, "a section ends beyond the file"));
                }
                // A crash leaves a head or none, and what is behind it may be whole: as in
                // Cassandra (`SegmentReadException.invalidCrc`), this is never a torn end.
                Marker::Damaged => {
                    self.next = None;
                    return Err(Damage {
                        offset: at as u64,
                        what: "the head of a section does not check out",
                        in_last_section: false,
                    });
                }
            }
        }
    }

    /// Where in the file a place of the open section is.
    fn file_offset(&self, at: usize) -> u64 {
        let section = self.section.as_ref();
        let start = section.map_or(0, |section| section.file_start);
        match self.descriptor.compression {
            Some(_) => start as u64,
            None => (start + at) as u64,
        }
    }

    fn damage(&self, offset: u64, what: &'static str) -> Damage {
        let ends = self
            .next
            .is_none_or(|at| matches!(self.marker(at), Marker::End));
        Damage {
            offset,
            what,
            in_last_section: ends,
        }
    }

    fn marker(&self, at: usize) -> Marker {
        let Some(marker) = at.checked_add(MARKER).and_then(|to| self.file.get(at..to)) else {
            return Marker::End;
        };
        let (end, crc) = (be32(marker), be32(&marker[4..]));
        let mut hasher = crc32fast::Hasher::new();
        hash_id(&mut hasher, self.descriptor.id);
        hasher.update(&(at as u32).to_be_bytes());
        let end_there = end as usize;
        if hasher.finalize() != crc {
            return match (end, crc) {
                (0, 0) => Marker::End,
                _ => Marker::Damaged,
            };
        }
        if end_there < at + MARKER || end_there > self.file.len() {
            return Marker::CutOff;
        }
        Marker::Section(end_there)
    }

    fn open_section(&mut self, start: usize, end: usize) -> Result<(), Damage> {
        self.logical += MARKER as u64;
        let content = self.file.slice(start..end);
        let bytes = match self.descriptor.compression {
            None => content,
            Some(algorithm) => match decompress(algorithm, &content) {
                Some(bytes) => bytes,
                None => {
                    let len = content
                        .first_chunk()
                        .map_or(0, |len| u32::from_be_bytes(*len));
                    self.logical += u64::from(len);
                    return Err(self.damage(start as u64, "a section does not decompress"));
                }
            },
        };
        let len = bytes.len() as u64;
        self.section = Some(Section {
            bytes,
            at: 0,
            file_start: start,
            logical_start: self.logical,
        });
        self.logical += len;
        Ok(())
    }
}

fn decompress(algorithm: Algorithm, content: &[u8]) -> Option<Bytes> {
    let (len, compressed) = content.split_first_chunk::<4>()?;
    let len = u32::from_be_bytes(*len) as usize;
    if len > MAX_SECTION {
        return None;
    }
    let bytes = Decompressor::new(algorithm).decompress(compressed, len);
    bytes.ok().map(Bytes::from)
}

/// The only damage behind which the next mutation can be found.
const BAD_CRC: &str = "a mutation does not check out";

impl Section {
    /// The next mutation, its offset being that in the section.
    fn next(&mut self, segment: i64) -> Result<Option<Entry>, &'static str> {
        let rest = &self.bytes[self.at..];
        // Less than a length is no mutation, and neither are zeros.
        let Some(len) = rest.first_chunk::<4>().filter(|len| **len != [0; 4]) else {
            return Ok(None);
        };
        let size = u32::from_be_bytes(*len) as usize;
        if size < MIN_MUTATION {
            return Err("a mutation is too short");
        }
        let Some(crc) = rest.get(4..8) else {
            return Err("a mutation is cut off");
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(len);
        if hasher.clone().finalize() != be32(crc) {
            return Err("the length of a mutation does not check out");
        }
        let (Some(body), Some(crc)) = (rest.get(8..8 + size), rest.get(8 + size..12 + size)) else {
            return Err("a mutation is cut off");
        };
        hasher.update(body);
        let offset = self.at;
        let checks_out = hasher.finalize() == be32(crc);
        let body = self.bytes.slice_ref(body);
        self.at += 12 + size;
        if !checks_out {
            return Err(BAD_CRC);
        }
        let end = self.logical_start + self.at as u64;
        Ok(Some(Entry {
            end: CommitLogPosition {
                segment,
                position: i32::try_from(end).unwrap_or(i32::MAX),
            },
            offset: offset as u64,
            body,
        }))
    }
}

/// Takes any bytes apart as if they were a segment of Cassandra's, whose mutations are decoded
/// with the tables that `find` knows. Gives how many mutations and how many damages there are.
/// For fuzzing.
pub fn count_mutations(
    file: Bytes,
    find: &dyn Fn(model::TableId) -> Option<std::sync::Arc<model::Table>>,
) -> (usize, usize) {
    let Ok(mut reader) = SegmentReader::new(file) else {
        return (0, 0);
    };
    let unsigned = reader.descriptor().unsigned_deletion_time();
    let (mut mutations, mut damages) = (0, 0);
    loop {
        match reader.next() {
            Ok(None) => return (mutations, damages),
            Err(_) => damages += 1,
            Ok(Some(entry)) => {
                let decoded = crate::sstable::MessageMutation::decode(&entry.body, unsigned, find);
                match decoded {
                    Ok(_) => mutations += 1,
                    Err(_) => damages += 1,
                }
            }
        }
    }
}

/// The beginning of a segment of this number, without compression.
#[cfg(test)]
pub(super) fn head(id: i64) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(7u32.to_be_bytes());
    file.extend(id.to_be_bytes());
    file.extend(2u16.to_be_bytes());
    file.extend(b"{}");
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&7u32.to_be_bytes());
    hash_id(&mut hasher, id);
    hasher.update(&2u32.to_be_bytes());
    hasher.update(b"{}");
    file.extend(hasher.finalize().to_be_bytes());
    file
}

/// Where in a file the head of its second section stands.
#[cfg(test)]
pub(super) fn second_section(file: &[u8]) -> usize {
    let first = Descriptor::decode(file).expect("it is whole").len;
    be32(&file[first..]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of these mutations, one section each, and zeros behind.
    fn segment(mutations: &[&[u8]]) -> Vec<u8> {
        let id = 0x1_2345_6789_i64;
        let mut file = head(id);
        for mutation in mutations {
            let at = file.len();
            let mut hasher = crc32fast::Hasher::new();
            hash_id(&mut hasher, id);
            hasher.update(&(at as u32).to_be_bytes());
            file.extend(((at + MARKER + 12 + mutation.len()) as u32).to_be_bytes());
            file.extend(hasher.finalize().to_be_bytes());
            let mut hasher = crc32fast::Hasher::new();
            let len = (mutation.len() as u32).to_be_bytes();
            hasher.update(&len);
            file.extend(len);
            file.extend(hasher.clone().finalize().to_be_bytes());
            hasher.update(mutation);
            file.extend(*mutation);
            file.extend(hasher.finalize().to_be_bytes());
        }
        file.extend([0; 100]);
        file
    }

    fn all(file: Vec<u8>) -> (Vec<Bytes>, Vec<Damage>) {
        let mut reader = SegmentReader::new(file.into()).expect("its head is whole");
        let (mut bodies, mut damages) = (Vec::new(), Vec::new());
        loop {
            match reader.next() {
                Ok(Some(entry)) => bodies.push(entry.body),
                Ok(None) => return (bodies, damages),
                Err(damage) => damages.push(damage),
            }
        }
    }

    #[test]
    fn mutations_and_their_positions() {
        let file = segment(&[b"0123456789", b"abcdefghijklmno"]);
        let mut reader = SegmentReader::new(file.into()).expect("it is whole");
        let first = reader.next().expect("no damage").expect("a mutation");
        assert_eq!(&first.body[..], b"0123456789");
        // The head of the file, of the section, the mutation.
        assert_eq!(first.end.position, 20 + 8 + 22);
        assert_eq!(first.offset, 28);
        let second = reader.next().expect("no damage").expect("a mutation");
        assert_eq!(second.end.position, 50 + 8 + 27);
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn every_flipped_bit_is_seen_or_does_no_harm() {
        let whole = segment(&[b"0123456789", b"abcdefghijklmno"]);
        let content = whole.len() - 100;
        for bit in 20 * 8..content * 8 {
            let mut file = whole.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            let (bodies, damages) = all(file);
            let good = [&b"0123456789"[..], &b"abcdefghijklmno"[..]];
            assert!(bodies.iter().all(|b| good.contains(&&b[..])), "bit {bit}");
            assert!(bodies.len() == 2 || !damages.is_empty(), "bit {bit}");
            // Only the content of the last section may be what a crash tore.
            let first_section = bit / 8 < 50 && bit / 8 >= 28;
            let crc_of_a_head = [24..28, 54..58].iter().any(|crc| crc.contains(&(bit / 8)));
            if first_section || crc_of_a_head {
                assert!(damages.iter().any(|d| !d.in_last_section), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_head_that_does_not_check_out_is_no_torn_end_and_a_missing_end_is() {
        let whole = segment(&[b"0123456789", b"abcdefghijklmno"]);
        let mut file = whole.clone();
        file[54] ^= 1;
        let (bodies, damages) = all(file);
        assert_eq!((bodies.len(), damages.len()), (1, 1));
        assert_eq!((damages[0].offset, damages[0].in_last_section), (50, false));
        let (bodies, damages) = all(whole[..70].to_vec());
        assert_eq!((bodies.len(), damages.len()), (1, 1));
        assert_eq!((damages[0].offset, damages[0].in_last_section), (50, true));
        // As if neither the head nor anything behind it had come to the drive.
        let mut file = whole;
        file[50..].fill(0);
        let (bodies, damages) = all(file);
        assert_eq!((bodies.len(), damages.len()), (1, 0));
    }

    #[test]
    fn a_segment_made_ahead_is_empty() {
        let empty = |file: Vec<u8>| SegmentReader::new(file.into()).expect("a head").is_empty();
        assert!(empty(segment(&[])));
        assert!(empty(segment(&[])[..20].to_vec()), "as compressed ones are");
        assert!(!empty(segment(&[b"0123456789"])));
        let mut damaged = segment(&[]);
        damaged[21] = 1;
        assert!(!empty(damaged));
    }

    #[test]
    fn heads_that_cannot_be_read_say_why() {
        let whole = segment(&[]);
        for bit in 0..20 * 8 {
            let mut file = whole.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            let read = SegmentReader::new(file.into()).map(|_| ());
            assert_eq!(read, Err(DescriptorError::Invalid), "bit {bit}");
        }
        let empty = SegmentReader::new(vec![0; 50].into()).map(|_| ());
        assert_eq!(empty, Err(DescriptorError::Empty));
        let encrypted = compression(br#"{"encCipher":"AES\/CBC\/PKCS5Padding"}"#);
        assert!(
            matches!(encrypted, Err(DescriptorError::Unsupported(what)) if what.contains("encrypted"))
        );
        let lz4 = br#"{"compressionParameters":{},"compressionClass":"LZ4Compressor"}"#;
        assert_eq!(compression(lz4), Ok(Some(Algorithm::Lz4)));
    }
}
