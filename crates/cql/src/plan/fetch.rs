//! From a row of a table to the values that a selection is made of.
//!
//! A selection asks for slots: columns of the key, cells, whole collections, times of cells. For
//! each row they are filled in one walk over its cells; what lies in one piece is borrowed.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Cell, Column, ColumnId, ColumnKind, CompactForm, CqlType, NO_TTL, PackedClustering, PackedRow,
    Partition, Row, Table, collection, counter,
};
use smallvec::SmallVec;

use super::node::{element_key, slice_edges};
use crate::CqlError;
use crate::ast::WriteTimeKind;
use crate::error::invalid;
use crate::term::{Expression, Request};

/// Which cells of a column a time is asked of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// All of them.
    Whole,
    /// That of a field of a user type.
    Field(u16),
    /// That of an element of a set or map.
    Element(Expression),
    /// Those of the elements of a set or map between two keys.
    Slice(Option<Expression>, Option<Expression>),
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// A column of the partition key, by position.
    Key(usize),
    /// A clustering column, by position.
    Clustering(usize),
    /// The value of a column.
    Value(ColumnId),
    /// A time of the cells of a column.
    Time(ColumnId, WriteTimeKind, Part),
}

/// A value of a row: `None` is null.
pub(crate) type Fetched<'p> = Option<Cow<'p, [u8]>>;

/// The slots of one row.
pub(crate) type Slots<'p> = SmallVec<[Fetched<'p>; 16]>;

/// Those of a row that is borrowed whole.
pub(crate) type PlainSlots<'p> = SmallVec<[Option<&'p [u8]>; 16]>;

/// The slots of a selection, and how to fill them.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    table: Arc<Table>,
    sources: Vec<Source>,
    /// By column id: the slot of the column's value, or [`NO_SLOT`].
    values: Vec<u16>,
    /// By position: the slots of the columns of the partition key, and of the clustering, up to the last one that has
    /// one.
    keys: Vec<u16>,
    clusterings: Vec<u16>,
    /// The slots that each row fills anew.
    of_rows: Vec<u16>,
    /// Are there any times?
    times: bool,
}

const NO_SLOT: u16 = u16::MAX;

impl Fetch {
    /// No slots yet.
    pub(crate) fn new(table: Arc<Table>) -> Fetch {
        Fetch {
            table,
            sources: Vec::new(),
            values: Vec::new(),
            keys: Vec::new(),
            clusterings: Vec::new(),
            of_rows: Vec::new(),
            times: false,
        }
    }

    /// The slot of a source; made if there is none yet.
    pub(crate) fn slot(&mut self, source: Source) -> Result<usize, CqlError> {
        if let Some(known) = self.known(&source) {
            return Ok(known);
        }
        let slot = self.sources.len();
        if slot >= usize::from(NO_SLOT) {
            return invalid!("a selection may have {NO_SLOT} different parts, not more");
        }
        match &source {
            Source::Key(position) => note(&mut self.keys, *position, slot),
            Source::Clustering(position) => note(&mut self.clusterings, *position, slot),
            Source::Value(column) => note(&mut self.values, column.0 as usize, slot),
            Source::Time(..) => self.times = true,
        }
        if self.is_of_rows(&source) {
            self.of_rows.push(slot as u16);
        }
        self.sources.push(source);
        Ok(slot)
    }

    /// Is it not the same for all rows of a partition?
    fn is_of_rows(&self, source: &Source) -> bool {
        let is_static = |column: &Column| column.kind == ColumnKind::Static;
        match source {
            Source::Key(_) => false,
            Source::Clustering(_) => true,
            Source::Value(id) | Source::Time(id, ..) => {
                !self.table.column(*id).is_some_and(is_static)
            }
        }
    }

    fn known(&self, source: &Source) -> Option<usize> {
        let slot = match source {
            Source::Key(position) => self.keys.get(*position),
            Source::Clustering(position) => self.clusterings.get(*position),
            Source::Value(column) => self.values.get(column.0 as usize),
            Source::Time(..) => None,
        };
        slot.filter(|slot| **slot != NO_SLOT)
            .map(|slot| usize::from(*slot))
    }

