//! Functions that are made for the types of the arguments they are called with: of collections
//! (`CollectionFcts`), masks (`MaskingFcts`) and vectors (`VectorFcts`).

use bytes::Bytes;
use model::{CqlType, collection};

use super::aggregate::Aggregate;
use super::number::is_numeric;
use super::resolve::{assign_type, infer, wrong_count};
use super::{Argument, Assignment, Call, SYSTEM, Scalar};
use crate::CqlError;

type Outcome = Result<Option<Bytes>, CqlError>;

fn invalid<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Invalid(message))
}

/// The function of this name for these arguments, if there is one.
pub(super) fn named(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Option<Scalar>, CqlError> {
    let made = match name {
        "map_keys" => of_map("map_keys", arguments, true)?,
        "map_values" => of_map("map_values", arguments, false)?,
        "collection_count" => count(arguments)?,
        "collection_min" => fold("collection_min", "set or list", arguments, fold_min)?,
        "collection_max" => fold("collection_max", "set or list", arguments, fold_max)?,
        "collection_sum" => fold("collection_sum", NUMERIC, arguments, fold_sum)?,
        "collection_avg" => fold("collection_avg", NUMERIC, arguments, fold_avg)?,
        "mask_null" => {
            let ty = only("mask_null", "any", arguments, None)?;
            Scalar::new("mask_null", [ty.clone()], ty, |_| Ok(None))
        }
        "mask_default" => {
            let ty = only("mask_default", "any", arguments, None)?;
            if let CqlType::Composite(_) = ty {
                return invalid(format!("There isn't a defined masked value for type {ty}"));
            }
            Scalar::new("mask_default", [ty.clone()], ty, |call| {
                Ok(default_value(&call.function.result).map(Bytes::from))
            })
        }
        "mask_replace" => mask_replace(arguments, receiver)?,
        "mask_inner" => partial_mask("mask_inner", arguments, receiver, |call| mask(call, true))?,
        "mask_outer" => partial_mask("mask_outer", arguments, receiver, |call| mask(call, false))?,
        "similarity_cosine" => similarity("similarity_cosine", arguments, cosine)?,
        "similarity_euclidean" => similarity("similarity_euclidean", arguments, euclidean)?,
        "similarity_dot_product" => similarity("similarity_dot_product", arguments, dot_product)?,
        _ => return Ok(None),
    };
    Ok(Some(made))
}

const NUMERIC: &str = "numeric set/list";

fn only(
    name: &str,
    parameter: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<CqlType, CqlError> {
    match arguments {
        [argument] => infer(name, parameter, *argument, receiver),
        _ => wrong_count(name, parameter),
    }
}

fn requires<T>(
    name: &str,
    wanted: &str,
    argument: &dyn Argument,
    ty: &CqlType,
) -> Result<T, CqlError> {
    let article = if wanted.starts_with("argument") {
        "an"
    } else {
        "a"
    };
    let wanted = match article {
        "an" => wanted.to_owned(),
        _ => format!("{wanted} argument"),
    };
    invalid(format!(
        "Function {SYSTEM}.{name} requires {article} {wanted}, but found argument {argument} of \
         type {ty}"
    ))
}

/// Refuses arguments of which it can be seen that they are not of these types
/// (`FunctionParameter.fixed`).
pub(super) fn check_fixed(
    name: &str,
    arguments: &[&dyn Argument],
    types: &[CqlType],
) -> Result<(), CqlError> {
    for (argument, wanted) in arguments.iter().zip(types) {
        let given = argument.compatible_type();
        let misfit = given.filter(|given| assign_type(given, wanted) == Assignment::No);
        if let Some(given) = misfit {
            let wanted = format!("argument of type {wanted}");
            return requires(name, &wanted, *argument, &given);
        }
    }
    Ok(())
}

fn of_map(name: &'static str, arguments: &[&dyn Argument], keys: bool) -> Result<Scalar, CqlError> {
    let ty = only(name, "map", arguments, None)?;
    let CqlType::Map { key, value, .. } = &ty else {
        return requires(name, "map", arguments[0], &ty);
    };
    let result = if keys {
        CqlType::Set {
            element: key.clone(),
            frozen: true,
        }
    } else {
        CqlType::List {
            element: value.clone(),
            frozen: true,
        }
    };
    Ok(Scalar::new(name, [ty], result, |call| {
        let Some(map) = call.argument(0) else {
            return Ok(None);
        };
        let keys = matches!(call.function.result, CqlType::Set { .. });
        let entries = collection::entries(map).map_err(malformed)?;
        let parts = entries
            .into_iter()
            .map(|(key, value)| if keys { key } else { value });
        Ok(Some(collection::pack_elements(parts).into()))
    }))
}

fn malformed(error: model::ValueError) -> CqlError {
    CqlError::Invalid(error.to_string())
}

fn count(arguments: &[&dyn Argument]) -> Result<Scalar, CqlError> {
    const NAME: &str = "collection_count";
    let ty = only(NAME, "collection", arguments, None)?;
    if !ty.is_collection() {
        return requires(NAME, "collection", arguments[0], &ty);
    }
    Ok(Scalar::new(NAME, [ty], CqlType::Int, |call| {
        // Every collection starts with the count of its elements.
        let value = call.argument(0).and_then(|value| value.get(..4));
        Ok(value.map(Bytes::copy_from_slice))
    }))
}

fn fold(
    name: &'static str,
    wanted: &str,
    arguments: &[&dyn Argument],
    body: fn(&Call<'_>) -> Outcome,
) -> Result<Scalar, CqlError> {
    let ty = only(name, "numeric_set_or_list", arguments, None)?;
    let element = match &ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. }
            if wanted != NUMERIC || is_numeric(element) =>
        {
            CqlType::clone(element)
        }
        _ => return requires(name, wanted, arguments[0], &ty),
    };
    Ok(Scalar::new(name, [ty], element, body))
}

fn fold_min(call: &Call<'_>) -> Outcome {
    fold_with(
        call,
        Aggregate::extreme(false, call.function.result.clone()),
    )
}

fn fold_max(call: &Call<'_>) -> Outcome {
    fold_with(call, Aggregate::extreme(true, call.function.result.clone()))
}

fn fold_sum(call: &Call<'_>) -> Outcome {
    fold_number(call, false)
}

fn fold_avg(call: &Call<'_>) -> Outcome {
    fold_number(call, true)
}

fn fold_number(call: &Call<'_>, average: bool) -> Outcome {
    let found = Aggregate::numeric(average)
        .into_iter()
        .find(|aggregate| *aggregate.result() == call.function.result);
    match found {
        Some(aggregate) => fold_with(call, aggregate),
        None => Ok(None),
    }
}

fn fold_with(call: &Call<'_>, aggregate: Aggregate) -> Outcome {
    let Some(value) = call.argument(0) else {
        return Ok(None);
    };
    let mut accumulator = aggregate.start();
    for element in collection::elements(value).map_err(malformed)? {
        accumulator.add(&[Some(Bytes::copy_from_slice(element))])?;
    }
    accumulator.result(call.context)
}

/// What stands for a value that is hidden (`AbstractType.getMaskedValue`).
fn default_value(ty: &CqlType) -> Option<Vec<u8>> {
    Some(match ty {
        CqlType::Ascii | CqlType::Text => b"****".to_vec(),
        CqlType::Boolean | CqlType::Tinyint => vec![0],
        CqlType::Smallint => vec![0; 2],
        CqlType::Int | CqlType::Float | CqlType::Inet => vec![0; 4],
        CqlType::Bigint
        | CqlType::Counter
        | CqlType::Double
        | CqlType::Time
        | CqlType::Timestamp => vec![0; 8],
        CqlType::Date => vec![0x80, 0, 0, 0],
        CqlType::Decimal => vec![0; 5],
        CqlType::Varint => vec![0],
        CqlType::Uuid => vec![0; 16],
        CqlType::Timeuuid => CqlType::Timeuuid
            .parse_string("13814000-1dd2-11b2-8080-808080808080")
            .ok()?
            .to_vec(),
        CqlType::Blob | CqlType::Empty | CqlType::Custom(_) => Vec::new(),
        CqlType::Duration => model::duration::Duration::default().encode(),
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => vec![0; 4],
        CqlType::Tuple(parts) => collection::pack_tuple(parts.iter().map(default_value)),
        CqlType::Udt { definition, .. } => {
            collection::pack_tuple(definition.fields.iter().map(|(_, ty)| default_value(ty)))
        }
        CqlType::Vector { element, dimension } => {
            let part = default_value(element)?;
            collection::pack_vector(element, (0..*dimension).map(|_| &part)).ok()?
        }
        CqlType::Composite(_) => return None,
    })
}

fn mask_replace(
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Scalar, CqlError> {
    const NAME: &str = "mask_replace";
    let [value, _] = arguments else {
        return wrong_count(NAME, "any, any");
    };
    let ty = infer(NAME, "any, any", *value, receiver)?;
    Ok(Scalar::new(NAME, [ty.clone(), ty.clone()], ty, |call| {
        Ok(call.arguments[1].clone())
    }))
}

fn partial_mask(
    name: &'static str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
    body: fn(&Call<'_>) -> Outcome,
) -> Result<Scalar, CqlError> {
    const PARAMETERS: &str = "[text|varchar|ascii], int, int, [text]";
    let (3 | 4, Some(value)) = (arguments.len(), arguments.first()) else {
        return wrong_count(name, PARAMETERS);
    };
    // What has no type, null or a marker, is a text (`FunctionParameter.anyOf`).
    let is_open = value.compatible_type().is_none() && receiver.is_none();
    let ty = match is_open && value.assignment(&CqlType::Text) != Assignment::No {
        true => CqlType::Text,
        false => infer(name, PARAMETERS, *value, receiver)?,
    };
    if !matches!(ty, CqlType::Text | CqlType::Ascii) {
        return requires(name, "argument of type [text|varchar|ascii]", *value, &ty);
    }
    let mut types = vec![ty.clone(), CqlType::Int, CqlType::Int];
    if arguments.len() == 4 {
        types.push(CqlType::Text);
    }
    check_fixed(name, &arguments[1..], &types[1..])?;
    Ok(Scalar::new(name, types, ty, body))
}

/// Pads what lies between so many characters at the beginning and the end, or these.
fn mask(call: &Call<'_>, inner: bool) -> Outcome {
    let Some(value) = call.argument(0) else {
        return Ok(None);
    };
    let length = |index: usize| {
        let value = call
            .argument(index)
            .and_then(|v| v.as_ref().try_into().ok());
        value.map_or(0, i32::from_be_bytes).max(0) as usize
    };
    let (begin, end) = (length(1), length(2));
    let text = String::from_utf8_lossy(value);
    let padding = match call.argument(3) {
        None => u16::from(b'*'),
        Some(padding) => {
            let padding = String::from_utf8_lossy(padding);
            let mut units = padding.encode_utf16();
            match (units.next(), units.next()) {
                (Some(padding), None) => padding,
                _ => {
                    return invalid(format!(
                        "The padding argument for function {SYSTEM}.{} should be \
                         single-character, but '{padding}' has {} characters.",
                        call.function.name(),
                        padding.encode_utf16().count()
                    ));
                }
            }
        }
    };
    // Java's characters are the units of UTF-16; half a pair becomes a question mark.
    let units: Vec<u16> = text.encode_utf16().collect();
    let shown = |i: usize| (i < begin || units.len() - i <= end) == inner;
    let all = units.iter().enumerate();
    let masked = all.map(|(i, unit)| if shown(i) { *unit } else { padding });
    let decoded = char::decode_utf16(masked).map(|unit| unit.unwrap_or('?'));
    // So does what `ascii` does not have.
    let is_ascii = call.function.result == CqlType::Ascii;
    let written = decoded.map(|c| if is_ascii && !c.is_ascii() { '?' } else { c });
    Ok(Some(written.collect::<String>().into()))
}

fn similarity(
    name: &'static str,
    arguments: &[&dyn Argument],
    body: fn(&Call<'_>) -> Outcome,
) -> Result<Scalar, CqlError> {
    const PARAMETERS: &str = "vector<float, n>, vector<float, n>";
    let [left, right] = arguments else {
        return wrong_count(name, PARAMETERS);
    };
    // Brackets are taken for a vector of as many numbers.
    let of_brackets = |argument: &dyn Argument| {
        let count = argument.bracketed()?;
        Some(CqlType::Vector {
            element: CqlType::Float.into(),
            dimension: u32::try_from(count).unwrap_or(u32::MAX),
        })
    };
    let own = |argument: &dyn Argument| of_brackets(argument).or_else(|| argument.exact_type());
    // One of them may take its type from the other.
    let of_other = own(*left).or_else(|| own(*right));
    let mut types = Vec::new();
    for argument in [*left, *right] {
        if argument.bracketed() == Some(0) {
            return invalid("vectors may only have positive dimensions; given 0".to_owned());
        }
        if let Some(ty) = of_brackets(argument) {
            types.push(ty);
            continue;
        }
        let ty = match (argument.exact_type(), &of_other) {
            (None, Some(other)) if argument.assignment(other) != Assignment::No => other.clone(),
            _ => infer(name, PARAMETERS, argument, of_other.as_ref())?,
        };
        match &ty {
            CqlType::Vector { element, .. } if **element == CqlType::Float => types.push(ty),
            _ => return requires(name, "float vector", argument, &ty),
        }
    }
    if types[0] != types[1] {
        return invalid("All arguments must have the same vector dimensions".to_owned());
    }
    Ok(Scalar::new(name, types, CqlType::Float, body))
}

/// Both vectors, or nothing if one is null.
fn vectors(call: &Call<'_>) -> Option<(Vec<f32>, Vec<f32>)> {
    let floats = |index: usize| -> Option<Vec<f32>> {
        let (numbers, _) = call.argument(index)?.as_chunks::<4>();
        Some(numbers.iter().map(|n| f32::from_be_bytes(*n)).collect())
    };
    Some((floats(0)?, floats(1)?))
}

fn float(value: f32) -> Outcome {
    Ok(Some(Bytes::copy_from_slice(&value.to_be_bytes())))
}

/// A sum in single precision, as there.
fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn cosine(call: &Call<'_>) -> Outcome {
    let Some((a, b)) = vectors(call) else {
        return Ok(None);
    };
    let lengths = (f64::from(product(&a, &a)) * f64::from(product(&b, &b))).sqrt();
    if lengths == 0.0 {
        return invalid(format!(
            "Function {SYSTEM}.{} doesn't support all-zero vectors.",
            call.function.name()
        ));
    }
    let cosine = (f64::from(product(&a, &b)) / lengths) as f32;
    float((1.0 + cosine) / 2.0)
}

fn euclidean(call: &Call<'_>) -> Outcome {
    let Some((a, b)) = vectors(call) else {
        return Ok(None);
    };
    let difference: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x - y).collect();
    float(1.0 / (1.0 + product(&difference, &difference)))
}

fn dot_product(call: &Call<'_>) -> Outcome {
    let Some((a, b)) = vectors(call) else {
        return Ok(None);
    };
    float((1.0 + product(&a, &b)) / 2.0)
}
