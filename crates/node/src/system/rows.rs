//! Rows of system tables, written and read by the names of their columns.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Cell, Clustering, DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Partition,
    PartitionUpdate, Row, Table, collection, encode_key,
};
use uuid::Uuid;

pub(super) fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

pub(super) fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) fn bigint(value: i64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) fn double(value: f64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) fn boolean(value: bool) -> Bytes {
    Bytes::copy_from_slice(&[u8::from(value)])
}

pub(super) fn uuid(value: Uuid) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

pub(super) fn inet(value: IpAddr) -> Bytes {
    match value {
        IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
        IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
    }
}

/// A frozen list or set of texts; sets come sorted.
pub(super) fn text_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> Bytes {
    collection::pack_elements(texts.into_iter().map(str::as_bytes)).into()
}

/// A frozen map of texts.
pub(super) fn text_map(map: &BTreeMap<String, String>) -> Bytes {
    collection::pack_entries(map.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes()))).into()
}

/// When rows are written: microseconds since 1970 by the clock of clients, and seconds since 1970
/// by the server's.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTime {
    pub(super) micros: i64,
    pub(super) seconds: u32,
}

impl WriteTime {
    pub(super) fn at(micros: i64) -> WriteTime {
        let seconds = micros.div_euclid(1_000_000);
        WriteTime {
            micros,
            seconds: u32::try_from(seconds).unwrap_or(0),
        }
    }

    /// A deletion of all that was written until then.
    pub(super) fn deletion(self) -> DeletionTime {
        DeletionTime {
            timestamp: self.micros,
            local_deletion_time: self.seconds,
        }
    }
}

/// Writes the cells of one row.
pub(super) struct RowWriter<'a> {
    table: &'a Table,
    row: &'a mut Row,
    time: WriteTime,
    /// Seconds to live, and when what is written expires, in seconds since 1970.
    expiry: (i32, u32),
}

impl<'a> RowWriter<'a> {
    /// A row that exists, even without cells.
    pub(super) fn insert(table: &'a Table, row: &'a mut Row, time: WriteTime) -> RowWriter<'a> {
        row.liveness = Liveness {
            timestamp: time.micros,
            ttl: NO_TTL,
            expires_at: NO_DELETION_TIME,
        };
        RowWriter::update(table, row, time)
    }

    /// A row that exists as far as its cells do.
    pub(super) fn update(table: &'a Table, row: &'a mut Row, time: WriteTime) -> RowWriter<'a> {
        let expiry = (NO_TTL, NO_DELETION_TIME);
        RowWriter {
            table,
            row,
            time,
            expiry,
        }
    }

    /// What is set from now on lives for so many seconds.
    pub(super) fn cells_for_seconds(&mut self, ttl: u32) -> &mut Self {
        let expires_at = self.time.seconds.saturating_add(ttl);
        self.expiry = (i32::try_from(ttl).unwrap_or(i32::MAX), expires_at);
        self
    }

    /// The row, and what is set from now on, lives for so many seconds.
    pub(super) fn for_seconds(&mut self, ttl: u32) -> &mut Self {
        self.cells_for_seconds(ttl);
        (self.row.liveness.ttl, self.row.liveness.expires_at) = self.expiry;
        self
    }

    /// Sets a column. All names are those of definitions in this folder.
    pub(super) fn set(&mut self, column: &str, value: Bytes) -> &mut Self {
        self.put(column, None, value)
    }

    /// Removes entries of a non-frozen map, by their keys.
    pub(super) fn remove(
        &mut self,
        column: &str,
        keys: impl IntoIterator<Item = Bytes>,
    ) -> &mut Self {
        let expiry = std::mem::replace(&mut self.expiry, (NO_TTL, self.time.seconds));
        for key in keys {
            self.put(column, Some(key), Bytes::new());
        }
        self.expiry = expiry;
        self
    }

    /// Sets a column to null.
    pub(super) fn clear(&mut self, column: &str) -> &mut Self {
        let expiry = std::mem::replace(&mut self.expiry, (NO_TTL, self.time.seconds));
        self.put(column, None, Bytes::new());
        self.expiry = expiry;
        self
    }

    /// Replaces a non-frozen set.
    pub(super) fn set_elements(
        &mut self,
        column: &str,
        elements: impl IntoIterator<Item = Bytes>,
    ) -> &mut Self {
        let Some(found) = self.table.column_named(column) else {
            debug_assert!(false, "{} has no {column}", self.table.name);
            return self;
        };
        let before = DeletionTime {
            timestamp: self.time.micros - 1,
            local_deletion_time: self.time.seconds,
        };
        self.row.add_complex_deletion(found.id, before);
        for element in elements {
            self.put(column, Some(element), Bytes::new());
        }
        self
    }

    /// Adds to a non-frozen list or map: values with their timeuuids, which rise, or keys.
    pub(super) fn add(
        &mut self,
        column: &str,
        entries: impl IntoIterator<Item = (Bytes, Bytes)>,
    ) -> &mut Self {
        for (path, value) in entries {
            self.put(column, Some(path), value);
        }
        self
    }

    fn put(&mut self, column: &str, path: Option<Bytes>, value: Bytes) -> &mut Self {
        let Some(column) = self.table.column_named(column) else {
            debug_assert!(false, "{} has no {column}", self.table.name);
            return self;
        };
        let cell = Cell {
            column: column.id,
            path,
            timestamp: self.time.micros,
            ttl: self.expiry.0,
            local_deletion_time: self.expiry.1,
            value,
        };
        self.row.add_cell(cell, self.table);
        self
    }
}

