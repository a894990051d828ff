//! `abs`, `exp`, `log`, `log10` and `round` (`MathFcts`).

use bigdecimal::{BigDecimal, RoundingMode};
use bytes::Bytes;
use model::CqlType;
use num_bigint::BigInt;

use super::number::{Number, whole_part};
use super::transcendental::{Undefined, exp, log, log10};
use super::{Call, Scalar};
use crate::CqlError;

const TYPES: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Counter,
    CqlType::Float,
    CqlType::Double,
    CqlType::Varint,
    CqlType::Decimal,
];

/// The overloads of this name.
pub(super) fn named(name: &str) -> Vec<Scalar> {
    let (name, body): (&'static str, super::Body) = match name {
        "abs" => ("abs", |call| map(call, abs)),
        "round" => ("round", |call| map(call, round)),
        "exp" => ("exp", |call| of_real(call, f64::exp, exp)),
        "log" => ("log", |call| of_real(call, f64::ln, log)),
        "log10" => ("log10", |call| of_real(call, f64::log10, log10)),
        _ => return Vec::new(),
    };
    TYPES
        .iter()
        .map(|ty| Scalar::new(name, [ty.clone()], ty.clone(), body))
        .collect()
}

fn map(call: &Call<'_>, f: fn(Number) -> Number) -> Result<Option<Bytes>, CqlError> {
    let ty = &call.function.result;
    let number = call.number(0, ty)?;
    Ok(number.and_then(|number| f(number).encode(ty)))
}

/// The smallest negative integer of a type stays as it is, as in Java.
fn abs(number: Number) -> Number {
    match number {
        Number::Int(n) => Number::Int(n.wrapping_abs()),
        Number::Varint(n) => Number::Varint(if n < BigInt::ZERO { -n } else { n }),
        Number::Float(n) => Number::Float(n.abs()),
        Number::Double(n) => Number::Double(n.abs()),
        Number::Decimal(n) => Number::Decimal(n.abs()),
    }
}

/// `Math.round` for floating point: to the nearest whole number, halves up, within the integers
/// of the same width.
fn round(number: Number) -> Number {
    match number {
        Number::Float(n) => Number::Float((f64::from(n) + 0.5).floor() as i32 as f32),
        Number::Double(n) => Number::Double(round_half_up(n) as f64),
        Number::Decimal(n) => {
            let (_, scale) = n.as_bigint_and_exponent();
            let rounded = if scale > 0 {
                n.with_scale_round(0, RoundingMode::HalfUp)
            } else {
                whole_part(&n).map_or(n, |whole| BigDecimal::new(whole, 0))
            };
            Number::Decimal(rounded)
        }
        whole => whole,
    }
}

fn round_half_up(n: f64) -> i64 {
    let floor = n.floor();
    let up = n - floor >= 0.5;
    (if up { floor + 1.0 } else { floor }) as i64
}

/// A function of real numbers: `exact` of those that have any length, of which varints lose the fraction.
fn of_real(
    call: &Call<'_>,
    f: fn(f64) -> f64,
    exact: fn(&BigDecimal) -> Result<BigDecimal, Undefined>,
) -> Result<Option<Bytes>, CqlError> {
    let ty = &call.function.result;
    let Some(number) = call.number(0, ty)? else {
        return Ok(None);
    };
    let undefined = |reason: Undefined| CqlError::Invalid(reason.to_string());
    let result = match number {
        Number::Decimal(x) => Number::Decimal(exact(&x).map_err(undefined)?),
        Number::Varint(x) => {
            let result = exact(&BigDecimal::new(x, 0)).map_err(undefined)?;
            let whole = whole_part(&result).ok_or_else(|| undefined(Undefined::Overflow))?;
            Number::Varint(whole)
        }
        other => real(other, f),
    };
    Ok(result.encode(ty))
}

/// Integers go through double and lose their fraction.
fn real(number: Number, f: fn(f64) -> f64) -> Number {
    match number {
        Number::Float(n) => Number::Float(f(f64::from(n)) as f32),
        other => Number::Double(f(other.to_f64())),
    }
}
