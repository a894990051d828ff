//! What is said of batches that are larger than they should be (`BatchStatement.verifyBatchSize`,
//! `verifyBatchType`, `getMutations`).

use std::collections::BTreeSet;

use model::{DecoratedKey, Mutation, Table};

use crate::CqlError;
use crate::ast::BatchKind;
use crate::error::invalid;

/// Where batches are warned about, and where they are refused. Those of one partition are neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Bytes, by [`model::PartitionUpdate::data_bytes`], beyond which the client is warned
    /// (`batch_size_warn_threshold`).
    pub warn_bytes: u64,
    /// Bytes beyond which the batch is refused (`batch_size_fail_threshold`).
    pub fail_bytes: u64,
    /// Partitions of a batch that is not logged beyond which the client is warned
    /// (`unlogged_batch_across_partitions_warn_threshold`).
    pub unlogged_partitions: u64,
}

impl Default for BatchLimits {
    /// Those of `cassandra.yaml`.
    fn default() -> BatchLimits {
        BatchLimits {
            warn_bytes: 5 << 10,
            fail_bytes: 50 << 10,
            unlogged_partitions: 10,
        }
    }
}

impl BatchLimits {
    /// What the client is to be warned of. Errors: the batch is too large.
    pub fn check<'m>(
        &self,
        kind: BatchKind,
        mutations: impl ExactSizeIterator<Item = &'m Mutation> + Clone,
    ) -> Result<Vec<String>, CqlError> {
        let mut warnings = Vec::new();
        if mutations.len() < 2 {
            return Ok(warnings);
        }
        let updates = mutations.flat_map(|mutation| &mutation.updates);
        let size: u64 = updates.clone().map(|update| update.data_bytes()).sum();
        let tables = || names(updates.clone().map(|update| &*update.table));
        if size > self.warn_bytes {
            if size > self.fail_bytes {
                return invalid!("Batch too large");
            }
            let (of, most) = (tables().0, self.warn_bytes);
            warnings.push(format!(
                "Batch for {of} is of size {size}, exceeding specified threshold of {most} by {}.",
                size - most
            ));
        }
        if kind != BatchKind::Logged {
            let keys: BTreeSet<&DecoratedKey> = updates.clone().map(|update| &update.key).collect();
            if keys.len() as u64 > self.unlogged_partitions {
                let (of, plural) = tables();
                warnings.push(format!(
                    "Unlogged batch covering {} partitions detected against table{plural} {of}. You \
                     should use a logged batch for atomicity, or asynchronous writes for performance.",
                    keys.len()
                ));
            }
        }
        Ok(warnings)
    }
}

/// What the client is to be warned of if tables of a logged batch forget deletions at once: the batch
/// log forgets what is not written by then.
pub fn warn_of_no_grace<'t>(
    kind: BatchKind,
    tables: impl Iterator<Item = &'t Table>,
) -> Option<String> {
    let mut forgetful = tables
        .filter(|table| kind == BatchKind::Logged && table.options.gc_grace_seconds == 0)
        .peekable();
    forgetful.peek()?;
    let (of, plural) = names(forgetful);
    Some(format!(
        "Executing a LOGGED BATCH on table{plural} {of}, configured with a gc_grace_seconds of 0. The \
         gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables \
         involved in an atomic batch might cause batchlog entries to expire before being replayed."
    ))
}

/// The tables, and the ending of the word before them.
fn names<'t>(tables: impl Iterator<Item = &'t Table>) -> (String, &'static str) {
    let names: BTreeSet<String> = tables
        .map(|table| format!("{}.{}", table.keyspace, table.name))
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: Vec<String> = names.into_iter().collect();
    (format!("[{}]", names.join(", ")), plural)
}
