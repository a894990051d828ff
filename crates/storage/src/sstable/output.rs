//! A file that is written from its start to its end.

use std::path::PathBuf;

use io::{Env, File, OpenOptions};

use super::error::WriteError;

/// A file that is written from its start to its end.
pub(super) struct Output {
    file: File,
    /// Which.
    pub(super) path: PathBuf,
    /// Where its end is.
    pub(super) position: u64,
}

impl Output {
    /// Makes the file, or empties it.
    pub(super) async fn create(env: &Env, path: PathBuf) -> Result<Output, WriteError> {
        let options = OpenOptions {
            write: true,
            create: true,
            truncate: true,
            ..OpenOptions::default()
        };
        match env.open(&path, options).await {
            Ok(file) => Ok(Output {
                file,
                path,
                position: 0,
            }),
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }

    /// An error about it.
    pub(super) fn failed(&self, source: std::io::Error) -> WriteError {
        WriteError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// Writes; gives the buffer back.
    pub(super) async fn append(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, WriteError> {
        let length = bytes.len() as u64;
        let (written, buffer) = self.file.write_all_at(bytes, self.position).await;
        written.map_err(|e| self.failed(e))?;
        self.position += length;
        Ok(buffer)
    }

    /// Makes sure that the drive has it.
    pub(super) async fn sync(&self) -> Result<(), WriteError> {
        self.file.sync_data().await.map_err(|e| self.failed(e))
    }
}
