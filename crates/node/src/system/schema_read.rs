//! Rows of `system_schema` to schema, also as Cassandra 3.x to 5.0 wrote them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::schema::{is_local_system_keyspace, is_system_keyspace, normalize_retry, version_of};
use model::{
    Column, ColumnId, ColumnKind, CompactForm, CqlType, DroppedColumn, Keyspace, Order, Partition,
    Schema, Table, TableOptions, Unserved, UnservedTable, UnservedType, UserFunctions, UserType,
    View,
};

use super::rows::RowReader;
use super::{functions_read, masks_read, unserved_read};

/// The tables of `system_schema` that [`schema_from_rows`] wants to see the rows of.
pub const SCHEMA_TABLES: [&str; 11] = [
    "keyspaces",
    "types",
    "tables",
    "columns",
    "dropped_columns",
    "indexes",
    "column_masks",
    "triggers",
    "views",
    "functions",
    "aggregates",
];

/// A part of the schema that cannot be served. What else there is, is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    /// A table that was left out.
    #[error("table {keyspace}.{table} is not served: {reason}")]
    Table {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        table: String,
        /// Why.
        reason: String,
    },
    /// A user type that was left out.
    #[error("type {keyspace}.{name} is not served: {reason}")]
    Type {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A materialized view that was left out.
    #[error("materialized view {keyspace}.{view} is not served: {reason}")]
    View {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        view: String,
        /// Why.
        reason: String,
    },
    /// Something that Helenus does not have yet.
    #[error("{what} of keyspace {keyspace} are not served: they are not supported yet")]
    Unsupported {
        /// Its keyspace.
        keyspace: String,
        /// What it is, in the plural.
        what: &'static str,
    },
    /// Masks of columns whose functions are not served.
    #[error(
        "columns of keyspace {keyspace} have masks of functions that are not served: they are kept \
         and not described"
    )]
    Masks {
        /// Its keyspace.
        keyspace: String,
    },
}

/// The rows of one table of `system_schema`, by keyspace.
type Rows<'a> = BTreeMap<&'a str, &'a Partition>;

/// The schema that these rows of `system_schema` hold: the partitions of each table by its name.
/// `system` are the definitions of the node itself: they stand for what rows say of the system
/// keyspaces, except how those are replicated.
pub fn schema_from_rows(
    system: &Schema,
    rows: &BTreeMap<&'static str, Vec<Partition>>,
) -> (Schema, Vec<SchemaProblem>) {
    let mut reader = Reader {
        system,
        rows: BTreeMap::new(),
        problems: Vec::new(),
    };
    for (table, partitions) in rows {
        let by_keyspace: Rows<'_> = partitions
            .iter()
            .filter_map(|p| Some((std::str::from_utf8(p.key.key()).ok()?, p)))
            .collect();
        reader.rows.insert(table, by_keyspace);
    }
    let schema = reader.schema();
    (schema, reader.problems)
}

struct Reader<'a> {
    system: &'a Schema,
    rows: BTreeMap<&'static str, Rows<'a>>,
    problems: Vec<SchemaProblem>,
}

impl<'a> Reader<'a> {
    fn schema(&mut self) -> Schema {
        let mut schema = self.system.clone();
        let keyspaces = self.rows.get("keyspaces").cloned().unwrap_or_default();
        for name in keyspaces.keys() {
            if is_local_system_keyspace(name) {
                continue;
            }
            let Some(keyspace) = self.keyspace(name) else {
                continue;
            };
            schema
                .keyspaces
                .insert(keyspace.name.clone(), Arc::new(keyspace));
        }
        schema.version = version_of(&schema);
        schema
    }

