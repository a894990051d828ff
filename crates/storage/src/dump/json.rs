//! Partitions as the JSON of `sstabledump` (`org.apache.cassandra.tools.JsonTransformer`).
//!
//! The order of members, the line breaks and the little oddities are Cassandra's, so that what was
//! made for its output works with this one, down to comparing bytes: see [`JsonDump`].

use model::temporal::instant_to_text;
use model::{
    Bound, BoundKind, Cell, Clustering, Composite, CqlType, DecoratedKey, DeletionTime, Liveness,
    NO_TTL, Row, Table, quote_identifier,
};

use super::pretty::Pretty;
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// How times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// ISO 8601.
    Iso,
    /// As the numbers that they are: microseconds or seconds since 1970.
    Raw,
}

/// How partitions follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonForm {
    /// One array of all, on lines that are indented.
    Array,
    /// A line each.
    Lines,
}

/// Makes JSON of partitions. What was made has to be taken with [`JsonDump::take`] now and then.
///
/// Where things lie (`position`) is said as Cassandra says it: of a row, where it begins; of a
/// partition and of a static row, where they end and the first row begins.
pub struct JsonDump<'t> {
    table: &'t Table,
    json: Pretty,
    form: JsonForm,
    times: TimeForm,
    /// Seconds since 1970: what expires before it is shown as expired.
    now: u32,
}

