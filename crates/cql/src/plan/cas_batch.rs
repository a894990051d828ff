//! Batches in which there is a conditional statement: all of one partition, and either all of it is
//! done or nothing (`BatchStatement.makeCasRequest`).

use model::ColumnId;

use crate::CqlError;
use crate::error::invalid;
use crate::term::Request;

use super::batch::BatchPlan;
use super::cas::CasRequest;
use super::modify::ModifyPlan;

impl BatchPlan {
    /// One execution of a batch in which there is a conditional statement. Errors: as those of
    /// [`ModifyPlan::cas`], and statements that do not go together.
    pub fn cas<'a>(&'a self, request: &'a Request<'a>) -> Result<CasRequest<'a>, CqlError> {
        cas_of_batch(self.statements().iter().map(|plan| (plan, request)))
    }
}

/// As [`BatchPlan::cas`], of a BATCH message: each statement with an execution of its own. They
/// have passed [`super::check_batch`].
pub fn cas_of_batch<'a>(
    statements: impl IntoIterator<Item = (&'a ModifyPlan, &'a Request<'a>)>,
) -> Result<CasRequest<'a>, CqlError> {
    let mut cas: Option<CasRequest<'a>> = None;
    // Conditions on whole rows show whole rows.
    let mut shown = Some(Vec::new());
    for (plan, request) in statements {
        let (key, target) = plan.cas_place(request, true)?;
        let all = match &mut cas {
            None => cas.insert(CasRequest::new(plan, key, request)),
            Some(all) if all.key != key => {
                return invalid!("Batch with conditions cannot span multiple partitions");
            }
            Some(all) if all.table.id != plan.table.id => {
                return invalid!("Batch with conditions cannot span multiple tables");
            }
            Some(all) => all,
        };
        all.add(plan, request, target)?;
        shown = match (shown, plan.conditions.columns()) {
            (Some(mut shown), Some(columns)) => {
                for column in columns {
                    if !shown.contains(&column) {
                        shown.push(column);
                    }
                }
                Some(shown)
            }
            _ => None,
        };
    }
    let Some(mut cas) = cas else {
        return invalid!("the batch has no statements");
    };
    // Keys tell rows apart that conditions of several were on.
    cas.shown = shown.map(|columns| {
        let table = &cas.table;
        let key = table.partition_key().chain(table.clustering_key());
        let mut all: Vec<ColumnId> = key.map(|column| column.id).collect();
        all.extend(columns);
        all
    });
    cas.finish()
}
