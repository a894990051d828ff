//! What the storage workload writes.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, ColumnId, DecoratedKey, DeletionTime, Liveness, Mutation,
    NO_DELETION_TIME, NO_TTL, PartitionUpdate, RangeTombstone, Slice, Table,
};

use super::tables::COLUMNS;
use crate::Random;

/// Clustering values are below this.
pub(crate) const ROWS: u64 = 24;

/// A time to live, in seconds, that has passed.
const SHORT_TTL: i32 = 1;
/// A time to live, in seconds, that outlasts every run.
const LONG_TTL: i32 = 10_000_000;

/// The partition key of a number.
pub(crate) fn key(number: u32) -> DecoratedKey {
    DecoratedKey::new(int(number))
}

fn int(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn clustering(number: u64) -> Clustering {
    Clustering([int(number as u32)].into_iter().collect())
}

/// The time of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Microseconds since 1970.
    pub(crate) timestamp: i64,
    /// Seconds since 1970.
    pub(crate) seconds: u32,
}

impl Moment {
    fn deletion(self) -> DeletionTime {
        DeletionTime {
            timestamp: self.timestamp,
            local_deletion_time: self.seconds,
        }
    }

    fn cell(self, column: ColumnId, path: Option<Bytes>, value: Bytes, ttl: i32) -> Cell {
        Cell {
            column,
            path,
            timestamp: self.timestamp,
            ttl,
            local_deletion_time: self.expiry(ttl),
            value,
        }
    }

    /// When what is written with a time to live expires. A short one has passed already: so it
    /// does not matter at which moment of the run a read or a compaction looks.
    fn expiry(self, ttl: i32) -> u32 {
        match ttl {
            NO_TTL => NO_DELETION_TIME,
            SHORT_TTL => self.seconds - 1,
            ttl => self.seconds + ttl as u32,
        }
    }

    fn tombstone(self, column: ColumnId, path: Option<Bytes>) -> Cell {
        Cell {
            column,
            path,
            timestamp: self.timestamp,
            ttl: NO_TTL,
            local_deletion_time: self.seconds,
            value: Bytes::new(),
        }
    }
}

/// A write to some tables, all of one key.
pub(crate) fn mutation(
    random: &mut Random,
    key: &DecoratedKey,
    tables: &[Arc<Table>],
    moment: Moment,
) -> Mutation {
    let updates = tables
        .iter()
        .map(|table| update(random, key, table, moment))
        .collect();
    Mutation { updates }
}

/// The deletion of a key in all tables.
pub(crate) fn wipe(key: &DecoratedKey, tables: &[Arc<Table>], moment: Moment) -> Mutation {
    let delete = |table: &Arc<Table>| PartitionUpdate {
        deletion: moment.deletion(),
        ..PartitionUpdate::new(table.clone(), key.clone())
    };
    Mutation {
        updates: tables.iter().map(delete).collect(),
    }
}

fn update(
    random: &mut Random,
    key: &DecoratedKey,
    table: &Arc<Table>,
    moment: Moment,
) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), key.clone());
    match random.below(100) {
        0..3 => update.deletion = moment.deletion(),
        3..8 => update.add_range_tombstone(RangeTombstone {
            slice: slice(random, table),
            deletion: moment.deletion(),
        }),
        8..16 => {
            let row = update.row_mut(&clustering(random.below(ROWS)));
            row.deletion = moment.deletion();
        }
        16..24 => {
            let value = Bytes::from(format!("fixed {}", random.below(1000)));
            let cell = moment.cell(COLUMNS.fixed, None, value, NO_TTL);
            update.static_row_mut().add_cell(cell, table);
        }
        _ => {
            for _ in 0..1 + random.below(4) {
                write_row(random, &mut update, table, moment);
            }
        }
    }
    update
}

/// One row.
pub(crate) fn row_slice(random: &mut Random) -> Slice {
    Slice::of_prefix(clustering(random.below(ROWS)))
}

/// A range of rows, in the order of the table; never empty.
pub(crate) fn slice(random: &mut Random, table: &Table) -> Slice {
    let comparator = table.comparator();
    loop {
        let bound = |random: &mut Random, kinds: [BoundKind; 2]| match random.chance(15) {
            true => Bound {
                prefix: Clustering::EMPTY,
                kind: kinds[0],
            },
            false => Bound {
                prefix: clustering(random.below(ROWS)),
                kind: *random.pick(&kinds),
            },
        };
        let slice = Slice {
            start: bound(
                random,
                [BoundKind::InclusiveStart, BoundKind::ExclusiveStart],
            ),
            end: bound(random, [BoundKind::InclusiveEnd, BoundKind::ExclusiveEnd]),
        };
        if !slice.is_empty(comparator) {
            return slice;
        }
    }
}

fn write_row(random: &mut Random, update: &mut PartitionUpdate, table: &Table, moment: Moment) {
    let ttl = match random.chance(10) {
        true => *random.pick(&[SHORT_TTL, LONG_TTL]),
        false => NO_TTL,
    };
    let row = update.row_mut(&clustering(random.below(ROWS)));
    if random.chance(70) {
        row.liveness = Liveness {
            timestamp: moment.timestamp,
            ttl,
            expires_at: moment.expiry(ttl),
        };
    }
    if random.chance(60) {
        let value = int(random.next_u64() as u32);
        row.add_cell(moment.cell(COLUMNS.number, None, value, ttl), table);
    }
    if random.chance(15) {
        row.add_cell(moment.tombstone(COLUMNS.blob, None), table);
    } else if random.chance(60) {
        let len = match random.below(100) {
            0..2 => 4000 + random.below(12_000),
            _ => random.below(200),
        };
        let value = Bytes::from(vec![random.next_u64() as u8; len as usize]);
        row.add_cell(moment.cell(COLUMNS.blob, None, value, ttl), table);
    }
    if random.chance(20) {
        // An overwrite deletes what was there a moment before.
        let mut before = moment.deletion();
        before.timestamp -= 1;
        row.add_complex_deletion(COLUMNS.set, before);
    }
    for _ in 0..random.below(3) {
        let path = Some(int(random.below(8) as u32));
        let cell = match random.chance(25) {
            true => moment.tombstone(COLUMNS.set, path),
            false => moment.cell(COLUMNS.set, path, Bytes::new(), ttl),
        };
        row.add_cell(cell, table);
    }
    if row.is_empty() {
        row.liveness.timestamp = moment.timestamp;
    }
}
