//! Variable-length integers of Cassandra's sstables and messages (`VIntCoding`).
//!
//! The number of leading one bits of the first byte says how many bytes follow; the remaining
//! bits and the bytes that follow are the value, big-endian. Signed numbers are zigzag-encoded
//! first. A `u64` takes one to nine bytes.

/// How many bytes [`write_unsigned`] takes for `value`.
pub fn unsigned_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7).min(9)
}

/// Appends `value`.
#[inline]
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    // Most of what is written is a short length.
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    write_long(out, value);
}

/// Appends what takes two bytes or more.
fn write_long(out: &mut Vec<u8>, value: u64) {
    let len = unsigned_len(value);
    if len == 9 {
        out.push(0xff);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    let start = out.len();
    out.extend_from_slice(&value.to_be_bytes()[8 - len..]);
    // `len - 1` ones, then a zero.
    out[start] |= !(0xffu16 >> (len - 1)) as u8;
}

/// Appends `value`, zigzag-encoded.
pub fn write_signed(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, zigzag(value));
}

/// Takes an unsigned number from the front of `input`; `None` (and nothing taken) if it ends too
/// early.
pub fn read_unsigned(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let more = first.leading_ones() as usize;
    let bytes = input.get(1..1 + more)?;
    // With eight bytes to follow, none of the first byte's bits belong to the value.
    let head = u64::from(first) & (0xffu64 >> more >> 1);
    let value = bytes
        .iter()
        .fold(head, |value, byte| value << 8 | u64::from(*byte));
    *input = &input[1 + more..];
    Some(value)
}

/// Takes a zigzag-encoded number from the front of `input`; `None` (and nothing taken) if it ends
/// too early.
pub fn read_signed(input: &mut &[u8]) -> Option<i64> {
    read_unsigned(input).map(unzigzag)
}

/// Numbers near zero, of either sign, become small unsigned ones.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodes_as_cassandra() {
        let encoded = |value| {
            let mut out = Vec::new();
            write_unsigned(&mut out, value);
            out
        };
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(127), [0x7f]);
        assert_eq!(encoded(128), [0x80, 0x80]);
        assert_eq!(encoded(16_383), [0xbf, 0xff]);
        assert_eq!(encoded(16_384), [0xc0, 0x40, 0x00]);
        assert_eq!(
            encoded((1 << 56) - 1),
            [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(encoded(1 << 56), [0xff, 0x01, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(u64::MAX), [0xff; 9]);
    }

    #[test]
    fn a_cut_number_is_refused() {
        let mut input: &[u8] = &[0xc0, 0x40];
        assert_eq!(read_unsigned(&mut input), None);
        assert_eq!(input.len(), 2);
        assert_eq!(read_unsigned(&mut &[][..]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u64, shift in 0u32..64, tail: u8) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_unsigned(&mut out, value);
            prop_assert_eq!(out.len(), unsigned_len(value));
            out.push(tail);
            let mut input = &out[..];
            prop_assert_eq!(read_unsigned(&mut input), Some(value));
            prop_assert_eq!(input, &[tail][..]);
            prop_assert_eq!(zigzag(unzigzag(value)), value);
        }
    }
}
