//! A node that keeps everything in memory and does everything in the most obvious way: to see what
//! plans do.

#![allow(dead_code)] // no test needs all of it

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use cql::functions::FunctionLanguage;
use cql::schema::Features;
use cql::{
    CasRequest, ColumnSpec, Context, CqlError, ModifyPlan, Paging, Plan, Prepared, Request,
    SelectPlan, Value, prepare,
};
use model::{
    ClusteringSelection, ColumnKind, CounterMutation, DecoratedKey, FilterOperator, Mutation,
    PackedRow, Partition, PartitionBound, PartitionSelection, PartitionUpdate, ReadCommand,
    ReadPage, Row, RowFilter, Schema, Slice, Table, TableId, collection, decode_key,
};
use uuid::Uuid;

/// Tables and their contents.
pub(crate) struct Memory {
    pub(crate) schema: Schema,
    tables: BTreeMap<TableId, BTreeMap<DecoratedKey, PartitionUpdate>>,
    pub(crate) now_micros: i64,
    /// What functions are written in.
    pub(crate) language: Option<Rc<dyn FunctionLanguage>>,
    ids: u128,
}

/// The rows of a result, and where it goes on.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) columns: Option<Vec<ColumnSpec>>,
    pub(crate) rows: Vec<Vec<Option<Vec<u8>>>>,
    pub(crate) state: Option<Vec<u8>>,
}

/// How the rows of a page come, if it may have them so.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    Made,
    Packed,
}

/// Lays out the rows of a partition as memtables have them.
fn pack(partition: &mut Partition) {
    let mut scratch = Vec::new();
    let rows = std::mem::take(&mut partition.rows).into_iter();
    partition.packed = rows.map(|row| PackedRow::new(&row, &mut scratch)).collect();
}

/// Evaluates as often as functions give way.
fn again<T>(
    request: &Request<'_>,
    mut step: impl FnMut() -> Result<T, CqlError>,
) -> Result<T, CqlError> {
    loop {
        match step() {
            Err(CqlError::GaveWay) => request.functions.again(),
            result => {
                request.functions.next_step();
                return result;
            }
        }
    }
}

/// What a SELECT has shown.
type Shown = Vec<Vec<Option<Vec<u8>>>>;

