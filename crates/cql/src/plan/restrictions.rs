//! All relations of a `WHERE` together: which partitions, which rows, and what is left to filter
//! (`StatementRestrictions`).
//!
//! Relations are merged column by column in the order of the text, then sorted into three groups:
//! those on the partition key give keys or a range of tokens; those on clustering columns give
//! slices as long as each column before is restricted by equality; all others are filters, which
//! the user must have allowed.

use std::collections::BTreeMap;

use model::{Column, ColumnId, ColumnKind, CompactForm, CqlType, Order, Table};

use crate::CqlError;
use crate::ast::{Comparison, Relation};
use crate::error::invalid;
use crate::term::{Analysis, Expression};

use super::collected::Collected;
use super::indexing::{Demands, is_indexed};
use super::restriction::{
    Contents, Demand, Edge, OneOf, Restriction, Tuple, column_of, not_like, resolve,
};

/// What Cassandra says where a query would have to look at more rows than it gives.
pub(crate) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data \
    filtering and thus may have unpredictable performance. If you want to execute this query \
    despite the performance unpredictability, use ALLOW FILTERING";

/// What a statement may say of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    /// `SELECT`
    Select {
        /// `ALLOW FILTERING`
        allow_filtering: bool,
        /// The column of `ORDER BY … ANN OF`, whose index is asked.
        nearest: Option<ColumnId>,
    },
    /// `INSERT`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
}

impl StatementKind {
    fn name(self) -> &'static str {
        match self {
            StatementKind::Select { .. } => "SELECT",
            StatementKind::Insert => "INSERT",
            StatementKind::Update => "UPDATE",
            StatementKind::Delete => "DELETE",
        }
    }

    /// Is it a SELECT that may filter?
    pub(crate) fn filters(self) -> bool {
        matches!(
            self,
            StatementKind::Select {
                allow_filtering: true,
                ..
            }
        )
    }

    /// The column that rows are ordered by if the nearest are wanted.
    fn nearest(self) -> Option<ColumnId> {
        match self {
            StatementKind::Select { nearest, .. } => nearest,
            _ => None,
        }
    }
}

/// What is demanded of neighbouring clustering columns.
#[derive(Clone, Debug)]
pub(crate) struct ClusteringRestriction {
    /// The position of the first of them.
    pub(crate) first: usize,
    /// How many.
    pub(crate) count: usize,
    /// Were they written as a tuple? Then a marker for IN holds tuples.
    pub(crate) of_tuples: bool,
    /// What.
    pub(crate) demand: Demand<Tuple>,
}

/// What a column that is no usable part of a key must fulfil.
#[derive(Clone, Debug)]
pub(crate) enum FilterDemand {
    /// Of its value.
    Value(Demand<Expression>),
    /// Of its contents.
    Contents(Contents),
}

/// The restrictions of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Restrictions {
    /// Of each column of the partition key.
    pub(crate) keys: Vec<Option<Demand<Expression>>>,
    /// Of the token.
    pub(crate) token: Option<Demand<Expression>>,
    /// Of the clustering columns, as far as they make slices; by position.
    pub(crate) slices: Vec<ClusteringRestriction>,
    /// Of other columns.
    pub(crate) filters: Vec<(ColumnId, FilterDemand)>,
    /// Is any clustering column restricted, by slices or filters?
    pub(crate) restricts_clustering: bool,
    /// Is any regular column restricted?
    pub(crate) restricts_regular: bool,
    /// Are clustering columns restricted that make no slice, because of those before them?
    pub(crate) has_gaps: bool,
    /// Is an index asked?
    pub(crate) uses_index: bool,
    /// Would a SELECT look at rows that it does not give, for want of an index?
    pub(crate) must_filter: bool,
    /// Is there, beside what keys and slices decide, a column that no index decides? Of statements that
    /// want the nearest rows.
    pub(crate) unindexed: bool,
    /// Why it could not, if so.
    pub(crate) cannot_filter: Option<CqlError>,
}

