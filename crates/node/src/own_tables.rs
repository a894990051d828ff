//! What the node's own tables hold: all of one, and the schema that those of `system_schema` are together.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringSelection, DataLimits, DecoratedKey, PartitionBound, PartitionSelection, ReadCommand,
    Schema, Slice, Table,
};

use crate::replica;
use crate::shard::Shard;
use crate::start::StartError;
use crate::system::{SCHEMA_TABLES, schema_from_rows};

/// The schema that the tables of `system_schema` hold.
pub(crate) async fn read_schema(shard: &Rc<Shard>, system: &Schema) -> Result<Schema, StartError> {
    read_schema_over(shard, system, &[None]).await
}

/// The same, where it was `known` but for the keyspaces whose names are these keys: only of those is anything read, or a
/// change would take the longer the more tables there are.
pub(crate) async fn read_keyspaces(
    shard: &Rc<Shard>,
    system: &Schema,
    known: &Schema,
    keys: BTreeSet<DecoratedKey>,
) -> Result<Schema, StartError> {
    let mut others = known.clone();
    for key in &keys {
        let Ok(name) = std::str::from_utf8(key.key()) else {
            continue;
        };
        match system.keyspaces.get_key_value(name) {
            Some((name, defined)) => others.keyspaces.insert(name.clone(), defined.clone()),
            None => others.keyspaces.remove(name),
        };
    }
    let keys: Vec<_> = keys.into_iter().map(Some).collect();
    let schema = read_schema_over(shard, &others, &keys).await?;
    if cfg!(debug_assertions) {
        let whole = read_schema(shard, system).await?;
        assert_eq!(schema.version, whole.version, "others have not changed");
    }
    Ok(schema)
}

/// The schema that is `defined`, with what the tables of `system_schema` say under these keys, or under all.
async fn read_schema_over(
    shard: &Rc<Shard>,
    defined: &Schema,
    keys: &[Option<DecoratedKey>],
) -> Result<Schema, StartError> {
    let mut rows = BTreeMap::new();
    for name in SCHEMA_TABLES {
        let table = own_table(defined, "system_schema", name)?;
        let mut partitions = Vec::new();
        for key in keys {
            partitions.extend(read_whole(shard, table.clone(), key.clone()).await?);
        }
        shard.schema_timestamps.pass_rows(&partitions);
        rows.insert(name, partitions);
    }
    let (schema, problems) = schema_from_rows(defined, &rows);
    for problem in problems {
        tracing::warn!("{problem}");
    }
    Ok(schema)
}

pub(crate) fn own_table(
    system: &Schema,
    keyspace: &str,
    name: &str,
) -> Result<Arc<Table>, StartError> {
    let missing = || StartError::System(format!("there is no table {keyspace}.{name}"));
    system.table(keyspace, name).cloned().ok_or_else(missing)
}

/// All of a table of the node's own, or one partition of it. They are small.
pub(crate) async fn read_whole(
    shard: &Rc<Shard>,
    table: Arc<Table>,
    key: Option<DecoratedKey>,
) -> Result<Vec<model::Partition>, StartError> {
    let columns = table.regulars().chain(table.statics()).map(|c| c.id);
    let mut columns: Vec<_> = columns.collect();
    columns.sort_unstable();
    let command = ReadCommand {
        columns,
        partitions: match key {
            Some(key) => PartitionSelection::Key(key),
            None => PartitionSelection::Range {
                start: PartitionBound::Unbounded,
                end: PartitionBound::Unbounded,
            },
        },
        clustering: ClusteringSelection {
            slices: vec![Slice::ALL],
            reversed: false,
        },
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        },
        now_seconds: shard.env.wall_seconds(),
        resume: None,
        table,
        bypass_cache: false,
        packed: false,
    };
    let read = replica::read(shard, &command).await;
    let page = read.map_err(|error| StartError::System(error.to_string()))?;
    debug_assert!(!page.more, "there is no limit");
    Ok(page.partitions)
}
