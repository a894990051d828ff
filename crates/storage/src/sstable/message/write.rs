//! Updates as Cassandra writes them into its messages.

use model::{Column, ColumnId, NO_DELETION_TIME, PartitionUpdate, Row};

use super::{
    HAS_PARTITION_DELETION, HAS_ROW_ESTIMATE, HAS_STATIC_ROW, IS_EMPTY, VERSION_40, VERSION_50,
};
use crate::Unfiltered;
use crate::sstable::encode::Encoder;
use crate::sstable::expiry::LAST_LEGACY;
use crate::sstable::header::{EncodingStats, EncodingStatsCollector, in_file_order};
use crate::sstable::input::write_vint_bytes;
use crate::sstable::layout::{Layout, LayoutColumns};
use crate::sstable::misfit::{self, Misfit};
use crate::sstable::stream;

/// An update as a Cassandra 5.0 with default settings keeps it in `system.paxos`, and the version
/// that stands beside it there: that of 4.0, but for updates with times after 2038 that of 5.0,
/// as the other has no room for them (`PartitionUpdate.toBytes`).
///
/// # Errors
/// A value that is longer or shorter than its type allows; [`crate::check_fits`] would have found it.
pub fn encode_partition_update(update: &PartitionUpdate) -> Result<(i32, Vec<u8>), Misfit> {
    let version = match has_late_times(update) {
        true => VERSION_50,
        false => VERSION_40,
    };
    Ok((version, encode(update, version)?))
}

/// Writes an update in a version of messages (`PartitionUpdate.PartitionUpdateSerializer`).
pub(in crate::sstable) fn encode(
    update: &PartitionUpdate,
    version: i32,
) -> Result<Vec<u8>, Misfit> {
    let mut out = update.table.id.as_bytes().to_vec();
    write_vint_bytes(&mut out, update.key.key());
    if update.is_empty() {
        out.push(IS_EMPTY);
        return Ok(out);
    }
    let static_row = update.static_row.as_ref().filter(|row| !row.is_empty());
    let mut flags = HAS_ROW_ESTIMATE;
    if !update.deletion.is_live() {
        flags |= HAS_PARTITION_DELETION;
    }
    if static_row.is_some() {
        flags |= HAS_STATIC_ROW;
    }
    out.push(flags);

    let statics = written_columns(update, static_row);
    let regulars = written_columns(update, &update.rows);
    let encoding = encoding_stats(update);
    encoding.encode(&mut out);
    if static_row.is_some() {
        write_names(&mut out, &statics);
    }
    write_names(&mut out, &regulars);
    let columns = [&statics, &regulars].map(|columns| LayoutColumns::of_table(columns));
    let unsigned = version >= VERSION_50;
    let mut encoder = Encoder::new(Layout::of_message(
        encoding,
        unsigned,
        columns,
        &update.table,
    ));
    if !update.deletion.is_live() {
        encoder.deletion(&mut out, &update.deletion);
    }
    let misfit = |row: Option<&Row>, error| misfit::locate(&update.table, &update.key, row, &error);
    if let Some(row) = static_row {
        let encoded = encoder.static_row(&mut out, row);
        encoded.map_err(|error| misfit(Some(row), error))?;
    }
    model::vint::write_unsigned(&mut out, update.rows.len() as u64);
    for item in stream::items(update) {
        let row = match &item {
            Unfiltered::Row(row) => Some(row),
            Unfiltered::Marker(_) => None,
        };
        let encoded = encoder.unfiltered(&mut out, &item);
        encoded.map_err(|error| misfit(row, error))?;
    }
    encoder.end(&mut out);
    Ok(out)
}

/// Appends the names of columns (`Columns.Serializer.serialize`).
fn write_names(out: &mut Vec<u8>, columns: &[&Column]) {
    model::vint::write_unsigned(out, columns.len() as u64);
    for column in columns {
        write_vint_bytes(out, column.name.as_bytes());
    }
}

/// The columns of which rows say something, in the order of files.
fn written_columns<'u>(
    update: &'u PartitionUpdate,
    rows: impl IntoIterator<Item = &'u Row>,
) -> Vec<&'u Column> {
    let mut ids: Vec<ColumnId> = Vec::new();
    for row in rows {
        let cells = row.cells.iter().map(|cell| cell.column);
        let deletions = row.complex_deletions.iter().map(|d| d.column);
        for id in cells.chain(deletions) {
            if ids.last() != Some(&id) {
                ids.push(id);
            }
        }
    }
    ids.sort_unstable();
    ids.dedup();
    in_file_order(ids.into_iter().filter_map(|id| update.table.column(id)))
}

/// What the times of an update are differences to (`EncodingStats.Collector.collect`).
fn encoding_stats(update: &PartitionUpdate) -> EncodingStats {
    let mut stats = EncodingStatsCollector::default();
    if !update.deletion.is_live() {
        stats.update_deletion(&update.deletion);
    }
    for tombstone in &update.range_tombstones {
        stats.update_deletion(&tombstone.deletion);
    }
    for row in update.static_row.iter().chain(&update.rows) {
        stats.update_row(row);
    }
    stats.finish()
}

/// Does something expire, or was deleted, after the last second that fits into a signed number?
fn has_late_times(update: &PartitionUpdate) -> bool {
    let late = |time: u32| time > LAST_LEGACY && time != NO_DELETION_TIME;
    let mut tombstones = update.range_tombstones.iter();
    let late_row = |row: &Row| {
        let mut complex = row.complex_deletions.iter();
        late(row.liveness.expires_at)
            || late(row.deletion.local_deletion_time)
            || complex.any(|d| late(d.deletion.local_deletion_time))
            || row.cells.iter().any(|cell| late(cell.local_deletion_time))
    };
    late(update.deletion.local_deletion_time)
        || tombstones.any(|tombstone| late(tombstone.deletion.local_deletion_time))
        || update.static_row.iter().chain(&update.rows).any(late_row)
}
