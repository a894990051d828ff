//! Compressed chunks and `CompressionInfo.db`.
//!
//! The data of a compressed sstable is cut into chunks of equal length (the last one shorter),
//! each compressed on its own and followed by the CRC32 of what is on disk. A chunk that does not
//! become smaller than `max_compressed_length` is stored as it is. `CompressionInfo.db` says how
//! and where each chunk starts (`org.apache.cassandra.io.compress.CompressionMetadata`).

mod lz4;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Decompress, FlushDecompress, Status};

use self::lz4::Lz4Encoder;
use super::error::DecodeError;
use super::input::{Input, write_short_bytes};
use super::version::Version;

/// How a chunk is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A little-endian length, then an LZ4 block.
    Lz4,
    /// A raw Snappy block.
    Snappy,
    /// A zlib stream.
    Deflate,
    /// A Zstandard frame.
    Zstd {
        /// As the option `compression_level` says.
        level: i32,
    },
    /// Not at all; chunks still have checksums.
    Noop,
}

const DEFAULT_CHUNK_LENGTH: usize = 16 * 1024;
/// The largest chunk that is believed: Cassandra's own limit is what fits in an `int`, but no
/// sensible table has chunks that come near.
const MAX_CHUNK_LENGTH: usize = 64 << 20;
/// The largest chunk that is written. Whoever reads a row has its whole chunk in memory, and a
/// compaction one of each input.
const MAX_WRITTEN_CHUNK: usize = 1 << 20;
/// What a chunk takes in the file at least: a byte and the checksum.
pub(crate) const LEAST_CHUNK: u64 = 5;
const DEFAULT_ZSTD_LEVEL: i32 = 3;

/// The compression that a table asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressionParameters {
    /// How.
    pub algorithm: Algorithm,
    /// The length of a chunk before it is compressed, in bytes.
    pub chunk_length: usize,
    /// A chunk that is not shorter than this when compressed is stored as it is.
    pub max_compressed_length: usize,
    /// Options of the compressor, kept in `CompressionInfo.db` for Cassandra.
    pub options: BTreeMap<String, String>,
}

impl CompressionParameters {
    /// From the table option `compression`; `None`: not compressed. What cannot be done as the option
    /// says is done in a way that every reader knows, or no flush of the table could ever succeed;
    /// `doubt` is told what, and how it is done instead.
    pub(crate) fn from_options(
        options: &BTreeMap<String, String>,
        doubt: &mut dyn FnMut(String),
    ) -> Option<CompressionParameters> {
        let class = options
            .get("class")
            .or_else(|| options.get("sstable_compression"));
        let enabled = options.get("enabled").is_none_or(|e| e != "false");
        let class = class.filter(|c| enabled && !c.is_empty())?;
        let others: BTreeMap<String, String> = options
            .iter()
            .filter(|(key, _)| !OWN_OPTIONS.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let (algorithm, kept) = match algorithm(class, &others) {
            Ok(algorithm) => (algorithm, others),
            Err(what) => {
                doubt(format!("{what}: LZ4Compressor is used"));
                (Algorithm::Lz4, BTreeMap::new())
            }
        };
        let chunk_length = chunk_length(options, doubt);
        let ratio = match options.get("min_compress_ratio") {
            None => 0.0,
            // As in Cassandra, what is no number leaves all chunks as they are.
            Some(text) => match text.trim().parse::<f64>() {
                Ok(ratio) if ratio == 0.0 || ratio >= 1.0 || ratio.is_nan() => ratio,
                _ => {
                    doubt(format!(
                        "min_compress_ratio '{text}' is not 0 or at least 1: 0 is used"
                    ));
                    0.0
                }
            },
        };
        let max_compressed_length = if ratio == 0.0 {
            i32::MAX as usize
        } else {
            (chunk_length as f64 / ratio).ceil() as usize
        };
        Some(CompressionParameters {
            algorithm,
            chunk_length,
            max_compressed_length,
            options: kept,
        })
    }
}

/// The options that are no compressor's.
const OWN_OPTIONS: [&str; 7] = [
    "class",
    "sstable_compression",
    "enabled",
    "chunk_length_in_kb",
    "chunk_length_kb",
    "min_compress_ratio",
    "crc_check_chance",
];

/// The length of chunks, in bytes.
fn chunk_length(options: &BTreeMap<String, String>, doubt: &mut dyn FnMut(String)) -> usize {
    let given = options
        .get("chunk_length_in_kb")
        .or_else(|| options.get("chunk_length_kb"));
    let Some(text) = given else {
        return DEFAULT_CHUNK_LENGTH;
    };
    let parsed = text.trim().parse::<usize>().ok();
    match parsed.and_then(|kb| kb.checked_mul(1024)) {
        Some(length) if length.is_power_of_two() && length <= MAX_WRITTEN_CHUNK => length,
        Some(length) if length.is_power_of_two() => {
            let most = MAX_WRITTEN_CHUNK / 1024;
            doubt(format!(
                "chunk_length_in_kb '{text}' would take too much memory: {most} is used"
            ));
            MAX_WRITTEN_CHUNK
        }
        _ => {
            let usual = DEFAULT_CHUNK_LENGTH / 1024;
            doubt(format!(
                "chunk_length_in_kb '{text}' is not a power of two: {usual} is used"
            ));
            DEFAULT_CHUNK_LENGTH
        }
    }
}

/// The algorithm of a Java class, with or without package.
fn algorithm(class: &str, options: &BTreeMap<String, String>) -> Result<Algorithm, String> {
    let simple = class.rsplit('.').next().unwrap_or(class);
    match simple {
        "LZ4Compressor" => Ok(Algorithm::Lz4),
        "SnappyCompressor" => Ok(Algorithm::Snappy),
        "DeflateCompressor" => Ok(Algorithm::Deflate),
        "NoopCompressor" => Ok(Algorithm::Noop),
        "ZstdCompressor" => {
            let level = match options.get("compression_level") {
                None => DEFAULT_ZSTD_LEVEL,
                Some(text) => text
                    .parse()
                    .map_err(|_| format!("compression_level '{text}' is not a number"))?,
            };
            Ok(Algorithm::Zstd { level })
        }
        _ => Err(format!("the compressor '{class}' is not known")),
    }
}

impl Algorithm {
    /// What data of a compressor of this Java class decompresses with. An error names the class.
    pub(crate) fn of_class(class: &str) -> Result<Algorithm, String> {
        algorithm(class, &BTreeMap::new())
    }

