//! Putting together the row that one execution writes (`UpdateParameters`).

use bytes::Bytes;
use model::{
    Cell, Clustering, Column, CqlType, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Row,
    Table, collection, compare_cells, counter, reconcile_cells,
};

use crate::CqlError;
use crate::error::invalid;
use crate::functions::Scalar;
use crate::term::{Bound, Expression, Request};

use super::list_paths::ListPaths;
use super::operation::{Action, ColumnAction};
use super::parts::{has_parts, push_parts};

/// When a write happened, and how long what it writes lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTime {
    /// Microseconds since 1970.
    pub(crate) timestamp: i64,
    /// Seconds; [`NO_TTL`] for ever.
    pub(crate) ttl: i32,
    /// Seconds since 1970.
    pub(crate) now_seconds: u32,
    /// Where elements that are appended to lists have their order from.
    pub(crate) lists: ListClock,
}

/// The order of elements that are appended to lists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListClock {
    /// The moment of the request.
    Request,
    /// The time of a ballot, in microseconds since 1970, and the number of the first element.
    Ballot { timestamp_micros: i64, first: u64 },
}

impl WriteTime {
    /// A deletion at this time.
    pub(crate) fn deletion(&self) -> DeletionTime {
        DeletionTime {
            timestamp: self.timestamp,
            local_deletion_time: self.now_seconds,
        }
    }

    /// What deletes all of a column that gets a value at this time: that has the same timestamp, and must survive.
    pub(super) fn before(&self) -> DeletionTime {
        DeletionTime {
            timestamp: self.timestamp.saturating_sub(1),
            ..self.deletion()
        }
    }

    /// Seconds since 1970.
    pub(super) fn expires_at(&self) -> u32 {
        if self.ttl == NO_TTL {
            return NO_DELETION_TIME;
        }
        self.now_seconds.saturating_add(self.ttl.unsigned_abs())
    }

    /// The marker of a row that INSERT writes.
    pub(crate) fn liveness(&self) -> Liveness {
        Liveness {
            timestamp: self.timestamp,
            ttl: self.ttl,
            expires_at: self.expires_at(),
        }
    }
}

/// A row while it is put together.
pub(crate) struct RowBuilder<'a> {
    table: &'a Table,
    request: &'a Request<'a>,
    time: WriteTime,
    /// What the row holds already: for lists by index.
    known: Option<&'a Row>,
    row: Row,
    /// Cells may be out of order, or twice.
    disordered: bool,
}

