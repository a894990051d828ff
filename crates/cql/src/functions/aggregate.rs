//! Aggregates: `count`, `min`, `max`, `sum`, `avg` (`AggregateFcts`), and those of users.
//!
//! Sums have the type of what is summed, so integers wrap. An average of integers is taken of the
//! exact sum; one of decimals is carried along and rounded with each value, as in Cassandra.

use std::cmp::Ordering;
use std::sync::Arc;

use bigdecimal::{BigDecimal, Zero};
use bytes::Bytes;
use model::{CqlType, UserAggregate};
use num_bigint::BigInt;

use super::decimal::aligned;
use super::number::{Number, fits};
use super::{FunctionContext, SYSTEM, user};
use crate::CqlError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
    User,
}

/// An aggregate for a certain argument type.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    name: &'static str,
    kind: Kind,
    arguments: Vec<CqlType>,
    result: CqlType,
    /// What it is if a user defined it ([`Kind::User`]).
    user: Option<Arc<UserAggregate>>,
}

impl Aggregate {
    /// `count(*)` and `count(1)`.
    pub fn count_rows() -> Aggregate {
        Aggregate {
            name: "count_rows",
            kind: Kind::CountRows,
            arguments: Vec::new(),
            result: CqlType::Bigint,
            user: None,
        }
    }

    /// `count(column)`: of any type.
    pub(super) fn count(ty: CqlType) -> Aggregate {
        Aggregate {
            name: "count",
            kind: Kind::Count,
            arguments: vec![ty],
            result: CqlType::Bigint,
            user: None,
        }
    }

    /// `min` or `max` of any type.
    pub(super) fn extreme(max: bool, ty: CqlType) -> Aggregate {
        Aggregate {
            name: if max { "max" } else { "min" },
            kind: if max { Kind::Max } else { Kind::Min },
            arguments: vec![ty.clone()],
            result: ty,
            user: None,
        }
    }

    /// The overloads of `sum` or `avg`.
    pub(super) fn numeric(average: bool) -> Vec<Aggregate> {
        [
            CqlType::Tinyint,
            CqlType::Smallint,
            CqlType::Int,
            CqlType::Bigint,
            CqlType::Counter,
            CqlType::Varint,
            CqlType::Float,
            CqlType::Double,
            CqlType::Decimal,
        ]
        .into_iter()
        .map(|ty| Aggregate {
            name: if average { "avg" } else { "sum" },
            kind: if average { Kind::Avg } else { Kind::Sum },
            arguments: vec![ty.clone()],
            result: ty,
            user: None,
        })
        .collect()
    }

    /// An aggregate that a user defined.
    pub(super) fn of_user(aggregate: &Arc<UserAggregate>) -> Aggregate {
        Aggregate {
            name: "",
            kind: Kind::User,
            arguments: aggregate.argument_types.clone(),
            result: aggregate.return_type.clone(),
            user: Some(aggregate.clone()),
        }
    }

    /// Its name, without the keyspace.
    pub fn name(&self) -> &str {
        self.user.as_ref().map_or(self.name, |user| &user.name)
    }

    /// Its keyspace.
    pub fn keyspace(&self) -> &str {
        self.user.as_ref().map_or(SYSTEM, |user| &user.keyspace)
    }

    /// The aggregate of a user that it is, if it is one.
    pub fn user_aggregate(&self) -> Option<&Arc<UserAggregate>> {
        self.user.as_ref()
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> &[CqlType] {
        &self.arguments
    }

    /// The type of its result.
    pub fn result(&self) -> &CqlType {
        &self.result
    }

    /// Starts over: for a query, and for each group of one.
    pub fn start(&self) -> Accumulator {
        let state = match self.kind {
            Kind::CountRows | Kind::Count => State::Count(0),
            Kind::Min | Kind::Max => State::Extreme(None),
            Kind::User => State::User(self.user.as_ref().and_then(|user| user.initial.clone())),
            Kind::Sum | Kind::Avg => match self.result {
                CqlType::Float | CqlType::Double => State::Real(Real::default()),
                CqlType::Decimal => State::Decimal(BigDecimal::zero(), 0),
                _ => State::Integer(BigInt::ZERO, 0),
            },
        };
        Accumulator {
            aggregate: self.clone(),
            state,
        }
    }
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    Extreme(Option<Bytes>),
    /// Sum and count.
    Integer(BigInt, i64),
    /// Sum, or the average so far, and count.
    Decimal(BigDecimal, i64),
    Real(Real),
    /// What the state function gave last.
    User(Option<Bytes>),
}

/// What a row brings to an [`Accumulator`].
#[derive(Debug)]
pub(crate) enum Input {
    /// Arguments.
    Arguments(Vec<Option<Bytes>>),
    /// The next state of a user's aggregate; `None` leaves it as it is.
    State(Option<Option<Bytes>>),
}

/// A sum of floating point numbers by Kahan, with the plain sum for infinities.
#[derive(Clone, Debug, Default)]
struct Real {
    sum: f64,
    compensation: f64,
    plain: f64,
    count: i64,
    /// The sum for the average, once it is beyond the range of a double.
    beyond: Option<BigDecimal>,
}

impl Real {
    fn add(&mut self, number: f64) {
        self.count += 1;
        let before = self.sum;
        self.plain += number;
        let corrected = number - self.compensation;
        let rounded = self.sum + corrected;
        self.compensation = (rounded - self.sum) - corrected;
        self.sum = rounded;
        if self.beyond.is_some() || rounded.is_infinite() {
            self.add_beyond(before, number);
        }
    }

