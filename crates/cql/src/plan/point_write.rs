//! An INSERT or UPDATE of one row by the whole of its key, whose columns get values as they are written or bound.
//!
//! What [`super::point`] is to SELECT: the most frequent statement's short cut. Whatever is unusual about an execution
//! is left to [`super::write`], which says what it comes to.

use std::borrow::Cow;

use bytes::Bytes;
use model::{
    Cell, CellRef, Clustering, ColumnId, CqlType, DecoratedKey, LeastTimes, NO_DELETION_TIME,
    NO_TIMESTAMP, NO_TTL, PackedRow, PartitionUpdate, Row, RowUpdate, RowWriter,
};
use smallvec::SmallVec;

use crate::term::{Value, is_ordered_once};

use super::attributes::GivenAttributes;
use super::modify::ModifyPlan;
use super::operation::{Action, ColumnAction};
use super::parts::{Part, each_part, has_parts, push_parts};
use super::point::{Given, PointPlan};
use super::restrictions::StatementKind;
use super::row_builder::{ListClock, WriteTime};
use super::write::check_clustering;

/// What an execution writes.
#[derive(Debug)]
pub enum PointUpdate {
    /// A row, as memtables lay it out.
    Row(RowUpdate),
    /// A row with values that do not lie side by side there.
    Long(PartitionUpdate),
}

impl PointUpdate {
    /// In the form that all writes have.
    pub fn unpack(self) -> PartitionUpdate {
        match self {
            PointUpdate::Row(update) => update.unpack(),
            PointUpdate::Long(update) => update,
        }
    }
}

/// Which row is written, and what.
#[derive(Clone, Debug)]
pub(crate) struct PointWrite {
    place: PointPlan,
    /// Of regular columns, sorted, each once.
    columns: Vec<GivenColumn>,
    /// Does the row get a marker, so that it is there whatever becomes of its columns (INSERT)?
    marks: bool,
    /// When it is written, and for how long.
    attributes: GivenAttributes,
}

/// A column and what it gets.
#[derive(Clone, Debug)]
struct GivenColumn {
    id: ColumnId,
    given: Given,
    /// Its type, if it is a set or map of many cells.
    parts: Option<CqlType>,
    /// Does who goes along those see whether they are in order?
    order_is_seen: bool,
}

/// Parts of a set or map that are not in its order.
struct OutOfOrder;

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
            order_is_seen: parts.as_ref().is_some_and(is_ordered_once),
            parts,
        })
    }

    /// What it is given, in the order of its type.
    fn assigned<'v>(&'v self, values: &[Value<'v>]) -> Option<Assigned<'v>> {
        Some(match self.given.assigned(values)? {
            Value::Bytes(bytes) if self.order_is_seen => Assigned::AsSent(bytes),
            Value::Bytes(bytes) => Assigned::Value(self.given.in_order(bytes)?),
            Value::Null => Assigned::Null,
            Value::Unset => Assigned::Unset,
        })
    }
}

/// What a column is given.
enum Assigned<'v> {
    Value(Cow<'v, [u8]>),
    /// A set or a map whose parts may be in any order, and several times the same; mostly they are not.
    AsSent(&'v [u8]),
    Null,
    Unset,
}

/// A row and what its columns are given, as the usual way gives it to them (`RowBuilder::set_value`).
struct Written<'v> {
    /// All but the cells.
    head: Row,
    columns: SmallVec<[(&'v GivenColumn, Assigned<'v>); 16]>,
    time: WriteTime,
    /// Is there a column that is given nothing?
    deletes: bool,
}

