//! Importing sstables: see `storage`'s `store::import` for the steps.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use model::TableId;
use storage::sstable::Descriptor;
use storage::{ImportError, ImportOptions};

use super::{Admin, AdminError};
use crate::shard::Shard;

/// A folder with sstables that are to be imported.
enum Folder {
    /// That of the table itself: only what the table does not know yet is new in it, and what it
    /// knows must stay.
    Own,
    /// Any other.
    Other,
}

impl Admin {
    /// Imports the sstables of a folder into a table, all or none. How many.
    pub fn import(
        &self,
        table: (&str, &str),
        dir: PathBuf,
        options: ImportOptions,
    ) -> Result<usize, AdminError> {
        let (keyspace, name) = table;
        let id = self.one_table(keyspace, name)?;
        let imported = match self.look_at(id, &dir, options)? {
            Folder::Other => self.import_folder(id, Some(dir.clone()), options),
            // What were left there would be found again, by the next start too.
            Folder::Own => self.import_folder(
                id,
                None,
                ImportOptions {
                    copy: false,
                    ..options
                },
            ),
        };
        imported.inspect_err(|error| {
            let dir = dir.display();
            tracing::warn!("{dir} was not imported into {keyspace}.{name}: {error}");
        })
    }

    /// Could a folder be imported from: is it there, and may what is in it be moved?
    pub fn check_import(
        &self,
        (keyspace, table): (&str, &str),
        dir: &Path,
        options: ImportOptions,
    ) -> Result<(), AdminError> {
        let table = self.one_table(keyspace, table)?;
        self.look_at(table, dir, options).map(drop)
    }

    /// Refuses a folder before anything is placed: a table must not show rows of an import that is
    /// then said to have failed.
    fn look_at(
        &self,
        table: TableId,
        dir: &Path,
        options: ImportOptions,
    ) -> Result<Folder, AdminError> {
        let looked = dir.to_owned();
        let found = self.lead(async move |shard: Rc<Shard>| {
            if !shard.env.exists(&looked).await? {
                return Ok(None);
            }
            let may_move = options.copy || shard.env.may_write_dir(&looked).await?;
            Ok::<_, std::io::Error>(Some(may_move))
        })?;
        let refused = |reason: String| Err(AdminError::Refused(reason));
        let path = dir.display();
        match found {
            Ok(None) => return refused(format!("Directory {path} does not exist")),
            Ok(Some(false)) => {
                return refused(format!("Insufficient permissions on directory {path}"));
            }
            Ok(Some(true)) => {}
            Err(error) => return Err(AdminError::Failed(format!("{path}: {error}"))),
        }
        let dir = dir.to_owned();
        let is_own =
            self.store(async move |shard: Rc<Shard>| shard.store.is_own_folder(table, &dir).await)?;
        Ok(if is_own { Folder::Own } else { Folder::Other })
    }

    /// Takes the sstables that somebody put into a table's own folder. How many.
    pub fn refresh(&self, keyspace: &str, table: &str) -> Result<usize, AdminError> {
        let table = self.one_table(keyspace, table)?;
        // As `ColumnFamilyStore.loadNewSSTables`: without their levels, with what they say of
        // repairs.
        let options = ImportOptions {
            verify: true,
            keep_repaired: true,
            ..ImportOptions::default()
        };
        self.import_folder(table, None, options)
    }

    fn one_table(&self, keyspace: &str, table: &str) -> Result<TableId, AdminError> {
        let tables = self.table_ids(Some(keyspace), &[table.to_owned()])?;
        Ok(tables[0])
    }

    /// Imports what is in a folder, or in that of the table itself.
    fn import_folder(
        &self,
        table: TableId,
        dir: Option<PathBuf>,
        options: ImportOptions,
    ) -> Result<usize, AdminError> {
        // One after the other: what one has placed, another must not find.
        let _only_one = self
            .importing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let own_folder = dir.is_none();
        let found = self.store(async move |shard: Rc<Shard>| {
            shard.store.find_sstables(table, dir.as_deref()).await
        })?;
        // Later than the look into the folder: what was being removed then has gone since.
        let known = self.everywhere(move |shard: Rc<Shard>| {
            let known = shard.store.known_sstables(table);
            async move { known }
        })?;
        let given = known.iter().map(|(generation, _)| *generation).max();
        let known: BTreeSet<Descriptor> = known.into_iter().flat_map(|(_, known)| known).collect();
        let new: Vec<Descriptor> = found
            .into_iter()
            .filter(|found| !own_folder || !known.contains(found))
            .collect();
        if new.is_empty() {
            return Ok(0);
        }
        // Above the sources too, which may lie in the folder with generations that nobody has given
        // yet: a table that was dropped and made again begins to count anew.
        let there = async move |shard: Rc<Shard>| shard.store.highest_generation(table).await;
        let above = self.store(there)?.max(given.unwrap_or(0));
        self.try_everywhere(move |shard: Rc<Shard>| async move {
            shard.store.raise_generation(table, above)
        })?;
        let sources: Arc<[Descriptor]> = new.into();
        let leading = sources.clone();
        let place =
            async move |shard: Rc<Shard>| place_all(&shard, table, &leading, above, options).await;
        let placed: Arc<[Descriptor]> = self.store(place)?.into();
        if let Err(error) = self.open_everywhere(table, &placed) {
            self.give_up(table, placed)?;
            return Err(error);
        }
        self.try_everywhere(move |shard: Rc<Shard>| async move {
            shard.store.show_arrivals(table).await
        })?;
        let count = sources.len();
        if !options.copy {
            self.store(async move |shard: Rc<Shard>| {
                for source in &*sources {
                    shard.store.remove_source(source).await?;
                }
                Ok(())
            })?;
        }
        Ok(count)
    }

    /// As [`Admin::lead`], of what the store does.
    fn store<T, F>(
        &self,
        operation: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, AdminError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ImportError>> + 'static,
    {
        self.lead(operation)?
            .map_err(|error| AdminError::Failed(error.to_string()))
    }

    fn open_everywhere(
        &self,
        table: TableId,
        placed: &Arc<[Descriptor]>,
    ) -> Result<(), AdminError> {
        let placed = placed.clone();
        self.try_everywhere(move |shard: Rc<Shard>| {
            let placed = placed.clone();
            async move { shard.store.open_arrivals(table, &placed).await }
        })?;
        Ok(())
    }

    /// Removes what was placed; the sources are as they were.
    fn give_up(&self, table: TableId, placed: Arc<[Descriptor]>) -> Result<(), AdminError> {
        self.everywhere(move |shard: Rc<Shard>| async move {
            shard.store.forget_arrivals(table);
        })?;
        self.lead(async move |shard: Rc<Shard>| {
            for placed in &*placed {
                shard.store.unplace(placed).await;
            }
        })
    }
}

/// Looks at all sstables, then gives each a place; none if one of them is no good.
async fn place_all(
    shard: &Shard,
    table: TableId,
    sources: &[Descriptor],
    above: u64,
    options: ImportOptions,
) -> Result<Vec<Descriptor>, ImportError> {
    let store = &shard.store;
    for source in sources {
        store.check_import(table, source, options.verify).await?;
    }
    let mut placed = Vec::new();
    for source in sources {
        match store.place(table, source, above, options).await {
            Ok(descriptor) => placed.push(descriptor),
            Err(error) => {
                for descriptor in &placed {
                    store.unplace(descriptor).await;
                }
                return Err(error);
            }
        }
    }
    Ok(placed)
}