/// An index is asked, or would be, beside several keys.
pub(super) fn refuse_key_in<T>() -> Result<T, CqlError> {
    invalid!("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
}

impl Restrictions {
    /// Resolves, merges and checks the relations of a statement. `only_static`: it reads or writes
    /// nothing but static columns.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: &Table,
        relations: &[Relation],
        kind: StatementKind,
        only_static: bool,
    ) -> Result<Restrictions, CqlError> {
        let mut collected = Collected::default();
        for relation in relations {
            let looks_into = matches!(
                relation.comparison,
                Comparison::Contains | Comparison::ContainsKey
            );
            if looks_into && matches!(kind, StatementKind::Update | StatementKind::Delete) {
                return invalid!(
                    "Cannot use {} with {}",
                    kind.name(),
                    relation.comparison.symbol()
                );
            }
            let restriction = resolve(analysis, table, relation)?;
            if relation.comparison == Comparison::Like
                && !matches!(kind, StatementKind::Select { .. })
            {
                return not_like(relation);
            }
            collected.add(table, restriction, kind)?;
        }
        Restrictions::of(table, collected, kind, only_static)
    }

    /// Of columns that are set to values, as INSERT names them.
    pub(crate) fn of_values(
        table: &Table,
        values: Vec<(ColumnId, Expression)>,
        only_static: bool,
    ) -> Result<Restrictions, CqlError> {
        let mut collected = Collected::default();
        for (column, value) in values {
            let restriction = Restriction::Single(column, Demand::Equal(value));
            collected.add(table, restriction, StatementKind::Insert)?;
        }
        Restrictions::of(table, collected, StatementKind::Insert, only_static)
    }

    fn of(
        table: &Table,
        mut collected: Collected,
        kind: StatementKind,
        only_static: bool,
    ) -> Result<Restrictions, CqlError> {
        let key_count = table.partition_key().len();
        let kind_of = |id: &ColumnId| table.column(*id).map(|column| column.kind);
        let restricts_regular = collected
            .values
            .keys()
            .chain(collected.contents.keys())
            .any(|id| kind_of(id) == Some(ColumnKind::Regular));
        let mut restrictions = Restrictions {
            keys: Vec::new(),
            token: collected.token.take(),
            slices: Vec::new(),
            filters: Vec::new(),
            restricts_clustering: !collected.clustering.is_empty()
                || collected
                    .contents
                    .keys()
                    .any(|id| kind_of(id) == Some(ColumnKind::Clustering)),
            restricts_regular,
            has_gaps: false,
            uses_index: false,
            must_filter: false,
            unindexed: false,
            cannot_filter: None,
        };
        let mut demands = match kind {
            StatementKind::Select { .. } if !table.indexes.is_empty() => {
                Demands::new(table, &collected)
            }
            _ => Demands::default(),
        };
        restrictions.keys = (0..key_count)
            .map(|position| collected.keys.remove(&position))
            .collect();
        let indexed = demands.any_is_indexed();
        let may_filter = kind.filters() || indexed;
        restrictions.check_keys(table, kind, may_filter)?;
        let has_keys = restrictions.has_keys();
        // Beside a token, too, keys that are all given are what is read (`TokenFilter.isOnToken`).
        let is_range = !has_keys;
        restrictions.uses_index = indexed && !has_keys && restrictions.token.is_none();
        if !has_keys {
            demands.filter_keys();
        }
        restrictions.has_gaps = collected.has_gaps(table);
        restrictions.uses_index |=
            indexed && restrictions.has_gaps || is_range && demands.clustering_is_indexed();
        restrictions.take_clustering(table, &mut collected, kind, (only_static, &demands))?;
        if restrictions.uses_index || restrictions.has_gaps {
            demands.filter_clustering();
        }
        demands.filter_others();
        let key_in = restrictions.has_key_in() && (restrictions.token.is_none() || has_keys);
        restrictions.take_others(table, collected, kind, indexed)?;
        if restrictions.uses_index && key_in {
            return refuse_key_in();
        }
        // Beside a token, keys are no filters of their own.
        let filters_nothing_else = match restrictions.token {
            Some(_) => demands.filters_keys_at_most(),
            None => demands.filtered.is_empty(),
        };
        let only_clustering =
            restrictions.restricts_clustering && !has_keys && filters_nothing_else;
        if kind.nearest().is_some() {
            restrictions.unindexed =
                demands.any_is_unindexed() || only_clustering && demands.clustering_has_no_index();
            restrictions.must_filter = demands.are_decided_apart() || only_clustering;
        } else {
            restrictions.must_filter =
                (is_range || restrictions.uses_index) && (demands.must_filter() || only_clustering);
        }
        Ok(restrictions)
    }

    /// Is each column of the partition key restricted by `=` or `IN`?
    pub(crate) fn has_keys(&self) -> bool {
        self.keys
            .iter()
            .all(|key| matches!(key, Some(Demand::Equal(_) | Demand::In(_))))
    }

    /// Is the column of the key restricted to one value, be it by a filter?
    pub(crate) fn fixes(&self, column: &Column) -> bool {
        let filtered = self.filters.iter().any(|(id, demand)| {
            *id == column.id && matches!(demand, FilterDemand::Value(Demand::Equal(_)))
        });
        match column.kind {
            _ if filtered => true,
            ColumnKind::PartitionKey => {
                matches!(self.keys.get(column.position), Some(Some(Demand::Equal(_))))
            }
            _ => self.slices.iter().any(|restriction| {
                (restriction.first..restriction.first + restriction.count)
                    .contains(&column.position)
                    && matches!(restriction.demand, Demand::Equal(_))
            }),
        }
    }

    /// Is a column of the partition key restricted by `IN`?
    pub(crate) fn has_key_in(&self) -> bool {
        self.keys
            .iter()
            .any(|key| matches!(key, Some(Demand::In(_))))
    }

    /// `processPartitionKeyRestrictions`
    fn check_keys(
        &self,
        table: &Table,
        kind: StatementKind,
        may_filter: bool,
    ) -> Result<(), CqlError> {
        let sliced = self
            .keys
            .iter()
            .any(|key| matches!(key, Some(Demand::Slice { .. })));
        if matches!(kind, StatementKind::Select { .. }) {
            let restricted = self.keys.iter().any(Option::is_some);
            if restricted && !self.has_keys() && !may_filter {
                return invalid!("{NEEDS_FILTERING}");
            }
            return Ok(());
        }
        let kind = kind.name();
        if self.token.is_some() {
            return invalid!(
                "The token function cannot be used in WHERE clauses for {kind} statements"
            );
        }
        let missing: Vec<&str> = table
            .partition_key()
            .zip(&self.keys)
            .filter(|(_, key)| key.is_none())
            .map(|(column, _)| &*column.name)
            .collect();
        if !missing.is_empty() {
            return invalid!(
                "Some partition key parts are missing: {}",
                missing.join(", ")
            );
        }
        if sliced {
            return invalid!(
                "Only EQ and IN relation are supported on the partition key (unless you use the \
                 token() function) for {kind} statements"
            );
        }
        Ok(())
    }

    /// `processClusteringColumnsRestrictions`: the leading ones become slices, the others filters, and
    /// those that an index is asked for both. Says whether there are others.
    fn take_clustering(
        &mut self,
        table: &Table,
        collected: &mut Collected,
        kind: StatementKind,
        (only_static, demands): (bool, &Demands<'_>),
    ) -> Result<(), CqlError> {
        let may_filter = kind.filters() || demands.any_is_indexed();
        let clustering: Vec<&Column> = table.clustering_key().collect();
        let restrictions = std::mem::take(&mut collected.clustering);
        if matches!(kind, StatementKind::Insert | StatementKind::Update) {
            let may_end_early = table.compact == Some(CompactForm::Dense);
            check_written(
                &clustering,
                &restrictions,
                kind,
                (only_static, may_end_early),
            )?;
        }
        let with_contents = clustering
            .iter()
            .any(|column| collected.contents.contains_key(&column.id));
        if with_contents && !may_filter {
            return invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or \
                 filtering"
            );
        }
        let mut position = 0;
        // As far as slices reach where an index is asked: what an index decides does not count
        // (`ClusteringColumnRestrictions.addToRowFilter`).
        let mut sliced = 0;
        let mut gap = false;
        for (first, restriction) in restrictions {
            gap |= first != position;
            if gap {
                if !may_filter {
                    return invalid!(
                        "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" \
                         is not restricted",
                        clustering[first].name,
                        clustering[position].name
                    );
                }
                self.filter_clustering(&clustering, restriction)?;
                continue;
            }
            let is_slice = matches!(restriction.demand, Demand::Slice { .. });
            if self.uses_index && (sliced != first || is_indexed(table, &restriction)) {
                self.filter_clustering(&clustering, restriction.clone())?;
            } else if !is_slice {
                sliced = first + restriction.count;
            }
            if !is_slice {
                position = first + restriction.count;
            }
            self.slices.push(restriction);
        }
        Ok(())
    }

    /// A restriction of clustering columns that makes no slice.
    fn filter_clustering(
        &mut self,
        clustering: &[&Column],
        restriction: ClusteringRestriction,
    ) -> Result<(), CqlError> {
        let columns = &clustering[restriction.first..restriction.first + restriction.count];
        let demand = match restriction.demand {
            Demand::Equal(Tuple::Terms(values)) => {
                for (column, value) in columns.iter().zip(values) {
                    let demand = FilterDemand::Value(Demand::Equal(value));
                    self.filters.push((column.id, demand));
                }
                return Ok(());
            }
            // Of one column it is what it would be without the parentheses.
            Demand::In(OneOf::Terms(tuples))
                if restriction.count == 1
                    && tuples.iter().all(|tuple| matches!(tuple, Tuple::Terms(_))) =>
            {
                let values: Result<Vec<Expression>, CqlError> =
                    tuples.into_iter().map(only).collect();
                Demand::In(OneOf::Terms(values?))
            }
            demand if restriction.of_tuples => {
                self.cannot_filter.get_or_insert(match demand {
                    Demand::Slice { .. } => CqlError::Invalid(
                        "Multi-column slice restrictions cannot be used for filtering.".to_owned(),
                    ),
                    _ => CqlError::Invalid("Multicolumn IN filters are not supported".to_owned()),
                });
                return Ok(());
            }
            Demand::Equal(tuple) => Demand::Equal(only(tuple)?),
            Demand::In(OneOf::Terms(_)) => {
                return invalid!("Multicolumn IN filters are not supported");
            }
            Demand::In(OneOf::Marker(marker)) => Demand::In(OneOf::Marker(marker)),
            Demand::Slice { start, end } => Demand::Slice {
                start: start.map(only_edge).transpose()?,
                end: end.map(only_edge).transpose()?,
            },
        };
        self.filters
            .push((columns[0].id, FilterDemand::Value(demand)));
        Ok(())
    }

    /// Static and regular columns, contents of keys, and keys that select no partitions.
    fn take_others(
        &mut self,
        table: &Table,
        collected: Collected,
        kind: StatementKind,
        indexed: bool,
    ) -> Result<(), CqlError> {
        let others: Vec<&Column> = collected
            .values
            .keys()
            .chain(collected.contents.keys())
            .filter_map(|id| table.column(*id))
            .filter(|column| matches!(column.kind, ColumnKind::Static | ColumnKind::Regular))
            .collect();
        let nearest = others.iter().find(|c| kind.nearest() == Some(c.id));
        if let Some(column) = nearest {
            // The order is a restriction, too, and is merged with the others.
            return match collected.values.get(&column.id) {
                Some(Demand::Slice { .. }) => invalid!(
                    "Column \"{}\" cannot be restricted by both an equality and an inequality \
                     relation",
                    column.name
                ),
                _ => invalid!(
                    "{} cannot be restricted by more than one relation if it includes an Equal",
                    column.name
                ),
            };
        }
        // Cassandra looks at the first vector alone.
        let mut vectors = others
            .iter()
            .filter(|c| matches!(c.ty, CqlType::Vector { .. }));
        let first = vectors.next();
        if first.is_some_and(|column| table.has_index_on(column)) {
            return invalid!("Vector indexes only support ANN queries");
        }
        if !others.is_empty() {
            if !matches!(kind, StatementKind::Select { .. }) {
                let names: Vec<&str> = others.iter().map(|column| &*column.name).collect();
                return invalid!(
                    "Non PRIMARY KEY columns found in where clause: {} ",
                    names.join(", ")
                );
            }
            if !kind.filters() && !indexed {
                return invalid!("{NEEDS_FILTERING}");
            }
            self.uses_index |= indexed;
        }
        if !collected.contents.is_empty() && !kind.filters() && !indexed {
            return invalid!("{NEEDS_FILTERING}");
        }
        if !self.has_keys() {
            let ids = table.partition_key().map(|column| column.id);
            for (id, demand) in ids.zip(&mut self.keys) {
                if let Some(demand) = demand.take() {
                    self.filters.push((id, FilterDemand::Value(demand)));
                }
            }
        }
        for (id, demand) in collected.values {
            self.filters.push((id, FilterDemand::Value(demand)));
        }
        for (id, contents) in collected.contents {
            self.filters.push((id, FilterDemand::Contents(contents)));
        }
        Ok(())
    }
}

