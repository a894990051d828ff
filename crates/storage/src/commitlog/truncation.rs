//! What replay must not bring back: what was truncated on a shard, or flushed.
//!
//! A truncated table's writes may still stand in segments that other tables hold. So a truncation
//! is first noted in `DIR/commitlog/truncated-<shard>of<shards>`, which is replaced whole, and
//! only then are the table's sstables removed. Notes are dropped once no segment is as old.
//!
//! A flush of all that a table has is noted in the same way: what is in sstables need not be
//! replayed, and only if it never is may a compaction forget deletions (Cassandra finds the same in
//! the intervals of the commit log that its sstables name, `CommitLogReplayer.shouldReplay`).
//!
//! ```text
//! file  = magic [8], count u32, note*, crc u32
//! note  = table id [16], segment u64, offset u64, generation u64
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use io::Env;
use model::{Sharder, TableId, Token};

use super::format::Position;

const MAGIC: [u8; 8] = *b"HelenusT";
const NOTE: usize = 40;

/// Until where a table of a shard was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    /// Mutations before this place are gone.
    pub(crate) position: Position,
    /// sstables up to this generation are gone.
    pub(crate) generation: u64,
}

/// The truncations that one shard noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truncations {
    shard: u16,
    shards: u16,
    tables: BTreeMap<TableId, Truncation>,
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

    fn file_name(&self) -> String {
        format!("truncated-{}of{}", self.shard, self.shards)
    }

    /// Is a mutation of `table` for `token` that stands at `position` gone?
    pub(crate) fn covers(&self, table: TableId, token: Token, position: Position) -> bool {
        self.tables
            .get(&table)
            .is_some_and(|truncation| position < truncation.position)
            && Sharder::new(self.shards).shard_of(token) == self.shard
    }

    /// Is an sstable of `table` gone that this very shard wrote?
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
                .is_some_and(|truncation| generation <= truncation.generation)
    }

    /// A segment number that is behind all that is noted.
    pub(crate) fn next_segment(&self) -> u64 {
        let segments = self.tables.values().map(|t| t.position.segment + 1);
        segments.max().unwrap_or(0)
    }

    /// The highest generation of a table's sstables that is noted as gone: none that comes may have
    /// it, or it would be taken for gone too.
    pub(crate) fn generation(&self, table: TableId) -> u64 {
        self.tables.get(&table).map_or(0, |t| t.generation)
    }

    /// Notes that all of a table before `position` is in sstables.
    pub(crate) fn note_flush(&mut self, table: TableId, position: Position) {
        let generation = self.generation(table);
        let truncation = Truncation {
            position,
            generation,
        };
        self.note(table, truncation);
    }

    /// Notes one.
    pub(crate) fn note(&mut self, table: TableId, truncation: Truncation) {
        self.tables.insert(table, truncation);
    }

    /// Drops those that no segment can contradict any more; were there any?
    pub(crate) fn forget_before(&mut self, oldest_segment: u64) -> bool {
        let before = self.tables.len();
        self.tables
            .retain(|_, truncation| truncation.position.segment >= oldest_segment);
        self.tables.len() != before
    }

    /// Reads what a file says, into these.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (content, crc) = bytes.split_last_chunk::<4>().ok_or(Malformed)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Err(Malformed);
        }
        let notes = content.strip_prefix(&MAGIC).ok_or(Malformed)?;
        let (count, notes) = notes.split_first_chunk::<4>().ok_or(Malformed)?;
        let (notes, rest) = notes.as_chunks::<NOTE>();
        if notes.len() != u32::from_le_bytes(*count) as usize || !rest.is_empty() {
            return Err(Malformed);
        }
        for note in notes {
            let number = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&note[at..at + 8]);
                u64::from_le_bytes(bytes)
            };
            let mut id = [0; 16];
            id.copy_from_slice(&note[..16]);
            let position = Position {
                segment: number(16),
                offset: number(24),
            };
            let generation = number(32);
            self.note(
                TableId::from_bytes(id),
                Truncation {
                    position,
                    generation,
                },
            );
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
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Replaces the file in `dir`; on the drive when this returns.
    pub(crate) async fn save(&self, env: &Env, dir: &Path) -> std::io::Result<()> {
        let path = dir.join(self.file_name());
        replace_file(env, &path, self.encode()).await
    }
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

    #[test]
    fn a_file_says_what_was_noted_and_damage_is_seen() {
        let mut noted = Truncations::new(1, 3);
        let position = Position {
            segment: 9,
            offset: 8192,
        };
        for id in 0..3 {
            noted.note(
                TableId::from_u128(id),
                Truncation {
                    position,
                    generation: 40 + id as u64,
                },
            );
        }
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

    #[test]
    fn a_truncation_covers_what_its_shard_owned_before() {
        let mut noted = Truncations::new(0, 1);
        let id = TableId::from_u128(1);
        let at = |offset| Position { segment: 5, offset };
        let truncation = Truncation {
            position: at(100),
            generation: 7,
        };
        noted.note(id, truncation);
        assert!(noted.covers(id, Token(1), at(99)));
        assert!(!noted.covers(id, Token(1), at(100)));
        assert!(!noted.covers(TableId::from_u128(2), Token(1), at(0)));
        assert!(noted.covers_sstable(id, (0, 1), 7));
        assert!(!noted.covers_sstable(id, (0, 2), 7));
        assert!(noted.forget_before(6));
        assert!(!noted.covers(id, Token(1), at(99)));
    }

    #[test]
    fn a_flush_does_not_undo_a_truncation() {
        let mut noted = Truncations::new(0, 1);
        let id = TableId::from_u128(1);
        let at = |offset| Position { segment: 5, offset };
        noted.note_flush(id, at(10));
        assert!(noted.covers(id, Token(1), at(9)));
        assert!(!noted.covers_sstable(id, (0, 1), 1));
        let truncation = Truncation {
            position: at(100),
            generation: 7,
        };
        noted.note(id, truncation);
        noted.note_flush(id, at(200));
        assert!(noted.covers(id, Token(1), at(199)));
        assert!(noted.covers_sstable(id, (0, 1), 7));
    }
}
