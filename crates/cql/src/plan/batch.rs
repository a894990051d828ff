//! BATCH, as a statement and as a message (`BatchStatement`).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{Mutation, PartitionUpdate, ReadCommand, ReadPage};

use crate::CqlError;
use crate::ast::BatchKind;
use crate::error::invalid;
use crate::schema::is_counter_table;
use crate::term::Request;

use super::attributes::Attributes;
use super::modify::ModifyPlan;

/// BEGIN BATCH … APPLY BATCH, ready to be executed with values.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    kind: BatchKind,
    attributes: Attributes,
    statements: Vec<ModifyPlan>,
}

impl BatchPlan {
    pub(crate) fn new(
        kind: BatchKind,
        attributes: Attributes,
        statements: Vec<ModifyPlan>,
    ) -> Result<BatchPlan, CqlError> {
        if attributes.has_ttl() {
            return invalid!("Global TTL on the BATCH statement is not supported.");
        }
        let timed = statements.iter().any(ModifyPlan::has_timestamp);
        if attributes.has_timestamp() && timed {
            return invalid!("Timestamp must be set either on BATCH or individual statements");
        }
        check_batch(kind, statements.iter())?;
        Ok(BatchPlan {
            kind,
            attributes,
            statements,
        })
    }

    /// How it is applied.
    pub fn kind(&self) -> BatchKind {
        self.kind
    }

    /// Its statements.
    pub fn statements(&self) -> &[ModifyPlan] {
        &self.statements
    }

    /// The reads that its statements need; see [`ModifyPlan::reads`].
    pub fn reads(&self, request: &Request<'_>) -> Result<Vec<ReadCommand>, CqlError> {
        let mut commands = Vec::new();
        for statement in &self.statements {
            commands.extend(statement.reads(request)?);
        }
        Ok(commands)
    }

    /// What it writes: one mutation for each key and keyspace. `known`: the answers to
    /// [`BatchPlan::reads`].
    pub fn mutations(
        &self,
        request: &Request<'_>,
        known: &[ReadPage],
    ) -> Result<Vec<Mutation>, CqlError> {
        let timestamp = self
            .attributes
            .timestamp(request.timestamp_micros, request)?;
        let mut known = known;
        let mut updates = Vec::new();
        for statement in &self.statements {
            let count = statement.reads(request)?.len().min(known.len());
            let (mine, others) = known.split_at(count);
            known = others;
            updates.extend(statement.updates(request, timestamp, mine)?);
        }
        Ok(merge_updates(updates))
    }
}

/// What all statements of a batch must have in common; also of a BATCH message, whose statements
/// were prepared each for itself.
pub fn check_batch<'p>(
    kind: BatchKind,
    statements: impl Iterator<Item = &'p ModifyPlan>,
) -> Result<(), CqlError> {
    let mut counters = false;
    let mut others = false;
    for statement in statements {
        if is_counter_table(statement.table()) {
            counters = true;
        } else {
            others = true;
        }
    }
    match kind {
        BatchKind::Counter if others => {
            invalid!("Cannot include non-counter statement in a counter batch")
        }
        BatchKind::Logged if counters => {
            invalid!("Cannot include a counter statement in a logged batch")
        }
        BatchKind::Unlogged if counters && others => {
            invalid!("Counter and non-counter mutations cannot exist in the same batch")
        }
        _ => Ok(()),
    }
}

/// One mutation for each key and keyspace, of what several statements write; in the order in which
/// the keys come first.
pub fn merge_mutations(mutations: Vec<Mutation>) -> Vec<Mutation> {
    merge_updates(mutations.into_iter().flat_map(|m| m.updates).collect())
}

fn merge_updates(updates: Vec<PartitionUpdate>) -> Vec<Mutation> {
    let mut places: BTreeMap<(Arc<str>, Bytes), usize> = BTreeMap::new();
    let mut mutations: Vec<Mutation> = Vec::new();
    for update in updates {
        let place = (update.table.keyspace.clone(), update.key.key().clone());
        let at = *places.entry(place).or_insert(mutations.len());
        match mutations.get_mut(at) {
            None => mutations.push(Mutation {
                updates: vec![update],
            }),
            Some(mutation) => {
                let same = |known: &&mut PartitionUpdate| known.table.id == update.table.id;
                match mutation.updates.iter_mut().find(same) {
                    Some(known) => known.merge(update),
                    None => mutation.updates.push(update),
                }
            }
        }
    }
    mutations
}
