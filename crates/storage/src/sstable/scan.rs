//! Reading the partitions of a range, in ring order: what range reads and compactions do.

use std::rc::Rc;

use io::TaskGroup;
use model::{DecoratedKey, PackedRow, PartitionBound, ShardId, Sharder, Slice};

use super::PlainRequest;
use super::cursor::Cursor;
use super::decode::ColumnSelection;
use super::descriptor::Component;
use super::error::SSTableError;
use super::index::{Keys, Location, starts_behind};
use super::partition::PartitionReader;
use super::reader::SSTable;
use crate::{PartitionHead, Unfiltered};

/// What a scan reads.
#[derive(Clone)]
pub struct ScanOptions {
    /// The lower end of the range.
    pub start: PartitionBound,
    /// The upper end of the range.
    pub end: PartitionBound,
    /// Only partitions of this shard's tokens.
    pub owner: Option<(Sharder, ShardId)>,
    /// Which rows of each partition.
    pub slices: Rc<[Slice]>,
    /// Rows from the last to the first?
    pub reversed: bool,
    /// Whose values.
    pub columns: ColumnSelection,
    /// How far to read ahead, in bytes, once the scan has shown that it goes on.
    pub read_ahead: u64,
    /// Whose share of the time and of the disk reading ahead takes.
    pub group: TaskGroup,
}

impl Default for ScanOptions {
    /// All of everything.
    fn default() -> ScanOptions {
        ScanOptions {
            start: PartitionBound::Unbounded,
            end: PartitionBound::Unbounded,
            owner: None,
            slices: Rc::new([Slice::ALL]),
            reversed: false,
            columns: ColumnSelection::All,
            read_ahead: 256 * 1024,
            group: TaskGroup::Foreground,
        }
    }
}

/// Reads partitions one after the other.
pub struct Scanner {
    sstable: SSTable,
    options: ScanOptions,
    /// Goes through the index; `None` before the first partition.
    keys: Option<Keys>,
    /// The partition that is being read, or the cursor that the next one is read with.
    state: State,
}

enum State {
    /// Before the first partition, or behind one that could not be read.
    Between,
    In(Box<PartitionReader>),
    Ended,
}

impl Scanner {
    pub(super) fn new(sstable: SSTable, options: ScanOptions) -> Scanner {
        Scanner {
            sstable,
            options,
            keys: None,
            state: State::Between,
        }
    }

    /// Goes to the next partition of the range, whatever is left of this one; `None` at the end.
    pub async fn next_partition(&mut self) -> Result<Option<PartitionHead>, SSTableError> {
        let mut reader = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Ok(None),
            State::In(reader) => reader,
            State::Between => Box::new(self.reader()),
        };
        let Some((key, location)) = self.next_key(reader.cursor()).await? else {
            return Ok(None);
        };
        reader.turn_to(key, location).await?;
        let head = reader.head().clone();
        self.state = State::In(reader);
        Ok(Some(head))
    }

    /// Reads all partitions, one after the other.
    fn reader(&self) -> PartitionReader {
        let options = &self.options;
        let cursor = Cursor::with_read_ahead(
            self.sstable.data().clone(),
            0,
            options.read_ahead,
            self.sstable.env(),
            options.group,
        );
        let selection = (
            options.slices.clone(),
            options.reversed,
            options.columns.clone(),
        );
        PartitionReader::new(self.sstable.clone(), cursor, selection)
    }

    /// The next row or marker of the partition; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        match &mut self.state {
            State::In(reader) => reader.next().await,
            _ => Ok(None),
        }
    }

    /// The next row, as [`PartitionReader::plain_row`].
    pub(crate) fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        match &mut self.state {
            State::In(reader) => reader.plain_row(request),
            _ => None,
        }
    }

    /// After an error about a partition's data: goes on with the partition behind it.
    pub fn go_on(&mut self) {
        if matches!(self.state, State::Ended) {
            self.state = State::Between;
        }
    }

    /// Where in the data (uncompressed) the scan is, in bytes: behind what was read last of the
    /// partition; 0 between partitions.
    pub fn position(&self) -> u64 {
        match &self.state {
            State::In(reader) => reader.position(),
            _ => 0,
        }
    }

    /// The number of what is scanned, among what its table consists of.
    pub(crate) fn number(&self) -> Option<u64> {
        self.sstable.number()
    }

    /// Does the cache have what was read last ([`Cursor::is_cached`])?
    pub(crate) fn is_cached(&self) -> bool {
        match &self.state {
            State::In(reader) => reader.is_cached(),
            _ => false,
        }
    }

    /// What was read last cannot be what it should be.
    pub(crate) fn corrupt(&self, what: &str) -> SSTableError {
        match &self.state {
            State::In(reader) => reader.corrupt(what),
            _ => SSTableError::corrupt(&self.sstable.descriptor().path(Component::Data), 0, what),
        }
    }

    /// The next key that is wanted.
    async fn next_key(
        &mut self,
        data: &mut Cursor,
    ) -> Result<Option<(DecoratedKey, Location)>, SSTableError> {
        let (sstable, options) = (&self.sstable, &self.options);
        let last = sstable.last_key();
        if ends_before(&options.end, sstable.first_key())
            || starts_behind(&options.start, last.token(), last.key())
        {
            return Ok(None);
        }
        let keys = self.keys.get_or_insert_with(|| {
            let reading = (options.read_ahead, options.group);
            sstable
                .index()
                .keys(sstable.env(), &options.start, options.owner, reading)
        });
        let found = keys.next(data).await?;
        Ok(found.filter(|(key, _)| !ends_before(&options.end, key)))
    }
}

/// Is `key` behind this upper end?
fn ends_before(end: &PartitionBound, key: &DecoratedKey) -> bool {
    match end {
        PartitionBound::Unbounded => false,
        PartitionBound::TokenInclusive(token) => key.token() > *token,
        PartitionBound::TokenExclusive(token) => key.token() >= *token,
        PartitionBound::KeyInclusive(end) => key > end,
        PartitionBound::KeyExclusive(end) => key >= end,
    }
}
