//! Cutting the byte stream into envelopes.
//!
//! Up to version 4 the stream is envelope after envelope. In version 5 that holds up to and with
//! the reply to STARTUP; from then on it is segment after segment (see `segment.rs`), and the
//! envelopes are cut out of their payloads.
//!
//! What is wrong with an envelope but leaves its end known (an unknown opcode, too large a body,
//! a body that does not decompress) costs that envelope only: it is skipped, and its error is
//! reported once it has gone by. What leaves the place of the next envelope unknown (another
//! version's header, a damaged segment) ends the connection.

use bytes::{Buf, Bytes, BytesMut};

use crate::compression::Compression;
use crate::error::{ErrorKind, ErrorReply};
use crate::header::{HEADER_LENGTH, RESPONSE_BIT};
use crate::notation::DecodeError;
use crate::segment::SegmentFormat;
use crate::{Flags, Header, Opcode, Version};

/// A whole message: its header, and its body uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The header.
    pub header: Header,
    /// The body.
    pub body: Bytes,
}

/// What is wrong with the bytes received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reply}")]
pub struct ProtocolError {
    /// What the peer is told.
    pub reply: ErrorReply,
    /// The stream the envelope was for; 0 if that is not known.
    pub stream: i16,
    /// Must the connection end once the reply has been sent?
    pub fatal: bool,
    /// The number of the version that was asked for, if that is not spoken with this client.
    pub unsupported_version: Option<u8>,
}

impl ProtocolError {
    fn fatal(stream: i16, text: impl Into<String>) -> ProtocolError {
        ProtocolError {
            reply: ErrorReply::new(ErrorKind::Protocol, text),
            stream,
            fatal: true,
            unsupported_version: None,
        }
    }

    fn recoverable(stream: i16, text: impl Into<String>) -> ProtocolError {
        ProtocolError {
            fatal: false,
            ..ProtocolError::fatal(stream, text)
        }
    }

    /// A version that is not finished, and a client that does not say that it knows.
    fn beta(version: Version) -> ProtocolError {
        ProtocolError {
            unsupported_version: Some(version.number()),
            ..ProtocolError::fatal(
                0,
                format!(
                    "Beta version of the protocol used ({version}), but USE_BETA flag is unset"
                ),
            )
        }
    }

    fn unsupported(version: u8) -> ProtocolError {
        let supported = Version::ALL.map(Version::description).join(", ");
        ProtocolError {
            unsupported_version: Some(version),
            ..ProtocolError::fatal(
                0,
                format!(
                    "Invalid or unsupported protocol version ({version}); \
                     supported versions are ({supported})"
                ),
            )
        }
    }
}

/// For so many bytes of an envelope room is made before any of them has come, on the word of its header.
const AHEAD: usize = 32 << 10;
/// And for so many more for each that has.
const AHEAD_OF_EACH: usize = 4;

/// Which of the two kinds of messages is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    /// We are the server.
    Requests,
    /// We are the client.
    Responses,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Framing {
    receives: Receives,
    /// Fixed by STARTUP.
    version: Option<Version>,
    compression: Option<Compression>,
    segments: Option<SegmentFormat>,
    /// Longest envelope, header included, in bytes.
    max_envelope: usize,
    plain: Cutter,
    /// Envelopes of the self-contained segment that is being taken apart.
    contained: BytesMut,
    contained_cutter: Cutter,
    /// The beginning of an envelope that is spread over segments.
    spread: BytesMut,
    spread_cutter: Cutter,
}

/// An envelope that goes by unread, and what is then reported.
#[derive(Debug)]
struct Skipped {
    left: u64,
    error: ProtocolError,
}

/// Cuts envelopes off the front of a buffer.
#[derive(Debug, Default)]
struct Cutter {
    skipped: Option<Box<Skipped>>,
}

impl Framing {
    pub(crate) fn new(receives: Receives, max_envelope: usize) -> Framing {
        Framing {
            receives,
            version: None,
            compression: None,
            segments: None,
            max_envelope,
            plain: Cutter::default(),
            contained: BytesMut::new(),
            contained_cutter: Cutter::default(),
            spread: BytesMut::new(),
            spread_cutter: Cutter::default(),
        }
    }

    /// From now on everything must be of this version, and is compressed and packed as it says.
    pub(crate) fn establish(&mut self, version: Version, compression: Option<Compression>) {
        self.version = Some(version);
        self.compression = compression;
        self.segments = segment_format(version, compression);
    }

