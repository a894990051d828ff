//! Numbers that Lua has no type for: `varint` and `decimal`.

use bigdecimal::{BigDecimal, ToPrimitive};
use mlua::{MetaMethod, UserData, UserDataMethods, Value};
use num_bigint::BigInt;

/// How far the exponents of two numbers may be apart to be added: `1e1000000000 + 1` would take all
/// memory.
pub(crate) const MAX_DIGITS: i64 = 10_000;

/// What a number may have in memory without being counted, in bytes.
const SMALL_BYTES: usize = 64;

/// An exact number. Sums, differences and products of them are exact, with integers and with strings
/// that are numbers, too; those with a floating point number are floating point numbers.
#[derive(Clone, Debug)]
pub(crate) struct Decimal(pub(crate) BigDecimal);

/// What an operand is.
enum Operand {
    Exact(BigDecimal),
    Real(f64),
}

fn operand(value: &Value) -> mlua::Result<Operand> {
    let exact = |number: BigDecimal| Ok(Operand::Exact(number));
    match value {
        Value::Integer(integer) => exact(BigDecimal::from(*integer)),
        Value::Number(number) => Ok(match whole(*number) {
            Some(integer) => Operand::Exact(BigDecimal::from(integer)),
            None => Operand::Real(*number),
        }),
        Value::UserData(data) => exact(data.borrow::<Decimal>()?.0.clone()),
        Value::String(text) => match parse(&text.to_string_lossy()) {
            Some(number) => exact(number),
            None => Err(mlua::Error::runtime("value is not a number")),
        },
        _ => Err(mlua::Error::runtime("value is not a number")),
    }
}

/// What an operand is that is no floating point number.
pub(crate) fn operand_exact(value: &Value) -> mlua::Result<BigDecimal> {
    match operand(value)? {
        Operand::Exact(number) => Ok(number),
        Operand::Real(_) => Err(mlua::Error::runtime("value is not an exact number")),
    }
}

/// The number as an integer, if it is one that Lua has.
pub(crate) fn whole(number: f64) -> Option<i64> {
    // 2^63: the first that is none.
    let limit = 9_223_372_036_854_775_808.0;
    let is_whole = number.trunc() == number && (-limit..limit).contains(&number);
    is_whole.then_some(number as i64)
}

/// The number that a text is, if its digits are not too many.
pub(crate) fn parse(text: &str) -> Option<BigDecimal> {
    if text.len() > MAX_DIGITS as usize {
        return None;
    }
    text.trim().parse().ok()
}

fn real(number: &BigDecimal) -> f64 {
    number.to_f64().unwrap_or(f64::NAN)
}

/// The number as a value of Lua. What it has in memory besides Lua's own counts as if it was Lua's, or
/// a function could keep many numbers of many digits.
pub(crate) fn made(lua: &mlua::Lua, number: BigDecimal) -> mlua::Result<Value> {
    let bytes = number.as_bigint_and_scale().0.bits() as usize / 8;
    let data = lua.create_userdata(Decimal(number))?;
    if bytes > SMALL_BYTES {
        data.set_user_value(lua.create_string(vec![0; bytes])?)?;
    }
    Ok(Value::UserData(data))
}

/// Makes sure that the result of an operation is of a size that can be worked with.
pub(crate) fn check(a: &BigDecimal, b: &BigDecimal) -> mlua::Result<()> {
    let far = |n: &BigDecimal| {
        n.fractional_digit_count().unsigned_abs() > MAX_DIGITS as u64
            || n.digits() > MAX_DIGITS as u64
    };
    match far(a) || far(b) {
        true => Err(mlua::Error::runtime("a number has too many digits")),
        false => Ok(()),
    }
}

type Exact = fn(&BigDecimal, &BigDecimal) -> BigDecimal;
type Reals = fn(f64, f64) -> f64;

fn calculate(
    lua: &mlua::Lua,
    (a, b): (Value, Value),
    exact: Exact,
    reals: Reals,
) -> mlua::Result<Value> {
    Ok(match (operand(&a)?, operand(&b)?) {
        (Operand::Exact(a), Operand::Exact(b)) => {
            check(&a, &b)?;
            made(lua, exact(&a, &b))?
        }
        (Operand::Exact(a), Operand::Real(b)) => Value::Number(reals(real(&a), b)),
        (Operand::Real(a), Operand::Exact(b)) => Value::Number(reals(a, real(&b))),
        (Operand::Real(a), Operand::Real(b)) => Value::Number(reals(a, b)),
    })
}

fn compare((a, b): (Value, Value)) -> mlua::Result<Option<std::cmp::Ordering>> {
    Ok(match (operand(&a)?, operand(&b)?) {
        (Operand::Exact(a), Operand::Exact(b)) => {
            check(&a, &b)?;
            a.partial_cmp(&b)
        }
        (Operand::Exact(a), Operand::Real(b)) => real(&a).partial_cmp(&b),
        (Operand::Real(a), Operand::Exact(b)) => a.partial_cmp(&real(&b)),
        (Operand::Real(a), Operand::Real(b)) => a.partial_cmp(&b),
    })
}

/// The integer that a number is, if it is one of a size that can be worked with.
pub(crate) fn integer(number: &BigDecimal) -> Option<BigInt> {
    let (digits, scale) = number.as_bigint_and_exponent();
    if scale == 0 {
        return Some(digits);
    }
    if scale.unsigned_abs() > MAX_DIGITS as u64 || !number.is_integer() {
        return None;
    }
    Some(number.with_scale(0).as_bigint_and_exponent().0)
}

impl UserData for Decimal {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        let operations: [(MetaMethod, Exact, Reals); 3] = [
            (MetaMethod::Add, |a, b| a + b, |a, b| a + b),
            (MetaMethod::Sub, |a, b| a - b, |a, b| a - b),
            (MetaMethod::Mul, |a, b| a * b, |a, b| a * b),
        ];
        for (name, exact, reals) in operations {
            methods.add_meta_function(name.name(), move |lua, operands| {
                calculate(lua, operands, exact, reals)
            });
        }
        methods.add_meta_function(MetaMethod::Unm, |lua, a: mlua::AnyUserData| {
            let negative = -a.borrow::<Decimal>()?.0.clone();
            made(lua, negative)
        });
        methods.add_meta_function(MetaMethod::Eq, |_, operands| {
            Ok(compare(operands)?.is_some_and(|order| order.is_eq()))
        });
        methods.add_meta_function(MetaMethod::Lt, |_, operands| {
            Ok(compare(operands)?.is_some_and(|order| order.is_lt()))
        });
        methods.add_meta_function(MetaMethod::Le, |_, operands| {
            Ok(compare(operands)?.is_some_and(|order| order.is_le()))
        });
        methods.add_meta_function(MetaMethod::ToString, |_, a: mlua::AnyUserData| {
            let number = a.borrow::<Decimal>()?;
            check(&number.0, &number.0)?;
            Ok(number.0.to_plain_string())
        });
    }
}
