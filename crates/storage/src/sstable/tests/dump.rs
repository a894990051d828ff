//! An sstable as JSON, in the form that Cassandra's `sstabledump` prints.

use model::{Bound, BoundKind, Cell, CqlType, DeletionTime, Liveness, NO_TTL, Row, Table, TableId};
use serde_json::{Map, Value, json};

use super::support::Partition;
use crate::{RangeTombstoneMarker, Unfiltered, is_start};

/// `2023-11-14T22:16:08.040360Z`, with as many digits of the fraction as `Instant.toString` has.
fn micros(timestamp: i64) -> String {
    let (seconds, rest) = (
        timestamp.div_euclid(1_000_000),
        timestamp.rem_euclid(1_000_000),
    );
    let days = seconds.div_euclid(86_400);
    let (y, m, d) = civil(days);
    let time = seconds.rem_euclid(86_400);
    let fraction = match rest {
        0 => String::new(),
        r if r % 1000 == 0 => format!(".{:03}", r / 1000),
        r => format!(".{r:06}"),
    };
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{y:04}-{m:02}-{d:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn seconds(time: u32) -> String {
    micros(i64::from(time) * 1_000_000)
}

/// Year, month and day of a number of days since 1970 (Howard Hinnant's `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month, doy - (153 * mp + 2) / 5 + 1)
}

fn value(ty: &CqlType, bytes: &[u8]) -> Value {
    let text = ty.to_json(bytes);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text} is no JSON: {e}"))
}

fn deletion(deletion: &DeletionTime) -> Value {
    json!({
        "marked_deleted": micros(deletion.timestamp),
        "local_delete_time": seconds(deletion.local_deletion_time),
    })
}

/// The components of a partition key.
fn key(table: &Table, key: &[u8]) -> Vec<Value> {
    let types: Vec<&CqlType> = table.partition_key().map(|c| &c.ty).collect();
    if let [ty] = types[..] {
        return vec![json!(ty.format_string(key))];
    }
    let mut rest = key;
    types
        .iter()
        .map(|ty| {
            let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            let component = &rest[2..2 + len];
            rest = &rest[3 + len..];
            json!(ty.format_string(component))
        })
        .collect()
}

fn liveness(liveness: &Liveness) -> Value {
    let mut out = Map::new();
    out.insert("tstamp".into(), json!(micros(liveness.timestamp)));
    if liveness.ttl != NO_TTL {
        out.insert("ttl".into(), json!(liveness.ttl));
        out.insert("expires_at".into(), json!(seconds(liveness.expires_at)));
    }
    out.into()
}

fn cell(table: &Table, row: &Row, cell: &Cell) -> Value {
    let column = table.column(cell.column).expect("a known column");
    let mut out = Map::new();
    out.insert("name".into(), json!(*column.name));
    if let Some(path) = &cell.path {
        let text = match &column.ty {
            CqlType::Udt { definition, .. } => {
                let field = u16::from_be_bytes([path[0], path[1]]);
                definition.fields[usize::from(field)].0.to_string()
            }
            ty => ty.path_type().expect("has paths").format_string(path),
        };
        out.insert("path".into(), json!([text]));
    }
    if cell.is_tombstone() {
        let time = json!({"local_delete_time": seconds(cell.local_deletion_time)});
        out.insert("deletion_info".into(), time);
    } else {
        let ty = column.ty.cell_value_type(cell.path.as_deref());
        let shown = match column.ty {
            // The tool takes the first bytes of the shards for the number.
            CqlType::Counter => json!(i64::from_be_bytes(
                cell.value[..8].try_into().expect("eight bytes")
            )),
            _ => value(ty.expect("a type"), &cell.value),
        };
        out.insert("value".into(), shown);
    }
    if row.liveness.is_empty() || cell.timestamp != row.liveness.timestamp {
        out.insert("tstamp".into(), json!(micros(cell.timestamp)));
    }
    if cell.is_expiring() && (row.liveness.is_empty() || cell.ttl != row.liveness.ttl) {
        out.insert("ttl".into(), json!(cell.ttl));
        out.insert(
            "expires_at".into(),
            json!(seconds(cell.local_deletion_time)),
        );
    }
    out.into()
}

