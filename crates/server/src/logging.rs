//! Logs go to standard error; `HELENUS_LOG` chooses what (`info` if it says nothing), and operators while
//! the node runs.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{Directive, EnvFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// What has no level of its own, as Cassandra's nodetool calls it.
const ROOT: &str = "ROOT";

/// What is logged, by target; changed while the process runs.
pub(crate) struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
    /// What operators set on top of what the process was started with.
    set: Mutex<BTreeMap<String, LevelFilter>>,
}

/// What the process was started with.
fn at_start() -> EnvFilter {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var("HELENUS_LOG")
        .from_env_lossy();
    // It tells each step of its life as news.
    match std::env::var("HELENUS_LOG") {
        Ok(chosen) if chosen.contains("openraft") => filter,
        _ => filter.add_directive(directive("openraft", LevelFilter::ERROR)),
    }
}

/// # Panics
/// The name is none of a target: callers look before.
fn directive(target: &str, level: LevelFilter) -> Directive {
    match target {
        ROOT => level.into(),
        target => format!("{target}={level}")
            .parse()
            .expect("a name and a level"),
    }
}

/// Can a target be called so?
fn is_target(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(fits)
}

/// Begins logging, once in the life of the process.
pub(crate) fn start() -> Logs {
    let (filter, handle) = reload::Layer::new(at_start());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    Logs {
        filter: handle,
        set: Mutex::default(),
    }
}

impl Logs {
    /// Logs so much of a target from now on.
    ///
    /// # Errors
    /// There is no such level, or no target can be called so.
    pub(crate) fn set(&self, target: &str, level: &str) -> Result<(), String> {
        let known: LevelFilter = level.parse().map_err(|_| {
            format!("`{level}` is no level: there are TRACE, DEBUG, INFO, WARN, ERROR and OFF")
        })?;
        if !is_target(target) {
            return Err(format!(
                "`{target}` is no part of Helenus: name ROOT, a crate such as storage, or a module such as \
                 node::hints"
            ));
        }
        let mut set = self.set.lock().unwrap_or_else(|gone| gone.into_inner());
        set.insert(target.to_owned(), known);
        self.apply(&set)
    }

    /// Logs what was logged at the start.
    ///
    /// # Errors
    /// The process is about to end.
    pub(crate) fn reset(&self) -> Result<(), String> {
        let mut set = self.set.lock().unwrap_or_else(|gone| gone.into_inner());
        set.clear();
        self.apply(&set)
    }

    fn apply(&self, set: &BTreeMap<String, LevelFilter>) -> Result<(), String> {
        let filter = set.iter().fold(at_start(), |filter, (target, level)| {
            filter.add_directive(directive(target, *level))
        });
        let replaced = self.filter.reload(filter);
        replaced.map_err(|error| error.to_string())
    }

    /// The level of each target that has one, that of all others first.
    pub(crate) fn levels(&self) -> Vec<(String, String)> {
        let text = self.filter.with_current(ToString::to_string);
        levels_of(&text.unwrap_or_default())
    }
}

/// What an [`EnvFilter`] shows itself as.
fn levels_of(filter: &str) -> Vec<(String, String)> {
    let parts = filter.split(',').filter(|part| !part.is_empty());
    let named = parts.map(|part| match part.split_once('=') {
        Some((target, level)) => (target.to_owned(), level.to_ascii_uppercase()),
        None => (ROOT.to_owned(), part.to_ascii_uppercase()),
    });
    let mut levels: Vec<(String, String)> = named.collect();
    levels.sort_by_key(|(name, _)| (name != ROOT, name.clone()));
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_by_target() {
        let filter = EnvFilter::builder()
            .with_default_directive(LevelFilter::INFO.into())
            .parse_lossy("storage=trace")
            .add_directive(directive("node::hints", LevelFilter::OFF))
            .add_directive(directive(ROOT, LevelFilter::WARN));
        let named = |name: &str, level: &str| (name.to_owned(), level.to_owned());
        let levels = levels_of(&filter.to_string());
        assert_eq!(levels[0], named(ROOT, "WARN"));
        for level in [named("node::hints", "OFF"), named("storage", "TRACE")] {
            assert!(levels.contains(&level), "{levels:?}");
        }
    }

    #[test]
    fn names_of_java_are_no_targets() {
        for (name, fits) in [
            ("storage", true),
            ("node::hints", true),
            (ROOT, true),
            ("org.apache.cassandra", false),
            ("a=b", false),
            ("", false),
        ] {
            assert_eq!(is_target(name), fits, "{name}");
        }
    }
}