/// What INSERT and UPDATE demand of the clustering columns. `may_end_early`: rows of dense tables
/// WITH COMPACT STORAGE may leave out the last ones. Not such as descend: left out they come first
/// in Cassandra's files, and what is kept as empty comes last in such an order.
fn check_written(
    clustering: &[&Column],
    restrictions: &BTreeMap<usize, ClusteringRestriction>,
    kind: StatementKind,
    (only_static, may_end_early): (bool, bool),
) -> Result<(), CqlError> {
    let sliced = restrictions
        .values()
        .any(|restriction| matches!(restriction.demand, Demand::Slice { .. }));
    if sliced && only_static && kind == StatementKind::Update {
        return invalid!(
            "Invalid restrictions on clustering columns since the UPDATE statement modifies only \
             static columns"
        );
    }
    if sliced {
        return invalid!(
            "Slice restrictions are not supported on the clustering columns in {} statements",
            kind.name()
        );
    }
    let restricted: usize = restrictions.values().map(|r| r.count).sum();
    if only_static || restricted == clustering.len() {
        return Ok(());
    }
    let missing: Vec<&Column> = clustering
        .iter()
        .copied()
        .filter(|column| {
            !restrictions.values().any(|restriction| {
                (restriction.first..restriction.first + restriction.count)
                    .contains(&column.position)
            })
        })
        .collect();
    let descends = |column: &&Column| column.order == Order::Descending;
    let is_end = missing.first().is_some_and(|c| c.position == restricted);
    if may_end_early && restricted > 0 && !(is_end && missing.iter().any(descends)) {
        // That there is no gap is seen to where slices are made.
        return Ok(());
    }
    let missing: Vec<&str> = missing.iter().map(|column| &*column.name).collect();
    invalid!("Some clustering keys are missing: {}", missing.join(", "))
}

/// The value of a tuple of one.
fn only(tuple: Tuple) -> Result<Expression, CqlError> {
    match tuple {
        Tuple::Terms(mut terms) if terms.len() == 1 => match terms.pop() {
            Some(term) => Ok(term),
            None => invalid!("Multicolumn filters are not supported"),
        },
        _ => invalid!("Multicolumn filters are not supported"),
    }
}

fn only_edge(edge: Edge<Tuple>) -> Result<Edge<Expression>, CqlError> {
    Ok(Edge {
        value: only(edge.value)?,
        inclusive: edge.inclusive,
    })
}

/// The column of a name that a clause other than WHERE mentions.
pub(crate) fn named<'t>(table: &'t Table, name: &str) -> Result<&'t Column, CqlError> {
    column_of(table, name)
}
