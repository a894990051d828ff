//! Which restrictions of a query its table's indexes can decide
//! (`SingleRestriction.isSupportedBy`, `IndexRestrictions.needsFiltering`).
//!
//! An index makes a query possible that would need ALLOW FILTERING without it. To need none, all
//! restrictions that the key does not decide must be decided by one group of indexes: those that are
//! storage-attached together, and each other one for itself.

use model::{Column, ColumnKind, FilterOperator, Index, Table};

use crate::term::Expression;

use super::collected::Collected;
use super::restriction::{Contents, Demand};
use super::restrictions::ClusteringRestriction;

/// What a query demands of one column, as far as indexes are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Demanded<'t> {
    column: &'t Column,
    /// How it is compared; `None`: in a way that no index knows.
    operators: Option<Vec<FilterOperator>>,
    /// Must it contain several things? Few indexes decide that.
    several: bool,
}

/// The demands of a query, by what the columns are.
#[derive(Debug, Default)]
pub(crate) struct Demands<'t> {
    table: Option<&'t Table>,
    keys: Vec<Demanded<'t>>,
    clustering: Vec<Demanded<'t>>,
    others: Vec<Demanded<'t>>,
    /// Those that the keys do not decide: filters, in Cassandra's words.
    pub(crate) filtered: Vec<Demanded<'t>>,
}

impl<'t> Demands<'t> {
    /// Of what was collected of a query on `table`.
    pub(crate) fn new(table: &'t Table, collected: &Collected) -> Demands<'t> {
        let mut demands = Demands {
            table: Some(table),
            ..Demands::default()
        };
        for (column, demand) in table.partition_key().enumerate() {
            if let Some(found) = collected.keys.get(&column) {
                demands.keys.push(Demanded::of(demand, found));
            }
        }
        let clustering: Vec<&Column> = table.clustering_key().collect();
        for restriction in collected.clustering.values() {
            demands
                .clustering
                .extend(of_clustering(&clustering, restriction));
        }
        for (id, demand) in &collected.values {
            let column = table.column(*id);
            demands
                .others
                .extend(column.map(|c| Demanded::of(c, demand)));
        }
        for (id, contents) in &collected.contents {
            let Some(column) = table.column(*id) else {
                continue;
            };
            let demanded = Demanded::of_contents(column, contents);
            match column.kind {
                ColumnKind::PartitionKey => demands.keys.push(demanded),
                ColumnKind::Clustering => demands.clustering.push(demanded),
                ColumnKind::Static | ColumnKind::Regular => demands.others.push(demanded),
            }
        }
        demands
    }

    fn indexes(&self) -> impl Iterator<Item = (&'t Table, &'t Index)> {
        let table = self.table.into_iter();
        table.flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
    }

    /// May an index be asked (`hasQueriableIndex`)?
    pub(crate) fn any_is_indexed(&self) -> bool {
        let mut all = self.keys.iter().chain(&self.clustering).chain(&self.others);
        all.any(|demanded| self.is_indexed(demanded))
    }

    /// May one on a clustering column be asked?
    pub(crate) fn clustering_is_indexed(&self) -> bool {
        let mut all = self.clustering.iter();
        all.any(|demanded| self.is_indexed(demanded))
    }

    fn is_indexed(&self, demanded: &Demanded<'_>) -> bool {
        let mut indexes = self.indexes();
        indexes.any(|(table, index)| demanded.is_supported(table, index))
    }

    /// What is demanded of the partition key is a filter.
    pub(crate) fn filter_keys(&mut self) {
        self.filtered.extend(self.keys.iter().cloned());
    }

    /// What is demanded of clustering columns is a filter.
    pub(crate) fn filter_clustering(&mut self) {
        self.filtered.extend(self.clustering.iter().cloned());
    }

    /// What is demanded of static and regular columns is a filter.
    pub(crate) fn filter_others(&mut self) {
        self.filtered.extend(self.others.iter().cloned());
    }

    /// Is nothing a filter but what is demanded of the partition key?
    pub(crate) fn filters_keys_at_most(&self) -> bool {
        let mut filtered = self.filtered.iter();
        filtered.all(|demanded| demanded.column.kind == ColumnKind::PartitionKey)
    }

    /// Is there no group of indexes that decides all filters?
    pub(crate) fn must_filter(&self) -> bool {
        let decides = |(table, index): (&Table, &Index)| {
            let mut filtered = self.filtered.iter();
            filtered.all(|demanded| demanded.is_decided(table, index))
        };
        !self.filtered.is_empty() && !self.indexes().any(decides) && self.are_decided_apart()
    }

    /// Is there a filter that no storage-attached index decides? Those are one group.
    pub(crate) fn are_decided_apart(&self) -> bool {
        !self.filtered.iter().all(|demanded| {
            let mut attached = self.indexes().filter(|(_, i)| i.is_storage_attached());
            attached.any(|(table, index)| demanded.is_supported(table, index))
        })
    }

    /// Is there a filter on a column without an index, whatever that can be asked?
    pub(crate) fn any_is_unindexed(&self) -> bool {
        self.filtered
            .iter()
            .any(|demanded| !self.has_index(demanded))
    }

    /// Is a clustering column demanded that has no index?
    pub(crate) fn clustering_has_no_index(&self) -> bool {
        self.clustering
            .iter()
            .any(|demanded| !self.has_index(demanded))
    }

    fn has_index(&self, demanded: &Demanded<'_>) -> bool {
        self.table
            .is_some_and(|table| table.has_index_on(demanded.column))
    }
}

/// Does an index of the table decide any of the columns of a restriction?
pub(crate) fn is_indexed(table: &Table, restriction: &ClusteringRestriction) -> bool {
    let clustering: Vec<&Column> = table.clustering_key().collect();
    let demanded = of_clustering(&clustering, restriction);
    let mut indexes = table.indexes.iter();
    indexes.any(|index| demanded.iter().any(|d| d.is_supported(table, index)))
}

fn of_clustering<'t>(
    clustering: &[&'t Column],
    restriction: &ClusteringRestriction,
) -> Vec<Demanded<'t>> {
    let columns = &clustering[restriction.first..restriction.first + restriction.count];
    let operators = operators(&restriction.demand);
    let columns = columns.iter();
    columns
        .map(|column| Demanded {
            column,
            operators: operators.clone(),
            several: false,
        })
        .collect()
}

