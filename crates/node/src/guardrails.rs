//! What guardrails say of a request, as it is executed.

use std::borrow::Cow;
use std::sync::Arc;

use cql::guardrails::{Guardrails, ReadRequest};
use cql::schema::SchemaPlan;
use cql::{CqlError, ModifyPlan, Plan, SelectRun};
use model::Mutation;
use wire::{Consistency, QueryParameters};

use crate::execute::{Call, page_size};

impl Call<'_> {
    /// The guardrails, if any are set.
    pub(crate) fn guardrails(&self) -> Option<Arc<Guardrails>> {
        self.shard.state.config.guardrails.clone()
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

    /// The consistency level of a write.
    pub(crate) fn guard_consistency(&mut self, consistency: Consistency) -> Result<(), CqlError> {
        match self.guardrails() {
            None => Ok(()),
            Some(guardrails) => {
                guardrails.check_write_consistency(consistency.name(), self.warnings)
            }
        }
    }

    /// A statement that writes.
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
