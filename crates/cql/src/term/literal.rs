//! Constants (`Constants.Literal`).

use bigdecimal::BigDecimal;
use bytes::Bytes;
use model::CqlType;

use crate::CqlError;
use crate::ast::{Literal, LiteralKind};
use crate::functions::{Assignment, double_text};

/// How messages call the forms of constants.
pub(crate) fn kind_name(kind: LiteralKind) -> &'static str {
    match kind {
        LiteralKind::String => "STRING",
        LiteralKind::Integer => "INTEGER",
        LiteralKind::Float => "FLOAT",
        LiteralKind::Boolean => "BOOLEAN",
        LiteralKind::Duration => "DURATION",
        LiteralKind::Uuid => "UUID",
        LiteralKind::Hex => "HEX",
    }
}

/// The type a constant has where nothing else says one (`getPreferedTypeFor`).
pub(crate) fn preferred_type(literal: &Literal) -> CqlType {
    match literal.kind {
        LiteralKind::String if literal.text.is_ascii() => CqlType::Ascii,
        LiteralKind::String => CqlType::Text,
        LiteralKind::Boolean => CqlType::Boolean,
        LiteralKind::Duration => CqlType::Duration,
        // By an accident: `ByteType` where `BytesType` was meant.
        LiteralKind::Hex => CqlType::Tinyint,
        // The first digit of the third group is the version.
        LiteralKind::Uuid if literal.text.as_bytes().get(14) == Some(&b'1') => CqlType::Timeuuid,
        LiteralKind::Uuid => CqlType::Uuid,
        LiteralKind::Integer if literal.text.parse::<i32>().is_ok() => CqlType::Int,
        LiteralKind::Integer if literal.text.parse::<i64>().is_ok() => CqlType::Bigint,
        LiteralKind::Integer => CqlType::Varint,
        LiteralKind::Float => preferred_float(&literal.text),
    }
}

/// `double` if the text of the one that is next to the number says the same number (`BigDecimal.valueOf`), else
/// `decimal`: `1.1` is a double.
fn preferred_float(text: &str) -> CqlType {
    let (Ok(exact), Ok(near)) = (text.parse::<BigDecimal>(), text.parse::<f64>()) else {
        return CqlType::Double;
    };
    match double_text(near).parse::<BigDecimal>() {
        Ok(near) if near == exact => CqlType::Double,
        _ => CqlType::Decimal,
    }
}

/// How well a constant fits a type (`Literal.testAssignment`).
pub(crate) fn assignment(literal: &Literal, ty: &CqlType) -> Assignment {
    use CqlType::{
        Ascii, Bigint, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet, Int,
        Smallint, Text, Time, Timestamp, Timeuuid, Tinyint, Uuid, Varint,
    };
    if ty.is_collection() || matches!(ty, CqlType::Udt { .. } | CqlType::Vector { .. }) {
        return Assignment::No;
    }
    if matches!(
        ty,
        CqlType::Tuple(_) | CqlType::Composite(_) | CqlType::Custom(_)
    ) {
        return Assignment::Weak;
    }
    if *ty == preferred_type(literal) {
        return Assignment::Exact;
    }
    let fits = match literal.kind {
        LiteralKind::String => matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp),
        LiteralKind::Integer => matches!(
            ty,
            Bigint
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | Smallint
                | Time
                | Timestamp
                | Tinyint
                | Varint
        ),
        LiteralKind::Float => matches!(ty, Decimal | Double | Float),
        LiteralKind::Boolean => *ty == Boolean,
        LiteralKind::Duration => *ty == Duration,
        LiteralKind::Uuid => matches!(ty, Uuid | Timeuuid),
        LiteralKind::Hex => *ty == Blob,
    };
    if fits {
        Assignment::Weak
    } else {
        Assignment::No
    }
}

/// Is it a number of digits that is too large for a double? Cassandra's parser makes each a double first, and fails
/// then; here only where it would be infinite without a word.
fn is_beyond_doubles(literal: &Literal) -> bool {
    let has_digits = literal.text.bytes().any(|byte| byte.is_ascii_digit());
    literal.kind == LiteralKind::Float
        && has_digits
        && literal.text.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// The value of a constant that fits the type.
pub(crate) fn value(literal: &Literal, ty: &CqlType) -> Result<Bytes, CqlError> {
    let text = literal.text.as_str();
    if matches!(ty, CqlType::Double | CqlType::Float) && is_beyond_doubles(literal) {
        return Err(CqlError::Syntax(format!(
            "Failed parsing statement: {text} is beyond the range of a double"
        )));
    }
    let parsed = match (literal.kind, ty) {
        // Custom types too take hexadecimal digits.
        (LiteralKind::Hex, _) => CqlType::Blob.parse_string(&text[2..]),
        _ => ty.parse_string(text),
    };
    // Digits say nothing of what they are digits of.
    parsed
        .and_then(|value| ty.validate(&value).map(|()| value))
        .map_err(|error| CqlError::Invalid(error.to_string()))
}