/// What a statement of one row, or of one partition, would be answered at once; `None` of other statements.
fn as_it_lies(
    select: &SelectPlan,
    values: &[Value<'_>],
    command: &ReadCommand,
    page: &ReadPage,
) -> Option<Shown> {
    if let Some(partition) = select.partition() {
        let key = partition.key(values, Bytes::copy_from_slice);
        return partition_as_it_lies(select, &key.expect("it is one"), command, page);
    }
    let place = select.point()?.place(values, Bytes::copy_from_slice);
    let (key, clustering) = place.expect("there is nothing wrong with it");
    assert!(matches!(&command.partitions, PartitionSelection::Key(asked) if *asked == key));
    let all = clustering.0.is_empty();
    let slice = if all {
        Slice::ALL
    } else {
        Slice::of_prefix(clustering)
    };
    assert_eq!(command.clustering.slices, [slice]);
    assert_eq!(command.columns, select.read_columns());
    let mut rows = Vec::new();
    let found = page.partitions.iter().flat_map(|partition| &partition.rows);
    for row in found {
        let values = row.cells.iter().map(|cell| (cell.column, &cell.value[..]));
        let mut sink = |cells: &[Option<&[u8]>]| {
            rows.push(cells.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect());
        };
        select.show(key.key(), row.clustering.values(), values, &mut sink);
    }
    Some(rows)
}

fn partition_as_it_lies(
    select: &SelectPlan,
    key: &DecoratedKey,
    command: &ReadCommand,
    page: &ReadPage,
) -> Option<Shown> {
    assert!(matches!(&command.partitions, PartitionSelection::Key(asked) if asked == key));
    assert_eq!(command.clustering.slices, [Slice::ALL]);
    assert!(!command.clustering.reversed);
    assert_eq!(command.columns, select.read_columns());
    if command.resume.is_some() {
        return None;
    }
    let mut partitions = page.partitions.clone();
    partitions.iter_mut().for_each(pack);
    let mut rows = Vec::new();
    let mut shown = select.show_rows(key.key());
    for row in partitions.iter().flat_map(|partition| &partition.packed) {
        let row_of =
            |cells: &[Option<&[u8]>]| cells.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
        shown.row(row, &mut |cells| rows.push(row_of(cells)));
    }
    Some(rows)
}

/// What a write of one row says at once, at a time in microseconds and in seconds since 1970.
pub(crate) fn at_once(
    modify: &ModifyPlan,
    values: &[Value<'_>],
    times: (i64, u32),
) -> Option<PartitionUpdate> {
    let key = modify.point_key(values, Bytes::copy_from_slice)?;
    let update =
        modify.point_update(key, values, Bytes::copy_from_slice, times, &mut Vec::new())?;
    Some(update.unpack())
}

/// What a write of one row says at once is what it says in the usual way, if that is no error.
fn compare_at_once(
    modify: &ModifyPlan,
    values: &[Value<'_>],
    request: &Request<'_>,
    mutations: Option<&[Mutation]>,
) {
    let times = (request.timestamp_micros, request.now_seconds);
    if let Some(update) = at_once(modify, values, times) {
        let updates = vec![update];
        assert_eq!(mutations, Some(&[Mutation { updates }][..]));
    }
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory {
            schema: Schema::default(),
            tables: BTreeMap::new(),
            now_micros: 1_700_000_000_000_000,
            language: None,
            ids: 0,
        }
    }

    pub(crate) fn prepare(&self, text: &str) -> Result<Prepared, CqlError> {
        let context = Context {
            schema: &self.schema,
            keyspace: None,
        };
        prepare(text, &context)
    }

    /// Runs a prepared statement.
    pub(crate) fn execute(
        &mut self,
        prepared: &Prepared,
        values: &[Value<'_>],
        page_size: Option<u32>,
        state: Option<&[u8]>,
    ) -> Result<Answer, CqlError> {
        self.now_micros += 1_000;
        let request = self.request(prepared, values)?;
        match &prepared.plan {
            Plan::Select(select) => {
                let paging = Paging { page_size, state };
                let mut answer = self.select(select, &request, paging, Rows::Made)?;
                answer.columns = prepared.result_columns.clone();
                // However the rows come, they are the same.
                let request = self.request(prepared, values)?;
                let packed = self.select(select, &request, paging, Rows::Packed)?;
                assert_eq!(answer.rows, packed.rows);
                assert_eq!(answer.state, packed.state);
                return Ok(answer);
            }
            Plan::Modify(modify) if modify.is_conditional() => {
                return self.cas(&modify.cas(&request)?);
            }
            Plan::Batch(batch) if batch.is_conditional() => {
                return self.cas(&batch.cas(&request)?);
            }
            Plan::Modify(modify) if modify.is_counter() => {
                self.lead(modify.counter_mutations(&request)?, request.now_seconds);
            }
            Plan::Batch(batch) if batch.is_counter() => {
                self.lead(batch.counter_mutations(&request)?, request.now_seconds);
            }
            Plan::Modify(modify) => {
                let pages = self.read_all(&again(&request, || modify.reads(&request))?);
                let mutations = again(&request, || modify.mutations(&request, &pages));
                compare_at_once(modify, values, &request, mutations.as_deref().ok());
                self.apply(mutations?);
            }
            Plan::Batch(batch) => {
                let pages = self.read_all(&batch.reads(&request)?);
                self.apply(batch.mutations(&request, &pages)?);
            }
            Plan::Truncate(truncate) => {
                self.tables.remove(&truncate.table().id);
            }
            Plan::Schema(plan) => {
                let mut ids = self.ids;
                let mut next = || {
                    ids += 1;
                    Uuid::from_u128(ids)
                };
                let now = self.now_micros;
                let features = Features {
                    language: self.language.as_deref(),
                    evaluation: Some(&request),
                    views: true,
                    sasi: false,
                };
                let datacenters = ["datacenter1"];
                let schema = &self.schema;
                let change = again(&request, || {
                    plan.apply_with(schema, &mut next, now, &datacenters, features)
                })?;
                self.ids = ids;
                self.schema = change.schema;
            }
            Plan::Use(keyspace) => {
                if !self.schema.keyspaces.contains_key(keyspace.as_str()) {
                    let missing = format!("Keyspace '{keyspace}' does not exist");
                    return Err(CqlError::Invalid(missing));
                }
            }
            Plan::Describe(_) => {}
        }
        Ok(Answer::default())
    }

    fn request<'v>(
        &self,
        prepared: &Prepared,
        values: &'v [Value<'v>],
    ) -> Result<Request<'v>, CqlError> {
        let mut request = Request::new(prepared.bind(values, &[])?, self.now_micros, 42);
        if let Some(language) = &self.language {
            request.functions.set_language(language.clone());
            request.functions.may_give_way(true);
        }
        Ok(request)
    }

    /// Runs a SELECT, on rows that come so.
    fn select(
        &self,
        select: &SelectPlan,
        request: &Request<'_>,
        paging: Paging<'_>,
        rows: Rows,
    ) -> Result<Answer, CqlError> {
        let mut answer = Answer::default();
        let mut sink = |cells: &[Option<&[u8]>]| {
            let row = cells.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
            answer.rows.push(row);
        };
        let mut run = again(request, || select.start(request, paging))?;
        let mut at_once = None;
        loop {
            let commands = run.reads();
            if commands.is_empty() {
                break;
            }
            for command in commands {
                let mut page = self.read(&command);
                at_once = as_it_lies(select, request.values.as_slice(), &command, &page);
                if command.packed && rows == Rows::Packed {
                    page.partitions.iter_mut().for_each(pack);
                }
                again(request, || run.absorb(&page, &mut sink))?;
            }
        }
        let state = again(request, || run.finish(&mut sink))?;
        answer.state = state;
        if let Some(rows) = at_once {
            let plans = (select.point(), select.partition());
            assert_eq!(answer.rows, rows, "{plans:?}");
        }
        Ok(answer)
    }

    /// Agrees with itself.
    pub(crate) fn cas(&mut self, cas: &CasRequest<'_>) -> Result<Answer, CqlError> {
        let page = self.read(&cas.read_command());
        let current = page.partitions.first();
        let result = if cas.applies_to(current)? {
            let update = cas.update(current, self.now_micros)?;
            self.apply(vec![Mutation {
                updates: vec![update],
            }]);
            cas.applied()
        } else {
            cas.not_applied(current)?
        };
        let bytes = |cell: Option<bytes::Bytes>| cell.map(|cell| cell.to_vec());
        let rows = result.rows.into_iter();
        Ok(Answer {
            columns: Some(result.columns),
            rows: rows
                .map(|row| row.into_iter().map(bytes).collect())
                .collect(),
            state: None,
        })
    }

    /// Counts, as the only replica there is.
    fn lead(&mut self, mutations: Vec<CounterMutation>, now_seconds: u32) {
        for mutation in mutations {
            let current = self.read_all(&mutation.reads(now_seconds));
            let led = mutation.lead([7; 16], self.now_micros, &current);
            self.apply(vec![led.expect("only contexts are written")]);
        }
    }

    /// Takes writes in.
    pub(crate) fn apply(&mut self, mutations: Vec<Mutation>) {
        for update in mutations.into_iter().flat_map(|m| m.updates) {
            let table = self.tables.entry(update.table.id).or_default();
            let mut update = update;
            update.drop_shadowed();
            match table.get_mut(&update.key) {
                Some(known) => known.merge(update),
                None => {
                    table.insert(update.key.clone(), update);
                }
            }
        }
    }

    fn read_all(&self, commands: &[ReadCommand]) -> Vec<ReadPage> {
        commands.iter().map(|command| self.read(command)).collect()
    }

    pub(crate) fn read(&self, command: &ReadCommand) -> ReadPage {
        let mut page = ReadPage::default();
        let mut left = command.limits.rows;
        let empty = BTreeMap::new();
        let table = self.tables.get(&command.table.id).unwrap_or(&empty);
        for update in table.values() {
            if !selects(&command.partitions, &update.key) {
                continue;
            }
            let Some(mut partition) = partition(command, update) else {
                continue;
            };
            let mut per_partition = command.limits.rows_per_partition;
            if let Some(resume) = &command.resume {
                match update.key.cmp(&resume.key) {
                    std::cmp::Ordering::Less => continue,
                    std::cmp::Ordering::Greater => {}
                    std::cmp::Ordering::Equal => {
                        let Some(after) = &resume.clustering else {
                            continue;
                        };
                        let at = partition
                            .rows
                            .iter()
                            .position(|row| row.clustering == *after);
                        partition
                            .rows
                            .drain(..=at.expect("rows stay between pages"));
                        per_partition = resume.remaining_in_partition;
                        if partition.rows.is_empty() {
                            continue;
                        }
                    }
                }
            }
            partition.rows.truncate(per_partition as usize);
            if left == 0 {
                page.more = true;
                break;
            }
            let rows = (partition.rows.len() as u32).max(1);
            if rows > left {
                partition.rows.truncate(left as usize);
                page.more = true;
            }
            left = left.saturating_sub(rows);
            page.partitions.push(partition);
            if page.more {
                break;
            }
        }
        page
    }
}

