//! A file read in chunks: compressed data, data with checksums beside it, or plain pages.
//!
//! Whatever the file is, a chunk is a piece of the uncompressed content at a multiple of the
//! chunk length, verified before anyone sees it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use io::{Env, File, OpenOptions};

use super::chunk_cache::{ChunkCache, KeptChunks};
use super::compression::{CompressionInfo, CompressionParameters, Decompressor, LEAST_CHUNK};
use super::error::{DecodeError, SSTableError};
use super::input::Input;

/// How much of a file without chunks of its own is read at once: indexes, mostly.
const PAGE_LENGTH: usize = 4 * 1024;
/// The largest chunk of checksummed data that is believed.
const MAX_CHECKSUMMED_CHUNK: usize = 16 << 20;

/// A file and how it is cut into chunks.
pub(crate) struct ChunkedFile {
    file: File,
    path: PathBuf,
    /// Its number in the cache.
    id: u64,
    cache: ChunkCache,
    chunk_length: u64,
    /// The length of the content. If the file was cut off, what it was or a little more.
    length: u64,
    /// The length of the file.
    file_length: u64,
    kind: Kind,
}

enum Kind {
    Plain,
    /// With the CRC32 of each chunk, from `CRC.db` or `Helenus.db`.
    Checksummed(Vec<u32>),
    Compressed {
        info: CompressionInfo,
        decompressor: Decompressor,
    },
}

/// How a data file is kept.
pub(crate) enum Encoding {
    /// As it is, without checksums.
    Plain,
    /// As it is, with the content of `CRC.db`.
    Checksummed(Checksums),
    /// As it is, with the checksums of `Helenus.db`: an index, which is whole or of no use.
    Sealed(Checksums),
    /// In compressed chunks.
    Compressed(CompressionInfo),
}

/// What `CRC.db` says of the data, or `Helenus.db` of the index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checksums {
    chunk_length: u64,
    sums: Vec<u32>,
}

impl Checksums {
    /// Of chunks of this length.
    pub(crate) fn new(chunk_length: u64, sums: Vec<u32>) -> Checksums {
        Checksums { chunk_length, sums }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Checksums, DecodeError> {
        let mut input = Input::new(bytes);
        let chunk_length = input.u32()? as usize;
        if chunk_length == 0 || chunk_length > MAX_CHECKSUMMED_CHUNK {
            return Err(DecodeError::Invalid("the chunk length is impossible"));
        }
        let mut sums = Vec::with_capacity(input.remaining() / 4);
        while input.remaining() > 0 {
            sums.push(input.u32()?);
        }
        Ok(Checksums {
            chunk_length: chunk_length as u64,
            sums,
        })
    }
}

/// Opens a file to read here and there, and says how long it is. It is read past the page cache,
/// where the file system can do that: what is worth keeping is in caches of our own.
pub(crate) async fn open_direct(env: &Env, path: &Path) -> Result<(File, u64), SSTableError> {
    let options = OpenOptions {
        read: true,
        direct: true,
        ..OpenOptions::default()
    };
    open_with(env, path, options).await
}

/// Opens a file to read it once from start to end, and says how long it is.
pub(crate) async fn open(env: &Env, path: &Path) -> Result<(File, u64), SSTableError> {
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    open_with(env, path, options).await
}

async fn open_with(
    env: &Env,
    path: &Path,
    options: OpenOptions,
) -> Result<(File, u64), SSTableError> {
    let failed = |e| SSTableError::io(path, e);
    let file = env.open(path, options).await.map_err(failed)?;
    let length = file.len().await.map_err(failed)?;
    Ok((file, length))
}

/// Says that a data file does not reach as far as its last chunk, which begins at `last`.
fn warn_of_cut(path: &Path, length: u64, last: u64) {
    tracing::error!(
        "{} was cut off: it has {length} bytes and should have more than {last}. What is missing cannot \
         be read: restore the sstable from a snapshot or backup, or let `nodetool scrub` keep the rest",
        path.display()
    );
}

impl ChunkedFile {
    pub(crate) fn new(
        (file, file_length): (File, u64),
        path: PathBuf,
        encoding: Encoding,
        cache: ChunkCache,
    ) -> Result<ChunkedFile, SSTableError> {
        let (chunk_length, length, kind) = match encoding {
            Encoding::Plain => (PAGE_LENGTH as u64, file_length, Kind::Plain),
            Encoding::Checksummed(Checksums { chunk_length, sums })
                if file_length.div_ceil(chunk_length) < sums.len() as u64 =>
            {
                warn_of_cut(&path, file_length, (sums.len() as u64 - 1) * chunk_length);
                let length = sums.len() as u64 * chunk_length;
                (chunk_length, length, Kind::Checksummed(sums))
            }
            Encoding::Checksummed(Checksums { chunk_length, sums })
            | Encoding::Sealed(Checksums { chunk_length, sums }) => {
                if file_length.div_ceil(chunk_length) != sums.len() as u64 {
                    return Err(SSTableError::corrupt(
                        &path,
                        file_length,
                        "its length does not fit its checksums: it was cut off or is of another sstable",
                    ));
                }
                (chunk_length, file_length, Kind::Checksummed(sums))
            }
            Encoding::Compressed(info) => {
                if let Some(last) = info.offsets.last().filter(|last| **last >= file_length) {
                    warn_of_cut(&path, file_length, *last);
                }
                (
                    info.parameters.chunk_length as u64,
                    info.data_length,
                    Kind::Compressed {
                        decompressor: Decompressor::new(info.parameters.algorithm),
                        info,
                    },
                )
            }
        };
        Ok(ChunkedFile {
            file,
            path,
            id: cache.register_file(),
            cache,
            chunk_length,
            length,
            file_length,
            kind,
        })
    }

