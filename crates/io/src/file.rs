//! Files: reading and writing at offsets, with buffers that go in and come back.

use std::io;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;

use crate::buffer::{AlignedBuf, DIRECT_ALIGNMENT, is_aligned};
use crate::driver::file::RealFile;
use crate::env::{Backend, Env};
use crate::sim::SimFile;

/// How much of a file that is written at once goes to the drive with one sync.
const MOST_SYNCED: usize = 1 << 20;

/// How a file is opened. By default it is neither for reading nor for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Make it if it is not there.
    pub create: bool,
    /// Make it; it is an error if it is there.
    pub create_new: bool,
    /// Empty it.
    pub truncate: bool,
    /// Past the page cache. Where the file system cannot do that, it is opened as usual
    /// ([`File::is_direct`] tells).
    pub direct: bool,
}

/// An open file. Cheap to clone; closed when the last clone is dropped.
#[derive(Clone)]
pub struct File {
    inner: Rc<Kind>,
}

enum Kind {
    Real(RealFile),
    Sim(SimFile),
}

impl Env {
    /// Opens a file.
    pub async fn open(&self, path: &Path, options: OpenOptions) -> io::Result<File> {
        let kind = match &self.inner.backend {
            Backend::Real(_) => Kind::Real(RealFile::open(self, path, options).await?),
            Backend::Sim(_) => Kind::Sim(SimFile::open(self, path, options).await?),
        };
        Ok(File {
            inner: Rc::new(kind),
        })
    }

    /// What is in a file, for files that are small enough.
    pub async fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let options = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        let file = self.open(path, options).await?;
        let len = file.len().await?;
        file.read_exact_cached(0, len as usize).await
    }

    /// Makes a file with this content, which the drive has when this returns; its name is on the
    /// drive after [`Env::sync_dir`]. What was in the file before is gone.
    pub async fn write_file(&self, path: &Path, content: Vec<u8>) -> io::Result<()> {
        let options = OpenOptions {
            write: true,
            create: true,
            truncate: true,
            ..OpenOptions::default()
        };
        self.fill(path, options, content).await
    }

    /// As [`Env::write_file`], of a file that must not be there: what is may be linked to elsewhere,
    /// and what is written into it would be written there.
    pub async fn write_new_file(&self, path: &Path, content: Vec<u8>) -> io::Result<()> {
        let options = OpenOptions {
            write: true,
            create_new: true,
            ..OpenOptions::default()
        };
        self.fill(path, options, content).await
    }

    async fn fill(&self, path: &Path, options: OpenOptions, content: Vec<u8>) -> io::Result<()> {
        let file = self.open(path, options).await?;
        let mut at = 0;
        // A sync of megabytes keeps the drive from everybody else for as long as it takes.
        while content.len() - at > MOST_SYNCED {
            let piece = content[at..at + MOST_SYNCED].to_vec();
            file.write_all_synced_at(piece, at as u64).await.0?;
            at += MOST_SYNCED;
        }
        let rest = match at {
            0 => content,
            at => content[at..].to_vec(),
        };
        file.write_all_at(rest, at as u64).await.0?;
        file.sync_all().await
    }
}

impl File {
    /// Was the file opened past the page cache?
    pub fn is_direct(&self) -> bool {
        match &*self.inner {
            Kind::Real(file) => file.is_direct(),
            Kind::Sim(file) => file.is_direct(),
        }
    }

    /// Fills `buffer` from its start with what stands at `offset`, up to its capacity; its length
    /// is what was read. It may be less than there is: only 0 means the end of the file.
    pub async fn read_at(&self, mut buffer: Vec<u8>, offset: u64) -> (io::Result<usize>, Vec<u8>) {
        buffer.clear();
        match &*self.inner {
            Kind::Real(file) if file.is_direct() => {
                match self.read_around(offset, buffer.capacity()).await {
                    Ok(bytes) => {
                        buffer.extend_from_slice(&bytes);
                        (Ok(bytes.len()), buffer)
                    }
                    Err(error) => (Err(error), buffer),
                }
            }
            Kind::Real(file) => file.read_at(buffer, offset).await,
            Kind::Sim(file) => match file.read(offset, buffer.capacity()).await {
                Ok(bytes) => {
                    buffer.extend_from_slice(&bytes);
                    (Ok(bytes.len()), buffer)
                }
                Err(error) => (Err(error), buffer),
            },
        }
    }

