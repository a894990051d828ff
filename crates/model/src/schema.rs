//! Keyspaces, tables and types: immutable snapshots, swapped whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::{
    ClusteringComparator, Column, ColumnId, ColumnKind, ColumnMask, CqlType, DroppedColumn, Index,
    Order, Row, UserFunctions, View, murmur3_x64_128, vint,
};

/// The identity of a table: a dropped and re-created table is another one.
pub type TableId = Uuid;

/// The options of a table, with Cassandra's names (`TableParams`). Maps keep what was given, as
/// `system_schema.tables` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// `additional_write_policy`
    pub additional_write_policy: String,
    /// `allow_auto_snapshot`
    pub allow_auto_snapshot: bool,
    /// `bloom_filter_fp_chance`
    pub bloom_filter_fp_chance: f64,
    /// `caching`
    pub caching: BTreeMap<String, String>,
    /// `cdc`
    pub cdc: bool,
    /// `comment`
    pub comment: String,
    /// `compaction`, with the full class name under `class`
    pub compaction: BTreeMap<String, String>,
    /// `compression`, with the full class name under `class`
    pub compression: BTreeMap<String, String>,
    /// `crc_check_chance`
    pub crc_check_chance: f64,
    /// `default_time_to_live`, in seconds
    pub default_time_to_live: i32,
    /// `extensions`
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// `gc_grace_seconds`
    pub gc_grace_seconds: i32,
    /// `incremental_backups`
    pub incremental_backups: bool,
    /// `max_index_interval`
    pub max_index_interval: i32,
    /// `memtable`: name of the memtable configuration
    pub memtable: String,
    /// `memtable_flush_period_in_ms`
    pub memtable_flush_period_in_ms: i32,
    /// `min_index_interval`
    pub min_index_interval: i32,
    /// `read_repair`
    pub read_repair: String,
    /// `speculative_retry`
    pub speculative_retry: String,
}

