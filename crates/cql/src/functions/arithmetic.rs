//! `+ - * / %` and the minus sign (`OperationFcts`): numbers with numbers, times with durations,
//! text with text.

use bigdecimal::BigDecimal;
use bytes::Bytes;
use model::CqlType;
use num_bigint::BigInt;

use super::number::{Number, is_integer, is_numeric};
use super::{Call, Operator, Scalar, decimal, time};
use crate::CqlError;
use crate::ast::NEGATION;

/// The function that `left operator right` calls; `None` where there is none.
pub fn operation(operator: Operator, left: &CqlType, right: &CqlType) -> Option<Scalar> {
    let result = result_type(operator, left, right)?;
    let body = match (left, right) {
        (left, right) if is_numeric(left) && is_numeric(right) => numbers as super::Body,
        (_, CqlType::Duration) => shift as _,
        _ => concatenate as _,
    };
    Some(Scalar::new(
        operator.function(),
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
    Some(Scalar::new(NEGATION, [ty.clone()], ty.clone(), |call| {
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
    Operator::of_function(call.function.name()).expect("it was made by `operation`")
}

fn failed(call: &Call<'_>, reason: &str) -> CqlError {
    let types = &call.function.arguments;
    call.failure(format!(
        "the operation '{} {} {}' failed: {reason}",
        types[0],
        operator_of(call).symbol(),
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
            Number::Decimal(decimal::calculate(operator, left, right).map_err(|e| failed(call, e))?)
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
