//! Executing a statement: values are bound, the plan gives commands, the coordinator carries them
//! out, and what they answer is written as the response.

mod describe;
mod point;
mod point_write;
mod result;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::{Context, CqlError, MAX_TOKENS, ModifyPlan, Paging, Plan, Prepared, SelectPlan};
use model::{CounterMutation, Mutation, ReadCommand, Table};
use wire::{
    Consistency, EncodedColumns, Execute, Prepare, Query, QueryParameters, ResponseExtras,
    ResponseWriter, RowsHead, RowsWriter, Version, WriteType,
};

use crate::clients::Client;
use crate::coordinator;
use crate::error::RequestError;
use crate::functions::give_way;
use crate::metadata;
use crate::metrics::RequestKind;
use crate::prepared;
use crate::read_warnings;
use crate::shard::Shard;
use crate::statements::{Statement, StatementId, encode_columns};
use crate::trace::Traced;
use crate::truncate;
pub(crate) use point::{
    Answered, AtOnce, ForAnother, Owners, TOGETHER, answer_at_once, answer_for_another,
    have_answered,
};
use result::{check_size, make_room, put_row};

/// A request that executes statements, and where its response goes.
pub(crate) struct Call<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    pub(crate) client: &'a Client,
    pub(crate) version: Version,
    pub(crate) stream: i16,
    /// Its trace, if the client wants one.
    pub(crate) trace: Traced<'a>,
    /// What kind of request it turns out to be.
    pub(crate) kind: &'a mut RequestKind,
    /// What the client is warned of.
    pub(crate) warnings: &'a mut Vec<String>,
    pub(crate) out: &'a mut Vec<u8>,
}

/// How the rows of a result are described.
pub(crate) struct ResultColumns<'a> {
    pub(crate) columns: &'a EncodedColumns,
    /// The id of the columns, if the client knows others.
    pub(crate) new_id: Option<&'a StatementId>,
}

impl<'a> ResultColumns<'a> {
    /// Of a prepared statement, for the client that executes it; `None` if it has no rows.
    fn of(
        statement: &'a Statement,
        execute: &Execute<'_>,
        version: Version,
    ) -> Option<ResultColumns<'a>> {
        let known = execute.result_metadata_id;
        let new_id = known
            .is_some_and(|known| known != statement.result_metadata_id)
            .then_some(&statement.result_metadata_id);
        let columns = statement.columns(version)?;
        Some(ResultColumns { columns, new_id })
    }
}

