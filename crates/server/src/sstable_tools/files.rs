//! Finding and opening the sstables that a command line names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use io::Env;
use model::Table;
use storage::dump::{HeaderError, table_of_header, unclear_user_types};
use storage::sstable::salvage::Salvage;
use storage::sstable::{
    ChunkCache, Descriptor, SSTable, SSTableError, SerializationHeader, Version, WriteError,
    inspect,
};

/// How much of a file is kept in memory, in bytes.
const CACHE: usize = 8 << 20;

/// Why a tool could not do what it was asked for. The text names file, place and remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// There is no such file.
    #[error("{}: there is no such file", .0.display())]
    NoFile(PathBuf),
    /// It is no component of an sstable of a known version.
    #[error(
        "{}: it is no file of an sstable that can be read; one is called like nb-1-big-Data.db",
        .0.display()
    )]
    NoSSTable(PathBuf),
    /// The sstable cannot be read.
    #[error("{source}{}", remedy(source))]
    SSTable {
        /// File, place and what is wrong.
        #[from]
        source: SSTableError,
    },
    /// A new sstable cannot be written; the old one is as it was.
    #[error("{0}; the sstable is as it was")]
    Write(#[from] WriteError),
    /// No table can be made of the sstable's header.
    #[error("{}: its header is damaged: {error}", path.display())]
    Header {
        /// The sstable.
        path: PathBuf,
        /// What is wrong.
        error: HeaderError,
    },
    /// Something on the command line does not fit the sstable.
    #[error("{0}")]
    Argument(String),
    /// Standard output, or a file beside the sstable, cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// The tool itself could not run.
    #[error("{0}")]
    Shard(String),
}

/// What to do about damage.
fn remedy(error: &SSTableError) -> &'static str {
    match error.is_corruption() {
        true => {
            "; restore the sstable from a backup or repair from other nodes, or keep what can be \
             read with `helenus sstable scrub`"
        }
        false => "",
    }
}

/// The sstable that a file is a component of. The file has to be there.
pub(crate) fn descriptor(file: &Path) -> Result<Descriptor, ToolError> {
    if !file.exists() {
        return Err(ToolError::NoFile(file.to_owned()));
    }
    let file = std::path::absolute(file).map_err(|source| ToolError::Io {
        what: file.display().to_string(),
        source,
    })?;
    let dir = file.parent().unwrap_or(Path::new("/"));
    let name = file.file_name().and_then(|name| name.to_str());
    name.and_then(|name| Descriptor::parse(dir, name))
        .map(|(descriptor, _)| descriptor)
        .ok_or_else(|| ToolError::NoSSTable(file.clone()))
}

/// The table that an sstable was written for, as far as the file tells.
pub(crate) async fn table(env: &Env, descriptor: &Descriptor) -> Result<Arc<Table>, ToolError> {
    let statistics = inspect::read_statistics(env, descriptor).await?;
    let unclear = unclear_columns(descriptor, &statistics.header);
    if !unclear.is_empty() {
        eprintln!(
            "helenus sstable: {descriptor}: whether the user types of {} are frozen is not in files \
             of Cassandra 3; they are read as not frozen. If it then seems damaged, import it into \
             its table instead",
            unclear.join(", ")
        );
    }
    match table_of_header(&statistics.header, "keyspace", "table") {
        Ok(table) => Ok(Arc::new(table)),
        Err(error) => Err(ToolError::Header {
            path: descriptor.path(storage::sstable::Component::Statistics),
            error,
        }),
    }
}

/// The columns of user types of which the file does not tell whether they are frozen.
pub(crate) fn unclear_columns<'h>(
    descriptor: &Descriptor,
    header: &'h SerializationHeader,
) -> Vec<&'h str> {
    match descriptor.version < Version::Na {
        true => unclear_user_types(header),
        false => Vec::new(),
    }
}

/// Opens an sstable as what its own header says.
pub(crate) async fn open(
    env: &Env,
    descriptor: &Descriptor,
) -> Result<(Arc<Table>, SSTable), ToolError> {
    let table = table(env, descriptor).await?;
    let cache = ChunkCache::new(CACHE);
    let sstable = SSTable::open(env, descriptor, &table, &cache).await?;
    Ok((table, sstable))
}

/// Opens what there is of an sstable, to go through it.
pub(crate) async fn open_to_salvage(
    env: &Env,
    descriptor: &Descriptor,
    validates: bool,
) -> Result<Salvage, ToolError> {
    let table = table(env, descriptor).await?;
    let cache = ChunkCache::new(CACHE);
    Ok(Salvage::open(env, descriptor, &table, &cache, validates).await?)
}

/// The same, whatever partitioner its partitions are ordered by: only for scans of all of it.
pub(crate) async fn open_in_any_order(
    env: &Env,
    descriptor: &Descriptor,
) -> Result<(Arc<Table>, SSTable), ToolError> {
    let table = table(env, descriptor).await?;
    let cache = ChunkCache::new(CACHE);
    let sstable = SSTable::open_in_any_order(env, descriptor, &table, &cache).await?;
    Ok((table, sstable))
}
