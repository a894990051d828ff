//! Values, keys and clusterings as bytes that sort as the values do: what the trie indexes of BTI
//! sstables are made of.
//!
//! Comparing two translations byte by byte gives the order of the values, and no translation,
//! followed by a separator, is the beginning of another. Sequences put a separator before each of
//! their parts and a terminator behind the last one, which for a bound says on which side of its
//! prefix it lies. This is `ByteComparable.Version.OSS50` of Cassandra 5.0
//! (`org.apache.cassandra.utils.bytecomparable`, `AbstractType.asComparableBytes`).
//!
//! | type | translation |
//! |---|---|
//! | `int`, `smallint`, `tinyint`, `timestamp` | big-endian, the sign bit inverted |
//! | `bigint`, `counter` | of variable length, see [`write_integer`] |
//! | `float`, `double` | the sign bit inverted; all bits of negative ones |
//! | `date`, `time`, `DateType` | as they are |
//! | `uuid`, `timeuuid` | version and time first |
//! | `LexicalUUIDType` | the sign bits of both halves inverted |
//! | `varint` | as `bigint` up to six bytes, longer ones with sign and length before them |
//! | `decimal` | sign, exponent and digits to the base of 100 |
//! | text, `blob`, `inet` | zeros escaped, an escape at the end |
//! | tuples, collections, vectors, composites | sequences |
//! | in descending order | all bits inverted |

use num_bigint::Sign;

use crate::collection::{Component, Components};
use crate::compare::lexical_uuid_rank;
use crate::{
    Bound, BoundKind, Clustering, ClusteringComparator, CqlType, DecoratedKey, Order, Token, number,
};

/// Before each part of a sequence.
pub(crate) const NEXT: u8 = 0x40;
/// In its place: the part is an empty value of a type that sorts it before all others.
const NEXT_EMPTY: u8 = 0x3f;
/// The same in descending order.
const NEXT_EMPTY_REVERSED: u8 = 0x41;
/// In its place: the part is null.
pub(crate) const NEXT_NULL: u8 = 0x3e;
/// Ends a sequence.
pub(crate) const END: u8 = 0x38;
/// Ends a bound that lies before all that has its prefix.
const BEFORE: u8 = 0x20;
/// Ends a bound that lies behind all that has its prefix.
const BEHIND: u8 = 0x60;

/// Begins the escape of a zero, and ends a value.
const ESCAPE: u8 = 0x00;
/// One more zero.
const ESCAPED_MORE: u8 = 0xfe;
/// No more zeros.
const ESCAPED_DONE: u8 = 0xff;

/// `varint`s of so many bytes have their length before them.
const LONG_VARINT: usize = 7;

impl DecoratedKey {
    /// The key so that bytes sort as keys on the ring do (`DecoratedKey.asComparableBytes`).
    pub fn byte_comparable(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.key().len() + 12);
        out.extend(self.token().byte_comparable_prefix());
        out.push(NEXT);
        write_escaped(&mut out, self.key());
        out.push(END);
        out
    }
}

impl Token {
    /// What the translations of all keys of this token begin with.
    pub fn byte_comparable_prefix(self) -> [u8; 9] {
        let mut out = [NEXT; 9];
        out[1..].copy_from_slice(&(self.0 ^ i64::MIN).to_be_bytes());
        out
    }
}

impl ClusteringComparator {
    /// The place of a row, so that bytes sort as rows of this table do
    /// (`ClusteringComparator.asByteComparable`).
    pub fn byte_comparable(&self, clustering: &Clustering) -> Vec<u8> {
        self.sequence(clustering, END)
    }

    /// The place of a bound among the rows.
    pub fn byte_comparable_bound(&self, bound: &Bound) -> Vec<u8> {
        let end = match bound.kind {
            BoundKind::InclusiveStart | BoundKind::ExclusiveEnd => BEFORE,
            BoundKind::ExclusiveStart | BoundKind::InclusiveEnd => BEHIND,
        };
        self.sequence(&bound.prefix, end)
    }

    fn sequence(&self, prefix: &Clustering, end: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        for ((ty, order), value) in self.columns().iter().zip(&prefix.0) {
            write_ordered(&mut out, ty, *order, value, NEXT_EMPTY);
        }
        out.push(end);
        out
    }
}

