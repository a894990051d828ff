//! The functions of Cassandra 5.0: scalar functions and aggregates, found by name and argument types,
//! working on serialized values. Those that every node has are in `system`, those of users
//! ([`user`]) in their keyspaces.
//!
//! Nothing here knows time or chance: a [`FunctionContext`] brings both, so that a statement can
//! be replayed. Overloads are chosen as `FunctionResolver` does; a function that takes any type
//! (`min`, `to_json`) is made for the types it is called with, as Cassandra's factories do.

mod aggregate;
mod arithmetic;
mod blob;
mod calendar;
mod cast;
mod decimal;
mod factories;
#[cfg(test)]
mod golden_tests;
mod hash;
mod json;
mod math;
mod number;
mod operators;
mod resolve;
mod time;
mod transcendental;
mod user;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use model::{CqlType, Schema, UserFunction, argument_type, quote_identifier};

use crate::CqlError;
use number::Number;

pub use crate::ast::ArithmeticOperator as Operator;
pub use aggregate::{Accumulator, Aggregate};
pub use arithmetic::operation;
pub(crate) use cast::target as cast_target;
pub use cast::{cast, no_cast, resolve_cast};
pub(crate) use number::double_text;
pub use operators::{
    Operand, Unresolved, negation_failure, negation_type, operation_failure, operation_type,
    resolve_negation, resolve_operation,
};
pub(crate) use resolve::has_empty_value;
pub use resolve::{
    Argument, Assignment, Receiver, assign_hinted, assign_selected, assign_type, resolve,
};
pub use user::{DISABLED, FunctionLanguage, Outcome, SuspendedCall};

/// What functions need of the world.
#[derive(Debug)]
pub struct FunctionContext {
    /// Microseconds since 1970, by the server's clock.
    pub now_micros: i64,
    random: Cell<u64>,
    timeuuids: Cell<i64>,
    prepended: Cell<i64>,
    /// Chance, and what was counted, when the present step of the evaluation began.
    begun: Cell<(u64, i64, i64)>,
    calls: user::Calls,
}

impl FunctionContext {
    /// A context of this moment (microseconds since 1970) and this chance.
    pub fn new(now_micros: i64, random: u64) -> FunctionContext {
        FunctionContext {
            now_micros,
            random: Cell::new(random),
            timeuuids: Cell::new(0),
            prepended: Cell::new(0),
            begun: Cell::new((random, 0, 0)),
            calls: user::Calls::default(),
        }
    }

    /// With user-defined functions, in this language. Without it calling one is an error.
    pub fn set_language(&mut self, language: Rc<dyn FunctionLanguage>) {
        self.calls.in_language(language);
    }

    /// Are user-defined functions to give way, so that an evaluation may end with
    /// [`CqlError::GaveWay`]? Who allows it calls [`FunctionContext::again`] and evaluates again.
    pub fn may_give_way(&self, may: bool) {
        self.calls.may_give_way(may);
        self.next_step();
    }

    /// Prepares for evaluating what gave way again: time and chance begin anew, calls that were
    /// done are remembered.
    pub fn again(&self) {
        let (random, timeuuids, prepended) = self.begun.get();
        self.random.set(random);
        self.timeuuids.set(timeuuids);
        self.prepended.set(prepended);
        self.calls.again();
    }

