//! Batches, as messages and as statements: what several statements write, at once
//! (`BatchStatement.execute`).

use std::sync::Arc;
use std::time::Duration;

use cql::{MAX_TOKENS, ModifyPlan, Plan, Prepared};
use model::{CounterMutation, Mutation};
use storage::sstable::EstimatedHistogram;
use wire::{Batch, BatchKind, BatchTarget, Consistency, WriteType};

use crate::coordinator;
use crate::error::RequestError;
use crate::execute::Call;
use crate::metrics::RequestKind;
use crate::statements::Statement;

/// How many partitions batches had since the start, by kind (`BatchMetrics`).
#[derive(Clone, Debug)]
pub struct BatchSizes {
    pub logged: EstimatedHistogram,
    pub unlogged: EstimatedHistogram,
    pub counter: EstimatedHistogram,
}

/// So many buckets reach beyond what a batch may have.
const BATCH_BUCKETS: usize = 90;

impl Default for BatchSizes {
    fn default() -> BatchSizes {
        let none = || EstimatedHistogram::with_zeroes(BATCH_BUCKETS);
        BatchSizes {
            logged: none(),
            unlogged: none(),
            counter: none(),
        }
    }
}

impl BatchSizes {
    fn add(&mut self, kind: cql::ast::BatchKind, partitions: usize) {
        let of_kind = match kind {
            cql::ast::BatchKind::Logged => &mut self.logged,
            cql::ast::BatchKind::Unlogged => &mut self.unlogged,
            cql::ast::BatchKind::Counter => &mut self.counter,
        };
        of_kind.add(i64::try_from(partitions).unwrap_or(i64::MAX));
    }

    /// Counts what others counted.
    pub(crate) fn merge(&mut self, other: &BatchSizes) {
        self.logged.merge(&other.logged);
        self.unlogged.merge(&other.unlogged);
        self.counter.merge(&other.counter);
    }
}