impl CqlType {
    /// Appends the translation of a value; `false`, and nothing, for an empty value of a type that
    /// has no translation of it. Bytes that are no value of the type are translated somehow.
    fn write_byte_comparable(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Inet => {
                write_escaped(out, value);
                return true;
            }
            CqlType::Custom(_) if self.modern().is_none() => {
                write_escaped(out, value);
                return true;
            }
            CqlType::Composite(composite) => return composite.write_byte_comparable(value, out),
            _ if value.is_empty() => return false,
            CqlType::Custom(_) => match (self.modern(), value.as_array()) {
                (Some(CqlType::Uuid), Some(uuid)) => {
                    let (high, low) = lexical_uuid_rank(uuid);
                    out.extend(high.to_be_bytes());
                    out.extend(low.to_be_bytes());
                }
                // Unlike those of `timestamp`, the values of `DateType` are ordered by their bytes.
                _ => out.extend(value),
            },
            CqlType::Int | CqlType::Smallint | CqlType::Tinyint | CqlType::Timestamp => {
                out.push(value[0] ^ 0x80);
                out.extend(&value[1..]);
            }
            CqlType::Bigint | CqlType::Counter => match value.as_array() {
                Some(value) => write_integer(out, i64::from_be_bytes(*value)),
                None => write_escaped(out, value),
            },
            CqlType::Float | CqlType::Double => {
                let invert = if value[0] >= 0x80 { 0xff } else { 0 };
                out.push((value[0] | 0x80) ^ invert);
                out.extend(value[1..].iter().map(|byte| byte ^ invert));
            }
            CqlType::Boolean => out.push(u8::from(value[0] != 0)),
            CqlType::Date | CqlType::Time | CqlType::Duration | CqlType::Empty => out.extend(value),
            CqlType::Uuid | CqlType::Timeuuid => match value.as_array() {
                Some(uuid) => self.write_uuid(out, uuid),
                None => write_escaped(out, value),
            },
            CqlType::Varint => write_varint(out, value),
            CqlType::Decimal => write_decimal(out, value),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                write_sequence(out, Components::collection(value), |_| element);
            }
            CqlType::Map {
                key, value: values, ..
            } => {
                let part = |i: usize| if i.is_multiple_of(2) { &**key } else { values };
                write_sequence(out, Components::map(value), part);
            }
            CqlType::Tuple(types) => write_tuple(out, value, types.len(), |i| &types[i]),
            CqlType::Udt { definition, .. } => {
                let fields = &definition.fields;
                write_tuple(out, value, fields.len(), |i| &fields[i].1);
            }
            CqlType::Vector { element, dimension } => {
                let elements = Components::vector(value, element, *dimension);
                write_sequence(out, elements, |_| element);
            }
        }
        true
    }

    /// Version and time first (`UUIDType`, `AbstractTimeUUIDType`).
    fn write_uuid(&self, out: &mut Vec<u8>, uuid: &[u8; 16]) {
        let all = u128::from_be_bytes(*uuid);
        let (high, low) = ((all >> 64) as u64, all as u64);
        let by_time = high << 48 | (high << 16 & 0xffff_0000_0000) | high >> 32;
        let version = high >> 12 & 0xf;
        let (first, second) = match self {
            CqlType::Timeuuid => (by_time, low ^ 0x8080_8080_8080_8080),
            _ if version == 1 => (by_time, low),
            _ => {
                let rest = high >> 4 & 0x0fff_ffff_ffff_f000 | high & 0xfff;
                (version << 60 | rest, low)
            }
        };
        out.extend(first.to_be_bytes());
        out.extend(second.to_be_bytes());
    }
}

/// A part of a sequence, all bits inverted if it is in descending order; `empty` stands before a value
/// without a translation in ascending order.
pub(crate) fn write_ordered(
    out: &mut Vec<u8>,
    ty: &CqlType,
    order: Order,
    value: &[u8],
    empty: u8,
) {
    let start = out.len();
    out.push(NEXT);
    let reversed = order == Order::Descending;
    if !ty.write_byte_comparable(value, out) {
        out[start] = if reversed { NEXT_EMPTY_REVERSED } else { empty };
    } else if reversed {
        out[start + 1..].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
}

/// `ByteSource.Multi` with the terminator of a sequence.
fn write_sequence<'t>(
    out: &mut Vec<u8>,
    parts: impl Iterator<Item = Component<'t>>,
    type_of: impl Fn(usize) -> &'t CqlType,
) {
    for (i, part) in parts.enumerate() {
        write_part(out, part, type_of(i));
    }
    out.push(END);
}

