//! The filters of one execution.

use std::sync::Arc;

use bytes::Bytes;
use model::{ColumnId, ColumnKind, FilterOperator, RowFilter, Table, collection};

use crate::CqlError;
use crate::error::invalid;
use crate::term::{Bound, BoundList, Expression, Request};

use super::keys::in_values;
use super::restriction::{Contents, Demand, Edge, OneOf};
use super::restrictions::FilterDemand;

/// What rows must fulfil besides their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterPlan {
    columns: Vec<FilterColumn>,
}

#[derive(Clone, Debug)]
struct FilterColumn {
    id: ColumnId,
    name: Arc<str>,
    demand: FilterDemand,
}

impl FilterPlan {
    /// Of a statement's restrictions.
    pub(crate) fn new(table: &Table, filters: Vec<(ColumnId, FilterDemand)>) -> FilterPlan {
        let named = |(id, demand)| {
            Some(FilterColumn {
                id,
                name: table.column(id)?.name.clone(),
                demand,
            })
        };
        FilterPlan {
            columns: filters.into_iter().filter_map(named).collect(),
        }
    }

    /// No filters at all?
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Is a column of the partition key filtered?
    pub(crate) fn restricts_key(&self, table: &Table) -> bool {
        self.of_key(table).next().is_some()
    }

    /// Is one filtered by IN?
    pub(crate) fn has_in_of_key(&self, table: &Table) -> bool {
        self.of_key(table)
            .any(|column| matches!(column.demand, FilterDemand::Value(Demand::In(_))))
    }

    /// How many columns are filtered that are not of the primary key.
    pub(crate) fn of_changing(&self, table: &Table) -> usize {
        let mut ids: Vec<ColumnId> = self.columns.iter().map(|column| column.id).collect();
        ids.retain(|id| {
            table.column(*id).is_some_and(|column| {
                matches!(column.kind, ColumnKind::Static | ColumnKind::Regular)
            })
        });
        ids.dedup();
        ids.len()
    }

    fn of_key(&self, table: &Table) -> impl Iterator<Item = &FilterColumn> {
        self.columns
            .iter()
            .filter(|column| table.partition_key().any(|key| key.id == column.id))
    }

    /// The filters of this execution; `None` where nothing can pass them.
    pub(crate) fn filters(
        &self,
        request: &Request<'_>,
    ) -> Result<Option<Vec<RowFilter>>, CqlError> {
        let mut filters = Vec::new();
        for column in &self.columns {
            let possible = match &column.demand {
                FilterDemand::Value(demand) => column.value(demand, request, &mut filters)?,
                FilterDemand::Contents(contents) => {
                    column.contents(contents, request, &mut filters)?;
                    true
                }
            };
            if !possible {
                return Ok(None);
            }
        }
        Ok(Some(filters))
    }
}

impl FilterColumn {
    fn filter(&self, operator: FilterOperator, values: Vec<Bytes>) -> RowFilter {
        RowFilter {
            column: self.id,
            operator,
            values,
        }
    }

    fn required(&self, value: &Expression, request: &Request<'_>) -> Result<Bytes, CqlError> {
        match value.evaluate(request)? {
            Bound::Value(value) => Ok(value),
            Bound::Null => invalid!("Unsupported null value for column {}", self.name),
            Bound::Unset => invalid!("Unsupported unset value for column {}", self.name),
        }
    }

    /// The key or the value of an entry.
    fn of_entry(
        &self,
        what: &str,
        value: &Expression,
        request: &Request<'_>,
    ) -> Result<Bytes, CqlError> {
        match value.evaluate(request)? {
            Bound::Value(value) => Ok(value),
            Bound::Null => invalid!("Unsupported null map {what} for column {}", self.name),
            Bound::Unset => invalid!("Unsupported unset map {what} for column {}", self.name),
        }
    }

    /// Adds filters; says whether anything can pass.
    fn value(
        &self,
        demand: &Demand<Expression>,
        request: &Request<'_>,
        filters: &mut Vec<RowFilter>,
    ) -> Result<bool, CqlError> {
        match demand {
            Demand::Equal(value) => {
                let value = self.required(value, request)?;
                filters.push(self.filter(FilterOperator::Equal, vec![value]));
            }
            Demand::In(one_of) => {
                let values = self.values(one_of, request)?;
                if values.is_empty() {
                    return Ok(false);
                }
                filters.push(self.filter(FilterOperator::Equal, values));
            }
            Demand::Slice { start, end } => {
                let mut edge = |edge: &Option<Edge<Expression>>, strict, inclusive| {
                    if let Some(edge) = edge {
                        let value = self.required(&edge.value, request)?;
                        let operator = if edge.inclusive { inclusive } else { strict };
                        filters.push(self.filter(operator, vec![value]));
                    }
                    Ok::<(), CqlError>(())
                };
                edge(
                    start,
                    FilterOperator::Greater,
                    FilterOperator::GreaterOrEqual,
                )?;
                edge(end, FilterOperator::Less, FilterOperator::LessOrEqual)?;
            }
        }
        Ok(true)
    }

    /// The values of IN. A null among those of a marker is equal to nothing; of those that are written out, none is
    /// looked at behind the first null (`ListSerializer.anyMatch`).
    fn values(
        &self,
        one_of: &OneOf<Expression>,
        request: &Request<'_>,
    ) -> Result<Vec<Bytes>, CqlError> {
        match one_of {
            OneOf::Marker(marker) => match marker.evaluate_list(request)? {
                BoundList::Values(values) => Ok(values.into_iter().flatten().collect()),
                _ => in_values(one_of, &self.name, request),
            },
            OneOf::Terms(terms) => {
                let mut values = Vec::with_capacity(terms.len());
                for term in terms {
                    match term.evaluate(request)?.value() {
                        Some(value) => values.push(value),
                        None => break,
                    }
                }
                Ok(values)
            }
        }
    }

    fn contents(
        &self,
        contents: &Contents,
        request: &Request<'_>,
        filters: &mut Vec<RowFilter>,
    ) -> Result<(), CqlError> {
        for value in &contents.values {
            let value = self.required(value, request)?;
            filters.push(self.filter(FilterOperator::Contains, vec![value]));
        }
        for key in &contents.keys {
            let key = self.required(key, request)?;
            filters.push(self.filter(FilterOperator::ContainsKey, vec![key]));
        }
        for (key, value) in &contents.entries {
            let entry = [(
                self.of_entry("key", key, request)?,
                self.of_entry("value", value, request)?,
            )];
            let map = collection::pack_entries(entry).into();
            filters.push(self.filter(FilterOperator::ContainsEntry, vec![map]));
        }
        for pattern in &contents.likes {
            let pattern = self.required(pattern, request)?;
            let Some((operator, wanted)) = FilterOperator::like(&pattern) else {
                return invalid!("LIKE value can't be empty.");
            };
            filters.push(self.filter(operator, vec![wanted]));
        }
        Ok(())
    }
}
