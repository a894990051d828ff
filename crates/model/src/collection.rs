//! Serialized collections, tuples, user types and vectors: made of parts, and taken apart.
//!
//! | value | form |
//! |---|---|
//! | list, set | `i32` count, then of each element `i32` length and bytes |
//! | map | `i32` count, then of each entry the key and the value, as above |
//! | tuple, user type | of each component `i32` length (negative: null) and bytes; nulls at the end may be left out |
//! | vector | the elements, without lengths if all have the same ([`CqlType::fixed_length`]), else each with an unsigned vint length |
//!
//! This is the form of protocol version 3 and later, in which frozen collections are also stored
//! (`CollectionSerializer`, `TupleType`, `VectorType`).

use crate::value::refuse;
use crate::{CqlType, ValueError, vint};

/// A list, or a set (whose elements the caller has sorted), of these elements.
pub fn pack_elements<V: AsRef<[u8]>>(elements: impl IntoIterator<Item = V>) -> Vec<u8> {
    let mut out = vec![0; 4];
    let mut count = 0;
    for element in elements {
        put(&mut out, element.as_ref());
        count += 1;
    }
    put_count(&mut out, count);
    out
}

/// A map of these entries, which the caller has sorted by key.
pub fn pack_entries<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    entries: impl IntoIterator<Item = (K, V)>,
) -> Vec<u8> {
    let mut out = vec![0; 4];
    let mut count = 0;
    for (key, value) in entries {
        put(&mut out, key.as_ref());
        put(&mut out, value.as_ref());
        count += 1;
    }
    put_count(&mut out, count);
    out
}