    /// The rows of a table of `system_schema` that speak of a keyspace.
    fn rows_of(&self, table: &'static str, keyspace: &str) -> Vec<RowReader<'a>> {
        let definition = self.system.table("system_schema", table);
        let partition = self.rows.get(table).and_then(|rows| rows.get(keyspace));
        match (definition, partition) {
            (Some(definition), Some(partition)) => partition
                .rows
                .iter()
                .map(|row| RowReader::new(definition, row))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn keyspace(&mut self, name: &str) -> Option<Keyspace> {
        let rows = self.rows_of("keyspaces", name);
        let row = rows.first()?;
        let mut keyspace = Keyspace {
            name: Arc::from(name),
            replication: row.text_map("replication").unwrap_or_default(),
            durable_writes: row.boolean("durable_writes").unwrap_or(true),
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            functions: UserFunctions::default(),
            is_virtual: false,
            unserved: Unserved::default(),
        };
        if is_system_keyspace(name) {
            let defined = self.system.keyspaces.get(name)?;
            keyspace.tables = defined.tables.clone();
            keyspace.types = defined.types.clone();
            return Some(keyspace);
        }
        for (table, what) in [("triggers", "triggers")] {
            if !self.rows_of(table, name).is_empty() {
                self.problems.push(SchemaProblem::Unsupported {
                    keyspace: name.to_owned(),
                    what,
                });
            }
        }
        self.read_types(&mut keyspace);
        self.read_tables(&mut keyspace);
        self.read_views(&mut keyspace);
        functions_read::read(&mut keyspace, |table| self.rows_of(table, name));
        for (table, what) in [
            (
                "functions",
                "user-defined functions in other languages than Lua",
            ),
            ("aggregates", "user-defined aggregates of such functions"),
        ] {
            let rows = self.rows_of(table, name);
            let served = |row| functions_read::is_served(&keyspace.functions, table, row);
            if !rows.iter().all(served) {
                self.problems.push(SchemaProblem::Unsupported {
                    keyspace: name.to_owned(),
                    what,
                });
            }
        }
        masks_read::read(&mut keyspace, &self.rows_of("column_masks", name));
        unserved_read::complete(&mut keyspace, |table| self.rows_of(table, name));
        if !keyspace.unserved.indexes.is_empty() {
            self.problems.push(SchemaProblem::Unsupported {
                keyspace: name.to_owned(),
                what: "secondary indexes of kinds that are not kept",
            });
        }
        let is_there = |(table, _): &(Arc<str>, Arc<str>)| keyspace.tables.contains_key(table);
        if keyspace.unserved.masks.iter().any(is_there) {
            let keyspace = name.to_owned();
            self.problems.push(SchemaProblem::Masks { keyspace });
        }
        Some(keyspace)
    }

    /// A type may use types that come later by name, so that rounds are made until all are known.
    fn read_types(&mut self, keyspace: &mut Keyspace) {
        let mut left: Vec<(String, Vec<(String, String)>)> = Vec::new();
        for row in self.rows_of("types", &keyspace.name) {
            let names = row.texts("field_names").unwrap_or_default();
            let types = row.texts("field_types").unwrap_or_default();
            if let Some(name) = row.text("type_name") {
                let fields = names.iter().zip(&types);
                let fields = fields.map(|(n, t)| ((*n).to_owned(), (*t).to_owned()));
                left.push((name.to_owned(), fields.collect()));
            }
        }
        loop {
            let before = left.len();
            let mut reasons = Vec::new();
            left.retain(|(name, fields)| {
                let fields: Result<Vec<(Arc<str>, CqlType)>, _> = fields
                    .iter()
                    .map(|(field, ty)| {
                        let ty = CqlType::from_cql(ty, &keyspace.types)?;
                        Ok::<_, model::TypeNameError>((Arc::from(field.as_str()), ty))
                    })
                    .collect();
                match fields {
                    Ok(fields) => {
                        let ty = UserType {
                            keyspace: keyspace.name.clone(),
                            name: Arc::from(name.as_str()),
                            fields,
                        };
                        keyspace.types.insert(ty.name.clone(), Arc::new(ty));
                        false
                    }
                    Err(error) => {
                        reasons.push((name.clone(), error.to_string()));
                        true
                    }
                }
            });
            if left.is_empty() || left.len() == before {
                for (name, reason) in reasons {
                    let problem = SchemaProblem::Type {
                        keyspace: keyspace.name.to_string(),
                        name: name.clone(),
                        reason,
                    };
                    let unserved = UnservedType {
                        problem: problem.to_string(),
                        uses: Vec::new(),
                    };
                    let types = &mut keyspace.unserved.types;
                    types.insert(Arc::from(name), unserved);
                    self.problems.push(problem);
                }
                return;
            }
        }
    }

    fn read_tables(&mut self, keyspace: &mut Keyspace) {
        for row in self.rows_of("tables", &keyspace.name) {
            let Some(name) = row.text("table_name") else {
                continue;
            };
            match self.table(keyspace, name, &row) {
                Ok(table) => {
                    keyspace.tables.insert(table.name.clone(), Arc::new(table));
                }
                Err(reason) => {
                    let problem = SchemaProblem::Table {
                        keyspace: keyspace.name.to_string(),
                        table: name.to_owned(),
                        reason,
                    };
                    let unserved = UnservedTable {
                        id: row.uuid("id"),
                        problem: problem.to_string(),
                        uses: Vec::new(),
                    };
                    let tables = &mut keyspace.unserved.tables;
                    tables.insert(Arc::from(name), unserved);
                    self.problems.push(problem);
                }
            }
        }
    }

    /// Views come after tables: each has to find its own.
    fn read_views(&mut self, keyspace: &mut Keyspace) {
        for row in self.rows_of("views", &keyspace.name) {
            let Some(name) = row.text("view_name") else {
                continue;
            };
            match self.view(keyspace, name, &row) {
                Ok(view) => {
                    keyspace.tables.insert(view.name.clone(), Arc::new(view));
                }
                Err(reason) => self.problems.push(SchemaProblem::View {
                    keyspace: keyspace.name.to_string(),
                    view: name.to_owned(),
                    reason,
                }),
            }
        }
    }

    fn view(&self, keyspace: &Keyspace, name: &str, row: &RowReader<'_>) -> Result<Table, String> {
        if keyspace.tables.contains_key(name) {
            return Err("a table has its name".to_owned());
        }
        let id = row.uuid("id").ok_or("its id is missing")?;
        let of_base = row
            .uuid("base_table_id")
            .ok_or("its base_table_id is missing")?;
        let base = keyspace.tables.values().find(|table| table.id == of_base);
        let base = base.ok_or("the table that it is a view of is not served")?;
        let where_clause = row.text("where_clause").unwrap_or_default();
        cql::view_rows(base, &keyspace.types, where_clause)
            .map_err(|error| format!("its WHERE is not understood: {error}"))?;
        let columns = self.columns(keyspace, name)?;
        let of_base = |column: &Column| {
            let of_base = base.column_named(&column.name);
            of_base.is_some_and(|of_base| of_base.ty == column.ty)
        };
        if let Some(own) = columns.iter().find(|column| !of_base(column)) {
            return Err(format!("its column {} is none of {}", own.name, base.name));
        }
        let is_key = |kind| matches!(kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        let is_value = |column: &&Column| {
            let of_base = base.column_named(&column.name);
            is_key(column.kind) && !of_base.is_some_and(|of_base| is_key(of_base.kind))
        };
        let definition = View {
            base: base.id,
            base_name: base.name.clone(),
            includes_all: row.boolean("include_all_columns").unwrap_or(false),
            where_clause: where_clause.to_owned(),
            strict_liveness: columns.iter().any(|column| is_value(&column)),
        };
        let mut view = Table::new(id, keyspace.name.clone(), name, columns, options(row));
        view.view = Some(Arc::new(definition));
        Ok(view)
    }

    /// The columns of a table or view.
    fn columns(&self, keyspace: &Keyspace, table: &str) -> Result<Vec<Column>, String> {
        let mut columns = Vec::new();
        for row in self.rows_of("columns", &keyspace.name) {
            if row.text("table_name") == Some(table) {
                columns.push(column(keyspace, &row, columns.len())?);
            }
        }
        check_keys(&columns)?;
        check_orders(&columns)?;
        Ok(columns)
    }

    fn table(&self, keyspace: &Keyspace, name: &str, row: &RowReader<'_>) -> Result<Table, String> {
        let flags = row.texts("flags").unwrap_or_default();
        if flags.contains(&"super") {
            return Err("COMPACT STORAGE of this form is not supported yet".to_owned());
        }
        let compact = match (flags.contains(&"dense"), flags.contains(&"compound")) {
            (true, _) => Some(CompactForm::Dense),
            (false, true) => None,
            (false, false) => Some(CompactForm::Static),
        };
        let id = row.uuid("id").ok_or("its id is missing")?;
        let columns = self.columns(keyspace, name)?;
        let mut table = Table::new(id, keyspace.name.clone(), name, columns, options(row));
        table.compact = compact;
        check_compact(&table)?;
        for row in self.rows_of("dropped_columns", &keyspace.name) {
            if row.text("table_name") == Some(name) {
                table.dropped.push(dropped_column(keyspace, &row)?);
            }
        }
        Ok(table)
    }
}

fn column_type(keyspace: &Keyspace, row: &RowReader<'_>) -> Result<CqlType, String> {
    let text = row.text("type").ok_or("the type of a column is missing")?;
    CqlType::from_cql(text, &keyspace.types).map_err(|error| error.to_string())
}

fn column(keyspace: &Keyspace, row: &RowReader<'_>, number: usize) -> Result<Column, String> {
    let name = row.text("column_name").ok_or("a column has no name")?;
    // Thrift took any bytes. Files have those, and would not be found to have the column.
    let bytes = row.get("column_name_bytes");
    if bytes.is_some_and(|bytes| bytes != name.as_bytes()) {
        return Err(format!("the name of column {name} is not text"));
    }
    let kind = match row.text("kind") {
        Some("partition_key") => ColumnKind::PartitionKey,
        Some("clustering") => ColumnKind::Clustering,
        Some("static") => ColumnKind::Static,
        Some("regular") => ColumnKind::Regular,
        other => return Err(format!("column {name} has the unknown kind {other:?}")),
    };
    let position = usize::try_from(row.int("position").unwrap_or(0)).unwrap_or(0);
    Ok(Column {
        id: ColumnId(number as u32),
        name: Arc::from(name),
        ty: column_type(keyspace, row)?,
        kind,
        position,
        order: match row.text("clustering_order") {
            Some("desc") => Order::Descending,
            _ => Order::Ascending,
        },
    })
}

/// Positions of key columns must be 0, 1, … each once: a table cannot be made otherwise.
fn check_keys(columns: &[Column]) -> Result<(), String> {
    for kind in [ColumnKind::PartitionKey, ColumnKind::Clustering] {
        let of_kind = columns.iter().filter(|column| column.kind == kind);
        let mut positions: Vec<usize> = of_kind.map(|column| column.position).collect();
        positions.sort_unstable();
        if positions
            .iter()
            .enumerate()
            .any(|(i, position)| i != *position)
        {
            return Err("rows of columns of its key are missing".to_owned());
        }
        if kind == ColumnKind::PartitionKey && positions.is_empty() {
            return Err("its partition key is missing".to_owned());
        }
    }
    Ok(())
}

/// What is kept in the order of a class that is not known would be looked for where it is not.
fn check_orders(columns: &[Column]) -> Result<(), String> {
    for column in columns {
        let is_unknown = |ty: &CqlType| !ty.has_known_order();
        let is_kept_in_it = |ty: &CqlType| match ty {
            CqlType::Set { element, .. } => element.any(&is_unknown),
            CqlType::Map { key, .. } => key.any(&is_unknown),
            _ => false,
        };
        let in_key = column.kind == ColumnKind::Clustering && column.ty.any(&is_unknown);
        if in_key || column.ty.any(&is_kept_in_it) {
            return Err(format!(
                "its column {} of type {} keeps values in the order of a class that is not known",
                column.name, column.ty
            ));
        }
    }
    Ok(())
}

/// A table WITH COMPACT STORAGE has clustering columns and one value, hidden or not.
fn check_compact(table: &Table) -> Result<(), String> {
    let (clustering, values) = (table.clustering_key().len(), table.regulars().len());
    let (fits, wanted) = match table.compact {
        None => return Ok(()),
        Some(CompactForm::Dense) => (clustering > 0 && values == 1, "clustering columns"),
        Some(CompactForm::Static) => (clustering == 1 && values == 1, "one clustering column"),
    };
    match fits {
        true => Ok(()),
        false => Err(format!(
            "a table WITH COMPACT STORAGE has {wanted} and one value, not {clustering} and {values}"
        )),
    }
}

fn dropped_column(keyspace: &Keyspace, row: &RowReader<'_>) -> Result<DroppedColumn, String> {
    Ok(DroppedColumn {
        name: Arc::from(
            row.text("column_name")
                .ok_or("a dropped column has no name")?,
        ),
        ty: column_type(keyspace, row)?,
        is_static: row.text("kind") == Some("static"),
        dropped_at: row.bigint("dropped_time").unwrap_or(0).saturating_mul(1000),
    })
}

/// What is not set has its default: rows of older versions lack the newer columns.
fn options(row: &RowReader<'_>) -> TableOptions {
    let defaults = TableOptions::default();
    let text = |column: &str, default: String| row.text(column).map_or(default, str::to_owned);
    // Cassandra 3 wrote `99PERCENTILE` where later ones write `99p`.
    let retry = |text: String| normalize_retry(&text).unwrap_or(text);
    TableOptions {
        additional_write_policy: retry(text(
            "additional_write_policy",
            defaults.additional_write_policy,
        )),
        allow_auto_snapshot: row
            .boolean("allow_auto_snapshot")
            .unwrap_or(defaults.allow_auto_snapshot),
        bloom_filter_fp_chance: row
            .double("bloom_filter_fp_chance")
            .unwrap_or(defaults.bloom_filter_fp_chance),
        caching: row.text_map("caching").unwrap_or(defaults.caching),
        cdc: row.boolean("cdc").unwrap_or(defaults.cdc),
        comment: text("comment", defaults.comment),
        compaction: row.text_map("compaction").unwrap_or(defaults.compaction),
        compression: row.text_map("compression").unwrap_or(defaults.compression),
        crc_check_chance: row
            .double("crc_check_chance")
            .unwrap_or(defaults.crc_check_chance),
        default_time_to_live: row
            .int("default_time_to_live")
            .unwrap_or(defaults.default_time_to_live),
        extensions: row.blob_map("extensions").unwrap_or(defaults.extensions),
        gc_grace_seconds: row
            .int("gc_grace_seconds")
            .unwrap_or(defaults.gc_grace_seconds),
        incremental_backups: row
            .boolean("incremental_backups")
            .unwrap_or(defaults.incremental_backups),
        max_index_interval: row
            .int("max_index_interval")
            .unwrap_or(defaults.max_index_interval),
        memtable: text("memtable", defaults.memtable),
        memtable_flush_period_in_ms: row
            .int("memtable_flush_period_in_ms")
            .unwrap_or(defaults.memtable_flush_period_in_ms),
        min_index_interval: row
            .int("min_index_interval")
            .unwrap_or(defaults.min_index_interval),
        read_repair: text("read_repair", defaults.read_repair),
        speculative_retry: retry(text("speculative_retry", defaults.speculative_retry)),
    }
}

#[cfg(test)]
mod tests {
    use model::{DecoratedKey, PartitionUpdate};

    use super::super::rows::{RowWriter, WriteTime, clustering, text};
    use super::super::system_keyspaces;
    use super::*;

    #[test]
    fn policies_are_read_as_later_versions_write_them() {
        let system = system_keyspaces();
        let tables = system.table("system_schema", "tables").unwrap();
        for (written, read) in [
            ("99PERCENTILE", "99p"),
            ("99.0percentile", "99p"),
            ("NONE", "NEVER"),
            ("10ms", "10ms"),
            ("of another time", "of another time"),
        ] {
            let mut update = PartitionUpdate::new(tables.clone(), DecoratedKey::new(text("k")));
            let row = update.row_mut(&clustering(["t"]));
            RowWriter::insert(tables, row, WriteTime::at(1))
                .set("speculative_retry", text(written))
                .set("additional_write_policy", text(written));
            let options = options(&RowReader::new(tables, row));
            assert_eq!(options.speculative_retry, read);
            assert_eq!(options.additional_write_policy, read);
        }
    }

    fn refused(kind: ColumnKind, ty: &str) -> bool {
        let ty = CqlType::from_cql(ty, &BTreeMap::new()).expect("a type");
        let column = Column {
            id: ColumnId(0),
            name: "c".into(),
            ty,
            kind,
            position: 0,
            order: Order::Ascending,
        };
        check_orders(&[column]).is_err()
    }

    #[test]
    fn nothing_is_kept_in_an_order_that_is_not_known() {
        use ColumnKind::{Clustering, PartitionKey, Regular};
        const COMPOSITE: &str = "'org.apache.cassandra.db.marshal.CompositeType(\
                                 org.apache.cassandra.db.marshal.Int32Type,\
                                 com.example.Type)'";
        let with = |form: &str| form.replace('%', COMPOSITE);
        assert!(!refused(PartitionKey, &with("%")));
        assert!(!refused(Regular, &with("%")));
        assert!(!refused(Regular, &with("list<%>")));
        assert!(!refused(Regular, &with("map<int, %>")));
        assert!(refused(Clustering, &with("%")));
        assert!(refused(Clustering, &with("frozen<list<%>>")));
        assert!(refused(Regular, &with("set<%>")));
        assert!(refused(Regular, &with("map<%, int>")));
        assert!(refused(Regular, &with("list<frozen<set<%>>>")));
        for known in [
            "DateType",
            "LexicalUUIDType",
            "CompositeType(Int32Type,UTF8Type)",
            "DynamicCompositeType(s=>UTF8Type)",
        ] {
            let class = format!("'org.apache.cassandra.db.marshal.{known}'");
            assert!(!refused(Clustering, &class));
            assert!(!refused(Regular, &format!("set<{class}>")));
        }
    }
}
