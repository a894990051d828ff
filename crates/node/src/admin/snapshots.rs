//! Snapshots and incremental backups.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use cql::describe::{create_table, create_type};
use model::{CqlType, Table, TableId, UserType};
use storage::{SnapshotDetails, SnapshotError, SnapshotManifest};

use super::{Admin, AdminError};
use crate::shard::Shard;

/// A snapshot lives this long at least, in seconds (`SnapshotManager`).
const SHORTEST_TTL: u64 = 60;

/// What a snapshot is to be of and how.
#[derive(Clone, Debug, Default)]
pub struct SnapshotRequest {
    /// Its name.
    pub tag: String,
    /// Of these tables, by keyspace and name.
    pub tables: Vec<(String, String)>,
    /// Of all tables of these keyspaces; of all keyspaces if no tables and no keyspaces are named.
    pub keyspaces: Vec<String>,
    /// Leave out what is in memory.
    pub skip_flush: bool,
    /// Seconds after which it may be removed.
    pub ttl_seconds: Option<u64>,
}

/// Which snapshots are to be removed.
#[derive(Clone, Debug, Default)]
pub struct SnapshotSelection {
    /// Those of this name; all if none is given.
    pub tag: Option<String>,
    /// Those of these keyspaces; of all if none are named.
    pub keyspaces: Vec<String>,
    /// Those that are so old.
    pub age: SnapshotAge,
}

/// How old a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotAge {
    /// Whatever its age.
    #[default]
    Any,
    /// Older than so many seconds.
    OlderThan(u64),
    /// Made before this time, in milliseconds since 1970.
    MadeBefore(i64),
}

impl Admin {
    /// Makes a snapshot.
    pub fn snapshot(&self, request: &SnapshotRequest) -> Result<(), AdminError> {
        check_tag(&request.tag)?;
        if request.ttl_seconds.is_some_and(|ttl| ttl < SHORTEST_TTL) {
            let reason = format!("ttl for snapshot must be at least {SHORTEST_TTL} seconds");
            return Err(AdminError::Refused(reason));
        }
        let tables = self.tables_of(request)?;
        let ids: Arc<[TableId]> = tables.iter().map(|table| table.id).collect();
        let (tag, flush): (Arc<str>, _) = (request.tag.as_str().into(), !request.skip_flush);
        self.refuse_present(&tables, &tag)?;
        let linked = {
            let (ids, tag) = (ids.clone(), tag.clone());
            self.try_everywhere(move |shard: Rc<Shard>| {
                let (ids, tag) = (ids.clone(), tag.clone());
                async move {
                    let mut files = Vec::new();
                    for id in &*ids {
                        files.push(shard.store.link_snapshot(*id, &tag, flush).await?);
                    }
                    Ok::<_, SnapshotError>(files)
                }
            })?
        };
        let mut parts = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            let files: BTreeSet<String> = linked.iter().flat_map(|of| of[at].clone()).collect();
            parts.push((table.id, files, schema_cql(table)));
        }
        let ttl = request.ttl_seconds;
        let finished = self.lead(async move |shard: Rc<Shard>| {
            let now = shard.env.wall_micros() / 1000;
            let ttl = ttl.and_then(|ttl| i64::try_from(ttl).ok());
            for (id, files, schema) in parts {
                let manifest = SnapshotManifest {
                    files: files.into_iter().collect(),
                    created_at: Some(now),
                    expires_at: ttl.map(|ttl| now.saturating_add(ttl.saturating_mul(1000))),
                };
                shard
                    .store
                    .finish_snapshot(id, &tag, &manifest, &schema)
                    .await?;
            }
            Ok::<_, SnapshotError>(())
        })?;
        finished.map_err(|error| AdminError::Failed(error.to_string()))
    }

    fn tables_of(&self, request: &SnapshotRequest) -> Result<Vec<Arc<Table>>, AdminError> {
        let mut tables = Vec::new();
        for (keyspace, name) in &request.tables {
            tables.extend(self.tables(Some(keyspace), std::slice::from_ref(name))?);
        }
        for keyspace in &request.keyspaces {
            tables.extend(self.tables(Some(keyspace), &[])?);
        }
        if request.tables.is_empty() && request.keyspaces.is_empty() {
            tables = self.tables(None, &[])?;
        }
        tables.sort_by_key(|table| table.id);
        tables.dedup_by_key(|table| table.id);
        Ok(tables)
    }

    /// Two snapshots do not mix.
    fn refuse_present(&self, tables: &[Arc<Table>], tag: &Arc<str>) -> Result<(), AdminError> {
        let ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
        let wanted = tag.clone();
        let there = self.lead(async move |shard: Rc<Shard>| {
            for id in ids {
                if shard.store.has_snapshot(id, &wanted).await? {
                    return Ok(true);
                }
            }
            Ok::<_, SnapshotError>(false)
        })?;
        match there {
            Ok(false) => Ok(()),
            Ok(true) => {
                let exists = SnapshotError::Exists(tag.to_string());
                Err(AdminError::Refused(exists.to_string()))
            }
            Err(error) => Err(AdminError::Failed(error.to_string())),
        }
    }

    /// All snapshots there are, those of dropped tables too.
    pub fn snapshots(&self) -> Result<Vec<SnapshotDetails>, AdminError> {
        let listed = self.lead(async |shard: Rc<Shard>| shard.store.snapshots().await)?;
        listed.map_err(|error| AdminError::Failed(error.to_string()))
    }

    /// Removes snapshots. How many.
    pub fn clear_snapshots(&self, which: SnapshotSelection) -> Result<usize, AdminError> {
        if let Some(tag) = &which.tag {
            check_tag(tag)?;
        }
        let cleared = self.lead(async move |shard: Rc<Shard>| {
            let now = shard.env.wall_micros() / 1000;
            let made_before = match which.age {
                SnapshotAge::Any => None,
                SnapshotAge::MadeBefore(millis) => Some(millis),
                SnapshotAge::OlderThan(seconds) => {
                    let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
                    Some(now.saturating_sub(millis))
                }
            };
            let (keyspaces, tag) = (&which.keyspaces, which.tag.as_deref());
            let store = &shard.store;
            store.clear_snapshots(keyspaces, tag, made_before).await
        })?;
        cleared.map_err(|error| AdminError::Failed(error.to_string()))
    }

    /// Links new sstables into the backups from now on, or no more.
    pub fn set_incremental_backups(&self, on: bool) -> Result<(), AdminError> {
        let set = move |shard: Rc<Shard>| async move { shard.store.set_incremental_backups(on) };
        self.everywhere(set).map(drop)
    }

    /// Are new sstables linked into the backups?
    pub fn incremental_backups(&self) -> Result<bool, AdminError> {
        self.lead(async |shard: Rc<Shard>| shard.store.incremental_backups())
    }
}

