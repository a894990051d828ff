//! What replicas are asked first where an index says which rows may be meant.
//!
//! A row that passes all filters when it is merged has a cell that passes the one which an index
//! decides, and whoever has told of this cell has it in its index. So what the indexes of as many
//! replicas as have to answer name together is all that may be meant; these rows are then read and
//! reconciled as any others. Only that filter, and those on keys, are for the replicas to look at: the
//! others may hold of what another one knows. (Cassandra has all filters looked at, and asks again for
//! what some have named and others not: `ReplicaFilteringProtection`.)

use std::collections::BTreeMap;

use model::{
    Clustering, ColumnKind, DataLimits, DecoratedKey, Index, Partition, ReadCommand, ReadPage,
    Resume, RowFilter, Table,
};

use super::super::filter::is_range_of_addresses;
use crate::index::{IndexDefinition, Lookup};

/// How many rows a replica is to name at first, at least, and at most.
const FEW: u32 = 32;
const MANY: u32 = 1024;

/// The questions for rows that indexes name.
#[derive(Debug)]
pub struct Candidates {
    command: ReadCommand,
    /// Does the index name partitions, and no rows of them?
    of_partitions: bool,
    /// A partition that the page before ended in.
    resumed: Option<DecoratedKey>,
}

/// What an index names of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Which.
    pub key: DecoratedKey,
    /// The rows, in order; `None`: all that it has.
    pub rows: Option<Vec<Clustering>>,
}

/// What the indexes of some replicas name.
#[derive(Debug, PartialEq)]
pub struct Window {
    /// In the order of the ring.
    pub named: Vec<Named>,
    /// Where to go on, if there may be more.
    pub behind: Option<Resume>,
}

impl Candidates {
    /// For a command that reads a range; `None` if no index decides a filter of it.
    pub fn of(command: &ReadCommand) -> Option<Candidates> {
        let table = &*command.table;
        let found = table.indexes.iter().filter_map(|index| {
            let definition = IndexDefinition::new(table, index)?;
            let (lookup, filters) = decided(&definition, table, &command.filters)?;
            Some((definition, lookup, filters))
        });
        let (definition, _, mut filters) =
            found.min_by_key(|(_, lookup, _)| matches!(lookup, Lookup::Range(_)))?;
        let of_partitions = Index::is_of_partitions(&definition.column);
        let others = command.filters.iter();
        let others = others.filter(|filter| filter.column != definition.column.id);
        // A filter on rows would leave out a partition of which others have the rows.
        filters.extend(
            others
                .filter(|filter| {
                    table
                        .column(filter.column)
                        .is_some_and(|column| match column.kind {
                            _ if is_range_of_addresses(column, filter) => false,
                            ColumnKind::PartitionKey => true,
                            ColumnKind::Clustering => !of_partitions,
                            ColumnKind::Static | ColumnKind::Regular => false,
                        })
                })
                .cloned(),
        );
        let mut asked = command.clone();
        asked.filters = filters;
        let mut shown = command.columns.clone();
        shown.push(definition.column.id);
        let is_static = |column| table.column(column).map(|c| c.kind) == Some(ColumnKind::Static);
        shown.retain(|column| of_partitions && is_static(*column));
        shown.sort_unstable();
        shown.dedup();
        asked.columns = shown;
        let of_partition = if of_partitions { 1 } else { u32::MAX };
        asked.limits = DataLimits {
            rows: command.limits.rows.clamp(FEW, MANY),
            rows_per_partition: of_partition,
            ..command.limits
        };
        let mut resumed = None;
        if let Some(resume) = &mut asked.resume
            && resume.remaining_in_partition > 0
            && resume.clustering.is_some()
        {
            resume.remaining_in_partition = of_partition;
            resumed = Some(resume.key.clone()).filter(|_| of_partitions);
        }
        Some(Candidates {
            command: asked,
            of_partitions,
            resumed,
        })
    }

    /// What replicas are asked: which live rows they have.
    pub fn command(&self) -> &ReadCommand {
        &self.command
    }

    /// What the answers of all replicas name together; `None` if one of them does not say how far its
    /// answer goes.
    pub fn window(&self, pages: &[ReadPage]) -> Option<Window> {
        let table = &self.command.table;
        let mut end: Option<(DecoratedKey, Clustering)> = None;
        for page in pages.iter().filter(|page| page.more) {
            let last = page.partitions.last()?;
            let row = last.rows.last().map(|row| row.clustering.clone());
            let place = (last.key.clone(), row.unwrap_or_default());
            let is_before = |end: &(DecoratedKey, Clustering)| {
                let rows = || table.comparator().compare(&place.1, &end.1);
                place.0.cmp(&end.0).then_with(rows).is_lt()
            };
            if end.as_ref().is_none_or(is_before) {
                end = Some(place);
            }
        }
        let mut all: BTreeMap<&DecoratedKey, Vec<&Clustering>> = BTreeMap::new();
        let named = pages.iter().flat_map(|page| &page.partitions);
        for Partition { key, rows, .. } in named {
            let rows = rows.iter().map(|row| &row.clustering);
            all.entry(key).or_default().extend(rows);
        }
        all.extend(self.resumed.iter().map(|key| (key, Vec::new())));
        let named = all.into_iter().filter_map(|(key, mut rows)| {
            let is_last = match &end {
                Some((last, _)) if key > last => return None,
                Some((last, _)) => key == last,
                None => false,
            };
            if self.of_partitions {
                let key = key.clone();
                return Some(Named { key, rows: None });
            }
            let comparator = table.comparator();
            rows.sort_by(|a, b| comparator.compare(a, b));
            rows.dedup_by(|a, b| comparator.compare(a, b).is_eq());
            if let Some((_, last)) = end.as_ref().filter(|_| is_last) {
                rows.retain(|row| comparator.compare(row, last).is_le());
            }
            (!rows.is_empty()).then(|| Named {
                key: key.clone(),
                rows: Some(rows.into_iter().cloned().collect()),
            })
        });
        Some(Window {
            named: named.collect(),
            behind: end.map(|(key, row)| self.behind(key, row)),
        })
    }

    fn behind(&self, key: DecoratedKey, row: Clustering) -> Resume {
        match self.of_partitions {
            true => Resume {
                key,
                clustering: None,
                remaining_in_partition: 0,
            },
            false => Resume {
                key,
                clustering: Some(row),
                remaining_in_partition: u32::MAX,
            },
        }
    }

    /// The next question is for what lies behind, and for more of it.
    pub fn go_on(&mut self, behind: Resume) {
        self.command.resume = Some(behind);
        self.command.limits.rows = (self.command.limits.rows * 2).min(MANY);
        self.resumed = None;
    }
}

/// The filters that one cell which the index knows has to pass. Of a column of many cells that is one
/// filter: different replicas may have what passes two.
fn decided(
    definition: &IndexDefinition,
    table: &Table,
    filters: &[RowFilter],
) -> Option<(Lookup, Vec<RowFilter>)> {
    let of_column = filters.iter().filter(|f| f.column == definition.column.id);
    if definition.column.ty.is_multi_cell() {
        return of_column.cloned().find_map(|filter| {
            let lookup = definition.lookup(table, std::slice::from_ref(&filter))?;
            Some((lookup, vec![filter]))
        });
    }
    let filters: Vec<RowFilter> = of_column.cloned().collect();
    Some((definition.lookup(table, &filters)?, filters))
}
