//! Reading responses.

use model::CqlType;
use uuid::Uuid;

use crate::error::ErrorReply;
use crate::event::{Event, SchemaChange};
use crate::framing::Envelope;
use crate::notation::{BodyReader, DecodeError};
use crate::request::CustomPayload;
use crate::response::result_kind;
use crate::rows::{ColumnSpec, metadata_flag};
use crate::type_option::read_type;
use crate::{Flags, Opcode, Version};

/// A response and what stood before it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseMessage<'a> {
    /// The id under which the request was traced.
    pub tracing_id: Option<Uuid>,
    /// Warnings.
    pub warnings: Vec<&'a str>,
    /// The custom payload.
    pub custom_payload: CustomPayload<'a>,
    /// The response.
    pub response: Response<'a>,
}

/// A response.
#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    /// ERROR
    Error(ErrorReply),
    /// READY
    Ready,
    /// AUTHENTICATE: the class of the authenticator.
    Authenticate(&'a str),
    /// SUPPORTED: options and their values.
    Supported(Vec<(&'a str, Vec<&'a str>)>),
    /// RESULT
    Result(QueryResult<'a>),
    /// EVENT
    Event(Event),
    /// AUTH_CHALLENGE
    AuthChallenge(Option<&'a [u8]>),
    /// AUTH_SUCCESS
    AuthSuccess(Option<&'a [u8]>),
}

/// RESULT
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult<'a> {
    /// Done.
    Void,
    /// Rows.
    Rows(Rows<'a>),
    /// This keyspace is used from now on.
    SetKeyspace(&'a str),
    /// A statement was prepared.
    Prepared(PreparedStatement<'a>),
    /// The schema was changed.
    SchemaChange(SchemaChange),
}

/// A column of a result or a bind variable.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    /// Its keyspace.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Its type; whether it is frozen is not on the wire.
    pub ty: CqlType,
}

impl ColumnDescription {
    /// The same, borrowed.
    pub fn spec(&self) -> ColumnSpec<'_> {
        ColumnSpec {
            keyspace: &self.keyspace,
            table: &self.table,
            name: &self.name,
            ty: &self.ty,
        }
    }
}

/// A Rows result.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<'a> {
    /// The columns; `None` if they were left out, as asked.
    pub columns: Option<Vec<ColumnDescription>>,
    /// How many columns.
    pub column_count: usize,
    /// How many rows.
    pub row_count: usize,
    /// Where the next page begins; `None`: there is none.
    pub paging_state: Option<&'a [u8]>,
    /// The id of the columns, if they are not what the client knew.
    pub new_metadata_id: Option<&'a [u8]>,
    /// All values, row after row.
    pub values: Vec<Option<&'a [u8]>>,
}

impl<'a> Rows<'a> {
    /// The rows; none if they have no columns.
    pub fn rows(&self) -> impl Iterator<Item = &[Option<&'a [u8]>]> {
        self.values.chunks(self.column_count.max(1))
    }
}

/// A Prepared result.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedStatement<'a> {
    /// The id of the statement.
    pub id: &'a [u8],
    /// The id of its result metadata (version 5).
    pub result_metadata_id: Option<&'a [u8]>,
    /// The flags of the variables' metadata: extensions use further bits.
    pub flags: i32,
    /// The bind variables.
    pub variables: Vec<ColumnDescription>,
    /// For each column of the partition key the index of its variable (version 4 and later).
    pub partition_key_indexes: Vec<u16>,
    /// The columns of the result; `None` for statements without rows.
    pub result_columns: Option<Vec<ColumnDescription>>,
}

impl<'a> ResponseMessage<'a> {
    /// Reads a response.
    pub fn decode(envelope: &'a Envelope) -> Result<ResponseMessage<'a>, DecodeError> {
        let header = &envelope.header;
        let mut body = BodyReader::new(&envelope.body);
        let tracing_id = match header.flags.contains(Flags::TRACING) {
            true => Some(body.uuid()?),
            false => None,
        };
        let warnings = match header.flags.contains(Flags::WARNING) {
            true => body.string_list()?,
            false => Vec::new(),
        };
        let custom_payload = match header.flags.contains(Flags::CUSTOM_PAYLOAD) {
            true => body.bytes_map()?,
            false => Vec::new(),
        };
        let response = match header.opcode {
            Opcode::Error => Response::Error(ErrorReply::decode(body.rest(), header.version)?),
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(body.string()?),
            Opcode::Supported => Response::Supported(body.string_multimap()?),
            Opcode::Result => Response::Result(result(&mut body, header.version)?),
            Opcode::Event => Response::Event(Event::decode(body.rest())?),
            Opcode::AuthChallenge => Response::AuthChallenge(body.bytes()?),
            Opcode::AuthSuccess => Response::AuthSuccess(body.bytes()?),
            request => {
                let text = format!("Unexpected message {}", request.name());
                return Err(DecodeError::new(text));
            }
        };
        Ok(ResponseMessage {
            tracing_id,
            warnings,
            custom_payload,
            response,
        })
    }
}

fn result<'a>(body: &mut BodyReader<'a>, version: Version) -> Result<QueryResult<'a>, DecodeError> {
    match body.int()? {
        result_kind::VOID => Ok(QueryResult::Void),
        result_kind::ROWS => rows(body).map(QueryResult::Rows),
        result_kind::SET_KEYSPACE => body.string().map(QueryResult::SetKeyspace),
        result_kind::PREPARED => prepared(body, version).map(QueryResult::Prepared),
        result_kind::SCHEMA_CHANGE => SchemaChange::decode(body).map(QueryResult::SchemaChange),
        kind => Err(DecodeError::new(format!("Unknown kind of result {kind}"))),
    }
}

