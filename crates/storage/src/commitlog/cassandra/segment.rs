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
//!
//! What is read has to be in a [`Window`] of the file: a mutation, or a whole section if it is
//! compressed. Cassandra allows a mutation half of `commitlog_segment_size`, and a section is what
//! one buffer of that size held (`CompressedSegment.write`).

use bytes::Bytes;

use super::descriptor::{Descriptor, DescriptorError, HEAD, MARKER, be32, chunk, hash_id};
use crate::commitlog::window::{Absent, Window};
use crate::sstable::{Algorithm, CommitLogPosition, Decompressor};

/// A mutation that is shorter is none (`CommitLogReader.readSection`).
const MIN_MUTATION: usize = 10;
/// The longest section that is believed.
const MAX_SECTION: usize = 1 << 30;

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

/// Why the next mutation is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// These bytes of the file must be in the window first.
    Absent(Absent),
    /// Something else stands where it should. The one behind it comes next.
    Damaged(Damage),
}

impl From<Absent> for Pause {
    fn from(absent: Absent) -> Pause {
        Pause::Absent(absent)
    }
}

/// Reads a file from its beginning to its end. After damage it goes on behind it.
pub(super) struct SegmentReader {
    /// How long the file is.
    len: u64,
    descriptor: Descriptor,
    /// Where the head of the next section stands; `None` behind the last one.
    next: Option<u64>,
    /// Where that is if nothing is compressed.
    logical: u64,
    section: Option<Section>,
    /// Damage that nobody was told of yet: its place, and what it is.
    found: Option<(u64, &'static str)>,
}

struct Section {
    /// Its content, if it was compressed.
    decompressed: Option<Bytes>,
    /// How long that is, decompressed.
    len: u64,
    at: u64,
    /// Where its content begins: in the file, and if nothing were compressed.
    file_start: u64,
    logical_start: u64,
}

enum Marker {
    /// There is no section.
    End,
    /// There is one, up to here.
    Section(u64),
    /// There is one, but the file does not go to its end.
    CutOff,
    /// Neither.
    Damaged,
}

impl SegmentReader {
    /// Begins to read a file that is so long and begins with these bytes, [`HEAD`] if it has them.
    pub(super) fn new(head: &[u8], len: u64) -> Result<SegmentReader, DescriptorError> {
        let descriptor = Descriptor::decode(head)?;
        Ok(SegmentReader {
            len,
            descriptor,
            next: Some(descriptor.len as u64),
            logical: descriptor.len as u64,
            section: None,
            found: None,
        })
    }

    /// What the file says of itself.
    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Is there no section in it? So is a segment that Cassandra has made, but not come to yet.
    /// What was given to [`SegmentReader::new`] must be in the window.
    pub(super) fn is_empty(&self, window: &Window) -> bool {
        matches!(
            self.marker(window, self.descriptor.len as u64),
            Ok(Marker::End)
        )
    }

    /// The next mutation; `None` at the end.
    pub(super) fn next(&mut self, window: &Window) -> Result<Option<Entry>, Pause> {
        loop {
            if let Some((offset, what)) = self.found {
                let in_last_section = self.is_last_section(window)?;
                self.found = None;
                return Err(Pause::Damaged(Damage {
                    offset,
                    what,
                    in_last_section,
                }));
            }
            if let Some(section) = &mut self.section {
                match section.next(window, self.descriptor.id)? {
                    Item::Mutation(entry) => return Ok(Some(entry)),
                    Item::End => self.section = None,
                    Item::Damaged(what) => {
                        self.found = Some((section.file_offset(section.at), what));
                        if what != BAD_CRC {
                            self.section = None;
                        }
                    }
                }
                continue;
            }
            let Some(at) = self.next else {
                return Ok(None);
            };
            match self.marker(window, at)? {
                Marker::End => self.next = None,
                Marker::Section(end) => self.open_section(window, at, end)?,
                Marker::CutOff => {
                    self.next = None;
                    self.found = Some((at, "a section ends beyond the file"));
                }
                // A crash leaves a head or none, and what is behind it may be whole: as in
                // Cassandra (`SegmentReadException.invalidCrc`), this is never a torn end.
                Marker::Damaged => {
                    self.next = None;
                    return Err(Pause::Damaged(Damage {
                        offset: at,
                        what: "the head of a section does not check out",
                        in_last_section: false,
                    }));
                }
            }
        }
    }

