//! `abs`, `exp`, `log`, `log10` and `round` (`MathFcts`).

use bigdecimal::{BigDecimal, RoundingMode};
use bytes::Bytes;
use model::CqlType;
use num_bigint::BigInt;

use super::number::{Number, whole_part};
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

/// The overloads of this name. `exp`, `log` and `log10` of varints and decimals are not among
/// them: Cassandra gives 34 and more exact digits there, which 64-bit arithmetic cannot.
pub(super) fn named(name: &str) -> Vec<Scalar> {
    let (name, body): (&'static str, super::Body) = match name {
        "abs" => ("abs", |call| map(call, abs)),
        "round" => ("round", |call| map(call, round)),
        "exp" => ("exp", |call| map(call, |n| real(n, f64::exp))),
        "log" => ("log", |call| map(call, |n| real(n, f64::ln))),
        "log10" => ("log10", |call| map(call, |n| real(n, f64::log10))),
        _ => return Vec::new(),
    };
    let exact = matches!(name, "abs" | "round");
    TYPES
        .iter()
        .filter(|ty| exact || !matches!(ty, CqlType::Varint | CqlType::Decimal))
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

/// Integers go through double and lose their fraction.
fn real(number: Number, f: fn(f64) -> f64) -> Number {
    match number {
        Number::Float(n) => Number::Float(f(f64::from(n)) as f32),
        other => Number::Double(f(other.to_f64())),
    }
}
