//! What is in a journal's file: records, each with its checksum.
//!
//! ```text
//! file   = magic [8], whole u64, crc u32 of both, record*
//! record = length u32, kind u8, group u64, crc u32 of the body, crc u32 of these, body [length]
//! ```
//! Numbers are little-endian. A group is what was written and synced at once; `group` is the offset
//! at which it begins. So a record says that the drive had everything in front of that offset when
//! the record was written, and `whole` says the same of what is in front of it since the file got its
//! name. That is how [`parse`] tells damage from a torn tail: of a group that nothing vouches for,
//! a power failure may leave any part, records behind a hole in it too.

use bytes::Bytes;

/// The largest body of a record, in bytes.
pub const MAX_BODY: usize = 64 << 20;
/// Bytes of a file in front of its records.
pub(super) const FILE_HEAD: usize = 20;
/// Bytes of a record in front of its body.
pub(super) const RECORD_HEAD: usize = 21;

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"HelenuJ1";

/// A record. What kinds there are, and what a body says, the journal's owner knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: u8,
    /// At most [`MAX_BODY`] bytes.
    pub body: Bytes,
}

/// Bytes that are not a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJournal {
    /// They do not begin like one of this version.
    Foreign,
    /// What the drive had for certain is not there any more, from this offset on.
    DamagedAt(u64),
}

impl Record {
    /// How many bytes of a file it takes.
    pub(super) fn bytes(&self) -> u64 {
        (RECORD_HEAD + self.body.len()) as u64
    }

    /// Writes it behind `out`, as one of the group at this offset.
    fn encode(&self, group: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&(self.body.len() as u32).to_le_bytes());
        out.push(self.kind);
        out.extend_from_slice(&group.to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&self.body).to_le_bytes());
        let crc = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&self.body);
    }
}

/// Records as a group that begins at this offset of the file.
pub(super) fn group(records: &[Record], offset: u64) -> Vec<u8> {
    let bytes: u64 = records.iter().map(Record::bytes).sum();
    let mut out = Vec::with_capacity(bytes as usize);
    for record in records {
        record.encode(offset, &mut out);
    }
    out
}

/// A new file with these records.
pub fn file(records: &[Record]) -> Vec<u8> {
    let records = group(records, FILE_HEAD as u64);
    let whole = (FILE_HEAD + records.len()) as u64;
    let mut out = Vec::with_capacity(whole as usize);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&whole.to_le_bytes());
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&records);
    out
}

/// The records of a file, without those of a torn tail.
///
/// # Errors
/// It is no journal, or something is missing that a later record, or the head, vouches for.
pub fn parse(file: &Bytes) -> Result<Vec<Record>, NoJournal> {
    if !file.starts_with(&MAGIC) {
        return Err(NoJournal::Foreign);
    }
    let whole = read_file_head(file).ok_or(NoJournal::DamagedAt(0))?;
    let mut records = Vec::new();
    let mut at = FILE_HEAD;
    while let Some(record) = read_record(file, at) {
        at += RECORD_HEAD + record.body.len();
        records.push(record);
    }
    let offset = at as u64;
    if offset < whole || is_vouched_for(file, at) {
        return Err(NoJournal::DamagedAt(offset));
    }
    Ok(records)
}

/// What was on the drive when the file got its name.
fn read_file_head(file: &[u8]) -> Option<u64> {
    let head = file.get(..FILE_HEAD)?;
    let (content, crc) = head.split_last_chunk::<4>()?;
    let whole = content.last_chunk::<8>()?;
    (crc32fast::hash(content) == u32::from_le_bytes(*crc)).then_some(u64::from_le_bytes(*whole))
}

/// The head of a record: what it says.
struct Head {
    length: usize,
    kind: u8,
    group: u64,
    crc: u32,
}

