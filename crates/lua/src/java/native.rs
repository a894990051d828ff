//! What Java's classes do that Lua cannot: exact numbers, formats, the time and chance.
//!
//! The functions are in a table, `native`, that a body in Java finds in its environment. What one of them
//! throws it gives as a text behind nil, which Lua then throws, so that a `catch` takes it.

use std::net::Ipv6Addr;
use std::rc::Rc;

use bigdecimal::{BigDecimal, ToPrimitive};
use mlua::{IntoLua, Lua, Table, Value};
use model::CqlType;
use model::number::encode_decimal;
use num_bigint::BigInt;

use super::rounding::{self, Rounding};
use super::{format, regex, text};
use crate::decimal::{MAX_DIGITS, check, made, operand_exact};
use crate::engine::World;
use crate::from_lua::FromLua;
use crate::sandbox::Watch;

/// How many bytes a date, a time or a duration has at most.
const MAX_SHOWN: usize = 64;

/// What is thrown.
pub(super) type Thrown = String;

/// The function that makes a number of two.
type Operation = fn(&BigDecimal, &BigDecimal) -> Result<BigDecimal, Thrown>;

/// Operations of two exact numbers, as Java calls them; those of `BigInteger` are given integers.
const OPERATIONS: [(&str, Operation); 11] = [
    ("add", |a, b| Ok(a + b)),
    ("subtract", |a, b| Ok(a - b)),
    ("multiply", |a, b| Ok(a * b)),
    ("divide", rounding::exact_quotient),
    ("rest", rounding::rest),
    ("quotient", |a, b| {
        whole(a, b, "BigInteger divide by zero", |a, b| a / b)
    }),
    ("remainder", |a, b| {
        whole(a, b, "BigInteger divide by zero", |a, b| a % b)
    }),
    ("mod", |a, b| {
        match *b.as_bigint_and_scale().0 > BigInt::ZERO {
            true => whole(a, b, "", |a, b| ((a % b) + b) % b),
            false => {
                Err("java.lang.ArithmeticException: BigInteger: modulus not positive".to_owned())
            }
        }
    }),
    ("gcd", rounding::divisor),
    ("max", |a, b| Ok(if b > a { b.clone() } else { a.clone() })),
    ("min", |a, b| Ok(if b < a { b.clone() } else { a.clone() })),
];

fn whole_or_zero(
    a: &BigDecimal,
    b: &BigDecimal,
    operation: fn(&BigInt, &BigInt) -> BigInt,
) -> Result<BigDecimal, Thrown> {
    let (a, b) = (a.as_bigint_and_scale().0, b.as_bigint_and_scale().0);
    Ok(operation(&a, &b).into())
}

/// An operation of integers that is none of zero.
fn whole(
    a: &BigDecimal,
    b: &BigDecimal,
    of_zero: &str,
    operation: fn(&BigInt, &BigInt) -> BigInt,
) -> Result<BigDecimal, Thrown> {
    match *b.as_bigint_and_scale().0 == BigInt::ZERO {
        true => Err(format!("java.lang.ArithmeticException: {of_zero}")),
        false => whole_or_zero(a, b, operation),
    }
}

/// The value, or nil and what is thrown.
pub(super) fn answer(
    lua: &Lua,
    result: Result<impl IntoLua, Thrown>,
) -> mlua::Result<(Value, Value)> {
    Ok(match result {
        Ok(value) => (value.into_lua(lua)?, Value::Nil),
        Err(thrown) => (Value::Nil, thrown.into_lua(lua)?),
    })
}

fn number(lua: &Lua, result: Result<BigDecimal, Thrown>) -> mlua::Result<(Value, Value)> {
    match result {
        Ok(number) => {
            check(&number, &number)?;
            answer(lua, Ok(made(lua, number)?))
        }
        Err(thrown) => answer(lua, Err::<Value, _>(thrown)),
    }
}

/// `new BigDecimal(text)`.
fn parsed(text: &str) -> Result<BigDecimal, Thrown> {
    let class = "java.lang.NumberFormatException";
    let other = text
        .chars()
        .find(|c| !c.is_ascii_digit() && !".eE+-".contains(*c));
    if let Some(other) = other {
        return Err(format!(
            "{class}: Character {other} is neither a decimal digit number, decimal point, nor \"e\" notation exponential mark."
        ));
    }
    crate::decimal::parse(text).ok_or_else(|| class.to_owned())
}

/// `new BigInteger(text)`.
fn parsed_whole(text: &str) -> Result<BigDecimal, Thrown> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_whole.then(|| crate::decimal::parse(text)).flatten();
    number.ok_or_else(|| match text {
        "" => "java.lang.NumberFormatException: Zero length BigInteger".to_owned(),
        _ => format!("java.lang.NumberFormatException: For input string: \"{text}\""),
    })
}