    /// Is nothing behind the section that was read last?
    fn is_last_section(&self, window: &Window) -> Result<bool, Absent> {
        Ok(match self.next {
            Some(at) => matches!(self.marker(window, at)?, Marker::End),
            None => true,
        })
    }

    fn marker(&self, window: &Window, at: u64) -> Result<Marker, Absent> {
        if at + MARKER as u64 > self.len {
            return Ok(Marker::End);
        }
        let marker = window.get(at, MARKER)?;
        let (end, crc) = (be32(&marker), be32(&marker[4..]));
        let mut hasher = crc32fast::Hasher::new();
        hash_id(&mut hasher, self.descriptor.id);
        hasher.update(&(at as u32).to_be_bytes());
        if hasher.finalize() != crc {
            return Ok(match (end, crc) {
                (0, 0) => Marker::End,
                _ => Marker::Damaged,
            });
        }
        let end = u64::from(end);
        if end < at + MARKER as u64 || end > self.len {
            return Ok(Marker::CutOff);
        }
        Ok(Marker::Section(end))
    }

    /// Goes on to the section whose head stands at `at`.
    fn open_section(&mut self, window: &Window, at: u64, end: u64) -> Result<(), Absent> {
        let start = at + MARKER as u64;
        let content = match self.descriptor.compression {
            None => Content::Plain(end - start),
            // With its head, which is looked at again when all of it is there.
            Some(algorithm) => {
                let section = window.get(at, (end - at) as usize)?;
                decompress(algorithm, &section[MARKER..])
            }
        };
        self.next = Some(end);
        self.logical += MARKER as u64;
        let (len, decompressed) = match content {
            Content::Plain(len) => (len, None),
            Content::Decompressed(bytes) => (bytes.len() as u64, Some(bytes)),
            Content::Damaged(len) => {
                self.logical += len;
                self.found = Some((start, "a section does not decompress"));
                return Ok(());
            }
        };
        self.section = Some(Section {
            decompressed,
            len,
            at: 0,
            file_start: start,
            logical_start: self.logical,
        });
        self.logical += len;
        Ok(())
    }
}

/// What is in a section.
enum Content {
    /// So many bytes, as they stand there.
    Plain(u64),
    /// These.
    Decompressed(Bytes),
    /// Nobody knows; so many bytes are said to be.
    Damaged(u64),
}

fn decompress(algorithm: Algorithm, content: &[u8]) -> Content {
    let Some((len, compressed)) = content.split_first_chunk::<4>() else {
        return Content::Damaged(0);
    };
    let len = u32::from_be_bytes(*len);
    if len as usize > MAX_SECTION {
        return Content::Damaged(u64::from(len));
    }
    match Decompressor::new(algorithm).decompress(compressed, len as usize) {
        Ok(bytes) => Content::Decompressed(bytes.into()),
        Err(_) => Content::Damaged(u64::from(len)),
    }
}

/// The only damage behind which the next mutation can be found.
const BAD_CRC: &str = "a mutation does not check out";

/// What stands next in a section.
enum Item {
    Mutation(Entry),
    End,
    Damaged(&'static str),
}

impl Section {
    /// What comes next.
    fn next(&mut self, window: &Window, segment: i64) -> Result<Item, Absent> {
        // Less than a length is no mutation, and neither are zeros.
        let len = self.get(window, 4)?.map(|len| chunk::<4>(&len));
        let Some(len) = len.filter(|len| *len != [0; 4]) else {
            return Ok(Item::End);
        };
        let size = u32::from_be_bytes(len) as usize;
        if size < MIN_MUTATION {
            return Ok(Item::Damaged("a mutation is too short"));
        }
        let Some(head) = self.get(window, 8)? else {
            return Ok(Item::Damaged("a mutation is cut off"));
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&len);
        if hasher.clone().finalize() != be32(&head[4..]) {
            return Ok(Item::Damaged("the length of a mutation does not check out"));
        }
        // From its head on, which is looked at again when all of it is there.
        let Some(whole) = self.get(window, 12 + size)? else {
            return Ok(Item::Damaged("a mutation is cut off"));
        };
        let body = whole.slice(8..8 + size);
        hasher.update(&body);
        let offset = self.file_offset(self.at);
        self.at += whole.len() as u64;
        if hasher.finalize() != be32(&whole[8 + size..]) {
            return Ok(Item::Damaged(BAD_CRC));
        }
        let end = self.logical_start + self.at;
        Ok(Item::Mutation(Entry {
            end: CommitLogPosition {
                segment,
                position: i32::try_from(end).unwrap_or(i32::MAX),
            },
            offset,
            body,
        }))
    }