    /// Cuts the next envelope off `input`; `None` if it is not all there yet.
    pub(crate) fn receive(
        &mut self,
        input: &mut BytesMut,
    ) -> Result<Option<Envelope>, ProtocolError> {
        let Some(format) = self.segments else {
            let rules = self.rules();
            return self.plain.cut(input, &rules);
        };
        loop {
            if !self.contained.is_empty() {
                return self.next_contained().map(Some);
            }
            let rules = self.rules();
            let cut = self.spread_cutter.cut(&mut self.spread, &rules);
            if self.spread.is_empty() {
                // An empty rest would keep the whole of a large envelope alive.
                self.spread = BytesMut::new();
            }
            if let Some(envelope) = cut? {
                return Ok(Some(envelope));
            }
            if !self.next_segment(format, input)? {
                return Ok(None);
            }
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            receives: self.receives,
            version: self.version,
            // Inside segments bodies are never compressed themselves.
            compression: self.compression.filter(|_| self.segments.is_none()),
            max_envelope: self.max_envelope,
            segmented: self.segments.is_some(),
        }
    }

    fn next_contained(&mut self) -> Result<Envelope, ProtocolError> {
        let rules = self.rules();
        let cut = self.contained_cutter.cut(&mut self.contained, &rules);
        if self.contained.is_empty() {
            // An empty rest would keep the receive buffer from being used again.
            self.contained = BytesMut::new();
        }
        if let Ok(None) = cut {
            // What is left belongs to no envelope; the next segment is not harmed.
            let left = std::mem::take(&mut self.contained);
            if let Some(skipped) = self.contained_cutter.skipped.take() {
                return Err(skipped.error);
            }
            let stream = match left.get(2..4) {
                Some(bytes) => i16::from_be_bytes([bytes[0], bytes[1]]),
                None => 0,
            };
            return Err(ProtocolError::recoverable(
                stream,
                format!(
                    "A self-contained segment ends within an envelope: {} bytes left",
                    left.len()
                ),
            ));
        }
        cut.map(|envelope| envelope.expect("None was handled above"))
    }

    /// Takes a segment off `input`; false if it is not all there yet.
    fn next_segment(
        &mut self,
        format: SegmentFormat,
        input: &mut BytesMut,
    ) -> Result<bool, ProtocolError> {
        let fatal = |error: DecodeError| ProtocolError::fatal(0, error.text());
        let Some(segment) = format.take(input).map_err(fatal)? else {
            return Ok(false);
        };
        if segment.self_contained {
            self.contained = segment.payload;
        } else {
            self.spread.extend_from_slice(&segment.payload);
        }
        Ok(true)
    }
}

/// How bodies are packed in this version.
pub(crate) fn segment_format(
    version: Version,
    compression: Option<Compression>,
) -> Option<SegmentFormat> {
    (version >= Version::V5).then_some(match compression {
        Some(_) => SegmentFormat::Lz4,
        None => SegmentFormat::Plain,
    })
}

/// The length of the envelope at the front of `bytes`; `None` if it is not all there.
pub(crate) fn envelope_length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..HEADER_LENGTH)?;
    let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
    let total = HEADER_LENGTH.checked_add(length)?;
    (bytes.len() >= total).then_some(total)
}

/// Makes room for the rest of an envelope of so many bytes, so that what has come of it is not copied each time that more
/// comes; of a long one only as much as goes with what has come.
fn make_room(input: &mut BytesMut, total: usize) {
    let ahead = AHEAD + AHEAD_OF_EACH * input.len();
    input.reserve(total.min(ahead).saturating_sub(input.len()));
}

/// What an envelope must keep to.
struct Rules {
    receives: Receives,
    version: Option<Version>,
    compression: Option<Compression>,
    max_envelope: usize,
    segmented: bool,
}

