//! A file of the log of which only a part is in memory, as replay reads it: every shard reads at
//! the same time, and a segment may be larger than the memory of all of them.

use std::path::Path;

use bytes::Bytes;
use io::{Env, File, OpenOptions};

/// How much is read at once, at least: some groups, so that little is read twice.
pub(super) const WINDOW: usize = 2 << 20;

/// Bytes of a file that are not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absent {
    /// Where they begin.
    pub(super) offset: u64,
    /// How many.
    pub(super) len: usize,
}

/// The part of a file that is in memory.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Where in the file it begins.
    from: u64,
    bytes: Bytes,
}

impl Window {
    /// What was read at `from`.
    pub(super) fn new(from: u64, bytes: Bytes) -> Window {
        Window { from, bytes }
    }

    /// These bytes of the file. As long as they live, so does the whole window.
    pub(super) fn get(&self, offset: u64, len: usize) -> Result<Bytes, Absent> {
        let absent = Absent { offset, len };
        let start = offset.checked_sub(self.from).ok_or(absent)?;
        let start = usize::try_from(start).map_err(|_| absent)?;
        let end = start.checked_add(len).ok_or(absent)?;
        if end > self.bytes.len() {
            return Err(absent);
        }
        Ok(self.bytes.slice(start..end))
    }
}

/// A file of the log, read from its beginning to its end.
pub(super) struct LogFile {
    file: File,
    len: u64,
    window: Window,
    /// How much is read at once.
    at_once: usize,
}

impl LogFile {
    /// Opens a file. A process that was killed may have left there what only the kernel has yet;
    /// the drive has it when this returns.
    pub(super) async fn open(env: &Env, path: &Path, at_once: usize) -> std::io::Result<LogFile> {
        let options = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        let file = env.open(path, options).await?;
        file.sync_data().await?;
        Ok(LogFile {
            len: file.len().await?,
            window: Window::default(),
            file,
            at_once,
        })
    }

    /// How long the file is.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// How much is read at once, where no more is asked for.
    pub(super) fn at_once(&self) -> usize {
        self.at_once
    }

    /// What of it is in memory.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// Brings these bytes into memory, and lets go of others.
    pub(super) async fn load(&mut self, absent: Absent) -> std::io::Result<()> {
        let Absent { offset, len } = absent;
        let behind = self.len.saturating_sub(offset);
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        self.window = Window::default();
        let bytes = self
            .file
            .read_exact_at(offset, len.max(self.at_once.min(behind)))
            .await?;
        #[cfg(test)]
        let bytes = held::counted(bytes);
        self.window = Window::new(offset, bytes);
        Ok(())
    }

    /// These bytes of the file, or as many as there are.
    pub(super) async fn at(&mut self, offset: u64, len: usize) -> std::io::Result<Bytes> {
        let behind = self.len.saturating_sub(offset);
        let len = usize::try_from(behind).map_or(len, |behind| behind.min(len));
        if let Err(absent) = self.window.get(offset, len) {
            self.load(absent).await?;
        }
        let got = self.window.get(offset, len);
        got.map_err(|_| std::io::ErrorKind::UnexpectedEof.into())
    }
}

/// How many bytes of files are in memory, on this thread.
#[cfg(test)]
pub(super) mod held {
    use std::cell::Cell;

    use bytes::Bytes;

    thread_local! {
        static NOW: Cell<usize> = const { Cell::new(0) };
        static MOST: Cell<usize> = const { Cell::new(0) };
    }

    struct Counted(Bytes);

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            NOW.set(NOW.get() - self.0.len());
        }
    }

    /// Counts these bytes until the last slice of them is dropped.
    pub(super) fn counted(bytes: Bytes) -> Bytes {
        NOW.set(NOW.get() + bytes.len());
        MOST.set(MOST.get().max(NOW.get()));
        Bytes::from_owner(Counted(bytes))
    }

    /// The most so far, which begins anew.
    pub(in crate::commitlog) fn most() -> usize {
        MOST.replace(NOW.get())
    }
}
