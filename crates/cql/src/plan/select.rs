//! SELECT, analysed (`SelectStatement`).

use std::sync::Arc;
use std::time::Duration;

use model::{Column, ColumnId, ColumnKind, CompactForm, CqlType, Order, Table};

use crate::CqlError;
use crate::ast::{Select, SelectClause, Selector, Term};
use crate::error::invalid;
use crate::term::{Analysis, Bound, ColumnSpec, Expression, Receiver, Request, prepare};

use super::attributes::Timeout;
use super::filter::FilterPlan;
use super::group::{Common, group_by};
use super::keys::KeyPlan;
use super::nearest::{self, NearestPlan};
use super::point::{PartitionPlan, PointPlan};
use super::restrictions::{NEEDS_FILTERING, Restrictions, StatementKind, named, refuse_key_in};
use super::selection::Selection;
use super::slices::SlicePlan;

/// A SELECT that is ready to be executed with values.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) selection: Selection,
    pub(crate) keys: KeyPlan,
    pub(crate) slices: SlicePlan,
    pub(crate) filters: FilterPlan,
    /// The regular and static columns to read, sorted.
    pub(crate) columns: Vec<ColumnId>,
    pub(crate) distinct: bool,
    pub(crate) reversed: bool,
    /// Show a partition without rows that has static columns?
    pub(crate) shows_static: bool,
    /// Are rows chosen one by one, and static columns among what Cassandra fetches? Then it looks
    /// at the key even where no row can be found.
    pub(crate) looks_at_key: bool,
    /// Is a row of the result that of a partition, whatever rows it has? Of tables WITH COMPACT
    /// STORAGE without clustering columns, whose rows are hidden; but DISTINCT shows partitions
    /// that have nothing else.
    pub(crate) only_partitions: bool,
    /// Where several partitions are sorted together: the slots, types and orders.
    pub(crate) sort: Vec<SortKey>,
    /// The vector to which the nearest rows are wanted, if any are.
    pub(crate) nearest: Option<NearestPlan>,
    /// The slots, or expressions, whose values make a group.
    pub(crate) group_by: Vec<Common>,
    limit: Option<Expression>,
    per_partition_limit: Option<Expression>,
    timeout: Option<Timeout>,
    pub(crate) bypass_cache: bool,
    /// `ALLOW FILTERING`
    pub(crate) allows_filtering: bool,
    /// Is an index asked?
    pub(crate) uses_index: bool,
    /// May rows come as memtables have them?
    pub(crate) packed: bool,
    /// Where its row is, if it is of one and shows no more than columns of it.
    pub(crate) point: Option<PointPlan>,
    /// Which partition it reads, if it gives all rows of one and shows no more than columns of them.
    pub(crate) partition: Option<PartitionPlan>,
}

/// A column that rows of several partitions are sorted by.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) slot: usize,
    pub(crate) ty: CqlType,
    pub(crate) order: Order,
}

