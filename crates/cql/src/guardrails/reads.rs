//! What guardrails say of reads.

use crate::plan::{SelectPlan, SelectRun};
use crate::{CqlError, Plan};

use super::{Guardrails, Limit, Switch, Values};

/// How a SELECT is executed.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    /// The name of its consistency level.
    pub consistency: &'a str,
    /// Do several replicas have to agree?
    pub reconciles: bool,
    /// Rows of a page, if it is paged.
    pub page_size: Option<u32>,
}

impl Guardrails {
    /// What is known before values are bound (`SelectStatement.RawStatement.prepare`).
    pub fn check_plan(&self, plan: &Plan, warnings: &mut Vec<String>) -> Result<(), CqlError> {
        let Plan::Select(select) = plan else {
            return Ok(());
        };
        if !select.group_by.is_empty() {
            self.ensure(Switch::GroupBy, None, warnings)?;
        }
        // Tables of the system may be filtered always.
        let is_local = matches!(&*select.table.keyspace, "system" | "system_schema");
        if select.allows_filtering && !is_local {
            self.ensure(Switch::AllowFiltering, None, warnings)?;
        }
        Ok(())
    }

    /// An execution that has begun (`SelectStatement.execute`).
    pub fn check_read(
        &self,
        run: &SelectRun<'_>,
        request: &ReadRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let select: &SelectPlan = run.plan();
        let table = &*select.table.name;
        self.guard_values(
            Values::ReadConsistencyLevels,
            &[request.consistency],
            warnings,
        )?;
        let (keys, slices) = (run.keys() as u64, run.slices() as u64);
        if select.keys.has_in() && keys > 1 {
            self.guard(
                Limit::InSelectCartesianProduct,
                "partition key",
                keys,
                warnings,
            )?;
            self.guard(Limit::PartitionKeysInSelect, table, keys, warnings)?;
        }
        // Of rows alone, not where clustering columns are left open.
        if select.slices.has_in() && select.slices.selects_rows() && slices > 1 {
            self.guard(
                Limit::InSelectCartesianProduct,
                "clustering key",
                slices,
                warnings,
            )?;
        }
        if let Some(size) = request.page_size.filter(|_| run.is_paged()) {
            self.guard(Limit::PageSize, table, u64::from(size), warnings)?;
        }
        if request.reconciles && select.filters.of_changing(&select.table) > 1 {
            self.ensure(Switch::IntersectFilteringQuery, None, warnings)?;
        }
        if select.uses_index && !select.keys.restricts() {
            self.ensure(Switch::NonPartitionRestrictedIndexQuery, None, warnings)?;
        }
        Ok(())
    }
}