    /// The simple name of the Java class.
    pub fn class(self) -> &'static str {
        match self {
            Algorithm::Lz4 => "LZ4Compressor",
            Algorithm::Snappy => "SnappyCompressor",
            Algorithm::Deflate => "DeflateCompressor",
            Algorithm::Zstd { .. } => "ZstdCompressor",
            Algorithm::Noop => "NoopCompressor",
        }
    }
}

/// What `CompressionInfo.db` says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompressionInfo {
    /// How the chunks were compressed.
    pub parameters: CompressionParameters,
    /// The length of the data before compression.
    pub data_length: u64,
    /// Where in the file each chunk starts.
    pub offsets: Vec<u64>,
}

impl CompressionInfo {
    /// The bytes of the component.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parameters = &self.parameters;
        let mut out = Vec::with_capacity(64 + 8 * self.offsets.len());
        write_short_bytes(&mut out, parameters.algorithm.class().as_bytes());
        out.extend((parameters.options.len() as u32).to_be_bytes());
        for (key, value) in &parameters.options {
            write_short_bytes(&mut out, key.as_bytes());
            write_short_bytes(&mut out, value.as_bytes());
        }
        out.extend((parameters.chunk_length as u32).to_be_bytes());
        out.extend((parameters.max_compressed_length as u32).to_be_bytes());
        out.extend(self.data_length.to_be_bytes());
        out.extend((self.offsets.len() as u32).to_be_bytes());
        for offset in &self.offsets {
            out.extend(offset.to_be_bytes());
        }
        out
    }

    /// Reads the component. Whether the data file is as long as this says is not looked at.
    pub(crate) fn decode(
        input: &mut Input<'_>,
        version: Version,
    ) -> Result<Result<CompressionInfo, String>, DecodeError> {
        let class = input.utf()?.to_owned();
        let mut options = BTreeMap::new();
        for _ in 0..input.count(4)? {
            let key = input.utf()?.to_owned();
            options.insert(key, input.utf()?.to_owned());
        }
        let chunk_length = input.u32()? as usize;
        if !chunk_length.is_power_of_two() || chunk_length > MAX_CHUNK_LENGTH {
            return Err(DecodeError::Invalid("the chunk length is impossible"));
        }
        let max_compressed_length = if version.features().max_compressed_length {
            input.u32()? as usize
        } else {
            i32::MAX as usize
        };
        let data_length = input.u64()?;
        let count = input.count(8)?;
        // After a compaction Cassandra may leave a last chunk with nothing in it.
        if data_length.div_ceil(chunk_length as u64) > count as u64 {
            return Err(DecodeError::Invalid(
                "the number of chunks does not fit the length of the data",
            ));
        }
        let mut offsets = Vec::with_capacity(count);
        let mut least = 0;
        for _ in 0..count {
            let offset = input.u64()?;
            if offset < least {
                return Err(DecodeError::Invalid("the chunks are not in order"));
            }
            least = offset.saturating_add(LEAST_CHUNK);
            offsets.push(offset);
        }
        let algorithm = match algorithm(&class, &options) {
            Ok(algorithm) => algorithm,
            Err(what) => return Ok(Err(what)),
        };
        Ok(Ok(CompressionInfo {
            parameters: CompressionParameters {
                algorithm,
                chunk_length,
                max_compressed_length,
                options,
            },
            data_length,
            offsets,
        }))
    }
}