impl SelectPlan {
    /// Analyses a SELECT on its table.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        select: &Select,
    ) -> Result<SelectPlan, CqlError> {
        let mut selection = Selection::new(analysis, &table, &select.selection, select.json)?;
        let nearest_of = nearest::nearest(analysis, &table, select)?;
        for ordering in &select.order_by {
            named(&table, &ordering.column)?;
        }
        // Virtual tables are small: they are filtered without being told to.
        let allow_filtering = select.allow_filtering || table.is_virtual;
        let kind = StatementKind::Select {
            allow_filtering: allow_filtering || nearest_of.is_some(),
            nearest: nearest_of.as_ref().map(|(column, _)| column.id),
        };
        let mut restrictions = Restrictions::new(analysis, &table, &select.relations, kind, false)?;
        if restrictions.restricts_clustering
            && select.selection != SelectClause::Wildcard
            && selects_only_statics(&selection)
            && !has_map(&select.selection)
        {
            return invalid!(
                "Cannot restrict clustering columns when selecting only static columns"
            );
        }
        let per_partition_limit = limit_term(
            analysis,
            select.per_partition_limit.as_ref(),
            "[per_partition_limit]",
        )?;
        let limit = limit_term(analysis, select.limit.as_ref(), "[limit]")?;

        if select.distinct {
            check_distinct(&table, select, &selection, &restrictions)?;
        }
        let group_by = group_by(analysis, &table, &mut selection, select, &restrictions)?;
        let aggregated = !selection.aggregates.is_empty();
        if select.per_partition_limit.is_some() && aggregated && group_by.is_empty() {
            return invalid!("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
        let nearest = match nearest_of {
            Some((column, vector)) => {
                let slot = selection.slot_of(column)?;
                let plan = NearestPlan::new(&table, (column, vector), slot)?;
                check_nearest(select, &restrictions, aggregated || !group_by.is_empty())?;
                Some(plan)
            }
            None => None,
        };
        if restrictions.must_filter && !allow_filtering {
            return invalid!("{NEEDS_FILTERING}");
        }
        if let Some(error) = restrictions.cannot_filter.take() {
            return Err(error);
        }
        let shows_static = !restrictions.restricts_clustering && !restrictions.restricts_regular;
        let key_in = restrictions.has_key_in();
        let keys = KeyPlan::new(&table, &mut restrictions);
        let slices = SlicePlan::new(&table, std::mem::take(&mut restrictions.slices));
        let filters = FilterPlan::new(&table, std::mem::take(&mut restrictions.filters));
        let reversed = reversed(&table, select, &keys, (&slices, restrictions.uses_index))?;
        let sort = if key_in {
            sort_keys(&table, &mut selection, select)?
        } else {
            Vec::new()
        };
        let columns = columns_to_read(&table, &selection, shows_static);
        let used = selection.fetch.used_columns();
        let uses = |kind| used.iter().any(|column: &Column| column.kind == kind);
        let looks_at_key = slices.selects_rows()
            && table.statics().len() > 0
            && (uses(ColumnKind::Static) || !uses(ColumnKind::Regular));
        let only_partitions = table.compact == Some(CompactForm::Static) && !select.distinct;
        let packed = table.has_single_cells() && !table.is_virtual && !selection.fetch.has_times();
        let mut plan = SelectPlan {
            only_partitions,
            packed,
            point: None,
            partition: None,
            table,
            selection,
            keys,
            slices,
            filters,
            columns,
            distinct: select.distinct,
            reversed,
            shows_static,
            looks_at_key,
            sort,
            nearest,
            group_by,
            limit,
            per_partition_limit,
            timeout: Timeout::new(analysis, select.timeout.as_ref())?,
            bypass_cache: select.bypass_cache,
            allows_filtering: select.allow_filtering,
            uses_index: restrictions.uses_index,
        };
        plan.point = PointPlan::of(&plan);
        if plan.point.is_none() {
            plan.partition = PartitionPlan::of(&plan);
        }
        Ok(plan)
    }

    /// The table that is read.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.selection.columns
    }

    /// Does it look at rows that it may not give?
    pub fn filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Does it read a range of the ring, not the partitions of given keys?
    pub fn is_range(&self) -> bool {
        self.keys.is_range()
    }

    /// How long its reads may take, if the statement says so.
    pub fn timeout(&self, request: &Request<'_>) -> Result<Option<Duration>, CqlError> {
        Timeout::of(self.timeout.as_ref(), request)
    }

    /// What clients are warned of: aggregates and groups over more than one partition.
    pub fn warning(&self) -> Option<&'static str> {
        if !self.is_aggregate() {
            None
        } else if !self.keys.restricts() && !self.filters.restricts_key(&self.table) {
            Some("Aggregation query used without partition key")
        } else if self.keys.has_in()
            || !self.keys.restricts() && self.filters.has_in_of_key(&self.table)
        {
            Some("Aggregation query used on multiple partition keys (IN restriction)")
        } else {
            None
        }
    }

    /// Are rows put together, so that pages cannot be taken as they come?
    pub(crate) fn is_aggregate(&self) -> bool {
        !self.selection.aggregates.is_empty() || !self.group_by.is_empty()
    }

    /// Is a row given wherever one is read? No limit is nought or bound, and nothing times out otherwise.
    pub(crate) fn gives_any_row(&self) -> bool {
        allows_a_row(self.limit.as_ref())
            && allows_a_row(self.per_partition_limit.as_ref())
            && self.timeout.is_none()
    }

    /// Is nothing said of how many rows are given?
    pub(crate) fn has_no_limit(&self) -> bool {
        self.limit.is_none() && self.per_partition_limit.is_none()
    }

    /// Are rows that come in one piece given as they lie there?
    pub(crate) fn shows_packed(&self) -> bool {
        let as_they_come = !self.distinct && !self.is_aggregate() && !self.keeps_rows();
        self.packed && self.selection.is_plain() && as_they_come
    }

    /// Are the nearest rows to something wanted?
    pub fn is_nearest(&self) -> bool {
        self.nearest.is_some()
    }

    /// Are all rows kept, to be sorted at the end?
    pub(crate) fn keeps_rows(&self) -> bool {
        !self.sort.is_empty() || self.nearest.is_some()
    }

    /// Are groups kept, to be sorted at the end?
    pub(crate) fn sorts_groups(&self) -> bool {
        !self.sort.is_empty() && !self.group_by.is_empty()
    }

    /// The limits of this execution: in all, and of each partition.
    pub(crate) fn limits(&self, request: &Request<'_>) -> Result<(u32, u32), CqlError> {
        let limit = limit_value(self.limit.as_ref(), request)?;
        let of_partition = limit_value(self.per_partition_limit.as_ref(), request)?;
        Ok((limit, of_partition))
    }
}

