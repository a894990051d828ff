//! Snapshots: what a table consists of now, under a name, without a copy.
//!
//! A snapshot is the folder `snapshots/TAG` in the folder of its table, with hard links of all files
//! of all sstables, `manifest.json` and `schema.cql`, as Cassandra makes it
//! (`ColumnFamilyStore.snapshotWithoutMemtable`, `SnapshotManifest`, `TableSnapshot`). Each shard
//! links what it has; one of them then adds the other two files. No file that a snapshot under way
//! is about to link is removed before it is done, so it holds exactly what was there at one moment.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use io::{DirEntry, Env};
use model::TableId;

use super::table::TableStore;
use super::{Inner, Store};
use crate::error::FlushError;
use crate::sstable::{Component, Descriptor};

/// The folder of snapshots in that of a table.
pub(super) const SNAPSHOTS: &str = "snapshots";
const MANIFEST: &str = "manifest.json";
const SCHEMA: &str = "schema.cql";

/// A snapshot could not be made, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// No such table here.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// What is in memory could not be written.
    #[error("flushing before a snapshot: {0}")]
    Flush(#[from] FlushError),
    /// There is one of this name already.
    #[error("Snapshot {0} already exists.")]
    Exists(String),
    /// The drive refused.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the drive said.
        error: std::io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |error| SnapshotError::Io { path, error }
}

/// What `manifest.json` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotManifest {
    /// The names of the data files.
    pub files: Vec<String>,
    /// When it was made, in milliseconds since 1970, if that is known.
    pub created_at: Option<i64>,
    /// When it may be removed, in milliseconds since 1970; `None`: never by itself.
    pub expires_at: Option<i64>,
}

impl SnapshotManifest {
    /// As Cassandra writes it (Jackson's default indentation).
    fn encode(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let time =
            |time: Option<i64>| time.map_or("null".to_owned(), |time| quoted(&instant(time)));
        let files: Vec<String> = self.files.iter().map(|file| quoted(file)).collect();
        let files = match files.is_empty() {
            true => "[ ]".to_owned(),
            false => format!("[ {} ]", files.join(", ")),
        };
        let (created, expires) = (time(self.created_at), time(self.expires_at));
        format!(
            "{{\n  \"files\" : {files},\n  \"created_at\" : {created},\n  \"expires_at\" : \
             {expires},\n  \"ephemeral\" : false\n}}"
        )
    }

    /// What is damaged or missing in it is not known of the snapshot, which is there all the same.
    fn decode(bytes: &[u8]) -> SnapshotManifest {
        let json: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
        let time = |name: &str| {
            let text = json.get(name)?.as_str()?;
            let time: jiff::Timestamp = text.parse().ok()?;
            Some(time.as_millisecond())
        };
        let files = json.get("files").and_then(|files| files.as_array());
        let names = files.into_iter().flatten().filter_map(|name| name.as_str());
        SnapshotManifest {
            files: names.map(str::to_owned).collect(),
            created_at: time("created_at"),
            expires_at: time("expires_at"),
        }
    }
}

/// A time in milliseconds since 1970 as Java's `Instant` puts it: `2026-11-21T11:15:48.682Z`.
pub fn instant(millis: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(millis) else {
        return millis.to_string();
    };
    match millis.rem_euclid(1000) {
        0 => format!("{time:.0}"),
        _ => format!("{time:.3}"),
    }
}

/// A snapshot of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDetails {
    /// Its name.
    pub tag: String,
    /// The keyspace of the table.
    pub keyspace: String,
    /// The name of the table, which may have been dropped since.
    pub table: String,
    /// Bytes that only this snapshot keeps on disk: what is part of the table itself does not count.
    pub true_size: u64,
    /// Of them those of sstables.
    pub true_data_size: u64,
    /// Bytes of all its files.
    pub size: u64,
    /// When it was made and may be removed.
    pub manifest: SnapshotManifest,
    dir: PathBuf,
}