    /// Is the time of a cell among what is asked for?
    pub(crate) fn has_times(&self) -> bool {
        self.times
    }

    /// The regular and static columns that are read, sorted.
    pub(crate) fn columns(&self) -> Vec<ColumnId> {
        let mut columns: Vec<ColumnId> = self
            .sources
            .iter()
            .filter_map(|source| match source {
                Source::Value(column) | Source::Time(column, ..) => Some(*column),
                Source::Key(_) | Source::Clustering(_) => None,
            })
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// All columns that are used, key columns too.
    pub(crate) fn used_columns(&self) -> Vec<Column> {
        self.sources
            .iter()
            .filter_map(|source| match source {
                Source::Key(position) => self.table.partition_key().nth(*position),
                Source::Clustering(position) => self.table.clustering_key().nth(*position),
                Source::Value(id) | Source::Time(id, ..) => self.table.column(*id),
            })
            .cloned()
            .collect()
    }

    /// The slots of no row: all null.
    pub(crate) fn empty(&self) -> Slots<'static> {
        self.sources.iter().map(|_| None).collect()
    }

    /// Fills the slots that all rows of a partition share: key and static columns. The others are null.
    pub(crate) fn partition<'p>(
        &self,
        slots: &mut Slots<'p>,
        partition: &'p Partition,
        request: &Request<'_>,
    ) -> Result<(), CqlError> {
        slots.clear();
        slots.resize(self.sources.len(), None);
        let put = |slot: usize, value| slots[slot] = Some(Cow::Borrowed(value));
        self.put_key(partition.key.key(), put);
        if let Some(row) = &partition.static_row {
            self.cells(slots, row, request)?;
        }
        Ok(())
    }

    /// Nothing is known any more of the row that [`Fetch::row`] filled in.
    pub(crate) fn forget_row<T>(&self, slots: &mut [Option<T>]) {
        for slot in &self.of_rows {
            slots[usize::from(*slot)] = None;
        }
    }

    /// Fills the slots of a row into those of its partition.
    pub(crate) fn row<'p>(
        &self,
        slots: &mut Slots<'p>,
        row: &'p Row,
        request: &Request<'_>,
    ) -> Result<(), CqlError> {
        for (slot, source) in slots.iter_mut().zip(&self.sources) {
            if let Source::Clustering(position) = source {
                let value = row.clustering.0.get(*position);
                // The last clustering columns of a compact table may be null, which is kept as
                // empty: there is nothing else that they can be empty for, but text.
                let nulls = || {
                    row.clustering
                        .0
                        .iter()
                        .skip(*position)
                        .all(|v| v.is_empty())
                };
                let may_be_null = self.table.compact == Some(CompactForm::Dense);
                let value = value.filter(|_| !(may_be_null && nulls()));
                *slot = value.map(|value| Cow::Borrowed(&**value));
            }
        }
        self.cells(slots, row, request)
    }

    /// As [`Fetch::row`], of a row in one piece: of a table whose columns have one cell each, and no times.
    pub(crate) fn packed_row<'p>(&self, slots: &mut Slots<'p>, row: &'p PackedRow) {
        let put = |slot: usize, value| slots[slot] = Some(Cow::Borrowed(value));
        self.put_row(row.clustering(), PackedClustering::then_values, put);
    }

    /// Fills the slots of a row of which all is to be seen, of a table without static columns and as
    /// [`Fetch::packed_row`] wants it: from the key of its partition, its clustering and its values.
    #[inline]
    pub(crate) fn plain_row<'p>(
        &self,
        slots: &mut PlainSlots<'p>,
        key: &'p [u8],
        clustering: impl Iterator<Item = &'p [u8]>,
        values: impl Iterator<Item = (ColumnId, &'p [u8])>,
    ) {
        self.plain_key(slots, key);
        let put = |slot: usize, value| slots[slot] = Some(value);
        self.put_row(clustering, |_| values, put);
    }

    /// Fills the slots that all rows of a partition share, of a table without static columns. The others are null.
    #[inline]
    pub(crate) fn plain_key<'p>(&self, slots: &mut PlainSlots<'p>, key: &'p [u8]) {
        slots.resize(self.sources.len(), None);
        self.put_key(key, |slot, value| slots[slot] = Some(value));
    }

    /// Fills clustering and values of a row, as [`Fetch::packed_row`] has it, into the slots of its partition.
    #[inline]
    pub(crate) fn plain_values<'p>(&self, slots: &mut PlainSlots<'p>, row: &'p PackedRow) {
        let put = |slot: usize, value| slots[slot] = Some(value);
        self.put_row(row.clustering(), PackedClustering::then_values, put);
    }

    /// Puts the columns of a partition key into their slots.
    #[inline]
    fn put_key<'p>(&self, key: &'p [u8], mut put: impl FnMut(usize, &'p [u8])) {
        if self.keys.is_empty() {
            return;
        }
        let parts = match self.table.partition_key().len() {
            1 => SmallVec::from_slice(&[key]),
            count => key_parts(key, count),
        };
        for (slot, part) in self.keys.iter().zip(parts) {
            if *slot != NO_SLOT {
                put(usize::from(*slot), part);
            }
        }
    }

    /// Puts clustering and values into their slots: of columns that have one cell each. `then` gives the values that
    /// stand behind a clustering.
    #[inline]
    fn put_row<'p, C, V>(
        &self,
        mut clustering: C,
        then: impl FnOnce(C) -> V,
        mut put: impl FnMut(usize, &'p [u8]),
    ) where
        C: Iterator<Item = &'p [u8]>,
        V: Iterator<Item = (ColumnId, &'p [u8])>,
    {
        for (slot, part) in self.clusterings.iter().zip(&mut clustering) {
            if *slot != NO_SLOT {
                put(usize::from(*slot), part);
            }
        }
        for (column, value) in then(clustering) {
            let slot = self.values.get(column.0 as usize).copied();
            if let Some(slot) = slot.filter(|slot| *slot != NO_SLOT) {
                put(usize::from(slot), value);
            }
        }
    }

    fn cells<'p>(
        &self,
        slots: &mut Slots<'p>,
        row: &'p Row,
        request: &Request<'_>,
    ) -> Result<(), CqlError> {
        let now = request.now_seconds;
        let mut rest = &row.cells[..];
        while let Some(first) = rest.first() {
            let column = first.column;
            let slot = self
                .values
                .get(column.0 as usize)
                .copied()
                .unwrap_or(NO_SLOT);
            if first.path.is_none() {
                rest = &rest[1..];
                if slot != NO_SLOT && first.is_live(now) {
                    slots[usize::from(slot)] = Some(self.simple(first));
                }
                continue;
            }
            let count = rest.partition_point(|cell| cell.column == column);
            let (cells, behind) = rest.split_at(count);
            rest = behind;
            if slot != NO_SLOT
                && let Some(column) = self.table.column(column)
            {
                slots[usize::from(slot)] = assemble(cells, &column.ty, now).map(Cow::Owned);
            }
        }
        if self.times {
            self.times_of(slots, row, request)?;
        }
        Ok(())
    }

    fn simple<'p>(&self, cell: &'p Cell) -> Cow<'p, [u8]> {
        let column = self.table.column(cell.column);
        if column.is_some_and(|column| column.ty == CqlType::Counter) {
            return Cow::Owned(counter::total(&cell.value).to_be_bytes().to_vec());
        }
        Cow::Borrowed(&cell.value)
    }

    fn times_of<'p>(
        &self,
        slots: &mut Slots<'p>,
        row: &'p Row,
        request: &Request<'_>,
    ) -> Result<(), CqlError> {
        for (slot, source) in slots.iter_mut().zip(&self.sources) {
            if let Source::Time(id, kind, part) = source
                && let Some(column) = self.table.column(*id)
            {
                let cells = row.cells_of(*id);
                if cells.is_empty() {
                    continue;
                }
                *slot = times(cells, column, *kind, part, request)?.map(Cow::Owned);
            }
        }
        Ok(())
    }
}

