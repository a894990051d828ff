//! From a name and arguments to a function (`FunctionResolver`, `FunctionFactory`).

use std::fmt;
use std::sync::Arc;

use model::{CqlType, Schema, argument_type};

use super::{
    Aggregate, Function, SYSTEM, Scalar, blob, cast, factories, hash, json, math, operators, time,
};
use crate::CqlError;
use crate::schema::is_unserved_function;

/// How well a term fits a type (`AssignmentTestable.TestResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignment {
    /// Not at all.
    No,
    /// Its value can be taken for one of the type.
    Weak,
    /// It is of the type.
    Exact,
}

/// An argument of a call before it has a type: a term or a selected column. `Display` is its CQL
/// text, for messages.
pub trait Argument: fmt::Display {
    /// How well it fits `ty`.
    fn assignment(&self, ty: &CqlType) -> Assignment;

    /// Its type, where it has one of its own; a bind marker has none.
    fn exact_type(&self) -> Option<CqlType>;

    /// Its type, where functions that take any are to find one (`getCompatibleTypeIfKnown`): that
    /// of a constant is the one it looks like.
    fn compatible_type(&self) -> Option<CqlType> {
        self.exact_type()
    }

    /// How many terms it has, if it is a literal in brackets: a list or a vector.
    fn bracketed(&self) -> Option<usize> {
        None
    }
}

/// What is to become of the result of a call.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a> {
    /// The type it must have; `None`: any.
    pub ty: Option<&'a CqlType>,
    /// The types of the partition key of the statement's table: the arguments of `token`.
    pub partition_key: &'a [CqlType],
    /// Where the functions of users are, and the keyspace of those that are called without one.
    pub users: Option<(&'a Schema, &'a str)>,
}

/// How well a value of type `from` fits `to` (`AbstractType.testAssignment`).
pub fn assign_type(from: &CqlType, to: &CqlType) -> Assignment {
    let (from, to) = (from.freeze(), to.freeze());
    if from == to {
        return Assignment::Exact;
    }
    if reads_values_of(&to, &from) {
        return Assignment::Weak;
    }
    Assignment::No
}

/// How well what is selected, of type `from`, fits `to`: what is of many cells is none of one cell
/// (`Selectable.testAssignment`).
pub fn assign_selected(from: &CqlType, to: &CqlType) -> Assignment {
    match from.is_multi_cell() && to.is_freezable() && !to.is_multi_cell() {
        true => Assignment::No,
        false => assign_type(from, to),
    }
}

/// How well a value that is said to be of type `hint` fits `to`: it may be frozen only where that is
/// (`TypeCast.testAssignment`).
pub fn assign_hinted(hint: &CqlType, to: &CqlType) -> Assignment {
    match to.is_freezable() && hint.is_multi_cell() != to.is_multi_cell() {
        true => Assignment::No,
        false => assign_type(hint, to),
    }
}

/// Is every value of `from` one of `to` (`AbstractType.isValueCompatibleWith`)?
fn reads_values_of(to: &CqlType, from: &CqlType) -> bool {
    use CqlType::{
        Ascii, Bigint, Blob, Composite, Counter, Date, Int, List, Map, Set, Text, Time, Timestamp,
        Timeuuid, Tuple, Uuid, Varint,
    };
    match (to, from) {
        (to, from) if to == from => true,
        (Blob, Counter) => false,
        (Blob, _) => true,
        (Text, Ascii) => true,
        (Bigint, Timestamp) | (Timestamp, Bigint) => true,
        (Varint, Int | Bigint | Timestamp) => true,
        (Uuid, Timeuuid) => true,
        (Time, Bigint) | (Date, Int) => true,
        (List { element: a, .. }, List { element: b, .. })
        | (Set { element: a, .. }, Set { element: b, .. }) => reads_values_of(a, b),
        (
            Map {
                key: a, value: b, ..
            },
            Map {
                key: c, value: d, ..
            },
        ) => reads_values_of(a, c) && reads_values_of(b, d),
        (Tuple(a), Tuple(b)) => {
            a.len() >= b.len() && a.iter().zip(b).all(|(a, b)| reads_values_of(a, b))
        }
        (Composite(a), Composite(b)) => a.extends(b, |a, b| reads_values_of(&a.ty, &b.ty)),
        _ => false,
    }
}

