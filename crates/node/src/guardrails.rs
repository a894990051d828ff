//! What guardrails say of a request, as it is executed, and what the store is told of them.

use std::borrow::Cow;
use std::sync::Arc;

use cql::ast::Statement;
use cql::guardrails::{Guardrails, Limit, ReadRequest, Setting};
use cql::schema::SchemaPlan;
use cql::{CqlError, ModifyPlan, Plan, SelectRun};
use model::Mutation;
use storage::IndexSSTables;
use storage::sstable::{PartitionLimit, PartitionLimits};
use wire::{Consistency, QueryParameters};

use crate::execute::{Call, page_size};

/// How many sstables of an index the store may look into.
pub(crate) fn index_sstables(guardrails: &Guardrails) -> IndexSSTables {
    let limit = Limit::SaiSstableIndexesPerQuery;
    let threshold = |setting| guardrails.threshold(setting).unwrap_or(u64::MAX);
    IndexSSTables {
        warn: threshold(Setting::Warn(limit)),
        fail: threshold(Setting::Fail(limit)),
    }
}

/// Of which partitions that it writes the store tells the log.
pub(crate) fn partition_limits(guardrails: &Guardrails) -> PartitionLimits {
    let limit = |limit| PartitionLimit {
        warn: guardrails.threshold(Setting::Warn(limit)),
        fail: guardrails.threshold(Setting::Fail(limit)),
    };
    PartitionLimits {
        size: limit(Limit::PartitionSize),
        tombstones: limit(Limit::PartitionTombstones),
    }
}

impl Call<'_> {
    /// The guardrails, if any are set.
    pub(crate) fn guardrails(&self) -> Option<Arc<Guardrails>> {
        self.shard.state.config.guardrails.clone()
    }

    /// A statement that was read.
    pub(crate) fn guard_text(
        &mut self,
        statement: &Statement,
        context: &cql::Context<'_>,
    ) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => guardrails.check_text(statement, context, self.warnings),
        }
    }

    /// A statement that was planned.
    pub(crate) fn guard_plan(&mut self, plan: &Plan) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => guardrails.check_plan(plan, self.warnings),
        }
    }

    /// A SELECT that has begun.
    pub(crate) fn guard_read(
        &mut self,
        run: &SelectRun<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Result<(), CqlError> {
        let Some(guardrails) = self.guardrails() else {
            return Ok(());
        };
        let consistency = parameters.consistency;
        let request = ReadRequest {
            consistency: consistency.name(),
            reconciles: {
                let metadata = self.shard.metadata();
                let strategy = metadata.placement(&run.table().keyspace).strategy();
                let local = self.shard.local();
                consistency.block_for(strategy, &local.data_center) > 1
            },
            page_size: page_size(parameters),
        };
        guardrails.check_read(run, &request, self.warnings)
    }

    /// A statement that writes, before it is executed.
    pub(crate) fn guard_write(&mut self, plan: &ModifyPlan) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => guardrails.check_write(plan, self.warnings),
        }
    }

    /// The drives of all replicas of what a statement writes (`ModificationStatement.validateDiskUsage`).
    /// Whether they are full is up to their own guardrails.
    pub(crate) fn guard_disk_usage(
        &mut self,
        plan: &ModifyPlan,
        request: &cql::Request<'_>,
    ) -> Result<(), CqlError> {
        let shard = self.shard;
        if plan.table().is_virtual || shard.disk_usages.are_spacious() {
            return Ok(());
        }
        let metadata = shard.metadata();
        let placement = metadata.placement(&plan.table().keyspace);
        let now = shard.env.wall_micros();
        for key in plan.written_keys(request)? {
            let replicas = placement.replicas(key.token());
            for node in replicas.natural.iter().chain(&replicas.pending) {
                shard.disk_usages.check(*node, now, self.warnings)?;
            }
        }
        Ok(())
    }

    /// The consistency level of a write.
    pub(crate) fn guard_consistency(&mut self, consistency: Consistency) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => {
                guardrails.check_write_consistency(consistency.name(), self.warnings)
            }
        }
    }

    /// An execution of a statement that writes.
    pub(crate) fn guard_modify(
        &mut self,
        plan: &ModifyPlan,
        request: &cql::Request<'_>,
        in_batch: bool,
    ) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => guardrails.check_modify(plan, request, in_batch, self.warnings),
        }
    }

    /// What is written.
    pub(crate) fn guard_mutations(&mut self, mutations: &[Mutation]) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => {
                let updates = mutations.iter().flat_map(|mutation| &mutation.updates);
                guardrails.check_updates(updates, self.warnings)
            }
        }
    }

    /// A TRUNCATE.
    pub(crate) fn guard_truncate(&mut self) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => guardrails.check_truncate(self.warnings),
        }
    }

    /// A statement that changes the schema: what of it is to be executed.
    pub(crate) fn guard_schema<'p>(
        &mut self,
        plan: &'p SchemaPlan,
    ) -> Result<Cow<'p, SchemaPlan>, CqlError> {
        match self.guardrails() {
            None => Ok(Cow::Borrowed(plan)),
            Some(guardrails) => {
                let schema = self.shard.metadata().schema.clone();
                guardrails.check_schema(plan, &schema, self.warnings)
            }
        }
    }
}