fn limit_term(
    analysis: &Analysis<'_>,
    term: Option<&Term>,
    name: &str,
) -> Result<Option<Expression>, CqlError> {
    term.map(|term| prepare(analysis, term, &Receiver::new(name, CqlType::Int)))
        .transpose()
}

/// Is one row within a limit, whatever is bound?
fn allows_a_row(limit: Option<&Expression>) -> bool {
    match limit {
        None => true,
        Some(Expression::Constant(Some(bytes))) => {
            <[u8; 4]>::try_from(&**bytes).is_ok_and(|limit| i32::from_be_bytes(limit) > 0)
        }
        Some(_) => false,
    }
}

fn limit_value(limit: Option<&Expression>, request: &Request<'_>) -> Result<u32, CqlError> {
    let Some(limit) = limit else {
        return Ok(u32::MAX);
    };
    match limit.evaluate(request)? {
        Bound::Unset => Ok(u32::MAX),
        Bound::Null => invalid!("Invalid null value of limit"),
        Bound::Value(bytes) => {
            let limit = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes);
            match limit.ok().and_then(|limit| u32::try_from(limit).ok()) {
                Some(0) => invalid!("LIMIT must be strictly positive"),
                Some(limit) => Ok(limit),
                None if limit.is_err() => invalid!("Invalid limit value"),
                None => invalid!("LIMIT must be strictly positive"),
            }
        }
    }
}

/// The columns that must be read, with the static ones where partitions without rows show.
fn columns_to_read(table: &Table, selection: &Selection, shows_static: bool) -> Vec<ColumnId> {
    let mut columns = selection.read_columns();
    if shows_static {
        columns.extend(table.statics().map(|column| column.id));
        columns.sort_unstable();
        columns.dedup();
    }
    columns
}

/// Static columns, and nothing besides but columns of the partition key?
fn selects_only_statics(selection: &Selection) -> bool {
    let columns = selection.fetch.used_columns();
    let of_partition =
        |column: &Column| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static);
    columns
        .iter()
        .any(|column| column.kind == ColumnKind::Static)
        && columns.iter().all(of_partition)
}