/// The name of a snapshot is that of a folder.
fn check_tag(tag: &str) -> Result<(), AdminError> {
    let bad = tag.is_empty()
        || tag == "."
        || tag == ".."
        || tag.len() > 255
        || tag.contains(['/', '\\', '\0']);
    match bad {
        true => Err(AdminError::Refused(format!(
            "`{tag}` cannot be the name of a snapshot: it names a folder, so it has no slash in it"
        ))),
        false => Ok(()),
    }
}

/// What makes the table anew: its types, then itself with its identity (`SchemaCQLHelper`).
pub(crate) fn schema_cql(table: &Table) -> String {
    let if_not_exists = |statement: String, kind: &str| {
        let create = format!("CREATE {kind} ");
        statement.replacen(&create, &format!("{create}IF NOT EXISTS "), 1) + "\n"
    };
    let mut types = Vec::new();
    for column in table.columns() {
        add_types(&column.ty, &mut types);
    }
    let types = types
        .iter()
        .map(|ty| if_not_exists(create_type(ty), "TYPE"));
    let mut text: String = types.collect();
    text.push_str(&if_not_exists(create_table(table, true), "TABLE"));
    text
}

/// The user-defined types that a type is made of, each behind those it is made of itself.
fn add_types(ty: &CqlType, found: &mut Vec<Arc<UserType>>) {
    match ty {
        CqlType::Udt { definition, .. } => {
            if found.iter().any(|other| other.name == definition.name) {
                return;
            }
            for (_, field) in &definition.fields {
                add_types(field, found);
            }
            found.push(definition.clone());
        }
        other => other.parts().for_each(|part| add_types(part, found)),
    }
}
