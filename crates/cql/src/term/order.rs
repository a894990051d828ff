//! Sets and maps in the order of their type.
//!
//! Clients send the elements of a set and the entries of a map in any order, and some of them
//! twice; what is stored, compared and hashed has one order only (`SetSerializer.serializeValues`,
//! `MapSerializer.serializeValues`). Collections within tuples, user types and vectors stay as
//! they were sent, as Cassandra leaves them.

use std::borrow::Cow;
use std::cmp::Ordering;

use model::collection::{self, Parts};
use model::{CqlType, ValueError};

use crate::CqlError;

/// A valid value with all sets and maps in it in their order.
pub(crate) fn ordered<'v>(ty: &CqlType, value: &'v [u8]) -> Result<Cow<'v, [u8]>, CqlError> {
    let malformed = |error: ValueError| CqlError::Invalid(error.to_string());
    match ty {
        // Drivers whose sets and maps have an order mostly send this one, and some of them much at once.
        CqlType::Set { element, .. }
            if is_ordered_once(ty) && increases(element, collection::each_element(value)) =>
        {
            Ok(Cow::Borrowed(value))
        }
        CqlType::Map { key, .. }
            if is_ordered_once(ty) && increases(key, collection::each_entry(value)) =>
        {
            Ok(Cow::Borrowed(value))
        }
        CqlType::List { element, .. } if has_order(element) => {
            let elements = collection::elements(value).map_err(malformed)?;
            let inner = all_ordered(element, &elements)?;
            let changed = inner.iter().any(|v| matches!(v, Cow::Owned(_)));
            Ok(packed(value, changed, || collection::pack_elements(&inner)))
        }
        CqlType::Set { element, .. } => {
            let elements = collection::elements(value).map_err(malformed)?;
            let mut inner = all_ordered(element, &elements)?;
            let increasing = inner.is_sorted_by(|a, b| element.compare(a, b) == Ordering::Less);
            if !increasing {
                inner.sort_by(|a, b| element.compare(a, b));
                inner.dedup_by(|a, b| element.compare(a, b).is_eq());
            }
            let changed = !increasing || inner.iter().any(|v| matches!(v, Cow::Owned(_)));
            Ok(packed(value, changed, || collection::pack_elements(&inner)))
        }
        CqlType::Map { key, value: of, .. } => {
            let entries = collection::entries(value).map_err(malformed)?;
            let mut inner = Vec::with_capacity(entries.len());
            for (k, v) in entries {
                inner.push((ordered(key, k)?, ordered(of, v)?));
            }
            let increasing = inner.is_sorted_by(|(a, _), (b, _)| key.compare(a, b).is_lt());
            if !increasing {
                // Of two values of one key the later one stays.
                inner.reverse();
                inner.sort_by(|(a, _), (b, _)| key.compare(a, b));
                inner.dedup_by(|(a, _), (b, _)| key.compare(a, b).is_eq());
            }
            let changed = !increasing
                || inner
                    .iter()
                    .any(|entry| !matches!(entry, (Cow::Borrowed(_), Cow::Borrowed(_))));
            Ok(packed(value, changed, || {
                collection::pack_entries(inner.iter().map(|(k, v)| (k, v)))
            }))
        }
        _ => Ok(Cow::Borrowed(value)),
    }
}

/// Are these the parts of a set or map in its order, each once? Not if anything is malformed.
fn increases<'v, const N: usize>(ty: &CqlType, parts: Result<Parts<'v, N>, ValueError>) -> bool {
    let Ok(parts) = parts else {
        return false;
    };
    let mut before: Option<&'v [u8]> = None;
    for part in parts {
        let Ok(part) = part else {
            return false;
        };
        let key = part[0];
        if before.is_some_and(|before| ty.compare(before, key).is_ge()) {
            return false;
        }
        before = Some(key);
    }
    true
}

/// Is a value of the type in its order if its elements or keys rise, as nothing in them has an order?
pub(crate) fn is_ordered_once(ty: &CqlType) -> bool {
    match ty {
        CqlType::Set { element, .. } => !has_order(element),
        CqlType::Map { key, value, .. } => !has_order(key) && !has_order(value),
        _ => false,
    }
}

fn has_order(ty: &CqlType) -> bool {
    match ty {
        CqlType::Set { .. } | CqlType::Map { .. } => true,
        CqlType::List { element, .. } => has_order(element),
        _ => false,
    }
}

fn all_ordered<'v>(ty: &CqlType, values: &[&'v [u8]]) -> Result<Vec<Cow<'v, [u8]>>, CqlError> {
    values.iter().map(|value| ordered(ty, value)).collect()
}

fn packed(value: &[u8], changed: bool, pack: impl FnOnce() -> Vec<u8>) -> Cow<'_, [u8]> {
    if changed {
        Cow::Owned(pack())
    } else {
        Cow::Borrowed(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ty: &CqlType, value: Vec<u8>) -> Vec<u8> {
        ordered(ty, &value).unwrap().into_owned()
    }

    fn of(ty: &str) -> CqlType {
        let ty = crate::parse_type(ty).unwrap();
        ty.resolve("k", &Default::default()).unwrap()
    }

    #[test]
    fn elements_are_sorted_and_each_once() {
        let sent = collection::pack_elements([[1u8], [0xff], [1], [0x80]]);
        let kept = collection::pack_elements([[0x80u8], [0xff], [1]]);
        let ty = of("frozen<set<tinyint>>");
        assert_eq!(after(&ty, sent), kept);
        assert_eq!(after(&ty, kept.clone()), kept);
    }

    #[test]
    fn of_two_values_of_one_key_the_later_stays() {
        let ty = of("map<int, blob>");
        let pack = |entries: &[(i32, &str)]| {
            collection::pack_entries(entries.iter().map(|(k, v)| (k.to_be_bytes(), v)))
        };
        let sent = pack(&[(7, "a"), (-1, "b"), (7, "c")]);
        assert_eq!(after(&ty, sent), pack(&[(-1, "b"), (7, "c")]));
    }

    #[test]
    fn sets_in_lists_are_sorted_too() {
        let ty = of("list<frozen<set<tinyint>>>");
        let inner = collection::pack_elements([[1u8], [0xff]]);
        let sorted = collection::pack_elements([[0xffu8], [1]]);
        let kept = after(&ty, collection::pack_elements([inner]));
        assert_eq!(kept, collection::pack_elements([sorted]));
    }
}