/// A sequence without the nulls at its end.
fn write_tuple<'t>(
    out: &mut Vec<u8>,
    value: &[u8],
    count: usize,
    type_of: impl Fn(usize) -> &'t CqlType,
) {
    let mut end = out.len();
    for (i, part) in Components::tuple(value, count).enumerate() {
        write_part(out, part, type_of(i));
        if part != Component::Null {
            end = out.len();
        }
    }
    out.truncate(end);
    out.push(END);
}

fn write_part(out: &mut Vec<u8>, part: Component<'_>, ty: &CqlType) {
    match part {
        Component::Null => out.push(NEXT_NULL),
        Component::Value(value) => write_ordered(out, ty, Order::Ascending, value, NEXT_NULL),
        Component::Malformed(rest) => {
            out.push(NEXT);
            write_escaped(out, rest);
        }
    }
}

/// Zeros as an escape with their number in unary, and an escape at the end
/// (`ByteSource.AbstractEscaper`).
pub(crate) fn write_escaped(out: &mut Vec<u8>, value: &[u8]) {
    let mut in_zeros = false;
    for byte in value {
        match (in_zeros, *byte) {
            (false, 0) => {
                out.push(ESCAPE);
                in_zeros = true;
            }
            (true, 0) => out.push(ESCAPED_MORE),
            (true, byte) => {
                out.extend([ESCAPED_DONE, byte]);
                in_zeros = false;
            }
            (false, byte) => out.push(byte),
        }
    }
    out.push(if in_zeros { ESCAPED_MORE } else { ESCAPE });
}

/// An integer in one to nine bytes: the inverted sign bit, one more such bit for each byte beyond
/// the first, then the number (`ByteSource.VariableLengthInteger`).
fn write_integer(out: &mut Vec<u8>, value: i64) {
    let negative = (value >> 63) as u64;
    let magnitude = value as u64 ^ negative;
    let bits = 64 - (magnitude | 1).leading_zeros();
    let length = (bits / 7 + 1) as usize;
    if length >= 9 {
        // The mark of the length does not fit the number's own bytes.
        out.push(0xff ^ negative as u8);
        out.extend(((magnitude | 1 << 63) ^ negative).to_be_bytes());
        return;
    }
    let mask = (-0x100i64 >> length) as u64 & 0xff;
    let marked = (magnitude | mask << (8 * (length - 1))) ^ negative;
    out.extend(&marked.to_be_bytes()[8 - length..]);
}

/// As UTF-8 does it: as many ones as bytes follow the first (`VariableLengthUnsignedInteger`).
fn write_length(out: &mut Vec<u8>, length: u64, invert: u8) {
    let extra = ((63 - (length | 1).leading_zeros()) / 7) as usize;
    let bytes = length.to_be_bytes();
    let first = bytes[7 - extra] | (-256i32 >> extra) as u8;
    out.push(first ^ invert);
    out.extend(bytes[8 - extra..].iter().map(|byte| byte ^ invert));
}

/// `IntegerType.asComparableBytes`.
fn write_varint(out: &mut Vec<u8>, value: &[u8]) {
    let sign = value[0];
    let mut digits = value;
    if sign == 0 || sign == 0xff {
        while let [first, rest @ ..] = digits
            && *first == sign
            && !rest.is_empty()
        {
            digits = rest;
        }
    }
    if digits.len() < LONG_VARINT {
        let negative = if sign >= 0x80 { -1 } else { 0i64 };
        let number = digits
            .iter()
            .fold(negative, |number, digit| number << 8 | i64::from(*digit));
        return write_integer(out, number);
    }
    let invert = if sign >= 0x80 { 0xff } else { 0 };
    out.push(0xff ^ invert);
    write_length(out, (digits.len() - LONG_VARINT) as u64, invert);
    out.extend(digits);
}

/// Sign and length of the exponent, the exponent, pairs of digits of the mantissa, which is less
/// than one, and a zero (`DecimalType.asComparableBytes`). Of a negative number all digits but the
/// first pair are those of what is missing to the next whole one, so that they grow with it.
fn write_decimal(out: &mut Vec<u8>, value: &[u8]) {
    let Some((scale, unscaled)) = value.split_first_chunk::<4>() else {
        return write_escaped(out, value);
    };
    let unscaled = number::decode_varint(unscaled);
    if unscaled.sign() == Sign::NoSign {
        return out.push(0x80);
    }
    let negative = unscaled.sign() == Sign::Minus;
    let mut digits = unscaled.magnitude().to_string().into_bytes();
    let point = digits.len() as i64 - i64::from(i32::from_be_bytes(*scale));
    // The exponent to the base of 100: rounded up, with a zero before an odd number of digits.
    let exponent = (point + 1) >> 1;
    if point.rem_euclid(2) == 1 {
        digits.insert(0, b'0');
    }
    write_exponent(out, exponent, negative);
    let pairs: Vec<u8> = digits
        .chunks(2)
        .map(|pair| (pair[0] - b'0') * 10 + pair.get(1).map_or(0, |digit| digit - b'0'))
        .collect();
    let count = pairs
        .iter()
        .rposition(|pair| *pair != 0)
        .map_or(0, |i| i + 1);
    for (i, pair) in pairs[..count].iter().enumerate() {
        let last = i + 1 == count;
        out.push(match (negative, i) {
            (false, _) => 0x80 + pair,
            (true, 0) => 0x80 - pair - u8::from(!last),
            (true, _) => 0x80 + 99 + u8::from(last) - pair,
        });
    }
    out.push(0);
}