/// Reads the cells of one row.
pub(super) struct RowReader<'a> {
    table: &'a Table,
    row: &'a Row,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(table: &'a Table, row: &'a Row) -> RowReader<'a> {
        RowReader { table, row }
    }

    /// The value of a column of one cell, or of the clustering key.
    pub(super) fn get(&self, column: &str) -> Option<&'a [u8]> {
        let column = self.table.column_named(column)?;
        if column.kind == model::ColumnKind::Clustering {
            return self
                .row
                .clustering
                .0
                .get(column.position)
                .map(Bytes::as_ref);
        }
        let cell = self.row.cells_of(column.id).first()?;
        (!cell.is_tombstone()).then_some(cell.value.as_ref())
    }

    /// When the cell of a column expires, in seconds since 1970; `None`: never.
    pub(super) fn expires(&self, column: &str) -> Option<i64> {
        let column = self.table.column_named(column)?;
        let cell = self.row.cells_of(column.id).first()?;
        (cell.ttl != NO_TTL).then_some(i64::from(cell.local_deletion_time))
    }

    pub(super) fn text(&self, column: &str) -> Option<&'a str> {
        std::str::from_utf8(self.get(column)?).ok()
    }

    pub(super) fn int(&self, column: &str) -> Option<i32> {
        Some(i32::from_be_bytes(self.get(column)?.try_into().ok()?))
    }

    pub(super) fn bigint(&self, column: &str) -> Option<i64> {
        Some(i64::from_be_bytes(self.get(column)?.try_into().ok()?))
    }

    pub(super) fn double(&self, column: &str) -> Option<f64> {
        Some(f64::from_be_bytes(self.get(column)?.try_into().ok()?))
    }

    pub(super) fn boolean(&self, column: &str) -> Option<bool> {
        Some(*self.get(column)?.first()? != 0)
    }

    pub(super) fn uuid(&self, column: &str) -> Option<Uuid> {
        Uuid::from_slice(self.get(column)?).ok()
    }

    /// A frozen list or set of texts.
    pub(super) fn texts(&self, column: &str) -> Option<Vec<&'a str>> {
        let elements = collection::elements(self.get(column)?).ok()?;
        let texts = elements.into_iter().map(std::str::from_utf8);
        texts.collect::<Result<_, _>>().ok()
    }

    /// A frozen map of texts.
    pub(super) fn text_map(&self, column: &str) -> Option<BTreeMap<String, String>> {
        let map = self.blob_map(column)?;
        map.into_iter()
            .map(|(key, value)| Some((key, String::from_utf8(value).ok()?)))
            .collect()
    }

    /// A frozen map of texts to bytes.
    pub(super) fn blob_map(&self, column: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let entries = collection::entries(self.get(column)?).ok()?;
        entries
            .into_iter()
            .map(|(key, value)| Some((std::str::from_utf8(key).ok()?.to_owned(), value.to_vec())))
            .collect()
    }
}

/// The clustering of these texts.
pub(super) fn clustering<'t>(texts: impl IntoIterator<Item = &'t str>) -> Clustering {
    Clustering(texts.into_iter().map(text).collect())
}

/// The rows of a virtual table while they are made.
pub(super) struct VirtualRows {
    table: Arc<Table>,
    partitions: BTreeMap<DecoratedKey, PartitionUpdate>,
}

impl VirtualRows {
    pub(super) fn new(table: &Arc<Table>) -> VirtualRows {
        VirtualRows {
            table: table.clone(),
            partitions: BTreeMap::new(),
        }
    }

    /// Adds a row of this key: the values of the partition key, then of the clustering columns.
    /// `write` sets its other columns.
    pub(super) fn add(&mut self, key: &[Bytes], write: impl FnOnce(&mut RowWriter<'_>)) {
        let split = self.table.partition_key().len().min(key.len());
        let (partition, rest) = key.split_at(split);
        let Ok(partition) = encode_key(partition) else {
            // Only a value of more than 64 KiB has no key, and no name is as long.
            return;
        };
        let table = &self.table;
        let key = DecoratedKey::new(partition);
        let update = self
            .partitions
            .entry(key.clone())
            .or_insert_with(|| PartitionUpdate::new(table.clone(), key));
        let row = update.row_mut(&Clustering(rest.iter().cloned().collect()));
        let time = WriteTime {
            micros: 0,
            seconds: 0,
        };
        write(&mut RowWriter::insert(table, row, time));
    }

    /// The partitions in the order of the ring, rows in the order of the table.
    pub(super) fn finish(self) -> Vec<Partition> {
        self.partitions.into_values().map(Partition::from).collect()
    }
}
