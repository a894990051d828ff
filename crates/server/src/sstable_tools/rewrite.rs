//! What tools share that write sstables anew beside the old ones.
//!
//! The original goes only when everything that replaces it is complete on the drive; what a crash
//! leaves of unfinished sstables is nothing that a node would open. In between, both may be there:
//! rows that are there twice are read as one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use io::Env;
use model::Table;
use storage::sstable::{
    Component, CompressionParameters, Descriptor, Generation, SSTable, ShardOrigin, Unkept, Writer,
    WriterOptions, folder, output_format,
};

use super::{ToolError, files};
use crate::data_folder::{DataFolder, LOCK_FILE};

/// How far above a file the folder of its node may lie.
const LEVELS: usize = 6;

/// An sstable that is going to be replaced.
pub(super) struct Original {
    pub(super) descriptor: Descriptor,
    /// Its table, with its own options.
    pub(super) table: Arc<Table>,
    pub(super) sstable: SSTable,
    unkept: Unkept,
    /// Keeps a node from starting on its folder.
    _folders: Vec<DataFolder>,
}

impl Original {
    /// Opens it; refuses if a node runs on its folder.
    pub(super) async fn open(env: &Env, file: &Path) -> Result<Original, ToolError> {
        let (descriptor, folders) = Original::lock(file)?;
        let (_, sstable) = files::open(env, &descriptor).await?;
        Original::of(descriptor, folders, sstable)
    }

    /// Locks the folder of the sstable that a file is a part of.
    pub(super) fn lock(file: &Path) -> Result<(Descriptor, Vec<DataFolder>), ToolError> {
        let descriptor = files::descriptor(file)?;
        let folders = lock(&descriptor.dir)?;
        Ok((descriptor, folders))
    }

    /// The same of one that is open.
    pub(super) fn of(
        descriptor: Descriptor,
        folders: Vec<DataFolder>,
        sstable: SSTable,
    ) -> Result<Original, ToolError> {
        refuse_unclear(&descriptor, &sstable)?;
        let table = sstable.table();
        let mut table = Table::clone(&table);
        table.options.bloom_filter_fp_chance = sstable.statistics().bloom_filter_fp_chance;
        table.options.compression = compression_options(sstable.compression());
        let table = Arc::new(table);
        sstable.set_table(&table);
        Ok(Original {
            descriptor,
            table,
            unkept: sstable.note_unkept(),
            sstable,
            _folders: folders,
        })
    }

    /// An error if something that was read of it is not in what was written.
    pub(super) fn is_kept(&self) -> Result<(), ToolError> {
        match self.unkept.found() {
            Some(what) => Err(only_a_node(&self.descriptor, what)),
            None => Ok(()),
        }
    }

    /// The path of its data.
    pub(super) fn data(&self) -> PathBuf {
        self.descriptor.path(Component::Data)
    }

    /// Links all of its files into `snapshots/<name>` of its folder.
    pub(super) fn snapshot(&self, name: &str) -> Result<(), ToolError> {
        let dir = self.descriptor.dir.join("snapshots").join(name);
        let failed = |source| ToolError::Io {
            what: format!("snapshot {}", dir.display()),
            source,
        };
        std::fs::create_dir_all(&dir).map_err(failed)?;
        for file in self.components()? {
            let Some(name) = file.file_name() else {
                continue;
            };
            std::fs::hard_link(&file, dir.join(name)).map_err(failed)?;
        }
        std::fs::File::open(&dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)
    }

    fn components(&self) -> Result<Vec<PathBuf>, ToolError> {
        let dir = &self.descriptor.dir;
        let failed = |source| ToolError::Io {
            what: dir.display().to_string(),
            source,
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let parsed = name.to_str().and_then(|name| Descriptor::parse(dir, name));
            if parsed.is_some_and(|(descriptor, _)| descriptor == self.descriptor) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// Removes it.
    pub(super) async fn remove(&self, env: &Env) -> Result<(), ToolError> {
        let removed = folder::remove(env, &self.descriptor).await;
        removed.map_err(|error| ToolError::Io {
            what: error.path.display().to_string(),
            source: error.source,
        })
    }

    /// Begins a new sstable in its folder, of the same format if that has room for its
    /// times, for about so many partitions.
    pub(super) async fn writer(&self, env: &Env, partitions: u64) -> Result<Writer, ToolError> {
        let format = self.descriptor.version.format();
        let format = output_format(format, [&self.sstable], env.wall_seconds());
        let descriptor = Descriptor::new(&self.descriptor.dir, format, self.next_generation()?);
        let stats = self.sstable.stats();
        let origin = ShardOrigin {
            shard: 0,
            shards: 1,
        };
        let mut options = WriterOptions::new(partitions, self.sstable.encoding_stats(), origin);
        options.level = stats.level;
        options.repaired_at = stats.repaired_at;
        options.host = stats.originating_host;
        Ok(Writer::create(env, descriptor, &self.table, options).await?)
    }

    /// A number that no sstable of the folder has.
    fn next_generation(&self) -> Result<u64, ToolError> {
        let dir = &self.descriptor.dir;
        let entries = std::fs::read_dir(dir).map_err(|source| ToolError::Io {
            what: dir.display().to_string(),
            source,
        })?;
        let numbers = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            match Descriptor::parse(dir, name.to_str()?)?.0.generation {
                Generation::Number(number) => Some(number),
                Generation::Time(_) => None,
            }
        });
        Ok(numbers.max().unwrap_or(0) + 1)
    }
}

/// Refuses what cannot be written as it is without the table's schema.
fn refuse_unclear(descriptor: &Descriptor, sstable: &SSTable) -> Result<(), ToolError> {
    let header = &sstable.statistics().header;
    let unclear = files::unclear_columns(descriptor, header).join(", ");
    if !unclear.is_empty() {
        let what = format!("user types, in {unclear}, of which it does not say if they are frozen");
        return Err(only_a_node(descriptor, &what));
    }
    let mut columns = header.statics.iter().chain(&header.regulars);
    if columns.any(|column| column.name.contains(char::REPLACEMENT_CHARACTER)) {
        return Err(ToolError::Argument(format!(
            "{descriptor} has columns whose names are not text, which would be lost; it is left as it is"
        )));
    }
    Ok(())
}

fn only_a_node(descriptor: &Descriptor, what: &str) -> ToolError {
    ToolError::Argument(format!(
        "{descriptor} has {what}; that takes the schema, so it is left as it is: use `helenus nodetool \
         scrub` or compaction on a running node"
    ))
}

/// Locks the folder of the node that the files belong to, if there is one.
fn lock(dir: &Path) -> Result<Vec<DataFolder>, ToolError> {
    let of_a_node = |above: &&Path| above.join(LOCK_FILE).exists();
    dir.ancestors()
        .take(LEVELS)
        .filter(of_a_node)
        .map(|above| {
            DataFolder::lock(above).map_err(|error| ToolError::Argument(error.to_string()))
        })
        .collect()
}

/// The table options that ask for the compression that an sstable has.
fn compression_options(
    parameters: Option<&CompressionParameters>,
) -> std::collections::BTreeMap<String, String> {
    let Some(parameters) = parameters else {
        return [("enabled".to_owned(), "false".to_owned())].into();
    };
    let mut options = parameters.options.clone();
    let length = (parameters.chunk_length / 1024).to_string();
    options.insert("chunk_length_in_kb".to_owned(), length);
    options.insert("class".to_owned(), parameters.algorithm.class().to_owned());
    options
}
