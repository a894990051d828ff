//! Importing: sstables that somebody else wrote become part of a table while it is in use
//! (Cassandra's `SSTableImporter`).
//!
//! One shard leads. It finds the sstables ([`Store::find_sstables`]), looks whether they can be the
//! table's ([`Store::check_import`]), and gives each a name of its own in the table's folder
//! ([`Store::place`]): by hard links where that is possible, else by copies, the data last, so that
//! after a crash an sstable is there whole or not at all. Then all shards open what concerns them
//! ([`Store::open_arrivals`]), and when all have, make it part of the table
//! ([`Store::show_arrivals`]). If anything fails before that, what was placed is removed again and
//! the sources are as they were; afterwards they are removed, unless they are to stay.
//!
//! **Generations.** What was placed gets a generation above all that any shard has given and that any
//! file in the folder bears, and all shards give only higher ones from then on: a truncation covers
//! what is below its generation, and the sources may lie in the folder of the table itself, under the
//! names that they had in a former life of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use io::{Env, OpenOptions};
use model::{Table, TableId};

use super::table::TableStore;
use super::{Inner, Store, folder};
use crate::sstable::{
    Component, Descriptor, Generation, SSTable, SSTableError, Seal, ShardOrigin,
    folder::{self as sstable_folder, FolderError},
    mismatch, mutate_statistics,
};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// What is done with sstables that are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Read all of them before, and check all checksums.
    pub verify: bool,
    /// Let them keep their level of leveled compaction.
    pub keep_level: bool,
    /// Let them keep what they say of repairs.
    pub keep_repaired: bool,
    /// Leave the sources where they are.
    pub copy: bool,
}

/// sstables could not be imported: none of them was.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No such table here.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// What comes in cannot be indexed.
    #[error("indexing it: {0}")]
    Index(String),
    /// There is no such folder, or it cannot be read.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the drive said.
        error: std::io::Error,
    },
    /// It is damaged, or of a kind that cannot be read.
    #[error(transparent)]
    SSTable(#[from] SSTableError),
    /// It is of a format that is not known.
    #[error(
        "{path} is of a format that this Helenus does not read: rewrite it with Cassandra's \
         sstableupgrade",
        path = .0.display()
    )]
    UnknownFormat(PathBuf),
    /// The table was truncated when it had its place already.
    #[error("{path}: the table was truncated meanwhile; import it again", path = .0.display())]
    Truncated(PathBuf),
    /// It is another table's.
    #[error("{path} is not of {keyspace}.{table}: {what}", path = .path.display())]
    OtherTable {
        /// The data file.
        path: PathBuf,
        /// The keyspace of the table.
        keyspace: String,
        /// The table.
        table: String,
        /// What does not fit.
        what: String,
    },
}

impl ImportError {
    /// Does it say that a file was there before?
    fn is_there_already(&self) -> bool {
        let exists = std::io::ErrorKind::AlreadyExists;
        matches!(self, ImportError::Io { error, .. } if error.kind() == exists)
    }
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> ImportError {
    let path = path.to_owned();
    move |error| ImportError::Io { path, error }
}

fn in_folder(error: FolderError) -> ImportError {
    at(&error.path)(error.source)
}

impl Store {
    fn importing(&self, table: TableId) -> Result<Rc<TableStore>, ImportError> {
        let known = self.inner.table(table);
        known.ok_or(ImportError::UnknownTable(table))
    }

    /// Is this folder, which is there, the one in which the table itself lies?
    pub async fn is_own_folder(&self, table: TableId, dir: &Path) -> Result<bool, ImportError> {
        let (env, table) = (&self.inner.env, self.importing(table)?);
        if !env.exists(&table.dir).await.map_err(at(&table.dir))? {
            return Ok(false);
        }
        let own = env.canonical(&table.dir).await.map_err(at(&table.dir))?;
        let named = env.canonical(dir).await.map_err(at(dir))?;
        Ok(own == named)
    }

