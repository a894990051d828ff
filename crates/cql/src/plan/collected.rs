//! The restrictions of a statement while they are collected, merged column by column
//! (`SingleRestriction.mergeWith`, `ClusteringColumnRestrictions.mergeWith`).

use std::collections::BTreeMap;

use model::{Column, ColumnId, ColumnKind, Table};

use crate::CqlError;
use crate::error::invalid;
use crate::term::Expression;

use super::indexing::is_indexed;
use super::restriction::{Contents, Demand, Edge, OneOf, Restriction, Tuple, key_names};
use super::restrictions::{ClusteringRestriction, StatementKind};

/// What was collected so far.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) keys: BTreeMap<usize, Demand<Expression>>,
    pub(crate) token: Option<Demand<Expression>>,
    pub(crate) clustering: BTreeMap<usize, ClusteringRestriction>,
    pub(crate) contents: BTreeMap<ColumnId, Contents>,
    pub(crate) values: BTreeMap<ColumnId, Demand<Expression>>,
}

impl Collected {
    /// Are there demands of clustering columns that no slice can express: contents, and whatever
    /// comes after a column without `=` or `IN` (`ClusteringColumnRestrictions.needFiltering`)?
    pub(crate) fn has_gaps(&self, table: &Table) -> bool {
        let mut position = 0;
        for (first, restriction) in &self.clustering {
            if *first != position {
                return true;
            }
            if !matches!(restriction.demand, Demand::Slice { .. }) {
                position = first + restriction.count;
            }
        }
        let mut clustering = table.clustering_key();
        clustering.any(|column| self.contents.contains_key(&column.id))
    }

    /// Takes in one more.
    pub(crate) fn add(
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
        if let Some(known) = self.contents.get(&column.id) {
            return match known.likes.is_empty() {
                true => only_contents(name),
                false => only_one_like(name),
            };
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
        let liked = |contents: &Contents| !contents.likes.is_empty();
        let known = self.contents.get(&id);
        if liked(&contents) && (before || known.is_some()) || known.is_some_and(liked) {
            return only_one_like(&column.name);
        }
        if before {
            return only_contents(&column.name);
        }
        let known = self.contents.entry(id).or_default();
        known.values.extend(contents.values);
        known.keys.extend(contents.keys);
        known.entries.extend(contents.entries);
        known.likes.extend(contents.likes);
        Ok(())
    }

    fn add_clustering(
        &mut self,
        table: &Table,
        restriction: ClusteringRestriction,
        kind: StatementKind,
    ) -> Result<(), CqlError> {
        let names: Vec<&str> = table.clustering_key().map(|c| &*c.name).collect();
        let shares = |known: &&ClusteringRestriction| {
            known.first < restriction.first + restriction.count
                && restriction.first < known.first + known.count
        };
        let shared = self.clustering.values().filter(shares);
        let shared: Vec<usize> = shared.map(|known| known.first).collect();
        let mut merged = restriction;
        for first in shared {
            if let Some(known) = self.clustering.remove(&first) {
                merged = merge_clustering(known, merged, &names)?;
            }
        }
        let is_slice = matches!(merged.demand, Demand::Slice { .. });
        let first = merged.first;
        let is_select = matches!(kind, StatementKind::Select { .. });
        let indexed = is_select && !table.indexes.is_empty() && is_indexed(table, &merged);
        self.clustering.insert(first, merged);
        if kind.filters() || indexed {
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

fn only_one_like<T>(name: &str) -> Result<T, CqlError> {
    invalid!("{name} cannot be restricted by more than one relation if it includes a LIKE")
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
    let shared = names[shared_first..shared_end].join(" ,");
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
