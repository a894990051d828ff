//! What a set or a map is in cells: of each element or entry one, whose path is the element or the key.

use bytes::Bytes;
use model::{Cell, CqlType, ValueError, collection};

/// Is a value of the type kept in the cells that [`push_parts`] makes of it?
pub(super) fn has_parts(ty: &CqlType) -> bool {
    ty.is_multi_cell() && matches!(ty, CqlType::Set { .. } | CqlType::Map { .. })
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
    debug_assert!(has_parts(ty));
    let cell = |path: &[u8], part: Bytes| Cell {
        path: Some(value.slice_ref(path)),
        value: part,
        ..like.clone()
    };
    match ty {
        CqlType::Map { .. } => {
            let entries = collection::each_entry(value)?;
            cells.reserve_exact(entries.most());
            for entry in entries {
                let [key, of] = entry?;
                cells.push(cell(key, value.slice_ref(of)));
            }
        }
        _ => {
            let elements = collection::each_element(value)?;
            cells.reserve_exact(elements.most());
            for element in elements {
                let [element] = element?;
                cells.push(cell(element, Bytes::new()));
            }
        }
    }
    Ok(())
}
