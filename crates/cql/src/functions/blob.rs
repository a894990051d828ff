//! `int_as_blob`, `blob_as_int` and the like for all types (`BytesConversionFcts`).

use bytes::Bytes;
use model::CqlType;

use super::{Call, SYSTEM, Scalar};
use crate::CqlError;

/// The names under which each type converts, in both styles: snake case, and the one before 5.0.
macro_rules! conversions {
    ($($name:literal $ty:ident)*) => {
        /// The conversion of this name.
        pub(super) fn named(name: &str) -> Option<Scalar> {
            $(
                if name == concat!($name, "_as_blob") {
                    return Some(to_blob(concat!($name, "_as_blob"), CqlType::$ty));
                }
                if name == concat!($name, "asblob") {
                    return Some(to_blob(concat!($name, "asblob"), CqlType::$ty));
                }
                if name == concat!("blob_as_", $name) {
                    return Some(from_blob(concat!("blob_as_", $name), CqlType::$ty));
                }
                if name == concat!("blobas", $name) {
                    return Some(from_blob(concat!("blobas", $name), CqlType::$ty));
                }
            )*
            None
        }
    };
}

conversions! {
    "ascii" Ascii
    "bigint" Bigint
    "boolean" Boolean
    "counter" Counter
    "date" Date
    "decimal" Decimal
    "double" Double
    "duration" Duration
    "empty" Empty
    "float" Float
    "inet" Inet
    "int" Int
    "smallint" Smallint
    "text" Text
    "time" Time
    "timestamp" Timestamp
    "timeuuid" Timeuuid
    "tinyint" Tinyint
    "uuid" Uuid
    "varchar" Text
    "varint" Varint
}

fn to_blob(name: &'static str, ty: CqlType) -> Scalar {
    Scalar::new(name, [ty], CqlType::Blob, |call| {
        Ok(call.arguments[0].clone())
    })
}

fn from_blob(name: &'static str, ty: CqlType) -> Scalar {
    Scalar::new(name, [CqlType::Blob], ty, interpret)
}

fn interpret(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let Some(value) = &call.arguments[0] else {
        return Ok(None);
    };
    let ty = call.function.result();
    if ty.validate(value).is_err() {
        return Err(CqlError::Invalid(format!(
            "In call to function {SYSTEM}.{}, value 0x{} is not a valid binary representation for \
             type {ty}",
            call.function.name(),
            value.iter().map(|b| format!("{b:02x}")).collect::<String>(),
        )));
    }
    Ok(Some(value.clone()))
}
