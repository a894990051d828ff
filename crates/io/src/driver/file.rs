//! Files of the real drivers.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Driver;
use super::operation::{Buffer, Completion, Direction, Transfer};
use super::pool::Pool;
use super::removal;
use crate::buffer::AlignedBuf;
use crate::drive::{Passage, Way};
use crate::env::{Backend, Env};
use crate::file::OpenOptions;
use crate::runtime::RealShard;

/// An open file of a real shard.
pub(crate) struct RealFile {
    env: Env,
    file: Arc<OpenFile>,
    direct: bool,
    /// What the last write was copied to, for the next one: a log is written to all the time.
    copied: Cell<Option<AlignedBuf>>,
}

/// What is larger is not kept, in bytes.
const MOST_KEPT: usize = 1 << 20;

/// An open file. When nobody needs it any more it is closed by one of the threads: if it has no name
/// any more it is removed by that, which takes a while ([`removal`]).
pub(crate) struct OpenFile {
    file: Option<std::fs::File>,
    pool: Pool,
}

impl Deref for OpenFile {
    type Target = std::fs::File;

    fn deref(&self) -> &std::fs::File {
        self.file.as_ref().expect("it is closed at the end only")
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let file = self.file.take();
        self.pool
            .run_alone(move || file.into_iter().for_each(removal::close));
    }
}