impl Store {
    /// Is there a snapshot of this name of a table?
    pub async fn has_snapshot(&self, table: TableId, tag: &str) -> Result<bool, SnapshotError> {
        let inner = &self.inner;
        let table = inner
            .table(table)
            .ok_or(SnapshotError::UnknownTable(table))?;
        let dir = snapshot_dir(&table.dir, tag);
        inner.env.exists(&dir).await.map_err(at(&dir))
    }

    /// Links what this shard has of a table, flushed before if so wished, into a snapshot. The names
    /// of the data files. [`Store::finish_snapshot`] has to follow when all shards are done.
    pub async fn link_snapshot(
        &self,
        table: TableId,
        tag: &str,
        flush: bool,
    ) -> Result<BTreeSet<String>, SnapshotError> {
        let inner = &self.inner;
        let table = inner
            .table(table)
            .ok_or(SnapshotError::UnknownTable(table))?;
        if flush {
            inner.flush(Some(table.id())).await?;
        }
        let dir = snapshot_dir(&table.dir, tag);
        let sstables = table.sstables();
        let mut all: Vec<Descriptor> = sstables.iter().map(|s| s.descriptor().clone()).collect();
        // What the table cannot read may be all that there is of some rows.
        all.extend(table.unreadable_sstables());
        inner.link_sstables(&table, &all, &dir).await
    }

    /// Adds to a snapshot what says when it was made, and how the table is made anew.
    pub async fn finish_snapshot(
        &self,
        table: TableId,
        tag: &str,
        manifest: &SnapshotManifest,
        schema_cql: &str,
    ) -> Result<(), SnapshotError> {
        let inner = &self.inner;
        let env = &inner.env;
        let table = inner
            .table(table)
            .ok_or(SnapshotError::UnknownTable(table))?;
        let dir = snapshot_dir(&table.dir, tag);
        env.create_dir_all(&dir).await.map_err(at(&dir))?;
        write(env, &dir.join(SCHEMA), schema_cql.as_bytes()).await?;
        write(env, &dir.join(MANIFEST), manifest.encode().as_bytes()).await?;
        sync_up(env, &dir, &table.dir).await
    }

    /// All snapshots there are, those of dropped tables too, by name, keyspace and table. Folders that
    /// may not be read hold none of ours.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotDetails>, SnapshotError> {
        let env = &self.inner.env;
        let mut found = Vec::new();
        for (keyspace, table, dir) in self.inner.table_folders().await? {
            for tag in folders(env, &dir.join(SNAPSHOTS)).await? {
                let place = (keyspace.clone(), table.clone());
                found.extend(details(env, &dir, place, tag).await?);
            }
        }
        found.sort_by(|a, b| {
            let order = |s: &SnapshotDetails| (s.tag.clone(), s.keyspace.clone(), s.table.clone());
            order(a).cmp(&order(b))
        });
        Ok(found)
    }

    /// Removes the snapshots of this name, or all, of these keyspaces, or of all; only those that
    /// were made before a time in milliseconds since 1970, if one is given. How many.
    pub async fn clear_snapshots(
        &self,
        keyspaces: &[String],
        tag: Option<&str>,
        made_before: Option<i64>,
    ) -> Result<usize, SnapshotError> {
        let all = self.snapshots().await?;
        let wanted = |snapshot: &&SnapshotDetails| {
            tag.is_none_or(|tag| snapshot.tag == tag)
                && (keyspaces.is_empty() || keyspaces.contains(&snapshot.keyspace))
                && made_before.is_none_or(|time| snapshot.is_from_before(time))
        };
        let wanted: Vec<&SnapshotDetails> = all.iter().filter(wanted).collect();
        for snapshot in &wanted {
            self.inner.remove_snapshot(snapshot).await?;
        }
        Ok(wanted.len())
    }

    /// Removes the snapshots whose time has passed. How many.
    pub async fn clear_expired_snapshots(&self) -> Result<usize, SnapshotError> {
        let now = self.inner.env.wall_micros() / 1000;
        let all = self.snapshots().await?;
        let expired = |snapshot: &&SnapshotDetails| {
            snapshot.manifest.expires_at.is_some_and(|time| time <= now)
        };
        let expired: Vec<&SnapshotDetails> = all.iter().filter(expired).collect();
        for snapshot in &expired {
            self.inner.remove_snapshot(snapshot).await?;
        }
        Ok(expired.len())
    }
}

