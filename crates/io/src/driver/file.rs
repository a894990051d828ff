//! Files of the real drivers.

use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::AlignedBuf;
use crate::env::{Backend, Env};
use crate::file::OpenOptions;
use crate::runtime::RealShard;

/// An open file of a real shard.
pub(crate) struct RealFile {
    env: Env,
    file: Arc<std::fs::File>,
    direct: bool,
}

impl RealFile {
    pub(crate) async fn open(env: &Env, path: &Path, options: OpenOptions) -> io::Result<RealFile> {
        let path = path.to_owned();
        let (file, direct) = real(env)
            .pool
            .run(move || open_blocking(&path, options))
            .await?;
        Ok(RealFile {
            env: env.clone(),
            file: Arc::new(file),
            direct,
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

    pub(crate) async fn write_all_at(
        &self,
        buffer: Vec<u8>,
        offset: u64,
    ) -> (io::Result<()>, Vec<u8>) {
        self.blocking(move |file| (file.write_all_at(&buffer, offset), buffer))
            .await
    }

    pub(crate) async fn read_aligned_at(
        &self,
        mut buffer: AlignedBuf,
        offset: u64,
    ) -> (io::Result<usize>, AlignedBuf) {
        self.blocking(move |file| {
            let mut read = 0;
            let result = loop {
                match file.read_at(&mut buffer[read..], offset + read as u64) {
                    Ok(0) => break Ok(read),
                    Ok(count) => read += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                }
                // A direct read that ends within a block has met the end of the file.
                if read == buffer.len() || !read.is_multiple_of(512) {
                    break Ok(read);
                }
            };
            (result, buffer)
        })
        .await
    }

    pub(crate) async fn write_aligned_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
    ) -> (io::Result<()>, AlignedBuf) {
        self.blocking(move |file| (file.write_all_at(&buffer, offset), buffer))
            .await
    }

    pub(crate) async fn sync(&self, data_only: bool) -> io::Result<()> {
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