impl RealFile {
    pub(crate) async fn open(env: &Env, path: &Path, options: OpenOptions) -> io::Result<RealFile> {
        let path = path.to_owned();
        let pool = real(env).pool.clone();
        let (file, direct) = pool.run(move || open_blocking(&path, options)).await?;
        let file = OpenFile {
            file: Some(file),
            pool,
        };
        Ok(RealFile {
            env: env.clone(),
            file: Arc::new(file),
            direct,
            copied: Cell::new(None),
        })
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&std::fs::File) -> T + Send + 'static,
    ) -> impl Future<Output = T> {
        let file = self.file.clone();
        real(&self.env).pool.run(move || job(&file))
    }

    /// Reads into the spare capacity of the empty `buffer`.
    pub(crate) async fn read_at(
        &self,
        mut buffer: Vec<u8>,
        offset: u64,
    ) -> (io::Result<usize>, Vec<u8>) {
        if buffer.capacity() == 0 {
            return (Ok(0), buffer);
        }
        if let Some(result) = read_cached(&self.file, &mut buffer, offset) {
            return (result, buffer);
        }
        if let Driver::Uring(_) = &real(&self.env).driver {
            let bytes = buffer.capacity();
            let place = (0, bytes, offset);
            let reading = self.transfer(Direction::Read, Buffer::Bytes(buffer), place, None);
            let (result, Buffer::Bytes(mut buffer)) = reading.await else {
                unreachable!("what went in comes back");
            };
            if let Ok(read) = &result {
                // SAFETY: the kernel filled in so many bytes.
                unsafe { buffer.set_len(*read) };
            }
            return (result, buffer);
        }
        self.blocking(move |file| {
            let result = loop {
                let spare = rustix::buffer::spare_capacity(&mut buffer);
                match rustix::io::pread(file, spare, offset) {
                    Err(rustix::io::Errno::INTR) => {}
                    result => break result.map_err(io::Error::from),
                }
            };
            (result, buffer)
        })
        .await
    }

    /// Writes all of `buffer`; with `synced` it is done when the drive has it.
    pub(crate) async fn write_all_at(
        &self,
        buffer: Vec<u8>,
        offset: u64,
        synced: bool,
    ) -> (io::Result<()>, Vec<u8>) {
        if self.is_asynchronous() {
            let (len, buffer) = (buffer.len(), Buffer::Bytes(buffer));
            let (result, buffer) = self.write_all(buffer, len, offset, synced).await;
            let Buffer::Bytes(buffer) = buffer else {
                unreachable!("what went in comes back");
            };
            return (result, buffer);
        }
        let _passage = self.passage(buffer.len(), synced).await;
        self.write_blocking(buffer, offset, synced).await
    }

    /// Fills the empty `buffer` until the file ends.
    pub(crate) async fn read_aligned_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
    ) -> (io::Result<usize>, AlignedBuf) {
        if self.is_asynchronous() {
            return self.read_aligned(buffer, offset).await;
        }
        let _passage = match self.direct {
            true => Some(self.env.pass_whole(Way::Read, buffer.capacity()).await),
            false => None,
        };
        self.blocking(move |file| read_blocking(file, buffer, offset))
            .await
    }

    pub(crate) async fn write_aligned_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
        synced: bool,
    ) -> (io::Result<()>, AlignedBuf) {
        if self.is_asynchronous() {
            let (len, buffer) = (buffer.len(), Buffer::Aligned(buffer));
            let (result, buffer) = self.write_all(buffer, len, offset, synced).await;
            let Buffer::Aligned(buffer) = buffer else {
                unreachable!("what went in comes back");
            };
            return (result, buffer);
        }
        let _passage = self.passage(buffer.len(), synced).await;
        self.write_blocking(buffer, offset, synced).await
    }

    /// As [`RealFile::write_aligned_at`], of bytes that lie anywhere. Their length is a multiple of the alignment.
    pub(crate) async fn write_copied_at(
        &self,
        bytes: &[u8],
        offset: u64,
        synced: bool,
    ) -> io::Result<()> {
        let kept = self.copied.take();
        let kept = kept.filter(|buffer| buffer.capacity() >= bytes.len());
        let Some(mut buffer) = kept.or_else(|| AlignedBuf::with_capacity(bytes.len())) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let (result, buffer) = self.write_aligned_at(buffer, offset, synced).await;
        if buffer.capacity() <= MOST_KEPT {
            self.copied.set(Some(buffer));
        }
        result
    }

    /// Leave to write, if that goes to the drive and not to the page cache.
    async fn passage(&self, bytes: usize, synced: bool) -> Option<Passage> {
        match self.direct || synced {
            true => Some(self.env.pass_whole(Way::Write, bytes).await),
            false => None,
        }
    }

    /// Writes all of `buffer` by one of the threads.
    fn write_blocking<B>(
        &self,
        buffer: B,
        offset: u64,
        synced: bool,
    ) -> impl Future<Output = (io::Result<()>, B)>
    where
        B: Deref<Target = [u8]> + Send + 'static,
    {
        self.blocking(move |file| {
            let mut result = file.write_all_at(&buffer, offset);
            if synced {
                result = result.and_then(|()| file.sync_data());
            }
            (result, buffer)
        })
    }

    /// Does the kernel read and write this file without a thread of ours?
    fn is_asynchronous(&self) -> bool {
        match &real(&self.env).driver {
            Driver::Uring(_) => true,
            Driver::Epoll(driver) => self.direct && driver.aio().is_ok(),
        }
    }

    /// Fills `buffer` until the file ends.
    async fn read_aligned(
        &self,
        buffer: AlignedBuf,
        offset: u64,
    ) -> (io::Result<usize>, AlignedBuf) {
        let (mut buffer, mut read) = (buffer, 0);
        loop {
            let left = buffer.capacity() - read;
            let passage = match self.direct {
                true => Some(self.env.pass(Way::Read, left).await),
                false => None,
            };
            let piece = passage.as_ref().map_or(left, Passage::bytes);
            let (buffered, place) = (Buffer::Aligned(buffer), (read, piece, offset));
            let reading = self.transfer(Direction::Read, buffered, place, passage);
            let (result, back) = reading.await;
            let Buffer::Aligned(back) = back else {
                unreachable!("what went in comes back");
            };
            buffer = back;
            match result {
                Ok(0) => return (Ok(read), buffer),
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
            // SAFETY: the kernel filled in so many bytes.
            unsafe { buffer.set_len(read) };
            if is_enough(read, buffer.capacity()) {
                return (Ok(read), buffer);
            }
        }
    }

    /// Writes the first `len` bytes of `buffer`.
    async fn write_all(
        &self,
        buffer: Buffer,
        len: usize,
        offset: u64,
        synced: bool,
    ) -> (io::Result<()>, Buffer) {
        let (mut buffer, mut written) = (buffer, 0);
        let direction = Direction::Write { synced };
        while written < len {
            let left = len - written;
            let passage = match self.direct || synced {
                true => Some(self.env.pass(Way::Write, left).await),
                false => None,
            };
            let piece = passage.as_ref().map_or(left, Passage::bytes);
            let place = (written, piece, offset);
            let (result, back) = self.transfer(direction, buffer, place, passage).await;
            buffer = back;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    /// Moves up to `bytes` bytes between the buffer, from its place `from` on, and the file, from
    /// as far behind `offset` on.
    fn transfer(
        &self,
        direction: Direction,
        buffer: Buffer,
        (from, bytes, offset): (usize, usize, u64),
        passage: Option<Passage>,
    ) -> Completion {
        let transfer = Transfer {
            direction,
            file: self.file.clone(),
            buffer,
            from,
            bytes,
            offset: offset + from as u64,
            passage,
        };
        match &real(&self.env).driver {
            Driver::Uring(driver) => driver.transfer(transfer),
            Driver::Epoll(driver) => match driver.aio() {
                Ok(aio) => aio.transfer(transfer),
                Err(_) => unreachable!("is_asynchronous was asked"),
            },
        }
    }

    pub(crate) async fn sync(&self, data_only: bool) -> io::Result<()> {
        if let Driver::Uring(driver) = &real(&self.env).driver {
            let (result, _) = driver.sync(self.file.clone(), data_only).await;
            return result.map(|_| ());
        }
        self.blocking(move |file| match data_only {
            true => file.sync_data(),
            false => file.sync_all(),
        })
        .await
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        // The inode of an open file is in memory, so this does not wait for the drive.
        Ok(self.file.metadata()?.len())
    }

    pub(crate) async fn set_len(&self, len: u64) -> io::Result<()> {
        self.blocking(move |file| file.set_len(len)).await
    }

    pub(crate) async fn allocate(&self, len: u64) -> io::Result<()> {
        self.blocking(move |file| allocate_blocking(file, len))
            .await
    }
}

/// Fills the empty `buffer` until the file ends, and waits for it.
fn read_blocking(
    file: &std::fs::File,
    mut buffer: AlignedBuf,
    offset: u64,
) -> (io::Result<usize>, AlignedBuf) {
    loop {
        let read = buffer.len();
        match rustix::io::pread(file, buffer.spare(), offset + read as u64) {
            Ok(([], _)) => return (Ok(read), buffer),
            Ok((filled, _)) => {
                let read = read + filled.len();
                // SAFETY: the kernel filled in so many bytes.
                unsafe { buffer.set_len(read) };
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return (Err(error.into()), buffer),
        }
        if is_enough(buffer.len(), buffer.capacity()) {
            return (Ok(buffer.len()), buffer);
        }
    }
}

/// Has a direct read of `len` bytes brought all it can? One that ends within a block has met the
/// end of the file.
fn is_enough(read: usize, len: usize) -> bool {
    read == len || !read.is_multiple_of(512)
}

/// The real shard behind `env`.
pub(crate) fn real(env: &Env) -> &RealShard {
    match &env.inner.backend {
        Backend::Real(real) => real,
        Backend::Sim(_) => unreachable!("a real file is of a real shard"),
    }
}

fn open_blocking(path: &PathBuf, options: OpenOptions) -> io::Result<(std::fs::File, bool)> {
    let mut open = std::fs::OpenOptions::new();
    open.read(options.read)
        .write(options.write)
        .create(options.create)
        .create_new(options.create_new)
        .truncate(options.truncate);
    if !options.direct {
        return Ok((open.open(path)?, false));
    }
    open.custom_flags(libc::O_DIRECT);
    match open.open(path) {
        Ok(file) => Ok((file, true)),
        // The file system has no direct I/O. The kernel may have made the file all the same.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            open.custom_flags(0);
            if options.create_new {
                open.create_new(false).create(true);
            }
            Ok((open.open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

fn allocate_blocking(file: &std::fs::File, len: u64) -> io::Result<()> {
    use rustix::io::Errno;
    loop {
        return match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(Errno::INTR) => continue,
            // The file system cannot reserve; at least the length is right.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if file.metadata()?.len() < len => {
                file.set_len(len)
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
}

/// Reads what is in the page cache, without waiting for the drive. `None` if that has it not, or if
/// the file system cannot tell.
fn read_cached(
    file: &std::fs::File,
    buffer: &mut Vec<u8>,
    offset: u64,
) -> Option<io::Result<usize>> {
    let spare = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.capacity(),
    };
    let offset = i64::try_from(offset).ok()?;
    // SAFETY: the iovec describes the capacity of `buffer`, which is empty and outlives the call.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &spare, 1, offset, libc::RWF_NOWAIT) };
    match usize::try_from(read) {
        Ok(read) => {
            // SAFETY: the kernel filled in so many bytes.
            unsafe { buffer.set_len(read) };
            Some(Ok(read))
        }
        Err(_) => None,
    }
}
