//! CREATE INDEX and DROP INDEX: what they define, and what they are refused for
//! (`CreateIndexStatement`, `DropIndexStatement`, `IndexAttributes`, `IndexMetadata`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Column, ColumnKind, CompactForm, CqlType, Index, IndexKind, Keyspace, Schema, Table};
use model::{Order, UserType, quote_identifier};

use super::properties::Properties;
use super::tables::is_counter_table;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, changed, keyspace_of, sasi, storage_attached,
    unchanged, unserved, with_keyspace,
};
use crate::CqlError;
use crate::ast::{CreateIndex, Drop, IndexTarget, IndexTargetKind};
use crate::error::invalid;
use crate::plan::column_of;

/// What USING calls the index that is no class (`CassandraIndex.NAME`, and
/// `default_secondary_index`).
const LOCAL_TABLE: &str = "legacy_local_table";

/// Classes that are known by their whole names.
const CLASSES: [&str; 2] = [
    Index::SASI,
    "org.apache.cassandra.index.sai.StorageAttachedIndex",
];

/// Names of classes in whatever case (`IndexMetadata.indexNameAliases`).
const ALIASES: [&str; 2] = ["sai", "storageattachedindex"];

/// Cassandra names a folder after an index, with a point before it. It checks no length: longer names take it off
/// its clients, and keep it from starting again.
const MAX_NAME: usize = 254;

/// The options that an index has of itself.
const TARGET: &str = "target";
const CLASS: &str = "class_name";

/// Checks what needs no schema: no property is given twice.
pub(super) fn check_form(create: &CreateIndex) -> Result<(), CqlError> {
    Properties::collect(&create.properties).map(|_| ())
}

/// The schema with the index.
pub(super) fn create(
    schema: &Schema,
    create: &CreateIndex,
    allows_sasi: bool,
) -> Result<SchemaChange, CqlError> {
    let Some(index) = define(schema, create, allows_sasi)? else {
        return Ok(unchanged(schema));
    };
    let keyspace = &schema.keyspaces[keyspace_of(&create.table)];
    let mut table = Table::clone(&keyspace.tables[&index.table]);
    if !index.is_served(&table) {
        return invalid!(
            "Indexes of the class '{}' are not supported",
            index.options.get(CLASS).map_or("", String::as_str)
        );
    }
    let place = table
        .indexes
        .partition_point(|other| other.name < index.name);
    table.indexes.insert(place, index);
    Ok(with_table(schema, keyspace, table))
}

/// The schema without an index.
pub(super) fn drop(schema: &Schema, drop: &Drop) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&drop.name), drop.name.name.as_str());
    let keyspace = schema.keyspaces.get(keyspace_name);
    let tables = keyspace.into_iter().flat_map(|k| k.tables.values());
    let Some(table) = tables.into_iter().find(|table| table.index(name).is_some()) else {
        return match keyspace {
            Some(keyspace) if unserved::has_index(keyspace, name) => {
                unserved::refuse_index(keyspace, name)
            }
            _ if drop.if_exists => Ok(unchanged(schema)),
            // With the quote that is one too many there.
            _ => invalid!("Index '{keyspace_name}.{name}' doesn't exist'"),
        };
    };
    let mut table = Table::clone(table);
    table.indexes.retain(|index| *index.name != *name);
    Ok(with_table(schema, &schema.keyspaces[keyspace_name], table))
}

fn with_table(schema: &Schema, keyspace: &Keyspace, table: Table) -> SchemaChange {
    let name = table.name.clone();
    let mut keyspace = keyspace.clone();
    keyspace.tables.insert(name.clone(), Arc::new(table));
    let keyspace_name = keyspace.name.clone();
    let schema = with_keyspace(schema, keyspace);
    let (kind, target) = (ChangeKind::Updated, ChangeTarget::Table);
    changed(schema, kind, target, &keyspace_name, &name)
}

/// All indexes of a keyspace, those that are not served too.
fn indexes(keyspace: &Keyspace) -> impl Iterator<Item = &Index> {
    let tables = keyspace.tables.values();
    let served = tables.flat_map(|table| &table.indexes);
    served.chain(&keyspace.unserved.indexes)
}