impl Cutter {
    fn cut(
        &mut self,
        input: &mut BytesMut,
        rules: &Rules,
    ) -> Result<Option<Envelope>, ProtocolError> {
        if self.skipped.is_some() {
            return self.skip(input);
        }
        let Some(&first) = input.first() else {
            return Ok(None);
        };
        // The version is looked at before the rest has come: headers of other versions may be
        // shorter.
        let number = first & !RESPONSE_BIT;
        let Some(version) = Version::from_number(number) else {
            return self.refuse_version(ProtocolError::unsupported(number), input, rules);
        };
        let Some(bytes) = input.first_chunk::<HEADER_LENGTH>() else {
            return Ok(None);
        };
        if version.is_beta() && !Flags(bytes[1]).contains(Flags::USE_BETA) {
            return self.refuse_version(ProtocolError::beta(version), input, rules);
        }
        let stream = i16::from_be_bytes([bytes[2], bytes[3]]);
        let length = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
        if length > i32::MAX as u32 {
            return Err(ProtocolError::fatal(
                stream,
                format!(
                    "Invalid value for envelope header body length field: {}",
                    length as i32
                ),
            ));
        }
        let total = HEADER_LENGTH + length as usize;
        let opcode = match rules.check(version, bytes, total) {
            Ok(opcode) => opcode,
            Err(error) => {
                self.skipped = Some(Box::new(Skipped {
                    left: total as u64,
                    error: ProtocolError { stream, ..error },
                }));
                return self.skip(input);
            }
        };
        let flags = Flags(bytes[1]);
        if input.len() < total {
            make_room(input, total);
            return Ok(None);
        }
        let mut envelope = input.split_to(total);
        envelope.advance(HEADER_LENGTH);
        let header = Header {
            version,
            flags,
            stream,
            opcode,
        };
        let body = rules.open(&header, envelope.freeze())?;
        Ok(Some(Envelope { header, body }))
    }

    /// Lets the envelope in question go by; its error once it has.
    fn skip(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, ProtocolError> {
        let Some(skipped) = &mut self.skipped else {
            return Ok(None);
        };
        let gone = skipped.left.min(input.len() as u64);
        input.advance(gone as usize);
        skipped.left -= gone;
        if skipped.left > 0 {
            return Ok(None);
        }
        match self.skipped.take() {
            Some(skipped) => Err(skipped.error),
            None => Ok(None),
        }
    }

    /// A version that is not spoken. Within a segment its header is taken to be like ours, so that
    /// only this envelope is lost.
    fn refuse_version(
        &mut self,
        mut error: ProtocolError,
        input: &mut BytesMut,
        rules: &Rules,
    ) -> Result<Option<Envelope>, ProtocolError> {
        if !rules.segmented {
            input.clear();
            return Err(error);
        }
        let Some(bytes) = input.first_chunk::<HEADER_LENGTH>() else {
            return Ok(None);
        };
        error.stream = i16::from_be_bytes([bytes[2], bytes[3]]);
        error.fatal = false;
        let length = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
        self.skipped = Some(Box::new(Skipped {
            left: HEADER_LENGTH as u64 + u64::from(length),
            error,
        }));
        self.skip(input)
    }
}

impl Rules {
    /// The opcode, if this is an envelope that may come now. Errors are without the stream.
    fn check(
        &self,
        version: Version,
        header: &[u8; HEADER_LENGTH],
        total: usize,
    ) -> Result<Opcode, ProtocolError> {
        let byte = header[4];
        let is_response = header[0] & RESPONSE_BIT != 0;
        let opcode = Opcode::from_byte(byte)
            .ok_or_else(|| ProtocolError::recoverable(0, format!("Unknown opcode {byte}")))?;
        let names = ["REQUEST", "RESPONSE"];
        if opcode.is_request() == is_response {
            return Err(ProtocolError::recoverable(
                0,
                format!(
                    "Wrong protocol direction (expected {}, got {}) for opcode {byte} ({})",
                    names[usize::from(!is_response)],
                    names[usize::from(is_response)],
                    opcode.name()
                ),
            ));
        }
        if is_response != (self.receives == Receives::Responses) {
            return Err(ProtocolError::recoverable(
                0,
                format!("Unexpected message {}", opcode.name()),
            ));
        }
        if let Some(established) = self.version.filter(|v| *v != version) {
            return Err(ProtocolError::recoverable(
                0,
                format!(
                    "Invalid message version. Got {version} but previous messages on this \
                     connection had version {established}"
                ),
            ));
        }
        if total > self.max_envelope {
            let mut error = ProtocolError::recoverable(
                0,
                format!(
                    "Request is too big: length {total} exceeds maximum allowed length {}.",
                    self.max_envelope
                ),
            );
            error.reply.kind = ErrorKind::Invalid;
            return Err(error);
        }
        Ok(opcode)
    }

    /// The body as it was before compression.
    fn open(&self, header: &Header, body: Bytes) -> Result<Bytes, ProtocolError> {
        let Some(compression) = self.compression else {
            return Ok(body);
        };
        if !header.flags.contains(Flags::COMPRESSED) {
            return Ok(body);
        }
        compression
            .decompress_body(&body, self.max_envelope)
            .map(Bytes::from)
            .map_err(|error| ProtocolError::recoverable(header.stream, error.text()))
    }
}