impl SnapshotDetails {
    /// Was it made before this time? One that does not say when may be new.
    fn is_from_before(&self, time: i64) -> bool {
        self.manifest.created_at.is_some_and(|made| made < time)
    }
}

impl Inner {
    /// Links all files of some sstables into a folder in that of their table, on the drive when
    /// this returns. Another shard may have linked those that both have.
    pub(super) async fn link_sstables(
        &self,
        table: &Rc<TableStore>,
        sstables: &[Descriptor],
        dir: &Path,
    ) -> Result<BTreeSet<String>, SnapshotError> {
        if sstables.is_empty() {
            return Ok(BTreeSet::new());
        }
        let _kept = table.keep_files();
        let env = &self.env;
        env.create_dir_all(dir).await.map_err(at(dir))?;
        let mut data = BTreeSet::new();
        let names = env.read_dir(&table.dir).await.map_err(at(&table.dir))?;
        for entry in names.iter().filter(|entry| !entry.is_dir) {
            let Some((descriptor, component)) = Descriptor::parse(&table.dir, &entry.name) else {
                continue;
            };
            if !sstables.contains(&descriptor) {
                continue;
            }
            let to = dir.join(&entry.name);
            match env.hard_link(&table.dir.join(&entry.name), &to).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(at(&to)(error));
                }
                _ => {}
            }
            if component == Component::Data.name() {
                data.insert(entry.name.clone());
            }
            env.maybe_yield().await;
        }
        sync_up(env, dir, &table.dir).await?;
        Ok(data)
    }

    /// The folders of all tables, also of those that were dropped: keyspace, name, path.
    async fn table_folders(&self) -> Result<Vec<(String, String, PathBuf)>, SnapshotError> {
        let data = self.config.sstables.clone();
        let mut found = Vec::new();
        let entries = self.env.read_dir(&data).await.map_err(at(&data))?;
        for keyspace in names_of_folders(entries) {
            let above = data.join(&keyspace);
            for name in folders(&self.env, &above).await? {
                let table = name.rsplit_once('-').map_or(&*name, |(table, _)| table);
                found.push((keyspace.clone(), table.to_owned(), above.join(&name)));
            }
        }
        Ok(found)
    }

    /// Removes a snapshot, and the folder of a dropped table with its last one.
    async fn remove_snapshot(&self, snapshot: &SnapshotDetails) -> Result<(), SnapshotError> {
        let env = &self.env;
        match env.remove_dir_all(&snapshot.dir).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(at(&snapshot.dir)(error));
            }
            _ => {}
        }
        let Some(all) = snapshot.dir.parent() else {
            return Ok(());
        };
        there(all, env.sync_dir(all).await).map(|_| ())
    }
}

fn snapshot_dir(table: &Path, tag: &str) -> PathBuf {
    table.join(SNAPSHOTS).join(tag)
}

/// The names of the folders in a folder; none if there is no such folder, or if it is not for us to
/// read.
async fn folders(env: &Env, dir: &Path) -> Result<Vec<String>, SnapshotError> {
    let entries = there(dir, env.read_dir(dir).await)?;
    Ok(names_of_folders(entries.unwrap_or_default()))
}

fn names_of_folders(entries: Vec<DirEntry>) -> Vec<String> {
    let folders = entries.into_iter().filter(|entry| entry.is_dir);
    folders.map(|entry| entry.name).collect()
}

/// `None` of what is not there, be it that it went meanwhile, and of what may not be read, as is the
/// `lost+found` of a mounted drive.
fn there<T>(path: &Path, found: std::io::Result<T>) -> Result<Option<T>, SnapshotError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let path = path.display();
            tracing::warn!("snapshots are looked for elsewhere only: {path}: {error}");
            Ok(None)
        }
        Err(error) => Err(at(path)(error)),
    }
}