impl Default for TableOptions {
    /// The defaults of Cassandra 5.0.
    fn default() -> TableOptions {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        TableOptions {
            additional_write_policy: "99p".to_owned(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            comment: String::new(),
            compaction: map(&[
                (
                    "class",
                    "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
                ),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable: "default".to_owned(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".to_owned(),
            speculative_retry: "99p".to_owned(),
        }
    }
}

/// The form of a table made WITH COMPACT STORAGE. Rows have no markers: one exists as long as a
/// value of it does. Columns that clients did not declare are kept with the others and never shown
/// ([`Table::hides`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompactForm {
    /// With clustering columns and one regular column (Cassandra's *dense* tables). Where none was
    /// declared it is hidden, of the type `empty`.
    Dense,
    /// Without clustering columns: those that were declared are static columns. Behind them lie
    /// rows in which clients of old protocols kept what was not declared, with a clustering column
    /// and a regular one that are hidden.
    Static,
}

/// A table. Build with [`Table::new`]; never changed once shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its identity.
    pub id: TableId,
    /// Its keyspace.
    pub keyspace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its options.
    pub options: TableOptions,
    /// Columns dropped from it.
    pub dropped: Vec<DroppedColumn>,
    /// Masks of its columns, by the name of the column.
    pub masks: BTreeMap<Arc<str>, ColumnMask>,
    /// Made by the node on the fly, not stored (`system_views`, `system_virtual_schema`)?
    pub is_virtual: bool,
    /// Made WITH COMPACT STORAGE, in which form?
    pub compact: Option<CompactForm>,
    /// What it is a materialized view of, if it is one.
    pub view: Option<Arc<View>>,
    /// Its secondary indexes that are kept, in the order of their names.
    pub indexes: Vec<Index>,
    /// By id; a hole where a column was dropped.
    columns: Vec<Option<Column>>,
    partition_key: Vec<ColumnId>,
    clustering_key: Vec<ColumnId>,
    statics: Vec<ColumnId>,
    regulars: Vec<ColumnId>,
    comparator: ClusteringComparator,
    numbered: Numbered,
}

/// The numbers of the columns of a table.
#[derive(Clone, Debug, PartialEq)]
struct Numbered {
    /// By id, see [`Table::number_of`].
    numbers: Vec<Option<u32>>,
    /// See [`Table::numbers_rise`].
    rise: bool,
    /// See [`Table::form`].
    form: u64,
}

impl Numbered {
    /// Of the columns of the key, in order, and the others, in order.
    fn new(keys: &[ColumnId], values: &[ColumnId], columns: &[Option<Column>]) -> Numbered {
        let mut numbers = vec![None; columns.len()];
        for (number, id) in (0..).zip(keys.iter().chain(values)) {
            numbers[id.0 as usize] = Some(number);
        }
        let mut values_by_id = values.to_vec();
        values_by_id.sort_unstable();
        let in_order = keys.iter().chain(values);
        Numbered {
            numbers,
            rise: values_by_id == values,
            form: form(in_order.filter_map(|id| columns[id.0 as usize].as_ref())),
        }
    }
}

impl Table {
    /// A table of these columns. Key columns must have the positions 0, 1, …, each once, and ids
    /// must be unique; holes in the ids are those of dropped columns.
    pub fn new(
        id: TableId,
        keyspace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        columns: Vec<Column>,
        options: TableOptions,
    ) -> Table {
        let ids_of = |kind: ColumnKind| {
            let mut found: Vec<&Column> = columns.iter().filter(|c| c.kind == kind).collect();
            match kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => {
                    found.sort_by_key(|c| c.position);
                    assert!(found.iter().enumerate().all(|(i, c)| c.position == i));
                }
                ColumnKind::Static | ColumnKind::Regular => {
                    found.sort_by(|a, b| Column::compare_names(&a.name, &b.name));
                }
            }
            found.iter().map(|c| c.id).collect::<Vec<_>>()
        };
        let partition_key = ids_of(ColumnKind::PartitionKey);
        assert!(!partition_key.is_empty(), "a table has a partition key");
        let clustering_key = ids_of(ColumnKind::Clustering);
        let statics = ids_of(ColumnKind::Static);
        let regulars = ids_of(ColumnKind::Regular);

        let slots = columns
            .iter()
            .map(|c| c.id.0 as usize + 1)
            .max()
            .unwrap_or(0);
        let mut by_id: Vec<Option<Column>> = vec![None; slots];
        for column in columns {
            let slot = &mut by_id[column.id.0 as usize];
            assert!(slot.is_none(), "column ids are unique");
            *slot = Some(column);
        }
        let comparator = ClusteringComparator::new(
            clustering_key
                .iter()
                .filter_map(|id| by_id[id.0 as usize].as_ref())
                .map(|c| (c.ty.clone(), c.order))
                .collect(),
        );
        let keys = [&partition_key[..], &clustering_key].concat();
        let numbered = Numbered::new(&keys, &[&statics[..], &regulars].concat(), &by_id);
        Table {
            id,
            keyspace: keyspace.into(),
            name: name.into(),
            options,
            dropped: Vec::new(),
            masks: BTreeMap::new(),
            is_virtual: false,
            compact: None,
            view: None,
            indexes: Vec::new(),
            columns: by_id,
            partition_key,
            clustering_key,
            statics,
            regulars,
            comparator,
            numbered,
        }
    }

    /// The column of this id, unless it was dropped.
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        self.columns.get(id.0 as usize).and_then(Option::as_ref)
    }

    /// The column of this name (exact).
    pub fn column_named(&self, name: &str) -> Option<&Column> {
        self.columns().find(|c| &*c.name == name)
    }

    /// The columns that came back after others of their names were dropped, and when those were
    /// (microseconds since 1970): what is as old as that belongs to none of these.
    pub fn dropped_before(&self) -> impl Iterator<Item = (ColumnId, i64)> {
        self.dropped.iter().filter_map(|dropped| {
            let column = self.column_named(&dropped.name)?;
            Some((column.id, dropped.dropped_at))
        })
    }

    /// The column of this name (exact), if it is one that clients know of.
    pub fn shown_column(&self, name: &str) -> Option<&Column> {
        self.column_named(name).filter(|column| !self.hides(column))
    }