/// The index that the statement is about, if there may be such a one; `None` if it is there already
/// and may be.
fn define(
    schema: &Schema,
    create: &CreateIndex,
    allows_sasi: bool,
) -> Result<Option<Index>, CqlError> {
    let implementation = Implementation::of(create, allows_sasi)?;
    let keyspace_name = keyspace_of(&create.table);
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return invalid!("Keyspace '{keyspace_name}' doesn't exist");
    };
    let table = table_of(keyspace, create)?;
    if let Some(name) = &create.name
        && let Some(known) = indexes(keyspace).find(|index| *index.name == **name)
    {
        return match create.if_not_exists {
            true => is_there(keyspace, known),
            false => invalid!("Index '{name}' already exists"),
        };
    }
    if is_counter_table(table) {
        return invalid!("Secondary indexes on counter tables aren't supported");
    }
    let targets = targets_of(table, create, &implementation)?;
    for target in &targets {
        target.check(table, &implementation)?;
    }
    let index = Index {
        name: match &create.name {
            Some(name) => Arc::from(name.as_str()),
            None => free_name(keyspace, table, &targets),
        },
        table: table.name.clone(),
        column: targets.first().map(|target| target.column.name.clone()),
        kind: Some(implementation.kind()),
        options: implementation.options(&targets),
    };
    if let Some(other) = indexes(keyspace).find(|other| other.duplicates(&index)) {
        return match create.if_not_exists {
            true => is_there(keyspace, other),
            false => invalid!(
                "Index {} is a duplicate of existing index {}",
                index.name,
                other.name
            ),
        };
    }
    if index.name.is_empty() || !index.name.chars().all(is_word) {
        return Err(CqlError::Config(format!(
            "Illegal index name {}",
            index.name
        )));
    }
    if index.name.len() > MAX_NAME {
        return invalid!(
            "Index name must not be more than {MAX_NAME} characters long (got {} characters for \"{}\")",
            index.name.len(),
            index.name
        );
    }
    implementation.check_class()?;
    let columns: Vec<&Column> = targets.iter().map(|target| target.column).collect();
    if index.is_sasi() {
        sasi::check(&index, &columns)?;
    }
    if index.is_storage_attached() {
        storage_attached::check(&index, &columns, &table.indexes)?;
    }
    Ok(Some(index))
}

/// Nothing is to be done, unless nobody keeps the index: silence would be taken for a yes.
fn is_there(keyspace: &Keyspace, index: &Index) -> Result<Option<Index>, CqlError> {
    match unserved::has_index(keyspace, &index.name) {
        true => unserved::refuse_index(keyspace, &index.name),
        false => Ok(None),
    }
}

/// The table that is to be indexed.
fn table_of<'k>(keyspace: &'k Keyspace, create: &CreateIndex) -> Result<&'k Table, CqlError> {
    let name = create.table.name.as_str();
    let table = keyspace.tables.get(name);
    let is_view = unserved::is_view(keyspace, name);
    if table.is_none() && !is_view {
        unserved::check_table(keyspace, name)?;
        return invalid!("Table '{name}' doesn't exist");
    }
    match table {
        Some(table) if table.view.is_none() => Ok(table),
        _ => invalid!("Secondary indexes on materialized views aren't supported"),
    }
}

/// Who keeps the entries of an index.
enum Implementation {
    /// A hidden table of each node (`CassandraIndex`).
    LocalTable,
    /// A class, which takes options.
    Custom {
        class: String,
        options: BTreeMap<String, String>,
    },
}

impl Implementation {
    /// What USING and WITH say (`CreateIndexStatement.Raw.prepare`, `IndexAttributes.validate`).
    fn of(create: &CreateIndex, allows_sasi: bool) -> Result<Implementation, CqlError> {
        let properties = Properties::collect(&create.properties)?;
        properties.check_names(&["options"])?;
        let class = create.using.as_deref().unwrap_or(LOCAL_TABLE);
        if !create.custom && class.eq_ignore_ascii_case(LOCAL_TABLE) {
            if properties.has("options") {
                return invalid!("Cannot specify options for a non-CUSTOM index");
            }
            return Ok(Implementation::LocalTable);
        }
        let options = properties.map("options")?.cloned().unwrap_or_default();
        for own in [CLASS, TARGET] {
            if options.contains_key(own) {
                return invalid!("Cannot specify {own} as a CUSTOM option");
            }
        }
        if class == Index::SASI && !allows_sasi {
            return invalid!("SASI indexes are disabled. Enable in cassandra.yaml to use.");
        }
        Ok(Implementation::Custom {
            class: class.to_owned(),
            options,
        })
    }