    /// The sum is beyond the range of a double, or has been since the one `before`.
    fn add_beyond(&mut self, before: f64, number: f64) {
        let decimal = |number: f64| Number::Double(number).to_decimal();
        let before = self.beyond.take().or_else(|| decimal(before));
        // What is not finite has no average that is.
        self.beyond = match (before, decimal(number)) {
            (Some(before), Some(number)) => Some(add(&before, &number)),
            _ => None,
        };
    }

    /// The average, which has a value where the sum has none.
    fn average(&self) -> f64 {
        match &self.beyond {
            Some(sum) => Number::Decimal(divide(sum, self.count)).to_f64(),
            None => self.total() / self.count as f64,
        }
    }

    fn total(&self) -> f64 {
        let total = self.sum + self.compensation;
        if total.is_nan() && self.plain.is_infinite() {
            return self.plain;
        }
        total
    }
}

/// An aggregate under way.
#[derive(Clone, Debug)]
pub struct Accumulator {
    aggregate: Aggregate,
    state: State,
}

impl Accumulator {
    /// What the arguments of one row mean to it: here user-defined functions are called, and nothing
    /// changes.
    pub(crate) fn input(
        &self,
        context: &FunctionContext,
        arguments: Vec<Option<Bytes>>,
    ) -> Result<Input, CqlError> {
        match (&self.aggregate.user, &self.state) {
            (Some(user), State::User(state)) => {
                user::next_state(context, user, state, &arguments).map(Input::State)
            }
            _ => Ok(Input::Arguments(arguments)),
        }
    }

    /// Takes what one row brings.
    pub(crate) fn take(&mut self, input: Input) -> Result<(), CqlError> {
        match input {
            Input::Arguments(arguments) => self.add(&arguments),
            Input::State(Some(state)) => {
                self.state = State::User(state);
                Ok(())
            }
            Input::State(None) => Ok(()),
        }
    }

    /// Takes the arguments of one row; nulls count only as rows.
    pub(super) fn add(&mut self, arguments: &[Option<Bytes>]) -> Result<(), CqlError> {
        let kind = self.aggregate.kind;
        if let (Kind::CountRows, State::Count(count)) = (kind, &mut self.state) {
            *count += 1;
            return Ok(());
        }
        let Some(value) = arguments.first().and_then(Option::as_ref) else {
            return Ok(());
        };
        let ty = &self.aggregate.arguments[0];
        let number = || {
            let decoded = Number::decode(ty, value);
            decoded.map_err(|error| CqlError::Invalid(error.to_string()))
        };
        match &mut self.state {
            State::Count(count) => *count += 1,
            State::Extreme(best) => {
                let wanted = if kind == Kind::Max {
                    Ordering::Greater
                } else {
                    Ordering::Less
                };
                if best
                    .as_ref()
                    .is_none_or(|best| ty.compare(value, best) == wanted)
                {
                    *best = Some(value.clone());
                }
            }
            State::Integer(sum, count) => {
                if let Some(number) = number()? {
                    *sum += number.to_varint();
                    *count += 1;
                }
            }
            State::Decimal(sum, count) => {
                if let Some(Number::Decimal(number)) = number()? {
                    if !fits(sum, &number) {
                        return Err(CqlError::Invalid(format!(
                            "{}: the exponents of the decimals are too far apart",
                            self.aggregate.name
                        )));
                    }
                    *count += 1;
                    // With the longer scale of both, also where one of them is zero.
                    *sum = match kind {
                        Kind::Avg => add(sum, &divide(&add(&number, &-&*sum), *count)),
                        _ => add(sum, &number),
                    };
                }
            }
            State::Real(real) => {
                if let Some(number) = number()? {
                    real.add(number.to_f64());
                }
            }
            State::User(_) => {}
        }
        Ok(())
    }

    /// The result so far: without rows 0, or null for `min` and `max`. Errors: those of the final
    /// function of a user's aggregate.
    pub(crate) fn result(&self, context: &FunctionContext) -> Result<Option<Bytes>, CqlError> {
        if let (Some(user), State::User(state)) = (&self.aggregate.user, &self.state) {
            return user::result(context, user, state);
        }
        Ok(self.native_result())
    }