fn selects(selection: &PartitionSelection, key: &DecoratedKey) -> bool {
    let (start, end) = match selection {
        PartitionSelection::Key(wanted) => return wanted == key,
        PartitionSelection::Range { start, end } => (start, end),
    };
    let above = match start {
        PartitionBound::TokenInclusive(token) => key.token() >= *token,
        PartitionBound::TokenExclusive(token) => key.token() > *token,
        _ => true,
    };
    let below = match end {
        PartitionBound::TokenInclusive(token) => key.token() <= *token,
        PartitionBound::TokenExclusive(token) => key.token() < *token,
        _ => true,
    };
    above && below
}

fn partition(command: &ReadCommand, update: &PartitionUpdate) -> Option<Partition> {
    let now = command.now_seconds;
    let table = &*command.table;
    let ClusteringSelection { slices, reversed } = &command.clustering;
    let mut static_row = update.static_row.clone();
    if let Some(row) = &mut static_row {
        row.retain_live(now);
    }
    let passes_partition = command.filters.iter().all(|filter| {
        let column = table.column(filter.column).expect("known");
        match column.kind {
            ColumnKind::PartitionKey => {
                let values = decode_key(update.key.key(), table.partition_key().len());
                passes(&values.expect("valid")[column.position], table, filter)
            }
            ColumnKind::Static => static_row
                .as_ref()
                .is_some_and(|row| row_passes(row, table, filter)),
            _ => true,
        }
    });
    if !passes_partition {
        return None;
    }
    let mut rows: Vec<Row> = update.rows.clone();
    rows.iter_mut().for_each(|row| row.retain_live(now));
    rows.retain(|row| {
        row.is_live(now)
            && slices
                .iter()
                .any(|slice| slice.contains(table.comparator(), &row.clustering))
            && command.filters.iter().all(|filter| {
                let column = table.column(filter.column).expect("known");
                match column.kind {
                    ColumnKind::Clustering => {
                        passes(&row.clustering.0[column.position], table, filter)
                    }
                    ColumnKind::Regular => row_passes(row, table, filter),
                    _ => true,
                }
            })
    });
    if *reversed {
        rows.reverse();
    }
    for row in rows.iter_mut().chain(&mut static_row) {
        row.retain_columns(&command.columns);
    }
    let static_row = static_row.filter(|row| row.is_live(now));
    if rows.is_empty() && static_row.is_none() {
        return None;
    }
    Some(Partition {
        key: update.key.clone(),
        deletion: update.deletion,
        static_row,
        rows,
        packed: Vec::new(),
        range_tombstones: Vec::new(),
    })
}