/// Compresses chunks; keeps its working memory.
pub(crate) struct Compressor {
    algorithm: Algorithm,
    lz4: Option<Lz4Encoder>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    snappy: snap::raw::Encoder,
}

impl Compressor {
    pub(crate) fn new(algorithm: Algorithm) -> std::io::Result<Compressor> {
        let zstd = match algorithm {
            Algorithm::Zstd { level } => Some(zstd::bulk::Compressor::new(level)?),
            _ => None,
        };
        Ok(Compressor {
            algorithm,
            lz4: (algorithm == Algorithm::Lz4).then(Lz4Encoder::new),
            zstd,
            snappy: snap::raw::Encoder::new(),
        })
    }

    /// Appends `chunk`, compressed, to `out`.
    pub(crate) fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let start = out.len();
        match self.algorithm {
            Algorithm::Noop => out.extend(chunk),
            Algorithm::Lz4 => {
                out.extend((chunk.len() as u32).to_le_bytes());
                let lz4 = self.lz4.as_mut().expect("made for this algorithm");
                lz4.compress(chunk, out);
            }
            Algorithm::Snappy => {
                out.resize(start + snap::raw::max_compress_len(chunk.len()), 0);
                let len = self
                    .snappy
                    .compress(chunk, &mut out[start..])
                    .map_err(std::io::Error::other)?;
                out.truncate(start + len);
            }
            Algorithm::Deflate => {
                let mut encoder =
                    flate2::write::ZlibEncoder::new(out, flate2::Compression::default());
                encoder.write_all(chunk)?;
                encoder.finish()?;
            }
            Algorithm::Zstd { .. } => {
                let zstd = self.zstd.as_mut().expect("made for this algorithm");
                out.resize(start + zstd::zstd_safe::compress_bound(chunk.len()), 0);
                let len = zstd.compress_to_buffer(chunk, &mut out[start..])?;
                out.truncate(start + len);
            }
        }
        Ok(())
    }
}

/// Decompresses chunks; keeps its working memory.
pub(crate) struct Decompressor {
    algorithm: Algorithm,
    zstd: RefCell<Option<zstd::bulk::Decompressor<'static>>>,
}

impl Decompressor {
    pub(crate) fn new(algorithm: Algorithm) -> Decompressor {
        Decompressor {
            algorithm,
            zstd: RefCell::new(None),
        }
    }

