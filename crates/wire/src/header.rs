//! The header of an envelope: nine bytes before every message.
//!
//! ```text
//! 0         8        16        24        32         40                             72
//! +---------+---------+---------+---------+---------+---------+---------+---------+---------+
//! | version |  flags  |      stream       | opcode  |               length                  |
//! +---------+---------+---------+---------+---------+---------+---------+---------+---------+
//! ```
//!
//! The high bit of the first byte tells responses from requests (`native_protocol_v4.spec`,
//! section 2).

use crate::Version;

/// Bytes of a header.
pub const HEADER_LENGTH: usize = 9;

/// The bit of the first byte that marks a response.
pub(crate) const RESPONSE_BIT: u8 = 0x80;

/// The flags of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The body is compressed (version 3 and 4 only).
    pub const COMPRESSED: Flags = Flags(0x01);
    /// Request: trace it. Response: a tracing id stands first in the body.
    pub const TRACING: Flags = Flags(0x02);
    /// A custom payload stands before the message.
    pub const CUSTOM_PAYLOAD: Flags = Flags(0x04);
    /// Response: warnings stand before the message.
    pub const WARNING: Flags = Flags(0x08);
    /// The client accepts versions still in beta.
    pub const USE_BETA: Flags = Flags(0x10);

    /// Are all bits of `other` set?
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other`.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Without the bits of `other`.
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// What kind of message an envelope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Response
    Error = 0x00,
    /// Request
    Startup = 0x01,
    /// Response
    Ready = 0x02,
    /// Response
    Authenticate = 0x03,
    /// Request
    Options = 0x05,
    /// Response
    Supported = 0x06,
    /// Request
    Query = 0x07,
    /// Response
    Result = 0x08,
    /// Request
    Prepare = 0x09,
    /// Request
    Execute = 0x0A,
    /// Request
    Register = 0x0B,
    /// Response that no request asked for
    Event = 0x0C,
    /// Request
    Batch = 0x0D,
    /// Response
    AuthChallenge = 0x0E,
    /// Request
    AuthResponse = 0x0F,
    /// Response
    AuthSuccess = 0x10,
}

impl Opcode {
    const ALL: [Opcode; 16] = [
        Opcode::Error,
        Opcode::Startup,
        Opcode::Ready,
        Opcode::Authenticate,
        Opcode::Options,
        Opcode::Supported,
        Opcode::Query,
        Opcode::Result,
        Opcode::Prepare,
        Opcode::Execute,
        Opcode::Register,
        Opcode::Event,
        Opcode::Batch,
        Opcode::AuthChallenge,
        Opcode::AuthResponse,
        Opcode::AuthSuccess,
    ];

    /// The opcode of this byte.
    pub fn from_byte(byte: u8) -> Option<Opcode> {
        Opcode::ALL.into_iter().find(|o| *o as u8 == byte)
    }

    /// Is it sent by clients?
    pub fn is_request(self) -> bool {
        matches!(
            self,
            Opcode::Startup
                | Opcode::Options
                | Opcode::Query
                | Opcode::Prepare
                | Opcode::Execute
                | Opcode::Register
                | Opcode::Batch
                | Opcode::AuthResponse
        )
    }

    /// As Cassandra's error texts and the specification name it.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Error => "ERROR",
            Opcode::Startup => "STARTUP",
            Opcode::Ready => "READY",
            Opcode::Authenticate => "AUTHENTICATE",
            Opcode::Options => "OPTIONS",
            Opcode::Supported => "SUPPORTED",
            Opcode::Query => "QUERY",
            Opcode::Result => "RESULT",
            Opcode::Prepare => "PREPARE",
            Opcode::Execute => "EXECUTE",
            Opcode::Register => "REGISTER",
            Opcode::Event => "EVENT",
            Opcode::Batch => "BATCH",
            Opcode::AuthChallenge => "AUTH_CHALLENGE",
            Opcode::AuthResponse => "AUTH_RESPONSE",
            Opcode::AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the message.
    pub version: Version,
    /// Its flags.
    pub flags: Flags,
    /// Chosen by the client; the response repeats it. -1 for events.
    pub stream: i16,
    /// Its kind.
    pub opcode: Opcode,
}

impl Header {
    /// The nine bytes of a header for a body of `length` bytes; the direction follows from the
    /// opcode.
    pub fn encode(&self, length: u32) -> [u8; HEADER_LENGTH] {
        let direction = if self.opcode.is_request() {
            0
        } else {
            RESPONSE_BIT
        };
        let stream = self.stream.to_be_bytes();
        let length = length.to_be_bytes();
        let flags = match self.version.is_beta() {
            true => self.flags.with(Flags::USE_BETA),
            false => self.flags,
        };
        [
            self.version.number() | direction,
            flags.0,
            stream[0],
            stream[1],
            self.opcode as u8,
            length[0],
            length[1],
            length[2],
            length[3],
        ]
    }
}
