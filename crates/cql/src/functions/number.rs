//! Numbers of any CQL type, converted as Java converts its own: integers wrap, floating point
//! saturates, and text is what `toString` gives.

use bigdecimal::BigDecimal;
use bytes::Bytes;
use model::number::{check_digits, decode_decimal, decode_varint, encode_decimal, encode_varint};
use model::{CqlType, ValueError};
use num_bigint::BigInt;

/// Also keeps `1e1000000000 + 1` from taking all memory.
const MAX_DIGITS: i64 = model::number::MAX_DIGITS as i64;

/// A number, of the narrowest representation that holds its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// `tinyint`, `smallint`, `int`, `bigint`, `counter`
    Int(i64),
    /// `varint`
    Varint(BigInt),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `decimal`
    Decimal(BigDecimal),
}

/// Is this a type of numbers?
pub(super) fn is_numeric(ty: &CqlType) -> bool {
    is_integer(ty) || matches!(ty, CqlType::Float | CqlType::Double | CqlType::Decimal)
}

/// Is this a type of whole numbers?
pub(super) fn is_integer(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Counter
            | CqlType::Varint
    )
}

impl Number {
    /// The number that `value` holds; `None` for an empty value or one of another length. One of
    /// too many digits is an error.
    pub(super) fn decode(ty: &CqlType, value: &[u8]) -> Result<Option<Number>, ValueError> {
        check_digits(ty, value)?;
        Ok(Number::of(ty, value))
    }

    fn of(ty: &CqlType, value: &[u8]) -> Option<Number> {
        Some(match ty {
            CqlType::Tinyint => Number::Int(i8::from_be_bytes(value.try_into().ok()?).into()),
            CqlType::Smallint => Number::Int(i16::from_be_bytes(value.try_into().ok()?).into()),
            CqlType::Int => Number::Int(i32::from_be_bytes(value.try_into().ok()?).into()),
            CqlType::Bigint | CqlType::Counter => {
                Number::Int(i64::from_be_bytes(value.try_into().ok()?))
            }
            CqlType::Varint if !value.is_empty() => Number::Varint(decode_varint(value)),
            CqlType::Float => Number::Float(f32::from_be_bytes(value.try_into().ok()?)),
            CqlType::Double => Number::Double(f64::from_be_bytes(value.try_into().ok()?)),
            CqlType::Decimal => Number::Decimal(decode_decimal(value).ok()?),
            _ => return None,
        })
    }

    /// The number as a value of `ty`; `None` where it has none (not a number as a decimal).
    pub(super) fn encode(&self, ty: &CqlType) -> Option<Bytes> {
        Some(match ty {
            CqlType::Tinyint => Bytes::copy_from_slice(&(self.to_i32() as i8).to_be_bytes()),
            CqlType::Smallint => Bytes::copy_from_slice(&(self.to_i32() as i16).to_be_bytes()),
            CqlType::Int => Bytes::copy_from_slice(&self.to_i32().to_be_bytes()),
            CqlType::Bigint | CqlType::Counter => {
                Bytes::copy_from_slice(&self.to_i64().to_be_bytes())
            }
            CqlType::Varint => encode_varint(&self.to_varint()).into(),
            CqlType::Float => Bytes::copy_from_slice(&self.to_f32().to_be_bytes()),
            CqlType::Double => Bytes::copy_from_slice(&self.to_f64().to_be_bytes()),
            CqlType::Decimal => encode_decimal(&self.to_decimal()?).ok()?.into(),
            _ => return None,
        })
    }

    /// `intValue`
    pub(super) fn to_i32(&self) -> i32 {
        match self {
            Number::Float(number) => *number as i32,
            Number::Double(number) => *number as i32,
            other => other.to_i64() as i32,
        }
    }

    /// `longValue`
    pub(super) fn to_i64(&self) -> i64 {
        match self {
            Number::Int(number) => *number,
            Number::Varint(number) => low_bits(number),
            Number::Float(number) => *number as i64,
            Number::Double(number) => *number as i64,
            Number::Decimal(number) => {
                let (_, scale) = number.as_bigint_and_exponent();
                // 10^64 and beyond are multiples of 2^64.
                if scale <= -64 {
                    return 0;
                }
                whole_part(number).map_or(0, |whole| low_bits(&whole))
            }
        }
    }

    /// Whole numbers as they are, all others by way of 64 bits, as `castAsVarint` has it.
    pub(super) fn to_varint(&self) -> BigInt {
        match self {
            Number::Varint(number) => number.clone(),
            other => BigInt::from(other.to_i64()),
        }
    }

