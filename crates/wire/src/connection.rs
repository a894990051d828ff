//! The server's side of a connection, without its socket: bytes in, requests out; responses in,
//! bytes out.
//!
//! ```text
//! socket ──▶ receive ──▶ Request::decode ──▶ …
//! socket ◀── take_output ◀── ResponseWriter ◀── …
//! ```
//!
//! Responses are written as plain envelopes, one behind the other. [`ServerConnection::take_output`]
//! gives the whole batch its outer form: compressed bodies up to version 4, segments in version 5.

use bytes::BytesMut;

use crate::compression::Compression;
use crate::error::{ErrorKind, ErrorReply};
use crate::framing::{Envelope, Framing, ProtocolError, Receives, envelope_length, segment_format};
use crate::header::HEADER_LENGTH;
use crate::notation::DecodeError;
use crate::request::Startup;
use crate::response::ResponseWriter;
use crate::segment::encode_envelopes;
use crate::{Flags, Header, Opcode, Version};

/// Cassandra's default of `native_transport_max_frame_size`, in bytes.
pub const DEFAULT_MAX_ENVELOPE: usize = 16 << 20;

/// Bodies shorter than this are sent uncompressed: they would hardly become shorter.
const COMPRESSION_THRESHOLD: usize = 512;
/// Bytes of a response from which on it is rather moved than copied.
const LARGE: usize = 4 << 10;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for STARTUP.
    New,
    /// Waits for AUTH_RESPONSE.
    Authenticating,
    /// Takes requests.
    Ready,
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct ServerConnection {
    framing: Framing,
    stage: Stage,
    outgoing: Outgoing,
}

impl Default for ServerConnection {
    fn default() -> Self {
        ServerConnection::new(DEFAULT_MAX_ENVELOPE)
    }
}

impl ServerConnection {
    /// A connection that has just been accepted. Requests of more than `max_envelope` bytes,
    /// header included, are refused.
    pub fn new(max_envelope: usize) -> ServerConnection {
        ServerConnection {
            framing: Framing::new(Receives::Requests, max_envelope),
            stage: Stage::New,
            outgoing: Outgoing::default(),
        }
    }

    /// Takes the next request off `input`; `None` if it is not all there: read more, append, ask
    /// again.
    ///
    /// # Errors
    /// What the client did wrong. Tell it with [`ServerConnection::refuse`]; if the error is fatal
    /// the connection then ends (send the reply, close the sending side, read until the client
    /// has closed its own: closing with unread input would make the reply vanish), else ask again.
    pub fn receive(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, ProtocolError> {
        let Some(envelope) = self.framing.receive(input)? else {
            return Ok(None);
        };
        match self.check_stage(envelope.header.opcode) {
            Ok(()) => Ok(Some(envelope)),
            Err(text) => Err(ProtocolError {
                reply: ErrorReply::new(ErrorKind::Protocol, text),
                stream: envelope.header.stream,
                fatal: false,
                unsupported_version: None,
            }),
        }
    }

    fn check_stage(&self, opcode: Opcode) -> Result<(), String> {
        let name = opcode.name();
        match (self.stage, opcode) {
            (_, Opcode::Options) => Ok(()),
            (Stage::New, Opcode::Startup) => Ok(()),
            (Stage::New, _) => Err(format!(
                "Unexpected message {name}, expecting STARTUP or OPTIONS"
            )),
            (Stage::Authenticating, Opcode::AuthResponse) => Ok(()),
            (Stage::Authenticating, _) => Err(format!(
                "Unexpected message {name}, expecting SASL_RESPONSE"
            )),
            (Stage::Ready, Opcode::Startup) => {
                Err("Unexpected message STARTUP, the connection is already initialized".to_owned())
            }
            (Stage::Ready, _) => Ok(()),
        }
    }

    /// Agrees to STARTUP, which came with this header, and writes the reply: READY, or
    /// AUTHENTICATE if an authenticator is named. From then on the version is fixed.
    ///
    /// # Errors
    /// The client asks for what there is not; nothing has been written, and it may try again.
    pub fn start_up(
        &mut self,
        header: &Header,
        startup: &Startup<'_>,
        authenticator: Option<&str>,
    ) -> Result<(), DecodeError> {
        check_cql_version(startup)?;
        let compression = agreed_compression(startup, header.version)?;
        let reply = ResponseWriter::new(&mut self.outgoing.batch, header.version, header.stream);
        match authenticator {
            None => {
                reply.ready();
                self.stage = Stage::Ready;
            }
            Some(class) => {
                reply.authenticate(class);
                self.stage = Stage::Authenticating;
            }
        }
        self.framing.establish(header.version, compression);
        self.outgoing.establish(header.version, compression);
        Ok(())
    }

    /// The client has proved who it is.
    pub fn authenticated(&mut self) {
        self.stage = Stage::Ready;
    }

    /// The version fixed by STARTUP.
    pub fn version(&self) -> Option<Version> {
        self.outgoing.version
    }

    /// The compression agreed upon at STARTUP.
    pub fn compression(&self) -> Option<Compression> {
        self.outgoing.compression
    }

    /// Begins the response to a request.
    pub fn respond(&mut self, header: &Header) -> ResponseWriter<'_> {
        ResponseWriter::new(&mut self.outgoing.batch, header.version, header.stream)
    }

