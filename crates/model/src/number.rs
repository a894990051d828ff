//! Numbers of any size: `varint` (two's complement, big-endian) and `decimal` (`i32` scale, then
//! the unscaled number as a varint; the value is unscaled / 10^scale).

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use num_bigint::{BigInt, BigUint, Sign};

use crate::value::refuse;
use crate::{CqlType, ValueError};

/// How many digits a number may have that is read from text, shown as text or counted with: the
/// time for that grows with their square. (Cassandra has `DecimalType.MAX_PRECISION` where it
/// divides.) As bytes, numbers of any size are taken and given.
pub const MAX_DIGITS: usize = 10_000;

/// The longest varint that has so many: a digit takes 3.3219… bits.
const MAX_BYTES: usize = MAX_DIGITS * 33_220 / 10_000 / 8 + 1;

/// Refuses a `varint` or `decimal` of more digits than [`MAX_DIGITS`]; other values pass.
pub fn check_digits(ty: &CqlType, value: &[u8]) -> Result<(), ValueError> {
    let length = match ty {
        CqlType::Varint => value.len(),
        CqlType::Decimal => value.len().saturating_sub(4),
        _ => 0,
    };
    if length > MAX_BYTES {
        return refuse!(
            "a {ty} of {length} bytes is too long to be shown as text or to be counted with: \
             {MAX_DIGITS} digits are allowed"
        );
    }
    Ok(())
}

/// The `varint` of a text of digits, with or without a sign.
pub(crate) fn varint_from_text(text: &str) -> Result<Vec<u8>, ValueError> {
    if text.len() > MAX_DIGITS + 1 {
        return too_many_digits(text.len());
    }
    match text.parse::<BigInt>() {
        Ok(value) if !text.contains('_') => Ok(encode_varint(&value)),
        _ => refuse!("unable to make int from '{text}'"),
    }
}

fn too_many_digits<T>(length: usize) -> Result<T, ValueError> {
    refuse!("a number of {length} characters is too long: {MAX_DIGITS} digits are allowed")
}

/// The number a `varint` holds; 0 if it is empty.
pub fn decode_varint(value: &[u8]) -> BigInt {
    BigInt::from_signed_bytes_be(value)
}

/// The shortest `varint` that holds `number`.
pub fn encode_varint(number: &BigInt) -> Vec<u8> {
    number.to_signed_bytes_be()
}

/// The number a `decimal` holds.
pub fn decode_decimal(value: &[u8]) -> Result<BigDecimal, ValueError> {
    let Some((scale, unscaled)) = value.split_first_chunk::<4>() else {
        return refuse!("Expected 0 or at least 4 bytes ({})", value.len());
    };
    let scale = i32::from_be_bytes(*scale);
    Ok(BigDecimal::new(decode_varint(unscaled), i64::from(scale)))
}

/// The `decimal` that holds `number`, with its scale.
pub fn encode_decimal(number: &BigDecimal) -> Result<Vec<u8>, ValueError> {
    let (unscaled, scale) = number.as_bigint_and_exponent();
    let Ok(scale) = i32::try_from(scale) else {
        return refuse!("the scale {scale} of a decimal does not fit 32 bits");
    };
    let mut out = scale.to_be_bytes().to_vec();
    out.extend_from_slice(&encode_varint(&unscaled));
    Ok(out)
}

/// The `decimal` of a text as `-1.50` or `15E-1`; its scale is that of the text
/// (`java.math.BigDecimal`).
pub(crate) fn decimal_from_text(text: &str) -> Result<Vec<u8>, ValueError> {
    /// Of sign, point and exponent.
    const MOST_OTHERS: usize = 14;
    if text.len() > MAX_DIGITS + MOST_OTHERS {
        return too_many_digits(text.len());
    }
    let read = || {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
        let plain = unsigned.bytes().all(|byte| byte.is_ascii_digit());
        if unsigned.is_empty() || !plain || fraction.starts_with(['+', '-']) {
            return None;
        }
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        // Java takes exponents of 32 bits only.
        i32::try_from(exponent).ok()?;
        let mut out = i32::try_from(scale).ok()?.to_be_bytes().to_vec();
        out.extend_from_slice(&encode_varint(&digits.parse().ok()?));
        Some(out)
    };
    read().ok_or_else(|| ValueError::new(format!("unable to make BigDecimal from '{text}'")))
}

