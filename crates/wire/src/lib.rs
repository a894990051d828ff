//! The native protocol, versions 3 to 5: frames, segments, compression, messages; and the protocol
//! between nodes ([`internode`]).
//!
//! Nothing here touches a socket: [`ServerConnection`] turns bytes into [`Envelope`]s and
//! responses into bytes, [`Request::decode`] reads what an envelope asks, [`ResponseWriter`]
//! writes what is answered. [`client`] is the other side, for tests, simulations and tools.
//!
//! The specifications are Cassandra's `native_protocol_v3.spec`, `_v4.spec` and `_v5.spec`; what
//! they leave open follows what Cassandra 5.0 does.

pub mod client;
mod compression;
mod connection;
mod error;
mod event;
mod framing;
mod header;
pub mod internode;
mod notation;
mod request;
mod response;
mod rows;
mod segment;
mod type_option;
mod version;

pub use cluster::{Consistency, FailureReason};
pub use compression::Compression;
pub use connection::{DEFAULT_MAX_ENVELOPE, ServerConnection};
pub use error::{ErrorKind, ErrorReply, Progress, WriteType};
pub use event::{
    ChangeKind, ChangeTarget, Event, EventKind, SchemaChange, StatusChange, TopologyChange,
};
pub use framing::{Envelope, ProtocolError};
pub use header::{Flags, HEADER_LENGTH, Header, Opcode};
pub use model::Value;
pub use notation::{BodyReader, BodyWriter, DecodeError};
pub use request::{
    Batch, BatchKind, BatchStatement, BatchTarget, CustomPayload, Execute, Prepare, Query,
    QueryParameters, Request, Startup, custom_payload, text_length,
};
pub use response::{
    EVENT_STREAM, ResponseExtras, ResponseWriter, ShardInfo, shard_of_client_port,
    supported_options,
};
pub use rows::{ColumnSpec, EncodedColumns, Prepared, RowsHead, RowsWriter};
pub use type_option::{put_type, read_type};
pub use version::Version;
