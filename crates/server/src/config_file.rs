//! The configuration file: a YAML mapping of option names to values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cql::guardrails::Setting;
use serde::Deserialize;

use crate::encryption::EncryptionOptions;
use crate::guardrails;
use crate::options::{NAMES, StartOptions};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigFileError {
    /// It cannot be read.
    #[error("cannot read the configuration file {path}: {source}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not a YAML mapping of names to single values.
    #[error("{path} is no mapping of option names to values: {reason}", path = .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no such option.
    #[error("{path}: unknown option `{name}`; did you mean `{nearest}`?", path = .path.display())]
    UnknownOption {
        /// The file.
        path: PathBuf,
        /// As it stands in the file.
        name: String,
        /// The known option most like it.
        nearest: String,
    },
    /// The value does not suit the option.
    #[error("{path}: {name}: {reason}", path = .path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The option.
        name: String,
        /// Why.
        reason: String,
    },
}

/// A value as YAML has it; options are understood from text, however it was quoted.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Nothing(()),
    Whole(i64),
    Real(f64),
    Truth(bool),
    Text(String),
    List(Vec<Value>),
    Mapping(BTreeMap<String, Value>),
}

impl Value {
    /// The text of a single value; none if there is nothing.
    ///
    /// # Errors
    /// It is no single value.
    pub(crate) fn text(&self) -> Result<String, String> {
        Ok(match self {
            Value::Nothing(()) => String::new(),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Truth(truth) => truth.to_string(),
            Value::Text(text) => text.clone(),
            Value::List(_) | Value::Mapping(_) => {
                return Err("a single value is expected".to_owned());
            }
        })
    }
}

/// The option that has options of its own.
const ENCRYPTION: &str = "server_encryption_options";

/// Reads the options in the file at `path`.
pub(crate) fn read(path: &Path) -> Result<StartOptions, ConfigFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigFileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text)
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<StartOptions, ConfigFileError> {
    let mut options = StartOptions::default();
    if is_blank(text) {
        return Ok(options);
    }
    let entries: BTreeMap<String, Value> =
        serde_saphyr::from_str(text).map_err(|error| ConfigFileError::Malformed {
            path: path.to_owned(),
            reason: first_line(&error.to_string()),
        })?;
    for (name, value) in entries {
        // `commitlog-sync`, as on the command line, is as good as `commitlog_sync`.
        let canonical = name.replace('-', "_");
        let bad = |reason| ConfigFileError::BadValue {
            path: path.to_owned(),
            name: name.clone(),
            reason,
        };
        if canonical == ENCRYPTION {
            let parsed = EncryptionOptions::parse(&value).map_err(bad)?;
            options.server_encryption_options = Some(parsed);
            continue;
        }
        if let Some(setting) = Setting::named(&canonical) {
            guardrails::set(&mut options.guardrails, setting, &value).map_err(bad)?;
            continue;
        }
        if !NAMES.contains(&canonical.as_str()) {
            return Err(ConfigFileError::UnknownOption {
                path: path.to_owned(),
                nearest: nearest(&canonical),
                name,
            });
        }
        let text = value.text().map_err(bad)?;
        options.set(&canonical, &text).map_err(bad)?;
    }
    Ok(options)
}

/// Nothing but comments?
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn nearest(name: &str) -> String {
    let known = NAMES.into_iter().chain([ENCRYPTION]).map(str::to_owned);
    let known = known.chain(Setting::all().map(Setting::name));
    let nearest = known.max_by(|a, b| {
        let likeness = |known| strsim::jaro_winkler(name, known);
        likeness(a).total_cmp(&likeness(b))
    });
    nearest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SyncMode;

    fn parse_text(text: &str) -> Result<StartOptions, String> {
        parse(Path::new("h.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        let options = parse_text(
            "# A node\ndata: /tmp/x\nport: 9043\nmemory: 2G\nshards: '4'\n\
             commitlog-sync: periodic\naddress: 10.0.0.5\ncluster_name: 17\n",
        )
        .expect("it is good");
        assert_eq!(options.data, Some(PathBuf::from("/tmp/x")));
        assert_eq!((options.port, options.shards), (Some(9043), Some(4)));
        assert_eq!(options.memory, Some(2 << 30));
        assert_eq!(options.commitlog_sync, Some(SyncMode::Periodic));
        assert_eq!(options.cluster_name.as_deref(), Some("17"));
        assert_eq!(parse_text(""), Ok(StartOptions::default()));
        assert_eq!(parse_text("---\n# none\n"), Ok(StartOptions::default()));
    }

    #[test]
    fn an_unknown_option_is_named_with_the_nearest_known_one() {
        for (text, message) in [
            (
                "prot: 1",
                "h.yaml: unknown option `prot`; did you mean `port`?",
            ),
            (
                "commitlog-synch: batch",
                "h.yaml: unknown option `commitlog-synch`; did you mean `commitlog_sync`?",
            ),
            (
                "memroy: 1G",
                "h.yaml: unknown option `memroy`; did you mean `memory`?",
            ),
        ] {
            assert_eq!(parse_text(text), Err(message.to_owned()));
        }
    }

    #[test]
    fn bad_values_and_files_are_refused_in_one_line() {
        assert_eq!(
            parse_text("port: none"),
            Err("h.yaml: port: `none` is no port: 1 to 65535".to_owned())
        );
        for text in [
            "just text",
            "- a\n- b",
            "port: [1, 2]",
            "a: b: c",
            "port: {x: 1}",
            "port: 1\nport: 2",
        ] {
            let error = parse_text(text).expect_err(text);
            assert!(error.starts_with("h.yaml"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let missing = read(Path::new("/nowhere/h.yaml")).expect_err("it is not there");
        assert!(missing.to_string().contains("/nowhere/h.yaml"));
    }
}
