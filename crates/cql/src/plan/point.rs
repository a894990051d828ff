//! A SELECT of one row by the whole of its key, or of all rows of one partition, that shows columns as they are.
//!
//! These are the most frequent statements, and where the rows lie in memory as they are to be shown, nothing has to be
//! made of them on their way to the client: [`PointPlan::place`] says where a row is, [`SelectPlan::show`] what is shown
//! of it; [`PartitionPlan::key`] and [`SelectPlan::show_rows`] do so of a partition.
//! That is a short cut and no second way: whatever is unusual about an execution (a value that is null or wrong, a key
//! that is too long, a level that needs other nodes) is left to [`super::run`], which says what it comes to.

use std::borrow::Cow;

use bytes::Bytes;
use model::{Clustering, ColumnId, CqlType, DecoratedKey, PackedRow, Table, encode_key};
use smallvec::SmallVec;

use crate::term::{Expression, Value, ordered};

use super::fetch::PlainSlots;
use super::keys::KeyPlan;
use super::restriction::Tuple;
use super::run::RowSink;
use super::select::SelectPlan;
use super::slices::SlicePlan;

/// Where the row is, once there are values.
#[derive(Clone, Debug)]
pub struct PointPlan {
    key: GivenKey,
    /// Of each clustering column.
    clustering: Vec<Given>,
}

/// Which partition is read whole, once there are values.
#[derive(Clone, Debug)]
pub struct PartitionPlan(GivenKey);

/// Of each column of a partition key.
#[derive(Clone, Debug)]
struct GivenKey(Vec<Given>);

/// Shows the rows of a partition of a [`PartitionPlan`].
pub struct RowsShown<'r> {
    plan: &'r SelectPlan,
    slots: PlainSlots<'r>,
}

/// A value that is written in the statement or bound to it.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Written(Bytes),
    Bound {
        marker: usize,
        ty: CqlType,
        keeps_order: bool,
    },
}

impl Given {
    /// `None` of what is put together in each execution.
    pub(super) fn of(expression: &Expression) -> Option<Given> {
        match expression {
            Expression::Constant(Some(value)) => Some(Given::Written(value.clone())),
            Expression::Marker {
                index,
                ty,
                keeps_order,
            } => Some(Given::Bound {
                marker: *index,
                ty: ty.clone(),
                keeps_order: *keeps_order,
            }),
            _ => None,
        }
    }

    /// Of a column of a key; `None` of what may have to be put in order in each execution, too.
    fn of_key(expression: &Expression) -> Option<Given> {
        Given::of(expression).filter(|given| match given {
            Given::Written(_) => true,
            Given::Bound {
                ty, keeps_order, ..
            } => *keeps_order || ty.nesting() == 0,
        })
    }

    /// The value; `None` if it is none that a key can have.
    fn value<'g>(&'g self, values: &[Value<'g>]) -> Option<&'g [u8]> {
        match self.assigned(values)? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Unset => None,
        }
    }

    /// What a column is given; `None` if that is no value of its type.
    pub(super) fn assigned<'g>(&'g self, values: &[Value<'g>]) -> Option<Value<'g>> {
        match self {
            Given::Written(value) => Some(Value::Bytes(value)),
            Given::Bound { marker, ty, .. } => match *values.get(*marker)? {
                Value::Bytes(bytes) if ty.validate_bound(bytes).is_err() => None,
                value => Some(value),
            },
        }
    }

    /// Its bytes, in the order of its type; `None` if they are no value of it.
    pub(super) fn in_order<'g>(&self, bytes: &'g [u8]) -> Option<Cow<'g, [u8]>> {
        match self {
            Given::Bound {
                ty,
                keeps_order: false,
                ..
            } => ordered(ty, bytes).ok(),
            _ => Some(Cow::Borrowed(bytes)),
        }
    }

    /// Its bytes, to keep.
    pub(super) fn shared(&self, bytes: &[u8], share: impl Fn(&[u8]) -> Bytes) -> Bytes {
        match self {
            Given::Written(value) => value.clone(),
            Given::Bound { .. } => share(bytes),
        }
    }
}

impl PointPlan {
    /// Of a SELECT that is otherwise analysed; `None` if it may give more than one row, or anything but columns of it.
    pub(super) fn of(plan: &SelectPlan) -> Option<PointPlan> {
        gives_rows_as_they_are(plan)
            .then(|| PointPlan::at(&plan.table, &plan.keys, &plan.slices))
            .flatten()
    }

    /// Of a statement about these rows of a table; `None` if they may be more than one.
    pub(super) fn at(table: &Table, keys: &KeyPlan, slices: &SlicePlan) -> Option<PointPlan> {
        let key = GivenKey::of(keys)?;
        let mut clustering = Vec::new();
        for demanded in slices.equals()? {
            match demanded {
                Tuple::Terms(terms) => clustering.extend(terms.iter().map(Given::of_key)),
                Tuple::Marker(..) => return None,
            }
        }
        let clustering = clustering.into_iter().collect::<Option<Vec<Given>>>()?;
        let is_whole = clustering.len() == table.clustering_key().len();
        is_whole.then_some(PointPlan { key, clustering })
    }

