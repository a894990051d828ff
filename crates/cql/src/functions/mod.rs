//! The functions of Cassandra 5.0 that every node has: scalar functions and aggregates, found by
//! name and argument types, working on serialized values.
//!
//! Nothing here knows time or chance: a [`FunctionContext`] brings both, so that a statement can
//! be replayed. Overloads are chosen as `FunctionResolver` does; a function that takes any type
//! (`min`, `to_json`) is made for the types it is called with, as Cassandra's factories do.

mod aggregate;
mod arithmetic;
mod blob;
mod cast;
mod factories;
#[cfg(test)]
mod golden_tests;
mod hash;
mod json;
mod math;
mod number;
mod resolve;
mod time;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use model::CqlType;

use crate::CqlError;
use number::Number;

pub use aggregate::{Accumulator, Aggregate};
pub use arithmetic::{Operator, negation, operation};
pub(crate) use cast::target as cast_target;
pub use cast::{cast, resolve_cast};
pub(crate) use number::double_text;
pub use resolve::{Argument, Assignment, Receiver, assign_type, resolve};

/// What functions need of the world.
#[derive(Debug)]
pub struct FunctionContext {
    /// Microseconds since 1970, by the server's clock.
    pub now_micros: i64,
    random: Cell<u64>,
    timeuuids: Cell<i64>,
    prepended: Cell<i64>,
}

impl FunctionContext {
    /// A context of this moment (microseconds since 1970) and this chance.
    pub fn new(now_micros: i64, random: u64) -> FunctionContext {
        FunctionContext {
            now_micros,
            random: Cell::new(random),
            timeuuids: Cell::new(0),
            prepended: Cell::new(0),
        }
    }

    /// The next random number: a SplitMix64 sequence of the seed.
    pub fn next_random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// How many time uuids were made before: each gets a later time than the one before.
    fn next_timeuuid(&self) -> i64 {
        self.next_timeuuids(1)
    }

    /// As [`FunctionContext::next_timeuuid`], for several.
    pub(crate) fn next_timeuuids(&self, count: i64) -> i64 {
        let before = self.timeuuids.get();
        self.timeuuids.set(before.saturating_add(count));
        before
    }

    /// Counts elements that are prepended to lists; how many there are with these.
    pub(crate) fn prepend(&self, count: i64) -> i64 {
        let all = self.prepended.get().saturating_add(count);
        self.prepended.set(all);
        all
    }
}

/// A call of a scalar function.
pub(crate) struct Call<'a> {
    function: &'a Scalar,
    context: &'a FunctionContext,
    arguments: &'a [Option<Bytes>],
}

impl Call<'_> {
    /// The value of an argument; `None` for null, and for the empty value of a type that has no
    /// meaning for it.
    fn argument(&self, index: usize) -> Option<&Bytes> {
        let value = self.arguments.get(index)?.as_ref()?;
        let ty = self.function.arguments.get(index)?;
        if value.is_empty() && ty.fixed_length().is_some() {
            return None;
        }
        Some(value)
    }

    /// The number that an argument is, as a value of this type; `None` where there is none.
    fn number(&self, index: usize, ty: &CqlType) -> Result<Option<Number>, CqlError> {
        match self.argument(index) {
            Some(value) => {
                Number::decode(ty, value).map_err(|error| self.failure(error.to_string()))
            }
            None => Ok(None),
        }
    }

    /// Cassandra's FUNCTION_FAILURE with this text.
    fn failure(&self, text: String) -> CqlError {
        CqlError::Function {
            keyspace: SYSTEM.to_owned(),
            function: self.function.name.to_owned(),
            argument_types: self
                .function
                .arguments
                .iter()
                .map(|t| t.to_string())
                .collect(),
            message: text,
        }
    }
}

pub(crate) const SYSTEM: &str = "system";

type Body = fn(&Call<'_>) -> Result<Option<Bytes>, CqlError>;

/// A scalar function for certain argument types.
#[derive(Clone)]
pub struct Scalar {
    name: &'static str,
    arguments: Vec<CqlType>,
    result: CqlType,
    body: Body,
}

impl Scalar {
    fn new(
        name: &'static str,
        arguments: impl Into<Vec<CqlType>>,
        result: CqlType,
        body: Body,
    ) -> Scalar {
        Scalar {
            name,
            arguments: arguments.into(),
            result,
            body,
        }
    }

    /// Its name, without the keyspace `system`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> &[CqlType] {
        &self.arguments
    }

    /// The type of its result.
    pub fn result(&self) -> &CqlType {
        &self.result
    }

    /// Calls it. Arguments are values of [`Scalar::arguments`], `None` for null.
    pub fn execute(
        &self,
        context: &FunctionContext,
        arguments: &[Option<Bytes>],
    ) -> Result<Option<Bytes>, CqlError> {
        (self.body)(&Call {
            function: self,
            context,
            arguments,
        })
    }

    /// Does it give the same result for the same arguments, whenever it is called
    /// (`NativeFunction.isPure`)?
    pub fn is_pure(&self) -> bool {
        !time::IMPURE.contains(&self.name)
    }
}

/// Functions of one name and signature are the same function.
impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.name == other.name && self.arguments == other.arguments && self.result == other.result
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_signature(f, self.name, &self.arguments, &self.result)
    }
}

/// A function found by its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// From the values of one row.
    Scalar(Arc<Scalar>),
    /// From the values of many rows.
    Aggregate(Arc<Aggregate>),
}

impl Function {
    /// Its name, without the keyspace `system`.
    pub fn name(&self) -> &'static str {
        match self {
            Function::Scalar(function) => function.name,
            Function::Aggregate(function) => function.name(),
        }
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> &[CqlType] {
        match self {
            Function::Scalar(function) => &function.arguments,
            Function::Aggregate(function) => function.arguments(),
        }
    }

    /// The type of its result.
    pub fn result(&self) -> &CqlType {
        match self {
            Function::Scalar(function) => &function.result,
            Function::Aggregate(function) => function.result(),
        }
    }
}

/// `system.sum : (int) -> int`, as in Cassandra's messages.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_signature(f, self.name(), self.arguments(), self.result())
    }
}

fn write_signature(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    arguments: &[CqlType],
    result: &CqlType,
) -> fmt::Result {
    write!(f, "{SYSTEM}.{name} : (")?;
    for (i, ty) in arguments.iter().enumerate() {
        write!(f, "{}{ty}", if i == 0 { "" } else { ", " })?;
    }
    write!(f, ") -> {result}")
}