    /// What was evaluated is done: it is not evaluated again, and calls are not remembered any more.
    pub fn next_step(&self) {
        if self.calls.next_step() {
            let chance = self.random.get();
            let counted = (self.timeuuids.get(), self.prepended.get());
            self.begun.set((chance, counted.0, counted.1));
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
            function: self.function.name().to_owned(),
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

/// What a scalar function does.
#[derive(Clone)]
enum Code {
    Native(&'static str, Body),
    User(Arc<UserFunction>),
}

/// A scalar function for certain argument types.
#[derive(Clone)]
pub struct Scalar {
    arguments: Vec<CqlType>,
    result: CqlType,
    code: Code,
}

impl Scalar {
    fn new(
        name: &'static str,
        arguments: impl Into<Vec<CqlType>>,
        result: CqlType,
        body: Body,
    ) -> Scalar {
        Scalar {
            arguments: arguments.into(),
            result,
            code: Code::Native(name, body),
        }
    }

    /// A function that a user defined.
    fn of_user(function: &Arc<UserFunction>) -> Scalar {
        Scalar {
            arguments: function.argument_types.clone(),
            result: function.return_type.clone(),
            code: Code::User(function.clone()),
        }
    }

    /// Its name, without the keyspace.
    pub fn name(&self) -> &str {
        match &self.code {
            Code::Native(name, _) => name,
            Code::User(function) => &function.name,
        }
    }

    /// Its keyspace.
    pub fn keyspace(&self) -> &str {
        match &self.code {
            Code::Native(..) => SYSTEM,
            Code::User(function) => &function.keyspace,
        }
    }

    /// The function of a user that it is, if it is one.
    pub fn user_function(&self) -> Option<&Arc<UserFunction>> {
        match &self.code {
            Code::Native(..) => None,
            Code::User(function) => Some(function),
        }
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
        match &self.code {
            Code::Native(_, body) => body(&Call {
                function: self,
                context,
                arguments,
            }),
            Code::User(function) => user::call(context, function, arguments),
        }
    }

    /// Does it give the same result for the same arguments, whenever it is called
    /// (`Function.isPure`)? Of a user's nobody knows.
    pub fn is_pure(&self) -> bool {
        match &self.code {
            // JSON that is no value of its type is refused at execution, not before.
            Code::Native("from_json" | "fromjson", _) => false,
            Code::Native(name, _) => !time::IMPURE.contains(name),
            Code::User(_) => false,
        }
    }
}

/// Functions of one name and signature are the same function.
impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        (self.keyspace(), self.name()) == (other.keyspace(), other.name())
            && self.arguments == other.arguments
            && self.result == other.result
            && self.user_function() == other.user_function()
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_signature(
            f,
            (self.keyspace(), self.name()),
            &self.arguments,
            &self.result,
        )
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
    /// Its name, without the keyspace.
    pub fn name(&self) -> &str {
        match self {
            Function::Scalar(function) => function.name(),
            Function::Aggregate(function) => function.name(),
        }
    }

    /// Its keyspace.
    pub fn keyspace(&self) -> &str {
        match self {
            Function::Scalar(function) => function.keyspace(),
            Function::Aggregate(function) => function.keyspace(),
        }
    }

    /// Did a user define it?
    pub fn is_of_user(&self) -> bool {
        match self {
            Function::Scalar(function) => function.user_function().is_some(),
            Function::Aggregate(function) => function.user_aggregate().is_some(),
        }
    }

    /// Is it, if a user defined it, in the schema as it is here?
    pub(crate) fn is_valid_in(&self, schema: &Schema) -> bool {
        let Some(keyspace) = schema.keyspaces.get(self.keyspace()) else {
            return false;
        };
        match self {
            Function::Scalar(function) => function
                .user_function()
                .is_none_or(|function| keyspace.functions.has_scalar(function)),
            Function::Aggregate(function) => function
                .user_aggregate()
                .is_none_or(|function| keyspace.functions.has_aggregate(function)),
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
        let name = (self.keyspace(), self.name());
        write_signature(f, name, self.arguments(), self.result())
    }
}

fn write_signature(
    f: &mut fmt::Formatter<'_>,
    (keyspace, name): (&str, &str),
    arguments: &[CqlType],
    result: &CqlType,
) -> fmt::Result {
    write!(f, "{keyspace}.{} : (", quote_identifier(name))?;
    for (i, ty) in arguments.iter().enumerate() {
        let ty = argument_type(ty);
        write!(f, "{}{ty}", if i == 0 { "" } else { ", " })?;
    }
    write!(f, ") -> {}", argument_type(result))
}
