//! What is wrong with a command line, in the words of Cassandra's nodetool.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::absent;

/// In one line; `None` if it is no mistake (help was asked for), or if clap's own words are better.
pub(crate) fn complaint(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        // Of what is like a word the last is the most like it.
        Some(ContextValue::Strings(texts)) => texts.last().map(String::as_str),
        _ => None,
    };
    match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            let missing = name(missing.first()?);
            Some(format!("Required parameters are missing: {missing}"))
        }
        ErrorKind::UnknownArgument => {
            let unknown = context(ContextKind::InvalidArg)?;
            Some(format!("Found unexpected parameters: [{unknown}]"))
        }
        ErrorKind::InvalidSubcommand => {
            let verb = context(ContextKind::InvalidSubcommand)?;
            Some(match absent::reason(verb) {
                Some(reason) => format!("{verb}: {reason}"),
                None => {
                    let near = context(ContextKind::SuggestedSubcommand);
                    let near = near.map(|near| format!("; is it {near}?"));
                    let near = near.unwrap_or_default();
                    format!("Found unexpected parameters: [{verb}]{near}")
                }
            })
        }
        ErrorKind::ValueValidation => {
            use std::error::Error;
            let cause = error.source()?.to_string();
            let (parameter, value) = (
                context(ContextKind::InvalidArg)?,
                context(ContextKind::InvalidValue)?,
            );
            // Java's names, which Cassandra shows.
            let kind = match error.source() {
                Some(source) if source.is::<std::num::ParseIntError>() => Some("Integer"),
                Some(source) if source.is::<std::num::ParseFloatError>() => Some("Double"),
                _ => None,
            };
            let parameter = name(parameter);
            let said = |kind| format!("{parameter}: can not convert \"{value}\" to a {kind}");
            Some(kind.map_or(cause, said))
        }
        _ => None,
    }
}

/// A parameter without what clap puts around it.
fn name(shown: &str) -> String {
    let name = shown.trim_start_matches(['<', '[']);
    let name = name.split(['>', ']']).next().unwrap_or(name);
    name.to_ascii_lowercase()
}
