//! Responses, written straight into the buffer they are sent from.

use std::net::SocketAddr;

use uuid::Uuid;

use crate::error::ErrorReply;
use crate::event::{Event, SchemaChange};
use crate::notation::BodyWriter;
use crate::rows::{Prepared, RowsHead, RowsWriter, close_envelope, put_prepared};
use crate::{Flags, Header, Opcode, Version};

/// The kinds of RESULT.
pub(crate) mod result_kind {
    pub(crate) const VOID: i32 = 1;
    pub(crate) const ROWS: i32 = 2;
    pub(crate) const SET_KEYSPACE: i32 = 3;
    pub(crate) const PREPARED: i32 = 4;
    pub(crate) const SCHEMA_CHANGE: i32 = 5;
}

/// What may stand before the message in a response.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseExtras<'a> {
    /// The request was traced under this id.
    pub tracing_id: Option<Uuid>,
    /// Warnings (version 4 and later; before they are not sent).
    pub warnings: &'a [String],
    /// A custom payload (version 4 and later; before it is not sent).
    pub custom_payload: &'a [(&'a str, Option<&'a [u8]>)],
}

/// A response that is about to be written: each method writes one kind and ends it.
#[derive(Debug)]
#[must_use = "nothing is written before the kind of response is chosen"]
pub struct ResponseWriter<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
    stream: i16,
    extras: ResponseExtras<'a>,
}