/// The exact value of a `double`.
fn of_real(number: f64) -> Result<BigDecimal, Thrown> {
    let wrong = |_| "java.lang.NumberFormatException: Infinite or NaN".to_owned();
    BigDecimal::try_from(number).map_err(wrong)
}

/// The lowest 64 bits of what is before the point.
fn low_bits(number: &BigDecimal) -> i64 {
    let whole = number.with_scale(0).into_bigint_and_scale().0;
    let magnitude = whole.magnitude().iter_u64_digits().next();
    let magnitude = magnitude.unwrap_or_default() as i64;
    match whole < BigInt::ZERO {
        true => magnitude.wrapping_neg(),
        false => magnitude,
    }
}

/// `BigInteger.hashCode()`.
fn hash_of_whole(number: &BigInt) -> i32 {
    let words = number.iter_u32_digits().rev();
    let hash = words.fold(0u32, |hash, word| hash.wrapping_mul(31).wrapping_add(word));
    match *number < BigInt::ZERO {
        true => (hash as i32).wrapping_neg(),
        false => hash as i32,
    }
}

fn powered(number: &BigDecimal, exponent: i64) -> mlua::Result<Result<BigDecimal, Thrown>> {
    let Ok(count) = u32::try_from(exponent) else {
        return Ok(Err(
            "java.lang.ArithmeticException: Negative exponent".to_owned()
        ));
    };
    let (digits, scale) = number.as_bigint_and_scale();
    let room = (number.digits() + scale.unsigned_abs()).saturating_mul(count.into());
    // The digits are counted when it is made; this many more make no harm.
    if room > 4 * MAX_DIGITS as u64 {
        return Err(mlua::Error::runtime("a number has too many digits"));
    }
    Ok(Ok(BigDecimal::new(
        digits.pow(count),
        scale * i64::from(count),
    )))
}

/// The table of these functions, for a function whose world and whose time these are.
pub(crate) fn table(lua: &Lua, world: &World, watch: &Rc<Watch>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, operation) in OPERATIONS {
        let function = move |lua: &Lua, (a, b): (Value, Value)| {
            let (a, b) = (operand_exact(&a)?, operand_exact(&b)?);
            check(&a, &b)?;
            number(lua, operation(&a, &b))
        };
        table.raw_set(name, lua.create_function(function)?)?;
    }
    add_numbers(lua, &table)?;
    add_roundings(lua, &table)?;
    add_world(lua, &table, world)?;
    add_texts(lua, &table)?;
    text::add(lua, &table, watch)?;
    regex::add(lua, &table, watch)?;
    let format = lua.create_function(|lua, (template, arguments): (String, Table)| {
        answer(lua, format::format(&template, &arguments)?)
    })?;
    table.raw_set("format", format)?;
    Ok(table)
}

/// What makes exact numbers of others, and others of them.
fn add_numbers(lua: &Lua, table: &Table) -> mlua::Result<()> {
    let decimal = |lua: &Lua, value: Value| match value {
        Value::String(text) => number(lua, parsed(&text.to_string_lossy())),
        Value::Number(real) => number(lua, of_real(real)),
        value => number(lua, Ok(operand_exact(&value)?)),
    };
    table.raw_set("decimal", lua.create_function(decimal)?)?;
    let whole =
        |lua: &Lua, text: mlua::LuaString| number(lua, parsed_whole(&text.to_string_lossy()));
    table.raw_set("whole", lua.create_function(whole)?)?;
    let scaled = |lua: &Lua, (value, scale): (Value, i64)| {
        let (digits, of) = operand_exact(&value)?.into_bigint_and_scale();
        number(lua, Ok(BigDecimal::new(digits, of.saturating_add(scale))))
    };
    table.raw_set("scaled", lua.create_function(scaled)?)?;
    let text_of = |_: &Lua, value: Value| {
        let number = operand_exact(&value)?;
        check(&number, &number)?;
        let value = encode_decimal(&number).map_err(mlua::Error::external)?;
        Ok(CqlType::Decimal.format_string(&value))
    };
    table.raw_set("text", lua.create_function(text_of)?)?;
    let real = |_: &Lua, value: Value| Ok(operand_exact(&value)?.to_f64().unwrap_or(f64::NAN));
    table.raw_set("real", lua.create_function(real)?)?;
    let long = |_: &Lua, value: Value| {
        let number = operand_exact(&value)?;
        check(&number, &number)?;
        Ok(low_bits(&number))
    };
    table.raw_set("long", lua.create_function(long)?)?;
    let power = |lua: &Lua, (value, exponent): (Value, i64)| {
        let of = operand_exact(&value)?;
        number(lua, powered(&of, exponent)?)
    };
    table.raw_set("pow", lua.create_function(power)?)?;
    let scale = |_: &Lua, value: Value| Ok(operand_exact(&value)?.fractional_digit_count());
    table.raw_set("scale", lua.create_function(scale)?)?;
    let precision = |_: &Lua, value: Value| Ok(operand_exact(&value)?.digits());
    table.raw_set("precision", lua.create_function(precision)?)?;
    let hash = |_: &Lua, (value, is_whole): (Value, bool)| {
        let (digits, scale) = operand_exact(&value)?.into_bigint_and_scale();
        let hash = hash_of_whole(&digits);
        Ok(match is_whole {
            true => hash,
            false => hash.wrapping_mul(31).wrapping_add(scale as i32),
        })
    };
    table.raw_set("hash", lua.create_function(hash)?)?;
    // Java's `equals` looks at the digits behind the point, too.
    let same = |_: &Lua, (a, b): (Value, Value)| match (operand_exact(&a), operand_exact(&b)) {
        (Ok(a), Ok(b)) => Ok(a.as_bigint_and_scale() == b.as_bigint_and_scale()),
        _ => Ok(false),
    };
    table.raw_set("same", lua.create_function(same)?)
}