impl<'a> RowBuilder<'a> {
    /// A row at this place.
    pub(crate) fn new(
        table: &'a Table,
        request: &'a Request<'a>,
        time: WriteTime,
        known: Option<&'a Row>,
        clustering: Clustering,
    ) -> RowBuilder<'a> {
        RowBuilder {
            table,
            request,
            time,
            known,
            row: Row::new(clustering),
            disordered: false,
        }
    }

    /// With room for so many cells.
    pub(crate) fn with_capacity(mut self, cells: usize) -> Self {
        self.row.cells.reserve_exact(cells);
        self
    }

    /// With the marker of INSERT.
    pub(crate) fn with_marker(mut self) -> Self {
        if self.table.compact.is_none() {
            self.row.liveness = self.time.liveness();
        }
        self
    }

    /// Deleted whole. A row of a compact table is its value, and that is what goes, as in files
    /// of Cassandra.
    pub(crate) fn deleted(mut self) -> Self {
        match self.table.regulars().next() {
            Some(value) if self.table.compact.is_some() => self.put(self.tombstone(value, None)),
            _ => self.row.deletion = self.time.deletion(),
        }
        self
    }

    /// The row: its cells in order, one each.
    pub(crate) fn finish(mut self) -> Row {
        if self.disordered {
            let cells = std::mem::take(&mut self.row.cells);
            let mut sorted = cells;
            sorted.sort_by(|a, b| compare_cells(self.table, a, b));
            let mut cells: Vec<Cell> = Vec::with_capacity(sorted.len());
            for cell in sorted {
                match cells.pop() {
                    Some(last) if compare_cells(self.table, &last, &cell).is_eq() => {
                        cells.push(reconcile_cells(last, cell, self.table));
                    }
                    last => {
                        cells.extend(last);
                        cells.push(cell);
                    }
                }
            }
            self.row.cells = cells;
        }
        self.row
    }

    fn live(&self, column: &Column, path: Option<Bytes>, value: Bytes) -> Cell {
        Cell {
            column: column.id,
            path,
            timestamp: self.time.timestamp,
            ttl: self.time.ttl,
            local_deletion_time: self.time.expires_at(),
            value,
        }
    }

    fn tombstone(&self, column: &Column, path: Option<Bytes>) -> Cell {
        Cell {
            column: column.id,
            path,
            timestamp: self.time.timestamp,
            ttl: NO_TTL,
            local_deletion_time: self.time.now_seconds,
            value: Bytes::new(),
        }
    }

    fn put(&mut self, cell: Cell) {
        let before = self.row.cells.last();
        self.disordered |=
            before.is_some_and(|last| compare_cells(self.table, last, &cell).is_ge());
        self.row.cells.push(cell);
    }

    /// Applies an action to its column.
    pub(crate) fn apply(&mut self, action: &ColumnAction) -> Result<(), CqlError> {
        let column = &action.column;
        match &action.action {
            Action::Set(value) => self.set(column, value),
            Action::Increment(value) => self.count(column, value, false),
            Action::Decrement(value) => self.count(column, value, true),
            Action::Plus(function, value) => self.plus(column, function, value),
            Action::Append(value) => self.append(column, value, false),
            Action::Prepend(value) => self.append(column, value, true),
            Action::Discard(value) => self.discard(column, value),
            Action::Add(value) => match value.evaluate(self.request)? {
                Bound::Value(value) => self.add_parts(column, &value),
                Bound::Null | Bound::Unset => Ok(()),
            },
            Action::Remove(value) => self.remove(column, value),
            Action::SetIndex(index, value) => {
                let path = self.list_path(column, index, "set an element on")?;
                self.set_part(column, path, value)
            }
            Action::SetEntry(key, value) => {
                let key = required_part(key.evaluate(self.request)?, "map key")?;
                self.set_part(column, key, value)
            }
            Action::SetField(index, value) => {
                self.set_part(column, Bytes::copy_from_slice(&index.to_be_bytes()), value)
            }
            Action::Delete => {
                if column.ty.is_multi_cell() {
                    self.row
                        .add_complex_deletion(column.id, self.time.deletion());
                } else {
                    self.put(self.tombstone(column, None));
                }
                Ok(())
            }
            Action::DeleteIndex(index) => {
                // Of an index that is not set nothing is deleted.
                if index.evaluate(self.request)? != Bound::Unset {
                    let path = self.list_path(column, index, "delete an element from")?;
                    self.put(self.tombstone(column, Some(path)));
                }
                Ok(())
            }
            Action::DeleteElement(key, what) => {
                let key = key.evaluate(self.request)?;
                if key == Bound::Unset && matches!(column.ty, CqlType::Set { .. }) {
                    return Ok(());
                }
                let key = required_part(key, what)?;
                self.put(self.tombstone(column, Some(key)));
                Ok(())
            }
            Action::DeleteField(index) => {
                let path = Bytes::copy_from_slice(&index.to_be_bytes());
                self.put(self.tombstone(column, Some(path)));
                Ok(())
            }
        }
    }

    /// The column gets a value.
    pub(crate) fn set_value(&mut self, column: &Column, value: Bound) -> Result<(), CqlError> {
        if column.ty.is_multi_cell() {
            if value == Bound::Unset {
                return Ok(());
            }
            self.row.add_complex_deletion(column.id, self.time.before());
            return match value.value() {
                Some(value) => match column.ty {
                    CqlType::List { .. } => self.append_value(column, &value, false),
                    _ => self.add_parts(column, &value),
                },
                None => Ok(()),
            };
        }
        match value {
            Bound::Value(value) => self.put(self.live(column, None, value)),
            Bound::Null => self.put(self.tombstone(column, None)),
            Bound::Unset => {}
        }
        Ok(())
    }

    fn set(&mut self, column: &Column, value: &Expression) -> Result<(), CqlError> {
        self.set_value(column, value.evaluate(self.request)?)
    }

    /// Adds to a counter, or takes from it: an update, which only the leader can turn into what a
    /// counter is written as (`model::counter`).
    fn count(
        &mut self,
        column: &Column,
        value: &Expression,
        negated: bool,
    ) -> Result<(), CqlError> {
        let mut delta = match value.evaluate(self.request)? {
            Bound::Unset => return Ok(()),
            Bound::Null => return invalid!("Invalid null value for counter increment"),
            Bound::Value(bytes) => match <[u8; 8]>::try_from(&*bytes) {
                Ok(bytes) => i64::from_be_bytes(bytes),
                Err(_) => return invalid!("Invalid empty value for counter increment"),
            },
        };
        if negated {
            delta = match delta.checked_neg() {
                Some(negation) => negation,
                None => {
                    return invalid!(
                        "The negation of {delta} overflows supported counter precision (signed 8 \
                         bytes integer)"
                    );
                }
            };
        }
        self.put(Cell {
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            ..self.live(column, None, counter::update(delta).into())
        });
        Ok(())
    }

    /// Adds to the value that the column has; what has none keeps none.
    fn plus(
        &mut self,
        column: &Column,
        function: &Scalar,
        value: &Expression,
    ) -> Result<(), CqlError> {
        let value = match value.evaluate(self.request)? {
            Bound::Value(value) => value,
            Bound::Null => return invalid!("Invalid null value for column {}", column.name),
            Bound::Unset => return invalid!("Invalid unset value for column {}", column.name),
        };
        let Some(current) = self.cells_of(column).pop() else {
            return Ok(());
        };
        let operands = [Some(current.value), Some(value)];
        if let Some(sum) = function.execute(&self.request.functions, &operands)? {
            self.put(self.live(column, None, sum));
        }
        Ok(())
    }

    /// An element, entry or field gets a value.
    fn set_part(
        &mut self,
        column: &Column,
        path: Bytes,
        value: &Expression,
    ) -> Result<(), CqlError> {
        match value.evaluate(self.request)? {
            Bound::Value(value) => self.put(self.live(column, Some(path), value)),
            Bound::Null => self.put(self.tombstone(column, Some(path))),
            Bound::Unset => {}
        }
        Ok(())
    }

    fn append(
        &mut self,
        column: &Column,
        value: &Expression,
        before: bool,
    ) -> Result<(), CqlError> {
        match value.evaluate(self.request)? {
            Bound::Value(value) => self.append_value(column, &value, before),
            Bound::Null | Bound::Unset => Ok(()),
        }
    }

    fn append_value(
        &mut self,
        column: &Column,
        value: &Bytes,
        before: bool,
    ) -> Result<(), CqlError> {
        let elements = collection::elements(value).map_err(malformed)?;
        let functions = &self.request.functions;
        let mut paths = match &mut self.time.lists {
            _ if before => ListPaths::before(functions, elements.len()),
            ListClock::Request => ListPaths::after(functions, elements.len()),
            ListClock::Ballot {
                timestamp_micros,
                first,
            } => {
                let paths = ListPaths::of_ballot(*timestamp_micros, *first);
                *first += elements.len() as u64;
                paths
            }
        };
        for element in elements {
            let cell = self.live(column, Some(paths.next_path()), value.slice_ref(element));
            self.put(cell);
        }
        Ok(())
    }

    /// The parts of a set, map or user type become cells.
    fn add_parts(&mut self, column: &Column, value: &Bytes) -> Result<(), CqlError> {
        match &column.ty {
            ty if has_parts(ty) => {
                let start = self.row.cells.len();
                let like = self.live(column, None, Bytes::new());
                let cells = &mut self.row.cells;
                push_parts(cells, &like, (ty, value)).map_err(malformed)?;
                // What was there before may be of the same column.
                let since = &cells[start.saturating_sub(1)..];
                self.disordered |=
                    !since.is_sorted_by(|a, b| compare_cells(self.table, a, b).is_lt());
            }
            CqlType::Udt { definition, .. } => {
                let count = definition.fields.len();
                let fields = collection::components(value, count).map_err(malformed)?;
                for (index, field) in fields.into_iter().enumerate() {
                    let path = Some(Bytes::copy_from_slice(&(index as u16).to_be_bytes()));
                    // Null fields are gone with what the column held before.
                    if let Some(field) = field {
                        self.put(self.live(column, path, value.slice_ref(field)));
                    }
                }
            }
            other => return invalid!("values of type {other} have no parts"),
        }
        Ok(())
    }

    fn remove(&mut self, column: &Column, value: &Expression) -> Result<(), CqlError> {
        let Some(value) = value.evaluate(self.request)?.value() else {
            return Ok(());
        };
        for element in collection::elements(&value).map_err(malformed)? {
            let path = value.slice_ref(element);
            self.put(self.tombstone(column, Some(path)));
        }
        Ok(())
    }

    /// The live cells of a column that was read, with what was written to it since.
    fn cells_of(&self, column: &Column) -> Vec<Cell> {
        let mut known = Row::new(Clustering::EMPTY);
        known.cells = self
            .known
            .map_or(&[][..], |row| row.cells_of(column.id))
            .to_vec();
        let mut written = Row::new(Clustering::EMPTY);
        let deletion = self.row.complex_deletion(column.id);
        if !deletion.is_live() {
            written.add_complex_deletion(column.id, deletion);
        }
        for cell in self
            .row
            .cells
            .iter()
            .filter(|cell| cell.column == column.id)
        {
            written.add_cell(cell.clone(), self.table);
        }
        known.merge(written, self.table);
        let now = self.time.now_seconds;
        known.cells.retain(|cell| cell.is_live(now));
        known.cells
    }

    fn discard(&mut self, column: &Column, value: &Expression) -> Result<(), CqlError> {
        let cells = self.cells_of(column);
        let Some(value) = value.evaluate(self.request)?.value() else {
            return Ok(());
        };
        let mut unwanted = collection::elements(&value).map_err(malformed)?;
        // By their bytes, not as values (`Lists.Discarder`).
        unwanted.sort_unstable();
        for cell in cells {
            if unwanted.binary_search(&&*cell.value).is_ok() {
                self.put(self.tombstone(column, cell.path));
            }
        }
        Ok(())
    }

    /// The path of the element at an index.
    fn list_path(
        &self,
        column: &Column,
        index: &Expression,
        what: &str,
    ) -> Result<Bytes, CqlError> {
        let index = match index.evaluate(self.request)? {
            Bound::Value(bytes) => <[u8; 4]>::try_from(&*bytes)
                .map(i32::from_be_bytes)
                .map_err(|_| CqlError::Invalid("Invalid value for list index".to_owned()))?,
            Bound::Null => return invalid!("Invalid null value for list index"),
            Bound::Unset => return invalid!("Invalid unset value for list index"),
        };
        let cells = self.cells_of(column);
        if cells.is_empty() {
            return invalid!("Attempted to {what} a list which is null");
        }
        let found = usize::try_from(index).ok().and_then(|i| cells.get(i));
        match found.and_then(|cell| cell.path.clone()) {
            Some(path) => Ok(path),
            None => invalid!(
                "List index {index} out of bound, list has size {}",
                cells.len()
            ),
        }
    }
}

fn malformed(error: model::ValueError) -> CqlError {
    CqlError::Invalid(error.to_string())
}

fn required_part(bound: Bound, what: &str) -> Result<Bytes, CqlError> {
    match bound {
        Bound::Value(value) => Ok(value),
        Bound::Null => invalid!("Invalid null {what}"),
        Bound::Unset => invalid!("Invalid unset {what}"),
    }
}
