//! The segments of version 5: checksummed pieces of the byte stream, around the envelopes.
//!
//! ```text
//! header, uncompressed: 17 bits payload length, 1 bit self-contained, 6 bits zero; CRC24
//! header, LZ4:          17 bits compressed length, 17 bits uncompressed length,
//!                       1 bit self-contained, 5 bits zero; CRC24
//! payload
//! trailer:              CRC32 of the payload as sent
//! ```
//!
//! All of it is little-endian, other than everything else in the protocol. A self-contained
//! segment holds one or more whole envelopes; an envelope larger than a segment is spread over
//! several that are not self-contained. Under LZ4, an uncompressed length of zero says that the
//! payload was not worth compressing and is sent as it is.
//!
//! Source: `native_protocol_v5.spec`, section 2; the two polynomials and initial values of
//! Cassandra's `net/Crc.java`, and the header layouts of its `FrameEncoderCrc` and
//! `FrameEncoderLZ4`.

use bytes::{Buf, Bytes, BytesMut};

use crate::compression::{lz4_compress, lz4_decompress};
use crate::notation::DecodeError;

/// The longest payload of a segment, in bytes.
pub(crate) const MAX_PAYLOAD: usize = (1 << 17) - 1;

/// Bytes of the CRC32 behind a payload.
const TRAILER_LENGTH: usize = 4;

const CRC24_INITIAL: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
const CRC32_PREFIX: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

const CRC24_TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = crc & 0x00FF_FFFF;
        byte += 1;
    }
    table
};

/// The CRC24 of a segment's header.
pub(crate) fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INITIAL, |crc, byte| {
        let index = ((crc >> 16) as u8) ^ byte;
        ((crc << 8) & 0x00FF_FFFF) ^ CRC24_TABLE[usize::from(index)]
    })
}

/// The CRC32 of a segment's payload: that of zlib, of four fixed bytes and then the payload, so
/// that a run of zeros does not check out.
pub(crate) fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(payload);
    hasher.finalize()
}

/// Are segments compressed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentFormat {
    /// Three bytes of header and their CRC.
    Plain,
    /// Five bytes of header and their CRC.
    Lz4,
}

/// Where the parts of the segment at the front of the input lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SegmentLayout {
    /// Bytes before the payload.
    header: usize,
    /// Bytes of the payload as sent.
    payload: usize,
    /// Bytes of the payload once decompressed; 0: it is not compressed.
    uncompressed: usize,
    /// Does it hold whole envelopes only?
    pub(crate) self_contained: bool,
}

impl SegmentLayout {
    /// Bytes of the whole segment.
    pub(crate) fn total(&self) -> usize {
        self.header + self.payload + TRAILER_LENGTH
    }
}

impl SegmentFormat {
    fn header_length(self) -> usize {
        match self {
            SegmentFormat::Plain => 6,
            SegmentFormat::Lz4 => 8,
        }
    }

    /// Reads the header at the front of `input`; `None` if it is not all there. An error is the
    /// end of the connection: where the next segment starts is not known any more.
    fn layout(self, input: &[u8]) -> Result<Option<SegmentLayout>, DecodeError> {
        let length = self.header_length();
        let Some(header) = input.get(..length) else {
            return Ok(None);
        };
        let mut word = [0; 8];
        word[..length].copy_from_slice(header);
        let word = u64::from_le_bytes(word);
        let (fields, crc_bits) = match self {
            SegmentFormat::Plain => (word & 0x00FF_FFFF, word >> 24),
            SegmentFormat::Lz4 => (word & 0xFF_FFFF_FFFF, word >> 40),
        };
        let read = crc_bits as u32;
        let computed = crc24(&header[..length - 3]);
        if read != computed {
            return Err(DecodeError::new(format!(
                "invalid, unrecoverable CRC mismatch detected in frame header. \
                 Read {read}, Computed {computed}"
            )));
        }
        let first = (fields & 0x1_FFFF) as usize;
        Ok(Some(match self {
            SegmentFormat::Plain => SegmentLayout {
                header: length,
                payload: first,
                uncompressed: 0,
                self_contained: fields & (1 << 17) != 0,
            },
            SegmentFormat::Lz4 => SegmentLayout {
                header: length,
                payload: first,
                uncompressed: (fields >> 17 & 0x1_FFFF) as usize,
                self_contained: fields & (1 << 34) != 0,
            },
        }))
    }