fn add_roundings(lua: &Lua, table: &Table) -> mlua::Result<()> {
    let rounding =
        |name: &str| Rounding::of(name).ok_or_else(|| mlua::Error::runtime("no rounding"));
    let rescaled = move |lua: &Lua, (value, scale, name): (Value, i64, String)| {
        let value = operand_exact(&value)?;
        check(&value, &value)?;
        rounding::check_scale(scale)?;
        number(lua, rounding::rescaled(&value, scale, rounding(&name)?))
    };
    table.raw_set("rescaled", lua.create_function(rescaled)?)?;
    let divided = move |lua: &Lua, (a, b, scale, name): (Value, Value, Option<i64>, String)| {
        let (a, b) = (operand_exact(&a)?, operand_exact(&b)?);
        check(&a, &b)?;
        let scale = scale.unwrap_or_else(|| a.fractional_digit_count());
        rounding::check_scale(scale)?;
        number(lua, rounding::quotient(&a, &b, scale, rounding(&name)?))
    };
    table.raw_set("divided", lua.create_function(divided)?)
}

fn add_world(lua: &Lua, table: &Table, world: &World) -> mlua::Result<()> {
    let wall = world.wall_micros.clone();
    table.raw_set("micros", lua.create_function(move |_, ()| Ok(wall()))?)?;
    let random = world.random.clone();
    table.raw_set(
        "random",
        lua.create_function(move |_, ()| Ok(random() as i64))?,
    )
}

type Question = fn(char) -> bool;

/// What is asked of a character; those that are none are none of these.
const QUESTIONS: [(&str, Question); 5] = [
    ("is_digit", char::is_numeric),
    ("is_letter", char::is_alphabetic),
    ("is_blank", char::is_whitespace),
    ("is_upper", char::is_uppercase),
    ("is_lower", char::is_lowercase),
];

fn add_texts(lua: &Lua, table: &Table) -> mlua::Result<()> {
    for (name, question) in QUESTIONS {
        let function = move |_: &Lua, code: u32| Ok(char::from_u32(code).is_some_and(question));
        table.raw_set(name, lua.create_function(function)?)?;
    }
    let show_real = |_: &Lua, (number, is_float): (f64, bool)| {
        Ok(match is_float {
            true => CqlType::Float.format_string(&(number as f32).to_be_bytes()),
            false => CqlType::Double.format_string(&number.to_be_bytes()),
        })
    };
    table.raw_set("show_real", lua.create_function(show_real)?)?;
    // How Java shows what is of one of these types of CQL.
    for (name, ty) in [
        ("show_day", CqlType::Date),
        ("show_time", CqlType::Time),
        ("show_duration", CqlType::Duration),
    ] {
        let show = move |_: &Lua, value: Value| {
            let bytes = FromLua::new(MAX_SHOWN).convert(&ty, &value);
            let bytes = bytes.map_err(mlua::Error::runtime)?.unwrap_or_default();
            Ok(ty.format_string(&bytes))
        };
        table.raw_set(name, lua.create_function(show)?)?;
    }
    let show_address = |_: &Lua, text: String| {
        Ok(match text.parse::<Ipv6Addr>() {
            Ok(address) => address.segments().map(|part| format!("{part:x}")).join(":"),
            Err(_) => text,
        })
    };
    table.raw_set("show_address", lua.create_function(show_address)?)?;
    let read_real = |_: &Lua, text: mlua::LuaString| {
        let value = CqlType::Double.parse_string(&text.to_string_lossy()).ok();
        let bytes = value.and_then(|value| <[u8; 8]>::try_from(&*value).ok());
        Ok(bytes.map(f64::from_be_bytes))
    };
    table.raw_set("read_real", lua.create_function(read_real)?)
}
