//! What a scan of a whole sstable finds: `helenus sstable metadata -s`
//! (`SSTableMetadataViewer.printScannedOverview`).

use io::Env;
use model::{Cell, NO_TTL, Row};
use storage::Unfiltered;
use storage::dump::key_text;
use storage::sstable::{Descriptor, ScanOptions};

use super::{ToolError, files};

/// How many partitions of each kind are listed.
const LISTED: usize = 5;
/// Bytes of a time of deletion, as `DeletionTime.dataSize` counts them.
const DELETION_SIZE: i64 = 12;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Overview {
    pub(super) bytes: u64,
    pub(super) partitions: u64,
    pub(super) rows: u64,
    pub(super) tombstones: u64,
    pub(super) cells: u64,
    /// By rows.
    pub(super) widest: Leaders,
    /// By bytes.
    pub(super) largest: Leaders,
    pub(super) most_tombstones: Leaders,
}

/// The partitions with the highest values, the highest first.
#[derive(Debug, Default)]
pub(super) struct Leaders(Vec<(String, i64)>);

impl Leaders {
    fn add(&mut self, value: i64, key: impl FnOnce() -> String) {
        let at = self.0.partition_point(|(_, known)| *known >= value);
        if at < LISTED {
            self.0.insert(at, (key(), value));
            self.0.truncate(LISTED);
        }
    }

    pub(super) fn list(&self) -> &[(String, i64)] {
        &self.0
    }
}

/// Reads all of an sstable.
pub(super) async fn overview(env: &Env, descriptor: &Descriptor) -> Result<Overview, ToolError> {
    let (table, sstable) = files::open_in_any_order(env, descriptor).await?;
    let mut found = Overview {
        bytes: sstable.data_length(),
        ..Overview::default()
    };
    let mut scan = sstable.scan(ScanOptions::default());
    while let Some(head) = scan.next_partition().await? {
        let (mut rows, mut size, mut tombstones) = (0, 0, 0);
        if let Some(row) = head.static_row.as_ref().filter(|row| !row.is_empty()) {
            rows += 1;
            size += data_size(row);
        }
        tombstones += i64::from(!head.deletion.is_live());
        while let Some(item) = scan.next().await? {
            match item {
                Unfiltered::Row(row) => {
                    rows += 1;
                    size += data_size(&row);
                    found.cells += row.cells.len() as u64;
                    tombstones += row.cells.iter().filter(|c| c.is_tombstone()).count() as i64;
                }
                Unfiltered::Marker(_) => tombstones += 1,
            }
        }
        found.partitions += 1;
        found.rows += rows as u64;
        found.tombstones += tombstones as u64;
        let key = || key_text(&table, &head.key);
        found.widest.add(rows, key);
        found.largest.add(size, key);
        found.most_tombstones.add(tombstones, key);
        env.maybe_yield().await;
    }
    Ok(found)
}

/// `Row.dataSize`.
fn data_size(row: &Row) -> i64 {
    let clustering: i64 = row.clustering.0.iter().map(|v| v.len() as i64).sum();
    let liveness = match row.liveness.ttl {
        NO_TTL => 8,
        _ => 8 + 4 + 8,
    };
    let cell = |cell: &Cell| {
        let path = cell.path.as_ref().map_or(0, |path| path.len());
        8 + 4 + 8 + (cell.value.len() + path) as i64
    };
    let cells: i64 = row.cells.iter().map(cell).sum();
    let mut complex: Vec<_> = row.complex_deletions.iter().map(|d| d.column).collect();
    let with_path = row.cells.iter().filter(|cell| cell.path.is_some());
    complex.extend(with_path.map(|cell| cell.column));
    complex.sort_unstable();
    complex.dedup();
    clustering + liveness + DELETION_SIZE + 1 + cells + DELETION_SIZE * complex.len() as i64
}