    /// `floatValue`
    pub(super) fn to_f32(&self) -> f32 {
        match self {
            Number::Int(number) => *number as f32,
            Number::Varint(number) => number.to_string().parse().unwrap_or(f32::NAN),
            Number::Float(number) => *number,
            Number::Double(number) => *number as f32,
            Number::Decimal(number) => decimal_text(number).parse().unwrap_or(f32::NAN),
        }
    }

    /// `doubleValue`
    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Number::Int(number) => *number as f64,
            Number::Varint(number) => number.to_string().parse().unwrap_or(f64::NAN),
            Number::Float(number) => f64::from(*number),
            Number::Double(number) => *number,
            Number::Decimal(number) => decimal_text(number).parse().unwrap_or(f64::NAN),
        }
    }

    /// The decimal of the same digits; `None` for what is no finite number.
    pub(super) fn to_decimal(&self) -> Option<BigDecimal> {
        Some(match self {
            Number::Int(number) => BigDecimal::from(*number),
            Number::Varint(number) => BigDecimal::new(number.clone(), 0),
            Number::Float(number) => float_text(*number).parse().ok()?,
            Number::Double(number) => double_text(*number).parse().ok()?,
            Number::Decimal(number) => number.clone(),
        })
    }

    /// `toString`
    pub(super) fn text(&self) -> String {
        match self {
            Number::Int(number) => number.to_string(),
            Number::Varint(number) => number.to_string(),
            Number::Float(number) => float_text(*number),
            Number::Double(number) => double_text(*number),
            Number::Decimal(number) => decimal_text(number),
        }
    }
}

/// The low 64 bits of the two's complement.
fn low_bits(number: &BigInt) -> i64 {
    let bytes = number.to_signed_bytes_be();
    let fill = if bytes[0] >= 0x80 { 0xff } else { 0 };
    let mut low = [fill; 8];
    let taken = bytes.len().min(8);
    low[8 - taken..].copy_from_slice(&bytes[bytes.len() - taken..]);
    i64::from_be_bytes(low)
}

/// The number without its fraction; `None` if it has more digits than arithmetic may have.
pub(super) fn whole_part(number: &BigDecimal) -> Option<BigInt> {
    let (unscaled, scale) = number.as_bigint_and_exponent();
    if scale <= 0 {
        if -scale > MAX_DIGITS {
            return None;
        }
        return Some(unscaled * BigInt::from(10).pow((-scale) as u32));
    }
    // More digits are cut off than there are?
    if scale as f64 > unscaled.bits() as f64 / 3.3 + 2.0 {
        return Some(BigInt::ZERO);
    }
    Some(unscaled / BigInt::from(10).pow(u32::try_from(scale).ok()?))
}

/// Do the digits of the two fit, side by side? For quotients, remainders and the sums of aggregates.
pub(super) fn fits(left: &BigDecimal, right: &BigDecimal) -> bool {
    let (_, a) = left.as_bigint_and_exponent();
    let (_, b) = right.as_bigint_and_exponent();
    (a - b).abs() <= MAX_DIGITS && a.abs() <= i64::from(i32::MAX) && b.abs() <= i64::from(i32::MAX)
}

/// The text of a double as Java prints it (`Double.toString`).
pub(crate) fn double_text(number: f64) -> String {
    CqlType::Double.format_string(&number.to_be_bytes())
}

/// The text of a float as Java prints it (`Float.toString`).
fn float_text(number: f32) -> String {
    CqlType::Float.format_string(&number.to_be_bytes())
}

/// The text of a decimal as Java prints it (`BigDecimal.toString`).
fn decimal_text(number: &BigDecimal) -> String {
    match encode_decimal(number) {
        Ok(value) => CqlType::Decimal.format_string(&value),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_wrap_and_saturate() {
        let decimal = |text: &str| Number::Decimal(text.parse().unwrap());
        assert_eq!(Number::Float(1e8).to_i32() as i16, -7936);
        assert_eq!(Number::Float(3e38).to_i32() as i8, -1);
        assert_eq!(Number::Double(f64::NAN).to_i64(), 0);
        assert_eq!(decimal("1e30").to_i64(), 5_076_944_270_305_263_616);
        assert_eq!(decimal("1e30").to_i32(), 1_073_741_824);
        assert_eq!(decimal("1e2000000000").to_i64(), 0);
        assert_eq!(decimal("1e-2000000000").to_i64(), 0);
        assert_eq!(decimal("-7.9").to_i64(), -7);
        assert_eq!(
            Number::Varint("-18446744073709551617".parse().unwrap()).to_i64(),
            -1
        );
    }
}
