//! Requests: what a client asks. Everything borrows from the body of the envelope.

use cluster::Consistency;
use model::Value;
use smallvec::SmallVec;

use crate::framing::Envelope;
use crate::notation::{BodyReader, DecodeError};
use crate::{EventKind, Flags, Header, Opcode, Version};

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// Begin.
    Startup(Startup<'a>),
    /// What can be asked for at STARTUP?
    Options,
    /// Run a statement given as text.
    Query(Query<'a>),
    /// Prepare a statement.
    Prepare(Prepare<'a>),
    /// Run a prepared statement.
    Execute(Execute<'a>),
    /// Run several statements as one.
    Batch(Batch<'a>),
    /// Tell me about these.
    Register(Vec<EventKind>),
    /// The next step of authentication.
    AuthResponse(Option<&'a [u8]>),
}

/// STARTUP
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup<'a> {
    /// What the client chose, and what it says of itself (driver name and version, …).
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// The value of an option; names are compared without case, as Cassandra does.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        self.options
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }
}

/// QUERY
#[derive(Clone, Debug, PartialEq)]
pub struct Query<'a> {
    /// The statement.
    pub text: &'a str,
    /// How to run it.
    pub parameters: QueryParameters<'a>,
}

/// PREPARE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// The statement.
    pub text: &'a str,
    /// The keyspace of its unqualified names (version 5).
    pub keyspace: Option<&'a str>,
}

/// EXECUTE
#[derive(Clone, Debug, PartialEq)]
pub struct Execute<'a> {
    /// The id that PREPARE gave.
    pub id: &'a [u8],
    /// The id of the result metadata that the client knows (version 5).
    pub result_metadata_id: Option<&'a [u8]>,
    /// How to run it.
    pub parameters: QueryParameters<'a>,
}

/// How a batch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// All of it will be applied in the end.
    Logged,
    /// Each statement for itself.
    Unlogged,
    /// Counter updates.
    Counter,
}

/// What a batch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchTarget<'a> {
    /// A statement given as text.
    Text(&'a str),
    /// The id of a prepared statement.
    Prepared(&'a [u8]),
}

/// One statement of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchStatement<'a> {
    /// The statement.
    pub target: BatchTarget<'a>,
    /// Its values, by position.
    pub values: SmallVec<[Value<'a>; 8]>,
}

/// BATCH
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    /// How it is applied.
    pub kind: BatchKind,
    /// What it runs.
    pub statements: Vec<BatchStatement<'a>>,
    /// How to run it; without values and paging.
    pub parameters: QueryParameters<'a>,
}

/// How to run a statement (`<query_parameters>`).
#[derive(Clone, Debug, PartialEq)]
pub struct QueryParameters<'a> {
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// The bound values.
    pub values: SmallVec<[Value<'a>; 8]>,
    /// The names of the values, as many; empty if they go by position.
    pub names: Vec<&'a str>,
    /// Leave the metadata out of the rows.
    pub skip_metadata: bool,
    /// Rows wanted at once; `None`: all.
    pub page_size: Option<i32>,
    /// Where the page before ended.
    pub paging_state: Option<&'a [u8]>,
    /// The level of the serial phase of conditional updates; whether it is a serial level has not
    /// been checked.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of the writes, in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The keyspace of unqualified names (version 5).
    pub keyspace: Option<&'a str>,
    /// What time it is, in seconds since 1970 (version 5).
    pub now_in_seconds: Option<u32>,
}

impl QueryParameters<'_> {
    /// The level of the serial phase, SERIAL unless another is asked for.
    pub fn serial(&self) -> Consistency {
        self.serial_consistency.unwrap_or(Consistency::Serial)
    }
}

impl Default for QueryParameters<'_> {
    fn default() -> Self {
        QueryParameters {
            consistency: Consistency::One,
            values: SmallVec::new(),
            names: Vec::new(),
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }
}

/// The flags of `<query_parameters>`.
pub(crate) mod query_flag {
    pub(crate) const VALUES: u32 = 0x01;
    pub(crate) const SKIP_METADATA: u32 = 0x02;
    pub(crate) const PAGE_SIZE: u32 = 0x04;
    pub(crate) const PAGING_STATE: u32 = 0x08;
    pub(crate) const SERIAL_CONSISTENCY: u32 = 0x10;
    pub(crate) const TIMESTAMP: u32 = 0x20;
    pub(crate) const NAMES: u32 = 0x40;
    pub(crate) const KEYSPACE: u32 = 0x80;
    pub(crate) const NOW_IN_SECONDS: u32 = 0x100;
}

