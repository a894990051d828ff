//! `from_json`, also called `fromJson` (`FromJsonFct`).

use bytes::Bytes;
use model::CqlType;

use super::resolve::wrong_count;
use super::{Argument, Assignment, Call, SYSTEM, Scalar, assign_type};
use crate::CqlError;
use crate::json;

/// The function of this name, if it is one of these; it is made for what becomes of its result.
pub(super) fn named(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Option<Scalar>, CqlError> {
    let name = match name {
        "from_json" => "from_json",
        "fromjson" => "fromjson",
        _ => return Ok(None),
    };
    let [argument] = arguments else {
        return wrong_count(name, "text");
    };
    if let Some(ty) = argument.compatible_type()
        && assign_type(&ty, &CqlType::Text) == Assignment::No
    {
        return Err(CqlError::Invalid(format!(
            "Function {SYSTEM}.{name} requires an argument of type text, but found argument \
             {argument} of type {ty}"
        )));
    }
    let Some(result) = receiver else {
        return Err(CqlError::Invalid(format!(
            "{name}() cannot be used in the selection clause of a SELECT statement"
        )));
    };
    let function = Scalar::new(name, [CqlType::Text], result.clone(), from_json);
    Ok(Some(function))
}

/// What clients are told that a value is none of its type by.
const MARSHAL_EXCEPTION: &str = "org.apache.cassandra.serializers.MarshalException";

fn from_json(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let Some(text) = &call.arguments[0] else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(text);
    let json = json::parse(&text).map_err(|error| {
        call.failure(format!(
            "execution of '{SYSTEM}.{}[text]' failed: Could not decode JSON string '{text}': {error}",
            call.function.name()
        ))
    })?;
    let value = json::value_of(&json, &call.function.result);
    value.map_err(|error| match call.function.result {
        // As there: durations are refused in another way than all else.
        CqlType::Duration if json.is_string() => CqlError::Invalid(error.to_string()),
        _ => call.failure(format!("{MARSHAL_EXCEPTION}: {error}")),
    })
}