    /// Is it a column that clients know nothing of?
    pub fn hides(&self, column: &Column) -> bool {
        match self.compact {
            None => false,
            Some(CompactForm::Dense) => {
                column.kind == ColumnKind::Regular && column.ty == CqlType::Empty
            }
            Some(CompactForm::Static) => {
                matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular)
            }
        }
    }

    /// Is there an index on the column, whatever it can be asked?
    pub fn has_index_on(&self, column: &Column) -> bool {
        let mut indexes = self.indexes.iter();
        indexes.any(|index| index.column_of(self) == Some(column))
    }

    /// The index of this name, if it is one of the table's.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| *index.name == *name)
    }

    /// All columns, by id.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().flatten()
    }

    /// The id the next added column gets.
    pub fn next_column_id(&self) -> ColumnId {
        ColumnId(self.columns.len() as u32)
    }

    /// Keeps ids below `next` from being given to new columns: those of columns that were dropped.
    pub fn reserve_column_ids(&mut self, next: ColumnId) {
        if self.columns.len() < next.0 as usize {
            self.columns.resize(next.0 as usize, None);
        }
    }

    /// The columns of the partition key, in order.
    pub fn partition_key(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.partition_key.iter().map(|id| self.known(*id))
    }

    /// The clustering columns, in order.
    pub fn clustering_key(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.clustering_key.iter().map(|id| self.known(*id))
    }

    /// The static columns, by name.
    pub fn statics(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.statics.iter().map(|id| self.known(*id))
    }

    /// The regular columns, by name.
    pub fn regulars(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.regulars.iter().map(|id| self.known(*id))
    }

    /// The ids of the regular columns, sorted, as reads want them.
    pub fn regular_ids(&self) -> Vec<ColumnId> {
        let mut ids = self.regulars.clone();
        ids.sort_unstable();
        ids
    }

    /// A digest of its columns: two tables with the same one have the same columns under the same
    /// numbers, on whatever node and whatever ids these have there.
    pub fn form(&self) -> u64 {
        self.numbered.form
    }

    /// The number of a column, which depends on nothing but the columns that there are: first those of
    /// the partition key, then the clustering columns, then static and then regular ones by name.
    /// `None` if there is no such column.
    pub fn number_of(&self, id: ColumnId) -> Option<u32> {
        *self.numbered.numbers.get(id.0 as usize)?
    }

    /// The column of this number, if there are so many.
    pub fn numbered(&self, number: u32) -> Option<ColumnId> {
        let lists = [
            &self.partition_key,
            &self.clustering_key,
            &self.statics,
            &self.regulars,
        ];
        let mut at = number as usize;
        for list in lists {
            match list.get(at) {
                Some(id) => return Some(*id),
                None => at -= list.len(),
            }
        }
        None
    }

    /// Do the numbers of static and regular columns rise with their ids?
    pub fn numbers_rise(&self) -> bool {
        self.numbered.rise
    }

    /// The order of its rows.
    pub fn comparator(&self) -> &ClusteringComparator {
        &self.comparator
    }

    /// Does a reader see this row of it: a live marker or a live cell, or of a view whose rows live by their
    /// marker alone, that?
    pub fn shows(&self, row: &Row, now_seconds: u32) -> bool {
        match &self.view {
            Some(view) if view.strict_liveness => row.liveness.is_live(now_seconds),
            _ => row.is_live(now_seconds),
        }
    }

    /// Is each column of its rows one cell that is its value: are there no collections but frozen ones, no
    /// counters, and nothing that a compact table or a view has of its own?
    pub fn has_single_cells(&self) -> bool {
        let is_single = |column: &Column| !column.ty.is_multi_cell() && !column.ty.is_counter();
        self.compact.is_none() && self.view.is_none() && self.regulars().all(is_single)
    }

    /// Do its rows live by their marker alone (`TableMetadata.enforceStrictLiveness`)?
    pub fn has_strict_liveness(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.strict_liveness)
    }

    fn known(&self, id: ColumnId) -> &Column {
        self.columns[id.0 as usize]
            .as_ref()
            .expect("lists of columns hold existing ids")
    }
}