    fn native_result(&self) -> Option<Bytes> {
        let ty = &self.aggregate.result;
        let average = self.aggregate.kind == Kind::Avg;
        match &self.state {
            State::User(state) => state.clone(),
            State::Count(count) => Number::Int(*count).encode(ty),
            State::Extreme(best) => best.clone(),
            State::Integer(sum, count) if average && *count > 0 => {
                Number::Varint(sum / BigInt::from(*count)).encode(ty)
            }
            State::Integer(sum, _) => Number::Varint(sum.clone()).encode(ty),
            State::Decimal(sum, _) => Number::Decimal(sum.clone()).encode(ty),
            State::Real(real) if average && real.count > 0 => {
                Number::Double(real.average()).encode(ty)
            }
            State::Real(real) => Number::Double(real.total()).encode(ty),
        }
    }
}

/// All digits, with the larger scale of the two.
fn add(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let (a, b, scale) = aligned(left, right);
    BigDecimal::new(a + b, scale)
}

/// With the scale of the number, halves to the even digit (`BigDecimal.divide(…, HALF_EVEN)`).
fn divide(number: &BigDecimal, count: i64) -> BigDecimal {
    let (unscaled, scale) = number.as_bigint_and_exponent();
    let count = BigInt::from(count);
    let mut quotient = &unscaled / &count;
    let rest = &unscaled - &quotient * &count;
    let twice = BigInt::from(rest.magnitude() * 2u32);
    let up = match twice.cmp(&count) {
        Ordering::Less => false,
        Ordering::Equal => &quotient % 2 != BigInt::ZERO,
        Ordering::Greater => true,
    };
    if up {
        quotient += if unscaled < BigInt::ZERO { -1 } else { 1 };
    }
    BigDecimal::new(quotient, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, ty: CqlType, values: &[&str]) -> String {
        let aggregate = match name {
            "min" => Aggregate::extreme(false, ty.clone()),
            "max" => Aggregate::extreme(true, ty.clone()),
            "count" => Aggregate::count(ty.clone()),
            _ => Aggregate::numeric(name == "avg")
                .into_iter()
                .find(|a| a.arguments[0] == ty)
                .unwrap(),
        };
        let mut accumulator = aggregate.start();
        for text in values {
            let value = (*text != "null").then(|| ty.parse_string(text).unwrap());
            accumulator.add(&[value]).unwrap();
        }
        match accumulator.native_result() {
            Some(value) => aggregate.result.format_string(&value),
            None => "null".to_owned(),
        }
    }

    /// What Cassandra 5.0.6 answers to the same rows.
    #[test]
    fn aggregates_answer_as_cassandra_does() {
        for (ty, values, sum, avg) in [
            (CqlType::Int, "2147483647 1 5", "-2147483643", "715827884"),
            (
                CqlType::Bigint,
                "9223372036854775807 1 5",
                "-9223372036854775803",
                "3074457345618258604",
            ),
            (CqlType::Tinyint, "127 1 5", "-123", "44"),
            (CqlType::Smallint, "32767 1 5", "-32763", "10924"),
            (CqlType::Varint, "10 20 -30", "0", "0"),
            (CqlType::Float, "0.1 0.2 0.3", "0.6", "0.2"),
            (CqlType::Double, "0.1 0.2 0.3", "0.6", "0.19999999999999998"),
            (CqlType::Decimal, "1.05 2 3.25", "6.30", "2.10"),
            (CqlType::Decimal, "-7 0 0.1 1", "-5.9", "-1.2"),
            (
                CqlType::Decimal,
                "0 1E+20",
                "100000000000000000000",
                "50000000000000000000",
            ),
            (CqlType::Int, "-7 0 0 0", "-7", "-1"),
            (CqlType::Double, "1e16 1 1 -1e16", "2.0", "0.5"),
            (CqlType::Int, "1 null", "1", "1"),
            (CqlType::Int, "", "0", "0"),
            (CqlType::Decimal, "", "0", "0"),
        ] {
            let values: Vec<&str> = values.split_whitespace().collect();
            assert_eq!(run("sum", ty.clone(), &values), sum, "sum {ty} {values:?}");
            assert_eq!(run("avg", ty.clone(), &values), avg, "avg {ty} {values:?}");
        }
    }

    #[test]
    fn nulls_do_not_count() {
        let values = ["null", "3", "1", "null", "2"];
        assert_eq!(run("count", CqlType::Int, &values), "3");
        assert_eq!(run("min", CqlType::Int, &values), "1");
        assert_eq!(run("max", CqlType::Int, &values), "3");
        assert_eq!(run("max", CqlType::Int, &["null"]), "null");
    }
}
