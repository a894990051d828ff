//! What a start finds in the data folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use io::Env;
use model::Table;

use super::StoreConfig;
use crate::commitlog::{SPARE_EXTENSION, SegmentName, Truncations};
use crate::compaction::transaction::{self, Leftover, LeftoverError};
use crate::error::OpenError;
use crate::sstable::{
    Component, Descriptor, Generation, Seal, ShardOrigin, folder as sstable_folder,
};

/// What is in the folder of the commit log.
pub(super) struct FoundLog {
    /// Segments that concern this shard, with the lengths of their files.
    pub(super) segments: Vec<(SegmentName, u64)>,
    /// A number that no segment of any shard has, nor had.
    pub(super) next_segment: u64,
    /// The truncations that any shard noted, this shard's first.
    pub(super) truncations: Vec<Truncations>,
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Io { path, error }
}

/// Looks through the folder of the commit log; makes it if it is not there.
pub(super) async fn open_commitlog(env: &Env, config: &StoreConfig) -> Result<FoundLog, OpenError> {
    let dir = config.commitlog_dir.clone();
    env.create_dir_all(&dir).await.map_err(io_error(&dir))?;
    let data = &config.sstables;
    env.create_dir_all(data).await.map_err(io_error(data))?;
    for made in [&dir, data] {
        sync_names(env, made.parent().unwrap_or(made)).await?;
    }
    let (shard, shards) = (env.shard().0, config.sharder.shards());
    let own = Truncations::new(shard, shards);
    // Milliseconds, as Cassandra counts (`CommitLogSegment.idBase`): where segments are archived by
    // their names, those of a log that begins anew must not take the place of older ones.
    let millis = u64::try_from(env.wall_micros() / 1000).unwrap_or(0);
    let mut found = FoundLog {
        segments: Vec::new(),
        next_segment: millis.max(1),
        truncations: vec![own],
    };
    for entry in env.read_dir(&dir).await.map_err(io_error(&dir))? {
        let path = dir.join(&entry.name);
        if let Some(name) = SegmentName::parse(&entry.name) {
            if !name.is_cassandra() {
                found.next_segment = found.next_segment.max(name.segment + 1);
            }
            if name.shards != shards || name.shard == shard {
                found.segments.push((name, entry.len));
            }
        } else if let Some(of) = entry
            .name
            .strip_suffix(SPARE_EXTENSION)
            .and_then(|name| SegmentName::parse(name.trim_end_matches('.')))
        {
            found.next_segment = found.next_segment.max(of.segment + 1);
            // Shards that run already may have spares: each removes its own only.
            let own = (of.shard, of.shards) == (shard, shards);
            let nobodys = of.shards != shards && shard == 0;
            if own || nobodys {
                remove_if_there(env, &path).await?;
            }
        } else if let Some(mut noted) = Truncations::parse_file_name(&entry.name) {
            let bytes = read(env, &path).await?;
            noted.decode(&bytes).map_err(|_| OpenError::Damaged {
                path,
                reason: "without it truncated rows would come back. Restore the file, or remove \
                         it and truncate the tables again that were truncated lately"
                    .to_owned(),
            })?;
            found.next_segment = found.next_segment.max(noted.next_segment());
            match noted.is_of(shard, shards) {
                true => found.truncations[0] = noted,
                false => found.truncations.push(noted),
            }
        }
    }
    forget_later(env, config, &mut found.truncations).await?;
    Ok(found)
}

/// Drops the notes of truncations after the point in time that is to be restored: what they emptied
/// is to come back. This shard's file says so at once, as without the point in time the next start
/// would leave out what was brought back.
async fn forget_later(
    env: &Env,
    config: &StoreConfig,
    noted: &mut [Truncations],
) -> Result<(), OpenError> {
    let dir = &config.commitlog_dir;
    for noted in noted {
        let forgotten = noted.forget_after(config.commitlog.restore_point);
        if forgotten.is_empty() || !noted.is_of(env.shard().0, config.sharder.shards()) {
            continue;
        }
        for table in forgotten {
            tracing::info!(
                "the point in time to restore is before the truncation of table {table}"
            );
        }
        noted.save(env, dir).await.map_err(io_error(dir))?;
    }
    Ok(())
}

