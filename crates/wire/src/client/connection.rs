//! A connection as the client sees it, without its socket.

use bytes::BytesMut;

use crate::compression::Compression;
use crate::connection::Outgoing;
use crate::framing::{Envelope, Framing, ProtocolError, Receives};
use crate::request::{Request, Startup};
use crate::{Flags, Opcode, Version};

use super::request::put_request;

/// The longest response that is taken, in bytes: what the specification allows.
const MAX_RESPONSE: usize = 256 << 20;

/// The client's side of a connection.
#[derive(Debug)]
pub struct ClientConnection {
    version: Version,
    compression: Option<Compression>,
    framing: Framing,
    outgoing: Outgoing,
    started: bool,
}

impl ClientConnection {
    /// A connection that will speak this version, with this compression (Snappy only up to
    /// version 4).
    pub fn new(version: Version, compression: Option<Compression>) -> ClientConnection {
        ClientConnection {
            version,
            compression,
            framing: Framing::new(Receives::Responses, MAX_RESPONSE),
            outgoing: Outgoing::default(),
            started: false,
        }
    }

    /// The version it speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Writes STARTUP; nothing but OPTIONS may be written before its reply has been received.
    pub fn start_up(&mut self, stream: i16) {
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        if let Some(compression) = self.compression {
            options.push(("COMPRESSION", compression.name()));
        }
        self.request(stream, &Request::Startup(Startup { options }));
    }

    /// Writes a request.
    pub fn request(&mut self, stream: i16, request: &Request<'_>) {
        self.request_with_flags(stream, request, Flags::default());
    }

    /// Writes a request that is to be traced, say.
    pub fn request_with_flags(&mut self, stream: i16, request: &Request<'_>, flags: Flags) {
        let out = &mut self.outgoing.batch;
        put_request(out, self.version, stream, flags, request);
    }

    /// Appends all that waits to be sent to `into`, in the form it is sent in.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        self.outgoing.take(into);
    }

    /// Takes the next response or event off `input`; `None` if it is not all there.
    ///
    /// # Errors
    /// What came is not the protocol.
    pub fn receive(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, ProtocolError> {
        let envelope = self.framing.receive(input)?;
        let opcode = envelope.as_ref().map(|e| e.header.opcode);
        if !self.started && matches!(opcode, Some(Opcode::Ready | Opcode::Authenticate)) {
            self.started = true;
            self.framing.establish(self.version, self.compression);
            self.outgoing.establish(self.version, self.compression);
        }
        Ok(envelope)
    }
}
