//! Numbers of any size: `varint` (two's complement, big-endian) and `decimal` (`i32` scale, then
//! the unscaled number as a varint; the value is unscaled / 10^scale).

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use num_bigint::{BigInt, Sign};

use crate::ValueError;
use crate::value::refuse;

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

/// By the place of the first digit, then digit by digit: a scale can be so large that the numbers
/// must not be brought to the same one.
fn compare_magnitudes(a: &BigInt, scale_a: i32, b: &BigInt, scale_b: i32) -> Ordering {
    // Decimal digits from bits, give or take one: often decides without the digits, which take
    // time that grows with the square of the length.
    let roughly = |n: &BigInt, scale: i32| n.bits() as f64 * 2f64.log10() - f64::from(scale);
    let (about_a, about_b) = (roughly(a, scale_a), roughly(b, scale_b));
    if (about_a - about_b).abs() > 2.0 {
        return about_a.total_cmp(&about_b);
    }
    let digits = |n: &BigInt| n.magnitude().to_string();
    let (a, b) = (digits(a), digits(b));
    let place = |digits: &str, scale: i32| digits.len() as i64 - i64::from(scale);
    place(&a, scale_a)
        .cmp(&place(&b, scale_b))
        .then_with(|| a.trim_end_matches('0').cmp(b.trim_end_matches('0')))
}