    /// The same, of which the cache has some chunks already, if it is cut as they are.
    pub(crate) fn with_kept(mut self, kept: KeptChunks) -> ChunkedFile {
        if kept.length == self.chunk_length {
            self.id = kept.file;
        }
        self
    }

    /// Its number in the cache.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The cache of its chunks.
    pub(crate) fn cache(&self) -> &ChunkCache {
        &self.cache
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the content, uncompressed.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn chunk_length(&self) -> u64 {
        self.chunk_length
    }

    pub(crate) fn chunk_count(&self) -> u64 {
        self.length.div_ceil(self.chunk_length)
    }

    /// How the content is compressed, if it is.
    pub(crate) fn compression(&self) -> Option<&CompressionParameters> {
        match &self.kind {
            Kind::Compressed { info, .. } => Some(&info.parameters),
            _ => None,
        }
    }

    /// What says where its chunks are and what their checksums are, in bytes of memory.
    pub(crate) fn memory_size(&self) -> usize {
        match &self.kind {
            Kind::Plain => 0,
            Kind::Checksummed(sums) => size_of_val(sums.as_slice()),
            Kind::Compressed { info, .. } => size_of_val(info.offsets.as_slice()),
        }
    }

    /// Is what is read compared with checksums?
    pub(crate) fn is_checked(&self) -> bool {
        !matches!(self.kind, Kind::Plain)
    }

    /// An error about the content at `position`, with the place in the file where one has to
    /// look: for compressed data, where the chunk starts.
    pub(crate) fn corrupt(&self, position: u64, what: &str) -> SSTableError {
        match &self.kind {
            Kind::Compressed { info, .. } => {
                let chunk = (position / self.chunk_length) as usize;
                let last = info.offsets.last().copied().unwrap_or(0);
                let offset = info.offsets.get(chunk).copied().unwrap_or(last);
                let what = format!("{what} (at {position} of the uncompressed data)");
                SSTableError::corrupt(&self.path, offset, what)
            }
            _ => SSTableError::corrupt(&self.path, position, what),
        }
    }

    /// A chunk, from the cache or the file.
    pub(crate) async fn chunk(&self, chunk: u64) -> Result<Bytes, SSTableError> {
        if let Some(found) = self.cached(chunk) {
            return Ok(found);
        }
        let mut chunks = self.read_into_cache(chunk, 1).await?;
        Ok(chunks.pop().unwrap_or_default())
    }

    /// Does the cache have a chunk?
    pub(crate) fn is_cached(&self, chunk: u64) -> bool {
        self.cache.has(self.id, chunk)
    }

    /// A chunk, if the cache has it.
    pub(crate) fn cached(&self, chunk: u64) -> Option<Bytes> {
        let found = self.cache.get(self.id, chunk)?;
        debug_assert_eq!(found.len() as u64, self.content_length(chunk));
        Some(found)
    }

    /// Up to `count` chunks from `first` on with one read; the cache has them afterwards.
    pub(crate) async fn read_into_cache(
        &self,
        first: u64,
        count: u64,
    ) -> Result<Vec<Bytes>, SSTableError> {
        let chunks = self.read(first, count).await?;
        let numbered = (first..).zip(chunks.iter().cloned());
        self.cache.insert_all(self.id, numbered);
        Ok(chunks)
    }

    /// Up to `count` chunks from `first` on with one read, past the cache.
    pub(crate) async fn read(&self, first: u64, count: u64) -> Result<Vec<Bytes>, SSTableError> {
        let end = first.saturating_add(count).min(self.chunk_count());
        if first >= end {
            return Err(self.corrupt(self.length, "it ends too early"));
        }
        // More than this no compressor makes of a chunk: what the chunk's place says is wrong.
        let most = 2 * self.chunk_length + 4096;
        if let Some(chunk) = (first..end).find(|chunk| self.extent(*chunk).1 > most) {
            let (offset, what) = (self.extent(chunk).0, "the chunk is too long");
            return Err(SSTableError::corrupt(&self.path, offset, what));
        }
        let is_gone = |chunk: &u64| {
            let (start, length) = self.extent(*chunk);
            start.saturating_add(length) > self.file_length
        };
        let end = (first..end).find(is_gone).unwrap_or(end);
        let start = self.extent(first).0;
        if first == end {
            return Err(SSTableError::corrupt(&self.path, start, "it was cut off"));
        }
        let (last_start, last_length) = self.extent(end - 1);
        let length = last_start + last_length - start;
        let read = self.file.read_exact_at(start, length as usize).await;
        let raw = match read {
            Ok(raw) => raw,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(SSTableError::corrupt(
                    &self.path,
                    start,
                    "it ends too early",
                ));
            }
            Err(source) => return Err(SSTableError::io(&self.path, source)),
        };
        self.cache.count_read(end - first, length);
        let mut chunks = Vec::with_capacity((end - first) as usize);
        for chunk in first..end {
            let (from, length) = self.extent(chunk);
            let from = (from - start) as usize;
            let raw = raw.slice(from..from + length as usize);
            chunks.push(self.verify(chunk, raw)?);
        }
        Ok(chunks)
    }

