//! When tables were truncated (`truncated_at` of `system.local`): what was written before must not come back
//! with a hint or a logged batch.
//!
//! Each shard knows all of them. They are on the drive before a client hears that a table is empty.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use hashbrown::HashMap;
use model::{DecoratedKey, Mutation, TableId};

use crate::own_tables::{own_table, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::system::{SavedTruncation, saved_truncations, truncation_mutation};

/// The truncations that a shard knows.
#[derive(Default)]
pub(crate) struct Truncations {
    tables: RefCell<HashMap<TableId, SavedTruncation>>,
}

impl Truncations {
    /// Leaves out of a mutation what it says of tables that were truncated since it was written, in
    /// microseconds since 1970. Is something left?
    pub(crate) fn retain(&self, mutation: &mut Mutation, written_at: i64) -> bool {
        let tables = self.tables.borrow();
        if !tables.is_empty() {
            let written_at = written_at.div_euclid(1000);
            let stays = |id| tables.get(&id).is_none_or(|noted| written_at > noted.at);
            mutation.updates.retain(|update| stays(update.table.id));
        }
        !mutation.updates.is_empty()
    }

    /// A table is about to be truncated, at that time in milliseconds since 1970.
    pub(crate) fn note(&self, table: TableId, at: i64) {
        let mut tables = self.tables.borrow_mut();
        let noted = tables.entry(table).or_default();
        noted.at = noted.at.max(at);
    }
}

/// Learns of all truncations that the node has noted.
///
/// # Errors
/// They cannot be read; in words.
pub(crate) async fn load(shard: &Rc<Shard>) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let table = own_table(&schema, "system", "local").map_err(|error| error.to_string())?;
    let key = DecoratedKey::new(Bytes::from_static(b"local"));
    let saved = read_whole(shard, table.clone(), Some(key)).await;
    let saved = saved.map_err(|error| error.to_string())?;
    let rows = saved.iter().flat_map(|partition| &partition.rows);
    let noted = rows
        .flat_map(|row| saved_truncations(&table, row))
        .collect();
    *shard.truncations.tables.borrow_mut() = noted;
    Ok(())
}

/// Writes down when a table was truncated, which has been noted. Those of tables that are gone are
/// forgotten.
///
/// # Errors
/// The drive does not have it; in words.
pub(crate) async fn save(shard: &Rc<Shard>, table: TableId) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    let mutation = {
        let mut tables = shard.truncations.tables.borrow_mut();
        let gone: Vec<_> = tables
            .extract_if(|id, _| schema.table_by_id(*id).is_none())
            .map(|(id, _)| id)
            .collect();
        let noted = tables.get(&table).copied().unwrap_or_default();
        truncation_mutation(&schema, (table, noted), &gone, now)
    };
    let mutation = mutation.ok_or("there is no table system.local")?;
    let applied = replica::apply_to_drive(shard, mutation).await;
    applied.map_err(|error| format!("when it was truncated cannot be noted: {error}"))
}