/// A digest of columns in the order of their numbers.
fn form<'c>(columns: impl Iterator<Item = &'c Column>) -> u64 {
    let mut bytes = Vec::new();
    for column in columns {
        let kind = match column.kind {
            ColumnKind::PartitionKey => 0,
            ColumnKind::Clustering => 1,
            ColumnKind::Static => 2,
            ColumnKind::Regular => 3,
        };
        bytes.push(kind | u8::from(column.order == Order::Descending) << 2);
        for text in [&*column.name, &*column.ty.to_marshal()] {
            vint::write_unsigned(&mut bytes, text.len() as u64);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    murmur3_x64_128(&bytes)[0].cast_unsigned()
}

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// Its keyspace.
    pub keyspace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Names and types of its fields, in order.
    pub fields: Vec<(Arc<str>, CqlType)>,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyspace {
    /// Its name.
    pub name: Arc<str>,
    /// `replication`, with the full class name under `class`.
    pub replication: BTreeMap<String, String>,
    /// `durable_writes`
    pub durable_writes: bool,
    /// Its tables, by name.
    pub tables: BTreeMap<Arc<str>, Arc<Table>>,
    /// Its types, by name.
    pub types: BTreeMap<Arc<str>, Arc<UserType>>,
    /// Its user-defined functions and aggregates.
    pub functions: UserFunctions,
    /// Made by the node on the fly, not stored?
    pub is_virtual: bool,
    /// What else `system_schema` has of it.
    pub unserved: Unserved,
}

impl Keyspace {
    /// The views of the table of this id, by name.
    pub fn views_of(&self, base: TableId) -> impl Iterator<Item = &Arc<Table>> {
        let tables = self.tables.values();
        tables.filter(move |table| table.view.as_ref().is_some_and(|view| view.base == base))
    }
}

/// What `system_schema` has of a keyspace that no request sees: Cassandra made it, and has to find
/// it whole, with all that it needs, when it opens the folder again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unserved {
    /// Tables that were left out, by name.
    pub tables: BTreeMap<Arc<str>, UnservedTable>,
    /// User types that were left out, by name.
    pub types: BTreeMap<Arc<str>, UnservedType>,
    /// Secondary indexes that are not kept; the others are with their tables.
    pub indexes: Vec<Index>,
    /// Materialized views that were left out, by name.
    pub views: BTreeMap<Arc<str>, UnservedView>,
    /// User-defined functions and aggregates in languages that are not served.
    pub functions: Vec<Function>,
    /// Columns with a mask whose function is not served, or of a table or view that is not: the
    /// names of table or view, and column.
    pub masks: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// A table that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct UnservedTable {
    /// Its identity, unless just that is missing.
    pub id: Option<TableId>,
    /// Why, in a sentence that names the table.
    pub problem: String,
    /// The types of its columns. Of user types only the names stay right, here and below: they may
    /// be altered.
    pub uses: Vec<CqlType>,
}

/// A user type that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct UnservedType {
    /// Why, in a sentence that names the type.
    pub problem: String,
    /// The types of its fields.
    pub uses: Vec<CqlType>,
}

/// A materialized view that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedView {
    /// Its identity, as a table.
    pub id: Option<TableId>,
    /// The identity of the table it is a view of.
    pub base: Option<TableId>,
}

/// A user-defined function or aggregate that is not served.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: Arc<str>,
    /// The types of its arguments, its result and its state.
    pub uses: Vec<CqlType>,
    /// The type of its state, if an INITCOND says what that begins with.
    pub initial: Option<CqlType>,
}

/// All keyspaces at one moment, system keyspaces included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// By name.
    pub keyspaces: BTreeMap<Arc<str>, Arc<Keyspace>>,
    /// What `schema_version` shows: a digest of what `system_schema` holds.
    pub version: Uuid,
}

impl Schema {
    /// The table of this name.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<Table>> {
        self.keyspaces.get(keyspace)?.tables.get(table)
    }

    /// The views of a table, which are tables of its keyspace.
    pub fn views_of(&self, base: &Table) -> impl Iterator<Item = &Arc<Table>> {
        let keyspace = self.keyspaces.get(&base.keyspace);
        keyspace
            .into_iter()
            .flat_map(|keyspace| keyspace.views_of(base.id))
    }

    /// The table of this id. Looks through all: for start-up and messages, not for requests.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.keyspaces
            .values()
            .flat_map(|k| k.tables.values())
            .find(|t| t.id == id)
    }
}