/// Notes which slot something of a position has.
fn note(slots: &mut Vec<u16>, position: usize, slot: usize) {
    if slots.len() <= position {
        slots.resize(position + 1, NO_SLOT);
    }
    slots[position] = slot as u16;
}

/// Slots that need their row no more.
pub(crate) fn owned(slots: &Slots<'_>) -> Slots<'static> {
    let owned = |value: &Cow<'_, [u8]>| Cow::Owned(value.to_vec());
    slots.iter().map(|slot| slot.as_ref().map(owned)).collect()
}

/// The components of a composite partition key, borrowed; fewer where it is malformed.
fn key_parts(key: &[u8], count: usize) -> SmallVec<[&[u8]; 4]> {
    let mut parts = SmallVec::new();
    let mut rest = key;
    while parts.len() < count {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else {
            break;
        };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some(part) = behind.get(..length) else {
            break;
        };
        parts.push(part);
        rest = behind.get(length + 1..).unwrap_or(&[]);
    }
    parts
}

/// The value of a non-frozen collection or user type from its cells; `None` where none is live.
pub(crate) fn assemble(cells: &[Cell], ty: &CqlType, now_seconds: u32) -> Option<Vec<u8>> {
    let live = || cells.iter().filter(|cell| cell.is_live(now_seconds));
    live().next()?;
    let path = |cell: &Cell| cell.path.clone().unwrap_or_default();
    Some(match ty {
        CqlType::List { .. } => collection::pack_elements(live().map(|cell| &cell.value)),
        CqlType::Set { .. } => collection::pack_elements(live().map(path)),
        CqlType::Map { .. } => {
            collection::pack_entries(live().map(|cell| (path(cell), &cell.value)))
        }
        CqlType::Udt { definition, .. } => {
            let mut fields: Vec<Option<&Bytes>> = vec![None; definition.fields.len()];
            for cell in live() {
                let index = cell.path.as_deref().and_then(field_index);
                if let Some(field) = index.and_then(|index| fields.get_mut(index)) {
                    *field = Some(&cell.value);
                }
            }
            collection::pack_tuple(fields)
        }
        // Cells with paths of a column that is of one cell: nothing a reader could make sense of.
        _ => return None,
    })
}

fn field_index(path: &[u8]) -> Option<usize> {
    let path: [u8; 2] = path.try_into().ok()?;
    Some(usize::from(u16::from_be_bytes(path)))
}

/// `writetime`, `maxwritetime`, `minwritetime` or `ttl` of cells.
fn times(
    cells: &[Cell],
    column: &Column,
    kind: WriteTimeKind,
    part: &Part,
    request: &Request<'_>,
) -> Result<Option<Vec<u8>>, CqlError> {
    let (now, ty) = (request.now_seconds, &column.ty);
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.is_live(now)).collect();
    if let CqlType::Udt {
        definition,
        frozen: false,
    } = ty
        && *part == Part::Whole
        && !kind.is_of_all()
        && !cells.is_empty()
    {
        // One for each field; null for those that are.
        let mut fields: Vec<Option<Vec<u8>>> = vec![None; definition.fields.len()];
        for cell in cells {
            let index = cell.path.as_deref().and_then(field_index);
            if let Some(field) = index.and_then(|index| fields.get_mut(index)) {
                *field = time(cell, kind, now);
            }
        }
        return Ok(Some(pack_nullable(&fields)));
    }
    let cells = selected(cells, column, part, request)?;
    let single = !ty.is_multi_cell() || matches!(part, Part::Field(_) | Part::Element(_));
    if cells.is_empty() {
        return Ok(None);
    }
    if kind.is_of_all() {
        let times = cells.iter().map(|cell| cell.timestamp);
        let time = match kind {
            WriteTimeKind::MinWriteTime => times.min(),
            _ => times.max(),
        };
        return Ok(time.map(|time| time.to_be_bytes().to_vec()));
    }
    if single {
        return Ok(time(cells[0], kind, now));
    }
    let times: Vec<Option<Vec<u8>>> = cells.iter().map(|cell| time(cell, kind, now)).collect();
    Ok(Some(pack_nullable(&times)))
}

