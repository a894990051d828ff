//! Standard output of a tool, whose reader may go away.

use std::io::{ErrorKind, Write};

use super::ToolError;

/// How much is gathered before it is written, in bytes.
const GATHERED: usize = 64 << 10;

/// Writes to standard output in large pieces.
pub(crate) struct Output {
    gathered: String,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output {
            gathered: String::new(),
        }
    }

    /// Adds text.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), ToolError> {
        self.gathered.push_str(text);
        if self.gathered.len() >= GATHERED {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), ToolError> {
        self.write(text)?;
        self.write("\n")
    }

    /// Writes what is left. A reader that has gone away (as `head` does) has had enough: the
    /// process ends.
    pub(crate) fn flush(&mut self) -> Result<(), ToolError> {
        let mut out = std::io::stdout().lock();
        let written = out
            .write_all(self.gathered.as_bytes())
            .and_then(|()| out.flush());
        self.gathered.clear();
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            result => result.map_err(|source| ToolError::Io {
                what: "standard output".to_owned(),
                source,
            }),
        }
    }
}