fn row_passes(row: &Row, table: &Table, filter: &RowFilter) -> bool {
    let column = table.column(filter.column).expect("known");
    let cells = row.cells_of(filter.column);
    if column.ty.is_multi_cell() {
        return cells.iter().any(|cell| {
            let path = cell.path.clone().expect("multi-cell");
            let part = match (&column.ty, filter.operator) {
                (model::CqlType::Set { .. }, _) | (_, FilterOperator::ContainsKey) => path,
                (_, FilterOperator::ContainsEntry) => {
                    collection::pack_entries([(&path, &cell.value)]).into()
                }
                _ => cell.value.clone(),
            };
            filter.values.contains(&part)
        });
    }
    cells
        .first()
        .is_some_and(|cell| passes(&cell.value, table, filter))
}

fn passes(value: &[u8], table: &Table, filter: &RowFilter) -> bool {
    let ty = &table.column(filter.column).expect("known").ty;
    filter.values.iter().any(|wanted| {
        let order = ty.compare(value, wanted);
        match filter.operator {
            FilterOperator::Equal => order.is_eq(),
            FilterOperator::Less => order.is_lt(),
            FilterOperator::LessOrEqual => order.is_le(),
            FilterOperator::Greater => order.is_gt(),
            FilterOperator::GreaterOrEqual => order.is_ge(),
            FilterOperator::Contains => match ty {
                model::CqlType::Map { .. } => collection::entries(value)
                    .is_ok_and(|all| all.iter().any(|(_, v)| *v == &wanted[..])),
                _ => collection::elements(value).is_ok_and(|all| all.contains(&&wanted[..])),
            },
            operator @ (FilterOperator::LikePrefix
            | FilterOperator::LikeSuffix
            | FilterOperator::LikeContains
            | FilterOperator::LikeMatches) => operator.is_like(value, wanted),
            FilterOperator::ContainsKey => collection::entries(value)
                .is_ok_and(|all| all.iter().any(|(k, _)| *k == &wanted[..])),
            FilterOperator::ContainsEntry => entries_of(value)
                .iter()
                .any(|entry| entries_of(wanted).contains(entry)),
        }
    })
}

fn entries_of(map: &[u8]) -> Vec<(&[u8], &[u8])> {
    collection::entries(map).unwrap_or_default()
}

/// How the Python driver calls a type: what the golden files were written with.
pub(crate) fn driver_name(ty: &model::CqlType) -> String {
    use model::CqlType;
    let many = |types: &[CqlType]| {
        let names: Vec<String> = types.iter().map(driver_name).collect();
        names.join(", ")
    };
    match ty {
        CqlType::List { element, .. } => format!("list<{}>", driver_name(element)),
        CqlType::Set { element, .. } => format!("set<{}>", driver_name(element)),
        CqlType::Map { key, value, .. } => {
            format!("map<{}, {}>", driver_name(key), driver_name(value))
        }
        CqlType::Tuple(types) => format!("frozen<tuple<{}>>", many(types)),
        CqlType::Udt { definition, .. } => format!("frozen<{}>", definition.name),
        CqlType::Vector { element, dimension } => {
            format!("vector<{}, {dimension}>", driver_name(element))
        }
        other => other.to_string(),
    }
}