    /// The `length` bytes that `compressed` stands for.
    pub(crate) fn decompress(
        &self,
        compressed: &[u8],
        length: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        const DAMAGED: DecodeError = DecodeError::Invalid("a chunk does not decompress");
        let mut out = vec![0; length];
        let len = match self.algorithm {
            Algorithm::Noop => {
                if compressed.len() != length {
                    return Err(DAMAGED);
                }
                out.copy_from_slice(compressed);
                length
            }
            Algorithm::Lz4 => {
                let mut input = Input::new(compressed);
                if input.u32_le()? as usize != length {
                    return Err(DAMAGED);
                }
                let block = input.take(input.remaining())?;
                lz4_flex::block::decompress_into(block, &mut out).map_err(|_| DAMAGED)?
            }
            Algorithm::Snappy => {
                if snap::raw::decompress_len(compressed) != Ok(length) {
                    return Err(DAMAGED);
                }
                snap::raw::Decoder::new()
                    .decompress(compressed, &mut out)
                    .map_err(|_| DAMAGED)?
            }
            Algorithm::Deflate => {
                let mut stream = Decompress::new(true);
                match stream.decompress(compressed, &mut out, FlushDecompress::Finish) {
                    Ok(Status::StreamEnd) => stream.total_out() as usize,
                    _ => return Err(DAMAGED),
                }
            }
            Algorithm::Zstd { .. } => {
                let mut slot = self.zstd.borrow_mut();
                if slot.is_none() {
                    *slot = zstd::bulk::Decompressor::new().ok();
                }
                let zstd = slot.as_mut().ok_or(DAMAGED)?;
                zstd.decompress_to_buffer(compressed, &mut out[..])
                    .map_err(|_| DAMAGED)?
            }
        };
        if len != length {
            return Err(DAMAGED);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALGORITHMS: [Algorithm; 5] = [
        Algorithm::Lz4,
        Algorithm::Snappy,
        Algorithm::Deflate,
        Algorithm::Zstd { level: 3 },
        Algorithm::Noop,
    ];

    /// What is written with these options, and how many of them are not followed.
    fn of(pairs: &[(&str, &str)]) -> (Option<CompressionParameters>, usize) {
        let options = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let mut doubts = 0;
        let mut doubt = |_| doubts += 1;
        let parameters = CompressionParameters::from_options(&options.collect(), &mut doubt);
        (parameters, doubts)
    }

    #[test]
    fn options_of_a_table_are_understood() {
        assert_eq!(of(&[("enabled", "false")]), (None, 0));
        let (zstd, doubts) = of(&[
            ("class", "org.apache.cassandra.io.compress.ZstdCompressor"),
            ("compression_level", "5"),
            ("chunk_length_in_kb", "64"),
            ("min_compress_ratio", "2.0"),
        ]);
        let zstd = zstd.expect("compressed");
        assert_eq!(doubts, 0);
        assert_eq!(zstd.algorithm, Algorithm::Zstd { level: 5 });
        assert_eq!(zstd.chunk_length, 65536);
        assert_eq!(zstd.max_compressed_length, 32768);
    }

    #[test]
    fn what_cannot_be_written_as_asked_is_written_otherwise() {
        let lz4 = ("class", "LZ4Compressor");
        for (pairs, chunk_length, doubts) in [
            (&[lz4, ("chunk_length_in_kb", "131072")][..], 1 << 20, 1),
            (&[lz4, ("chunk_length_in_kb", "2097151")], 16 << 10, 1),
            (&[lz4, ("chunk_length_in_kb", "1024")], 1 << 20, 0),
            (&[lz4, ("chunk_length_in_kb", "much")], 16 << 10, 1),
            (&[lz4, ("min_compress_ratio", "0.5")], 16 << 10, 1),
            (
                &[("class", "com.example.Nonsense"), ("level", "9")],
                16 << 10,
                1,
            ),
            (
                &[("class", "ZstdCompressor"), ("compression_level", "x")],
                16 << 10,
                1,
            ),
        ] {
            let (parameters, found) = of(pairs);
            let parameters = parameters.expect("compressed");
            assert_eq!(
                (parameters.chunk_length, found),
                (chunk_length, doubts),
                "{pairs:?}"
            );
            assert_eq!(parameters.algorithm, Algorithm::Lz4, "{pairs:?}");
            assert!(parameters.options.is_empty(), "{pairs:?}");
        }
        // As in Cassandra, nothing is compressed then.
        let (parameters, doubts) = of(&[lz4, ("min_compress_ratio", "NaN")]);
        assert_eq!(
            parameters.map(|p| (p.max_compressed_length, doubts)),
            Some((0, 0))
        );
    }

    proptest! {
        #[test]
        fn chunks_come_back(chunk in proptest::collection::vec(0u8..4, 1..5000)) {
            for algorithm in ALGORITHMS {
                let mut out = vec![7; 3];
                let mut compressor = Compressor::new(algorithm).expect("a compressor");
                compressor.compress(&chunk, &mut out).expect("compresses");
                let back = Decompressor::new(algorithm).decompress(&out[3..], chunk.len());
                prop_assert_eq!(back.as_deref(), Ok(&chunk[..]));
            }
        }

        #[test]
        fn nonsense_is_refused_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            length in 0usize..1000,
        ) {
            for algorithm in ALGORITHMS {
                let _ = Decompressor::new(algorithm).decompress(&bytes, length);
            }
        }

        #[test]
        fn a_damaged_component_is_refused_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = CompressionInfo::decode(&mut Input::new(&bytes), Version::Nb);
        }
    }
}