impl<'a> ResponseWriter<'a> {
    /// A response to the request of `stream`, appended to `out` as an envelope.
    pub fn new(out: &'a mut Vec<u8>, version: Version, stream: i16) -> ResponseWriter<'a> {
        ResponseWriter {
            out,
            version,
            stream,
            extras: ResponseExtras::default(),
        }
    }

    /// With a tracing id, warnings, a custom payload.
    pub fn with_extras(mut self, extras: ResponseExtras<'a>) -> ResponseWriter<'a> {
        self.extras = extras;
        self
    }

    /// ERROR
    pub fn error(self, error: &ErrorReply) {
        let version = self.version;
        self.write(Opcode::Error, |out| error.encode(version, out));
    }

    /// READY
    pub fn ready(self) {
        self.write(Opcode::Ready, |_| ());
    }

    /// AUTHENTICATE, naming the class of the authenticator.
    pub fn authenticate(self, class: &str) {
        self.write(Opcode::Authenticate, |out| out.put_string(class));
    }

    /// AUTH_CHALLENGE
    pub fn auth_challenge(self, token: Option<&[u8]>) {
        self.write(Opcode::AuthChallenge, |out| out.put_bytes(token));
    }

    /// AUTH_SUCCESS
    pub fn auth_success(self, token: Option<&[u8]>) {
        self.write(Opcode::AuthSuccess, |out| out.put_bytes(token));
    }

    /// SUPPORTED
    pub fn supported(self, options: &[(&str, Vec<String>)]) {
        self.write(Opcode::Supported, |out| {
            out.put_short(options.len() as u16);
            for (name, values) in options {
                out.put_string(name);
                out.put_string_list(values);
            }
        });
    }

    /// RESULT of a statement that has none.
    pub fn void(self) {
        self.write(Opcode::Result, |out| out.put_int(result_kind::VOID));
    }

    /// RESULT of USE.
    pub fn set_keyspace(self, keyspace: &str) {
        self.write(Opcode::Result, |out| {
            out.put_int(result_kind::SET_KEYSPACE);
            out.put_string(keyspace);
        });
    }

    /// RESULT of a change of the schema.
    pub fn schema_change(self, change: &SchemaChange) {
        self.write(Opcode::Result, |out| {
            out.put_int(result_kind::SCHEMA_CHANGE);
            change.encode(out);
        });
    }

    /// RESULT of PREPARE.
    pub fn prepared(self, prepared: &Prepared<'_>) {
        let version = self.version;
        self.write(Opcode::Result, |out| {
            out.put_int(result_kind::PREPARED);
            put_prepared(prepared, version, out);
        });
    }

    /// RESULT with rows, which are then written to what is returned.
    pub fn rows(self, head: &RowsHead<'_>) -> RowsWriter<'a> {
        let envelope = self.out.len();
        let (out, version) = (self.out, self.version);
        let extras = ResponseExtras {
            warnings: &[],
            ..self.extras
        };
        begin(out, version, self.stream, Opcode::Result, &extras);
        out.put_int(result_kind::ROWS);
        let mut rows = RowsWriter::start(out, envelope, head, version);
        // There may be more of them before the rows are over.
        rows.warn(self.extras.warnings.iter().cloned());
        rows
    }

    /// EVENT; its stream should be -1.
    pub fn event(self, event: &Event) {
        self.write(Opcode::Event, |out| event.encode(out));
    }

    fn write(self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        let envelope = self.out.len();
        begin(self.out, self.version, self.stream, opcode, &self.extras);
        body(self.out);
        close_envelope(self.out, envelope);
    }
}

/// The stream of events.
pub const EVENT_STREAM: i16 = -1;

/// Writes the header, its length still open, and what stands before the message.
fn begin(
    out: &mut Vec<u8>,
    version: Version,
    stream: i16,
    opcode: Opcode,
    extras: &ResponseExtras<'_>,
) {
    let newer = version >= Version::V4;
    let mut flags = Flags::default();
    if extras.tracing_id.is_some() {
        flags = flags.with(Flags::TRACING);
    }
    let warnings = if newer { extras.warnings } else { &[] };
    if !warnings.is_empty() {
        flags = flags.with(Flags::WARNING);
    }
    let payload = if newer { extras.custom_payload } else { &[] };
    if !payload.is_empty() {
        flags = flags.with(Flags::CUSTOM_PAYLOAD);
    }
    let header = Header {
        version,
        flags,
        stream,
        opcode,
    };
    out.extend_from_slice(&header.encode(0));
    if let Some(id) = extras.tracing_id {
        out.put_uuid(id);
    }
    if !warnings.is_empty() {
        out.put_string_list(warnings);
    }
    if !payload.is_empty() {
        out.put_short(payload.len() as u16);
        for (name, value) in payload {
            out.put_string(name);
            out.put_bytes(*value);
        }
    }
}

/// What SUPPORTED says of shards, for shard-aware drivers (Scylla's `protocol-extensions.md`,
/// section "Intranode sharding").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardInfo {
    /// The shard that serves this connection.
    pub shard: u16,
    /// How many there are.
    pub shards: u16,
    /// The bits of a token that the rule ignores.
    pub ignored_bits: u8,
    /// The port where the client's port number chooses the shard.
    pub shard_aware_port: Option<u16>,
}

/// The options of SUPPORTED.
pub fn supported_options(
    cql_version: &str,
    shards: Option<ShardInfo>,
) -> Vec<(&'static str, Vec<String>)> {
    let versions = Version::ALL.map(|v| v.description().to_owned());
    let mut options = vec![
        ("PROTOCOL_VERSIONS", versions.to_vec()),
        ("COMPRESSION", vec!["snappy".to_owned(), "lz4".to_owned()]),
        ("CQL_VERSION", vec![cql_version.to_owned()]),
    ];
    let Some(info) = shards else {
        return options;
    };
    let mut add = |name, value: String| options.push((name, vec![value]));
    add("SCYLLA_SHARD", info.shard.to_string());
    add("SCYLLA_NR_SHARDS", info.shards.to_string());
    add(
        "SCYLLA_PARTITIONER",
        "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
    );
    add(
        "SCYLLA_SHARDING_ALGORITHM",
        "biased-token-round-robin".to_owned(),
    );
    add("SCYLLA_SHARDING_IGNORE_MSB", info.ignored_bits.to_string());
    if let Some(port) = info.shard_aware_port {
        add("SCYLLA_SHARD_AWARE_PORT", port.to_string());
    }
    options
}

/// The shard a client asks for by its port when it comes through the shard-aware port.
pub fn shard_of_client_port(client: SocketAddr, shards: u16) -> u16 {
    client.port() % shards.max(1)
}
