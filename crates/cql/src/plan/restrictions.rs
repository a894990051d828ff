//! All relations of a `WHERE` together: which partitions, which rows, and what is left to filter
//! (`StatementRestrictions`).
//!
//! Relations are merged column by column in the order of the text, then sorted into three groups:
//! those on the partition key give keys or a range of tokens; those on clustering columns give
//! slices as long as each column before is restricted by equality; all others are filters, which
//! the user must have allowed.

use std::collections::BTreeMap;

use model::{Column, ColumnId, ColumnKind, Table};

use crate::CqlError;
use crate::ast::Relation;
use crate::error::invalid;
use crate::term::{Analysis, Expression};

use super::restriction::{
    Contents, Demand, Edge, OneOf, Restriction, Tuple, column_of, key_names, resolve,
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

    fn filters(self) -> bool {
        self == StatementKind::Select {
            allow_filtering: true,
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
}

/// What was collected so far.
#[derive(Default)]
struct Collected {
    keys: BTreeMap<usize, Demand<Expression>>,
    token: Option<Demand<Expression>>,
    clustering: BTreeMap<usize, ClusteringRestriction>,
    contents: BTreeMap<ColumnId, Contents>,
    values: BTreeMap<ColumnId, Demand<Expression>>,
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
            let restriction = resolve(analysis, table, relation)?;
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
        let keys: Vec<Option<Demand<Expression>>> = (0..key_count)
            .map(|position| collected.keys.remove(&position))
            .collect();
        let kind_of = |id: &ColumnId| table.column(*id).map(|column| column.kind);
        let restricts_regular = collected
            .values
            .keys()
            .chain(collected.contents.keys())
            .any(|id| kind_of(id) == Some(ColumnKind::Regular));
        let mut restrictions = Restrictions {
            keys,
            token: collected.token.take(),
            slices: Vec::new(),
            filters: Vec::new(),
            restricts_clustering: !collected.clustering.is_empty()
                || collected
                    .contents
                    .keys()
                    .any(|id| kind_of(id) == Some(ColumnKind::Clustering)),
            restricts_regular,
        };
        restrictions.check_keys(table, kind)?;
        restrictions.take_clustering(table, &mut collected, kind, only_static)?;
        restrictions.take_others(table, collected, kind)?;
        Ok(restrictions)
    }

    /// Is each column of the partition key restricted by `=` or `IN`?
    pub(crate) fn has_keys(&self) -> bool {
        self.keys
            .iter()
            .all(|key| matches!(key, Some(Demand::Equal(_) | Demand::In(_))))
    }

    /// Would a SELECT look at rows of many partitions that it does not give?
    pub(crate) fn must_filter(&self) -> bool {
        !self.has_keys() && self.restricts_clustering
    }

    /// Is the column of the key restricted to one value?
    pub(crate) fn fixes(&self, column: &Column) -> bool {
        match column.kind {
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
    fn check_keys(&self, table: &Table, kind: StatementKind) -> Result<(), CqlError> {
        let sliced = self
            .keys
            .iter()
            .any(|key| matches!(key, Some(Demand::Slice { .. })));
        if let StatementKind::Select { allow_filtering } = kind {
            let restricted = self.keys.iter().any(Option::is_some);
            if restricted && !self.has_keys() && !allow_filtering {
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

    /// `processClusteringColumnsRestrictions`: the leading ones become slices, the others filters.
    fn take_clustering(
        &mut self,
        table: &Table,
        collected: &mut Collected,
        kind: StatementKind,
        only_static: bool,
    ) -> Result<(), CqlError> {
        let clustering: Vec<&Column> = table.clustering_key().collect();
        let restrictions = std::mem::take(&mut collected.clustering);
        if matches!(kind, StatementKind::Insert | StatementKind::Update) {
            check_written(&clustering, &restrictions, kind, only_static)?;
        }
        let with_contents = clustering
            .iter()
            .any(|column| collected.contents.contains_key(&column.id));
        if with_contents && !kind.filters() {
            return invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or \
                 filtering"
            );
        }
        let mut position = 0;
        let mut gap = false;
        for (first, restriction) in restrictions {
            gap |= first != position;
            if gap {
                if !kind.filters() {
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
            if !matches!(restriction.demand, Demand::Slice { .. }) {
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
            demand if restriction.of_tuples => {
                return match demand {
                    Demand::Slice { .. } => {
                        invalid!("Multi-column slice restrictions cannot be used for filtering.")
                    }
                    _ => invalid!("Multicolumn IN filters are not supported"),
                };
            }
            Demand::Equal(tuple) => Demand::Equal(only(tuple)?),
            Demand::In(OneOf::Terms(tuples)) => {
                let values: Result<Vec<Expression>, CqlError> =
                    tuples.into_iter().map(only).collect();
                Demand::In(OneOf::Terms(values?))
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
    ) -> Result<(), CqlError> {
        let others: Vec<&Column> = collected
            .values
            .keys()
            .chain(collected.contents.keys())
            .filter_map(|id| table.column(*id))
            .filter(|column| matches!(column.kind, ColumnKind::Static | ColumnKind::Regular))
            .collect();
        if !others.is_empty() {
            if !matches!(kind, StatementKind::Select { .. }) {
                let names: Vec<&str> = others.iter().map(|column| &*column.name).collect();
                return invalid!(
                    "Non PRIMARY KEY columns found in where clause: {} ",
                    names.join(", ")
                );
            }
            if !kind.filters() {
                return invalid!("{NEEDS_FILTERING}");
            }
        }
        if !collected.contents.is_empty() && !kind.filters() {
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
            if !contents.entries.is_empty() {
                return invalid!(
                    "restrictions on the entries of maps are not supported yet: restrict the map \
                     with CONTAINS KEY or CONTAINS, and look at the entry in the application"
                );
            }
            self.filters.push((id, FilterDemand::Contents(contents)));
        }
        Ok(())
    }
}

/// What INSERT and UPDATE demand of the clustering columns.
fn check_written(
    clustering: &[&Column],
    restrictions: &BTreeMap<usize, ClusteringRestriction>,
    kind: StatementKind,
    only_static: bool,
) -> Result<(), CqlError> {
    let sliced = restrictions
        .values()
        .any(|restriction| matches!(restriction.demand, Demand::Slice { .. }));
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
    let missing: Vec<&str> = clustering
        .iter()
        .filter(|column| {
            !restrictions.values().any(|restriction| {
                (restriction.first..restriction.first + restriction.count)
                    .contains(&column.position)
            })
        })
        .map(|column| &*column.name)
        .collect();
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

impl Collected {
    fn add(
        &mut self,
        table: &Table,
        restriction: Restriction,
        kind: StatementKind,
    ) -> Result<(), CqlError> {
        match restriction {
            Restriction::Token(demand) => {
                let names = key_names(table);
                let merged = merge(
                    self.token.take(),
                    demand,
                    &names,
                    &format!("Columns \"{names}\""),
                )?;
                self.token = Some(merged);
                Ok(())
            }
            Restriction::Contents(id, contents) => self.add_contents(table, id, contents),
            Restriction::Multi(first, count, demand) => {
                let restriction = ClusteringRestriction {
                    first,
                    count,
                    of_tuples: true,
                    demand,
                };
                self.add_clustering(table, restriction, kind)
            }
            Restriction::Single(id, demand) => {
                let Some(column) = table.column(id) else {
                    return invalid!("the column was dropped");
                };
                self.add_single(table, column, demand, kind)
            }
        }
    }

    fn add_single(
        &mut self,
        table: &Table,
        column: &Column,
        demand: Demand<Expression>,
        kind: StatementKind,
    ) -> Result<(), CqlError> {
        let name = &column.name;
        if self.contents.contains_key(&column.id) {
            return only_contents(name);
        }
        let quoted = format!("Column \"{name}\"");
        match column.kind {
            ColumnKind::PartitionKey => {
                let before = self.keys.remove(&column.position);
                let merged = merge(before, demand, name, &quoted)?;
                self.keys.insert(column.position, merged);
                Ok(())
            }
            ColumnKind::Clustering => {
                let restriction = ClusteringRestriction {
                    first: column.position,
                    count: 1,
                    of_tuples: false,
                    demand: as_tuples(demand),
                };
                self.add_clustering(table, restriction, kind)
            }
            ColumnKind::Static | ColumnKind::Regular => {
                let before = self.values.remove(&column.id);
                let merged = merge(before, demand, name, &quoted)?;
                self.values.insert(column.id, merged);
                Ok(())
            }
        }
    }

    fn add_contents(
        &mut self,
        table: &Table,
        id: ColumnId,
        contents: Contents,
    ) -> Result<(), CqlError> {
        let Some(column) = table.column(id) else {
            return invalid!("the column was dropped");
        };
        let before = match column.kind {
            ColumnKind::PartitionKey => self.keys.contains_key(&column.position),
            ColumnKind::Clustering => self.clustering.contains_key(&column.position),
            ColumnKind::Static | ColumnKind::Regular => self.values.contains_key(&id),
        };
        if before {
            return only_contents(&column.name);
        }
        let known = self.contents.entry(id).or_default();
        known.values.extend(contents.values);
        known.keys.extend(contents.keys);
        known.entries.extend(contents.entries);
        Ok(())
    }

    fn add_clustering(
        &mut self,
        table: &Table,
        restriction: ClusteringRestriction,
        kind: StatementKind,
    ) -> Result<(), CqlError> {
        let names: Vec<&str> = table.clustering_key().map(|c| &*c.name).collect();
        let overlapping = self
            .clustering
            .values()
            .find(|known| {
                known.first < restriction.first + restriction.count
                    && restriction.first < known.first + known.count
            })
            .map(|known| known.first);
        let merged = match overlapping.and_then(|first| self.clustering.remove(&first)) {
            Some(known) => merge_clustering(known, restriction, &names)?,
            None => restriction,
        };
        let is_slice = matches!(merged.demand, Demand::Slice { .. });
        let first = merged.first;
        self.clustering.insert(first, merged);
        if kind.filters() {
            return Ok(());
        }
        // `ClusteringColumnRestrictions.mergeWith`
        let Some((last, _)) = self.clustering.last_key_value() else {
            return Ok(());
        };
        let before = self.clustering.range(..first).next_back();
        if let Some((position, before)) = before
            && matches!(before.demand, Demand::Slice { .. })
        {
            return invalid!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                names[first],
                names[*position]
            );
        }
        if first < *last && is_slice {
            let next = self.clustering.range(first + 1..).next().map(|(i, _)| *i);
            return invalid!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                names[next.unwrap_or(*last)],
                names[first]
            );
        }
        Ok(())
    }
}

fn only_contents<T>(name: &str) -> Result<T, CqlError> {
    invalid!(
        "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry \
         equality"
    )
}

/// Two demands of the same column.
fn merge<V>(
    before: Option<Demand<V>>,
    demand: Demand<V>,
    name: &str,
    quoted: &str,
) -> Result<Demand<V>, CqlError> {
    let Some(before) = before else {
        return Ok(demand);
    };
    let (start, end) = match before {
        Demand::Equal(_) => {
            return invalid!(
                "{name} cannot be restricted by more than one relation if it includes an Equal"
            );
        }
        Demand::In(_) => {
            return invalid!(
                "{name} cannot be restricted by more than one relation if it includes a IN"
            );
        }
        Demand::Slice { start, end } => (start, end),
    };
    let Demand::Slice {
        start: new_start,
        end: new_end,
    } = demand
    else {
        return invalid!(
            "{quoted} cannot be restricted by both an equality and an inequality relation"
        );
    };
    if start.is_some() && new_start.is_some() {
        return invalid!("More than one restriction was found for the start bound on {name}");
    }
    if end.is_some() && new_end.is_some() {
        return invalid!("More than one restriction was found for the end bound on {name}");
    }
    Ok(Demand::Slice {
        start: start.or(new_start),
        end: end.or(new_end),
    })
}

/// Two restrictions that share clustering columns.
fn merge_clustering(
    known: ClusteringRestriction,
    new: ClusteringRestriction,
    names: &[&str],
) -> Result<ClusteringRestriction, CqlError> {
    let shared_first = known.first.max(new.first);
    let shared_end = (known.first + known.count).min(new.first + new.count);
    let shared = names[shared_first..shared_end].join(", ");
    let both_slices =
        matches!(known.demand, Demand::Slice { .. }) && matches!(new.demand, Demand::Slice { .. });
    if both_slices && known.first != new.first {
        return invalid!(
            "Column \"{}\" cannot be restricted by two inequalities not starting with the same \
             column",
            names[shared_first]
        );
    }
    let quoted = format!("Column \"{shared}\"");
    Ok(ClusteringRestriction {
        first: known.first,
        count: known.count.max(new.count),
        of_tuples: known.of_tuples || new.of_tuples,
        demand: merge(Some(known.demand), new.demand, &shared, &quoted)?,
    })
}

fn as_tuples(demand: Demand<Expression>) -> Demand<Tuple> {
    let tuple = |value| Tuple::Terms(vec![value]);
    let edge = |edge: Edge<Expression>| Edge {
        value: tuple(edge.value),
        inclusive: edge.inclusive,
    };
    match demand {
        Demand::Equal(value) => Demand::Equal(tuple(value)),
        Demand::In(OneOf::Terms(values)) => {
            Demand::In(OneOf::Terms(values.into_iter().map(tuple).collect()))
        }
        Demand::In(OneOf::Marker(marker)) => Demand::In(OneOf::Marker(marker)),
        Demand::Slice { start, end } => Demand::Slice {
            start: start.map(edge),
            end: end.map(edge),
        },
    }
}

/// The column of a name that a clause other than WHERE mentions.
pub(crate) fn named<'t>(table: &'t Table, name: &str) -> Result<&'t Column, CqlError> {
    column_of(table, name)
}