/// A tuple or user type of these components.
pub fn pack_tuple<V: AsRef<[u8]>>(components: impl IntoIterator<Item = Option<V>>) -> Vec<u8> {
    let mut out = Vec::new();
    for component in components {
        match component {
            Some(value) => put(&mut out, value.as_ref()),
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    out
}

/// A vector of these elements, each of the type `element`. Empty values, which most types have, are
/// no elements but of types that know them as other than null (`VectorType.check`).
pub fn pack_vector<V: AsRef<[u8]>>(
    element: &CqlType,
    elements: impl IntoIterator<Item = V>,
) -> Result<Vec<u8>, ValueError> {
    let fixed = element.fixed_length();
    let mut out = Vec::new();
    for (i, value) in elements.into_iter().enumerate() {
        let value = value.as_ref();
        let length = value.len();
        if length == 0 && !has_empty_elements(element) {
            return refuse!("Element at index {i} is null (expected type {element})");
        }
        match fixed {
            None => vint::write_unsigned(&mut out, length as u64),
            Some(fixed) if fixed == length => {}
            Some(fixed) => {
                return refuse!(
                    "Expected exactly {fixed} bytes for the element at index {i}, but was {length}"
                );
            }
        }
        out.extend_from_slice(value);
    }
    Ok(out)
}

/// Is an empty value of the type a value like others (`TypeSerializer.isNull`)?
fn has_empty_elements(ty: &CqlType) -> bool {
    use CqlType::{Ascii, Blob, Custom, Text, Tuple, Udt};
    matches!(
        ty,
        Ascii | Blob | Text | Tuple(_) | Udt { .. } | Custom(_) if ty.fixed_length().is_none()
    )
}

/// A collection of less than nothing is none.
pub(crate) fn refuse_negative_count(value: &[u8], kind: &str) -> Result<(), ValueError> {
    if value.len() >= 4 && value[0] >= 0x80 {
        return refuse!("The data cannot be deserialized as a {kind}");
    }
    Ok(())
}

/// The elements of a list or set.
pub fn elements(value: &[u8]) -> Result<Vec<&[u8]>, ValueError> {
    each_element(value)?.all(|[element]| element)
}

/// As [`elements`], of a list that may hold nulls: one that is bound, to `IN ?` or as a value that is frozen, or one
/// that is selected.
pub fn nullable_elements(value: &[u8]) -> Result<Vec<Option<&[u8]>>, ValueError> {
    refuse_negative_count(value, "list")?;
    let mut components = Components::checked(value, 1, "list")?;
    let mut all = Vec::new();
    for component in components.by_ref() {
        all.push(match component {
            Component::Null => None,
            Component::Value(value) => Some(value),
            Component::Malformed(_) => return refuse!("Not enough bytes to read a list"),
        });
    }
    components.finish("list")?;
    Ok(all)
}

/// The parts of a list, set or map one after the other, without memory for all of them: elements are of one part,
/// entries of two. What is malformed is said where it stands.
#[derive(Clone, Debug)]
pub struct Parts<'v, const N: usize> {
    components: Components<'v>,
    kind: &'static str,
}

impl<'v, const N: usize> Parts<'v, N> {
    fn of(value: &'v [u8], kind: &'static str) -> Result<Parts<'v, N>, ValueError> {
        refuse_negative_count(value, kind)?;
        Ok(Parts {
            components: Components::checked(value, N, kind)?,
            kind,
        })
    }

    /// How many are left at most.
    pub fn most(&self) -> usize {
        // The count is the sender's claim: a part takes four bytes at least.
        self.components.left.min(self.components.rest.len() / 4) / N
    }

    /// All that are left.
    fn all<T>(self, of: impl Fn([&'v [u8]; N]) -> T) -> Result<Vec<T>, ValueError> {
        let mut all = Vec::with_capacity(self.most());
        for part in self {
            all.push(of(part?));
        }
        Ok(all)
    }

    fn next_part(&mut self) -> Result<Option<[&'v [u8]; N]>, ValueError> {
        let mut part = [&[][..]; N];
        for (i, place) in part.iter_mut().enumerate() {
            match self.components.next_value(self.kind)? {
                Some(value) => *place = value,
                // A count is of whole entries.
                None => {
                    debug_assert_eq!(i, 0);
                    self.components.finish(self.kind)?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(part))
    }
}

impl<'v, const N: usize> Iterator for Parts<'v, N> {
    type Item = Result<[&'v [u8]; N], ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.next_part();
        if part.is_err() {
            // Nothing follows.
            self.components = Components::tuple(&[], 0);
        }
        part.transpose()
    }
}

/// As [`elements`], one by one.
pub fn each_element(value: &[u8]) -> Result<Parts<'_, 1>, ValueError> {
    Parts::of(value, "list")
}

/// As [`entries`], one by one.
pub fn each_entry(value: &[u8]) -> Result<Parts<'_, 2>, ValueError> {
    Parts::of(value, "map")
}

/// The key and the value of an entry of a map.
pub type Entry<'v> = (&'v [u8], &'v [u8]);

/// The entries of a map.
pub fn entries(value: &[u8]) -> Result<Vec<Entry<'_>>, ValueError> {
    each_entry(value)?.all(|[key, value]| (key, value))
}

/// The components of a tuple or user type of `count`; what is left out at the end is null.
pub fn components(value: &[u8], count: usize) -> Result<Vec<Option<&[u8]>>, ValueError> {
    let mut all = given_components(value, count)?;
    all.resize(count, None);
    Ok(all)
}

/// As [`components`], without those that are left out at the end.
pub fn given_components(value: &[u8], count: usize) -> Result<Vec<Option<&[u8]>>, ValueError> {
    let mut components = Components::tuple(value, count);
    let mut all = Vec::with_capacity(count);
    for (i, component) in components.by_ref().enumerate() {
        all.push(match component {
            Component::Null => None,
            Component::Value(value) => Some(value),
            Component::Malformed(rest) => {
                let what = if rest.len() < 4 { "size of " } else { "" };
                return refuse!("Not enough bytes to read {what}{i}th component");
            }
        });
    }
    components.finish_tuple("tuple")?;
    Ok(all)
}

/// The elements of a vector.
pub fn vector_elements<'v>(
    value: &'v [u8],
    element: &CqlType,
    dimension: u32,
) -> Result<Vec<&'v [u8]>, ValueError> {
    let mut components = Components::vector(value, element, dimension);
    let name = || format!("vector<{element}, {dimension}>");
    if value.is_empty() {
        return refuse!("Invalid empty vector value");
    }
    let mut all = Vec::new();
    for component in components.by_ref() {
        match component {
            Component::Value(value) => all.push(value),
            _ => return refuse!("Not enough bytes to read a {}", name()),
        }
    }
    match components.rest.len() {
        0 => Ok(all),
        rest => refuse!("Unexpected {rest} extraneous bytes after {} value", name()),
    }
}

fn put(out: &mut Vec<u8>, value: &[u8]) {
    let len = i32::try_from(value.len()).expect("a value is at most 2 GiB long");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
}

