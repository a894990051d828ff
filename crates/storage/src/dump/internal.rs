//! Rows as a line each, in Cassandra's internal representation (`sstabledump -d`):
//! `Row.toString`, `RangeTombstoneMarker.toString` and what they call.

use model::{
    Bound, BoundKind, Cell, CqlType, DecoratedKey, DeletionTime, Liveness, NO_TTL, Row, Table,
    counter,
};

use super::json::{key_text, path_text};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// The lines of a partition's beginning, at `position` in the data: its deletion and its static
/// row, where there are any.
pub fn head_lines(table: &Table, head: &PartitionHead, position: u64) -> String {
    let start = start(table, &head.key, position);
    let mut out = String::new();
    if !head.deletion.is_live() {
        out.push_str(&format!("{start} {}\n", deletion(&head.deletion)));
    }
    if let Some(row) = head.static_row.as_ref().filter(|row| !row.is_empty()) {
        let line = row_line(table, row, "STATIC");
        out.push_str(&format!("{start} {line}\n"));
    }
    out
}

/// The line of a row or marker at `position` in the data.
pub fn item_line(table: &Table, key: &DecoratedKey, item: &Unfiltered, position: u64) -> String {
    let line = match item {
        Unfiltered::Row(row) => {
            let types = table.clustering_key().map(|column| &column.ty);
            let values: Vec<String> = types
                .zip(&row.clustering.0)
                .map(|(ty, value)| ty.format_literal(value))
                .collect();
            row_line(table, row, &values.join(", "))
        }
        Unfiltered::Marker(marker) => marker_line(table, marker),
    };
    format!("{} {line}\n", start(table, key, position))
}

fn start(table: &Table, key: &DecoratedKey, position: u64) -> String {
    format!("[{}]@{position}", key_text(table, key))
}

fn deletion(deletion: &DeletionTime) -> String {
    let DeletionTime {
        timestamp,
        local_deletion_time,
    } = deletion;
    format!("deletedAt={timestamp}, localDeletion={local_deletion_time}")
}

fn liveness(liveness: &Liveness) -> String {
    let Liveness {
        timestamp,
        ttl,
        expires_at,
    } = liveness;
    match *ttl {
        NO_TTL => format!("[ts={timestamp}]"),
        ttl => format!("[ts={timestamp} ttl={ttl}, let={expires_at}]"),
    }
}

fn row_line(table: &Table, row: &Row, clustering: &str) -> String {
    let mut out = format!("Row[info={}", liveness(&row.liveness));
    if !row.deletion.is_live() {
        out.push_str(&format!(" del={}", deletion(&row.deletion)));
    }
    out.push_str(&format!(" ]: {clustering} | "));
    let with_values = row.cells.iter().map(|cell| cell.column);
    let with_deletions = row.complex_deletions.iter().map(|d| d.column);
    let mut ids: Vec<_> = with_values.chain(with_deletions).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut first = true;
    for id in ids {
        let Some(column) = table.column(id) else {
            continue;
        };
        if !std::mem::take(&mut first) {
            out.push_str(", ");
        }
        let complex = column.ty.is_multi_cell();
        for gone in row.complex_deletions.iter().filter(|d| d.column == id) {
            out.push_str(&format!(
                "del({})={}",
                column.name,
                deletion(&gone.deletion)
            ));
        }
        for cell in row.cells_of(id) {
            if complex {
                out.push_str(", ");
            }
            out.push_str(&cell_text(&column.name, &column.ty, cell));
        }
    }
    out
}

fn cell_text(name: &str, ty: &CqlType, cell: &Cell) -> String {
    let Cell {
        timestamp,
        ttl,
        local_deletion_time,
        ..
    } = cell;
    if ty.is_counter() && !cell.is_tombstone() {
        return format!("[{name}={} ts={timestamp}]", counter::total(&cell.value));
    }
    let times = if cell.is_expiring() {
        format!("ts={timestamp} ttl={ttl} ldt={local_deletion_time}")
    } else if cell.is_tombstone() {
        format!("ts={timestamp} ldt={local_deletion_time}")
    } else {
        format!("ts={timestamp}")
    };
    let value = if cell.is_tombstone() {
        "<tombstone>".to_owned()
    } else {
        let ty = ty.cell_value_type(cell.path.as_deref());
        ty.unwrap_or(&CqlType::Blob).format_string(&cell.value)
    };
    // Cassandra does not get so far with user types; their fields are shown like keys of a map.
    match &cell.path {
        Some(path) => format!("[{name}[{}]={value} {times}]", path_text(ty, path)),
        None => format!("[{name}={value} {times}]"),
    }
}

fn marker_line(table: &Table, marker: &RangeTombstoneMarker) -> String {
    let kind = match (marker.bound.kind, marker.is_boundary()) {
        (BoundKind::InclusiveStart | BoundKind::ExclusiveEnd, true) => {
            "EXCL_END_INCL_START_BOUNDARY"
        }
        (BoundKind::ExclusiveStart | BoundKind::InclusiveEnd, true) => {
            "INCL_END_EXCL_START_BOUNDARY"
        }
        (kind, false) => bound_kind(kind),
    };
    let place = bound(table, &marker.bound);
    let time = |d: &DeletionTime| format!("{}/{}", d.timestamp, d.local_deletion_time);
    let times: Vec<String> = [marker.closes, marker.opens]
        .iter()
        .flatten()
        .map(time)
        .collect();
    format!("Marker {kind}({place})@{}", times.join("-"))
}

/// The name of a kind of bound (`ClusteringPrefix.Kind`).
pub fn bound_kind(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::InclusiveStart => "INCL_START_BOUND",
        BoundKind::ExclusiveStart => "EXCL_START_BOUND",
        BoundKind::InclusiveEnd => "INCL_END_BOUND",
        BoundKind::ExclusiveEnd => "EXCL_END_BOUND",
    }
}

/// The values of a bound.
fn bound(table: &Table, bound: &Bound) -> String {
    let types = table.clustering_key().map(|column| &column.ty);
    let values: Vec<String> = types
        .zip(&bound.prefix.0)
        .map(|(ty, value)| ty.format_string(value))
        .collect();
    values.join(", ")
}
