//! What replay must not bring back: what was truncated on a shard, or flushed.
//!
//! A truncated table's writes may still stand in segments that other tables hold. So a truncation
//! is first noted in `DIR/commitlog/truncated-<shard>of<shards>`, which is replaced whole, and
//! only then are the table's sstables removed. As long as some may be left the note says so, and a
//! start removes them; afterwards it speaks of the log alone, as files of these names are then what
//! somebody put back. Notes are dropped once no segment is as old.
//!
//! A flush of all that a table has is noted in the same way: what is in sstables need not be
//! replayed, and only if it never is may a compaction forget deletions (Cassandra finds the same in
//! the intervals of the commit log that its sstables name, `CommitLogReplayer.shouldReplay`).
//!
//! Notes say what is flushed of one table. A mutation of several tables that the log gave up while the
//! drive failed may be on the drive nevertheless, and a replay must bring back all of it or nothing:
//! so from where on segments hold such is noted along.
//!
//! ```text
//! file     = magic [8], count u32, note*, given up*, crc u32
//! note     = table id [16], segment u64, offset u64, generation u64, truncated at i64, unfinished u64
//! given up = segment u64, offset u64
//! ```
//! Files of the first version lack the last two of a note; they, and those of the second, what was given
//! up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use io::Env;
use model::{Sharder, TableId, Token};

use super::format::Position;

const MAGIC: [u8; 8] = *b"HelenuT3";
const NOTE: usize = 56;
const GIVEN_UP: usize = 16;
/// Of the second version.
const MAGIC_2: [u8; 8] = *b"HelenuT2";
/// The same of the first version.
const MAGIC_1: [u8; 8] = *b"HelenusT";
const NOTE_1: usize = 40;

/// Until where a table of a shard was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    /// Mutations before this place are gone.
    pub(crate) position: Position,
    /// sstables up to this generation were to go.
    pub(crate) generation: u64,
    /// When the table was truncated, in microseconds since 1970; 0 if it was not, or nobody knows.
    pub(crate) at: i64,
    /// May some of the sstables be left?
    pub(crate) unfinished: bool,
}

/// The truncations that one shard noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truncations {
    shard: u16,
    shards: u16,
    tables: BTreeMap<TableId, Truncation>,
    /// Of segments by their numbers: the offset from which on all is given up.
    given_up: BTreeMap<u64, u64>,
}