    /// Where a chunk lies in the file, and how long it is there.
    fn extent(&self, chunk: u64) -> (u64, u64) {
        match &self.kind {
            Kind::Compressed { info, .. } => {
                let start = info.offsets[chunk as usize];
                let end = info.offsets.get(chunk as usize + 1).copied();
                let end = end
                    .unwrap_or(self.file_length)
                    .max(start.saturating_add(LEAST_CHUNK));
                (start, end - start)
            }
            _ => (chunk * self.chunk_length, self.content_length(chunk)),
        }
    }

    /// The length of a chunk's content.
    fn content_length(&self, chunk: u64) -> u64 {
        self.chunk_length
            .min(self.length - chunk * self.chunk_length)
    }

    fn verify(&self, chunk: u64, raw: Bytes) -> Result<Bytes, SSTableError> {
        let offset = self.extent(chunk).0;
        let wrong = |what: String| SSTableError::corrupt(&self.path, offset, what);
        match &self.kind {
            Kind::Plain => Ok(raw),
            Kind::Checksummed(sums) => {
                if crc32fast::hash(&raw) != sums[chunk as usize] {
                    return Err(wrong("the checksum of the chunk does not match".into()));
                }
                Ok(raw)
            }
            Kind::Compressed { info, decompressor } => {
                let length = self.content_length(chunk) as usize;
                // No chunk is shorter than LEAST_CHUNK: see `extent`.
                let (content, sum) = raw.split_at(raw.len() - 4);
                if sum != crc32fast::hash(content).to_be_bytes() {
                    return Err(wrong("the checksum of the chunk does not match".into()));
                }
                let least = info.parameters.max_compressed_length;
                if content.len() >= least {
                    return match raw.get(..length) {
                        // Not a slice: that would keep in memory what was read around it.
                        Some(stored) if content.len() >= length => {
                            Ok(Bytes::copy_from_slice(stored))
                        }
                        _ => Err(wrong("the chunk is too short".into())),
                    };
                }
                decompressor
                    .decompress(content, length)
                    .map(Bytes::from)
                    .map_err(|e| wrong(e.to_string()))
            }
        }
    }
}
