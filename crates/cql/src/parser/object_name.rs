//! Names of JMX objects, as permissions name them (`javax.management.ObjectName`,
//! `Parser.canonicalizeObjectName`).

use std::collections::BTreeSet;

use super::Parsed;
use crate::CqlError;

/// Refuses what is no name, and the plural for a name that is no pattern.
pub(super) fn check(name: &str, plural: bool) -> Parsed<()> {
    let refuse = |why: String| Err(CqlError::Syntax(why));
    if name.is_empty() {
        return refuse("Empty JMX object name supplied".to_owned());
    }
    if name == "*:*" {
        return refuse("Please use ALL MBEANS instead of wildcard pattern".to_owned());
    }
    if !is_name(name) {
        return refuse(format!("{name} is not a valid JMX object name"));
    }
    if plural && !name.contains(['*', '?']) {
        return refuse(format!(
            "Plural form used, but non-pattern JMX object name specified ({name})"
        ));
    }
    Ok(())
}

/// A domain and at least one property, each once; one of them may be `*`, which stands for more.
fn is_name(name: &str) -> bool {
    let Some((domain, properties)) = name.split_once(':') else {
        return false;
    };
    let mut keys = BTreeSet::new();
    let mut rest = Some(properties);
    while let Some(text) = rest {
        let (property, after) = property(text);
        let (key, is_whole) = match property.split_once('=') {
            Some((key, value)) => (key, is_key(key) && is_value(value)),
            None => (property, property == "*"),
        };
        if !is_whole || !keys.insert(key) {
            return false;
        }
        rest = after;
    }
    !domain.contains('\n')
}

/// The first property, and what is behind its comma. Commas between quotes are part of it.
fn property(text: &str) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    let comma = text.find(|c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    match comma {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && !key.contains([':', '*', '?', '\n'])
}

fn is_value(value: &str) -> bool {
    match value.strip_prefix('"') {
        Some(rest) => rest.ends_with('"'),
        None => !value.contains([':', '=', '"', '\n']),
    }
}
