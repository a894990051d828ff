//! Logs go to standard error; `HELENUS_LOG` chooses what (`info` if it says nothing).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Begins logging, once in the life of the process.
pub(crate) fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::Level::INFO.into())
        .with_env_var("HELENUS_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
