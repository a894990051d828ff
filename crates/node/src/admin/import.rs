//! Importing sstables: see `storage`'s `store::import` for the steps.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use model::TableId;
use storage::sstable::{Descriptor, Generation};
use storage::{ImportError, ImportOptions};

use super::{Admin, AdminError};
use crate::shard::Shard;

impl Admin {
    /// Imports the sstables of a folder into a table, all or none. How many.
    pub fn import(
        &self,
        (keyspace, table): (&str, &str),
        dir: PathBuf,
        options: ImportOptions,
    ) -> Result<usize, AdminError> {
        let table = self.one_table(keyspace, table)?;
        let looked = dir.clone();
        let there = self.lead(async move |shard: Rc<Shard>| shard.env.exists(&looked).await)?;
        match there {
            Ok(true) => self.import_folder(table, Some(dir), options),
            Ok(false) => {
                let reason = format!("Directory {} does not exist", dir.display());
                Err(AdminError::Refused(reason))
            }
            Err(error) => Err(AdminError::Failed(format!("{}: {error}", dir.display()))),
        }
    }

    /// Takes the sstables that somebody put into a table's own folder. How many.
    pub fn refresh(&self, keyspace: &str, table: &str) -> Result<usize, AdminError> {
        let table = self.one_table(keyspace, table)?;
        let options = ImportOptions {
            verify: true,
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
        let above = known.iter().map(|(generation, _)| *generation).max();
        let known: BTreeSet<Generation> = known.into_iter().flat_map(|(_, known)| known).collect();
        let new: Vec<Descriptor> = found
            .into_iter()
            .filter(|found| !own_folder || !known.contains(&found.generation))
            .collect();
        if new.is_empty() {
            return Ok(0);
        }
        let sources: Arc<[Descriptor]> = new.into();
        let leading = sources.clone();
        let place = async move |shard: Rc<Shard>| {
            place_all(&shard, table, &leading, above.unwrap_or(0), options).await
        };
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