/// `None`: it has gone meanwhile.
async fn details(
    env: &Env,
    table_dir: &Path,
    (keyspace, table): (String, String),
    tag: String,
) -> Result<Option<SnapshotDetails>, SnapshotError> {
    let dir = snapshot_dir(table_dir, &tag);
    let live = there(table_dir, env.read_dir(table_dir).await)?;
    let (mut size, mut true_size, mut true_data_size) = (0, 0, 0);
    let entries = there(&dir, env.read_dir(&dir).await)?;
    let (Some(live), Some(entries)) = (live, entries) else {
        return Ok(None);
    };
    for entry in &entries {
        size += entry.len;
        let is_live = live
            .binary_search_by(|other| other.name.cmp(&entry.name))
            .is_ok();
        if !is_live {
            true_size += entry.len;
            if entry.name != MANIFEST && entry.name != SCHEMA {
                true_data_size += entry.len;
            }
        }
    }
    let manifest = match entries.iter().any(|entry| entry.name == MANIFEST) {
        true => {
            let path = dir.join(MANIFEST);
            match env.read_file(&path).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                found => SnapshotManifest::decode(&there(&path, found)?.unwrap_or_default()),
            }
        }
        // The process ended before the snapshot was finished.
        false => SnapshotManifest::default(),
    };
    Ok(Some(SnapshotDetails {
        tag,
        keyspace,
        table,
        true_size,
        true_data_size,
        size,
        manifest,
        dir,
    }))
}

async fn write(env: &Env, path: &Path, bytes: &[u8]) -> Result<(), SnapshotError> {
    let written = env.write_file(path, bytes.to_vec()).await;
    written.map_err(at(path))
}

/// The names in a folder, and those of the folders above it up to that of the table.
async fn sync_up(env: &Env, dir: &Path, table: &Path) -> Result<(), SnapshotError> {
    for folder in dir.ancestors() {
        env.sync_dir(folder).await.map_err(at(folder))?;
        if folder == table {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TempDir, run};

    #[test]
    fn what_is_gone_or_not_ours_to_read_is_passed_over() {
        let refused = |kind: ErrorKind| there::<()>(Path::new("/x"), Err(kind.into()));
        for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied] {
            assert!(matches!(refused(kind), Ok(None)), "{kind}");
        }
        assert!(refused(ErrorKind::Other).is_err());

        let folder = TempDir::new();
        let dir = folder.0.clone();
        std::fs::create_dir_all(dir.join("snapshots/empty")).expect("it is made");
        run(move |env| async move {
            for (tag, there) in [("empty", true), ("gone", false)] {
                let place = ("ks".to_owned(), "t".to_owned());
                let details = details(&env, &dir, place, tag.to_owned()).await;
                assert_eq!(details.expect("it can be read").is_some(), there, "{tag}");
            }
        });
    }

    #[test]
    fn the_manifest_is_cassandras() {
        let manifest = SnapshotManifest {
            files: vec!["nb-1-big-Data.db".to_owned(), "nb-2-big-Data.db".to_owned()],
            created_at: Some(1_795_259_748_680),
            expires_at: None,
        };
        let text = "{\n  \"files\" : [ \"nb-1-big-Data.db\", \"nb-2-big-Data.db\" ],\n  \
                    \"created_at\" : \"2026-11-21T11:15:48.680Z\",\n  \"expires_at\" : null,\n  \
                    \"ephemeral\" : false\n}";
        assert_eq!(manifest.encode(), text);
        assert_eq!(SnapshotManifest::decode(text.as_bytes()), manifest);
        assert!(
            SnapshotManifest::default()
                .encode()
                .contains("\"files\" : [ ]")
        );
        assert_eq!(SnapshotManifest::decode(b"{"), SnapshotManifest::default());
        assert_eq!(instant(1_795_259_748_000), "2026-11-21T11:15:48Z");
    }
}