    /// Reads `len` bytes at `offset`; an error of kind `UnexpectedEof` if the file ends before.
    /// What is read of a direct file is not copied: it keeps the whole blocks around it in memory.
    pub async fn read_exact_at(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        if self.is_direct() {
            let bytes = self.read_around(offset, len).await?;
            return match bytes.len() == len {
                true => Ok(bytes),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        self.read_exact_cached(offset, len).await.map(Bytes::from)
    }

    async fn read_exact_cached(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut whole: Vec<u8> = Vec::new();
        whole
            .try_reserve_exact(len)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if len == 0 {
            return Ok(whole);
        }
        let (result, first) = self.read_at(whole, offset).await;
        result?;
        whole = first;
        // The allocator may have given more than was asked for.
        whole.truncate(len);
        while whole.len() < len {
            let at = offset + whole.len() as u64;
            let (result, more) = self
                .read_at(Vec::with_capacity(len - whole.len()), at)
                .await;
            if result? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            whole.extend_from_slice(&more[..more.len().min(len - whole.len())]);
        }
        Ok(whole)
    }

    /// Writes all of `buffer` at `offset`. If the file is direct, `offset` and length must be
    /// multiples of [`DIRECT_ALIGNMENT`]; where the buffer lies on no such address it is copied. If the
    /// future is dropped, the write may happen or not.
    pub async fn write_all_at(&self, buffer: Vec<u8>, offset: u64) -> (io::Result<()>, Vec<u8>) {
        self.write_bytes(buffer, offset, false).await
    }

    /// As [`File::write_all_at`] and then [`File::sync_data`], for these bytes and with one trip to
    /// the kernel.
    pub async fn write_all_synced_at(
        &self,
        buffer: Vec<u8>,
        offset: u64,
    ) -> (io::Result<()>, Vec<u8>) {
        self.write_bytes(buffer, offset, true).await
    }

    async fn write_bytes(
        &self,
        buffer: Vec<u8>,
        offset: u64,
        synced: bool,
    ) -> (io::Result<()>, Vec<u8>) {
        let fits = buffer.len().is_multiple_of(DIRECT_ALIGNMENT)
            && offset.is_multiple_of(DIRECT_ALIGNMENT as u64);
        match &*self.inner {
            Kind::Real(file) if file.is_direct() && buffer.is_empty() => (Ok(()), buffer),
            _ if self.is_direct() && !fits => (Err(io::ErrorKind::InvalidInput.into()), buffer),
            Kind::Real(file) if file.is_direct() && !is_aligned(&buffer) => {
                let result = file.write_copied_at(&buffer, offset, synced).await;
                (result, buffer)
            }
            Kind::Real(file) => file.write_all_at(buffer, offset, synced).await,
            Kind::Sim(file) => (file.write(&buffer, offset, synced).await, buffer),
        }
    }

    /// Fills `buffer` from its start with what stands at `offset`, a multiple of
    /// [`DIRECT_ALIGNMENT`], up to its capacity. Its length is then what was read, less than it has
    /// room for only at the end of the file.
    pub async fn read_aligned_at(
        &self,
        mut buffer: AlignedBuf,
        offset: u64,
    ) -> (io::Result<usize>, AlignedBuf) {
        buffer.clear();
        if !offset.is_multiple_of(DIRECT_ALIGNMENT as u64) {
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        match &*self.inner {
            Kind::Real(file) => file.read_aligned_at(buffer, offset).await,
            Kind::Sim(file) => {
                let read = file.read(offset, buffer.capacity()).await;
                let read = read.map(|bytes| {
                    buffer.extend_from_slice(&bytes);
                    bytes.len()
                });
                (read, buffer)
            }
        }
    }

    /// Writes all of `buffer` at `offset`, a multiple of [`DIRECT_ALIGNMENT`].
    pub async fn write_aligned_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
    ) -> (io::Result<()>, AlignedBuf) {
        if !offset.is_multiple_of(DIRECT_ALIGNMENT as u64) {
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        match &*self.inner {
            Kind::Real(file) => file.write_aligned_at(buffer, offset, false).await,
            Kind::Sim(file) => (file.write(&buffer, offset, false).await, buffer),
        }
    }

    /// Waits until the drive has what was written, and what is needed to read it back.
    pub async fn sync_data(&self) -> io::Result<()> {
        match &*self.inner {
            Kind::Real(file) => file.sync(true).await,
            Kind::Sim(file) => file.sync().await,
        }
    }

    /// Waits until the drive has what was written and all that is known of the file but its name
    /// ([`Env::sync_dir`] is for that).
    pub async fn sync_all(&self) -> io::Result<()> {
        match &*self.inner {
            Kind::Real(file) => file.sync(false).await,
            Kind::Sim(file) => file.sync().await,
        }
    }

    /// The file's length in bytes.
    pub async fn len(&self) -> io::Result<u64> {
        match &*self.inner {
            Kind::Real(file) => file.len(),
            Kind::Sim(file) => file.len(),
        }
    }

    /// Cuts the file off after `len` bytes, or fills it up to that with zeros.
    pub async fn set_len(&self, len: u64) -> io::Result<()> {
        match &*self.inner {
            Kind::Real(file) => file.set_len(len).await,
            Kind::Sim(file) => file.set_len(len).await,
        }
    }

    /// Takes room on the drive for the first `len` bytes; the file is at least that long then. What
    /// was not written reads as zeros.
    pub async fn allocate(&self, len: u64) -> io::Result<()> {
        match &*self.inner {
            Kind::Real(file) => file.allocate(len).await,
            Kind::Sim(file) => file.allocate(len).await,
        }
    }

    /// Closes this handle. Dropping it does the same.
    pub async fn close(self) {}

    /// Reads up to `len` bytes at `offset`, with the blocks around them; fewer at the end of the
    /// file.
    async fn read_around(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let from = (offset % DIRECT_ALIGNMENT as u64) as usize;
        let buffer = AlignedBuf::with_capacity(from.saturating_add(len))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let (result, buffer) = self.read_aligned_at(buffer, offset - from as u64).await;
        let read = result?;
        let end = from.saturating_add(len).min(read);
        Ok(buffer.into_bytes().slice(from.min(end)..end))
    }
}