fn rows<'a>(body: &mut BodyReader<'a>) -> Result<Rows<'a>, DecodeError> {
    let metadata = metadata(body)?;
    let column_count = metadata.count;
    let row_count = count(body.int()?)?;
    let total = row_count
        .checked_mul(column_count)
        .filter(|total| *total <= body.rest().len() / 4)
        .ok_or_else(|| {
            DecodeError::new(format!(
                "{row_count} rows of {column_count} columns do not fit into {} bytes",
                body.rest().len()
            ))
        })?;
    let values = (0..total).map(|_| body.bytes());
    Ok(Rows {
        columns: metadata.columns,
        column_count,
        row_count,
        paging_state: metadata.paging_state,
        new_metadata_id: metadata.new_id,
        values: values.collect::<Result<_, _>>()?,
    })
}

struct Metadata<'a> {
    count: usize,
    columns: Option<Vec<ColumnDescription>>,
    paging_state: Option<&'a [u8]>,
    new_id: Option<&'a [u8]>,
}

fn metadata<'a>(body: &mut BodyReader<'a>) -> Result<Metadata<'a>, DecodeError> {
    let flags = body.int()?;
    let has = |flag: i32| flags & flag != 0;
    let count = count(body.int()?)?;
    let paging_state = match has(metadata_flag::MORE_PAGES) {
        true => body.bytes()?,
        false => None,
    };
    let new_id = match has(metadata_flag::CHANGED) {
        true => Some(body.short_bytes()?),
        false => None,
    };
    let columns = match has(metadata_flag::NO_METADATA) {
        true => None,
        false => Some(columns(body, flags, count)?),
    };
    Ok(Metadata {
        count,
        columns,
        paging_state,
        new_id,
    })
}

fn columns(
    body: &mut BodyReader<'_>,
    flags: i32,
    count: usize,
) -> Result<Vec<ColumnDescription>, DecodeError> {
    let mut table = None;
    if flags & metadata_flag::GLOBAL_TABLE != 0 && count > 0 {
        table = Some((body.string()?, body.string()?));
    }
    let column = |_| {
        let (keyspace, table) = match table {
            Some(table) => table,
            None => (body.string()?, body.string()?),
        };
        Ok(ColumnDescription {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            name: body.string()?.to_owned(),
            ty: read_type(body)?,
        })
    };
    (0..count).map(column).collect()
}

fn prepared<'a>(
    body: &mut BodyReader<'a>,
    version: Version,
) -> Result<PreparedStatement<'a>, DecodeError> {
    let id = body.short_bytes()?;
    let result_metadata_id = (version >= Version::V5)
        .then(|| body.short_bytes())
        .transpose()?;
    let flags = body.int()?;
    let variable_count = count(body.int()?)?;
    let mut partition_key_indexes = Vec::new();
    if version >= Version::V4 {
        for _ in 0..count(body.int()?)? {
            partition_key_indexes.push(body.short()?);
        }
    }
    Ok(PreparedStatement {
        id,
        result_metadata_id,
        flags,
        variables: columns(body, flags, variable_count)?,
        partition_key_indexes,
        result_columns: metadata(body)?.columns,
    })
}

fn count(value: i32) -> Result<usize, DecodeError> {
    usize::try_from(value).map_err(|_| DecodeError::new(format!("Negative count {value}")))
}