impl Call<'_> {
    pub(crate) fn response(&mut self) -> ResponseWriter<'_> {
        let extras = ResponseExtras {
            tracing_id: self.trace.and_then(|trace| trace.told_id()),
            warnings: self.warnings,
            ..ResponseExtras::default()
        };
        ResponseWriter::new(self.out, self.version, self.stream).with_extras(extras)
    }

    /// Notes what was done, if the request is traced.
    pub(crate) fn trace<T: Into<String>>(&self, activity: impl FnOnce() -> T) {
        if let Some(trace) = self.trace {
            trace.event(activity());
        }
    }

    /// The keyspace of unqualified names.
    fn keyspace(&self, of_request: Option<&str>) -> Option<Arc<str>> {
        match of_request {
            Some(keyspace) => Some(keyspace.into()),
            None => self.client.keyspace.borrow().clone(),
        }
    }

    /// `left` are the tokens that the statements of the request may still have.
    pub(crate) fn plan(
        &mut self,
        text: &str,
        of_request: Option<&str>,
        left: &mut usize,
    ) -> Result<Prepared, RequestError> {
        let keyspace = self.keyspace(of_request);
        let metadata = self.shard.metadata();
        if let Some(name) = of_request
            && !metadata.schema.keyspaces.contains_key(name)
        {
            return Err(CqlError::Invalid(format!("Keyspace '{name}' does not exist")).into());
        }
        let context = Context {
            schema: &metadata.schema,
            keyspace: keyspace.as_deref(),
        };
        let statement = cql::parse_within(text, left)?;
        self.guard_text(&statement, &context)?;
        let prepared = cql::prepare_statement(&statement, &context)?;
        self.guard_plan(&prepared.plan)?;
        Ok(prepared)
    }

    /// QUERY
    pub(crate) async fn query(&mut self, query: &Query<'_>) -> Result<(), RequestError> {
        let parameters = &query.parameters;
        if let Some(trace) = self.trace {
            trace.request("Execute CQL3 query", Some(query.text));
            trace.parameters(parameters);
            trace.event(format!("Parsing {}", query.text));
        }
        let prepared = self.plan(query.text, parameters.keyspace, &mut { MAX_TOKENS })?;
        self.trace(|| "Preparing statement");
        let given = prepared.values_for_markers(parameters.values.len(), &parameters.names);
        if given != prepared.bind_variables.len() {
            return Err(RequestError::invalid("Invalid amount of bind variables"));
        }
        self.shard.metrics.text_executed.add(1);
        let columns = prepared.result_columns.as_ref();
        let columns = columns.map(|columns| encode_columns(columns, self.version));
        let columns = columns.as_ref().map(|columns| ResultColumns {
            columns,
            new_id: None,
        });
        self.run(&prepared, columns, parameters).await
    }

    /// EXECUTE
    pub(crate) async fn execute(&mut self, execute: &Execute<'_>) -> Result<(), RequestError> {
        let statement = self.statement(execute.id)?;
        self.shard.metrics.prepared_executed.add(1);
        let columns = ResultColumns::of(&statement, execute, self.version);
        let parameters = &execute.parameters;
        if let Some(trace) = self.trace {
            trace.request("Execute CQL3 prepared query", Some(&statement.text));
            trace.parameters(parameters);
            let prepared = &statement.prepared;
            if let Ok(values) = prepared.bind(&parameters.values, &parameters.names) {
                trace.bound(&prepared.bind_variables, &values);
            }
        }
        self.run(&statement.prepared, columns, parameters).await
    }

    pub(crate) fn statement(&self, id: &[u8]) -> Result<Arc<Statement>, RequestError> {
        let statement = self.shard.statements.borrow_mut().get(id);
        statement.ok_or_else(|| RequestError::Unprepared(id.to_vec()))
    }

    async fn run(
        &mut self,
        prepared: &Prepared,
        columns: Option<ResultColumns<'_>>,
        parameters: &QueryParameters<'_>,
    ) -> Result<(), RequestError> {
        parameters.consistency.check()?;
        match &prepared.plan {
            Plan::Select(select) => {
                *self.kind = RequestKind::of_read(select.is_range(), parameters.consistency);
                let columns = columns.ok_or_else(no_columns)?;
                self.select(prepared, select, columns, parameters).await
            }
            Plan::Modify(modify) => {
                *self.kind = RequestKind::Write;
                let consistency = parameters.consistency;
                let request = self.request(prepared, parameters)?;
                self.guard_write(modify)?;
                self.guard_consistency(consistency)?;
                if !modify.is_conditional() {
                    self.guard_disk_usage(modify, &request)?;
                }
                self.guard_modify(modify, &request, false)?;
                if modify.is_conditional() {
                    let cas = self.evaluate(&request, || modify.cas(&request)).await?;
                    let time = modify.timeout(&request)?;
                    let conditional = self.conditional(cas, parameters, time);
                    return Box::pin(conditional).await;
                }
                let time = modify.timeout(&request)?;
                if modify.is_counter() {
                    check_counter_level(consistency, modify.table())?;
                    let counted = || modify.counter_mutations(&request);
                    let additions = self.evaluate(&request, counted).await?;
                    return self.add(additions, consistency, time).await;
                }
                consistency.check_write()?;
                let mutations = self.modify(modify, &request, consistency).await?;
                self.write(mutations, consistency, WriteType::Simple, time)
                    .await
            }
            Plan::Batch(batch) => {
                *self.kind = RequestKind::Batch;
                let consistency = parameters.consistency;
                let request = self.request(prepared, parameters)?;
                for statement in batch.statements() {
                    self.guard_write(statement)?;
                }
                self.guard_consistency(consistency)?;
                for statement in batch.statements() {
                    self.guard_disk_usage(statement, &request)?;
                }
                for statement in batch.statements() {
                    self.guard_modify(statement, &request, true)?;
                }
                if batch.is_conditional() {
                    let cas = self.evaluate(&request, || batch.cas(&request)).await?;
                    let time = batch.timeout(&request)?;
                    let conditional = self.conditional(cas, parameters, time);
                    return Box::pin(conditional).await;
                }
                let time = batch.timeout(&request)?;
                let tables = batch.statements().iter().map(|plan| &**plan.table());
                self.warnings
                    .extend(cql::warn_of_no_grace(batch.kind(), tables));
                if batch.is_counter() {
                    let counted = || batch.counter_mutations(&request);
                    let additions = self.evaluate(&request, counted).await?;
                    return self
                        .add_batch(additions, consistency, batch.kind(), time)
                        .await;
                }
                let reads = self.evaluate(&request, || batch.reads(&request)).await?;
                let known = self.known(reads, consistency, time).await?;
                let mutations = || batch.mutations(&request, &known);
                let mutations = self.evaluate(&request, mutations).await?;
                self.write_batch(mutations, consistency, batch.kind(), time)
                    .await
            }
            Plan::Truncate(truncate) => {
                *self.kind = RequestKind::Schema;
                let time = truncate.timeout(&self.request(prepared, parameters)?)?;
                self.truncate(truncate.table(), time).await
            }
            Plan::Use(keyspace) => {
                let metadata = self.shard.metadata();
                if !metadata.schema.keyspaces.contains_key(keyspace.as_str()) {
                    let missing = format!("Keyspace '{keyspace}' does not exist");
                    return Err(CqlError::Invalid(missing).into());
                }
                *self.client.keyspace.borrow_mut() = Some(keyspace.as_str().into());
                self.response().set_keyspace(keyspace);
                Ok(())
            }
            Plan::Schema(change) => {
                *self.kind = RequestKind::Schema;
                let change = self.guard_schema(change)?;
                let before = self.shard.metadata().schema.clone();
                let changed = Box::pin(metadata::change(self.shard, &change)).await?;
                let warnings = self.shard.metadata().warnings(&change, &before);
                self.warnings.extend(warnings);
                match changed {
                    Some(change) => self.response().schema_change(&change),
                    None => self.response().void(),
                }
                Ok(())
            }
            Plan::Describe(describe) => {
                let columns = columns.ok_or_else(no_columns)?;
                self.describe(describe, columns, parameters)
            }
        }
    }

    /// One execution of a statement: its values, its time.
    fn request<'v, 'q: 'v>(
        &self,
        prepared: &Prepared,
        parameters: &'v QueryParameters<'q>,
    ) -> Result<cql::Request<'v>, RequestError> {
        let values = prepared.bind(&parameters.values, &parameters.names)?;
        Ok(self.request_of(Some(prepared), values, parameters))
    }

    pub(crate) fn request_of<'v>(
        &self,
        prepared: Option<&Prepared>,
        values: cql::Values<'v>,
        parameters: &QueryParameters<'_>,
    ) -> cql::Request<'v> {
        let env = &self.shard.env;
        let now = self.shard.timestamps.next(env);
        let mut request = cql::Request::new(values, now, env.random_u64());
        if let Some(timestamp) = parameters.timestamp {
            request.timestamp_micros = timestamp;
        }
        if let Some(seconds) = parameters.now_in_seconds {
            request.now_seconds = seconds;
        }
        if let Some(language) = &self.shard.functions
            && prepared.is_some_and(Prepared::calls_functions)
        {
            request.functions.set_language(language.clone());
        }
        request
    }

    async fn select(
        &mut self,
        prepared: &Prepared,
        select: &SelectPlan,
        columns: ResultColumns<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Result<(), RequestError> {
        let mut consistency = parameters.consistency;
        consistency.check_read()?;
        if select.is_nearest() {
            consistency = self.level_of_nearest(consistency)?;
        }
        let request = self.request(prepared, parameters)?;
        let paging = Paging {
            page_size: page_size(parameters),
            state: parameters.paging_state,
        };
        let (shard, trace, functions) = (self.shard, self.trace, &request.functions);
        functions.may_give_way(true);
        // As `evaluate` does, but in place: what it gives is large.
        let mut run = loop {
            match select.start(&request, paging) {
                Ok(run) => break run,
                Err(error) => give_way(shard, functions, error).await?,
            }
        };
        functions.next_step();
        functions.may_give_way(false);
        if consistency.is_serial() && run.reads_several_at_once() {
            return Err(RequestError::invalid(
                "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time",
            ));
        }
        self.warn_of_page(&run, paging.page_size);
        self.guard_read(&run, parameters)?;
        self.warnings.extend(select.warning().map(str::to_owned));
        let time = select.timeout(&request)?;
        let mut rows = self.rows(&columns, parameters);
        let mut told_of_indexes = false;
        loop {
            let commands = run.reads();
            if commands.is_empty() {
                break;
            }
            let pages = coordinator::read_all(shard, &commands, consistency, time, trace).await?;
            for (command, page) in commands.iter().zip(&pages) {
                rows.warn(read_warnings::of_tombstones(shard, command, page));
                if page.scanned.index_nodes > 0 && !std::mem::replace(&mut told_of_indexes, true) {
                    rows.warn(read_warnings::of_indexes(command, page));
                }
                make_room(&mut rows, page);
                functions.may_give_way(true);
                while let Err(error) = run.absorb(page, &mut |row| put_row(&mut rows, row)) {
                    give_way(shard, functions, error).await?;
                }
                check_size(&rows)?;
                shard.env.maybe_yield().await;
            }
        }
        functions.may_give_way(true);
        let state = loop {
            match run.finish(&mut |row| put_row(&mut rows, row)) {
                Ok(state) => break state,
                Err(error) => give_way(shard, functions, error).await?,
            }
        };
        check_size(&rows)?;
        rows.finish(state.as_deref());
        Ok(())
    }

    /// The level at which the nearest rows are read; who asks for another is warned
    /// (`SelectStatement.execute`).
    fn level_of_nearest(&mut self, asked: Consistency) -> Result<Consistency, RequestError> {
        let level = asked.of_nearest()?;
        if level != asked {
            self.warnings.push(format!(
                "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / \
                 NODE_LOCAL. Consistency level {asked} was requested. Downgrading the consistency \
                 level to {level}."
            ));
        }
        Ok(level)
    }

    /// The nearest rows come on one page: who asks for smaller ones is warned.
    fn warn_of_page(&mut self, run: &cql::SelectRun<'_>, page_size: Option<u32>) {
        if let (Some(limit), Some(size)) = (run.limit_of_nearest(), page_size)
            && size < limit
        {
            self.warnings.push(format!(
                "Top-K queries do not support paging and the page size is set to {size}, which is \
                 less than LIMIT {limit}. The page size has been set to {limit} to match the LIMIT."
            ));
        }
    }

    fn rows(
        &mut self,
        columns: &ResultColumns<'_>,
        parameters: &QueryParameters<'_>,
    ) -> RowsWriter<'_> {
        self.response().rows(&rows_head(columns, parameters))
    }

    /// What a statement writes; some have to read before.
    pub(crate) async fn modify(
        &self,
        modify: &ModifyPlan,
        request: &cql::Request<'_>,
        consistency: Consistency,
    ) -> Result<Vec<Mutation>, RequestError> {
        let reads = self.evaluate(request, || modify.reads(request)).await?;
        let time = modify.timeout(request)?;
        let known = self.known(reads, consistency, time).await?;
        self.evaluate(request, || modify.mutations(request, &known))
            .await
    }

    /// The answers to reads that a write needs.
    async fn known(
        &self,
        reads: Vec<ReadCommand>,
        consistency: Consistency,
        time: Option<Duration>,
    ) -> Result<Vec<model::ReadPage>, RequestError> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let consistency = match consistency {
            Consistency::Any => Consistency::One,
            Consistency::EachQuorum => Consistency::LocalQuorum,
            other => other,
        };
        // Boxed: few writes read, and the state of each would have room for it.
        let pages = coordinator::read_all(self.shard, &reads, consistency, time, self.trace);
        Ok(Box::pin(pages).await?.into_vec())
    }

    /// Writes. `time`: in place of the usual one, here and below.
    pub(crate) async fn write(
        &mut self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        write_type: WriteType,
        time: Option<Duration>,
    ) -> Result<(), RequestError> {
        self.guard_mutations(&mutations)?;
        self.refuse_vectors(&mutations, (consistency, write_type))?;
        self.trace(|| "Determining replicas for mutation");
        let level = (consistency, write_type);
        coordinator::write(self.shard, mutations, level, time, self.trace).await?;
        self.response().void();
        Ok(())
    }

    /// Fails as replicas would of which each refuses a vector that it is to index.
    pub(crate) fn refuse_vectors(
        &self,
        mutations: &[Mutation],
        (consistency, write_type): (Consistency, WriteType),
    ) -> Result<(), RequestError> {
        let mut updates = mutations.iter().flat_map(|mutation| &mutation.updates);
        let refused = updates.find_map(|update| Some((update, cql::refused_vector(update)?)));
        let Some((update, why)) = refused else {
            return Ok(());
        };
        let level = (consistency, write_type);
        Err(coordinator::unwritable(self.shard, update, level, why))
    }

    /// Adds to counters.
    pub(crate) async fn add(
        &mut self,
        additions: Vec<CounterMutation>,
        consistency: Consistency,
        time: Option<Duration>,
    ) -> Result<(), RequestError> {
        self.trace(|| "Determining replicas for mutation");
        let adding = coordinator::add(self.shard, additions, consistency, time, self.trace);
        Box::pin(adding).await?;
        self.response().void();
        Ok(())
    }

    async fn truncate(
        &mut self,
        table: &Arc<Table>,
        time: Option<Duration>,
    ) -> Result<(), RequestError> {
        if cql::can_forget(table) {
            self.response().void();
            return Ok(());
        }
        refuse_virtual(table)?;
        self.guard_truncate()?;
        if let Some(trace) = self.trace {
            trace.truncating(table);
        }
        Box::pin(truncate::everywhere(self.shard, table.id, time)).await?;
        self.response().void();
        Ok(())
    }
}