/// Is a map or a value of a user type made in the clause? Cassandra does not look for columns in there, and takes it
/// for one that is not static.
fn has_map(clause: &SelectClause) -> bool {
    fn makes_map(selector: &Selector) -> bool {
        match selector {
            Selector::Map(_) => true,
            Selector::TypeHint(_, of)
            | Selector::Negation(of)
            | Selector::Cast(of, _)
            | Selector::Field(of, _)
            | Selector::Element(of, _)
            | Selector::Slice(of, ..) => makes_map(of),
            Selector::Function { arguments: all, .. }
            | Selector::Parentheses(all)
            | Selector::List(all)
            | Selector::Set(all) => all.iter().any(makes_map),
            Selector::Operation { left, right, .. } => makes_map(left) || makes_map(right),
            _ => false,
        }
    }
    match clause {
        SelectClause::Items(items) => items.iter().any(|item| makes_map(&item.selector)),
        SelectClause::Wildcard => false,
    }
}

fn check_distinct(
    table: &Table,
    select: &Select,
    selection: &Selection,
    restrictions: &Restrictions,
) -> Result<(), CqlError> {
    if select.per_partition_limit.is_some() {
        return invalid!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
    }
    if restrictions.restricts_clustering || restrictions.restricts_regular {
        return invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or \
             static columns."
        );
    }
    let mut columns: Vec<Column> = selection.fetch.used_columns();
    // What rows of several partitions are sorted by is read, too.
    if restrictions.has_key_in() {
        for ordering in &select.order_by {
            columns.push(named(table, &ordering.column)?.clone());
        }
    }
    for column in &columns {
        if matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular) {
            return invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static \
                 columns (not {})",
                column.name
            );
        }
    }
    if restrictions.has_keys() {
        return Ok(());
    }
    // Over a range of the ring, or partitions that differ would look alike.
    for key in table.partition_key() {
        if !columns.iter().any(|column| column.id == key.id) {
            return invalid!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                key.name
            );
        }
    }
    Ok(())
}

/// What cannot be asked for with the nearest rows.
fn check_nearest(
    select: &Select,
    restrictions: &Restrictions,
    is_aggregate: bool,
) -> Result<(), CqlError> {
    if restrictions.unindexed {
        return invalid!("ANN ordering by vector requires all restricted column(s) to be indexed");
    }
    if restrictions.has_key_in() {
        return refuse_key_in();
    }
    if select.per_partition_limit.is_some() {
        return invalid!("Top-K queries do not support per-partition limits");
    }
    if is_aggregate {
        return invalid!("Top-K queries can not be run with aggregation");
    }
    if select.distinct {
        return invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or \
             static columns."
        );
    }
    Ok(())
}

/// Are rows wanted from the last to the first? (`SelectStatement.isReversed`)
fn reversed(
    table: &Table,
    select: &Select,
    keys: &KeyPlan,
    (slices, uses_index): (&SlicePlan, bool),
) -> Result<bool, CqlError> {
    if select
        .order_by
        .iter()
        .all(|ordering| ordering.ann.is_some())
    {
        return Ok(false);
    }
    if uses_index {
        return invalid!("ORDER BY with 2ndary indexes is not supported, except for ANN queries.");
    }
    if keys.is_range() {
        return invalid!(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
        );
    }
    let mut result = None;
    let mut position = 0;
    for ordering in &select.order_by {
        let column = named(table, &ordering.column)?;
        if column.kind != ColumnKind::Clustering {
            return invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, \
                 got {}",
                column.name
            );
        }
        while position < column.position && slices.fixes(position) {
            position += 1;
        }
        if column.position != position {
            return invalid!(
                "Order by currently only supports the ordering of columns following their declared \
                 order in the PRIMARY KEY"
            );
        }
        position += 1;
        let against = ordering.order != column.order;
        if result.is_some_and(|known| known != against) {
            return invalid!("Unsupported order by relation");
        }
        result = Some(against);
    }
    Ok(result.unwrap_or(false))
}

/// What rows of several partitions are sorted by.
fn sort_keys(
    table: &Table,
    selection: &mut Selection,
    select: &Select,
) -> Result<Vec<SortKey>, CqlError> {
    let orderings = select.order_by.iter();
    orderings
        .filter(|ordering| ordering.ann.is_none())
        .map(|ordering| {
            let column = named(table, &ordering.column)?;
            Ok(SortKey {
                slot: selection.slot_of(column)?,
                ty: column.ty.clone(),
                order: ordering.order,
            })
        })
        .collect()
}