    /// Appends `payload` (at most [`MAX_PAYLOAD`] bytes) as one segment.
    pub(crate) fn encode(self, payload: &[u8], self_contained: bool, into: &mut Vec<u8>) {
        assert!(payload.len() <= MAX_PAYLOAD, "the caller splits");
        let start = into.len();
        let header_length = self.header_length();
        into.resize(start + header_length, 0);
        let mut uncompressed = 0;
        match self {
            SegmentFormat::Plain => into.extend_from_slice(payload),
            SegmentFormat::Lz4 => {
                lz4_compress(payload, into);
                if into.len() - start - header_length < payload.len() {
                    uncompressed = payload.len();
                } else {
                    into.truncate(start + header_length);
                    into.extend_from_slice(payload);
                }
            }
        }
        let sent = &into[start + header_length..];
        let trailer = crc32(sent).to_le_bytes();
        let contained = u64::from(self_contained);
        let fields = match self {
            SegmentFormat::Plain => sent.len() as u64 | contained << 17,
            SegmentFormat::Lz4 => sent.len() as u64 | (uncompressed as u64) << 17 | contained << 34,
        };
        into.extend_from_slice(&trailer);
        let header = &mut into[start..start + header_length];
        header.copy_from_slice(&fields.to_le_bytes()[..header_length]);
        let (fields, crc) = header.split_at_mut(header_length - 3);
        crc.copy_from_slice(&crc24(fields).to_le_bytes()[..3]);
    }
}

/// A segment that was taken off the stream.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its payload, uncompressed.
    pub(crate) payload: BytesMut,
    /// Does it hold whole envelopes only?
    pub(crate) self_contained: bool,
}

impl SegmentFormat {
    /// Takes a segment off `input`; `None` if it is not all there yet. An error is the end of the
    /// connection.
    pub(crate) fn take(self, input: &mut BytesMut) -> Result<Option<Segment>, DecodeError> {
        let Some(layout) = self.layout(input)? else {
            return Ok(None);
        };
        if input.len() < layout.total() {
            return Ok(None);
        }
        let mut payload = input.split_to(layout.total());
        check_payload(&layout, &payload)?;
        payload.advance(layout.header);
        payload.truncate(layout.payload);
        if layout.uncompressed > 0 {
            let uncompressed = lz4_decompress(&payload, layout.uncompressed)?;
            // A Vec that nobody else holds becomes a BytesMut without a copy.
            payload = Bytes::from(uncompressed)
                .try_into_mut()
                .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        }
        Ok(Some(Segment {
            payload,
            self_contained: layout.self_contained,
        }))
    }
}

/// Checks the payload against its trailer; `segment` is the whole segment.
fn check_payload(layout: &SegmentLayout, segment: &[u8]) -> Result<(), DecodeError> {
    let (payload, trailer) = segment[layout.header..layout.total()].split_at(layout.payload);
    let read = u32::from_le_bytes(
        *trailer
            .first_chunk()
            .expect("the layout's total includes the trailer"),
    );
    let computed = crc32(payload);
    if read != computed {
        return Err(DecodeError::new(format!(
            "invalid, unrecoverable CRC mismatch detected in frame body. \
             Read {read}, Computed {computed}"
        )));
    }
    Ok(())
}

/// Appends a batch of whole envelopes as segments: as many envelopes in each as fit, an envelope
/// too large for one spread over several. `envelopes` must end with the end of an envelope;
/// `length_of` gives the length of the one at the front, `None` if it is not all there.
pub(crate) fn encode_envelopes(
    format: SegmentFormat,
    mut envelopes: &[u8],
    length_of: impl Fn(&[u8]) -> Option<usize>,
    into: &mut Vec<u8>,
) {
    while !envelopes.is_empty() {
        let mut fitting = 0;
        while let Some(length) = length_of(&envelopes[fitting..]) {
            if fitting + length > MAX_PAYLOAD {
                break;
            }
            fitting += length;
        }
        if fitting > 0 {
            let (payload, rest) = envelopes.split_at(fitting);
            format.encode(payload, true, into);
            envelopes = rest;
            continue;
        }
        let large =
            length_of(envelopes).expect("a batch of output ends with the end of an envelope");
        let (envelope, rest) = envelopes.split_at(large);
        for piece in envelope.chunks(MAX_PAYLOAD) {
            format.encode(piece, false, into);
        }
        envelopes = rest;
    }
}