/// The flag of PREPARE (version 5) that a keyspace follows.
pub(crate) const PREPARE_WITH_KEYSPACE: u32 = 0x01;

/// A custom payload: it means something only to extensions.
pub type CustomPayload<'a> = Vec<(&'a str, Option<&'a [u8]>)>;

impl<'a> Request<'a> {
    /// Reads a request; a custom payload before it is passed over (see [`custom_payload`]).
    /// Bytes behind the request are ignored, as the specification asks.
    pub fn decode(envelope: &'a Envelope) -> Result<Request<'a>, DecodeError> {
        let version = envelope.header.version;
        let mut body = BodyReader::new(&envelope.body);
        skip_custom_payload(&envelope.header, &mut body)?;
        match envelope.header.opcode {
            Opcode::Startup => Ok(Request::Startup(Startup {
                options: body.string_map()?,
            })),
            Opcode::Options => Ok(Request::Options),
            Opcode::Query => Ok(Request::Query(Query {
                text: body.long_string()?,
                parameters: query_parameters(&mut body, version)?,
            })),
            Opcode::Prepare => prepare(&mut body, version).map(Request::Prepare),
            Opcode::Execute => Execute::read(&mut body, version).map(Request::Execute),
            Opcode::Batch => batch(&mut body, version).map(Request::Batch),
            Opcode::Register => {
                let kinds = body.string_list()?.into_iter().map(EventKind::from_name);
                kinds.collect::<Result<_, _>>().map(Request::Register)
            }
            Opcode::AuthResponse => Ok(Request::AuthResponse(body.bytes()?)),
            response => Err(DecodeError::new(format!(
                "Unexpected message {}",
                response.name()
            ))),
        }
    }
}

/// The custom payload of a request, if it has one.
pub fn custom_payload(envelope: &Envelope) -> Result<Option<CustomPayload<'_>>, DecodeError> {
    if !envelope.header.flags.contains(Flags::CUSTOM_PAYLOAD) {
        return Ok(None);
    }
    BodyReader::new(&envelope.body).bytes_map().map(Some)
}

impl<'a> Execute<'a> {
    /// Reads an EXECUTE.
    pub fn decode(envelope: &'a Envelope) -> Result<Execute<'a>, DecodeError> {
        let mut body = BodyReader::new(&envelope.body);
        skip_custom_payload(&envelope.header, &mut body)?;
        Execute::read(&mut body, envelope.header.version)
    }

    /// The id of the statement of an EXECUTE without a custom payload, as far as it can be read.
    pub fn statement_of(envelope: &'a Envelope) -> Option<&'a [u8]> {
        BodyReader::new(&envelope.body).short_bytes().ok()
    }

    fn read(body: &mut BodyReader<'a>, version: Version) -> Result<Execute<'a>, DecodeError> {
        Ok(Execute {
            id: body.short_bytes()?,
            result_metadata_id: (version >= Version::V5)
                .then(|| body.short_bytes())
                .transpose()?,
            parameters: query_parameters(body, version)?,
        })
    }
}

/// How many bytes of a request are text of statements, as far as it can be read: what parsing takes
/// many times as much memory for.
pub fn text_length(envelope: &Envelope) -> usize {
    let mut length = 0;
    // Who decodes the request is told what is wrong with it.
    let _ = count_text(envelope, &mut length);
    length
}

fn count_text(envelope: &Envelope, length: &mut usize) -> Result<(), DecodeError> {
    let (header, body) = (&envelope.header, &mut BodyReader::new(&envelope.body));
    if !matches!(
        header.opcode,
        Opcode::Query | Opcode::Prepare | Opcode::Batch
    ) {
        return Ok(());
    }
    skip_custom_payload(header, body)?;
    if header.opcode != Opcode::Batch {
        *length = body.bytes()?.map_or(0, <[u8]>::len);
        return Ok(());
    }
    body.byte()?;
    for _ in 0..body.short()? {
        match body.byte()? {
            0 => *length += body.bytes()?.map_or(0, <[u8]>::len),
            _ => drop(body.short_bytes()?),
        }
        for _ in 0..body.short()? {
            body.value(header.version)?;
        }
    }
    Ok(())
}

fn skip_custom_payload(header: &Header, body: &mut BodyReader<'_>) -> Result<(), DecodeError> {
    if !header.flags.contains(Flags::CUSTOM_PAYLOAD) {
        return Ok(());
    }
    if header.version < Version::V4 {
        return Err(DecodeError::new(
            "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
        ));
    }
    for _ in 0..body.short()? {
        body.string()?;
        body.bytes()?;
    }
    Ok(())
}

fn prepare<'a>(body: &mut BodyReader<'a>, version: Version) -> Result<Prepare<'a>, DecodeError> {
    let text = body.long_string()?;
    let mut keyspace = None;
    // Some drivers leave the flags out: nothing follows then.
    if version >= Version::V5 && !body.rest().is_empty() {
        let flags = body.int()? as u32;
        if flags & PREPARE_WITH_KEYSPACE != 0 {
            keyspace = Some(body.string()?);
        }
    }
    Ok(Prepare { text, keyspace })
}

fn batch<'a>(body: &mut BodyReader<'a>, version: Version) -> Result<Batch<'a>, DecodeError> {
    let kind = body.byte()?;
    let count = body.short()?;
    let mut statements = Vec::with_capacity(usize::from(count).min(1024));
    for _ in 0..count {
        let target = match body.byte()? {
            0 => BatchTarget::Text(body.long_string()?),
            1 => BatchTarget::Prepared(body.short_bytes()?),
            other => {
                return Err(DecodeError::new(format!(
                    "Invalid query kind in BATCH messages. Must be 0 or 1 but got {other}"
                )));
            }
        };
        let mut bound = SmallVec::new();
        values(body, version, &mut bound)?;
        statements.push(BatchStatement {
            target,
            values: bound,
        });
    }
    let parameters = query_parameters(body, version)?;
    let kind = match kind {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        other => {
            return Err(DecodeError::new(format!(
                "Invalid BATCH message type {other}"
            )));
        }
    };
    Ok(Batch {
        kind,
        statements,
        parameters,
    })
}