impl Call<'_> {
    /// BATCH
    pub(crate) async fn batch(&mut self, batch: &Batch<'_>) -> Result<(), RequestError> {
        *self.kind = RequestKind::Batch;
        let parameters = &batch.parameters;
        let consistency = parameters.consistency;
        consistency.check()?;
        if let Some(trace) = self.trace {
            trace.request("Execute batch of CQL3 queries", None);
            trace.parameters(parameters);
        }
        let mut left = MAX_TOKENS;
        let mut statements = Vec::with_capacity(batch.statements.len());
        for statement in &batch.statements {
            statements.push(match statement.target {
                BatchTarget::Prepared(id) => self.statement(id)?,
                BatchTarget::Text(text) => {
                    let prepared = self.plan(text, parameters.keyspace, &mut left)?;
                    Arc::new(Statement::new(text, parameters.keyspace, prepared))
                }
            });
        }
        let plans = statements
            .iter()
            .map(|statement| match &statement.prepared.plan {
                Plan::Modify(plan) => Ok(&**plan),
                _ => Err(RequestError::invalid(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are \
                 allowed.",
                )),
            });
        let plans: Vec<&ModifyPlan> = plans.collect::<Result<_, _>>()?;
        let kind = batch_kind(batch.kind);
        cql::check_batch(kind, plans.iter().copied())?;
        // One time for all of it.
        let time = self.request_of(None, cql::Values::NONE, parameters);
        if plans.iter().any(|plan| plan.is_conditional()) {
            let mut requests = Vec::with_capacity(plans.len());
            for (statement, target) in statements.iter().zip(&batch.statements) {
                let values = bound(&statement.prepared, &target.values)?;
                let mut request = self.request_of(Some(&statement.prepared), values, parameters);
                request.now_seconds = time.now_seconds;
                requests.push(request);
            }
            for plan in &plans {
                self.guard_write(plan)?;
            }
            self.guard_consistency(consistency)?;
            for (plan, request) in plans.iter().zip(&requests) {
                self.guard_disk_usage(plan, request)?;
            }
            for (plan, request) in plans.iter().zip(&requests) {
                self.guard_modify(plan, request, true)?;
            }
            let timeouts = plans.iter().zip(&requests).map(|(plan, r)| plan.timeout(r));
            let limit = shortest(timeouts)?;
            let cas = cql::cas_of_batch(plans.iter().copied().zip(&requests))?;
            return Box::pin(self.conditional(cas, parameters, limit)).await;
        }
        for plan in &plans {
            self.guard_write(plan)?;
        }
        self.guard_consistency(consistency)?;
        let tables = plans.iter().map(|plan| &**plan.table());
        self.warnings.extend(cql::warn_of_no_grace(kind, tables));
        let (mut mutations, mut additions) = (Vec::new(), Vec::new());
        let mut limit = None;
        for ((statement, plan), target) in statements.iter().zip(&plans).zip(&batch.statements) {
            let values = bound(&statement.prepared, &target.values)?;
            let mut request = self.request_of(Some(&statement.prepared), values, parameters);
            request.timestamp_micros = time.timestamp_micros;
            request.now_seconds = time.now_seconds;
            limit = shortest([Ok(limit), plan.timeout(&request)])?;
            self.guard_disk_usage(plan, &request)?;
            self.guard_modify(plan, &request, true)?;
            match plan.is_counter() {
                true => {
                    let counted = || plan.counter_mutations(&request);
                    additions.extend(self.evaluate(&request, counted).await?);
                }
                false => mutations.extend(self.modify(plan, &request, consistency).await?),
            }
            self.shard.env.maybe_yield().await;
        }
        // A batch has counters or it has none.
        if !additions.is_empty() {
            let additions = cql::merge_counter_mutations(additions);
            return self.add_batch(additions, consistency, kind, limit).await;
        }
        let mutations = cql::merge_mutations(mutations);
        self.write_batch(mutations, consistency, kind, limit).await
    }

    /// Adds to counters what a batch says.
    pub(crate) async fn add_batch(
        &mut self,
        additions: Vec<CounterMutation>,
        consistency: Consistency,
        kind: cql::ast::BatchKind,
        time: Option<Duration>,
    ) -> Result<(), RequestError> {
        let limits = &self.shard.state.config.batch_limits;
        let checked = limits.check(kind, additions.iter().map(CounterMutation::unled))?;
        self.warnings.extend(checked);
        let sizes = &self.shard.batch_sizes;
        sizes.borrow_mut().add(kind, additions.len());
        self.add(additions, consistency, time).await
    }

    /// Writes what a batch says; if it is logged, all of it or nothing. What concerns one
    /// partition is so anyway.
    pub(crate) async fn write_batch(
        &mut self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: cql::ast::BatchKind,
        time: Option<Duration>,
    ) -> Result<(), RequestError> {
        let limits = &self.shard.state.config.batch_limits;
        self.warnings.extend(limits.check(kind, mutations.iter())?);
        let sizes = &self.shard.batch_sizes;
        sizes.borrow_mut().add(kind, mutations.len());
        let write_type = write_type(kind);
        if write_type != WriteType::Batch || mutations.len() < 2 {
            return self.write(mutations, consistency, write_type, time).await;
        }
        self.guard_mutations(&mutations)?;
        self.refuse_vectors(&mutations, (consistency, write_type))?;
        self.trace(|| "Determining replicas for atomic batch");
        Box::pin(coordinator::write_logged(
            self.shard,
            mutations,
            consistency,
            time,
            self.trace,
        ))
        .await?;
        self.response().void();
        Ok(())
    }
}

/// How long a batch may take of which several statements say it.
fn shortest(
    timeouts: impl IntoIterator<Item = Result<Option<Duration>, cql::CqlError>>,
) -> Result<Option<Duration>, RequestError> {
    let mut shortest = None;
    for timeout in timeouts {
        let both = shortest.into_iter().chain(timeout?);
        shortest = both.min();
    }
    Ok(shortest)
}

fn batch_kind(kind: BatchKind) -> cql::ast::BatchKind {
    match kind {
        BatchKind::Logged => cql::ast::BatchKind::Logged,
        BatchKind::Unlogged => cql::ast::BatchKind::Unlogged,
        BatchKind::Counter => cql::ast::BatchKind::Counter,
    }
}

fn write_type(kind: cql::ast::BatchKind) -> WriteType {
    match kind {
        cql::ast::BatchKind::Logged => WriteType::Batch,
        cql::ast::BatchKind::Unlogged => WriteType::UnloggedBatch,
        cql::ast::BatchKind::Counter => WriteType::Counter,
    }
}

/// The values of one statement of a batch.
fn bound<'v>(
    prepared: &Prepared,
    values: &'v [cql::Value<'v>],
) -> Result<cql::Values<'v>, RequestError> {
    let markers = prepared.bind_variables.len();
    if values.len() != markers {
        return Err(RequestError::invalid(format!(
            "There were {markers} markers(?) in CQL but {} bound variables",
            values.len()
        )));
    }
    Ok(prepared.bind(values, &[])?)
}
