//! Operations on tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use model::{CqlType, DecoratedKey, Table, TableId, key_from_text};
use storage::{FlushError, ReadError, TableDetails, VerifyOptions};

use super::{Admin, AdminError};
use crate::shard::Shard;
use crate::size_estimates;

impl Admin {
    /// Writes the memtables of tables to sstables: of all, of a keyspace, or of some of it.
    pub fn flush(&self, keyspace: Option<&str>, tables: &[String]) -> Result<(), AdminError> {
        let tables: Arc<[TableId]> = self.table_ids(keyspace, tables)?.into();
        self.try_everywhere(move |shard: Rc<Shard>| {
            let tables = tables.clone();
            async move {
                for table in &*tables {
                    match shard.store.flush(Some(*table)).await {
                        // It was dropped meanwhile.
                        Ok(()) | Err(FlushError::UnknownTable(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        })?;
        Ok(())
    }

    /// The partition key of a text: the values of several columns have colons between them; with
    /// `hex` it is the bytes of the key in hexadecimal digits.
    pub fn key_of(&self, table: &Table, text: &str, hex: bool) -> Result<DecoratedKey, AdminError> {
        let types: Vec<&CqlType> = table.partition_key().map(|column| &column.ty).collect();
        let key = match hex {
            true => CqlType::Blob.parse_string(text),
            false => key_from_text(text, &types),
        };
        let key = key.map_err(|error| AdminError::Refused(error.to_string()))?;
        Ok(DecoratedKey::new(key))
    }

    /// The data files of the sstables of a table that have a partition, with their levels.
    pub fn sstables_with(
        &self,
        (keyspace, table): (&str, &str),
        key: &str,
        hex: bool,
    ) -> Result<Vec<(PathBuf, u32)>, AdminError> {
        let tables = self.tables(Some(keyspace), &[table.to_owned()])?;
        let (id, key) = (tables[0].id, self.key_of(&tables[0], key, hex)?);
        let owner = self.lead({
            let token = key.token();
            async move |shard: Rc<Shard>| shard.owner(token)
        })?;
        let answers = self.on(usize::from(owner), async move |shard: Rc<Shard>| {
            shard.store.sstables_with(id, &key).await
        })?;
        let found = answers.recv().map_err(|_| AdminError::Closed)?;
        found.map_err(|error| AdminError::Failed(error.to_string()))
    }

    /// The folder of each table.
    pub fn table_folders(&self) -> Result<Vec<(Arc<Table>, PathBuf)>, AdminError> {
        let tables = self.tables(None, &[])?;
        self.lead(async move |shard: Rc<Shard>| {
            let folder =
                |table: Arc<Table>| Some((table.clone(), shard.store.table_folder(table.id)?));
            tables.into_iter().filter_map(folder).collect()
        })
    }

    /// All shards of these tables in detail. What shards share is told of once.
    pub fn table_details(
        &self,
        tables: &[Arc<Table>],
    ) -> Result<Vec<Vec<TableDetails>>, AdminError> {
        let ids: Arc<[TableId]> = tables.iter().map(|table| table.id).collect();
        let parts = self.everywhere(move |shard: Rc<Shard>| {
            let details = ids.iter().map(|id| shard.store.table_details(*id));
            let details: Vec<_> = details.collect();
            async move { details }
        })?;
        let mut by_table: Vec<Vec<TableDetails>> = tables.iter().map(|_| Vec::new()).collect();
        for part in parts {
            for (all, details) in by_table.iter_mut().zip(part) {
                all.extend(details);
            }
        }
        for all in &mut by_table {
            let mut seen = BTreeSet::new();
            for details in all {
                details
                    .sstables
                    .retain(|sstable| seen.insert(sstable.data.clone()));
            }
        }
        Ok(by_table)
    }

    /// Estimates anew how much each range has of each table, and writes it down, as the node does every few
    /// minutes by itself.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn refresh_size_estimates(&self) -> Result<(), AdminError> {
        let refreshed = async move |shard: Rc<Shard>| {
            // All of it, whatever was written before.
            size_estimates::refresh(&shard, &mut BTreeMap::new()).await
        };
        self.lead(refreshed)?.map_err(AdminError::Failed)
    }

    /// Reads all sstables of tables and checks all checksums: what is wrong, a line for each that is
    /// damaged. `disk_failure_policy` is asked for damage only `by_policy`.
    pub fn verify(
        &self,
        keyspace: Option<&str>,
        tables: &[String],
        check_version: bool,
        options: VerifyOptions,
    ) -> Result<Vec<String>, AdminError> {
        let mut wrong = Vec::new();
        for table in self.tables(keyspace, tables)? {
            let id = table.id;
            let mut seen = BTreeSet::new();
            let mut asked = Vec::new();
            // Each file once, all shards at the same time.
            for shard in 0..self.shards.len() {
                let files = self.on(shard, async move |shard: Rc<Shard>| {
                    let details = shard.store.table_details(id);
                    let sstables = details.into_iter().flat_map(|details| details.sstables);
                    sstables.map(|sstable| sstable.data).collect::<Vec<_>>()
                })?;
                let files = files.recv().map_err(|_| AdminError::Closed)?;
                let own = files.into_iter().filter(|file| seen.insert(file.clone()));
                let own: Vec<PathBuf> = own.collect();
                asked.push(self.on(shard, async move |shard: Rc<Shard>| {
                    verify_all(&shard, id, &own, check_version, options).await
                })?);
            }
            for answers in asked {
                wrong.extend(answers.recv().map_err(|_| AdminError::Closed)?);
            }
        }
        Ok(wrong)
    }
}

/// What is wrong with these sstables of a table.
async fn verify_all(
    shard: &Shard,
    table: TableId,
    files: &[PathBuf],
    check_version: bool,
    options: VerifyOptions,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        if check_version && !shard.store.is_of_written_version(file) {
            let file = file.display();
            wrong.push(format!(
                "{file} is not the latest version, run upgradesstables"
            ));
            continue;
        }
        match shard.store.verify(table, file, options).await {
            Ok(_) | Err(ReadError::UnknownTable(_)) => {}
            Err(error) => {
                tracing::error!("verify: {error}");
                wrong.push(error.to_string());
            }
        }
    }
    wrong
}
