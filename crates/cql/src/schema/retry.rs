//! `speculative_retry` and `additional_write_policy` (`SpeculativeRetryPolicy.fromString`).

use crate::CqlError;
use crate::functions::double_text;

/// One policy, or a part of MIN and MAX.
#[derive(Clone, Copy)]
enum Policy {
    Percentile(f64),
    Fixed(i32),
}

impl Policy {
    fn text(self) -> String {
        match self {
            Policy::Percentile(percent) => {
                let text = double_text(percent);
                format!("{}p", text.strip_suffix(".0").unwrap_or(&text))
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
    let upper = text.trim().to_uppercase();
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
    match simple(text.trim())? {
        Some(policy) => Ok(policy.text()),
        None => refuse(text),
    }
}

fn hybrid(function: &str, rest: &str, text: &str) -> Result<String, CqlError> {
    let inner = rest
        .trim()
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let Some((left, right)) = inner.and_then(|inner| inner.split_once(',')) else {
        return refuse(text);
    };
    let (Some(left), Some(right)) = (simple(left.trim())?, simple(right.trim())?) else {
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
    let text = text.trim();
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}