/// The function that `name(arguments)` calls; `None` if there is none of this name, which callers
/// report in their own words. `keyspace` is the one before the name, if any; without it functions of
/// `system` and of the statement's keyspace are meant.
pub fn resolve(
    keyspace: Option<&str>,
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Receiver<'_>,
) -> Result<Option<Function>, CqlError> {
    let mut candidates = of_users(keyspace, name, receiver)?;
    if keyspace.is_none_or(|keyspace| keyspace == SYSTEM) {
        candidates.extend(native(name, arguments, receiver)?);
    }
    match candidates.len() {
        0 => Ok(None),
        1 => {
            check_arguments(&candidates[0], arguments)?;
            Ok(candidates.into_iter().next())
        }
        _ => {
            let called = match keyspace {
                Some(keyspace) => format!("{keyspace}.{name}"),
                None => name.to_owned(),
            };
            best_match(&called, candidates, arguments, receiver.ty).map(Some)
        }
    }
}

/// The functions of this name that users defined.
fn of_users(
    keyspace: Option<&str>,
    name: &str,
    receiver: Receiver<'_>,
) -> Result<Vec<Function>, CqlError> {
    let Some((schema, in_use)) = receiver.users else {
        return Ok(Vec::new());
    };
    let Some(keyspace) = schema.keyspaces.get(keyspace.unwrap_or(in_use)) else {
        return Ok(Vec::new());
    };
    let scalars = keyspace.functions.scalars_named(name);
    let scalars = scalars.map(|f| Function::Scalar(Arc::new(Scalar::of_user(f))));
    let aggregates = keyspace.functions.aggregates_named(name);
    let aggregates = aggregates.map(|f| Function::Aggregate(Arc::new(Aggregate::of_user(f))));
    let found: Vec<Function> = scalars.chain(aggregates).collect();
    if found.is_empty() && is_unserved_function(keyspace, name) {
        return Err(CqlError::Invalid(format!(
            "Function {}.{name} cannot be called: only user-defined functions in Lua are supported",
            keyspace.name
        )));
    }
    Ok(found)
}

fn native(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Receiver<'_>,
) -> Result<Vec<Function>, CqlError> {
    let scalar = |function: Scalar| Function::Scalar(Arc::new(function));
    let aggregate = |function: Aggregate| Function::Aggregate(Arc::new(function));
    Ok(match name {
        "token" => vec![scalar(token(receiver.partition_key))],
        "count_rows" | "countRows" => vec![aggregate(Aggregate::count_rows())],
        "count" => {
            let ty = arguments
                .first()
                .and_then(|argument| argument.exact_type())
                .unwrap_or(CqlType::Blob);
            vec![aggregate(Aggregate::count(ty))]
        }
        "sum" | "avg" => Aggregate::numeric(name == "avg")
            .into_iter()
            .map(aggregate)
            .collect(),
        "min" | "max" => {
            let ty = only_type(name, arguments, receiver.ty)?;
            vec![aggregate(Aggregate::extreme(name == "max", ty))]
        }
        "to_json" | "tojson" => {
            let ty = only_type(name, arguments, None)?;
            vec![scalar(to_json(name, ty))]
        }
        _ => match made(name, arguments, receiver.ty)? {
            Some(function) => vec![scalar(function)],
            None => overloads(name).into_iter().map(scalar).collect(),
        },
    })
}

/// A function that is made for its arguments or for what becomes of its result.
type Factory = fn(&str, &[&dyn Argument], Option<&CqlType>) -> Result<Option<Scalar>, CqlError>;

const FACTORIES: [Factory; 3] = [factories::named, json::named, hash::named];

