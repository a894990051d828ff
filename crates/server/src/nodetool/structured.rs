//! Output for programs: JSON and YAML.

use std::io::Write;

use serde_json::Value;

use super::api::NodetoolError;

/// A format that programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "json" => Ok(Format::Json),
            "yaml" => Ok(Format::Yaml),
            _ => Err("arguments for -F are json,yaml only.".to_owned()),
        }
    }
}

/// What Java's `NaN` is in a format.
pub(super) fn no_number(format: Option<Format>) -> Value {
    match format {
        Some(Format::Yaml) => Value::from(NO_NUMBER),
        _ => Value::from("NaN"),
    }
}

/// YAML's own word.
const NO_NUMBER: &str = ".NaN";

/// Prints a value.
pub(super) fn print(
    format: Format,
    value: &Value,
    out: &mut impl Write,
) -> Result<(), NodetoolError> {
    match format {
        Format::Json => writeln!(out, "{value:#}")?,
        Format::Yaml => {
            let mut text = String::new();
            yaml(value, 0, &mut text);
            writeln!(out, "{text}")?;
        }
    }
    Ok(())
}

/// Block style, as snakeyaml writes it; lists are not indented.
fn yaml(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                text.push_str(&format!("{indent}{}:", scalar(&Value::from(name.as_str()))));
                nested(value, depth, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut part = String::new();
                yaml(item, depth + 1, &mut part);
                // The first line stands behind the dash.
                text.push_str(&format!("{indent}- {}", part.trim_start()));
            }
        }
        other => text.push_str(&format!("{indent}{}\n", scalar(other))),
    }
}

fn nested(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            text.push('\n');
            yaml(value, depth + 1, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            yaml(value, depth, text);
        }
        other => text.push_str(&format!(" {}\n", scalar(other))),
    }
}

/// A text is quoted unless nobody could take it for something else.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./ ".contains(c))
        && !text.ends_with(' ')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    match plain || text == NO_NUMBER {
        true => text.clone(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_reads_as_it_was() {
        let value = json!({
            "a": 1,
            "b": { "c": "0", "d": [], "e": {}, "f": null },
            "list": [{ "x": "it's", "z": [1.5, true] }, "no"],
        });
        let mut text = String::new();
        yaml(&value, 0, &mut text);
        let expected = "a: 1\nb:\n  c: '0'\n  d: []\n  e: {}\n  f: null\nlist:\n- x: 'it''s'\n  z:\n  - 1.5\n  - true\n- 'no'\n";
        assert_eq!(text, expected);
    }
}
