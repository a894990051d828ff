//! Compression of bodies (version 3 and 4) and of segments (version 5).

use crate::notation::DecodeError;

/// An algorithm that client and server agreed upon at STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `lz4`: all versions.
    Lz4,
    /// `snappy`: version 3 and 4.
    Snappy,
}

impl Compression {
    /// The algorithm of this name, any case, as COMPRESSION of STARTUP gives it.
    pub fn from_name(name: &str) -> Option<Compression> {
        [Compression::Lz4, Compression::Snappy]
            .into_iter()
            .find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// Its name in SUPPORTED and STARTUP.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
        }
    }

    /// Appends the compressed form of `body`. LZ4 is preceded by the uncompressed length, four
    /// bytes big-endian; Snappy brings its own.
    pub(crate) fn compress_body(self, body: &[u8], into: &mut Vec<u8>) {
        match self {
            Compression::Lz4 => {
                into.extend_from_slice(&(body.len() as u32).to_be_bytes());
                lz4_compress(body, into);
            }
            Compression::Snappy => {
                let start = into.len();
                into.resize(start + snap::raw::max_compress_len(body.len()), 0);
                let written = snap::raw::Encoder::new()
                    .compress(body, &mut into[start..])
                    .expect("the space is what the encoder says it needs");
                into.truncate(start + written);
            }
        }
    }

    /// The body that was compressed to `compressed`, at most `limit` bytes of it: a few bytes can
    /// claim to hold gigabytes.
    pub(crate) fn decompress_body(
        self,
        compressed: &[u8],
        limit: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        match self {
            Compression::Lz4 => {
                let Some((length, block)) = compressed.split_first_chunk::<4>() else {
                    return Err(DecodeError::new(
                        "Not enough bytes to read the uncompressed length of an LZ4 body",
                    ));
                };
                let length = u32::from_be_bytes(*length) as usize;
                check_limit(length, limit)?;
                lz4_decompress(block, length)
            }
            Compression::Snappy => {
                let length = snap::raw::decompress_len(compressed).map_err(damaged)?;
                check_limit(length, limit)?;
                let mut body = vec![0; length];
                let written = snap::raw::Decoder::new()
                    .decompress(compressed, &mut body)
                    .map_err(damaged)?;
                body.truncate(written);
                Ok(body)
            }
        }
    }
}

fn check_limit(length: usize, limit: usize) -> Result<(), DecodeError> {
    if length > limit {
        return Err(DecodeError::new(format!(
            "A compressed body claims {length} bytes, more than the {limit} allowed"
        )));
    }
    Ok(())
}

fn damaged(error: impl std::fmt::Display) -> DecodeError {
    DecodeError::new(format!("Cannot decompress: {error}"))
}

/// Appends the LZ4 block of `data`.
pub(crate) fn lz4_compress(data: &[u8], into: &mut Vec<u8>) {
    let start = into.len();
    into.resize(
        start + lz4_flex::block::get_maximum_output_size(data.len()),
        0,
    );
    let written = lz4_flex::block::compress_into(data, &mut into[start..])
        .expect("the space is what the encoder says it needs");
    into.truncate(start + written);
}

/// What the LZ4 block holds; it must be exactly `length` bytes.
pub(crate) fn lz4_decompress(block: &[u8], length: usize) -> Result<Vec<u8>, DecodeError> {
    let mut data = vec![0; length];
    if length == 0 {
        return Ok(data);
    }
    let written = lz4_flex::block::decompress_into(block, &mut data).map_err(damaged)?;
    if written != length {
        return Err(DecodeError::new(format!(
            "An LZ4 block holds {written} bytes, not the {length} it claims"
        )));
    }
    Ok(data)
}
