//! A file that is written from its start to its end.
//!
//! It is written past the page cache, where the file system can do that: a sync of hundreds of
//! megabytes that the kernel has gathered keeps the drive from everybody else for as long as it
//! takes, and the commit log needs the drive a thousand times a second.

use std::path::PathBuf;

use io::{AlignedBuf, DIRECT_ALIGNMENT, Env, File, OpenOptions};

use super::error::WriteError;

/// How much is written at once, in bytes: so much that the drive is busy with the bytes and not with
/// the asking, so little that what else waits for the drive does not wait for long.
const WRITE_LENGTH: usize = 512 * 1024;

/// A file that is written from its start to its end.
pub(super) struct Output {
    file: File,
    /// Which.
    pub(super) path: PathBuf,
    /// How much was appended.
    pub(super) position: u64,
    /// What the file has of that.
    written: u64,
    /// What it does not have yet; `None` only while it is being written.
    gathered: Option<AlignedBuf>,
}

impl Output {
    /// Makes the file. One that is there is somebody else's, and may have other names.
    pub(super) async fn create(env: &Env, path: PathBuf) -> Result<Output, WriteError> {
        let options = OpenOptions {
            write: true,
            create_new: true,
            direct: true,
            ..OpenOptions::default()
        };
        match env.open(&path, options).await {
            Ok(file) => Ok(Output {
                file,
                path,
                position: 0,
                written: 0,
                gathered: None,
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

    /// Puts bytes behind those before, and writes what is enough to be written.
    pub(super) async fn append(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        self.position += bytes.len() as u64;
        while !bytes.is_empty() {
            let gathered = self.gathered()?;
            let room = gathered.capacity() - gathered.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            gathered.extend_from_slice(now);
            bytes = later;
            if now.len() == room {
                self.write().await?;
            }
        }
        Ok(())
    }

    /// Writes the rest, and makes sure that the drive has all of it.
    pub(super) async fn finish(mut self) -> Result<(), WriteError> {
        let rest = self.gathered()?;
        let blocks = rest.len().next_multiple_of(DIRECT_ALIGNMENT);
        let padding = blocks - rest.len();
        rest.extend_from_slice(&[0; DIRECT_ALIGNMENT][..padding]);
        self.write().await?;
        if padding > 0 {
            let cut = self.file.set_len(self.position).await;
            cut.map_err(|e| self.failed(e))?;
        }
        self.file.sync_all().await.map_err(|e| self.failed(e))
    }

    fn gathered(&mut self) -> Result<&mut AlignedBuf, WriteError> {
        if self.gathered.is_none() {
            let out_of_memory = || self.failed(std::io::ErrorKind::OutOfMemory.into());
            self.gathered =
                Some(AlignedBuf::with_capacity(WRITE_LENGTH).ok_or_else(out_of_memory)?);
        }
        Ok(self.gathered.as_mut().expect("it has just been made"))
    }

    /// Writes what was gathered, which ends with a block.
    async fn write(&mut self) -> Result<(), WriteError> {
        let Some(gathered) = self.gathered.take() else {
            return Ok(());
        };
        let length = gathered.len() as u64;
        let (written, mut buffer) = self.file.write_aligned_at(gathered, self.written).await;
        written.map_err(|e| self.failed(e))?;
        self.written += length;
        buffer.clear();
        self.gathered = Some(buffer);
        Ok(())
    }
}