fn read_head(file: &[u8], at: usize) -> Option<Head> {
    let head = file.get(at..)?.get(..RECORD_HEAD)?;
    let (length, rest) = head.split_first_chunk::<4>()?;
    let (kind, rest) = rest.split_first()?;
    let (group, rest) = rest.split_first_chunk::<8>()?;
    let group = u64::from_le_bytes(*group);
    // Looked at first, as it is cheap: `is_vouched_for` tries every byte.
    if group < FILE_HEAD as u64 || group > at as u64 {
        return None;
    }
    let (crc, own_crc) = rest.split_first_chunk::<4>()?;
    let own_crc = own_crc.first_chunk::<4>()?;
    if crc32fast::hash(&head[..RECORD_HEAD - 4]) != u32::from_le_bytes(*own_crc) {
        return None;
    }
    Some(Head {
        length: u32::from_le_bytes(*length) as usize,
        kind: *kind,
        group,
        crc: u32::from_le_bytes(*crc),
    })
}

fn read_record(file: &Bytes, at: usize) -> Option<Record> {
    let head = read_head(file, at)?;
    let start = at + RECORD_HEAD;
    if head.length > MAX_BODY || file.len() - start < head.length {
        return None;
    }
    let body = file.slice(start..start + head.length);
    let kind = head.kind;
    (crc32fast::hash(&body) == head.crc).then_some(Record { kind, body })
}

/// Does a record behind this offset say that the drive had what is there? Its head is enough: the
/// body may be torn itself.
fn is_vouched_for(file: &[u8], offset: usize) -> bool {
    (offset + 1..file.len())
        .any(|at| read_head(file, at).is_some_and(|head| head.group > offset as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, body: &'static [u8]) -> Record {
        Record {
            kind,
            body: Bytes::from_static(body),
        }
    }

    /// A file with two records from the start, a group of two and a group of one behind it; and
    /// where the groups begin and end.
    fn example() -> (Vec<u8>, Vec<Record>, [usize; 3]) {
        let records = [
            record(1, b"first"),
            record(2, b""),
            record(3, b"third"),
            record(4, &[0; 100]),
            record(5, b"last"),
        ];
        let mut bytes = file(&records[..2]);
        let second = bytes.len();
        bytes.extend(group(&records[2..4], second as u64));
        let third = bytes.len();
        bytes.extend(group(&records[4..], third as u64));
        let ends = [second, third, bytes.len()];
        (bytes, records.to_vec(), ends)
    }

    #[test]
    fn what_is_written_is_read() {
        let (bytes, records, _) = example();
        assert_eq!(parse(&Bytes::from(bytes)), Ok(records));
        assert_eq!(parse(&Bytes::from(file(&[]))), Ok(vec![]));
    }

    #[test]
    fn a_tail_may_be_torn_anywhere_and_what_was_there_with_the_name_not() {
        let (bytes, records, [second, third, end]) = example();
        for len in 0..end {
            let read = parse(&Bytes::copy_from_slice(&bytes[..len]));
            match len {
                0..8 => assert_eq!(read, Err(NoJournal::Foreign)),
                _ if len < second => {
                    assert!(matches!(read, Err(NoJournal::DamagedAt(_))), "{len}");
                }
                _ => {
                    let read = read.expect("a torn tail is no damage");
                    assert!(records.starts_with(&read), "{len}");
                    assert!(read.len() >= if len < third { 2 } else { 4 }, "{len}");
                }
            }
        }
    }

    #[test]
    fn a_changed_bit_is_damage_where_a_later_group_vouches_for_it() {
        let (mut bytes, records, [_, third, end]) = example();
        for bit in 0..end * 8 {
            let at = bit / 8;
            bytes[at] ^= 1 << (bit % 8);
            let read = parse(&Bytes::copy_from_slice(&bytes));
            match at {
                0..8 => assert_eq!(read, Err(NoJournal::Foreign)),
                _ if at < third => {
                    let Err(NoJournal::DamagedAt(offset)) = read else {
                        panic!("bit {bit}: {read:?}");
                    };
                    assert!(offset <= at as u64, "{offset} for {at}");
                }
                // Nothing tells it from one that was not written whole.
                _ => assert_eq!(read.as_deref(), Ok(&records[..4])),
            }
            bytes[at] ^= 1 << (bit % 8);
        }
    }

    /// The power failed while a group of two was written: the second record is on the drive.
    #[test]
    fn a_hole_in_the_last_group_is_no_damage() {
        let (mut bytes, records, [second, third, _]) = example();
        bytes.truncate(third);
        bytes[second..second + RECORD_HEAD + 5].fill(0);
        assert_eq!(parse(&Bytes::from(bytes)).as_deref(), Ok(&records[..2]));
    }
}
