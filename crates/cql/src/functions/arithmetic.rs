//! `+ - * / %` and the minus sign (`OperationFcts`): numbers with numbers, times with durations,
//! text with text.

use std::fmt;

use bigdecimal::{BigDecimal, RoundingMode, Zero};
use bytes::Bytes;
use model::CqlType;
use num_bigint::BigInt;

use super::number::{Number, fits, is_integer, is_numeric};
use super::{Call, Scalar, time};
use crate::CqlError;

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Modulo => "%",
        })
    }
}

/// The function that `left operator right` calls; `None` where there is none.
pub fn operation(operator: Operator, left: &CqlType, right: &CqlType) -> Option<Scalar> {
    let result = result_type(operator, left, right)?;
    let body = match (left, right) {
        (left, right) if is_numeric(left) && is_numeric(right) => numbers as super::Body,
        (_, CqlType::Duration) => shift as _,
        _ => concatenate as _,
    };
    let name = match operator {
        Operator::Add => "_add",
        Operator::Subtract => "_substract",
        Operator::Multiply => "_multiply",
        Operator::Divide => "_divide",
        Operator::Modulo => "_modulo",
    };
    Some(Scalar::new(
        name,
        [left.clone(), right.clone()],
        result,
        body,
    ))
}

/// The type of the result of `left operator right`; `None` where the operator has no function.
pub(super) fn result_type(operator: Operator, left: &CqlType, right: &CqlType) -> Option<CqlType> {
    match (operator, left, right) {
        (_, left, right) if is_numeric(left) && is_numeric(right) => Some(common_type(left, right)),
        (Operator::Add, CqlType::Ascii, CqlType::Ascii) => Some(CqlType::Ascii),
        (Operator::Add, CqlType::Text | CqlType::Ascii, CqlType::Text | CqlType::Ascii) => {
            Some(CqlType::Text)
        }
        (
            Operator::Add | Operator::Subtract,
            CqlType::Timestamp | CqlType::Date,
            CqlType::Duration,
        ) => Some(left.clone()),
        _ => None,
    }
}

/// The function that `-x` calls; `None` where there is none.
pub(super) fn negation(ty: &CqlType) -> Option<Scalar> {
    if !is_numeric(ty) {
        return None;
    }
    Some(Scalar::new("_negate", [ty.clone()], ty.clone(), |call| {
        let ty = &call.function.result;
        Ok(call.number(0, ty)?.and_then(|number| {
            match number {
                Number::Int(n) => Number::Int(n.wrapping_neg()),
                Number::Varint(n) => Number::Varint(-n),
                Number::Float(n) => Number::Float(-n),
                Number::Double(n) => Number::Double(-n),
                Number::Decimal(n) => Number::Decimal(-n),
            }
            .encode(ty)
        }))
    }))
}

/// The type that two types of numbers are brought to: floating point if one is, as wide as the
/// wider one.
fn common_type(left: &CqlType, right: &CqlType) -> CqlType {
    let width = |ty: &CqlType| match ty {
        CqlType::Tinyint => 1,
        CqlType::Smallint => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::Bigint | CqlType::Counter | CqlType::Double => 8,
        _ => usize::MAX,
    };
    let width = width(left).max(width(right));
    if is_integer(left) && is_integer(right) {
        match width {
            1 => CqlType::Tinyint,
            2 => CqlType::Smallint,
            4 => CqlType::Int,
            8 => CqlType::Bigint,
            _ => CqlType::Varint,
        }
    } else {
        match width {
            0..=4 => CqlType::Float,
            8 => CqlType::Double,
            _ => CqlType::Decimal,
        }
    }
}

fn operator_of(call: &Call<'_>) -> Operator {
    match call.function.name() {
        "_add" => Operator::Add,
        "_substract" => Operator::Subtract,
        "_multiply" => Operator::Multiply,
        "_divide" => Operator::Divide,
        _ => Operator::Modulo,
    }
}

fn failed(call: &Call<'_>, reason: &str) -> CqlError {
    let types = &call.function.arguments;
    call.failure(format!(
        "the operation '{} {} {}' failed: {reason}",
        types[0],
        operator_of(call),
        types[1]
    ))
}

fn numbers(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let number = |index: usize| call.number(index, &call.function.arguments[index]);
    let (Some(left), Some(right)) = (number(0)?, number(1)?) else {
        return Ok(None);
    };
    let (operator, ty) = (operator_of(call), &call.function.result);
    let result = match ty {
        CqlType::Float => Number::Float(floats(operator, left.to_f32(), right.to_f32())),
        CqlType::Double => Number::Double(doubles(operator, left.to_f64(), right.to_f64())),
        CqlType::Decimal => {
            let (Some(left), Some(right)) = (as_decimal(&left), as_decimal(&right)) else {
                return Err(failed(call, "A NaN cannot be converted into a decimal"));
            };
            Number::Decimal(decimals(operator, left, right).map_err(|e| failed(call, e))?)
        }
        CqlType::Varint => Number::Varint(
            varints(operator, left.to_varint(), right.to_varint()).map_err(|e| failed(call, e))?,
        ),
        // Narrower types wrap when they are encoded.
        _ => Number::Int(
            integers(operator, left.to_i64(), right.to_i64()).map_err(|e| failed(call, e))?,
        ),
    };
    match result.encode(ty) {
        Some(value) => Ok(Some(value)),
        None => Err(failed(call, "the result does not fit its type")),
    }
}

/// Whole numbers and decimals keep their digits; other numbers come by way of a double, so that 2
/// is 2.0 (`DecimalType.toBigDecimal`).
fn as_decimal(number: &Number) -> Option<BigDecimal> {
    match number {
        Number::Int(_) | Number::Float(_) => Number::Double(number.to_f64()).to_decimal(),
        other => other.to_decimal(),
    }
}

