//! The bytes of a data file in the making: chunks, checksums, digest. No I/O.

use bytes::Bytes;

use super::compression::{CompressionInfo, CompressionParameters, Compressor};

/// The length of a chunk of data that is not compressed, for `CRC.db`.
const CHECKSUMMED_CHUNK: usize = 64 * 1024;

/// Cuts data into chunks and compresses them.
pub(crate) struct ChunkWriter {
    compression: Option<(CompressionParameters, Compressor)>,
    chunk_length: usize,
    /// The chunk that is being filled.
    chunk: Vec<u8>,
    /// What can be written to the file.
    ready: Vec<u8>,
    /// Bytes of the file, `ready` included.
    file_length: u64,
    /// Bytes of data in all chunks that are finished.
    finished: u64,
    /// Bytes of compressed chunks without their checksums.
    compressed: u64,
    offsets: Vec<u64>,
    sums: Vec<u8>,
    digest: crc32fast::Hasher,
    /// Is what is appended to be kept in memory?
    keeps: bool,
    /// Is the chunk that is being filled?
    keeps_chunk: bool,
    /// Chunks that are, with their numbers.
    kept: Vec<(u64, Bytes)>,
}

/// What was written.
pub(crate) struct Written {
    /// What is left to be written to the file.
    pub ready: Vec<u8>,
    /// For compressed data.
    pub info: Option<CompressionInfo>,
    /// The content of `CRC.db`, for data that is not compressed.
    pub checksums: Option<Vec<u8>>,
    /// The checksum of the whole file.
    pub digest: u32,
    /// Compressed size by size; -1 if not compressed.
    pub compression_ratio: f64,
    /// Chunks to be kept in memory that nobody has taken, with their numbers.
    pub kept: Vec<(u64, Bytes)>,
}

impl ChunkWriter {
    pub(crate) fn new(compression: Option<CompressionParameters>) -> std::io::Result<ChunkWriter> {
        let chunk_length = compression
            .as_ref()
            .map_or(CHECKSUMMED_CHUNK, |p| p.chunk_length);
        let mut sums = Vec::new();
        let compression = match compression {
            Some(parameters) => {
                let compressor = Compressor::new(parameters.algorithm)?;
                Some((parameters, compressor))
            }
            None => {
                sums.extend((chunk_length as u32).to_be_bytes());
                None
            }
        };
        Ok(ChunkWriter {
            compression,
            chunk_length,
            chunk: Vec::with_capacity(chunk_length),
            ready: Vec::new(),
            file_length: 0,
            finished: 0,
            compressed: 0,
            offsets: Vec::new(),
            sums,
            digest: crc32fast::Hasher::new(),
            keeps: false,
            keeps_chunk: false,
            kept: Vec::new(),
        })
    }

    /// The length of each chunk but the last.
    pub(crate) fn chunk_length(&self) -> usize {
        self.chunk_length
    }

    /// From now on chunks are kept in memory with what is appended, or no more.
    pub(crate) fn keep(&mut self, keeps: bool) {
        self.keeps = keeps;
        self.keeps_chunk |= keeps;
    }

    /// Takes chunks that are to be kept, with their numbers.
    pub(crate) fn take_kept(&mut self) -> impl Iterator<Item = (u64, Bytes)> {
        self.kept.drain(..)
    }

    /// Where in the data the next byte goes.
    pub(crate) fn position(&self) -> u64 {
        self.finished + self.chunk.len() as u64
    }

    /// Bytes of the file so far.
    pub(crate) fn file_length(&self) -> u64 {
        self.file_length
    }

    /// How much can be written to the file.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Takes what can be written to the file, leaving an empty buffer.
    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Gives a buffer back for use again.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.ready.is_empty() && buffer.capacity() > self.ready.capacity() {
            buffer.clear();
            self.ready = buffer;
        }
    }

    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let space = self.chunk_length - self.chunk.len();
            let (now, later) = bytes.split_at(space.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == self.chunk_length {
                self.end_chunk()?;
            }
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> std::io::Result<()> {
        let start = self.ready.len();
        match &mut self.compression {
            None => {
                self.ready.extend_from_slice(&self.chunk);
                self.sums.extend(crc32fast::hash(&self.chunk).to_be_bytes());
            }
            Some((parameters, compressor)) => {
                self.offsets.push(self.file_length);
                compressor.compress(&self.chunk, &mut self.ready)?;
                let most = parameters.max_compressed_length;
                if self.ready.len() - start >= most {
                    self.ready.truncate(start);
                    self.ready.extend_from_slice(&self.chunk);
                    // A short last chunk must not look like a compressed one.
                    if self.chunk.len() < most {
                        self.ready.resize(start + most, 0);
                    }
                }
                self.compressed += (self.ready.len() - start) as u64;
                let sum = crc32fast::hash(&self.ready[start..]);
                self.ready.extend(sum.to_be_bytes());
            }
        }
        if std::mem::replace(&mut self.keeps_chunk, self.keeps) {
            let number = self.finished / self.chunk_length as u64;
            self.kept
                .push((number, Bytes::copy_from_slice(&self.chunk)));
        }
        self.digest.update(&self.ready[start..]);
        self.file_length += (self.ready.len() - start) as u64;
        self.finished += self.chunk.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> std::io::Result<Written> {
        if !self.chunk.is_empty() {
            self.end_chunk()?;
        }
        let compression_ratio = match &self.compression {
            Some(_) => self.compressed as f64 / self.finished as f64,
            None => -1.0,
        };
        let checksums = self.compression.is_none().then_some(self.sums);
        let info = self.compression.map(|(parameters, _)| CompressionInfo {
            parameters,
            data_length: self.finished,
            offsets: self.offsets,
        });
        Ok(Written {
            ready: self.ready,
            info,
            checksums,
            digest: self.digest.finalize(),
            compression_ratio,
            kept: self.kept,
        })
    }
}