/// Makes sure that the data folder, those in it, and those that it is in are there after a crash as well: without
/// them nothing is that is synced in them. A start may have made several of them.
async fn sync_names(env: &Env, dir: &Path) -> Result<(), OpenError> {
    env.sync_dir(dir).await.map_err(io_error(dir))?;
    for (distance, outer) in dir.ancestors().skip(1).enumerate() {
        let outer = match outer.as_os_str().is_empty() {
            true => Path::new("."),
            false => outer,
        };
        match env.sync_dir(outer).await {
            // A folder that we may not read was there before us, and so were those that it is in. Of those far
            // out nobody knows what they are.
            Err(error) if distance > 0 || error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Ok(());
            }
            result => result.map_err(io_error(outer))?,
        }
    }
    Ok(())
}

async fn read(env: &Env, path: &Path) -> Result<Vec<u8>, OpenError> {
    env.read_file(path).await.map_err(io_error(path))
}

async fn remove_if_there(env: &Env, path: &Path) -> Result<(), OpenError> {
    let removed = env.remove_file_if_there(path).await;
    removed.map_err(io_error(path))
}

/// The table that Cassandra keeps in the order of its keys instead of that of their tokens
/// (`LocalPartitioner`). It would not open files in ring order: they go to a folder that it does
/// not look into.
const IN_KEY_ORDER: (&str, &str) = ("system", "batches");

/// The folder of a table in `data`: `<keyspace>/<table>-<id without dashes>`, or without the id if
/// there is such a one, as Cassandra before 2.1 made them and later ones use them on
/// (`Directories`).
pub(super) async fn of_table(env: &Env, data: &Path, table: &Table) -> Result<PathBuf, OpenError> {
    let keyspace = data.join(&*table.keyspace);
    let with_id = format!("{}-{}", table.name, table.id.simple());
    if (&*table.keyspace, &*table.name) == IN_KEY_ORDER {
        return Ok(keyspace.join(format!("helenus_{with_id}")));
    }
    let without = keyspace.join(&*table.name);
    match env.exists(&without).await.map_err(io_error(&without))? {
        true => Ok(without),
        false => Ok(keyspace.join(with_id)),
    }
}

/// What is in the folder of a table.
pub(super) struct FoundTable {
    /// sstables that hold, or may hold, partitions of this shard.
    pub(super) sstables: Vec<(Descriptor, Option<ShardOrigin>)>,
    /// Data files of formats that cannot be read.
    pub(super) unknown: Vec<PathBuf>,
    /// The highest generation of any shard.
    pub(super) generation: u64,
    /// When each was written, in seconds since 1970.
    pub(super) written: BTreeMap<Descriptor, u32>,
}

/// Looks through the folder of a table, makes it if it is not there, and finishes or undoes what
/// a crash interrupted. Other shards do the same at the same time or are at work in it already:
/// of leftovers each takes those whose generation is its own. What a compaction that happened has
/// replaced counts for nobody, also while the shard that removes it is at it: a part of it could
/// lack the deletion that covers the rest.
pub(super) async fn open_table(
    env: &Env,
    config: &StoreConfig,
    dir: &Path,
) -> Result<FoundTable, OpenError> {
    let mut tries = 0;
    loop {
        match look_through(env, config, dir).await {
            // Another shard has removed it since the folder was listed: its file of a compaction,
            // whose inputs are gone now too.
            Err(OpenError::Io { error, .. })
                if error.kind() == std::io::ErrorKind::NotFound && tries < LOOKS =>
            {
                tries += 1;
                env.yield_now().await;
            }
            result => return result,
        }
    }
}