fn integers(operator: Operator, left: i64, right: i64) -> Result<i64, &'static str> {
    if right == 0 && matches!(operator, Operator::Divide | Operator::Modulo) {
        return Err("/ by zero");
    }
    Ok(match operator {
        Operator::Add => left.wrapping_add(right),
        Operator::Subtract => left.wrapping_sub(right),
        Operator::Multiply => left.wrapping_mul(right),
        Operator::Divide => left.wrapping_div(right),
        Operator::Modulo => left.wrapping_rem(right),
    })
}

fn varints(operator: Operator, left: BigInt, right: BigInt) -> Result<BigInt, &'static str> {
    if right == BigInt::ZERO && matches!(operator, Operator::Divide | Operator::Modulo) {
        return Err("BigInteger divide by zero");
    }
    Ok(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => left % right,
    })
}

fn floats(operator: Operator, left: f32, right: f32) -> f32 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => left % right,
    }
}

fn doubles(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => left % right,
    }
}

fn decimals(
    operator: Operator,
    left: BigDecimal,
    right: BigDecimal,
) -> Result<BigDecimal, &'static str> {
    if !fits(&left, &right) {
        return Err("the exponents are too far apart");
    }
    match operator {
        Operator::Add => Ok(add(&left, &right)),
        Operator::Subtract => Ok(add(&left, &-right)),
        Operator::Multiply => {
            let (a, b) = (
                left.as_bigint_and_exponent(),
                right.as_bigint_and_exponent(),
            );
            Ok(BigDecimal::new(a.0 * b.0, a.1 + b.1))
        }
        Operator::Divide if right.is_zero() => Err("BigInteger divide by zero"),
        Operator::Divide => divide(&left, &right),
        Operator::Modulo if right.is_zero() => Err("Division by zero"),
        Operator::Modulo => Ok(remainder(&left, &right)),
    }
}

/// At least 32 digits that count, and at least 32 behind the point (`DecimalType.divide`).
fn divide(left: &BigDecimal, right: &BigDecimal) -> Result<BigDecimal, &'static str> {
    const MIN_DIGITS: i64 = 32;
    const MAX_SCALE: i64 = 1000;
    let whole_digits = |n: &BigDecimal| {
        let (unscaled, scale) = n.as_bigint_and_exponent();
        unscaled.magnitude().to_string().len() as i64 - scale
    };
    let (a, a_scale) = left.as_bigint_and_exponent();
    let (b, b_scale) = right.as_bigint_and_exponent();
    let wanted = MIN_DIGITS - (whole_digits(left) - whole_digits(right));
    let scale = wanted.max(a_scale).max(b_scale);
    let scale = scale.clamp(MIN_DIGITS, MAX_SCALE);
    // One digit more than wanted, and whether anything follows, decide the rounding.
    let shift = scale + 1 - a_scale + b_scale;
    let ten = |n: i64| BigInt::from(10).pow(n.unsigned_abs() as u32);
    let (numerator, denominator) = if shift >= 0 {
        (a * ten(shift), b)
    } else {
        (a, b * ten(shift))
    };
    let quotient = BigDecimal::new(numerator / denominator, scale + 1);
    let rounded = quotient.with_scale_round(scale, RoundingMode::HalfUp);
    if rounded.is_zero() {
        return Ok(BigDecimal::zero());
    }
    Ok(rounded.normalized())
}

/// The unscaled numbers of both at the larger of their scales, and that scale.
fn aligned(left: &BigDecimal, right: &BigDecimal) -> (BigInt, BigInt, i64) {
    let (a, a_scale) = left.as_bigint_and_exponent();
    let (b, b_scale) = right.as_bigint_and_exponent();
    let scale = a_scale.max(b_scale);
    let at_scale = |n: BigInt, from: i64| n * BigInt::from(10).pow((scale - from) as u32);
    (at_scale(a, a_scale), at_scale(b, b_scale), scale)
}

/// With the larger scale of the two, whatever the values.
pub(super) fn add(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let (a, b, scale) = aligned(left, right);
    BigDecimal::new(a + b, scale)
}

/// `left - quotient * right` with the scale that Java gives it: the one of the left operand, or
/// what the whole quotient times the right one has once zeros are stripped from the quotient
/// (`BigDecimal.divideToIntegralValue`).
fn remainder(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let (_, left_scale) = left.as_bigint_and_exponent();
    let (_, right_scale) = right.as_bigint_and_exponent();
    let (a, b, scale) = aligned(left, right);
    let mut quotient = &a / &b;
    let rest = BigDecimal::new(a % b, scale);
    let preferred = left_scale - right_scale;
    let mut quotient_scale = preferred.max(0);
    if quotient == BigInt::ZERO {
        quotient_scale = preferred;
    }
    while quotient_scale > preferred && &quotient % 10 == BigInt::ZERO {
        quotient /= 10;
        quotient_scale -= 1;
    }
    rest.with_scale(left_scale.max(quotient_scale + right_scale))
}

fn concatenate(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let (Some(left), Some(right)) = (call.argument(0), call.argument(1)) else {
        return Ok(None);
    };
    Ok(Some([left.as_ref(), right.as_ref()].concat().into()))
}

fn shift(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let (Some(value), Some(duration)) = (call.argument(0), call.argument(1)) else {
        return Ok(None);
    };
    let back = operator_of(call) == Operator::Subtract;
    time::shift(&call.function.result, value, duration, back)
        .map(Some)
        .map_err(|reason| failed(call, &reason))
}
