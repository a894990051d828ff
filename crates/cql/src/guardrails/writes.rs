//! What guardrails say of writes.

use model::{Cell, Column, CqlType, PartitionUpdate, Row, Table, collection};

use crate::CqlError;
use crate::plan::{Action, ModifyPlan};
use crate::term::Request;

use super::{Guardrails, Limit, Setting, Switch, Values};

/// What Cassandra counts of a cell besides value and path: timestamp, time to live and time of
/// deletion (`AbstractCell.dataSize`).
const CELL_BYTES: usize = 8 + 4 + 8;

impl Guardrails {
    /// A TRUNCATE.
    pub fn check_truncate(&self, warnings: &mut Vec<String>) -> Result<(), CqlError> {
        self.ensure(Switch::DropTruncateTable, None, warnings)
    }

    /// The consistency level of a write.
    pub fn check_write_consistency(
        &self,
        consistency: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        self.guard_values(Values::WriteConsistencyLevels, &[consistency], warnings)?;
        Ok(())
    }

    /// What a statement says, before anything of its execution is looked at (`ModificationStatement.validate`).
    pub fn check_write(
        &self,
        plan: &ModifyPlan,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match plan.attributes.has_timestamp() {
            true => self.ensure(Switch::UserTimestamps, None, warnings),
            false => Ok(()),
        }
    }

    /// What an execution says, before it is known what it writes (`ModificationStatement.validateTimestamp`,
    /// `getMutations`). Of the timestamps of batches Cassandra asks only whether they may be.
    pub fn check_modify(
        &self,
        plan: &ModifyPlan,
        request: &Request<'_>,
        in_batch: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        if plan.attributes.has_timestamp() && !in_batch {
            self.check_timestamp(plan, request, warnings)?;
        }
        if let Some(place) = &plan.place
            && self.limits(Limit::InSelectCartesianProduct)
        {
            let keys = place.keys.in_product(request)?;
            self.check_in_product("partition key", keys, warnings)?;
            let rows = place.rows.in_product(request)?;
            self.check_in_product("clustering key", rows, warnings)?;
        }
        for action in plan.static_actions.iter().chain(&plan.row_actions) {
            let feature = match action.action {
                Action::Discard(_) => "Removal of list items requiring read before write",
                Action::DeleteIndex(_) => {
                    "Removal of list items by index requiring read before write"
                }
                Action::SetIndex(..) => {
                    "Setting of list items by index requiring read before write"
                }
                _ => continue,
            };
            let switch = Switch::ReadBeforeWriteListOperations;
            self.ensure(switch, Some(feature), warnings)?;
        }
        Ok(())
    }

    fn check_timestamp(
        &self,
        plan: &ModifyPlan,
        request: &Request<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let timestamp = plan
            .attributes
            .timestamp(request.timestamp_micros, request)?;
        let now = request.functions.now_micros;
        for limit in [Limit::MaximumTimestamp, Limit::MinimumTimestamp] {
            // The farther from now, the worse.
            let (distance, sign) = match limit {
                Limit::MaximumTimestamp => (timestamp.saturating_sub(now), 1),
                _ => (now.saturating_sub(timestamp), -1),
            };
            for (setting, is_warning) in
                [(Setting::Fail(limit), false), (Setting::Warn(limit), true)]
            {
                let Some(threshold) = self.threshold(setting) else {
                    continue;
                };
                let threshold = i64::try_from(threshold).unwrap_or(i64::MAX);
                if distance <= threshold {
                    continue;
                }
                let at = now.saturating_add(threshold.saturating_mul(sign));
                let message = limit.violation(is_warning, &plan.table.name, timestamp, at);
                if !is_warning {
                    return super::violated(message, warnings);
                }
                warnings.push(message);
                break;
            }
        }
        Ok(())
    }

    /// What is written (`UpdateParameters.addCell`, `Lists.Appender`, `Sets.Adder`, `Maps.Putter`).
    ///
    /// Cassandra asks for the size of a collection where elements are added to it, not where one of a
    /// list or map is set by its index or key, or put in front of a list; here a write is a write.
    pub fn check_updates<'u>(
        &self,
        updates: impl Iterator<Item = &'u PartitionUpdate>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let any = |limits: [Limit; 3]| limits.into_iter().any(|limit| self.limits(limit));
        let of_cells = any([
            Limit::ColumnValueSize,
            Limit::CollectionSize,
            Limit::ItemsPerCollection,
        ]);
        let of_terms = any([
            Limit::SaiStringTermSize,
            Limit::SaiFrozenTermSize,
            Limit::SaiVectorTermSize,
        ]);
        if !of_cells && !of_terms {
            return Ok(());
        }
        for update in updates {
            if of_cells {
                for row in update.static_row.iter().chain(&update.rows) {
                    self.check_row(&update.table, row, warnings)?;
                }
            }
            if of_terms {
                self.check_terms(update, warnings)?;
            }
        }
        Ok(())
    }

    fn check_row(
        &self,
        table: &Table,
        row: &Row,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let same_column = |a: &Cell, b: &Cell| a.column == b.column;
        for cells in row.cells.chunk_by(same_column) {
            let Some(column) = table.column(cells[0].column) else {
                continue;
            };
            self.check_cells(column, cells, warnings)?;
        }
        Ok(())
    }

    /// The cells of one column of a row.
    fn check_cells(
        &self,
        column: &Column,
        cells: &[Cell],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let name = &*column.name;
        let live = || cells.iter().filter(|cell| !cell.is_tombstone());
        let items = match &column.ty {
            CqlType::List { .. } | CqlType::Set { .. } if !column.ty.is_multi_cell() => live()
                .map(|cell| collection::elements(&cell.value).map_or(0, |e| e.len()))
                .sum(),
            CqlType::Map { .. } if !column.ty.is_multi_cell() => live()
                .map(|cell| collection::entries(&cell.value).map_or(0, |e| e.len()))
                .sum(),
            _ => live().count(),
        };
        let is_collection = matches!(
            column.ty,
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. }
        );
        if is_collection {
            self.guard(Limit::ItemsPerCollection, name, items as u64, warnings)?;
        }
        let mut bytes = 0;
        for cell in cells {
            let path = cell.path.as_ref().map_or(0, |path| path.len());
            for size in [path, cell.value.len()] {
                self.guard(Limit::ColumnValueSize, name, size as u64, warnings)?;
            }
            if !cell.is_tombstone() {
                bytes += CELL_BYTES + path + cell.value.len();
            }
        }
        if is_collection {
            self.guard(Limit::CollectionSize, name, bytes as u64, warnings)?;
        }
        Ok(())
    }
}