/// How often a folder that changes meanwhile is looked through again.
const LOOKS: u32 = 100;

async fn look_through(
    env: &Env,
    config: &StoreConfig,
    dir: &Path,
) -> Result<FoundTable, OpenError> {
    env.create_dir_all(dir).await.map_err(io_error(dir))?;
    if let Some(parent) = dir.parent() {
        env.sync_dir(parent).await.map_err(io_error(parent))?;
        if let Some(data) = parent.parent() {
            env.sync_dir(data).await.map_err(io_error(data))?;
        }
    }
    let (shard, shards) = (env.shard().0, config.sharder.shards());
    let leftovers = resolve(env, dir, (shard, shards)).await?;
    let mine = |generation| generation % u64::from(shards) == u64::from(shard);
    let names = list(env, dir).await?;
    let interrupted = transaction::interrupted(env, dir, &names, mine).await;
    let mut replaced = Vec::new();
    for (generation, inputs) in interrupted.map_err(io_error(dir))? {
        if !mine(generation) {
            replaced.extend(inputs);
            continue;
        }
        for input in inputs {
            remove_sstable(env, &input, &names).await?;
        }
        let finished = transaction::finish_former(env, dir, generation).await;
        finished.map_err(io_error(dir))?;
    }

    let mut found = FoundTable {
        sstables: Vec::new(),
        unknown: Vec::new(),
        generation: 0,
        written: BTreeMap::new(),
    };
    let entries = env.read_dir(dir).await.map_err(io_error(dir))?;
    for entry in &entries {
        if let Some((descriptor, "Data.db")) = Descriptor::parse(dir, &entry.name) {
            let seconds = u32::try_from(entry.modified_micros / 1_000_000).unwrap_or(0);
            found.written.insert(descriptor, seconds);
        }
    }
    let files = entries.into_iter().filter(|entry| !entry.is_dir);
    let mut names: Vec<String> = files.map(|entry| entry.name).collect();
    // Nothing new may have a name that a transaction of another shard removes later.
    found.generation = leftovers
        .iter()
        .map(Leftover::last_generation)
        .max()
        .unwrap_or(0);
    names.retain(|name| !leftovers.iter().any(|leftover| leftover.dooms(name)));
    for name in &names {
        let Some((descriptor, component)) = Descriptor::parse(dir, name) else {
            if name.ends_with("-Data.db") {
                found.unknown.push(dir.join(name));
            }
            continue;
        };
        let number = transaction::number(&descriptor.generation);
        found.generation = found.generation.max(number);
        if replaced.contains(&descriptor) {
            continue;
        }
        if component == Component::Data.name() {
            if let Some(sstable) = concerning(env, descriptor, (shard, shards)).await? {
                found.sstables.push(sstable);
            }
        } else if mine(number) && !has_data(&names, &descriptor) {
            remove_if_there(env, &dir.join(name)).await?;
        }
    }
    Ok(found)
}

/// How often to look at a transaction log of another shard that does not fit the files, and how
/// long to wait in between.
const RESOLVE_ATTEMPTS: u32 = 500;
const RESOLVE_PAUSE: Duration = Duration::from_millis(10);

/// Finishes or undoes the transactions that are this shard's; gives those that are not, whose files
/// must not be looked at.
async fn resolve(
    env: &Env,
    dir: &Path,
    (shard, shards): (u16, u16),
) -> Result<Vec<Leftover>, OpenError> {
    let mut attempts = 0;
    let leftovers = loop {
        // A process that was killed may have left here names that only the kernel has yet.
        env.sync_dir(dir).await.map_err(io_error(dir))?;
        let entries = env.read_dir(dir).await.map_err(io_error(dir))?;
        attempts += 1;
        let is_mine = |owner: u16| owner % shards == shard || attempts == RESOLVE_ATTEMPTS;
        match transaction::leftovers(env, dir, &entries, is_mine).await {
            Ok(Some(leftovers)) => break leftovers,
            // Another shard is at it.
            Ok(None) => env.sleep(RESOLVE_PAUSE).await,
            Err(error) => return Err(unclear(error)),
        }
    };
    let mut others = Vec::new();
    for leftover in leftovers {
        if leftover.is_mine(shard, shards) {
            let cleaned = leftover.clean(env, dir).await;
            cleaned.map_err(|error| unclear(error.into()))?;
        } else {
            others.push(leftover);
        }
    }
    Ok(others)
}