    /// The batch of envelopes to be sent next, for responses written elsewhere.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing.batch
    }

    /// Sends a response that was written elsewhere, and leaves the buffer to be used again, empty or not. A large
    /// one is not copied if nothing waits before it; unless several went together before, for which there is room.
    pub fn send(&mut self, response: &mut Vec<u8>) {
        let batch = &mut self.outgoing.batch;
        let has_room = batch.capacity() > response.capacity();
        if batch.is_empty() && response.len() >= LARGE && !has_room {
            std::mem::swap(batch, response);
        } else {
            batch.extend_from_slice(response);
        }
    }

    /// Bytes of responses that wait for [`ServerConnection::take_output`].
    pub fn pending(&self) -> usize {
        self.outgoing.batch.len()
    }

    /// Tells the client what it did wrong.
    pub fn refuse(&mut self, error: &ProtocolError) {
        let asked_for = error.unsupported_version;
        let theirs = asked_for.and_then(Version::from_number);
        let version = self.outgoing.version.or(theirs).unwrap_or(Version::NEWEST);
        let out = &mut self.outgoing.batch;
        match asked_for {
            Some(old @ 1..=2) if self.outgoing.version.is_none() => {
                put_old_error(old, &error.reply, out);
            }
            _ => ResponseWriter::new(out, version, error.stream).error(&error.reply),
        }
    }

    /// Appends all that waits to be sent to `into`, in the form it is sent in.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        self.outgoing.take(into);
    }
}

/// An ERROR for a client of version 1 or 2, whose header has one byte less (the stream).
fn put_old_error(version: u8, reply: &ErrorReply, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    reply.encode(Version::V3, &mut body);
    out.extend_from_slice(&[version | 0x80, 0, 0, Opcode::Error as u8]);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
}

fn check_cql_version(startup: &Startup<'_>) -> Result<(), DecodeError> {
    let version = startup
        .option("CQL_VERSION")
        .ok_or_else(|| DecodeError::new("Missing value CQL_VERSION in STARTUP message"))?;
    let number = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>());
    let parts = [parts.next(), parts.next(), parts.next(), parts.next()];
    let [Some(Ok(major)), Some(Ok(_)), Some(Ok(_)), None] = parts else {
        return Err(DecodeError::new(format!(
            "Invalid version value: {version}"
        )));
    };
    if major < 3 {
        return Err(DecodeError::new(format!(
            "CQL version {version} is not supported by the binary protocol \
             (supported version are >= 3.0.0)"
        )));
    }
    Ok(())
}

fn agreed_compression(
    startup: &Startup<'_>,
    version: Version,
) -> Result<Option<Compression>, DecodeError> {
    let Some(name) = startup.option("COMPRESSION") else {
        return Ok(None);
    };
    match Compression::from_name(name) {
        Some(Compression::Snappy) if version >= Version::V5 => Err(DecodeError::new(
            "Snappy compression is not supported in protocol V5",
        )),
        Some(compression) => Ok(Some(compression)),
        None => Err(DecodeError::new(format!(
            "Unknown compression algorithm: {name}"
        ))),
    }
}

/// Envelopes that wait to be sent, and how they will be.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) batch: Vec<u8>,
    version: Option<Version>,
    compression: Option<Compression>,
    /// The first bytes of the batch that were written before STARTUP was agreed to.
    before_startup: usize,
}

impl Outgoing {
    /// What has been written up to now goes as it is, what comes as the version wants it.
    pub(crate) fn establish(&mut self, version: Version, compression: Option<Compression>) {
        self.version = Some(version);
        self.compression = compression;
        self.before_startup = self.batch.len();
    }

    pub(crate) fn take(&mut self, into: &mut Vec<u8>) {
        let (plain, batch) = self.batch.split_at(self.before_startup);
        into.extend_from_slice(plain);
        let segments = self
            .version
            .and_then(|version| segment_format(version, self.compression));
        match (segments, self.compression) {
            (Some(format), _) => encode_envelopes(format, batch, envelope_length, into),
            (None, Some(compression)) => compress_envelopes(compression, batch, into),
            (None, None) if into.is_empty() && self.before_startup == 0 => {
                std::mem::swap(&mut self.batch, into);
            }
            (None, None) => into.extend_from_slice(batch),
        }
        self.batch.clear();
        self.before_startup = 0;
    }
}

/// Appends the envelopes, the bodies of long ones compressed.
fn compress_envelopes(compression: Compression, mut batch: &[u8], into: &mut Vec<u8>) {
    while let Some(length) = envelope_length(batch) {
        let (envelope, rest) = batch.split_at(length);
        batch = rest;
        let start = into.len();
        let (header, body) = envelope.split_at(HEADER_LENGTH);
        into.extend_from_slice(header);
        if body.len() >= COMPRESSION_THRESHOLD {
            compression.compress_body(body, into);
            let compressed = into.len() - start - HEADER_LENGTH;
            if compressed < body.len() {
                into[start + 1] |= Flags::COMPRESSED.0;
                into[start + 5..start + HEADER_LENGTH]
                    .copy_from_slice(&(compressed as u32).to_be_bytes());
                continue;
            }
            into.truncate(start + HEADER_LENGTH);
        }
        into.extend_from_slice(body);
    }
}