fn made(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Option<Scalar>, CqlError> {
    for factory in FACTORIES {
        if let Some(function) = factory(name, arguments, receiver)? {
            return Ok(Some(function));
        }
    }
    Ok(None)
}

fn overloads(name: &str) -> Vec<Scalar> {
    if let Some(function) = blob::named(name) {
        return vec![function];
    }
    if let Some(target) = cast::target(name) {
        return cast::casts_to(&target);
    }
    let mut found = time::named(name);
    found.extend(math::named(name));
    found.extend(operators::named(name));
    found
}

/// The token of the partition key of the statement's table.
fn token(partition_key: &[CqlType]) -> Scalar {
    Scalar::new("token", partition_key, CqlType::Bigint, |call| {
        let mut key = Vec::new();
        for value in call.arguments {
            let Some(value) = value else {
                return Ok(None);
            };
            if call.arguments.len() == 1 {
                key.extend_from_slice(value);
                continue;
            }
            let length = u16::try_from(value.len()).map_err(|_| {
                CqlError::Invalid(format!(
                    "Key length of {} is longer than maximum of 65535",
                    value.len()
                ))
            })?;
            key.extend_from_slice(&length.to_be_bytes());
            key.extend_from_slice(value);
            key.push(0);
        }
        let token = model::Token::of(&key);
        Ok(Some(bytes::Bytes::copy_from_slice(&token.0.to_be_bytes())))
    })
}

fn to_json(name: &str, ty: CqlType) -> Scalar {
    let name = if name == "tojson" {
        "tojson"
    } else {
        "to_json"
    };
    Scalar::new(name, [ty], CqlType::Text, |call| {
        Ok(Some(match &call.arguments[0] {
            None => "null".into(),
            // An empty value of a type that has none is null to functions.
            Some(value) if value.is_empty() && !has_empty_value(&call.function.arguments[0]) => {
                "null".into()
            }
            Some(value) => {
                let json = call.function.arguments[0].try_json(value);
                json.map_err(|error| call.failure(error.to_string()))?
                    .into()
            }
        }))
    })
}

/// Is an empty value of the type another than null, to functions and where a list is taken apart?
pub(crate) fn has_empty_value(ty: &CqlType) -> bool {
    use CqlType::{Ascii, Blob, Composite, Custom, Empty, Text, Tuple, Udt};
    matches!(
        ty,
        Ascii | Blob | Text | Tuple(_) | Udt { .. } | Empty | Composite(_) | Custom(_)
    ) || ty.is_collection()
}

/// The type of the only argument of a function that takes any: its own, or the receiver's.
fn only_type(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<CqlType, CqlError> {
    match arguments {
        [argument] => infer(name, "any", *argument, receiver),
        _ => wrong_count(name, "any"),
    }
}

/// Refuses a wrong number of arguments of a function that is made for its arguments.
pub(super) fn wrong_count<T>(name: &str, parameters: &str) -> Result<T, CqlError> {
    Err(CqlError::Invalid(format!(
        "Invalid number of arguments for function {SYSTEM}.{name}({parameters})"
    )))
}

/// The type of an argument of a function that is made for its arguments.
pub(super) fn infer(
    name: &str,
    parameters: &str,
    argument: &dyn Argument,
    receiver: Option<&CqlType>,
) -> Result<CqlType, CqlError> {
    argument
        .compatible_type()
        .or_else(|| receiver.cloned())
        .ok_or_else(|| {
            CqlError::Invalid(format!(
                "Cannot infer type of argument {argument} in call to function \
                 {SYSTEM}.{name}({parameters}): use type casts to disambiguate"
            ))
        })
}

fn check_arguments(function: &Function, arguments: &[&dyn Argument]) -> Result<(), CqlError> {
    let (name, wanted) = (function.name(), function.arguments());
    let keyspace = function.keyspace();
    if arguments.len() != wanted.len() {
        return Err(CqlError::Invalid(format!(
            "Invalid number of arguments in call to function {keyspace}.{name}: {} required but {} \
             provided",
            wanted.len(),
            arguments.len()
        )));
    }
    for (i, (argument, ty)) in arguments.iter().zip(wanted).enumerate() {
        if argument.assignment(ty) == Assignment::No {
            let shown = match keyspace == SYSTEM {
                true => ty.to_string(),
                false => argument_type(ty),
            };
            return Err(CqlError::Invalid(format!(
                "Type error: {argument} cannot be passed as argument {i} of function \
                 {keyspace}.{name} of type {shown}"
            )));
        }
    }
    Ok(())
}

fn fit(function: &Function, arguments: &[&dyn Argument]) -> Assignment {
    let wanted = function.arguments();
    if wanted.len() != arguments.len() {
        return Assignment::No;
    }
    let each = arguments.iter().zip(wanted);
    each.map(|(argument, ty)| argument.assignment(ty))
        .min()
        .unwrap_or(Assignment::Exact)
}

fn best_match(
    called: &str,
    candidates: Vec<Function>,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Function, CqlError> {
    let list = |functions: &[&Function]| {
        let texts: Vec<String> = functions.iter().map(|f| f.to_string()).collect();
        texts.join(", ")
    };
    let mut compatible = Vec::new();
    for function in &candidates {
        if receiver.is_some_and(|ty| assign_type(function.result(), ty) == Assignment::No) {
            continue;
        }
        match fit(function, arguments) {
            Assignment::Exact => return Ok(function.clone()),
            Assignment::Weak => compatible.push(function),
            Assignment::No => {}
        }
    }
    match compatible.as_slice() {
        [function] => Ok((*function).clone()),
        [] => Err(CqlError::Invalid(format!(
            "Invalid call to function {called}, none of its type signatures match (known type \
             signatures: {})",
            list(&candidates.iter().collect::<Vec<_>>())
        ))),
        several => Err(CqlError::Invalid(format!(
            "Ambiguous call to function {called} (can be matched by following signatures: {}): use \
             type casts to disambiguate",
            list(several)
        ))),
    }
}
