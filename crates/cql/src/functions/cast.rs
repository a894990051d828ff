//! `CAST(x AS type)` (`CastFcts`).

use bytes::Bytes;
use model::CqlType;
use model::number::check_digits;

use super::number::is_numeric;
use super::{Argument, Call, Function, Receiver, SYSTEM, Scalar, resolve, time};
use crate::CqlError;

/// The function that casts `from` to `to`; `None` where Cassandra has none. A cast to the type a
/// value already has is no function at all: callers leave the value as it is.
pub fn cast(from: &CqlType, to: &CqlType) -> Option<Scalar> {
    if from == to {
        return None;
    }
    let body = match (from, to) {
        (CqlType::Timeuuid | CqlType::Timestamp, CqlType::Date) => time::to_date,
        (CqlType::Timeuuid | CqlType::Date, CqlType::Timestamp) => time::to_timestamp,
        (CqlType::Ascii, CqlType::Text) => text,
        (from, CqlType::Text | CqlType::Ascii) if has_text(from) => text,
        (from, to) if is_numeric(from) && is_numeric(to) && *to != CqlType::Counter => number,
        _ => return None,
    };
    Some(Scalar::new(name(to)?, [from.clone()], to.clone(), body))
}

/// The function that `CAST(argument AS to)` calls: by the rules of overloads, so that an argument
/// whose values are also those of another type is cast as that one. `None` if nothing casts to
/// that type.
pub fn resolve_cast(argument: &dyn Argument, to: &CqlType) -> Result<Option<Function>, CqlError> {
    let receiver = Receiver {
        ty: None,
        partition_key: &[],
        users: None,
    };
    match name(to) {
        Some(name) => resolve(Some(SYSTEM), name, &[argument], receiver),
        None => Ok(None),
    }
}

/// That there is no function for `CAST(argument AS to)`.
pub fn no_cast(argument: &dyn std::fmt::Display, to: &CqlType) -> CqlError {
    CqlError::Invalid(format!("{argument} cannot be cast to {to}"))
}

/// All casts to a type.
pub(super) fn casts_to(to: &CqlType) -> Vec<Scalar> {
    SIMPLE.iter().filter_map(|from| cast(from, to)).collect()
}

/// The type a cast of this name gives.
pub(crate) fn target(function: &str) -> Option<CqlType> {
    SIMPLE
        .iter()
        .find(|ty| name(ty).is_some_and(|name| name == function))
        .cloned()
}

const SIMPLE: [CqlType; 18] = [
    CqlType::Ascii,
    CqlType::Text,
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Counter,
    CqlType::Varint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Inet,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::Timeuuid,
    CqlType::Uuid,
];

fn has_text(ty: &CqlType) -> bool {
    is_numeric(ty)
        || matches!(
            ty,
            CqlType::Boolean
                | CqlType::Date
                | CqlType::Inet
                | CqlType::Time
                | CqlType::Timestamp
                | CqlType::Timeuuid
                | CqlType::Uuid
        )
}

/// The name of the function that casts to a type.
fn name(to: &CqlType) -> Option<&'static str> {
    Some(match to {
        CqlType::Ascii => "cast_as_ascii",
        CqlType::Text => "cast_as_text",
        CqlType::Tinyint => "cast_as_tinyint",
        CqlType::Smallint => "cast_as_smallint",
        CqlType::Int => "cast_as_int",
        CqlType::Bigint => "cast_as_bigint",
        CqlType::Varint => "cast_as_varint",
        CqlType::Float => "cast_as_float",
        CqlType::Double => "cast_as_double",
        CqlType::Decimal => "cast_as_decimal",
        CqlType::Date => "cast_as_date",
        CqlType::Timestamp => "cast_as_timestamp",
        _ => return None,
    })
}

fn number(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let Some(number) = call.number(0, &call.function.arguments[0])? else {
        return Ok(None);
    };
    match number.encode(&call.function.result) {
        Some(value) => Ok(Some(value)),
        None => Err(call.failure(format!(
            "{} cannot be cast to {}",
            number.text(),
            call.function.result
        ))),
    }
}

fn text(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let from = &call.function.arguments[0];
    let Some(value) = call.argument(0) else {
        return Ok(None);
    };
    if value.is_empty() && from.is_empty_meaningless() {
        return Ok(None);
    }
    check_digits(from, value).map_err(|error| call.failure(error.to_string()))?;
    Ok(Some(match from {
        CqlType::Ascii => value.clone(),
        _ => from.format_string(value).into(),
    }))
}
