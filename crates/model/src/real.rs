//! The texts of `float` and `double`, as Java reads and writes them (`Float.toString`).

/// A finite or infinite number, or NaN, from its text: blanks around it, a sign, and a `f` or `d`
/// behind it are allowed. What is too large is infinite.
pub(crate) fn from_text<F: std::str::FromStr>(text: &str) -> Option<F> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => return "NaN".parse().ok(),
        "Infinity" => return text.parse().ok(),
        _ => {}
    }
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if !digits.chars().all(plain) {
        return None;
    }
    digits.parse().ok()
}

/// The text of a `float`.
pub(crate) fn float_to_text(value: f32) -> String {
    to_text(value.is_nan(), value.is_infinite(), value < 0.0, |digits| {
        print(digits, value)
    })
}

/// The text of a `double`.
pub(crate) fn double_to_text(value: f64) -> String {
    to_text(value.is_nan(), value.is_infinite(), value < 0.0, |digits| {
        print(digits, value)
    })
}

/// In scientific form: the shortest that is read back as the same number, or with one digit
/// behind the point.
fn print(two_digits: bool, value: impl std::fmt::LowerExp) -> String {
    if two_digits {
        format!("{value:.1e}")
    } else {
        format!("{value:e}")
    }
}

/// Java writes at least one digit on both sides of the point, and an exponent outside
/// 0.001..10 000 000.
fn to_text(nan: bool, infinite: bool, negative: bool, print: impl Fn(bool) -> String) -> String {
    if nan {
        return "NaN".to_owned();
    }
    if infinite {
        return if negative { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let mut text = print(false);
    if !text.contains('.') {
        // Of two digits, the nearest: 4.9E-324 rather than 5E-324.
        text = print(true);
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    if first == "0" {
        return format!("{sign}0.0");
    }
    match exponent {
        -3..0 => {
            let zeros = "0".repeat((-exponent - 1) as usize);
            let digits = format!("{first}{rest}");
            format!("{sign}0.{zeros}{}", digits.trim_end_matches('0'))
        }
        0..7 => {
            let split = exponent as usize;
            let padded = format!("{rest:0<split$}");
            let (whole, fraction) = padded.split_at(split);
            let fraction = if fraction.is_empty() { "0" } else { fraction };
            format!("{sign}{first}{whole}.{fraction}")
        }
        _ => format!("{sign}{first}.{rest}E{exponent}"),
    }
}