/// Reads values into a list, where they stay: it is large.
fn values<'a>(
    body: &mut BodyReader<'a>,
    version: Version,
    into: &mut SmallVec<[Value<'a>; 8]>,
) -> Result<(), DecodeError> {
    for _ in 0..body.short()? {
        into.push(body.value(version)?);
    }
    Ok(())
}

/// In this order whatever the order of the flags (`QueryOptions.Codec`).
fn query_parameters<'a>(
    body: &mut BodyReader<'a>,
    version: Version,
) -> Result<QueryParameters<'a>, DecodeError> {
    let mut parameters = QueryParameters {
        consistency: body.consistency()?,
        ..QueryParameters::default()
    };
    let flags = if version >= Version::V5 {
        body.int()? as u32
    } else {
        u32::from(body.byte()?)
    };
    let has = |flag: u32| flags & flag != 0;
    if has(query_flag::VALUES) {
        if has(query_flag::NAMES) {
            for _ in 0..body.short()? {
                parameters.names.push(body.string()?);
                parameters.values.push(body.value(version)?);
            }
        } else {
            values(body, version, &mut parameters.values)?;
        }
    }
    parameters.skip_metadata = has(query_flag::SKIP_METADATA);
    if has(query_flag::PAGE_SIZE) {
        let rows = body.int()?;
        if rows == 0 {
            return Err(DecodeError::new("The page size cannot be 0".to_owned()));
        }
        parameters.page_size = Some(rows);
    }
    if has(query_flag::PAGING_STATE) {
        parameters.paging_state = body.bytes()?;
    }
    if has(query_flag::SERIAL_CONSISTENCY) {
        parameters.serial_consistency = Some(body.consistency()?);
    }
    if has(query_flag::TIMESTAMP) {
        let timestamp = body.long()?;
        if timestamp == i64::MIN {
            return Err(DecodeError::new(format!(
                "Out of bound timestamp, must be in [{}, {}] (got {timestamp})",
                i64::MIN + 1,
                i64::MAX
            )));
        }
        parameters.timestamp = Some(timestamp);
    }
    if has(query_flag::KEYSPACE) {
        parameters.keyspace = Some(body.string()?);
    }
    if has(query_flag::NOW_IN_SECONDS) {
        parameters.now_in_seconds = Some(body.int()? as u32);
    }
    Ok(parameters)
}