    /// The next bytes of it; `None` if it ends before.
    fn get(&self, window: &Window, len: usize) -> Result<Option<Bytes>, Absent> {
        if self.len - self.at < len as u64 {
            return Ok(None);
        }
        match &self.decompressed {
            Some(bytes) => {
                let at = self.at as usize;
                Ok(Some(bytes.slice(at..at + len)))
            }
            None => window.get(self.file_start + self.at, len).map(Some),
        }
    }

    /// Where in the file a place of it is.
    fn file_offset(&self, at: u64) -> u64 {
        match self.decompressed {
            Some(_) => self.file_start,
            None => self.file_start + at,
        }
    }
}

/// The next mutation of a file that is in memory as a whole, as if no more than `at_once` bytes of
/// it were, if they are enough.
fn next_of(
    reader: &mut SegmentReader,
    file: &Bytes,
    window: &mut Window,
    at_once: usize,
) -> Result<Option<Entry>, Damage> {
    loop {
        match reader.next(window) {
            Ok(entry) => return Ok(entry),
            Err(Pause::Damaged(damage)) => return Err(damage),
            Err(Pause::Absent(Absent { offset, len })) => {
                let from = offset as usize;
                let to = (from + len.max(at_once)).min(file.len());
                *window = Window::new(offset, file.slice(from..to));
            }
        }
    }
}

/// Takes any bytes apart as if they were a segment of Cassandra's, whose mutations are decoded
/// with the tables that `find` knows. Gives how many mutations and how many damages there are.
/// For fuzzing.
pub fn count_mutations(
    file: Bytes,
    find: &dyn Fn(model::TableId) -> Option<std::sync::Arc<model::Table>>,
) -> (usize, usize) {
    let head = &file[..HEAD.min(file.len())];
    let Ok(mut reader) = SegmentReader::new(head, file.len() as u64) else {
        return (0, 0);
    };
    let mut window = Window::default();
    let unsigned = reader.descriptor().unsigned_deletion_time();
    let (mut mutations, mut damages) = (0, 0);
    loop {
        match next_of(&mut reader, &file, &mut window, 64) {
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

/// Puts a section of these mutations behind what is there of a segment of this number.
#[cfg(test)]
pub(super) fn add_section<'m>(
    file: &mut Vec<u8>,
    id: i64,
    mutations: impl IntoIterator<Item = &'m [u8]>,
) {
    let at = file.len();
    file.extend([0; MARKER]);
    for mutation in mutations {
        let mut hasher = crc32fast::Hasher::new();
        let len = (mutation.len() as u32).to_be_bytes();
        hasher.update(&len);
        file.extend(len);
        file.extend(hasher.clone().finalize().to_be_bytes());
        hasher.update(mutation);
        file.extend(mutation);
        file.extend(hasher.finalize().to_be_bytes());
    }
    let end = (file.len() as u32).to_be_bytes();
    let mut hasher = crc32fast::Hasher::new();
    hash_id(&mut hasher, id);
    hasher.update(&(at as u32).to_be_bytes());
    file[at..at + 4].copy_from_slice(&end);
    file[at + 4..at + MARKER].copy_from_slice(&hasher.finalize().to_be_bytes());
}

/// Where in a file the head of its second section stands.
#[cfg(test)]
pub(super) fn second_section(file: &[u8]) -> usize {
    let first = Descriptor::decode(file).expect("it is whole").len;
    be32(&file[first..]) as usize
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::head;
    use super::*;

    /// A segment of these mutations, one section each, and zeros behind.
    fn segment(mutations: &[&[u8]]) -> Vec<u8> {
        let id = 0x1_2345_6789_i64;
        let mut file = head(id);
        for mutation in mutations {
            add_section(&mut file, id, [*mutation]);
        }
        file.extend([0; 100]);
        file
    }

    type Read = (Vec<Entry>, Vec<Damage>);

    /// All of a file, of which so many bytes are in memory at once.
    fn read(file: &Bytes, at_once: usize) -> Read {
        let head = &file[..HEAD.min(file.len())];
        let mut reader = SegmentReader::new(head, file.len() as u64).expect("its head is whole");
        let mut window = Window::default();
        let (mut entries, mut damages) = (Vec::new(), Vec::new());
        loop {
            match next_of(&mut reader, file, &mut window, at_once) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return (entries, damages),
                Err(damage) => damages.push(damage),
            }
        }
    }

    fn all(file: Vec<u8>) -> (Vec<Bytes>, Vec<Damage>) {
        let file = Bytes::from(file);
        let (entries, damages) = read(&file, file.len());
        let bodies = entries.into_iter().map(|entry| entry.body).collect();
        (bodies, damages)
    }

    #[test]
    fn mutations_and_their_positions() {
        let file = segment(&[b"0123456789", b"abcdefghijklmno"]);
        let (entries, damages) = read(&file.into(), 1);
        let [first, second] = &entries[..] else {
            panic!("{entries:?}");
        };
        assert_eq!(&first.body[..], b"0123456789");
        // The head of the file, of the section, the mutation.
        assert_eq!(first.end.position, 20 + 8 + 22);
        assert_eq!(first.offset, 28);
        assert_eq!(second.end.position, 50 + 8 + 27);
        assert_eq!(damages, []);
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
        let empty = |file: Vec<u8>| {
            let reader = SegmentReader::new(&file, file.len() as u64).expect("a head");
            reader.is_empty(&Window::new(0, file.into()))
        };
        assert!(empty(segment(&[])));
        assert!(empty(segment(&[])[..20].to_vec()), "as compressed ones are");
        assert!(!empty(segment(&[b"0123456789"])));
        let mut damaged = segment(&[]);
        damaged[21] = 1;
        assert!(!empty(damaged));
    }

    #[test]
    fn the_size_of_the_window_changes_nothing() {
        let files = [
            &include_bytes!("segments/uncompressed-7.log")[..],
            &include_bytes!("segments/lz4.log")[..],
            &include_bytes!("segments/zstd.log")[..],
        ];
        for file in files {
            // Whole, and with a bit flipped here and there.
            for at in (4..file.len()).step_by(97) {
                let mut file = file.to_vec();
                if at > 200 {
                    file[at] ^= 1 << (at % 8);
                }
                let file = Bytes::from(file);
                let whole = read(&file, file.len());
                for at_once in [1, 50, 1000] {
                    assert_eq!(read(&file, at_once), whole, "{at}, {at_once}");
                }
            }
        }
    }
}
