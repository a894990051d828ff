//! An INSERT or UPDATE of one row by the whole of its key, whose columns get values as they are written or bound.
//!
//! What [`super::point`] is to SELECT: the most frequent statement's short cut. Whatever is unusual about an execution
//! is left to [`super::write`], which says what it comes to.

use bytes::Bytes;
use model::{Cell, ColumnId, Liveness, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row};

use crate::term::Value;

use super::modify::ModifyPlan;
use super::operation::Action;
use super::point::{Given, PointPlan};
use super::restrictions::StatementKind;
use super::write::check_clustering;

/// Which row is written, and what.
#[derive(Clone, Debug)]
pub(crate) struct PointWrite {
    place: PointPlan,
    /// Of regular columns of one cell, sorted, each once.
    values: Vec<(ColumnId, Given)>,
    /// Does the row get a marker, so that it is there whatever becomes of its columns (INSERT)?
    marks: bool,
}

impl PointWrite {
    /// Of a statement that is otherwise analysed; `None` if it does anything but give columns values.
    pub(super) fn of(plan: &ModifyPlan) -> Option<PointWrite> {
        let table = &*plan.table;
        let is_plain = matches!(plan.kind, StatementKind::Insert | StatementKind::Update)
            && !plan.is_counter()
            && !plan.is_conditional()
            && plan.json.is_none()
            && plan.static_actions.is_empty()
            && plan.attributes.are_none()
            && !table.is_virtual
            && table.compact.is_none()
            && table.indexes.is_empty()
            && table.options.default_time_to_live == NO_TTL;
        let place = plan.place.as_ref().filter(|place| place.writes_rows)?;
        if !is_plain {
            return None;
        }
        let given = |action: &super::operation::ColumnAction| match &action.action {
            Action::Set(value) if !action.column.ty.is_multi_cell() => {
                Some((action.column.id, Given::of(value)?))
            }
            _ => None,
        };
        let values = plan.row_actions.iter().map(given);
        let values = values.collect::<Option<Vec<_>>>()?;
        let are_sorted = values.is_sorted_by(|(a, _), (b, _)| a < b);
        are_sorted.then_some(PointWrite {
            place: PointPlan::at(table, &place.keys, &place.rows)?,
            values,
            marks: plan.kind == StatementKind::Insert,
        })
    }

    /// What an execution writes at that time, in microseconds since 1970, where it is so many seconds after 1970.
    /// `None` where it has to say why that is nothing.
    fn update(
        &self,
        plan: &ModifyPlan,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        (timestamp, now_seconds): (i64, u32),
    ) -> Option<PartitionUpdate> {
        let (key, clustering) = self.place.place(values, &share)?;
        check_clustering(&plan.table, &clustering).ok()?;
        let mut row = Row::new(clustering);
        if self.marks {
            row.liveness = Liveness {
                timestamp,
                ttl: NO_TTL,
                expires_at: NO_DELETION_TIME,
            };
        }
        row.cells.reserve_exact(self.values.len());
        for (column, given) in &self.values {
            let (value, deleted_at) = match given.assigned(values)? {
                Value::Bytes(bytes) => (given.shared(bytes, &share), NO_DELETION_TIME),
                Value::Null => (Bytes::new(), now_seconds),
                Value::Unset => continue,
            };
            row.cells.push(Cell {
                column: *column,
                path: None,
                timestamp,
                ttl: NO_TTL,
                local_deletion_time: deleted_at,
                value,
            });
        }
        if row.is_empty() {
            return None;
        }
        let mut update = PartitionUpdate::new(plan.table.clone(), key);
        update.rows.push(row);
        Some(update)
    }
}

impl ModifyPlan {
    /// Does it give columns of one row values, as far as can be told without any? Then [`ModifyPlan::point_update`]
    /// mostly says which.
    pub fn is_point(&self) -> bool {
        self.point.is_some()
    }

    /// What an execution writes with these values, one for each bind marker, at a time in microseconds and in seconds
    /// since 1970; `share` gives bytes of the values to keep. `None` where it takes [`ModifyPlan::mutations`] to say.
    pub fn point_update(
        &self,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        times: (i64, u32),
    ) -> Option<PartitionUpdate> {
        self.point.as_ref()?.update(self, values, share, times)
    }
}