/// Those cells that the part means.
fn selected<'c>(
    cells: Vec<&'c Cell>,
    column: &Column,
    part: &Part,
    request: &Request<'_>,
) -> Result<Vec<&'c Cell>, CqlError> {
    let (ty, name) = (&column.ty, &*column.name);
    // An element is all that is from its key to its key.
    let bounds = match part {
        Part::Element(key) => {
            let key = element_key(key, name, request)?;
            (Some(key.clone()), Some(key))
        }
        Part::Slice(from, to) => slice_edges(from.as_ref(), to.as_ref(), name, request)?,
        _ => (None, None),
    };
    let (from, to) = &bounds;
    let is_within = |path_type: &CqlType, path: &[u8]| {
        let is_after = |from: &Bytes| path_type.compare(path, from).is_ge();
        let is_before = |to: &Bytes| path_type.compare(path, to).is_le();
        from.as_ref().is_none_or(is_after) && to.as_ref().is_none_or(is_before)
    };
    let Some(path_type) = ty.path_type() else {
        if let (CqlType::Udt { definition, .. }, Part::Field(index)) = (ty, part) {
            // A field that is null was never written.
            let count = definition.fields.len();
            let has_field = |cell: &&Cell| {
                let fields = collection::components(&cell.value, count).unwrap_or_default();
                fields.get(usize::from(*index)).is_some_and(Option::is_some)
            };
            return Ok(cells.into_iter().filter(has_field).collect());
        }
        // The cell is the whole collection: it counts if there is anything of the part in it.
        let Some(key_type) = frozen_key_type(ty) else {
            return Ok(cells);
        };
        let has_any = |cell: &&Cell| {
            let mut keys = keys_of(ty, &cell.value);
            *part == Part::Whole || keys.any(|key| is_within(key_type, key))
        };
        return Ok(cells.into_iter().filter(has_any).collect());
    };
    let keep = |test: &dyn Fn(&[u8]) -> bool| {
        cells
            .iter()
            .copied()
            .filter(|cell| cell.path.as_deref().is_some_and(test))
            .collect()
    };
    Ok(match part {
        Part::Whole => cells,
        Part::Field(index) => keep(&|path| path == index.to_be_bytes()),
        Part::Element(_) | Part::Slice(..) => keep(&|path| is_within(path_type, path)),
    })
}