fn row(table: &Table, row: &Row, is_static: bool) -> Value {
    let mut out = Map::new();
    let kind = if is_static { "static_block" } else { "row" };
    out.insert("type".into(), json!(kind));
    let types = table.clustering_key().map(|c| &c.ty);
    let clustering: Vec<Value> = types
        .zip(&row.clustering.0)
        .map(|(ty, bytes)| value(ty, bytes))
        .collect();
    if !clustering.is_empty() {
        out.insert("clustering".into(), clustering.into());
    }
    if !row.liveness.is_empty() {
        out.insert("liveness_info".into(), liveness(&row.liveness));
    }
    if !row.deletion.is_live() {
        out.insert("deletion_info".into(), deletion(&row.deletion));
    }
    let columns = if is_static {
        table.statics().collect::<Vec<_>>()
    } else {
        table.regulars().collect()
    };
    let mut cells = Vec::new();
    for multi_cell in [false, true] {
        for column in columns
            .iter()
            .filter(|c| c.ty.is_multi_cell() == multi_cell)
        {
            for complex in row
                .complex_deletions
                .iter()
                .filter(|d| d.column == column.id)
            {
                cells.push(json!({
                    "name": *column.name,
                    "deletion_info": deletion(&complex.deletion),
                }));
            }
            cells.extend(row.cells_of(column.id).iter().map(|c| cell(table, row, c)));
        }
    }
    out.insert("cells".into(), cells.into());
    out.into()
}

fn bound(table: &Table, bound: &Bound, time: &DeletionTime) -> Value {
    let mut out = Map::new();
    let inclusive = matches!(
        bound.kind,
        BoundKind::InclusiveStart | BoundKind::InclusiveEnd
    );
    let kind = if inclusive { "inclusive" } else { "exclusive" };
    out.insert("type".into(), json!(kind));
    if !bound.prefix.0.is_empty() {
        let given = table.clustering_key().zip(&bound.prefix.0);
        let mut clustering: Vec<Value> = given
            .map(|(column, bytes)| value(&column.ty, bytes))
            .collect();
        // A star for each clustering column that the bound does not say.
        clustering.resize(table.clustering_key().len(), json!("*"));
        out.insert("clustering".into(), clustering.into());
    }
    out.insert("deletion_info".into(), deletion(time));
    out.into()
}

fn marker(table: &Table, marker: &RangeTombstoneMarker) -> Value {
    let mut out = Map::new();
    let kind = if marker.is_boundary() {
        "range_tombstone_boundary"
    } else {
        "range_tombstone_bound"
    };
    out.insert("type".into(), json!(kind));
    if let (Some(start), Some(opens)) = (marker.start_bound(), &marker.opens) {
        assert!(is_start(start.kind));
        out.insert("start".into(), bound(table, &start, opens));
    }
    if let (Some(end), Some(closes)) = (marker.end_bound(), &marker.closes) {
        out.insert("end".into(), bound(table, &end, closes));
    }
    out.into()
}

/// The partitions as `sstabledump` prints them, less what depends on the day or on where things
/// lie in the file (see [`normalize`]).
pub(super) fn dump(table: &Table, partitions: &[Partition]) -> Value {
    let _: TableId = table.id;
    partitions
        .iter()
        .map(|(head, items)| {
            let mut partition = Map::new();
            partition.insert("key".into(), key(table, head.key.key()).into());
            if !head.deletion.is_live() {
                partition.insert("deletion_info".into(), deletion(&head.deletion));
            }
            let statics = head.static_row.iter().map(|r| row(table, r, true));
            let rows = items.iter().map(|item| match item {
                Unfiltered::Row(r) => row(table, r, false),
                Unfiltered::Marker(m) => marker(table, m),
            });
            let rows: Vec<Value> = statics.chain(rows).collect();
            json!({"partition": partition, "rows": rows})
        })
        .collect::<Vec<_>>()
        .into()
}

/// Removes from the output of `sstabledump` what [`dump`] leaves out.
pub(super) fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["position", "expired", "table kind"] {
                map.remove(key);
            }
            map.values_mut().for_each(normalize);
        }
        Value::Array(values) => values.iter_mut().for_each(normalize),
        _ => {}
    }
}

/// The first difference, with the way to it.
pub(super) fn difference(a: &Value, b: &Value, path: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let mut keys: Vec<&String> = x.keys().chain(y.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let null = Value::Null;
                let (v, w) = (x.get(key).unwrap_or(&null), y.get(key).unwrap_or(&null));
                difference(v, w, &format!("{path}/{key}"))
            })
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .enumerate()
            .find_map(|(i, (v, w))| difference(v, w, &format!("{path}/{i}"))),
        (Value::Number(x), Value::Number(y)) if x.as_f64() == y.as_f64() => None,
        _ if a == b => None,
        _ => Some(format!("{path}: {a} is not {b}")),
    }
}