/// PREPARE: all shards know the statement before the client does, as it may execute it on any of
/// its connections.
pub(crate) async fn prepare(
    call: &mut Call<'_>,
    prepare: &Prepare<'_>,
) -> Result<(), RequestError> {
    *call.kind = RequestKind::Prepare;
    let keyspace = call.keyspace(prepare.keyspace);
    if let Some(trace) = call.trace {
        trace.request("Preparing CQL3 query", Some(prepare.text));
        trace.event(format!("Parsing {}", prepare.text));
    }
    let plan = call.plan(prepare.text, prepare.keyspace, &mut { MAX_TOKENS })?;
    call.trace(|| "Preparing statement");
    let statement = Arc::new(Statement::new(prepare.text, keyspace.as_deref(), plan));
    let shard = call.shard;
    let is_new = !shard.statements.borrow().contains(&statement.id);
    let kept = prepared::keep_everywhere(shard, &statement).await;
    kept.map_err(RequestError::Overloaded)?;
    if is_new {
        Box::pin(prepared::save(shard, &statement, keyspace.as_deref())).await;
    }
    let version = call.version;
    call.response().prepared(&wire::Prepared {
        id: &statement.id,
        result_metadata_id: &statement.result_metadata_id,
        variables: statement.variables(version),
        partition_key_indexes: &statement.prepared.partition_key_indexes,
        extension_flags: 0,
        // What DESCRIBE shows is told with the rows only, as the statement may be of another keyspace by then.
        result_columns: match statement.prepared.plan {
            Plan::Describe(_) => None,
            _ => statement.columns(version),
        },
    });
    Ok(())
}

