//! BATCH, as a statement and as a message (`BatchStatement`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{CounterMutation, Mutation, PartitionUpdate, ReadCommand, ReadPage};

use crate::CqlError;
use crate::ast::BatchKind;
use crate::error::invalid;
use crate::term::Request;

use super::attributes::Attributes;
use super::modify::ModifyPlan;
use super::write::check_plain;

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
        let all: Vec<&ModifyPlan> = statements.iter().collect();
        check(kind, attributes.has_timestamp(), &all)?;
        statements.iter().try_for_each(ModifyPlan::validate)?;
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

    /// Does it write tables of counters, and nothing else? Then [`BatchPlan::counter_mutations`]
    /// says what.
    pub fn is_counter(&self) -> bool {
        self.statements.iter().any(ModifyPlan::is_counter)
    }

    /// Does it write only if conditions hold (`IF`), be it of one of its statements? Then see
    /// [`BatchPlan::cas`].
    pub fn is_conditional(&self) -> bool {
        self.statements.iter().any(ModifyPlan::is_conditional)
    }

    /// How long this execution may take, if it says so (`USING TIMEOUT`), or else the shortest time
    /// that one of its statements says.
    pub fn timeout(&self, request: &Request<'_>) -> Result<Option<Duration>, CqlError> {
        if let Some(timeout) = self.attributes.timeout(request)? {
            return Ok(Some(timeout));
        }
        let mut shortest = None;
        for statement in &self.statements {
            let both = shortest.into_iter().chain(statement.timeout(request)?);
            shortest = both.min();
        }
        Ok(shortest)
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
    /// [`BatchPlan::reads`]. Errors: as those of [`ModifyPlan::mutations`].
    pub fn mutations(
        &self,
        request: &Request<'_>,
        known: &[ReadPage],
    ) -> Result<Vec<Mutation>, CqlError> {
        check_plain(self.is_counter(), self.is_conditional())?;
        self.merged(request, known)
    }

    /// What it writes to tables of counters: one mutation for each key and keyspace, to be led,
    /// not applied.
    pub fn counter_mutations(
        &self,
        request: &Request<'_>,
    ) -> Result<Vec<CounterMutation>, CqlError> {
        let merged = self.merged(request, &[])?;
        Ok(merged.into_iter().map(CounterMutation::new).collect())
    }

    fn merged(&self, request: &Request<'_>, known: &[ReadPage]) -> Result<Vec<Mutation>, CqlError> {
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

/// What all statements of a BATCH message must have in common, which were prepared each for itself
/// (`BatchStatement.validate`).
pub fn check_batch<'p>(
    kind: BatchKind,
    statements: impl Iterator<Item = &'p ModifyPlan>,
) -> Result<(), CqlError> {
    let statements: Vec<&ModifyPlan> = statements.collect();
    check(kind, false, &statements)
}

/// `has_timestamp`: does the batch say for all of them when they happen?
fn check(kind: BatchKind, has_timestamp: bool, statements: &[&ModifyPlan]) -> Result<(), CqlError> {
    let is_conditional = statements.iter().any(|s| s.is_conditional());
    if has_timestamp && is_conditional {
        return invalid!("Cannot provide custom timestamp for conditional BATCH");
    }
    if has_timestamp && kind == BatchKind::Counter {
        return invalid!("Cannot provide custom timestamp for counter BATCH");
    }
    let (mut counters, mut others) = (false, false);
    for statement in statements {
        if has_timestamp && statement.has_timestamp() {
            return invalid!("Timestamp must be set either on BATCH or individual statements");
        }
        counters |= statement.is_counter();
        others |= !statement.is_counter();
    }
    if has_timestamp && counters {
        return invalid!("Cannot provide custom timestamp for a BATCH containing counters");
    }
    if kind == BatchKind::Counter && others {
        return invalid!("Cannot include non-counter statement in a counter batch");
    }
    if counters && others {
        return invalid!("Counter and non-counter mutations cannot exist in the same batch");
    }
    if kind == BatchKind::Logged && counters {
        return invalid!("Cannot include a counter statement in a logged batch");
    }
    let virtuals = statements.iter().filter(|s| s.table().is_virtual).count();
    if kind == BatchKind::Logged && virtuals > 0 {
        return invalid!("Cannot include a virtual table statement in a logged batch");
    }
    if virtuals > 0 && virtuals < statements.len() {
        return invalid!("Mutations for virtual and regular tables cannot exist in the same batch");
    }
    let mut pairs = statements.windows(2);
    if is_conditional && pairs.any(|pair| pair[0].table().id != pair[1].table().id) {
        return invalid!("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}

/// One mutation for each key and keyspace, of what several statements write; in the order in which
/// the keys come first.
pub fn merge_mutations(mutations: Vec<Mutation>) -> Vec<Mutation> {
    merge_updates(mutations.into_iter().flat_map(|m| m.updates).collect())
}

/// As [`merge_mutations`], of writes to counters: what several statements add to one counter adds
/// up.
pub fn merge_counter_mutations(mutations: Vec<CounterMutation>) -> Vec<CounterMutation> {
    let unled = mutations.into_iter().map(CounterMutation::into_unled);
    let merged = merge_mutations(unled.collect());
    merged.into_iter().map(CounterMutation::new).collect()
}

fn merge_updates(updates: Vec<PartitionUpdate>) -> Vec<Mutation> {
    let mut places: BTreeMap<(Arc<str>, Bytes), usize> = BTreeMap::new();
    // Of each key, the updates of each table.
    let mut by_key: Vec<Vec<Vec<PartitionUpdate>>> = Vec::new();
    for update in updates {
        let place = (update.table.keyspace.clone(), update.key.key().clone());
        let at = *places.entry(place).or_insert(by_key.len());
        let Some(by_table) = by_key.get_mut(at) else {
            by_key.push(vec![vec![update]]);
            continue;
        };
        let same = |known: &&mut Vec<PartitionUpdate>| known[0].table.id == update.table.id;
        match by_table.iter_mut().find(same) {
            Some(known) => known.push(update),
            None => by_table.push(vec![update]),
        }
    }
    let mutation = |by_table: Vec<Vec<PartitionUpdate>>| {
        let merged = by_table.into_iter().filter_map(PartitionUpdate::merge_all);
        Mutation {
            updates: merged.collect(),
        }
    };
    by_key.into_iter().map(mutation).collect()
}