    /// The sstables in a folder; in that of the table itself if none is named.
    pub async fn find_sstables(
        &self,
        table: TableId,
        dir: Option<&Path>,
    ) -> Result<Vec<Descriptor>, ImportError> {
        let table = self.importing(table)?;
        let dir = dir.unwrap_or(&table.dir);
        let mut found = Vec::new();
        for entry in self.inner.env.read_dir(dir).await.map_err(at(dir))? {
            if entry.is_dir {
                continue;
            }
            match Descriptor::parse(dir, &entry.name) {
                Some((descriptor, component)) if component == Component::Data.name() => {
                    found.push(descriptor);
                }
                None if entry.name.ends_with("-Data.db") => {
                    return Err(ImportError::UnknownFormat(dir.join(&entry.name)));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The highest generation of all files in a table's folder, whoever put them there. Asked of all
    /// shards before anything is placed there: from now on until that is part of the table, a start
    /// builds the table's indexes anew.
    pub async fn highest_generation(&self, table: TableId) -> Result<u64, ImportError> {
        let table = self.importing(table)?;
        let doubted = self.inner.doubt_indexes(&table).await;
        doubted.map_err(at(&table.dir))?;
        let numbers = sstable_folder::numbers(&self.inner.env, &table.dir).await;
        Ok(numbers.map_err(in_folder)?.last().copied().unwrap_or(0))
    }

    /// From now on this shard gives a table's sstables only generations above this one.
    pub fn raise_generation(&self, table: TableId, above: u64) -> Result<(), ImportError> {
        self.importing(table)?.raise_generation(above);
        Ok(())
    }

    /// The highest generation that this shard has given for a table, and the sstables in its folder
    /// that it knows of.
    pub fn known_sstables(&self, table: TableId) -> (u64, BTreeSet<Descriptor>) {
        let known = self.inner.table(table);
        known.map_or_else(Default::default, |table| {
            let shared = &self.inner.config.shared;
            let known = table.known_descriptors(|path| shared.is_gone(path));
            (table.last_generation(), known)
        })
    }

    /// Can an sstable become part of a table? With `verify` all of it is read.
    pub async fn check_import(
        &self,
        table: TableId,
        descriptor: &Descriptor,
        verify: bool,
    ) -> Result<(), ImportError> {
        let (inner, table) = (&self.inner, self.importing(table)?.table());
        let checked = inner.check_import(&table, descriptor, verify).await;
        checked.inspect_err(|error| inner.import_failed(error))
    }

    /// Gives an sstable a name in the table's folder with a generation above this one. It is there
    /// when this returns, on the drive too, but no part of the table yet.
    pub async fn place(
        &self,
        table: TableId,
        source: &Descriptor,
        above: u64,
        options: ImportOptions,
    ) -> Result<Descriptor, ImportError> {
        let (env, table) = (&self.inner.env, self.importing(table)?);
        table.raise_generation(above);
        let placed = table.new_descriptor(env, source.version).await;
        let mut made = Vec::new();
        let done = place_files(env, source, &placed, options, &mut made).await;
        if let Err(error) = &done {
            self.inner.import_failed(error);
            // Nothing else: what has such a name too is not ours.
            for path in made.iter().rev() {
                remove_made(env, path).await;
            }
            table.files_gone(&placed);
        }
        done.map(|()| placed)
    }

    /// Removes what was placed and is not wanted after all.
    pub async fn unplace(&self, placed: &Descriptor) {
        sstable_folder::discard(&self.inner.env, placed).await;
    }

    /// Removes an sstable that was placed under another name.
    pub async fn remove_source(&self, source: &Descriptor) -> Result<(), ImportError> {
        let removed = sstable_folder::remove(&self.inner.env, source).await;
        removed.map_err(in_folder)
    }

    /// Opens what of these sstables concerns this shard. From then on the table is not truncated until
    /// they are shown or forgotten.
    pub async fn open_arrivals(
        &self,
        table: TableId,
        placed: &[Descriptor],
    ) -> Result<(), ImportError> {
        let (inner, id, table) = (&self.inner, table, self.importing(table)?);
        let numbers = placed.iter().filter_map(|d| match d.generation {
            Generation::Number(number) => Some(number),
            Generation::Time(_) => None,
        });
        table.raise_generation(numbers.max().unwrap_or(0));
        // What a truncation has noted as gone a start removes.
        let entered = Entered::begin(&table).await;
        let entered = entered.ok_or(ImportError::UnknownTable(id))?;
        let mut arrivals = Vec::new();
        for descriptor in placed {
            let origin = inner.origin_of(descriptor).await?;
            if inner.is_of_another(origin) {
                continue;
            }
            let sstable = (descriptor.clone(), origin);
            if folder::is_truncated(&inner.truncations.borrow(), id, &sstable) {
                return Err(ImportError::Truncated(descriptor.path(Component::Data)));
            }
            let schema = table.table();
            let opened = SSTable::open(&inner.env, descriptor, &schema, &inner.cache).await;
            arrivals.push(opened.inspect_err(|error| inner.tell_of(error))?);
        }
        let indexed = inner.index_arrivals(&table, &arrivals).await;
        indexed.map_err(ImportError::Index)?;
        table.arrivals.replace(Some((arrivals, entered)));
        Ok(())
    }

    /// Makes what was opened part of the table.
    pub async fn show_arrivals(&self, table: TableId) -> Result<(), ImportError> {
        let (inner, table) = (&self.inner, self.importing(table)?);
        let Some((arrivals, entered)) = table.arrivals.take() else {
            return Ok(());
        };
        table.replace_sstables(&[], arrivals.clone(), inner.env.wall_seconds());
        inner.memory.tell_caches();
        inner.trust_indexes(&table).await;
        drop(entered);
        inner.back_up(&table, &arrivals).await;
        inner.compaction_work.notify_one();
        Ok(())
    }

    /// Closes what was opened.
    pub fn forget_arrivals(&self, table: TableId) {
        if let Some(table) = self.inner.table(table) {
            table.arrivals.take();
        }
    }
}

impl Inner {
    async fn check_import(
        &self,
        table: &Arc<Table>,
        descriptor: &Descriptor,
        verify: bool,
    ) -> Result<(), ImportError> {
        let sstable = SSTable::open(&self.env, descriptor, table, &self.cache).await?;
        if let Some(what) = mismatch(&sstable.statistics().header, table) {
            return Err(ImportError::OtherTable {
                path: descriptor.path(Component::Data),
                keyspace: table.keyspace.to_string(),
                table: table.name.to_string(),
                what,
            });
        }
        if verify {
            // A summary or filter that cannot be read is made anew, as Cassandra does; a filter that can
            // but does not know all keys would hide them.
            sstable.verify_with_filter().await?;
        }
        Ok(())
    }

    /// Which shard of how many wrote it for itself, if one did?
    async fn origin_of(&self, descriptor: &Descriptor) -> Result<Option<ShardOrigin>, ImportError> {
        let path = descriptor.path(Component::Helenus);
        if !self.env.exists(&path).await.map_err(at(&path))? {
            return Ok(None);
        }
        let seal = Seal::decode(&read(&self.env, &path).await?);
        Ok(seal.map(|seal| seal.origin))
    }

    /// Is what was written by `origin` another shard's of as many?
    pub(super) fn is_of_another(&self, origin: Option<ShardOrigin>) -> bool {
        let own = self.origin();
        origin.is_some_and(|origin| origin.shards == own.shards && origin.shard != own.shard)
    }
}

/// Keeps a table, which may hold this itself, from being truncated or dropped.
pub(super) struct Entered(Weak<TableStore>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(table) = self.0.upgrade() {
            table.leave();
        }
    }
}

impl Entered {
    /// Waits until nobody truncates the table; from then on nobody does. `None`: it was dropped.
    async fn begin(table: &Rc<TableStore>) -> Option<Entered> {
        table.entrance().await;
        if table.dropped.get() {
            return None;
        }
        table.enter();
        Some(Entered(Rc::downgrade(table)))
    }
}

/// Links or copies all components, the data last. None of the files may be there; `made` are those
/// that were not.
pub(super) async fn place_files(
    env: &Env,
    source: &Descriptor,
    placed: &Descriptor,
    options: ImportOptions,
    made: &mut Vec<PathBuf>,
) -> Result<(), ImportError> {
    let mut components = Vec::new();
    for entry in env.read_dir(&source.dir).await.map_err(at(&source.dir))? {
        let of_it = Descriptor::parse(&source.dir, &entry.name).filter(|(d, _)| d == source);
        if let Some((_, component)) = of_it {
            components.push(component.to_owned());
        }
    }
    components.sort_by_key(|component| *component == Component::Data.name());
    for component in &components {
        let (from, to) = (source.path_named(component), placed.path_named(component));
        let mutated = match component == Component::Statistics.name() {
            true => mutated(env, source, options).await?,
            false => None,
        };
        if component == Component::Data.name() {
            env.sync_dir(&placed.dir).await.map_err(at(&placed.dir))?;
        }
        let done = match mutated {
            Some(bytes) => env.write_new_file(&to, bytes).await.map_err(at(&to)),
            None => link_or_copy(env, &from, &to).await,
        };
        if !matches!(&done, Err(error) if error.is_there_already()) {
            made.push(to);
        }
        done?;
    }
    env.sync_dir(&placed.dir).await.map_err(at(&placed.dir))
}

async fn link_or_copy(env: &Env, from: &Path, to: &Path) -> Result<(), ImportError> {
    use std::io::ErrorKind;
    match env.hard_link(from, to).await {
        Ok(()) => Ok(()),
        Err(error) => match error.kind() {
            // Another file system, or one without hard links or with too many of this file, or
            // another user's file.
            ErrorKind::CrossesDevices
            | ErrorKind::Unsupported
            | ErrorKind::TooManyLinks
            | ErrorKind::PermissionDenied => copy(env, from, to).await,
            ErrorKind::NotFound => Err(at(from)(error)),
            _ => Err(at(to)(error)),
        },
    }
}

async fn remove_made(env: &Env, path: &Path) {
    if let Err(error) = env.remove_file_if_there(path).await {
        let path = path.display();
        tracing::warn!("removing what an import has left: {path}: {error}");
    }
}

/// The statistics as they are to be, if they are to be other than they are.
async fn mutated(
    env: &Env,
    source: &Descriptor,
    options: ImportOptions,
) -> Result<Option<Vec<u8>>, ImportError> {
    let path = source.path(Component::Statistics);
    let bytes = Bytes::from(read(env, &path).await?);
    let forget = (!options.keep_level, !options.keep_repaired);
    let mutated = mutate_statistics(&bytes, source.version, forget)
        .map_err(|error| SSTableError::corrupt(&path, 0, error.to_string()))?;
    Ok((mutated != bytes).then_some(mutated))
}

async fn read(env: &Env, path: &Path) -> Result<Vec<u8>, ImportError> {
    env.read_file(path).await.map_err(at(path))
}

/// Copies a file. It has a temporary name until it is whole and on the drive: data under its own
/// name makes an sstable.
async fn copy(env: &Env, from: &Path, to: &Path) -> Result<(), ImportError> {
    let mut name = to.as_os_str().to_owned();
    name.push(crate::sstable::TEMPORARY_SUFFIX);
    let temporary = PathBuf::from(name);
    let mut copied = copy_as(env, from, &temporary).await;
    if copied.is_ok() {
        copied = env.rename(&temporary, to).await.map_err(at(to));
    }
    if matches!(&copied, Err(error) if !error.is_there_already()) {
        remove_made(env, &temporary).await;
    }
    copied
}

async fn copy_as(env: &Env, from: &Path, to: &Path) -> Result<(), ImportError> {
    let new = OpenOptions {
        write: true,
        create_new: true,
        ..OpenOptions::default()
    };
    let read = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let source = env.open(from, read).await.map_err(at(from))?;
    let length = source.len().await.map_err(at(from))?;
    let target = env.open(to, new).await.map_err(at(to))?;
    let mut position = 0;
    while position < length {
        let piece = usize::try_from(length - position).map_or(PIECE, |left| left.min(PIECE));
        let bytes = source
            .read_exact_at(position, piece)
            .await
            .map_err(at(from))?;
        let written = target.write_all_at(bytes.into(), position).await.0;
        written.map_err(at(to))?;
        position += piece as u64;
        env.maybe_yield().await;
    }
    target.sync_all().await.map_err(at(to))
}