/// With the sign of the number, so that greater exponents make negative numbers smaller.
fn write_exponent(out: &mut Vec<u8>, exponent: i64, negative: bool) {
    let signed = if negative { -exponent } else { exponent };
    let length = 4 - (signed.unsigned_abs() as u32).leading_zeros() as u8 / 8;
    let length_mark = if signed < 0 {
        0x40 - length
    } else {
        0x40 + length
    };
    out.push(length_mark + if negative { 0 } else { 0x80 });
    out.extend(&signed.to_be_bytes()[8 - usize::from(length)..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{pack_elements, pack_entries, pack_tuple};
    use bytes::Bytes;
    use smallvec::smallvec;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The translation of a literal.
    fn of(ty: &CqlType, text: &str) -> String {
        let mut out = Vec::new();
        let value = ty.parse_string(text).expect("a value");
        assert!(ty.write_byte_comparable(&value, &mut out), "{text}");
        hex(&out)
    }

    #[test]
    fn values_are_translated_as_cassandra_documents() {
        let cases: [(CqlType, &[(&str, &str)]); 8] = [
            (
                CqlType::Int,
                &[("1", "80000001"), ("-2147483648", "00000000")],
            ),
            (CqlType::Smallint, &[("-1", "7fff")]),
            (
                CqlType::Float,
                &[
                    ("1.0", "bf800000"),
                    ("-1.0", "407fffff"),
                    ("-0.0", "7fffffff"),
                ],
            ),
            (
                CqlType::Bigint,
                &[
                    ("0", "80"),
                    ("1", "81"),
                    ("-1", "7f"),
                    ("63", "bf"),
                    ("64", "c040"),
                    ("-64", "40"),
                    ("-65", "3fbf"),
                    ("1048575", "efffff"),
                    ("1048576", "f0100000"),
                    ("-1048576", "100000"),
                    ("9223372036854775807", "ffffffffffffffffff"),
                    ("-9223372036854775808", "000000000000000000"),
                ],
            ),
            (
                CqlType::Varint,
                &[
                    ("-1", "7f"),
                    ("127", "c07f"),
                    ("255", "c0ff"),
                    ("4294967295", "f8ffffffff"),
                    ("72057594037927935", "ff00ffffffffffffff"),
                    ("72057594037927936", "ff010100000000000000"),
                    ("-72057594037927937", "00fefeffffffffffffff"),
                ],
            ),
            (
                CqlType::Decimal,
                &[
                    ("1.1", "c101818a00"),
                    ("1", "c1018100"),
                    ("100E-2", "c1018100"),
                    ("0.01", "c08100"),
                    ("0.00", "80"),
                    ("-0.01", "407f00"),
                    ("-1", "3fff7f00"),
                    ("-1.1", "3fff7eda00"),
                    ("-98.9", "3fff1d8a00"),
                    ("-99", "3fff1d00"),
                    ("-99.9", "3fff1c8a00"),
                    ("-8.1E2000", "3efc1777da00"),
                    ("-8.1E-2000", "4203e777da00"),
                    ("8.1E-2000", "befc19888a00"),
                    ("8.1E2000", "c203e9888a00"),
                ],
            ),
            (
                CqlType::Uuid,
                &[
                    (
                        "cc520882-9507-44fb-8fc9-b349ecdee658",
                        "4cc52088295074fb8fc9b349ecdee658",
                    ),
                    (
                        "2a92d750-d8dc-11e6-a2de-cf8ecd4cf053",
                        "11e6d8dc2a92d750a2decf8ecd4cf053",
                    ),
                ],
            ),
            (
                CqlType::Timeuuid,
                &[(
                    "2a92d750-d8dc-11e6-a2de-cf8ecd4cf053",
                    "11e6d8dc2a92d750225e4f0e4dcc70d3",
                )],
            ),
        ];
        for (ty, values) in cases {
            for (text, expected) in values {
                assert_eq!(of(&ty, text), *expected, "{ty} {text}");
            }
        }
    }

    /// Values of a class, each with its translation, in their order.
    fn in_order(class: &str, values: &[(&str, &str)]) {
        let ty = CqlType::Custom(class.into());
        for (text, expected) in values {
            assert_eq!(of(&ty, text), *expected, "{class} {text}");
        }
        for pair in values.windows(2) {
            let [a, b] = [pair[0].0, pair[1].0].map(|text| ty.parse_string(text).expect("a value"));
            assert!(ty.compare(&a, &b).is_lt(), "{class} {pair:?}");
            assert!(ty.compare(&[], &a).is_lt(), "{class} {pair:?}");
            assert!(pair[0].1 < pair[1].1, "{class} {pair:?}");
        }
        assert!(!ty.write_byte_comparable(&[], &mut Vec::new()));
    }

    #[test]
    fn classes_of_cassandra_1_have_their_own_order() {
        in_order(
            "org.apache.cassandra.db.marshal.LexicalUUIDType",
            &[
                (
                    "ff000000-0000-1000-8000-000000000000",
                    "7f000000000010000000000000000000",
                ),
                (
                    "00000000-0000-4000-8000-000000000001",
                    "80000000000040000000000000000001",
                ),
                (
                    "00000000-0000-4000-0000-000000000001",
                    "80000000000040008000000000000001",
                ),
            ],
        );
        in_order(
            "DateType",
            &[
                ("1970-01-01 00:00:00.001+0000", "0000000000000001"),
                ("1969-12-31 23:59:59.999+0000", "ffffffffffffffff"),
            ],
        );
    }

    #[test]
    fn zeros_are_escaped() {
        for (value, expected) in [
            (&[0x22, 0][..], "2200fe"),
            (&[0x22, 0, 0, 0x33], "2200feff3300"),
            (&[0x22, 0, 0x11], "2200ff1100"),
            (&[], "00"),
        ] {
            let mut out = Vec::new();
            write_escaped(&mut out, value);
            assert_eq!(hex(&out), expected);
        }
    }

    #[test]
    fn sequences_know_nulls_and_bounds() {
        let columns = vec![
            (CqlType::Smallint, Order::Ascending),
            (CqlType::Float, Order::Descending),
        ];
        let comparator = ClusteringComparator::new(columns);
        let one = Bytes::from_static(&[0, 1]);
        let float = Bytes::from_static(&[0x3f, 0x80, 0, 0]);
        let row = Clustering(smallvec![one.clone(), float]);
        assert_eq!(hex(&comparator.byte_comparable(&row)), "40800140407fffff38");
        let empty = Clustering(smallvec![one.clone(), Bytes::new()]);
        assert_eq!(hex(&comparator.byte_comparable(&empty)), "4080014138");
        let bound = |prefix, kind| comparator.byte_comparable_bound(&Bound { prefix, kind });
        let prefix = Clustering(smallvec![one]);
        let after = bound(prefix.clone(), BoundKind::ExclusiveStart);
        assert_eq!(hex(&after), "40800160");
        let before = bound(prefix, BoundKind::InclusiveStart);
        assert_eq!(hex(&before), "40800120");
        assert_eq!(hex(&comparator.byte_comparable_bound(&Bound::BOTTOM)), "20");
        assert_eq!(hex(&comparator.byte_comparable_bound(&Bound::TOP)), "60");
    }

    #[test]
    fn what_is_made_of_parts_is_a_sequence() {
        let write = |ty: &CqlType, value: &[u8]| {
            let mut out = Vec::new();
            assert!(ty.write_byte_comparable(value, &mut out));
            hex(&out)
        };
        let int = 1i32.to_be_bytes();
        let list = CqlType::List {
            element: Box::new(CqlType::Int),
            frozen: true,
        };
        let value = pack_elements([&int[..], &[]]);
        assert_eq!(write(&list, &value), "40800000013e38");
        let map = CqlType::Map {
            key: Box::new(CqlType::Int),
            value: Box::new(CqlType::Text),
            frozen: true,
        };
        let value = pack_entries([(&int[..], &b"a"[..])]);
        assert_eq!(write(&map, &value), "408000000140610038");
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Text, CqlType::Int]);
        let value = pack_tuple([None, Some(&b"a"[..]), None]);
        assert_eq!(write(&tuple, &value), "3e40610038");
    }
}
