//! What the tests share.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{
    Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey, DeletionTime, Order, Row,
    Table, TableOptions,
};
use uuid::Uuid;

use crate::sstable::*;
use crate::{PartitionHead, Unfiltered};

/// A partition's head and a row of it that is there, with empty clustering values and no cells.
pub(super) fn bare_row(table: &Table) -> (PartitionHead, Row) {
    let head = PartitionHead {
        key: DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1])),
        deletion: DeletionTime::LIVE,
        static_row: None,
    };
    let values = table.clustering_key().map(|_| Bytes::new()).collect();
    let mut row = Row::new(Clustering(values));
    row.liveness.timestamp = 1;
    (head, row)
}

/// A table of these columns: name, type, part.
pub(in crate::sstable) fn table_of(columns: Vec<(String, CqlType, ColumnKind, Order)>) -> Table {
    let mut positions = [0usize; 2];
    let columns = columns
        .into_iter()
        .enumerate()
        .map(|(i, (name, ty, kind, order))| {
            let next = match kind {
                ColumnKind::PartitionKey => &mut positions[0],
                ColumnKind::Clustering => &mut positions[1],
                _ => &mut 0,
            };
            let position = *next;
            *next += 1;
            Column {
                id: ColumnId(i as u32),
                name: name.into(),
                ty,
                kind,
                position,
                order,
            }
        })
        .collect();
    Table::new(Uuid::nil(), "ks", "t", columns, TableOptions::default())
}

/// A partition with all its items.
pub(super) type Partition = (PartitionHead, Vec<Unfiltered>);

/// Everything in an sstable, in order.
pub(super) async fn read_all(
    sstable: &SSTable,
    options: ScanOptions,
) -> Result<Vec<Partition>, SSTableError> {
    let mut scanner = sstable.scan(options);
    let mut partitions = Vec::new();
    while let Some(head) = scanner.next_partition().await? {
        let mut items = Vec::new();
        while let Some(item) = scanner.next().await? {
            items.push(item);
        }
        partitions.push((head, items));
    }
    Ok(partitions)
}

/// Writes partitions.
pub(super) async fn write_all(
    env: &Env,
    dir: &Path,
    table: &Arc<Table>,
    partitions: &[Partition],
    (format, options): (Format, WriterOptions),
) -> Result<Descriptor, WriteError> {
    let descriptor = Descriptor::new(dir, format, 1);
    let mut writer = Writer::create(env, descriptor, table, options).await?;
    for (head, items) in partitions {
        writer.begin_partition(head).await?;
        for item in items {
            writer.append(item).await?;
        }
        writer.end_partition().await?;
    }
    Ok(writer.finish().await?.expect("there are partitions"))
}

/// The usual options, with times encoded as for these partitions.
pub(super) fn options_for(partitions: &[Partition]) -> WriterOptions {
    let mut stats = EncodingStatsCollector::default();
    for (head, items) in partitions {
        stats.update_deletion(&head.deletion);
        head.static_row.iter().for_each(|row| stats.update_row(row));
        for item in items {
            match item {
                Unfiltered::Row(row) => stats.update_row(row),
                Unfiltered::Marker(marker) => [marker.closes, marker.opens]
                    .iter()
                    .flatten()
                    .for_each(|d| stats.update_deletion(d)),
            }
        }
    }
    let origin = ShardOrigin {
        shard: 0,
        shards: 1,
    };
    WriterOptions::new(partitions.len() as u64, stats.finish(), origin)
}

/// A key with its hash, as look-ups want it.
pub(crate) fn hashed(key: &DecoratedKey) -> (&DecoratedKey, [i64; 2]) {
    (key, model::murmur3_x64_128(key.key()))
}
