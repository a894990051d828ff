//! A SELECT of one row by the whole of its key, that shows columns as they are.
//!
//! It is the most frequent statement, and where the row lies in memory as it is to be shown, nothing has to be made
//! of it on its way to the client: [`PointPlan::place`] says where it is, [`SelectPlan::show`] what is shown of it.
//! That is a short cut and no second way: whatever is unusual about an execution (a value that is null or wrong, a key
//! that is too long, a level that needs other nodes) is left to [`super::run`], which says what it comes to.

use std::borrow::Cow;

use bytes::Bytes;
use model::{Clustering, ColumnId, CqlType, DecoratedKey, Table, encode_key};
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
    /// Of each column of the partition key.
    key: Vec<Given>,
    /// Of each clustering column.
    clustering: Vec<Given>,
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

    /// Its bytes, in the order of its type, to keep; `None` if they are no value of it.
    pub(super) fn ordered(&self, bytes: &[u8], share: impl Fn(&[u8]) -> Bytes) -> Option<Bytes> {
        match self {
            Given::Bound {
                ty,
                keeps_order: false,
                ..
            } => match ordered(ty, bytes).ok()? {
                Cow::Borrowed(bytes) => Some(share(bytes)),
                Cow::Owned(bytes) => Some(bytes.into()),
            },
            _ => Some(self.shared(bytes, share)),
        }
    }

    /// Its bytes, to keep.
    fn shared(&self, bytes: &[u8], share: impl Fn(&[u8]) -> Bytes) -> Bytes {
        match self {
            Given::Written(value) => value.clone(),
            Given::Bound { .. } => share(bytes),
        }
    }
}

impl PointPlan {
    /// Of a SELECT that is otherwise analysed; `None` if it may give more than one row, or anything but columns of it.
    pub(super) fn of(plan: &SelectPlan) -> Option<PointPlan> {
        let is_plain = plan.shows_packed()
            && plan.gives_any_row()
            && plan.table.statics().len() == 0
            && plan.filters.is_empty()
            && !plan.bypass_cache;
        is_plain
            .then(|| PointPlan::at(&plan.table, &plan.keys, &plan.slices))
            .flatten()
    }

    /// Of a statement about these rows of a table; `None` if they may be more than one.
    pub(super) fn at(table: &Table, keys: &KeyPlan, slices: &SlicePlan) -> Option<PointPlan> {
        let key = keys.equals()?;
        let key = key.map(Given::of_key).collect::<Option<Vec<Given>>>()?;
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
        let bytes = |given: &Given| Some(given.shared(given.value(values)?, &share));
        let key = match &self.key[..] {
            [only] => bytes(only).filter(|key| key.len() <= usize::from(u16::MAX))?,
            several => {
                let of = |given| Given::value(given, values);
                let parts = several.iter().map(of);
                let parts = parts.collect::<Option<SmallVec<[&[u8]; 4]>>>()?;
                encode_key(&parts).ok()?
            }
        };
        if key.is_empty() {
            return None;
        }
        let clustering = self.clustering.iter().map(bytes);
        let clustering = clustering.collect::<Option<SmallVec<[Bytes; 1]>>>()?;
        Some((DecoratedKey::new(key), Clustering(clustering)))
    }
}

impl SelectPlan {
    /// Where its row is, if it is of one whose columns are shown as they are.
    pub fn point(&self) -> Option<&PointPlan> {
        self.point.as_ref()
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
}