    fn is_custom(&self) -> bool {
        matches!(self, Implementation::Custom { .. })
    }

    fn kind(&self) -> IndexKind {
        match self {
            Implementation::LocalTable => IndexKind::Composites,
            Implementation::Custom { .. } => IndexKind::Custom,
        }
    }

    /// What `system_schema.indexes` has as its options.
    fn options(&self, targets: &[Target<'_>]) -> BTreeMap<String, String> {
        let mut all = match self {
            Implementation::LocalTable => BTreeMap::new(),
            Implementation::Custom { class, options } => {
                let mut options = options.clone();
                options.insert(CLASS.to_owned(), class.clone());
                options
            }
        };
        let targets: Vec<String> = targets.iter().map(Target::shown).collect();
        all.insert(TARGET.to_owned(), targets.join(", "));
        all
    }

    /// Refuses a class that nobody has.
    fn check_class(&self) -> Result<(), CqlError> {
        let Implementation::Custom { class, .. } = self else {
            return Ok(());
        };
        let is_alias = ALIASES
            .iter()
            .any(|alias| class.eq_ignore_ascii_case(alias));
        if is_alias || CLASSES.contains(&class.as_str()) {
            return Ok(());
        }
        Err(CqlError::Config(format!(
            "Unable to find custom indexer class '{class}'"
        )))
    }
}

/// What is indexed of a column (`IndexTarget`).
struct Target<'t> {
    kind: IndexTargetKind,
    column: &'t Column,
}

/// The targets of the statement: those of their columns that there are, each once.
fn targets_of<'t>(
    table: &'t Table,
    create: &CreateIndex,
    implementation: &Implementation,
) -> Result<Vec<Target<'t>>, CqlError> {
    let targets = create.targets.iter();
    let targets = targets
        .map(|target| Target::of(table, target))
        .collect::<Result<Vec<Target<'t>>, CqlError>>()?;
    if targets.is_empty() && !implementation.is_custom() {
        return invalid!("Only CUSTOM indexes can be created without specifying a target column");
    }
    if targets.len() > 1 && !implementation.is_custom() {
        return invalid!("Only CUSTOM indexes support multiple columns");
    }
    let mut columns = BTreeSet::new();
    for Target { column, .. } in &targets {
        if !columns.insert(&column.name) {
            return invalid!("Duplicate column '{}' in index target list", column.name);
        }
    }
    Ok(targets)
}

