//! Whether a row fulfils a condition (`ColumnCondition.Bound` and its kinds).
//!
//! What a row does not hold is null, and so is an empty collection whose elements are cells of
//! their own. Null is equal to null and to nothing else, and has no order.

use std::cmp::Ordering;

use bytes::Bytes;
use model::{Cell, Column, CqlType, Row, collection};

use crate::CqlError;
use crate::ast::Comparison;
use crate::error::invalid;

use super::fetch::assemble;

/// A condition with its values.
#[derive(Clone, Debug)]
pub(crate) struct BoundCondition<'p> {
    column: &'p Column,
    part: BoundPart,
    /// Never IN, which is equality with one of several.
    comparison: Comparison,
    /// One of them must fit; `None` is null.
    values: Vec<Option<Bytes>>,
}

/// What of the column, with the value of the key.
#[derive(Clone, Debug)]
pub(crate) enum BoundPart {
    /// All of it.
    Whole,
    /// The element at an index of a list, or at a key of a map.
    Element(Bytes),
    /// A field of a user type.
    Field(u16),
}

impl<'p> BoundCondition<'p> {
    /// Refuses values that can be compared with nothing.
    pub(crate) fn new(
        column: &'p Column,
        part: BoundPart,
        comparison: Comparison,
        values: Vec<Option<Bytes>>,
    ) -> Result<BoundCondition<'p>, CqlError> {
        let symbol = comparison.symbol();
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let looks_into = matches!(comparison, Comparison::Contains | Comparison::ContainsKey);
        let kind = match part {
            BoundPart::Whole if column.ty.is_multi_cell() => collection_kind(&column.ty),
            _ => None,
        };
        let mut bound = Vec::with_capacity(values.len());
        for value in values {
            match (value, kind) {
                (None, _) if !is_equality => {
                    return invalid!("Invalid comparison with null for operator \"{symbol}\"");
                }
                (Some(value), Some(kind)) if !looks_into && is_empty(&value) => {
                    if !is_equality {
                        return invalid!(
                            "Invalid comparison with an empty {kind} for operator \"{symbol}\""
                        );
                    }
                    bound.push(None);
                }
                (value, _) => bound.push(value),
            }
        }
        Ok(BoundCondition {
            column,
            part,
            comparison,
            values: bound,
        })
    }

    /// Does the row, or none, fulfil it at this time (seconds since 1970)?
    pub(crate) fn holds(&self, row: Option<&Row>, now_seconds: u32) -> Result<bool, CqlError> {
        let cells = row.map_or(&[][..], |row| row.cells_of(self.column.id));
        let cells: Vec<&Cell> = cells.iter().filter(|c| c.is_live(now_seconds)).collect();
        let (ty, held) = match &self.part {
            BoundPart::Element(key) => self.element(&cells, key)?,
            BoundPart::Field(index) => self.field(&cells, *index)?,
            BoundPart::Whole => (&self.column.ty, self.whole(row, &cells, now_seconds)),
        };
        for value in &self.values {
            if fits(self.comparison, ty, value.as_deref(), held.as_deref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn whole(&self, row: Option<&Row>, cells: &[&Cell], now_seconds: u32) -> Option<Bytes> {
        if self.column.ty.is_multi_cell() {
            let cells = row.map_or(&[][..], |row| row.cells_of(self.column.id));
            return assemble(cells, &self.column.ty, now_seconds).map(Bytes::from);
        }
        cells.first().map(|cell| cell.value.clone())
    }

    /// The element at an index or key, and its type. Cassandra compares elements of maps in the
    /// order of their keys' type (5.0.6, `ElementAccessBound`); that is not done here.
    fn element(&self, cells: &[&Cell], key: &Bytes) -> Result<(&CqlType, Option<Bytes>), CqlError> {
        let of_cells = self.column.ty.is_multi_cell();
        match &self.column.ty {
            CqlType::Map { key: ty, value, .. } => {
                let found = if of_cells {
                    let equal = |cell: &&&Cell| {
                        let path = cell.path.as_deref();
                        path.is_some_and(|path| ty.compare(path, key).is_eq())
                    };
                    cells.iter().find(equal).map(|cell| cell.value.clone())
                } else {
                    let Some(cell) = cells.first() else {
                        return Ok((value, None));
                    };
                    let entries = collection::entries(&cell.value).map_err(malformed)?;
                    let found = entries.iter().find(|(k, _)| ty.compare(k, key).is_eq());
                    found.map(|(_, v)| cell.value.slice_ref(v))
                };
                Ok((value, found))
            }
            CqlType::List { element, .. } if of_cells => {
                let found = cells.get(index_of(key)?);
                Ok((element, found.map(|cell| cell.value.clone())))
            }
            CqlType::List { element, .. } => {
                let Some(cell) = cells.first() else {
                    return Ok((element, None));
                };
                let elements = collection::elements(&cell.value).map_err(malformed)?;
                let found = elements.get(index_of(key)?);
                Ok((element, found.map(|value| cell.value.slice_ref(value))))
            }
            other => invalid!("values of type {other} have no elements"),
        }
    }

    fn field(&self, cells: &[&Cell], index: u16) -> Result<(&CqlType, Option<Bytes>), CqlError> {
        let CqlType::Udt { definition, .. } = &self.column.ty else {
            return invalid!("values of type {} have no fields", self.column.ty);
        };
        let Some((_, ty)) = definition.fields.get(usize::from(index)) else {
            return invalid!("a field of {} is not known any more", self.column.name);
        };
        if self.column.ty.is_multi_cell() {
            let path = index.to_be_bytes();
            let found = cells
                .iter()
                .find(|cell| cell.path.as_deref() == Some(&path));
            return Ok((ty, found.map(|cell| cell.value.clone())));
        }
        let Some(cell) = cells.first() else {
            return Ok((ty, None));
        };
        let fields = collection::components(&cell.value, definition.fields.len());
        let fields = fields.map_err(malformed)?;
        let field = fields.get(usize::from(index)).copied().flatten();
        Ok((ty, field.map(|value| cell.value.slice_ref(value))))
    }
}

/// Does what is held, of this type, compare so with the value? (`Operator.isSatisfiedBy`)
fn fits(
    comparison: Comparison,
    ty: &CqlType,
    value: Option<&[u8]>,
    held: Option<&[u8]>,
) -> Result<bool, CqlError> {
    let (value, held) = match (value, held) {
        (Some(value), Some(held)) => (value, held),
        (None, None) => return Ok(comparison == Comparison::Equal),
        _ => return Ok(comparison == Comparison::NotEqual),
    };
    let ordering = || ty.compare(held, value);
    Ok(match comparison {
        Comparison::Equal => ordering() == Ordering::Equal,
        Comparison::NotEqual => ordering() != Ordering::Equal,
        Comparison::Less => ordering() == Ordering::Less,
        Comparison::LessOrEqual => ordering() != Ordering::Greater,
        Comparison::Greater => ordering() == Ordering::Greater,
        Comparison::GreaterOrEqual => ordering() != Ordering::Less,
        Comparison::Contains => match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let elements = collection::elements(held).map_err(malformed)?;
                elements.iter().any(|e| element.compare(e, value).is_eq())
            }
            CqlType::Map { value: of, .. } => {
                let entries = collection::entries(held).map_err(malformed)?;
                entries.iter().any(|(_, v)| of.compare(v, value).is_eq())
            }
            _ => false,
        },
        Comparison::ContainsKey => match ty {
            CqlType::Map { key, .. } => {
                let entries = collection::entries(held).map_err(malformed)?;
                entries.iter().any(|(k, _)| key.compare(k, value).is_eq())
            }
            _ => false,
        },
        Comparison::In | Comparison::Between | Comparison::Like | Comparison::IsNot => {
            return invalid!("{} is no comparison with one value", comparison.symbol());
        }
    })
}

/// Is it a collection without elements?
fn is_empty(value: &[u8]) -> bool {
    value.starts_with(&[0; 4])
}

fn collection_kind(ty: &CqlType) -> Option<&'static str> {
    match ty {
        CqlType::List { .. } => Some("list"),
        CqlType::Set { .. } => Some("set"),
        CqlType::Map { .. } => Some("map"),
        _ => None,
    }
}

fn index_of(key: &[u8]) -> Result<usize, CqlError> {
    let Ok(bytes) = <[u8; 4]>::try_from(key) else {
        return invalid!("Invalid empty list index");
    };
    let index = i32::from_be_bytes(bytes);
    match usize::try_from(index) {
        Ok(index) => Ok(index),
        Err(_) => invalid!("Invalid negative list index {index}"),
    }
}

fn malformed(error: model::ValueError) -> CqlError {
    CqlError::Invalid(error.to_string())
}