impl<'t> Demanded<'t> {
    fn of(column: &'t Column, demand: &Demand<Expression>) -> Demanded<'t> {
        Demanded {
            column,
            operators: operators(demand),
            several: false,
        }
    }

    fn of_contents(column: &'t Column, contents: &Contents) -> Demanded<'t> {
        let (values, keys) = (contents.values.len(), contents.keys.len());
        let counts = [
            (values, FilterOperator::Contains),
            (keys, FilterOperator::ContainsKey),
            (contents.entries.len(), FilterOperator::ContainsEntry),
            (contents.likes.len(), FilterOperator::LikeMatches),
        ];
        let there = counts.iter().filter(|(count, _)| *count > 0);
        Demanded {
            column,
            operators: Some(there.map(|(_, operator)| *operator).collect()),
            several: counts.iter().map(|(count, _)| count).sum::<usize>() > 1,
        }
    }

    /// Can the index be asked for it? Of several contents one is enough: the others are filters.
    fn is_supported(&self, table: &Table, index: &Index) -> bool {
        let mut operators = self.operators.iter().flatten();
        operators.any(|operator| index.supports(table, self.column, *operator))
    }

    /// Does the index find nothing but what fulfils it?
    fn is_decided(&self, table: &Table, index: &Index) -> bool {
        self.is_supported(table, index) && !self.several
    }
}

fn operators<V>(demand: &Demand<V>) -> Option<Vec<FilterOperator>> {
    let of = |edge: Option<bool>, strict, inclusive| {
        edge.map(|is_inclusive| if is_inclusive { inclusive } else { strict })
    };
    match demand {
        Demand::Equal(_) => Some(vec![FilterOperator::Equal]),
        Demand::In(_) => None,
        Demand::Slice { start, end } => {
            let start = of(
                start.as_ref().map(|edge| edge.inclusive),
                FilterOperator::Greater,
                FilterOperator::GreaterOrEqual,
            );
            let end = of(
                end.as_ref().map(|edge| edge.inclusive),
                FilterOperator::Less,
                FilterOperator::LessOrEqual,
            );
            Some(start.into_iter().chain(end).collect())
        }
    }
}