impl<'t> Target<'t> {
    /// Of a collection without more said, its values.
    fn of(table: &'t Table, target: &IndexTarget) -> Result<Target<'t>, CqlError> {
        let column = column_of(table, &target.column)?;
        let kind = match target.kind {
            // What is ordered downwards is no collection to Cassandra (`ReversedType`).
            IndexTargetKind::Simple
                if column.ty.is_collection() && column.order == Order::Ascending =>
            {
                IndexTargetKind::Values
            }
            kind => kind,
        };
        Ok(Target { kind, column })
    }

    /// As `system_schema.indexes` has it (`IndexTarget.asCqlString`).
    fn shown(&self) -> String {
        let column = quote_identifier(&self.column.name);
        match self.kind {
            IndexTargetKind::Simple => column,
            kind => format!("{}({column})", part(kind)),
        }
    }

    /// `CreateIndexStatement.validateIndexTarget`
    fn check(&self, table: &Table, implementation: &Implementation) -> Result<(), CqlError> {
        let name = &self.column.name;
        if implementation.is_custom() && !name.chars().all(is_word) {
            return invalid!("Column '{name}' contains non-alphanumeric-underscore characters");
        }
        if has_duration(&self.column.ty, &mut BTreeSet::new()) {
            let what = match &self.column.ty {
                ty if ty.is_collection() => "collections containing durations",
                CqlType::Tuple(_) => "tuples containing durations",
                CqlType::Udt { .. } => "UDTs containing durations",
                _ => "duration columns",
            };
            return invalid!("Secondary indexes are not supported on {what}");
        }
        self.check_place(table)?;
        self.check_part()
    }

    /// Refuses a column for what it is in its table.
    fn check_place(&self, table: &Table) -> Result<(), CqlError> {
        let kind = self.column.kind;
        if table.compact.is_some() && is_key(kind) {
            return invalid!(
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE \
                 tables"
            );
        }
        if table.compact == Some(CompactForm::Dense) {
            return invalid!(
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE \
                 tables"
            );
        }
        if kind == ColumnKind::PartitionKey && table.partition_key().len() == 1 {
            return invalid!(
                "Cannot create secondary index on the only partition key column {}",
                self.column.name
            );
        }
        Ok(())
    }

    /// Refuses a part that the column's type does not have.
    fn check_part(&self) -> Result<(), CqlError> {
        use IndexTargetKind::{Entries, Full, Keys, Simple};
        let (name, ty) = (&self.column.name, &self.column.ty);
        let is_frozen_collection = ty.is_collection() && !ty.is_multi_cell();
        let part = match self.kind {
            Simple if is_frozen_collection => "",
            kind => part(kind),
        };
        if is_frozen_collection && self.kind != Full {
            return invalid!(
                "Cannot create {part}() index on frozen column {name}. Frozen collections are \
                 immutable and must be fully indexed by using the 'full({name})' modifier"
            );
        }
        if !is_frozen_collection && self.kind == Full {
            return invalid!("full() indexes can only be created on frozen collections");
        }
        if !ty.is_collection() && self.kind != Simple {
            return invalid!(
                "Cannot create {part}() index on {name}. Non-collection columns only support \
                 simple indexes"
            );
        }
        if !matches!(ty, CqlType::Map { frozen: false, .. }) && matches!(self.kind, Keys | Entries)
        {
            return invalid!("Cannot create index on {part} of column {name} with non-map type");
        }
        if matches!(ty, CqlType::Udt { frozen: false, .. }) {
            return invalid!("Cannot create index on non-frozen UDT column {name}");
        }
        Ok(())
    }
}

fn is_key(kind: ColumnKind) -> bool {
    matches!(kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
}

/// As CQL calls a part of a column (`IndexTarget.Type`).
fn part(kind: IndexTargetKind) -> &'static str {
    match kind {
        IndexTargetKind::Simple => "simple",
        IndexTargetKind::Values => "values",
        IndexTargetKind::Keys => "keys",
        IndexTargetKind::Entries => "entries",
        IndexTargetKind::Full => "full",
    }
}

/// Is it made of a duration (`AbstractType.referencesDuration`)? Of vectors Cassandra does not
/// ask, nor of composites. `known` are the user types that were walked through: a few that each use the one before
/// twice would otherwise take for ever.
fn has_duration(ty: &CqlType, known: &mut BTreeSet<*const UserType>) -> bool {
    match ty {
        CqlType::Duration => true,
        CqlType::Vector { .. } | CqlType::Composite(_) => false,
        CqlType::Udt { definition, .. } if !known.insert(Arc::as_ptr(definition)) => false,
        other => other.parts().any(|part| has_duration(part, known)),
    }
}

/// `\w`, of which alone names of indexes are made.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A name that no index of the keyspace has (`KeyspaceMetadata.findAvailableIndexName`).
fn free_name(keyspace: &Keyspace, table: &Table, targets: &[Target<'_>]) -> Arc<str> {
    let column = match targets {
        [target] => format!("{}_", target.column.name),
        _ => String::new(),
    };
    let mut name = format!("{}_{column}idx", table.name);
    name.retain(is_word);
    let numbered = (1_u64..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    let free = names.find(|name| indexes(keyspace).all(|index| *index.name != **name));
    Arc::from(free.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Statement;
    use crate::schema::SchemaPlan;

    fn schema(statements: &[&str]) -> Schema {
        let mut schema = Schema::default();
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
                        'replication_factor': 1}";
        let statements = std::iter::once(&keyspace).chain(statements);
        for (id, text) in (0..).zip(statements) {
            let statement = crate::parse(text).expect("a statement");
            let plan = SchemaPlan::new(&statement, Some("k")).expect("a plan");
            let plan = plan.expect("a change of the schema");
            let id = || uuid::Uuid::from_u128(id);
            schema = plan.apply(&schema, id, 0, &["dc"]).expect(text).schema;
        }
        schema
    }

    /// The index that a statement is about, if the keyspace has `others` already.
    fn defined(schema: &Schema, others: &[Index], text: &str) -> Result<Index, CqlError> {
        let mut schema = schema.clone();
        let mut keyspace = Keyspace::clone(&schema.keyspaces["k"]);
        keyspace.unserved.indexes = others.to_vec();
        schema
            .keyspaces
            .insert(keyspace.name.clone(), Arc::new(keyspace));
        let Ok(Statement::CreateIndex(create)) = crate::parse(text) else {
            panic!("no CREATE INDEX: {text}");
        };
        let defined = define(&schema, &create, false)?;
        Ok(defined.expect("an index that is not there"))
    }

    /// Names and targets as Cassandra 5.0.6 had them in `system_schema.indexes` after the same
    /// statements.
    #[test]
    fn indexes_get_the_names_and_targets_that_cassandra_gives_them() {
        let schema = schema(&[
            "CREATE TABLE t (k int PRIMARY KEY, v int, \"V\" int, \"a b\" int)",
            "CREATE TABLE x (k int PRIMARY KEY, m map<text, int>, fl frozen<list<int>>, ul \
             list<int>, vd vector<duration, 2>)",
        ]);
        let mut indexes = Vec::new();
        for (text, name, target) in [
            ("CREATE INDEX i ON k.t (v)", "i", "v"),
            ("CREATE INDEX ON k.t (\"V\")", "t_V_idx", "\"V\""),
            ("CREATE INDEX t_v_idx ON k.x (m)", "t_v_idx", "values(m)"),
            ("CREATE INDEX ON k.x (keys(m))", "x_m_idx", "keys(m)"),
            (
                "CREATE INDEX ON k.x (entries(m))",
                "x_m_idx_1",
                "entries(m)",
            ),
            ("CREATE INDEX ON k.x (full(fl))", "x_fl_idx", "full(fl)"),
            ("CREATE INDEX ON k.x (ul)", "x_ul_idx", "values(ul)"),
            ("CREATE INDEX ON k.x (vd)", "x_vd_idx", "vd"),
            ("CREATE INDEX ON k.t (\"a b\")", "t_ab_idx", "\"a b\""),
            (
                "CREATE CUSTOM INDEX ON k.t (v) USING 'StorageAttachedIndex'",
                "t_v_idx_1",
                "v",
            ),
        ] {
            let index = defined(&schema, &indexes, text).expect(text);
            assert_eq!(
                (&*index.name, index.options["target"].as_str()),
                (name, target)
            );
            indexes.push(index);
        }
        let sai = indexes.last().expect("the last one");
        assert_eq!(sai.kind, Some(IndexKind::Custom));
        assert_eq!(sai.options["class_name"], "StorageAttachedIndex");
        for (text, refused) in [
            ("CREATE INDEX i ON k.x (ul)", "Index 'i' already exists"),
            (
                "CREATE INDEX j ON k.t (v)",
                "Index j is a duplicate of existing index i",
            ),
            (
                "CREATE INDEX ON k.t (v)",
                "Index t_v_idx_2 is a duplicate of existing index i",
            ),
        ] {
            let error = defined(&schema, &indexes, text).expect_err(text);
            assert_eq!(error, CqlError::Invalid(refused.to_owned()));
        }
        // Nobody keeps that index: silence would be taken for a yes.
        for text in [
            "CREATE INDEX IF NOT EXISTS i ON k.x (ul)",
            "CREATE INDEX IF NOT EXISTS ON k.t (v)",
        ] {
            let error = defined(&schema, &indexes, text).expect_err(text);
            let text = error.to_string();
            assert!(text.starts_with("index k.i is not served"), "{text}");
        }
    }
}