impl<'t> JsonDump<'t> {
    /// Begins.
    pub fn new(table: &'t Table, form: JsonForm, times: TimeForm, now: u32) -> JsonDump<'t> {
        let mut json = Pretty::new(form == JsonForm::Lines);
        if form == JsonForm::Array {
            json.begin_array();
        }
        JsonDump {
            table,
            json,
            form,
            times,
            now,
        }
    }

    /// What was made since the last call.
    pub fn take(&mut self) -> String {
        self.json.take()
    }

    /// How much waits to be taken, in bytes.
    pub fn pending(&self) -> usize {
        self.json.len()
    }

    /// Ends; the rest of the text.
    pub fn finish(mut self) -> String {
        if self.form == JsonForm::Array {
            self.json.end_array();
        }
        self.json.take()
    }

    /// Only the key of a partition.
    pub fn key_only(&mut self, key: &DecoratedKey) {
        self.key(key);
    }

    /// The beginning of a partition. `position` is where its head ends and its first row begins.
    pub fn begin_partition(&mut self, head: &PartitionHead, position: u64) {
        self.json.begin_object();
        self.json.name("table kind");
        self.json.string("REGULAR");
        self.json.name("partition");
        self.json.begin_object();
        self.json.name("key");
        self.key(&head.key);
        self.number("position", position);
        if !head.deletion.is_live() {
            self.deletion(&head.deletion);
        }
        self.json.end_object();
        self.json.name("rows");
        self.json.begin_array();
        if let Some(row) = head.static_row.as_ref().filter(|row| !row.is_empty()) {
            self.row(row, true, position);
        }
    }

    /// A row or marker; `position` is where it begins.
    pub fn item(&mut self, item: &Unfiltered, position: u64) {
        match item {
            Unfiltered::Row(row) => self.row(row, false, position),
            Unfiltered::Marker(marker) => self.marker(marker),
        }
    }

    /// The end of the partition.
    pub fn end_partition(&mut self) {
        self.json.end_array();
        self.json.end_object();
    }

    fn number(&mut self, name: &str, number: u64) {
        self.json.name(name);
        self.json.raw(&number.to_string());
    }

    fn key(&mut self, key: &DecoratedKey) {
        self.json.objects_compact = true;
        self.json.arrays_compact = true;
        self.json.begin_array();
        for text in key_components(self.table, key) {
            self.json.string(&text);
        }
        self.json.end_array();
        self.json.objects_compact = false;
        self.json.arrays_compact = false;
    }

    fn row(&mut self, row: &Row, is_static: bool, position: u64) {
        self.json.begin_object();
        self.json.name("type");
        self.json
            .string(if is_static { "static_block" } else { "row" });
        self.number("position", position);
        if !is_static {
            self.clustering(&row.clustering);
        }
        if !row.liveness.is_empty() {
            self.liveness(&row.liveness);
        }
        if !row.deletion.is_live() {
            self.deletion(&row.deletion);
        }
        self.json.name("cells");
        self.json.begin_array();
        self.cells(row);
        self.json.end_array();
        self.json.end_object();
    }

    fn liveness(&mut self, liveness: &Liveness) {
        self.json.objects_compact = false;
        self.json.name("liveness_info");
        self.json.objects_compact = true;
        self.json.begin_object();
        self.micros("tstamp", liveness.timestamp);
        if liveness.ttl != NO_TTL {
            self.expiration(liveness.ttl, liveness.expires_at);
            self.flag("expired", liveness.expires_at < self.now);
        }
        self.json.end_object();
        self.json.objects_compact = false;
    }

    fn expiration(&mut self, ttl: i32, at: u32) {
        self.json.name("ttl");
        self.json.raw(&ttl.to_string());
        self.seconds("expires_at", at);
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.json.name(name);
        self.json.raw(if value { "true" } else { "false" });
    }

    /// Cells in the order of the file: complex deletions stand before the cells of their column.
    fn cells(&mut self, row: &Row) {
        let mut deletions = row.complex_deletions.iter().peekable();
        for cell in &row.cells {
            while let Some(complex) = deletions.next_if(|d| d.column <= cell.column) {
                self.complex_deletion(complex);
            }
            self.cell(cell, &row.liveness);
        }
        for complex in deletions {
            self.complex_deletion(complex);
        }
    }

    fn complex_deletion(&mut self, complex: &model::ComplexDeletion) {
        let Some(column) = self.table.column(complex.column) else {
            return;
        };
        self.json.objects_compact = true;
        self.json.begin_object();
        self.json.name("name");
        self.json.string(&quote_identifier(&column.name));
        self.deletion(&complex.deletion);
        self.json.objects_compact = true;
        self.json.end_object();
        self.json.objects_compact = false;
    }

    fn cell(&mut self, cell: &Cell, row: &Liveness) {
        let Some(column) = self.table.column(cell.column) else {
            return;
        };
        self.json.begin_object();
        self.json.objects_compact = true;
        self.json.name("name");
        self.json.string(&quote_identifier(&column.name));
        if let Some(path) = &cell.path {
            self.json.name("path");
            self.json.arrays_compact = true;
            self.json.begin_array();
            self.json.string(&path_text(&column.ty, path));
            self.json.end_array();
            self.json.arrays_compact = false;
        }
        if cell.is_tombstone() {
            self.json.name("deletion_info");
            self.json.begin_object();
            self.seconds("local_delete_time", cell.local_deletion_time);
            self.json.end_object();
            self.json.objects_compact = false;
        } else {
            self.json.name("value");
            self.json.raw(&cell_json(&column.ty, cell));
        }
        if row.is_empty() || cell.timestamp != row.timestamp {
            self.micros("tstamp", cell.timestamp);
        }
        if cell.is_expiring() && (row.is_empty() || cell.ttl != row.ttl) {
            self.expiration(cell.ttl, cell.local_deletion_time);
            self.flag("expired", !cell.is_live(self.now));
        }
        self.json.end_object();
        self.json.objects_compact = false;
    }

    fn marker(&mut self, marker: &RangeTombstoneMarker) {
        self.json.begin_object();
        self.json.name("type");
        self.json.string(if marker.is_boundary() {
            "range_tombstone_boundary"
        } else {
            "range_tombstone_bound"
        });
        if let (Some(start), Some(opens)) = (marker.start_bound(), &marker.opens) {
            self.bound("start", &start, opens);
        }
        if let (Some(end), Some(closes)) = (marker.end_bound(), &marker.closes) {
            self.bound("end", &end, closes);
        }
        self.json.end_object();
        self.json.objects_compact = false;
    }

    fn bound(&mut self, name: &str, bound: &Bound, deletion: &DeletionTime) {
        let inclusive = matches!(
            bound.kind,
            BoundKind::InclusiveStart | BoundKind::InclusiveEnd
        );
        self.json.name(name);
        self.json.begin_object();
        self.json.name("type");
        self.json
            .string(if inclusive { "inclusive" } else { "exclusive" });
        self.clustering(&bound.prefix);
        self.deletion(deletion);
        self.json.end_object();
    }

    /// A star for each clustering column that a bound does not say.
    fn clustering(&mut self, clustering: &Clustering) {
        if clustering.0.is_empty() {
            return;
        }
        self.json.name("clustering");
        self.json.objects_compact = true;
        self.json.begin_array();
        self.json.arrays_compact = true;
        for (i, column) in self.table.clustering_key().enumerate() {
            match clustering.0.get(i) {
                None => self.json.string("*"),
                Some(value) => self.json.raw(&column.ty.to_json(value)),
            }
        }
        self.json.end_array();
        self.json.objects_compact = false;
        self.json.arrays_compact = false;
    }

    fn deletion(&mut self, deletion: &DeletionTime) {
        self.json.name("deletion_info");
        self.json.objects_compact = true;
        self.json.begin_object();
        self.micros("marked_deleted", deletion.timestamp);
        self.seconds("local_delete_time", deletion.local_deletion_time);
        self.json.end_object();
        self.json.objects_compact = false;
    }

    fn micros(&mut self, name: &str, time: i64) {
        self.json.name(name);
        self.json.string(&match self.times {
            TimeForm::Raw => time.to_string(),
            TimeForm::Iso => time_text(time / 1_000_000, time.saturating_mul(1000)),
        });
    }

    fn seconds(&mut self, name: &str, time: u32) {
        let time = i64::from(time);
        self.json.name(name);
        self.json.string(&match self.times {
            TimeForm::Raw => time.to_string(),
            TimeForm::Iso => time_text(time, time.saturating_mul(1_000_000_000)),
        });
    }
}

/// As `JsonTransformer.dateString`: seconds are cut off towards zero, and the fraction is that of
/// the nanoseconds, which end in the year 2262.
fn time_text(seconds: i64, nanos: i64) -> String {
    instant_to_text(seconds, nanos.rem_euclid(1_000_000_000) as u32)
}

/// The columns of a partition key as text.
fn key_components(table: &Table, key: &DecoratedKey) -> Vec<String> {
    let types: Vec<&CqlType> = table.partition_key().map(|c| &c.ty).collect();
    match types[..] {
        [only] => vec![only.format_string(key.key())],
        // It may be one column that is a composite itself, and has fewer components.
        _ => Composite::of_key(&types)
            .component_texts(key.key())
            .unwrap_or_else(|| vec![CqlType::Blob.format_string(key.key())]),
    }
}

/// A partition key as `sstabledump -k` takes it.
pub fn key_text(table: &Table, key: &DecoratedKey) -> String {
    let types: Vec<&CqlType> = table.partition_key().map(|c| &c.ty).collect();
    model::key_to_text(key.key(), &types)
}

/// Which element or field a cell is.
pub(super) fn path_text(ty: &CqlType, path: &[u8]) -> String {
    if let CqlType::Udt { definition, .. } = ty {
        let field = <[u8; 2]>::try_from(path)
            .map_or(usize::MAX, |bytes| usize::from(u16::from_be_bytes(bytes)));
        let field = definition.fields.get(field);
        return field.map_or_else(
            || CqlType::Blob.format_string(path),
            |(name, _)| name.to_string(),
        );
    }
    ty.path_type().unwrap_or(&CqlType::Blob).format_string(path)
}

fn cell_json(ty: &CqlType, cell: &Cell) -> String {
    match ty {
        // The tool takes the first bytes of a counter's shards for its number.
        CqlType::Counter => match cell.value.first_chunk::<8>() {
            Some(first) => i64::from_be_bytes(*first).to_string(),
            None => "0".to_owned(),
        },
        _ => ty
            .cell_value_type(cell.path.as_deref())
            .unwrap_or(&CqlType::Blob)
            .to_json(&cell.value),
    }
}
