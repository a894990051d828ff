//! Those who write to the store.

use std::sync::Arc;
use std::time::Duration;

use model::{DecoratedKey, Mutation, RowUpdate, Table};
use storage::WriteError;

use super::client::Client;
use super::operation;

/// How many writes are begun before any of them is waited for, at most.
const TOGETHER: u64 = 4;

impl Client {
    /// Writes to one or two tables, and waits.
    pub(super) async fn write(&mut self) -> Result<(), String> {
        let Some(key) = self.world.pick_key(&self.env, &mut self.random) else {
            self.env.yield_now().await;
            return Ok(());
        };
        let all = self.world.tables();
        let purged = all[2].clone();
        let tables: Vec<Arc<Table>> = match self.random.below(10) {
            0..4 => vec![all[0].clone()],
            4..6 => vec![all[1].clone()],
            6..9 => vec![all[0].clone(), all[1].clone()],
            _ => vec![purged.clone()],
        };
        let purges = tables.iter().any(|table| table.id == purged.id);
        if purges && self.world.oracle.borrow().is_undecided(&key) {
            // Where deletions are purged at once, writes must come in the order of their times.
            return Ok(());
        }
        let moment = match purges {
            true => self.world.next_moment(&self.env),
            false => self.world.some_moment(&self.env, &mut self.random),
        };
        let mutation = operation::mutation(&mut self.random, &key, &tables, moment);
        let id = self.world.oracle.borrow_mut().begin(&mutation);
        if purges {
            self.world.lock(&key);
        }
        let result = self.store.apply(mutation).await;
        if purges {
            self.world.unlock(&key);
        }
        self.wrote((&key, id), result).await
    }

    /// Begins several writes, each of one table, and waits for all of them.
    pub(super) async fn write_together(&mut self) -> Result<(), String> {
        let count = 1 + self.random.below(TOGETHER);
        let mut begun = self.store.begin_writes(count as usize, self.env.now());
        let (mut at_once, mut later) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let Some(key) = self.world.pick_key(&self.env, &mut self.random) else {
                break;
            };
            let table = self.random.pick(&self.world.tables()[..2]).clone();
            let moment = self.world.some_moment(&self.env, &mut self.random);
            let mutation = operation::mutation(&mut self.random, &key, &[table], moment);
            let id = self.world.oracle.borrow_mut().begin(&mutation);
            let laid_out = match self.random.chance(50) {
                true => laid_out(&mutation),
                false => None,
            };
            let begins = match laid_out {
                Some(update) => begun.begin_row(update).map_err(|_| mutation),
                None => begun.begin(mutation),
            };
            match begins {
                Ok(()) => at_once.push((key, id)),
                Err(mutation) => later.push((key, id, mutation)),
            }
        }
        if self.random.chance(20) {
            // Whoever has to wait for the writes waits longer.
            let pause = self.random.below(5_000);
            self.env.sleep(Duration::from_micros(pause)).await;
        }
        for (key, id) in &at_once {
            let Some(result) = begun.next().await else {
                return Err("a write that was begun has no end".to_owned());
            };
            self.wrote((key, *id), result).await?;
        }
        for (key, id, mutation) in later {
            let result = self.store.apply(mutation).await;
            self.wrote((&key, id), result).await?;
        }
        Ok(())
    }

    /// Tells the oracle what became of a write.
    async fn wrote(
        &mut self,
        (key, id): (&DecoratedKey, u64),
        result: Result<(), WriteError>,
    ) -> Result<(), String> {
        if let Err(WriteError::Overloaded(_)) = &result {
            self.world.oracle.borrow_mut().refused(key, id);
            self.world.refused();
            // Who is refused comes back later.
            let pause = self.random.below(50_000);
            self.env.sleep(Duration::from_micros(pause)).await;
            return Ok(());
        }
        let mut oracle = self.world.oracle.borrow_mut();
        match result {
            Ok(()) => oracle.acknowledged(key, id),
            // A drive that fails fails the log for good, and the world sees to a restart, or it
            // fails this write alone. Nobody knows what became of it.
            Err(WriteError::CommitLog(_)) if self.world.has_disk_faults() => {
                drop(oracle);
                self.world.node_failed();
            }
            Err(WriteError::Closed) => oracle.refused(key, id),
            Err(error) => return Err(format!("a write failed: {error}")),
        }
        Ok(())
    }
}

/// A write as it is begun where it comes from a client, if it is of one row.
fn laid_out(mutation: &Mutation) -> Option<RowUpdate> {
    match &mutation.updates[..] {
        [update] => RowUpdate::of(update, &mut Vec::new()),
        _ => None,
    }
}
