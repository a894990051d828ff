//! Logs go to standard error; `HELENUS_LOG` chooses what (`info` if it says nothing).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Only what is wrong with a library.
fn quiet(library: &str) -> tracing_subscriber::filter::Directive {
    let directive = format!("{library}=error");
    directive.parse().expect("a name and a level")
}

/// Begins logging, once in the life of the process.
pub(crate) fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::Level::INFO.into())
        .with_env_var("HELENUS_LOG")
        .from_env_lossy();
    // It tells each step of its life as news.
    let filter = match std::env::var("HELENUS_LOG") {
        Ok(chosen) if chosen.contains("openraft") => filter,
        _ => filter.add_directive(quiet("openraft")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