/// Bytes that are not a file of truncations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Truncations {
    /// None yet, for a shard.
    pub(crate) fn new(shard: u16, shards: u16) -> Truncations {
        Truncations {
            shard,
            shards,
            tables: BTreeMap::new(),
            given_up: BTreeMap::new(),
        }
    }

    /// The shard and the number of shards that a file's name says, if it is one of ours.
    pub(crate) fn parse_file_name(name: &str) -> Option<Truncations> {
        let (shard, shards) = name.strip_prefix("truncated-")?.split_once("of")?;
        let (shard, shards) = (shard.parse().ok()?, shards.parse().ok()?);
        (shard < shards).then(|| Truncations::new(shard, shards))
    }

    /// Are they those of this shard?
    pub(crate) fn is_of(&self, shard: u16, shards: u16) -> bool {
        (self.shard, self.shards) == (shard, shards)
    }

    /// Were they noted when there were another number of shards?
    pub(crate) fn is_of_former(&self, shards: u16) -> bool {
        self.shards != shards
    }

    /// The file in `dir`.
    pub(crate) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(format!("truncated-{}of{}", self.shard, self.shards))
    }

    /// Is a mutation of `table` for `token` that stands at `position` gone?
    pub(crate) fn covers(&self, table: TableId, token: Token, position: Position) -> bool {
        let noted = self.tables.get(&table);
        let is_noted = noted.is_some_and(|truncation| position < truncation.position);
        let from = self.given_up.get(&position.segment);
        let is_given_up = from.is_some_and(|from| position.offset >= *from);
        (is_noted || is_given_up) && Sharder::new(self.shards).shard_of(token) == self.shard
    }

    /// Has an sstable of `table` that this very shard wrote still to go?
    pub(crate) fn covers_sstable(
        &self,
        table: TableId,
        writer: (u16, u16),
        generation: u64,
    ) -> bool {
        writer == (self.shard, self.shards)
            && self
                .tables
                .get(&table)
                .is_some_and(|noted| noted.unfinished && generation <= noted.generation)
    }

    /// A segment number that is behind all that is noted.
    pub(crate) fn next_segment(&self) -> u64 {
        let noted = self.tables.values().map(|t| t.position.segment);
        let segments = noted.chain(self.given_up.keys().copied());
        segments.max().map_or(0, |segment| segment + 1)
    }

    /// The highest generation of a table's sstables that is noted as gone: none that comes may have
    /// it, or it would be taken for gone too.
    pub(crate) fn generation(&self, table: TableId) -> u64 {
        self.tables.get(&table).map_or(0, |t| t.generation)
    }

    /// Notes that all of a table before `position` is in sstables.
    pub(crate) fn note_flush(&mut self, table: TableId, position: Position) {
        let flush = Truncation {
            position,
            generation: 0,
            at: 0,
            unfinished: false,
        };
        self.tables.entry(table).or_insert(flush).position = position;
    }

    /// Notes one.
    pub(crate) fn note(&mut self, table: TableId, truncation: Truncation) {
        self.tables.insert(table, truncation);
    }

    /// Notes behind which places segments hold what was given up.
    pub(crate) fn note_given_up(&mut self, places: Vec<Position>) {
        let places = places.into_iter();
        let places = places.map(|place| (place.segment, place.offset));
        self.given_up.extend(places);
    }

    /// The sstables of a table are gone; gives what was noted before, if it said otherwise.
    pub(crate) fn finish(&mut self, table: TableId) -> Option<Truncation> {
        let noted = self.tables.get_mut(&table).filter(|t| t.unfinished)?;
        let before = *noted;
        noted.unfinished = false;
        Some(before)
    }

    /// What [`Truncations::finish`] noted could not be saved.
    pub(crate) fn reopen(&mut self, table: TableId, before: &Truncation) {
        let noted = self.tables.get_mut(&table);
        if let Some(noted) = noted.filter(|noted| noted.generation == before.generation) {
            noted.unfinished = true;
        }
    }

    /// The sstables of all tables that `are_gone` are; was that not noted?
    pub(crate) fn finish_all(&mut self, are_gone: impl Fn(TableId) -> bool) -> bool {
        let tables = self.tables.iter_mut();
        let finished = tables.filter(|(id, noted)| noted.unfinished && are_gone(**id));
        finished.map(|(_, noted)| noted.unfinished = false).count() > 0
    }

    /// Drops those that no segment and no sstable can contradict any more; were there any?
    pub(crate) fn forget_before(&mut self, oldest_segment: u64) -> bool {
        let len = |noted: &Truncations| noted.tables.len() + noted.given_up.len();
        let before = len(self);
        self.tables
            .retain(|_, noted| noted.unfinished || noted.position.segment >= oldest_segment);
        self.given_up
            .retain(|segment, _| *segment >= oldest_segment);
        len(self) != before
    }

    /// Drops those of truncations after a time, in microseconds since 1970, to which all is brought
    /// back; gives their tables (`CommitLogReplayer.construct`, CASSANDRA-9195).
    pub(crate) fn forget_after(&mut self, time: i64) -> Vec<TableId> {
        let after = self.tables.extract_if(.., |_, noted| noted.at > time);
        after.map(|(id, _)| id).collect()
    }

    /// Reads what a file says, into these.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (content, crc) = bytes.split_last_chunk::<4>().ok_or(Malformed)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Err(Malformed);
        }
        let (magic, notes) = content.split_first_chunk::<8>().ok_or(Malformed)?;
        let len = match *magic {
            MAGIC | MAGIC_2 => NOTE,
            MAGIC_1 => NOTE_1,
            _ => return Err(Malformed),
        };
        let (count, notes) = notes.split_first_chunk::<4>().ok_or(Malformed)?;
        let len_of_all = (u32::from_le_bytes(*count) as usize).checked_mul(len);
        let (notes, given_up) = len_of_all
            .and_then(|len| notes.split_at_checked(len))
            .ok_or(Malformed)?;
        let may_follow = *magic == MAGIC && given_up.len().is_multiple_of(GIVEN_UP);
        if !given_up.is_empty() && !may_follow {
            return Err(Malformed);
        }
        for note in notes.chunks_exact(len) {
            let (id, truncation) = read_note(note).ok_or(Malformed)?;
            self.note(id, truncation);
        }
        for [segment, offset] in given_up.as_chunks::<8>().0.as_chunks::<2>().0 {
            let (segment, offset) = (u64::from_le_bytes(*segment), u64::from_le_bytes(*offset));
            self.given_up.insert(segment, offset);
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for (id, truncation) in &self.tables {
            out.extend_from_slice(id.as_bytes());
            out.extend_from_slice(&truncation.position.segment.to_le_bytes());
            out.extend_from_slice(&truncation.position.offset.to_le_bytes());
            out.extend_from_slice(&truncation.generation.to_le_bytes());
            out.extend_from_slice(&truncation.at.to_le_bytes());
            out.extend_from_slice(&u64::from(truncation.unfinished).to_le_bytes());
        }
        for (segment, offset) in &self.given_up {
            out.extend_from_slice(&segment.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Replaces the file in `dir`; on the drive when this returns.
    pub(crate) async fn save(&self, env: &Env, dir: &Path) -> std::io::Result<()> {
        replace_file(env, &self.path(dir), self.encode()).await
    }

    /// Removes the file in `dir`, or replaces it if there is something to say.
    pub(crate) async fn save_or_remove(&self, env: &Env, dir: &Path) -> std::io::Result<()> {
        if !self.tables.is_empty() || !self.given_up.is_empty() {
            return self.save(env, dir).await;
        }
        env.remove_file(&self.path(dir)).await?;
        env.sync_dir(dir).await
    }
}

/// A note of either version.
fn read_note(note: &[u8]) -> Option<(TableId, Truncation)> {
    let (id, rest) = note.split_first_chunk::<16>()?;
    let (numbers, _) = rest.as_chunks::<8>();
    let number = |at: usize| numbers.get(at).map(|bytes| u64::from_le_bytes(*bytes));
    let generation = number(2)?;
    let truncation = Truncation {
        position: Position {
            segment: number(0)?,
            offset: number(1)?,
        },
        generation,
        at: number(3).unwrap_or(0).cast_signed(),
        // The first version does not say, so some may be left.
        unfinished: number(4).map_or(generation > 0, |unfinished| unfinished != 0),
    };
    Some((TableId::from_bytes(*id), truncation))
}

/// Writes `content` beside `path` and renames it there, each step on the drive before the next.
async fn replace_file(env: &Env, path: &Path, content: Vec<u8>) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    env.write_file(&beside, content).await?;
    env.rename(&beside, path).await?;
    if let Some(dir) = path.parent() {
        env.sync_dir(dir).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TableId = TableId::from_u128(1);

    fn at(offset: u64) -> Position {
        Position { segment: 5, offset }
    }

    /// Of this table, to a place, of sstables up to the seventh.
    fn truncation(offset: u64) -> Truncation {
        Truncation {
            position: at(offset),
            generation: 7,
            at: 1_000,
            unfinished: true,
        }
    }

    #[test]
    fn a_file_says_what_was_noted_and_damage_is_seen() {
        let mut noted = Truncations::new(1, 3);
        for id in 0..3 {
            let truncation = Truncation {
                generation: 40 + id as u64,
                unfinished: id == 1,
                ..truncation(8192)
            };
            noted.note(TableId::from_u128(id), truncation);
        }
        noted.note_given_up(vec![at(4096)]);
        let mut bytes = noted.encode();
        let mut read = Truncations::new(1, 3);
        assert_eq!(read.decode(&bytes), Ok(()));
        assert_eq!(read, noted);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Truncations::new(1, 3).decode(&bytes), Err(Malformed));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// It does not say whether the sstables are gone, nor when the table was truncated.
    #[test]
    fn a_file_of_the_first_version_is_read() {
        let mut bytes = MAGIC_1.to_vec();
        bytes.extend(2u32.to_le_bytes());
        for (id, generation) in [(ID, 7u64), (TableId::from_u128(2), 0)] {
            bytes.extend(id.as_bytes());
            for number in [5, 100, generation] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let mut read = Truncations::new(0, 1);
        assert_eq!(read.decode(&bytes), Ok(()));
        assert!(read.covers(ID, Token(1), at(99)));
        assert!(read.covers_sstable(ID, (0, 1), 7));
        assert!(read.forget_after(0).is_empty(), "nobody knows when it was");
        let is_unfinished = |noted: &Truncation| noted.unfinished;
        let unfinished: Vec<bool> = read.tables.values().map(is_unfinished).collect();
        assert_eq!(unfinished, [true, false], "the other was a flush");
        let mut again = Truncations::new(0, 1);
        assert_eq!(again.decode(&read.encode()), Ok(()));
        assert_eq!(again, read);
    }

    #[test]
    fn a_truncation_covers_what_its_shard_owned_before() {
        let mut noted = Truncations::new(0, 1);
        noted.note(ID, truncation(100));
        assert!(noted.covers(ID, Token(1), at(99)));
        assert!(!noted.covers(ID, Token(1), at(100)));
        assert!(!noted.covers(TableId::from_u128(2), Token(1), at(0)));
        assert!(noted.covers_sstable(ID, (0, 1), 7));
        assert!(!noted.covers_sstable(ID, (0, 2), 7));
        assert!(!noted.forget_before(6), "some sstables may be left");
        assert_eq!(noted.finish(ID), Some(truncation(100)));
        assert!(noted.forget_before(6));
        assert!(!noted.covers(ID, Token(1), at(99)));
    }

    #[test]
    fn what_is_finished_speaks_of_the_log_alone() {
        let mut noted = Truncations::new(0, 1);
        noted.note(ID, truncation(100));
        assert!(!noted.finish_all(|id| id != ID));
        assert!(noted.finish_all(|_| true) && !noted.finish_all(|_| true));
        assert!(!noted.covers_sstable(ID, (0, 1), 7));
        assert_eq!(noted.generation(ID), 7, "no sstable to come has it");
        assert!(noted.covers(ID, Token(1), at(99)));
    }

    #[test]
    fn who_goes_back_to_before_a_truncation_does_not_mind_it() {
        let mut noted = Truncations::new(0, 1);
        noted.note(ID, truncation(100));
        noted.note_flush(ID, at(200));
        noted.note_flush(TableId::from_u128(2), at(200));
        assert!(noted.forget_after(1_000).is_empty());
        assert_eq!(noted.forget_after(999), [ID]);
        assert!(!noted.covers(ID, Token(1), at(0)) && !noted.covers_sstable(ID, (0, 1), 1));
        assert!(noted.covers(TableId::from_u128(2), Token(1), at(199)));
    }

    #[test]
    fn what_was_given_up_is_so_for_every_table() {
        let mut noted = Truncations::new(0, 1);
        noted.note_given_up(vec![at(4096)]);
        assert!(!noted.covers(ID, Token(1), at(4095)));
        assert!(noted.covers(ID, Token(1), at(4096)) && noted.covers(ID, Token(1), at(1 << 20)));
        let behind = Position {
            segment: 6,
            offset: 4096,
        };
        assert!(!noted.covers(ID, Token(1), behind), "the log went on there");
        assert_eq!(noted.next_segment(), 6);
        assert!(!noted.forget_before(5) && noted.forget_before(6));
        assert!(!noted.covers(ID, Token(1), at(4096)));
    }

    #[test]
    fn a_flush_does_not_undo_a_truncation() {
        let mut noted = Truncations::new(0, 1);
        noted.note_flush(ID, at(10));
        assert!(noted.covers(ID, Token(1), at(9)));
        assert!(!noted.covers_sstable(ID, (0, 1), 1));
        noted.note(ID, truncation(100));
        noted.note_flush(ID, at(200));
        assert!(noted.covers(ID, Token(1), at(199)));
        assert!(noted.covers_sstable(ID, (0, 1), 7));
    }
}