fn unclear(error: LeftoverError) -> OpenError {
    match error {
        LeftoverError::Io(error) => OpenError::Io {
            path: error.path,
            error: error.error,
        },
        LeftoverError::Unclear { path, reason } => OpenError::Damaged {
            path,
            reason: format!(
                "{reason}. A compaction was interrupted, and which files it meant to remove is not \
                 certain: if they were restored from a backup, remove this log"
            ),
        },
    }
}

async fn list(env: &Env, dir: &Path) -> Result<Vec<String>, OpenError> {
    let entries = env.read_dir(dir).await.map_err(io_error(dir))?;
    let files = entries.into_iter().filter(|entry| !entry.is_dir);
    Ok(files.map(|entry| entry.name).collect())
}

fn has_data(names: &[String], descriptor: &Descriptor) -> bool {
    let data = format!("{}-{}", descriptor.prefix(), Component::Data.name());
    names.contains(&data)
}

/// The sstable with its origin, unless it is another shard's own.
async fn concerning(
    env: &Env,
    descriptor: Descriptor,
    (shard, shards): (u16, u16),
) -> Result<Option<(Descriptor, Option<ShardOrigin>)>, OpenError> {
    let path = descriptor.path(Component::Helenus);
    let origin = match read(env, &path).await {
        Ok(bytes) => Seal::decode(&bytes).map(|seal| seal.origin),
        Err(OpenError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            // Whoever opens it meets this too, and one sstable keeps no node from starting.
            tracing::warn!("nobody knows which shard wrote this: {error}");
            None
        }
    };
    let others = origin.is_some_and(|o| o.shards == shards && o.shard != shard);
    // Another shard may be removing it: its data goes first.
    let data = descriptor.path(Component::Data);
    let there = env.exists(&data).await.map_err(io_error(&data))?;
    Ok((there && !others).then_some((descriptor, origin)))
}

/// Removes what of an sstable there is.
pub(super) async fn remove_sstable(
    env: &Env,
    descriptor: &Descriptor,
    names: &[String],
) -> Result<(), OpenError> {
    if has_data(names, descriptor) {
        sstable_folder::remove(env, descriptor)
            .await
            .map_err(|error| OpenError::Io {
                path: error.path,
                error: error.source,
            })?;
    }
    Ok(())
}