    /// Where the row of these values is, one for each bind marker; `share` gives bytes of them to keep. `None` where
    /// an execution has to say why it is nowhere.
    pub fn place(
        &self,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
    ) -> Option<(DecoratedKey, Clustering)> {
        Some((self.key(values, &share)?, self.clustering(values, share)?))
    }

    /// The partition of [`PointPlan::place`].
    pub(super) fn key(
        &self,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
    ) -> Option<DecoratedKey> {
        self.key.key(values, share)
    }

    /// And the row in it.
    pub(super) fn clustering(
        &self,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
    ) -> Option<Clustering> {
        let clustering = self.clustering.iter();
        let clustering = clustering.map(|given| Some(given.shared(given.value(values)?, &share)));
        let clustering = clustering.collect::<Option<SmallVec<[Bytes; 1]>>>()?;
        Some(Clustering(clustering))
    }
}

impl PartitionPlan {
    /// Of a SELECT that is otherwise analysed; `None` if it may give anything but all rows of one partition, upwards.
    pub(super) fn of(plan: &SelectPlan) -> Option<PartitionPlan> {
        let gives_all = gives_rows_as_they_are(plan)
            && plan.has_no_limit()
            && plan.slices.is_all()
            && !plan.reversed
            && !plan.only_partitions;
        gives_all
            .then(|| GivenKey::of(&plan.keys).map(PartitionPlan))
            .flatten()
    }

    /// Which partition that of these values is, as [`PointPlan::place`].
    pub fn key(
        &self,
        values: &[Value<'_>],
        share: impl Fn(&[u8]) -> Bytes,
    ) -> Option<DecoratedKey> {
        self.0.key(values, share)
    }
}

impl GivenKey {
    /// `None` if not each column is given one value.
    fn of(keys: &KeyPlan) -> Option<GivenKey> {
        let key = keys.equals()?.map(Given::of_key);
        key.collect::<Option<Vec<Given>>>().map(GivenKey)
    }

    fn key(&self, values: &[Value<'_>], share: impl Fn(&[u8]) -> Bytes) -> Option<DecoratedKey> {
        let key = match &self.0[..] {
            [only] => Some(only.shared(only.value(values)?, share))
                .filter(|key| key.len() <= usize::from(u16::MAX))?,
            several => {
                let of = |given| Given::value(given, values);
                let parts = several.iter().map(of);
                let parts = parts.collect::<Option<SmallVec<[&[u8]; 4]>>>()?;
                encode_key(&parts).ok()?
            }
        };
        (!key.is_empty()).then(|| DecoratedKey::new(key))
    }
}

/// Is what a SELECT gives of a row what lies there, and is it given whatever that is?
fn gives_rows_as_they_are(plan: &SelectPlan) -> bool {
    plan.shows_packed()
        && plan.gives_any_row()
        && plan.table.statics().len() == 0
        && plan.filters.is_empty()
        && !plan.bypass_cache
}

impl SelectPlan {
    /// Where its row is, if it is of one whose columns are shown as they are.
    pub fn point(&self) -> Option<&PointPlan> {
        self.point.as_ref()
    }

    /// Which partition it reads, if it gives all rows of one and shows columns as they are.
    pub fn partition(&self) -> Option<&PartitionPlan> {
        self.partition.as_ref()
    }

    /// The columns whose values are read, sorted.
    pub fn read_columns(&self) -> &[ColumnId] {
        &self.columns
    }

    /// Shows the row of a [`PointPlan`], of all of which there is something to be seen: its key, its clustering, and
    /// its columns with their values, of which others may be among them.
    pub fn show<'r>(
        &self,
        key: &'r [u8],
        clustering: impl Iterator<Item = &'r [u8]>,
        values: impl Iterator<Item = (ColumnId, &'r [u8])>,
        sink: &mut RowSink<'_>,
    ) {
        debug_assert!(self.point.is_some());
        let mut slots = PlainSlots::new();
        let fetch = &self.selection.fetch;
        fetch.plain_row(&mut slots, key, clustering, values);
        self.selection.emit_plain(&slots, sink);
    }

    /// Shows the rows of the partition of a [`PartitionPlan`], one by one.
    pub fn show_rows<'r>(&'r self, key: &'r [u8]) -> RowsShown<'r> {
        debug_assert!(self.partition.is_some());
        let mut slots = PlainSlots::new();
        self.selection.fetch.plain_key(&mut slots, key);
        RowsShown { plan: self, slots }
    }
}

impl<'r> RowsShown<'r> {
    /// Shows a row of all of which there is something to be seen.
    pub fn row(&mut self, row: &'r PackedRow, sink: &mut RowSink<'_>) {
        let selection = &self.plan.selection;
        selection.fetch.plain_values(&mut self.slots, row);
        selection.emit_plain(&self.slots, sink);
        selection.fetch.forget_row(&mut self.slots);
    }
}