/// What precedes the rows of a result.
fn rows_head<'a>(columns: &ResultColumns<'a>, parameters: &QueryParameters<'_>) -> RowsHead<'a> {
    RowsHead {
        columns: columns.columns,
        skip_metadata: parameters.skip_metadata,
        new_metadata_id: columns.new_id.map(|id| &id[..]),
    }
}

fn no_columns() -> RequestError {
    RequestError::Server("a statement with rows has no columns".to_owned())
}

/// May counters of a table be added to at this level? Batches are not asked
/// (`ConsistencyLevel.validateCounterForWrite`).
fn check_counter_level(consistency: Consistency, table: &Table) -> Result<(), RequestError> {
    if consistency == Consistency::Any {
        return Err(RequestError::invalid(format!(
            "Consistency level ANY is not yet supported for counter table {}",
            table.name
        )));
    }
    Ok(consistency.check_counter_write()?)
}

/// What the node makes on the fly cannot be emptied.
fn refuse_virtual(table: &Table) -> Result<(), RequestError> {
    if table.is_virtual {
        return Err(RequestError::invalid(format!(
            "Truncation is not supported by table {}.{}",
            table.keyspace, table.name
        )));
    }
    Ok(())
}

pub(crate) fn page_size(parameters: &QueryParameters<'_>) -> Option<u32> {
    let size = parameters.page_size?;
    u32::try_from(size).ok().filter(|size| *size > 0)
}