/// The text of a `decimal` (`BigDecimal.toString`): with an exponent where it would have many
/// zeros. `None` if it is too short for one.
pub(crate) fn decimal_to_text(value: &[u8]) -> Option<String> {
    let (scale, unscaled) = value.split_first_chunk::<4>()?;
    let scale = i64::from(i32::from_be_bytes(*scale));
    let unscaled = decode_varint(unscaled);
    let sign = if unscaled.sign() == Sign::Minus {
        "-"
    } else {
        ""
    };
    let digits = unscaled.magnitude().to_string();
    let exponent = digits.len() as i64 - 1 - scale;
    if scale == 0 {
        return Some(format!("{sign}{digits}"));
    }
    if scale > 0 && exponent >= -6 {
        let scale = scale as usize;
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        return Some(format!("{sign}{whole}.{fraction}"));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    if exponent == 0 {
        return Some(format!("{sign}{first}{point}{rest}"));
    }
    Some(format!("{sign}{first}{point}{rest}E{exponent:+}"))
}

/// `IntegerType.compare`: by value; empty first.
pub(crate) fn compare_varints(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    let (a, b) = (trim(a), trim(b));
    let negative = |value: &[u8]| value[0] >= 0x80;
    match (negative(a), negative(b)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (true, true) => b.len().cmp(&a.len()).then_with(|| a.cmp(b)),
    }
}

/// Without the leading bytes that only repeat the sign.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [sign @ (0 | 0xff), rest @ ..] = value
        && rest.first().is_some_and(|next| (next ^ sign) < 0x80)
    {
        value = rest;
    }
    value
}

/// `DecimalType.compare`: by value, so that 1.0 equals 1.00; empty first.
pub(crate) fn compare_decimals(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((scale_a, a_unscaled)), Some((scale_b, b_unscaled))) =
        (a.split_first_chunk::<4>(), b.split_first_chunk::<4>())
    else {
        return match (a.len() >= 4, b.len() >= 4) {
            (true, _) => Ordering::Greater,
            (_, true) => Ordering::Less,
            _ => a.cmp(b),
        };
    };
    let (a, b) = (decode_varint(a_unscaled), decode_varint(b_unscaled));
    let (scale_a, scale_b) = (i32::from_be_bytes(*scale_a), i32::from_be_bytes(*scale_b));
    if a.sign() != b.sign() || a.sign() == Sign::NoSign {
        return a.sign().cmp(&b.sign());
    }
    if scale_a == scale_b {
        return a.cmp(&b);
    }
    let ordering = compare_magnitudes(&a, scale_a, &b, scale_b);
    if a.sign() == Sign::Minus {
        ordering.reverse()
    } else {
        ordering
    }
}

/// A scale can be so large that the numbers must not be brought to the same one, unless they are
/// about as large.
fn compare_magnitudes(a: &BigInt, scale_a: i32, b: &BigInt, scale_b: i32) -> Ordering {
    // Decimal digits from bits, give or take one.
    let roughly = |n: &BigInt, scale: i32| n.bits() as f64 * 2f64.log10() - f64::from(scale);
    let (about_a, about_b) = (roughly(a, scale_a), roughly(b, scale_b));
    if (about_a - about_b).abs() > 2.0 {
        return about_a.total_cmp(&about_b);
    }
    // The scales differ by no more than the numbers of digits do. Multiplying takes far less time
    // than digits would, which grows with the square of their number.
    let more = i64::from(scale_b) - i64::from(scale_a);
    let ten = BigUint::from(10u32).pow(more.unsigned_abs() as u32);
    if more > 0 {
        (a.magnitude() * ten).cmp(b.magnitude())
    } else {
        a.magnitude().cmp(&(b.magnitude() * ten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_digits_as_may_be_are_read_and_shown() {
        for ty in [CqlType::Varint, CqlType::Decimal] {
            for sign in ["", "-"] {
                let text = format!("{sign}{}", "9".repeat(MAX_DIGITS));
                let value = ty.parse_string(&text).expect("not too long");
                assert_eq!(check_digits(&ty, &value), Ok(()));
                assert_eq!(ty.format_string(&value), text);
                let longer = ty.parse_string(&format!("{text}9999999999999999"));
                assert!(longer.is_err());
            }
        }
    }

    #[test]
    fn decimals_of_many_digits_are_compared_in_no_time() {
        let decimal = |scale: i32, unscaled: &BigInt| {
            let mut value = scale.to_be_bytes().to_vec();
            value.extend(encode_varint(unscaled));
            value
        };
        let digits = BigInt::from(10).pow(50_000) / 7;
        let long = decimal(0, &digits);
        for (other, expected) in [
            (decimal(3, &(&digits * 1000)), Ordering::Equal),
            (decimal(3, &(&digits * 1000 + 1)), Ordering::Less),
            (decimal(3, &(&digits * 1000 - 1)), Ordering::Greater),
            (decimal(-49_999, &BigInt::from(1)), Ordering::Greater),
            (decimal(-49_999, &BigInt::from(2)), Ordering::Less),
            (decimal(-50_000, &BigInt::from(1)), Ordering::Less),
        ] {
            assert_eq!(compare_decimals(&long, &other), expected);
            assert_eq!(compare_decimals(&other, &long), expected.reverse());
        }
    }
}
