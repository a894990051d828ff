//! What a set or a map is in cells: of each element or entry one, whose path is the element or the key.

use bytes::Bytes;
use model::{Cell, CqlType, ValueError, collection};

/// Is a value of the type kept in the cells that [`push_parts`] makes of it?
pub(super) fn has_parts(ty: &CqlType) -> bool {
    ty.is_multi_cell() && matches!(ty, CqlType::Set { .. } | CqlType::Map { .. })
}

/// An element of a set, or an entry of a map.
pub(super) struct Part<'v> {
    /// The element or the key.
    pub(super) path: &'v [u8],
    /// The value of the key; an element has none.
    pub(super) value: &'v [u8],
}

/// The parts of a set or a map, one after the other, in its order.
pub(super) enum Parts<'v> {
    Elements(collection::Parts<'v, 1>),
    Entries(collection::Parts<'v, 2>),
}

impl Parts<'_> {
    /// How many are left at most.
    pub(super) fn most(&self) -> usize {
        match self {
            Parts::Elements(elements) => elements.most(),
            Parts::Entries(entries) => entries.most(),
        }
    }
}

impl<'v> Iterator for Parts<'v> {
    type Item = Result<Part<'v>, ValueError>;

    fn next(&mut self) -> Option<Result<Part<'v>, ValueError>> {
        Some(match self {
            Parts::Elements(elements) => elements.next()?.map(|[path]| Part { path, value: &[] }),
            Parts::Entries(entries) => entries.next()?.map(|[path, value]| Part { path, value }),
        })
    }
}

/// The parts of a value of a type that [`has_parts`].
///
/// # Errors
/// The value is none of the type.
pub(super) fn each_part<'v>(ty: &CqlType, value: &'v [u8]) -> Result<Parts<'v>, ValueError> {
    debug_assert!(has_parts(ty));
    Ok(match ty {
        CqlType::Map { .. } => Parts::Entries(collection::each_entry(value)?),
        _ => Parts::Elements(collection::each_element(value)?),
    })
}

/// Appends the cells of a set or map of the type, which are `like` this one but for path and value. They share the
/// memory of `value`, and are in its order.
///
/// # Errors
/// The value is none of the type.
pub(super) fn push_parts(
    cells: &mut Vec<Cell>,
    like: &Cell,
    (ty, value): (&CqlType, &Bytes),
) -> Result<(), ValueError> {
    let parts = each_part(ty, value)?;
    cells.reserve_exact(parts.most());
    for part in parts {
        let part = part?;
        let of = match part.value {
            [] => Bytes::new(),
            bytes => value.slice_ref(bytes),
        };
        cells.push(Cell {
            path: Some(value.slice_ref(part.path)),
            value: of,
            ..like.clone()
        });
    }
    Ok(())
}