impl<'v> Written<'v> {
    /// Nothing yet.
    fn new(clustering: Clustering, time: WriteTime) -> Written<'v> {
        Written {
            head: Row::new(clustering),
            columns: SmallVec::new(),
            time,
            deletes: false,
        }
    }

    fn give(&mut self, column: &'v GivenColumn, assigned: Assigned<'v>) {
        if matches!(assigned, Assigned::Unset) {
            return;
        }
        if column.parts.is_some() {
            let deletion = self.time.before();
            self.head.add_complex_deletion(column.id, deletion);
        }
        self.deletes |= matches!(assigned, Assigned::Null);
        self.columns.push((column, assigned));
    }

    fn is_empty(&self) -> bool {
        self.head.is_empty() && self.columns.is_empty()
    }

    /// A cell of a column.
    fn cell<'c>(&self, column: ColumnId, path: Option<&'c [u8]>, value: &'c [u8]) -> CellRef<'c> {
        CellRef {
            column,
            path,
            timestamp: self.time.timestamp,
            ttl: self.time.ttl,
            local_deletion_time: self.time.expires_at(),
            value,
        }
    }

    /// The cell of a column that is given nothing, if that takes one: a deletion of all cells says it of several.
    fn tombstone(&self, column: &GivenColumn) -> Option<CellRef<'static>> {
        column.parts.is_none().then(|| CellRef {
            ttl: NO_TTL,
            local_deletion_time: self.time.now_seconds,
            ..self.cell(column.id, None, &[])
        })
    }

    /// The row in one piece, with its least times; `None` if it has values that should not lie so, or a map that is
    /// none.
    fn packed(&self, scratch: &mut Vec<u8>) -> Result<Option<(PackedRow, LeastTimes)>, OutOfOrder> {
        // Does it say anything that lives?
        let mut lives = !self.head.liveness.is_empty();
        let mut writer = PackedRow::writer_below(&self.head, self.time.timestamp, scratch);
        for (column, assigned) in &self.columns {
            let value: &[u8] = match assigned {
                Assigned::Value(value) => value,
                Assigned::AsSent(value) => value,
                Assigned::Null | Assigned::Unset => {
                    let tombstone = self.tombstone(column);
                    tombstone.iter().for_each(|cell| writer.put(cell));
                    continue;
                }
            };
            let Some(ty) = &column.parts else {
                writer.put(&self.cell(column.id, None, value));
                lives = true;
                continue;
            };
            match self.pack_parts(&mut writer, (column.id, ty), value)? {
                Some(parts) => lives |= parts > 0,
                None => return Ok(None),
            }
        }
        Ok((!writer.is_long()).then(|| (writer.into_row(), self.least_times(lives))))
    }

    /// Of all that it says and deletes, of which something lives or not.
    fn least_times(&self, lives: bool) -> LeastTimes {
        let complex = self.head.complex_deletions.first();
        let deletes = self.deletes || complex.is_some();
        LeastTimes {
            timestamp: complex.map_or(self.time.timestamp, |c| c.deletion.timestamp),
            // What expires does so later, if not in the same second.
            local_deletion_time: match (deletes, lives) {
                (true, _) => self.time.now_seconds,
                (false, true) => self.time.expires_at(),
                (false, false) => NO_DELETION_TIME,
            },
            ttl: if lives { self.time.ttl } else { NO_TTL },
        }
    }

    /// Gives how many parts there are; `None` if the value is none of the type.
    fn pack_parts<'c>(
        &self,
        writer: &mut RowWriter<'_, 'c>,
        (column, ty): (ColumnId, &CqlType),
        value: &'c [u8],
    ) -> Result<Option<usize>, OutOfOrder> {
        let (Ok(parts), Some(path_type)) = (each_part(ty, value), ty.path_type()) else {
            return Ok(None);
        };
        writer.reserve(parts.most());
        let (mut count, mut before) = (0, None::<&[u8]>);
        for part in parts {
            let Ok(Part { path, value }) = part else {
                return Ok(None);
            };
            if before.is_some_and(|before| path_type.compare(before, path).is_ge()) {
                return Err(OutOfOrder);
            }
            before = Some(path);
            writer.put(&self.cell(column, Some(path), value));
            count += 1;
        }
        Ok(Some(count))
    }

    /// Puts sets and maps into their order; `None` if one is none.
    fn put_in_order(&mut self) -> Option<()> {
        for (column, assigned) in &mut self.columns {
            if let Assigned::AsSent(value) = assigned {
                *assigned = Assigned::Value(column.given.in_order(value)?);
            }
        }
        Some(())
    }

    /// The row with each value in a place of its own, where all are in order; `share` gives bytes to keep.
    fn unpacked(mut self, share: impl Fn(&[u8]) -> Bytes) -> Option<Row> {
        let columns = std::mem::take(&mut self.columns);
        let mut cells = Vec::with_capacity(columns.len());
        for (column, assigned) in columns {
            let value = match assigned {
                Assigned::Value(Cow::Owned(value)) => value.into(),
                Assigned::Value(Cow::Borrowed(value)) | Assigned::AsSent(value) => {
                    column.given.shared(value, &share)
                }
                Assigned::Null | Assigned::Unset => {
                    cells.extend(self.tombstone(column).map(|cell| cell.to_cell()));
                    continue;
                }
            };
            let like = self.cell(column.id, None, &[]).to_cell();
            match &column.parts {
                Some(ty) => push_parts(&mut cells, &like, (ty, &value)).ok()?,
                None => cells.push(Cell { value, ..like }),
            }
        }
        self.head.cells = cells;
        Some(self.head)
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
            && !table.is_virtual
            && table.compact.is_none()
            && table.indexes.is_empty();
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
            attributes: plan.attributes.given()?,
        })
    }

    /// What an execution writes to the partition of its key at that time, in microseconds since 1970, unless it says
    /// another, where it is so many seconds after 1970. `None` where it has to say why that is nothing.
    fn update(
        &self,
        (plan, key): (&ModifyPlan, DecoratedKey),
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        (timestamp, now_seconds): (i64, u32),
        scratch: &mut Vec<u8>,
    ) -> Option<PointUpdate> {
        let clustering = self.place.clustering(values, &share)?;
        check_clustering(&plan.table, &clustering).ok()?;
        let timestamp = self.attributes.timestamp(timestamp, values)?;
        if timestamp == NO_TIMESTAMP {
            // There is no time before it, which deletions would have.
            return None;
        }
        let time = WriteTime {
            timestamp,
            ttl: self.attributes.ttl(&plan.table, values, now_seconds)?,
            now_seconds,
            lists: ListClock::Request,
        };
        let mut written = Written::new(clustering, time);
        if self.marks {
            written.head.liveness = time.liveness();
        }
        for column in &self.columns {
            written.give(column, column.assigned(values)?);
        }
        if written.is_empty() {
            return None;
        }
        let table = plan.table.clone();
        let packed = match written.packed(scratch) {
            Ok(packed) => packed,
            Err(OutOfOrder) => {
                written.put_in_order()?;
                written.packed(scratch).ok()?
            }
        };
        if let Some((row, least)) = packed {
            let update = RowUpdate::new(table, key, row, least);
            return Some(PointUpdate::Row(update));
        }
        written.put_in_order()?;
        let mut update = PartitionUpdate::new(table, key);
        update.rows.push(written.unpacked(share)?);
        Some(PointUpdate::Long(update))
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

    /// What it writes there, at a time in microseconds and in seconds since 1970; `None` as before. `scratch` is memory
    /// to lay it out in.
    pub fn point_update(
        &self,
        key: DecoratedKey,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
        times: (i64, u32),
        scratch: &mut Vec<u8>,
    ) -> Option<PointUpdate> {
        self.point
            .as_ref()?
            .update((self, key), values, share, times, scratch)
    }
}
