//! What guardrails say of reads.

use crate::ast::{QualifiedName, Statement};
use crate::plan::{SelectPlan, SelectRun};
use crate::{Context, CqlError, Plan};

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

fn is_there(context: &Context<'_>, table: &QualifiedName) -> bool {
    let keyspace = table.keyspace.as_deref().or(context.keyspace);
    keyspace.is_some_and(|keyspace| context.schema.table(keyspace, &table.name).is_some())
}

impl Guardrails {
    /// What is refused of a SELECT before its columns are looked for (`SelectStatement.RawStatement.prepare`).
    pub fn check_text(
        &self,
        statement: &Statement,
        context: &Context<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match statement {
            Statement::Select(select) if !select.group_by.is_empty() => {
                if is_there(context, &select.table) {
                    self.ensure(Switch::GroupBy, None, warnings)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is known before values are bound.
    pub fn check_plan(&self, plan: &Plan, warnings: &mut Vec<String>) -> Result<(), CqlError> {
        let Plan::Select(select) = plan else {
            return Ok(());
        };
        // Tables of the system may be filtered always.
        let is_local = matches!(&*select.table.keyspace, "system" | "system_schema");
        if select.allows_filtering && !is_local {
            self.ensure(Switch::AllowFiltering, None, warnings)?;
        }
        Ok(())
    }

    /// What the lists of IN on a key come to, in whichever statement
    /// (`PartitionKeySingleRestrictionSet.values`, `ClusteringColumnRestrictions.valuesAsClustering`).
    pub(super) fn check_in_product(
        &self,
        of: &str,
        product: Option<u64>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match product {
            Some(product) => self.guard(Limit::InSelectCartesianProduct, of, product, warnings),
            None => Ok(()),
        }
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
        let keys = run.keys() as u64;
        if self.limits(Limit::InSelectCartesianProduct) || self.limits(Limit::PartitionKeysInSelect)
        {
            let [of_keys, of_rows] = run.in_products()?;
            self.check_in_product("partition key", of_keys, warnings)?;
            if of_keys.is_some() && keys > 1 {
                self.guard(Limit::PartitionKeysInSelect, table, keys, warnings)?;
            }
            self.check_in_product("clustering key", of_rows, warnings)?;
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
