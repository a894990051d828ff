//! The tables that the storage workload writes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnKind, CqlType, Index, IndexKind, Keyspace, Order, Schema, Table,
    TableId, TableOptions,
};

use crate::Random;

/// The columns that every table of the workload has, by what they are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// `text`, static.
    pub(crate) fixed: ColumnId,
    /// `int`.
    pub(crate) number: ColumnId,
    /// `blob`.
    pub(crate) blob: ColumnId,
    /// `set<int>`.
    pub(crate) set: ColumnId,
}

/// Where the columns are in all tables.
pub(crate) const COLUMNS: Columns = Columns {
    fixed: ColumnId(2),
    number: ColumnId(3),
    blob: ColumnId(4),
    set: ColumnId(5),
};

/// All regular and static columns.
pub(crate) fn all_columns() -> Vec<ColumnId> {
    vec![COLUMNS.fixed, COLUMNS.number, COLUMNS.blob, COLUMNS.set]
}

/// A table with a partition key, one clustering column, a static column, and columns of one and of
/// many cells.
fn table(name: &str, id: u128, order: Order, gc_grace_seconds: i32) -> Arc<Table> {
    let column = |id: u32, name: &str, ty: CqlType, kind: ColumnKind| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position: 0,
        order: match kind {
            ColumnKind::Clustering => order,
            _ => Order::Ascending,
        },
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    let columns = vec![
        column(0, "k", CqlType::Int, ColumnKind::PartitionKey),
        column(1, "c", CqlType::Int, ColumnKind::Clustering),
        column(2, "fixed", CqlType::Text, ColumnKind::Static),
        column(3, "number", CqlType::Int, ColumnKind::Regular),
        column(4, "blob", CqlType::Blob, ColumnKind::Regular),
        column(5, "set", set, ColumnKind::Regular),
    ];
    let options = TableOptions {
        gc_grace_seconds,
        ..TableOptions::default()
    };
    let mut table = Table::new(TableId::from_u128(id), "sim", name, columns, options);
    table.indexes = indexes(name);
    Arc::new(table)
}

/// The indexes of a table: of each kind of column, and of all kinds of indexes.
fn indexes(table: &str) -> Vec<Index> {
    let targets: &[(&str, &str)] = match table {
        "up" => &[
            ("c", ""),
            ("number", "sai"),
            ("values(set)", ""),
            ("fixed", Index::SASI),
        ],
        "down" => &[("fixed", ""), ("c", "sai")],
        _ => &[("number", "")],
    };
    let index = |(target, class): &(&str, &str)| {
        let mut options = BTreeMap::from([("target".to_owned(), (*target).to_owned())]);
        if !class.is_empty() {
            options.insert("class_name".to_owned(), (*class).to_owned());
        }
        if *class == Index::SASI {
            options.insert("mode".to_owned(), "CONTAINS".to_owned());
        }
        let (_, column) = Index::parse_target(target);
        Index {
            name: Arc::from(format!("{table}_{column}_idx")),
            table: Arc::from(table),
            column: Some(Arc::from(column)),
            kind: Some(match class.is_empty() {
                true => IndexKind::Composites,
                false => IndexKind::Custom,
            }),
            options,
        }
    };
    targets.iter().map(index).collect()
}

/// The tables: two that are written together, and one whose deletions are purged at once. Each
/// has some compaction strategy.
pub(crate) fn tables(random: &mut Random) -> Vec<Arc<Table>> {
    let tables = [
        table("up", 0xa1, Order::Ascending, 864_000),
        table("down", 0xa2, Order::Descending, 864_000),
        table("purged", 0xa3, Order::Ascending, 0),
    ];
    let tables = tables.iter().map(|table| altered(table, random));
    tables.collect()
}

/// The table with another compaction strategy. Sizes and windows are much smaller than statements
/// allow, so that a world has many of them.
pub(crate) fn altered(table: &Table, random: &mut Random) -> Arc<Table> {
    let pairs: &[(&str, &str)] = match random.below(4) {
        0 => &[("class", "SizeTieredCompactionStrategy")],
        1 => &[
            ("class", "LeveledCompactionStrategy"),
            ("sstable_size_in_mb", "0.01"),
            ("fanout_size", "2"),
        ],
        2 => &[
            ("class", "TimeWindowCompactionStrategy"),
            ("compaction_window_unit", "MINUTES"),
            ("timestamp_resolution", "MILLISECONDS"),
            ("expired_sstable_check_frequency_seconds", "0"),
        ],
        _ => &[
            ("class", "UnifiedCompactionStrategy"),
            ("target_sstable_size", "10KiB"),
            ("min_sstable_size", "1KiB"),
            ("expired_sstable_check_frequency_seconds", "1"),
        ],
    };
    let mut options: BTreeMap<String, String> = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let mut also = |name: &str, value: &str| options.insert(name.to_owned(), value.to_owned());
    if random.chance(50) {
        also("min_threshold", "2");
    }
    if random.chance(30) {
        also("tombstone_threshold", "0.01");
        also("tombstone_compaction_interval", "0");
        also("unchecked_tombstone_compaction", "true");
    }
    if random.chance(30) {
        let scaling = ["N", "L4", "T2", "L2,T4"];
        let scaling = *random.pick(&scaling);
        also("scaling_parameters", scaling);
    }
    if random.chance(15) {
        also("provide_overlapping_tombstones", "CELL");
    }
    if random.chance(10) {
        also("enabled", "false");
    }
    let mut table = table.clone();
    table.options.compaction = options;
    Arc::new(table)
}

/// A schema of these tables.
pub(crate) fn schema(tables: &[Arc<Table>]) -> Arc<Schema> {
    let keyspace = Keyspace {
        name: "sim".into(),
        replication: Default::default(),
        durable_writes: true,
        tables: tables
            .iter()
            .map(|table| (table.name.clone(), table.clone()))
            .collect(),
        types: Default::default(),
        functions: Default::default(),
        is_virtual: false,
        unserved: Default::default(),
    };
    let mut schema = Schema::default();
    schema
        .keyspaces
        .insert(keyspace.name.clone(), Arc::new(keyspace));
    Arc::new(schema)
}
