//! Sizes as people write them: `1.5 GiB`, `100MB` (`FBUtilities.parseHumanReadable`).

/// Prefixes of units, by powers of a thousand; the blank stands for no prefix.
const PREFIXES: &str = "qryzafpnum KMGTPEZYRQ";
/// Where in them there is no prefix.
const NO_PREFIX: i32 = 10;

/// A text is no size. Says so in the words of Cassandra.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It has no unit at its end.
    #[error("{0} does not end in unit B")]
    NoUnit(String),
    /// It does not begin with a number. (Cassandra's exception has no message then.)
    #[error("null")]
    NoNumber,
    /// The exponent after `*2^` is too large.
    #[error("For input string: \"{0}\"")]
    Exponent(String),
    /// There is something between the number and the unit that is no prefix.
    #[error("Unexpected characters between pos {from} and {to} in {text}")]
    Unexpected {
        /// Where it begins.
        from: usize,
        /// Where the unit begins.
        to: usize,
        /// All of it.
        text: String,
    },
}

/// A size in bytes: a number that may have an exponent of ten (`1e6`) or of two (`3*2^20`), blanks,
/// a decimal (`M`) or binary (`Mi`) prefix, and `B`. No blanks before or behind it.
pub fn parse_size(text: &str) -> Result<f64, SizeError> {
    let Some(all) = text.strip_suffix('B') else {
        return Err(SizeError::NoUnit(text.to_owned()));
    };
    let (length, has_exponent) = number_length(all).ok_or(SizeError::NoNumber)?;
    let (number, mut rest) = all.split_at(length);
    let mut size = number.parse().map_err(|_| SizeError::NoNumber)?;
    if !has_exponent && let Some(power) = rest.strip_prefix("*2^") {
        let (digits, behind) = power.split_at(signed_digits(power));
        if !digits.is_empty() {
            let power = digits.parse();
            size = scale(
                size,
                power.map_err(|_| SizeError::Exponent(digits.to_owned()))?,
            );
            rest = behind;
        }
    }
    rest = rest.trim_start_matches(is_blank);
    let prefix = rest.chars().next().and_then(|c| PREFIXES.find(c));
    if let Some(prefix) = prefix {
        // Those between are all of one byte.
        let power = prefix as i32 - NO_PREFIX;
        rest = &rest[1..];
        match rest.strip_prefix('i') {
            Some(behind) => {
                size = scale(size, power * 10);
                rest = behind;
            }
            // As Cassandra reckons, for which 1GB is a little less than it says.
            None => size *= (1000f64.ln() * f64::from(power)).exp(),
        }
    }
    match rest.is_empty() {
        true => Ok(size),
        false => {
            let units = |text: &str| text.encode_utf16().count();
            let to = units(all);
            Err(SizeError::Unexpected {
                from: to - units(rest),
                to,
                text: text.to_owned(),
            })
        }
    }
}

/// How long the number is at the beginning, and whether it has an exponent:
/// `NaN|[+-]?Infinity|[+-]?\d+(\.\d+)?([eE]([+-]?)\d+)?`.
fn number_length(text: &str) -> Option<(usize, bool)> {
    let sign = usize::from(text.starts_with(['+', '-']));
    if text.starts_with("NaN") {
        return Some((3, false));
    }
    if text[sign..].starts_with("Infinity") {
        return Some((sign + "Infinity".len(), false));
    }
    let mut length = match digits(&text[sign..]) {
        0 => return None,
        whole => sign + whole,
    };
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += match digits(fraction) {
            0 => 0,
            fraction => 1 + fraction,
        };
    }
    if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
        match signed_digits(exponent) {
            0 => {}
            exponent => return Some((length + 1 + exponent, true)),
        }
    }
    Some((length, false))
}

/// How many digits there are at the beginning.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// How long `[+-]?\d+` is at the beginning; 0 if there is none.
fn signed_digits(text: &str) -> usize {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match digits(unsigned) {
        0 => 0,
        digits => text.len() - unsigned.len() + digits,
    }
}

/// Times two to the power (`Math.scalb`).
fn scale(mut number: f64, power: i32) -> f64 {
    // Beyond that it is nothing or infinite; and in steps, as 2^1100 alone would be infinite.
    let mut left = power.clamp(-2200, 2200);
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        number *= 2f64.powi(step);
        left -= step;
    }
    number
}

/// `Character.isWhitespace`.
fn is_blank(c: char) -> bool {
    match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        c => c.is_whitespace(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_prefixes_and_exponents() {
        for (text, expected) in [
            ("7B", 7.0),
            ("1GB", 1e9),
            ("1GiB", 1_073_741_824.0),
            ("1.5 MiB", 1_572_864.0),
            ("1.5 \t MB", 1_500_000.0),
            ("+2KB", 2000.0),
            ("-3KiB", -3072.0),
            ("1e3B", 1000.0),
            ("1E-3 KB", 1.0),
            ("3*2^20B", 3_145_728.0),
            ("3*2^-1 KiB", 1536.0),
            ("5000mB", 5.0),
            ("2048miB", 2.0),
            ("InfinityB", f64::INFINITY),
            ("0*2^99999B", 0.0),
            ("1*2^99999B", f64::INFINITY),
        ] {
            let size = parse_size(text).unwrap_or(f64::NAN);
            let close = size == expected || (size / expected - 1.0).abs() < 1e-12;
            assert!(close, "{text}: {size}");
        }
        assert!(parse_size("NaNB").is_ok_and(f64::is_nan));
    }

    #[test]
    fn other_texts_are_refused_in_the_words_of_cassandra() {
        for (text, expected) in [
            ("1GiB ", "1GiB  does not end in unit B"),
            ("1Gi", "1Gi does not end in unit B"),
            ("", " does not end in unit B"),
            (" 1GiB", "null"),
            ("B", "null"),
            (".5B", "null"),
            (
                "1.GiB",
                "Unexpected characters between pos 1 and 4 in 1.GiB",
            ),
            ("1GGB", "Unexpected characters between pos 2 and 3 in 1GGB"),
            ("1gB", "Unexpected characters between pos 1 and 2 in 1gB"),
            ("1eB", "Unexpected characters between pos 1 and 2 in 1eB"),
            (
                "1M iB",
                "Unexpected characters between pos 2 and 4 in 1M iB",
            ),
            (
                "1e2*2^3B",
                "Unexpected characters between pos 3 and 7 in 1e2*2^3B",
            ),
            ("1*2^99999999999B", "For input string: \"99999999999\""),
        ] {
            let answer = parse_size(text).map_err(|error| error.to_string());
            assert_eq!(answer, Err(expected.to_owned()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_none(text in "[0-9.eE*^+iKMB é-]{0,12}B?") {
            let _ = parse_size(&text);
        }
    }
}
