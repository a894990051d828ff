//! The order of values (`AbstractType.compare` and its overrides).
//!
//! Empty values come first. Where Cassandra would fail on bytes that are no value of the type,
//! such bytes come before all values and are ordered among themselves by their bytes, so that the
//! order is total whatever is in a file.

use std::cmp::Ordering;

use crate::CqlType;
use crate::collection::{Component, Components};
use crate::number;

impl CqlType {
    /// The order of two serialized values of this type, as Cassandra sorts them
    /// (`AbstractType.compare`). Never fails: what does not deserialize is ordered by its bytes.
    ///
    /// Values may be equal in this order and yet differ in their bytes, as decimals 1.0 and 1.00.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            CqlType::Ascii
            | CqlType::Blob
            | CqlType::Date
            | CqlType::Duration
            | CqlType::Empty
            | CqlType::Inet
            | CqlType::Text
            | CqlType::Time => a.cmp(b),
            CqlType::Custom(_) => match self.modern() {
                Some(CqlType::Uuid) => compare_fixed::<16, _>(a, b, lexical_uuid_rank),
                _ => a.cmp(b),
            },
            CqlType::Int => compare_fixed::<4, _>(a, b, |v| i32::from_be_bytes(*v)),
            CqlType::Bigint | CqlType::Counter | CqlType::Timestamp => {
                compare_fixed::<8, _>(a, b, |v| i64::from_be_bytes(*v))
            }
            CqlType::Smallint => compare_fixed::<2, _>(a, b, |v| i16::from_be_bytes(*v)),
            CqlType::Tinyint => compare_fixed::<1, _>(a, b, |v| v[0] as i8),
            CqlType::Boolean => compare_fixed::<1, _>(a, b, |v| v[0] != 0),
            CqlType::Float => compare_fixed::<4, _>(a, b, |v| float_rank(f32::from_be_bytes(*v))),
            CqlType::Double => compare_fixed::<8, _>(a, b, |v| double_rank(f64::from_be_bytes(*v))),
            CqlType::Uuid => compare_fixed::<16, _>(a, b, uuid_rank),
            CqlType::Timeuuid => compare_fixed::<16, _>(a, b, timeuuid_rank),
            CqlType::Varint => number::compare_varints(a, b),
            CqlType::Decimal => number::compare_decimals(a, b),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                compare_components(a, b, Components::collection, |_| element)
            }
            CqlType::Map { key, value, .. } => {
                let part = |i: usize| {
                    if i.is_multiple_of(2) {
                        &**key
                    } else {
                        &**value
                    }
                };
                compare_components(a, b, Components::map, part)
            }
            CqlType::Tuple(types) => compare_tuples(a, b, types.len(), |i| &types[i]),
            CqlType::Udt { definition, .. } => {
                let fields = &definition.fields;
                compare_tuples(a, b, fields.len(), |i| &fields[i].1)
            }
            CqlType::Vector { element, dimension } => compare_components(
                a,
                b,
                |value| Components::vector(value, element, *dimension),
                |_| element,
            ),
            CqlType::Composite(composite) => composite.compare(a, b),
        }
    }
}

/// Values of `N` bytes by their rank; what has another length comes before them.
fn compare_fixed<const N: usize, R: Ord>(
    a: &[u8],
    b: &[u8],
    rank: impl Fn(&[u8; N]) -> R,
) -> Ordering {
    match (a.as_array::<N>(), b.as_array::<N>()) {
        (Some(a), Some(b)) => rank(a).cmp(&rank(b)),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => a.cmp(b),
    }
}

/// `Float.compare`: -0 before 0, NaN after all and equal to every other NaN.
pub(crate) fn float_rank(value: f32) -> i32 {
    if value.is_nan() {
        return i32::MAX;
    }
    let bits = value.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

/// `Double.compare`.
pub(crate) fn double_rank(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The 60 bits of time of a version 1 UUID, behind its version
/// (`TimeUUIDType.reorderTimestampBytes`).
fn time_of(high: u64) -> u64 {
    high << 48 | (high << 16 & 0xffff_0000_0000) | high >> 32
}

fn halves(uuid: &[u8; 16]) -> (u64, u64) {
    let all = u128::from_be_bytes(*uuid);
    ((all >> 64) as u64, all as u64)
}

/// `UUIDType`: by version, then by time where there is one, then by bytes.
pub(crate) fn uuid_rank(uuid: &[u8; 16]) -> (u64, u64, u64) {
    let (high, low) = halves(uuid);
    let version = high >> 12 & 0xf;
    let rank = if version == 1 { time_of(high) } else { high };
    (version, rank, low)
}

/// `TimeUUIDType`: by time, then by the other bytes, each of them signed.
pub(crate) fn timeuuid_rank(uuid: &[u8; 16]) -> (u64, u64) {
    let (high, low) = halves(uuid);
    (time_of(high), low ^ 0x8080_8080_8080_8080)
}

/// `LexicalUUIDType`: as Java's `UUID.compareTo`, which takes both halves for signed numbers.
pub(crate) fn lexical_uuid_rank(uuid: &[u8; 16]) -> (u64, u64) {
    let (high, low) = halves(uuid);
    (high ^ 1 << 63, low ^ 1 << 63)
}

/// Element by element, then by their number.
fn compare_components<'t, 'v>(
    a: &'v [u8],
    b: &'v [u8],
    open: impl Fn(&'v [u8]) -> Components<'v>,
    type_of: impl Fn(usize) -> &'t CqlType,
) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    let (mut left, mut right) = (open(a), open(b));
    for i in 0.. {
        let ordering = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => compare_component(a, b, type_of(i)),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Component by component, nulls first; what is left out at the end is null.
fn compare_tuples<'t>(
    a: &[u8],
    b: &[u8],
    count: usize,
    type_of: impl Fn(usize) -> &'t CqlType,
) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    let (mut left, mut right) = (Components::tuple(a, count), Components::tuple(b, count));
    for i in 0..count {
        let a = left.next().unwrap_or(Component::Null);
        let b = right.next().unwrap_or(Component::Null);
        let ordering = compare_component(a, b, type_of(i));
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Nulls, then what cannot be read, then values.
fn compare_component(a: Component<'_>, b: Component<'_>, ty: &CqlType) -> Ordering {
    let rank = |component: &Component<'_>| match component {
        Component::Null => 0,
        Component::Malformed(_) => 1,
        Component::Value(_) => 2,
    };
    match (a, b) {
        (Component::Value(a), Component::Value(b)) => ty.compare(a, b),
        (Component::Malformed(a), Component::Malformed(b)) => a.cmp(b),
        (a, b) => rank(&a).cmp(&rank(&b)),
    }
}
