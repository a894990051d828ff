//! `speculative_retry` and `additional_write_policy` (`SpeculativeRetryPolicy.fromString`).

use crate::CqlError;

/// One policy, or a part of MIN and MAX.
#[derive(Clone, Copy)]
enum Policy {
    Percentile(f64),
    Fixed(i32),
}

impl Policy {
    fn text(self) -> String {
        match self {
            // `DecimalFormat("#.####")`
            Policy::Percentile(percent) => {
                let text = format!("{percent:.4}");
                let text = text.trim_end_matches('0').trim_end_matches('.');
                format!("{text}p")
            }
            Policy::Fixed(millis) => format!("{millis}ms"),
        }
    }
}

fn refuse<T>(text: &str) -> Result<T, CqlError> {
    // Cassandra names speculative_retry for both options.
    Err(CqlError::Config(format!(
        "Invalid value {text} for option 'speculative_retry'"
    )))
}

/// The form in which `system_schema.tables` shows a policy, of all the forms it may be given in.
pub fn normalize(text: &str) -> Result<String, CqlError> {
    let upper = text.to_uppercase();
    match upper.as_str() {
        "NEVER" | "NONE" => return Ok("NEVER".to_owned()),
        "ALWAYS" => return Ok("ALWAYS".to_owned()),
        _ => {}
    }
    for function in ["MIN", "MAX"] {
        if let Some(rest) = upper.strip_prefix(function) {
            return hybrid(function, rest, text);
        }
    }
    match simple(text)? {
        Some(policy) => Ok(policy.text()),
        None => refuse(text),
    }
}

/// Spaces may stand around the comma, and nowhere else.
fn hybrid(function: &str, rest: &str, text: &str) -> Result<String, CqlError> {
    let inner = rest
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let Some((left, right)) = inner.and_then(|inner| inner.split_once(',')) else {
        return refuse(text);
    };
    let part = |part: &str| simple(part).unwrap_or(None);
    let (Some(left), Some(right)) = (part(left.trim_end()), part(right.trim_start())) else {
        return refuse(text);
    };
    match (left, right) {
        (Policy::Percentile(_), Policy::Fixed(_)) => {
            Ok(format!("{function}({},{})", left.text(), right.text()))
        }
        (Policy::Fixed(_), Policy::Percentile(_)) => {
            Ok(format!("{function}({},{})", right.text(), left.text()))
        }
        (Policy::Percentile(_), Policy::Percentile(_)) => refuse_alike(text, "PERCENTILE"),
        (Policy::Fixed(_), Policy::Fixed(_)) => refuse_alike(text, "FIXED"),
    }
}

fn refuse_alike(text: &str, kind: &str) -> Result<String, CqlError> {
    Err(CqlError::Config(format!(
        "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be of different types, \
         but both are of type {kind}"
    )))
}

/// `99p`, `99PERCENTILE` or `50ms`.
fn simple(text: &str) -> Result<Option<Policy>, CqlError> {
    let upper = text.to_uppercase();
    if let Some(millis) = upper.strip_suffix("MS") {
        return Ok(plain_number(millis).map(|n| Policy::Fixed(n as i32)));
    }
    let Some(percent) = upper
        .strip_suffix("PERCENTILE")
        .or_else(|| upper.strip_suffix('P'))
        .and_then(plain_number)
    else {
        return Ok(None);
    };
    if percent <= 0.0 || percent >= 100.0 {
        return Err(CqlError::Config(format!(
            "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and \
             100.0)"
        )));
    }
    Ok(Some(Policy::Percentile(percent)))
}

fn plain_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a Cassandra 5.0.6's answers.
    #[test]
    fn policies_are_shown_in_one_form() {
        for (given, shown) in [
            ("none", "NEVER"),
            ("99percentile", "99p"),
            ("0.12345p", "0.1235p"),
            ("99.99995p", "99.9999p"),
            ("99.999951p", "100p"),
            ("12.34565p", "12.3456p"),
            ("33.33335p", "33.3334p"),
            ("0.00004p", "0p"),
            ("MIN(99.123456p,5ms)", "MIN(99.1235p,5ms)"),
            ("max(5MS ,\t50.50p)", "MAX(50.5p,5ms)"),
        ] {
            assert_eq!(normalize(given).as_deref(), Ok(shown), "{given}");
        }
    }
}
