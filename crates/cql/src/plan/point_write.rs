//! An INSERT or UPDATE of one row by the whole of its key, whose columns get values as they are written or bound.
//!
//! What [`super::point`] is to SELECT: the most frequent statement's short cut. Whatever is unusual about an execution
//! is left to [`super::write`], which says what it comes to.

use bytes::Bytes;
use model::{
    Cell, ColumnId, CqlType, DecoratedKey, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row,
};

use crate::term::Value;

use super::modify::ModifyPlan;
use super::operation::{Action, ColumnAction};
use super::parts::{has_parts, push_parts};
use super::point::{Given, PointPlan};
use super::restrictions::StatementKind;
use super::row_builder::{ListClock, WriteTime};
use super::write::check_clustering;

/// Which row is written, and what.
#[derive(Clone, Debug)]
pub(crate) struct PointWrite {
    place: PointPlan,
    /// Of regular columns, sorted, each once.
    columns: Vec<GivenColumn>,
    /// Does the row get a marker, so that it is there whatever becomes of its columns (INSERT)?
    marks: bool,
}

/// A column and what it gets.
#[derive(Clone, Debug)]
struct GivenColumn {
    id: ColumnId,
    given: Given,
    /// Its type, if it is a set or map of many cells.
    parts: Option<CqlType>,
}

impl GivenColumn {
    /// `None` if an action does anything but give the column a value, or if it takes more than the value to say what
    /// its cells are.
    fn of(action: &ColumnAction) -> Option<GivenColumn> {
        let (column, Action::Set(value)) = (&action.column, &action.action) else {
            return None;
        };
        let parts = has_parts(&column.ty).then(|| column.ty.clone());
        if column.ty.is_multi_cell() && parts.is_none() {
            return None;
        }
        Some(GivenColumn {
            id: column.id,
            given: Given::of(value)?,
            parts,
        })
    }

    /// Gives the row its value, as the usual way does (`RowBuilder::set_value`).
    fn write(
        &self,
        row: &mut Row,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        time: &WriteTime,
    ) -> Option<()> {
        let assigned = match self.given.assigned(values)? {
            Value::Bytes(bytes) => Some(self.given.ordered(bytes, share)?),
            Value::Null => None,
            Value::Unset => return Some(()),
        };
        let cell = |value: Bytes, deleted_at: u32| Cell {
            column: self.id,
            path: None,
            timestamp: time.timestamp,
            ttl: time.ttl,
            local_deletion_time: deleted_at,
            value,
        };
        match (&self.parts, assigned) {
            (Some(ty), assigned) => {
                row.add_complex_deletion(self.id, time.before());
                if let Some(value) = assigned {
                    let like = cell(Bytes::new(), NO_DELETION_TIME);
                    push_parts(&mut row.cells, &like, (ty, &value)).ok()?;
                }
            }
            (None, Some(value)) => row.cells.push(cell(value, NO_DELETION_TIME)),
            (None, None) => row.cells.push(cell(Bytes::new(), time.now_seconds)),
        }
        Some(())
    }
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
        let columns = plan.row_actions.iter().map(GivenColumn::of);
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let are_sorted = columns.is_sorted_by(|a, b| a.id < b.id);
        are_sorted.then_some(PointWrite {
            place: PointPlan::at(table, &place.keys, &place.rows)?,
            columns,
            marks: plan.kind == StatementKind::Insert,
        })
    }

    /// What an execution writes to the partition of its key at that time, in microseconds since 1970, where it is so
    /// many seconds after 1970. `None` where it has to say why that is nothing.
    fn update(
        &self,
        (plan, key): (&ModifyPlan, DecoratedKey),
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        (timestamp, now_seconds): (i64, u32),
    ) -> Option<PartitionUpdate> {
        let clustering = self.place.clustering(values, &share)?;
        check_clustering(&plan.table, &clustering).ok()?;
        let time = WriteTime {
            timestamp,
            ttl: NO_TTL,
            now_seconds,
            lists: ListClock::Request,
        };
        let mut row = Row::new(clustering);
        if self.marks {
            row.liveness = time.liveness();
        }
        row.cells.reserve_exact(self.columns.len());
        for column in &self.columns {
            column.write(&mut row, values, &share, &time)?;
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

    /// To which partition an execution writes with these values, one for each bind marker; `share` gives bytes of the
    /// values to keep. `None` where it takes [`ModifyPlan::mutations`] to say.
    pub fn point_key(
        &self,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
    ) -> Option<DecoratedKey> {
        self.point.as_ref()?.place.key(values, share)
    }

    /// What it writes there, at a time in microseconds and in seconds since 1970; `None` as before.
    pub fn point_update(
        &self,
        key: DecoratedKey,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        times: (i64, u32),
    ) -> Option<PartitionUpdate> {
        self.point
            .as_ref()?
            .update((self, key), values, share, times)
    }
}
