//! Reading what can be read of an sstable, whatever state its index is in: what scrubs do
//! (`SortedTableScrubber`, `BigTableScrubber`, `BtiTableScrubber`).
//!
//! The data is read from its beginning to its end, as each partition says itself where it ends. The
//! index is gone through beside it, for as long as it can be read: behind a partition that cannot
//! be read to its end, only the index knows where to go on. Without it the rest is lost: guessing
//! where a partition begins could take a part of a value for rows that nobody wrote.
//!
//! Where key and index differ, the data is right if it has checksums, for these were just compared;
//! if it has none, nobody knows, and the partition is lost.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{CqlType, DecoratedKey, PartitionBound, Row, Slice, Table};

use super::big;
use super::bti::partitions::{Place, Places};
use super::bti::{self, rows::RowsEntry};
use super::chunk_cache::ChunkCache;
use super::chunked_file::ChunkedFile;
use super::cursor::Cursor;
use super::decode::ColumnSelection;
use super::descriptor::Descriptor;
use super::error::SSTableError;
use super::index::{Index, Location};
use super::partition::PartitionReader;
use super::reader::SSTable;
use crate::Unfiltered;

/// Goes through the data of an sstable.
pub struct Salvage {
    sstable: SSTable,
    /// Reads keys.
    keys: Cursor,
    entries: Option<Entries>,
    /// The first entry of the index that is not behind.
    entry: Option<Entry>,
    /// Where the next partition begins.
    position: u64,
    /// Are values compared with their types?
    validates: bool,
    /// Why the index is of no use (any more).
    index_damage: Option<SSTableError>,
}

/// A partition that was found.
#[derive(Clone, Debug)]
pub struct Found {
    key: DecoratedKey,
    at: u64,
}

impl Found {
    /// Its key.
    pub fn key(&self) -> &DecoratedKey {
        &self.key
    }

    /// Where in the data (uncompressed) it begins, in bytes.
    pub fn position(&self) -> u64 {
        self.at
    }
}

/// How much of a partition can be read.
#[derive(Debug)]
pub struct Readable {
    /// Rows and markers.
    pub items: u64,
    /// What is wrong with the next one, if the partition goes on behind them.
    pub damage: Option<SSTableError>,
    /// Is there nothing in the partition, neither rows nor deletions?
    pub is_empty: bool,
}

/// A partition as the index has it. Of most that are not indexed themselves, a trie has not all of
/// the key.
struct Entry {
    at: u64,
    key: Option<Bytes>,
}

enum Entries {
    Big(Cursor),
    Bti(Places, Rc<ChunkedFile>),
}