fn put_count(out: &mut [u8], count: usize) {
    let count = i32::try_from(count).expect("a collection has at most 2^31 elements");
    out[..4].copy_from_slice(&count.to_be_bytes());
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component<'v> {
    /// It is not there.
    Null,
    /// Its bytes.
    Value(&'v [u8]),
    /// The value ends here, or is no value: the bytes that are left. Nothing follows.
    Malformed(&'v [u8]),
}

/// How a part says where it ends.
#[derive(Clone, Copy, Debug)]
enum Framing {
    /// By an `i32` length.
    Prefixed,
    /// By an `i32` length, and parts at the end may be left out.
    Tuple,
    /// All have the same length.
    Fixed(usize),
    /// By an unsigned vint length.
    Vint,
}

/// The parts of a value, one after the other. Never fails: see [`Component::Malformed`].
#[derive(Clone, Debug)]
pub(crate) struct Components<'v> {
    rest: &'v [u8],
    left: usize,
    framing: Framing,
}

impl<'v> Components<'v> {
    /// Of a list or set.
    pub(crate) fn collection(value: &'v [u8]) -> Components<'v> {
        Components::counted(value, 1)
    }

    /// Of a map: key, value, key, value, …
    pub(crate) fn map(value: &'v [u8]) -> Components<'v> {
        Components::counted(value, 2)
    }

    /// Of a tuple or user type of `count` components.
    pub(crate) fn tuple(value: &'v [u8], count: usize) -> Components<'v> {
        Components {
            rest: value,
            left: count,
            framing: Framing::Tuple,
        }
    }

    /// Of a vector.
    pub(crate) fn vector(value: &'v [u8], element: &CqlType, dimension: u32) -> Components<'v> {
        Components {
            rest: value,
            left: dimension as usize,
            framing: match element.fixed_length() {
                Some(length) => Framing::Fixed(length),
                None => Framing::Vint,
            },
        }
    }

    fn counted(value: &'v [u8], parts: usize) -> Components<'v> {
        match value.split_first_chunk::<4>() {
            Some((count, rest)) => Components {
                rest,
                // As in Cassandra, a negative count is none.
                left: usize::try_from(i32::from_be_bytes(*count)).unwrap_or(0) * parts,
                framing: Framing::Prefixed,
            },
            None => Components {
                rest: value,
                left: 1,
                framing: Framing::Prefixed,
            },
        }
    }

    /// Of a collection called `kind`, or why it is none.
    pub(crate) fn checked(
        value: &'v [u8],
        parts: usize,
        kind: &str,
    ) -> Result<Components<'v>, ValueError> {
        if value.len() < 4 {
            return refuse!("Not enough bytes to read a {kind}");
        }
        Ok(Components::counted(value, parts))
    }

    /// The next part, which may not be null.
    pub(crate) fn next_value(&mut self, kind: &str) -> Result<Option<&'v [u8]>, ValueError> {
        match self.next() {
            None => Ok(None),
            Some(Component::Value(value)) => Ok(Some(value)),
            Some(Component::Null) => refuse!("Null value read when not allowed"),
            Some(Component::Malformed(_)) => refuse!("Not enough bytes to read a {kind}"),
        }
    }

    /// After the last part of a collection: nothing may follow.
    pub(crate) fn finish(&self, kind: &str) -> Result<(), ValueError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        refuse!("Unexpected extraneous bytes after {kind} value")
    }

    /// After the last part of a tuple or user type: nothing may follow.
    pub(crate) fn finish_tuple(&self, kind: &str) -> Result<(), ValueError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        refuse!("Invalid remaining data after end of {kind} value")
    }

    /// The length of the next part and where it starts; `None`: it does not fit.
    fn frame(&self) -> Option<(i64, &'v [u8])> {
        match self.framing {
            Framing::Prefixed | Framing::Tuple => {
                let (len, rest) = self.rest.split_first_chunk::<4>()?;
                Some((i64::from(i32::from_be_bytes(*len)), rest))
            }
            Framing::Fixed(0) => None,
            Framing::Fixed(len) => Some((i64::try_from(len).ok()?, self.rest)),
            Framing::Vint => {
                let mut rest = self.rest;
                let len = i64::try_from(vint::read_unsigned(&mut rest)?).ok()?;
                Some((len, rest))
            }
        }
    }
}

impl<'v> Iterator for Components<'v> {
    type Item = Component<'v>;

    fn next(&mut self) -> Option<Component<'v>> {
        if self.left == 0 || (matches!(self.framing, Framing::Tuple) && self.rest.is_empty()) {
            return None;
        }
        self.left -= 1;
        let framed = self.frame().and_then(|(len, rest)| {
            let Ok(len) = usize::try_from(len) else {
                return Some((Component::Null, rest));
            };
            let (value, rest) = rest.split_at_checked(len)?;
            Some((Component::Value(value), rest))
        });
        let (component, rest) = framed.unwrap_or_else(|| {
            self.left = 0;
            (Component::Malformed(self.rest), &[])
        });
        self.rest = rest;
        Some(component)
    }
}
