//! Conditional statements: what is to be agreed upon, and what the client is told
//! (`ModificationStatement.executeWithCondition`).

use std::time::Duration;

use cluster::paxos::Ballot;
use cql::{CasRequest, CasResult};
use wire::{QueryParameters, RowsHead, WriteType};

use crate::coordinator::{Conditional, unwritable, update_if};
use crate::error::RequestError;
use crate::execute::Call;
use crate::metrics::RequestKind;
use crate::statements::encode_columns;

impl Call<'_> {
    /// Executes a conditional statement, or a batch in which there is one. `time`: in place of the
    /// usual one.
    pub(crate) async fn conditional(
        &mut self,
        cas: CasRequest<'_>,
        parameters: &QueryParameters<'_>,
        time: Option<Duration>,
    ) -> Result<(), RequestError> {
        *self.kind = RequestKind::Conditional;
        let serial = parameters.serial();
        let commit = parameters.consistency;
        serial.check_serial()?;
        let metadata = self.shard.metadata();
        let strategy = metadata.placement(&cas.table().keyspace).strategy();
        commit.check_commit(strategy)?;
        self.trace(|| "Reading existing values for CAS precondition");
        let trace = self.trace;
        let guardrails = self.guardrails();
        let mut warnings = Vec::new();
        let read = cas.read_command();
        if let Some(trace) = trace {
            trace.reading(&read);
        }
        let shard = self.shard;
        let decide = |page: &model::ReadPage, ballot: Ballot| {
            let current = page.partitions.first();
            let applies = cas.applies_to(current)?;
            if let Some(trace) = trace {
                trace.have_read(&cas.read_command(), page.scanned);
                trace.event(match applies {
                    true => format!(
                        "CAS precondition is met; proposing client-requested updates for {ballot}"
                    ),
                    false => "CAS precondition does not match current values".to_owned(),
                });
            }
            if !applies {
                return Ok(None);
            }
            let update = cas.update(current, ballot.micros())?;
            if let Some(why) = cql::refused_vector(&update) {
                let level = (commit, WriteType::Cas);
                return Err(unwritable(shard, &update, level, why));
            }
            if let Some(guardrails) = &guardrails {
                // It may be decided several times.
                warnings.clear();
                guardrails.check_updates(std::iter::once(&update), &mut warnings)?;
            }
            Ok(Some(update))
        };
        let agreed = update_if(shard, read, (serial, commit), time, trace, decide).await;
        self.warnings.append(&mut warnings);
        let result = match agreed? {
            Conditional::Applied => {
                self.trace(|| "CAS applied successfully");
                cas.applied()
            }
            Conditional::Refused(page) => {
                self.trace(|| "CAS did not apply");
                cas.not_applied(page.partitions.first())?
            }
        };
        self.tell(&result);
        Ok(())
    }

    /// Nobody was told of the columns before, so they always come along.
    fn tell(&mut self, result: &CasResult) {
        let columns = encode_columns(&result.columns, self.version);
        let head = RowsHead {
            columns: &columns,
            skip_metadata: false,
            new_metadata_id: None,
        };
        let mut rows = self.response().rows(&head);
        for row in &result.rows {
            row.iter().for_each(|value| rows.value(value.as_deref()));
        }
        rows.finish(None);
    }
}
