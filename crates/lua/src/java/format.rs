//! `String.format`.

use std::str::Chars;

use bigdecimal::{BigDecimal, ToPrimitive};
use mlua::{Table, Value};
use num_bigint::BigInt;

use super::native::Thrown;
use super::rounding::{Rounding, rescaled};
use crate::decimal::{check, operand_exact};

/// How wide a value may be made, and how long a text: more would take all memory, or long.
const MAX_WIDTH: usize = 10_000;
const MAX_LENGTH: usize = 1 << 20;

/// `%1$-5.2f`, say.
struct Specifier {
    /// As it is written.
    text: String,
    index: Index,
    flags: String,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

enum Index {
    Next,
    /// `<`: the one before.
    Same,
    At(usize),
}

/// A value, with its class and its text.
struct Argument {
    value: Value,
    class: String,
    shown: String,
}

/// What ends a call of a function for good.
fn too_long() -> mlua::Error {
    mlua::Error::runtime("not enough memory")
}

fn unknown(conversion: impl std::fmt::Display) -> Thrown {
    format!("java.util.UnknownFormatConversionException: Conversion = '{conversion}'")
}

/// The text, or what is thrown. `arguments` are tables of a value, its class and its text.
pub(super) fn format(template: &str, arguments: &Table) -> mlua::Result<Result<String, Thrown>> {
    let mut text = String::new();
    let mut rest = template.chars();
    let (mut next, mut last) = (0, None);
    while let Some(c) = rest.next() {
        if text.len() > MAX_LENGTH {
            return Err(too_long());
        }
        if c != '%' {
            text.push(c);
            continue;
        }
        let specifier = match specifier(&mut rest)? {
            Ok(specifier) => specifier,
            Err(thrown) => return Ok(Err(thrown)),
        };
        match specifier.conversion {
            'n' => text.push('\n'),
            '%' => text.push_str(&padded("%".to_owned(), &specifier)),
            _ => {
                let at = match specifier.index {
                    Index::At(at) => Some(at),
                    Index::Same => last,
                    Index::Next => {
                        next += 1;
                        Some(next)
                    }
                };
                last = at;
                let Some(argument) = at.map(|at| argument(arguments, at)).transpose()?.flatten()
                else {
                    let text = specifier.text;
                    return Ok(Err(format!(
                        "java.util.MissingFormatArgumentException: Format specifier '{text}'"
                    )));
                };
                match converted(&specifier, &argument)? {
                    Ok(part) => text.push_str(&part),
                    Err(thrown) => return Ok(Err(thrown)),
                }
            }
        }
    }
    Ok(Ok(text))
}

fn argument(arguments: &Table, at: usize) -> mlua::Result<Option<Argument>> {
    let Some(parts) = arguments.raw_get::<Option<Table>>(at)? else {
        return Ok(None);
    };
    Ok(Some(Argument {
        value: parts.raw_get("value")?,
        class: parts.raw_get("class")?,
        shown: parts.raw_get("shown")?,
    }))
}

fn digits(rest: &mut Chars<'_>, text: &mut String) -> mlua::Result<Option<usize>> {
    let end = rest.as_str().find(|c: char| !c.is_ascii_digit());
    let (digits, behind) = rest.as_str().split_at(end.unwrap_or(rest.as_str().len()));
    text.push_str(digits);
    let number = match digits {
        "" => None,
        digits => Some(digits.parse().map_err(|_| too_long())?),
    };
    *rest = behind.chars();
    match number {
        Some(number) if number > MAX_WIDTH => Err(too_long()),
        number => Ok(number),
    }
}

/// What is behind a `%`.
fn specifier(rest: &mut Chars<'_>) -> mlua::Result<Result<Specifier, Thrown>> {
    let mut text = "%".to_owned();
    let mut index = Index::Next;
    let began = rest.clone();
    match digits(rest, &mut text)? {
        Some(at) if rest.as_str().starts_with('$') => {
            rest.next();
            text.push('$');
            index = Index::At(at);
        }
        _ => {
            *rest = began;
            text.truncate(1);
        }
    }
    let mut flags = String::new();
    while let Some(flag) = rest
        .as_str()
        .chars()
        .next()
        .filter(|c| "-#+ 0,(<".contains(*c))
    {
        rest.next();
        text.push(flag);
        match flag {
            '<' => index = Index::Same,
            flag => flags.push(flag),
        }
    }
    let width = digits(rest, &mut text)?;
    let mut precision = None;
    if rest.as_str().starts_with('.') {
        rest.next();
        text.push('.');
        precision = digits(rest, &mut text)?;
        if precision.is_none() {
            return Ok(Err(unknown('.')));
        }
    }
    let Some(conversion) = rest.next() else {
        return Ok(Err(unknown(text.chars().nth(1).unwrap_or('%'))));
    };
    text.push(conversion);
    if flags.contains(['-', '0']) && width.is_none() {
        return Ok(Err(format!(
            "java.util.MissingFormatWidthException: {text}"
        )));
    }
    Ok(Ok(Specifier {
        text,
        index,
        flags,
        width: width.unwrap_or_default(),
        precision,
        conversion,
    }))
}

fn padded(text: String, specifier: &Specifier) -> String {
    let blanks = specifier.width.saturating_sub(text.encode_utf16().count());
    match specifier.flags.contains('-') {
        true => text + &" ".repeat(blanks),
        false => " ".repeat(blanks) + &text,
    }
}

fn converted(specifier: &Specifier, argument: &Argument) -> mlua::Result<Result<String, Thrown>> {
    let conversion = specifier.conversion;
    let wrong = || {
        let class = &argument.class;
        format!("java.util.IllegalFormatConversionException: {conversion} != {class}")
    };
    let is_whole = ["Integer", "Long", "Short", "Byte"]
        .iter()
        .any(|class| argument.class == format!("java.lang.{class}"))
        || argument.class == "java.math.BigInteger";
    let is_real = [
        "java.lang.Double",
        "java.lang.Float",
        "java.math.BigDecimal",
    ]
    .contains(&argument.class.as_str());
    let text = match conversion.to_ascii_lowercase() {
        's' => cut(argument.shown.clone(), specifier),
        'b' => cut(shown_boolean(argument), specifier),
        'd' | 'x' | 'o' | 'c' | 'f' | 'e' | 'g' if argument.value.is_nil() => {
            cut("null".to_owned(), specifier)
        }
        'c' if argument.class == "java.lang.Character" => argument.shown.clone(),
        'c' if is_whole => match (&argument.value, conversion) {
            (Value::Integer(code), _) => {
                let c = u32::try_from(*code).ok().and_then(char::from_u32);
                c.map(String::from).unwrap_or_default()
            }
            _ => return Ok(Err(wrong())),
        },
        'd' if is_whole => return Ok(Ok(whole(specifier, &argument.value)?)),
        'x' | 'o' if is_whole => bits(specifier, argument)?,
        'f' | 'e' | 'g' if is_real => return real(specifier, argument),
        'd' | 'x' | 'o' | 'c' | 'f' | 'e' | 'g' => return Ok(Err(wrong())),
        'h' | 'a' | 't' => {
            return Ok(Err(format!(
                "java.lang.UnsupportedOperationException: %{conversion} is not available in Helenus"
            )));
        }
        _ => return Ok(Err(unknown(conversion))),
    };
    let text = match conversion.is_uppercase() {
        true => text.to_uppercase(),
        false => text,
    };
    Ok(Ok(padded(text, specifier)))
}

fn cut(text: String, specifier: &Specifier) -> String {
    match specifier.precision {
        Some(count) => text.chars().take(count).collect(),
        None => text,
    }
}

fn shown_boolean(argument: &Argument) -> String {
    let is_true = !matches!(argument.value, Value::Nil | Value::Boolean(false));
    is_true.to_string()
}

/// With the sign, the zeros and the commas that are asked for.
fn signed(specifier: &Specifier, is_negative: bool, digits: &str) -> String {
    let has = |flag| specifier.flags.contains(flag);
    let end = digits.find('.').unwrap_or(digits.len());
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if has(',') && at > 0 && at < end && (end - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let (before, behind) = match is_negative {
        true if has('(') => ("(", ")"),
        true => ("-", ""),
        false if has('+') => ("+", ""),
        false if has(' ') => (" ", ""),
        false => ("", ""),
    };
    let room = specifier.width.saturating_sub(before.len() + behind.len());
    let zeros = match has('0') {
        true => "0".repeat(room.saturating_sub(text.len())),
        false => String::new(),
    };
    padded(format!("{before}{zeros}{text}{behind}"), specifier)
}

fn whole(specifier: &Specifier, value: &Value) -> mlua::Result<String> {
    let number = operand_exact(value)?;
    check(&number, &number)?;
    let digits = number.into_bigint_and_scale().0;
    let is_negative = digits < BigInt::ZERO;
    Ok(signed(
        specifier,
        is_negative,
        &digits.magnitude().to_string(),
    ))
}

/// `%x` and `%o`: of what is negative the bits that its class has.
fn bits(specifier: &Specifier, argument: &Argument) -> mlua::Result<String> {
    let is_hex = specifier.conversion.eq_ignore_ascii_case(&'x');
    let digits = match &argument.value {
        Value::Integer(number) => {
            let bits = match argument.class.as_str() {
                "java.lang.Integer" => u64::from(*number as u32),
                "java.lang.Short" => u64::from(*number as u16),
                "java.lang.Byte" => u64::from(*number as u8),
                _ => *number as u64,
            };
            if is_hex {
                format!("{bits:x}")
            } else {
                format!("{bits:o}")
            }
        }
        value => {
            let number = operand_exact(value)?.into_bigint_and_scale().0;
            if is_hex {
                format!("{number:x}")
            } else {
                format!("{number:o}")
            }
        }
    };
    let base = match (specifier.flags.contains('#'), is_hex) {
        (false, _) => "",
        (true, true) => "0x",
        (true, false) => "0",
    };
    let room = specifier.width.saturating_sub(base.len());
    let zeros = match specifier.flags.contains('0') {
        true => "0".repeat(room.saturating_sub(digits.len())),
        false => String::new(),
    };
    Ok(format!("{base}{zeros}{digits}"))
}

fn real(specifier: &Specifier, argument: &Argument) -> mlua::Result<Result<String, Thrown>> {
    let number = match argument
        .value
        .as_number()
        .filter(|_| !argument.value.is_userdata())
    {
        Some(real) if !real.is_finite() => {
            let text = match real {
                _ if real.is_nan() => "NaN",
                _ if real > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            return Ok(Ok(padded(text.to_owned(), specifier)));
        }
        // The fewest digits that tell it from others, as Java rounds them.
        Some(real) => {
            let text = match argument.class.as_str() {
                "java.lang.Float" => (real as f32).to_string(),
                _ => real.to_string(),
            };
            text.parse::<BigDecimal>().unwrap_or_default()
        }
        None => operand_exact(&argument.value)?,
    };
    check(&number, &number)?;
    let is_minus_zero = argument
        .value
        .as_number()
        .is_some_and(|n| n == 0.0 && n.is_sign_negative());
    let is_negative = number < BigDecimal::default() || is_minus_zero;
    let number = number.abs();
    let precision = specifier.precision.unwrap_or(6);
    let digits = match specifier.conversion.to_ascii_lowercase() {
        'f' => fixed(&number, precision),
        'e' => with_exponent(&number, precision),
        _ => general(&number, precision.max(1)),
    };
    let text = digits.map(|digits| signed(specifier, is_negative, &digits));
    Ok(text.map(|text| match specifier.conversion.is_uppercase() {
        true => text.to_uppercase(),
        false => text,
    }))
}

fn fixed(number: &BigDecimal, precision: usize) -> Result<String, Thrown> {
    let rounded = rescaled(number, precision as i64, Rounding::HalfUp)?;
    Ok(rounded.to_plain_string())
}

/// What power of ten the first digit stands for.
fn exponent(number: &BigDecimal) -> i64 {
    match *number == BigDecimal::default() {
        true => 0,
        false => number.digits() as i64 - 1 - number.fractional_digit_count(),
    }
}

fn with_exponent(number: &BigDecimal, precision: usize) -> Result<String, Thrown> {
    let places = precision as i64;
    let mut power = exponent(number);
    let mut rounded = rescaled(number, places - power, Rounding::HalfUp)?;
    // 9.99 becomes 10.0.
    if exponent(&rounded) > power {
        power += 1;
        rounded = rescaled(number, places - power, Rounding::HalfUp)?;
    }
    let digits = rounded.as_bigint_and_scale().0.to_string();
    let (first, rest) = digits.split_at(1);
    let zeros = "0".repeat(precision.saturating_sub(rest.len()));
    let point = if precision == 0 { "" } else { "." };
    let sign = if power < 0 { '-' } else { '+' };
    Ok(format!(
        "{first}{point}{rest}{zeros}e{sign}{:02}",
        power.abs()
    ))
}

fn general(number: &BigDecimal, precision: usize) -> Result<String, Thrown> {
    let places = precision as i64;
    let rounded = rescaled(number, places - 1 - exponent(number), Rounding::HalfUp)?;
    let power = exponent(&rounded);
    match power >= -4 && power < places {
        true => fixed(number, (places - 1 - power).to_usize().unwrap_or_default()),
        false => with_exponent(number, precision - 1),
    }
}