impl Entries {
    fn of(index: &Index) -> Option<Entries> {
        match index {
            Index::Big(index) => Some(Entries::Big(Cursor::new(index.file().clone(), 0))),
            Index::Bti(index) => {
                let places = index.partitions.places(&PartitionBound::Unbounded);
                Some(Entries::Bti(places, index.rows.clone()))
            }
            Index::Lost(lost) => {
                let file = lost.entries.clone()?;
                Some(Entries::Big(Cursor::new(file, 0)))
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Entry>, SSTableError> {
        match self {
            Entries::Big(cursor) => {
                if cursor.position() >= cursor.length() {
                    return Ok(None);
                }
                let copy = |entry: &big::index::IndexEntry<'_>| Bytes::copy_from_slice(entry.key);
                let (key, location) = big::next_entry(cursor, copy).await?;
                let (at, key) = (location.data, Some(key));
                Ok(Some(Entry { at, key }))
            }
            Entries::Bti(places, rows) => match places.next().await? {
                None => Ok(None),
                Some(Place::Data(at)) => Ok(Some(Entry { at, key: None })),
                Some(Place::Rows(position)) => {
                    let entry = RowsEntry::read(rows, position).await?;
                    let (at, key) = (entry.data, Some(entry.key.into()));
                    Ok(Some(Entry { at, key }))
                }
            },
        }
    }
}

impl Salvage {
    /// Opens an sstable of which data and statistics (and what the data is compressed by) are
    /// there; anything else may be missing or damaged. Values that are none of their types are
    /// damage if it `validates`.
    pub async fn open(
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        cache: &ChunkCache,
        validates: bool,
    ) -> Result<Salvage, SSTableError> {
        let (sstable, damage) = SSTable::open_without_index(env, descriptor, table, cache).await?;
        Ok(Salvage {
            index_damage: damage,
            ..Salvage::of(&sstable, validates)
        })
    }

    /// Goes through an sstable that is open.
    pub fn of(sstable: &SSTable, validates: bool) -> Salvage {
        Salvage {
            sstable: sstable.clone(),
            keys: Cursor::new(sstable.data().clone(), 0),
            entries: Entries::of(sstable.index()),
            entry: None,
            position: 0,
            validates,
            index_damage: None,
        }
    }

    /// The sstable. Of one whose index is lost nothing but what it says of itself may be asked.
    pub fn sstable(&self) -> &SSTable {
        &self.sstable
    }

    /// Why the index is of no use, if it turned out so. Said once.
    pub fn take_index_damage(&mut self) -> Option<SSTableError> {
        self.index_damage.take()
    }

    /// Bytes of data (uncompressed) that are not passed yet.
    pub fn left(&self) -> u64 {
        self.sstable.data_length().saturating_sub(self.position)
    }

    /// The partition that comes next; `None` at the end of the data. After an error it cannot be
    /// read, and [`Salvage::skip`] is to be called.
    pub async fn next(&mut self) -> Result<Option<Found>, SSTableError> {
        if self.left() == 0 {
            return Ok(None);
        }
        self.catch_up(self.position).await;
        self.keys.seek(self.position);
        let key = bti::read_key(&mut self.keys, Bytes::copy_from_slice).await?;
        if let Err(what) = check_key(&self.sstable.schema().table, &key) {
            return Err(self.keys.corrupt(&what));
        }
        let entry = self.entry.as_ref().filter(|e| e.at == self.position);
        if let Some(indexed) = entry.and_then(|entry| entry.key.as_ref())
            && *indexed != key
        {
            let differs = self
                .keys
                .corrupt("it is another partition than the index has here");
            if !self.sstable.data().is_checked() {
                return Err(differs);
            }
            self.lose_index(differs);
        }
        Ok(Some(Found {
            key: DecoratedKey::new(key),
            at: self.position,
        }))
    }

    /// Goes to the next partition that the index has, behind the one that cannot be read. `false`:
    /// nobody knows where that is, and the rest is lost.
    pub async fn skip(&mut self) -> bool {
        self.catch_up(self.position + 1).await;
        match &self.entry {
            Some(entry) => {
                self.position = entry.at;
                true
            }
            None => false,
        }
    }

    /// Finds out how much of a partition can be read, and goes behind it if that is all.
    pub async fn measure(&mut self, found: &Found) -> Result<Readable, SSTableError> {
        let mut reader = self.read(found).await?;
        let schema = self.sstable.schema();
        let (table, comparator) = (&schema.table, schema.table.comparator());
        let head = reader.head();
        if let Some(row) = head.static_row.as_ref().filter(|_| self.validates) {
            self.check_row(table, row)?;
        }
        let is_bare = head.deletion.is_live() && head.static_row.is_none();
        let mut readable = Readable {
            items: 0,
            damage: None,
            is_empty: is_bare,
        };
        let mut previous: Option<Unfiltered> = None;
        loop {
            let item = match reader.next().await {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(error) => {
                    readable.damage = Some(error);
                    return Ok(readable);
                }
            };
            // Items at one place are made one when they are written.
            let in_order = |previous: &Unfiltered| previous.compare(&item, comparator).is_le();
            let checked = match (&item, previous.as_ref().is_none_or(in_order)) {
                (_, false) => Err(self
                    .keys
                    .corrupt("the rows of a partition are not in order")),
                (Unfiltered::Row(row), true) if self.validates => self.check_row(table, row),
                _ => Ok(()),
            };
            if let Err(error) = checked {
                readable.damage = Some(error);
                return Ok(readable);
            }
            readable.items += 1;
            readable.is_empty = false;
            previous = Some(item);
            self.sstable.env().maybe_yield().await;
        }
        match reader.end().await {
            Ok(end) => self.position = end,
            Err(error) => readable.damage = Some(error),
        }
        Ok(readable)
    }

    /// Reads a partition from its beginning.
    pub async fn read(&self, found: &Found) -> Result<PartitionReader, SSTableError> {
        let cursor = Cursor::new(self.sstable.data().clone(), found.at);
        let location = Location {
            data: found.at,
            blocks: (0, 0),
        };
        let all: Rc<[Slice]> = Rc::new([Slice::ALL]);
        let selection = (all, false, ColumnSelection::All);
        PartitionReader::open(
            self.sstable.clone(),
            cursor,
            location,
            &found.key,
            selection,
        )
        .await
    }

    /// Leaves entries of the index behind that begin before `position`.
    async fn catch_up(&mut self, position: u64) {
        let end = self.sstable.data_length();
        while self.entry.as_ref().is_none_or(|entry| entry.at < position) {
            let Some(entries) = &mut self.entries else {
                self.entry = None;
                return;
            };
            match entries.next().await {
                Ok(Some(entry)) if entry.at < end => self.entry = Some(entry),
                Ok(_) => {
                    self.entries = None;
                    self.entry = None;
                }
                Err(error) => self.lose_index(error),
            }
            self.sstable.env().maybe_yield().await;
        }
    }

    fn lose_index(&mut self, error: SSTableError) {
        self.entries = None;
        self.entry = None;
        self.index_damage.get_or_insert(error);
    }

    fn check_row(&self, table: &Table, row: &Row) -> Result<(), SSTableError> {
        check_row(table, row).map_err(|what| self.keys.corrupt(&what))
    }
}

/// Is it a key of the table?
fn check_key(table: &Table, key: &Bytes) -> Result<(), String> {
    let columns = table.partition_key();
    let values = model::decode_key(key, columns.len()).map_err(|error| error.to_string())?;
    for (column, value) in columns.zip(&values) {
        let valid = column.ty.validate(value);
        valid.map_err(|error| format!("{}: {error}", column.name))?;
    }
    Ok(())
}

/// Are its values of their types? (`ColumnMetadata.validateCell`.)
fn check_row(table: &Table, row: &Row) -> Result<(), String> {
    let columns = table.clustering_key();
    for (column, value) in columns.zip(&row.clustering.0) {
        let valid = column.ty.validate(value);
        valid.map_err(|error| format!("{}: {error}", column.name))?;
    }
    for cell in &row.cells {
        let Some(column) = table.column(cell.column) else {
            continue;
        };
        let failed = |error: model::ValueError| format!("{}: {error}", column.name);
        let value = (!cell.is_tombstone()).then_some(&cell.value);
        let (path_type, value_type) = match (&column.ty, &cell.path) {
            (CqlType::Counter, _) => continue,
            (ty, None) => (None, Some(ty)),
            (CqlType::Set { element, .. }, _) => (Some(&**element), None),
            (CqlType::List { element, .. }, _) => (Some(&CqlType::Timeuuid), Some(&**element)),
            (CqlType::Map { key, value, .. }, _) => (Some(&**key), Some(&**value)),
            _ => (None, None),
        };
        if let (Some(ty), Some(path)) = (path_type, &cell.path) {
            ty.validate(path).map_err(failed)?;
        }
        if let (Some(ty), Some(value)) = (value_type, value) {
            ty.validate(value).map_err(failed)?;
        }
    }
    Ok(())
}

/// The last expiry that versions before `oa` have room for
/// (`AbstractCell.MAX_DELETION_TIME_2038_LEGACY_CAP`).
const LAST_LEGACY_EXPIRY: u32 = i32::MAX as u32 - 1;

/// Gives what expires beyond what versions before `oa` have room for, and so seems to have expired
/// long ago, the last expiry that fits, with a timestamp by one later, so that it wins over the
/// deletions that were made of it (CASSANDRA-14092). Was there anything?
pub(super) fn reinsert_overflowed(row: &mut Row) -> bool {
    let is_overflowed = |ttl: i32, expiry: u32| {
        ttl != model::NO_TTL && expiry > LAST_LEGACY_EXPIRY && expiry != model::NO_DELETION_TIME
    };
    let mut found = false;
    let liveness = &mut row.liveness;
    if is_overflowed(liveness.ttl, liveness.expires_at) {
        liveness.timestamp += 1;
        liveness.expires_at = LAST_LEGACY_EXPIRY;
        found = true;
    }
    for cell in &mut row.cells {
        if is_overflowed(cell.ttl, cell.local_deletion_time) {
            cell.timestamp += 1;
            cell.local_deletion_time = LAST_LEGACY_EXPIRY;
            found = true;
        }
    }
    found
}

/// The last item of a partition that is cut behind it: a range deletion that is open there ends
/// there.
pub(super) fn closed(item: Unfiltered, open: Option<model::DeletionTime>) -> Vec<Unfiltered> {
    use crate::RangeTombstoneMarker as Marker;
    match (item, open) {
        (Unfiltered::Marker(marker), _) => {
            let closes = Marker::between(marker.bound, marker.closes, None);
            closes.map(Unfiltered::Marker).into_iter().collect()
        }
        (Unfiltered::Row(row), None) => vec![Unfiltered::Row(row)],
        (Unfiltered::Row(row), Some(open)) => {
            let end = model::Bound {
                prefix: row.clustering.clone(),
                kind: model::BoundKind::InclusiveEnd,
            };
            let marker = Marker::close(end, open);
            vec![Unfiltered::Row(row), Unfiltered::Marker(marker)]
        }
    }
}