/// Has the sstable to go by a truncation that its writer noted?
pub(super) fn is_truncated(
    truncations: &[Truncations],
    table: model::TableId,
    (descriptor, origin): &(Descriptor, Option<ShardOrigin>),
) -> bool {
    let (Some(origin), Generation::Number(generation)) = (origin, &descriptor.generation) else {
        return false;
    };
    let writer = (origin.shard, origin.shards);
    let mut all = truncations.iter();
    all.any(|noted| noted.covers_sstable(table, writer, *generation))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Sharder;

    use super::*;
    use crate::IndexSSTables;
    use crate::SharedFiles;
    use crate::commitlog::CommitLogConfig;
    use crate::compaction::transaction::{Operation, Transaction};
    use crate::sstable::{Format, PartitionLimits};
    use crate::testing::{TempDir, run};

    fn config(dir: &Path, shards: u16) -> StoreConfig {
        StoreConfig {
            sstables: dir.join("data"),
            commitlog_dir: dir.join("commitlog"),
            sstable_format: Format::Big,
            sharder: Sharder::new(shards),
            memory: 1 << 20,
            commitlog: CommitLogConfig::default(),
            incremental_backups: false,
            most_tombstones: u64::MAX,
            index_sstables: IndexSSTables::UNLIMITED,
            partition_limits: PartitionLimits::default(),
            shared: Arc::new(SharedFiles::default()),
        }
    }

    fn put(dir: &Path, generation: u64) {
        for component in [Component::Data, Component::Index, Component::Toc] {
            let path = Descriptor::new(dir, Format::Big, generation).path(component);
            std::fs::write(path, b"content").expect("it can be written");
        }
    }

    fn generations(found: &FoundTable) -> Vec<u64> {
        let number = |(descriptor, _): &(Descriptor, Option<ShardOrigin>)| {
            transaction::number(&descriptor.generation)
        };
        let mut numbers: Vec<u64> = found.sstables.iter().map(number).collect();
        numbers.sort();
        numbers
    }

    /// A transaction that a process of one shard left behind: 5 and 6 instead of 1 and 2.
    async fn leave(env: &Env, dir: &Path, committed: bool) {
        let begun = Transaction::begin(env, dir, Operation::Compaction).await;
        let mut transaction = begun.expect("it begins");
        for generation in [5, 6] {
            let added = transaction
                .add(&Descriptor::new(dir, Format::Big, generation))
                .await;
            added.expect("it is written");
        }
        for generation in [1, 2, 3, 5, 6] {
            put(dir, generation);
        }
        if committed {
            let old = [1, 2].map(|generation| Descriptor::new(dir, Format::Big, generation));
            transaction.commit(&old).await.expect("it is written");
        }
    }

    #[test]
    fn transactions_are_finished_or_undone() {
        for (committed, expected) in [(false, vec![1, 2, 3]), (true, vec![3, 5, 6])] {
            let folder = TempDir::new();
            let dir = folder.0.clone();
            run(move |env| async move {
                leave(&env, &dir, committed).await;
                let found = open_table(&env, &config(&dir, 1), &dir).await;
                assert_eq!(generations(&found.expect("it opens")), expected);
                let left = list(&env, &dir).await.expect("it is listed");
                assert_eq!(left.len(), 9, "three sstables and no log: {left:?}");
            });
        }
    }

    #[test]
    fn what_another_shard_has_to_remove_is_not_looked_at() {
        let folder = TempDir::new();
        let dir = folder.0.clone();
        run(move |env| async move {
            leave(&env, &dir, false).await;
            // As if shard 1 had written it.
            let names = list(&env, &dir).await.expect("it is listed");
            let log = names.iter().find(|name| name.ends_with(".log"));
            let log = log.expect("it is there");
            let of_shard_1 = log.replace("-8000-", "-8001-");
            std::fs::rename(dir.join(log), dir.join(&of_shard_1)).expect("renamed");
            let found = open_table(&env, &config(&dir, 2), &dir).await;
            let found = found.expect("it opens");
            assert_eq!(generations(&found), [1, 2, 3]);
            assert_eq!(found.generation, 6, "nothing new may be called so");
            assert!(dir.join(&of_shard_1).exists() && dir.join("nb-5-big-Data.db").exists());
        });
    }

    #[test]
    fn a_log_that_does_not_fit_the_files_stops_the_start() {
        let folder = TempDir::new();
        let dir = folder.0.clone();
        run(move |env| async move {
            leave(&env, &dir, true).await;
            // Another second.
            env.sleep(Duration::from_millis(1020)).await;
            put(&dir, 1);
            let error = open_table(&env, &config(&dir, 1), &dir).await.err();
            let text = error.expect("it does not open").to_string();
            assert!(
                text.contains("_txn_compaction_") && text.contains("backup"),
                "{text}"
            );
            assert!(dir.join("nb-2-big-Data.db").exists(), "nothing was removed");
        });
    }
}