/// The type of what finds the elements of a frozen set or map.
fn frozen_key_type(ty: &CqlType) -> Option<&CqlType> {
    match ty {
        CqlType::Set { element, .. } => Some(element),
        CqlType::Map { key, .. } => Some(key),
        _ => None,
    }
}

/// The elements of a frozen set, the keys of a frozen map.
fn keys_of<'v>(ty: &CqlType, value: &'v [u8]) -> impl Iterator<Item = &'v [u8]> {
    let keys: Vec<&[u8]> = match ty {
        CqlType::Map { .. } => {
            let entries = collection::entries(value).unwrap_or_default();
            entries.into_iter().map(|(key, _)| key).collect()
        }
        _ => collection::elements(value).unwrap_or_default(),
    };
    keys.into_iter()
}

fn time(cell: &Cell, kind: WriteTimeKind, now_seconds: u32) -> Option<Vec<u8>> {
    match kind {
        WriteTimeKind::WriteTime | WriteTimeKind::MaxWriteTime | WriteTimeKind::MinWriteTime => {
            Some(cell.timestamp.to_be_bytes().to_vec())
        }
        WriteTimeKind::Ttl if cell.ttl == NO_TTL => None,
        WriteTimeKind::Ttl => {
            let left = cell.local_deletion_time.saturating_sub(now_seconds);
            Some(
                i32::try_from(left)
                    .unwrap_or(i32::MAX)
                    .to_be_bytes()
                    .to_vec(),
            )
        }
    }
}

/// A list that may hold nulls, as only results do.
fn pack_nullable(items: &[Option<Vec<u8>>]) -> Vec<u8> {
    let count = i32::try_from(items.len()).unwrap_or(i32::MAX);
    let mut out = count.to_be_bytes().to_vec();
    out.extend(collection::pack_tuple(items.iter().map(Option::as_ref)));
    out
}
