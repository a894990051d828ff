//! The ERROR response: codes and bodies (`native_protocol_v5.spec`, section 9; what older
//! versions get instead of codes they do not know follows Cassandra's `ErrorMessage`).

use std::fmt;
use std::net::IpAddr;

use cluster::{Consistency, FailureReason};

use crate::Version;
use crate::notation::{BodyReader, BodyWriter, DecodeError};

/// What kind of write a timeout or failure was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteType {
    /// One partition.
    Simple,
    /// A logged batch, whose log was written.
    Batch,
    /// A batch without a log.
    UnloggedBatch,
    /// A counter update.
    Counter,
    /// The writing of a batch's log.
    BatchLog,
    /// A conditional update.
    Cas,
    /// A write that updates a view.
    View,
    /// A write to a table with change data capture whose space is used up.
    Cdc,
}

impl WriteType {
    const ALL: [WriteType; 8] = [
        WriteType::Simple,
        WriteType::Batch,
        WriteType::UnloggedBatch,
        WriteType::Counter,
        WriteType::BatchLog,
        WriteType::Cas,
        WriteType::View,
        WriteType::Cdc,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            WriteType::Simple => "SIMPLE",
            WriteType::Batch => "BATCH",
            WriteType::UnloggedBatch => "UNLOGGED_BATCH",
            WriteType::Counter => "COUNTER",
            WriteType::BatchLog => "BATCH_LOG",
            WriteType::Cas => "CAS",
            WriteType::View => "VIEW",
            WriteType::Cdc => "CDC",
        }
    }

    fn from_name(name: &str) -> Result<WriteType, DecodeError> {
        WriteType::ALL
            .into_iter()
            .find(|t| t.name() == name)
            .ok_or_else(|| DecodeError::new(format!("Unknown write type {name}")))
    }
}

/// How far a read or write came before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The level it asked for.
    pub consistency: Consistency,
    /// Replicas that answered.
    pub received: i32,
    /// Replicas that had to.
    pub required: i32,
}

/// The code of an error and what follows its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// 0x0000: a fault of the server.
    Server,
    /// 0x000A: the client does not keep to the protocol.
    Protocol,
    /// 0x0100: wrong credentials.
    BadCredentials,
    /// 0x1000: not enough replicas are alive.
    Unavailable {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas it needs.
        required: i32,
        /// Replicas alive.
        alive: i32,
    },
    /// 0x1001: too much to do.
    Overloaded,
    /// 0x1002: the node is joining.
    IsBootstrapping,
    /// 0x1003: a TRUNCATE failed.
    Truncate,
    /// 0x1100: a write ran out of time.
    WriteTimeout {
        /// How far it came.
        progress: Progress,
        /// What it was.
        write_type: WriteType,
        /// With CAS: how often it met another conditional update (version 5).
        contentions: Option<u16>,
    },
    /// 0x1200: a read ran out of time.
    ReadTimeout {
        /// How far it came.
        progress: Progress,
        /// Did the replica that was asked for data answer?
        data_present: bool,
    },
    /// 0x1300: replicas failed in a read (version 4 and later; before, a read timeout).
    ReadFailure {
        /// How far it came.
        progress: Progress,
        /// Which replicas failed, and why.
        failures: Vec<(IpAddr, FailureReason)>,
        /// Did the replica that was asked for data answer?
        data_present: bool,
    },
    /// 0x1400: a user-defined function failed (version 4 and later; before, Invalid).
    FunctionFailure {
        /// The keyspace of the function.
        keyspace: String,
        /// Its name.
        function: String,
        /// Its argument types, in CQL.
        argument_types: Vec<String>,
    },
    /// 0x1500: replicas failed in a write (version 4 and later; before, a write timeout).
    WriteFailure {
        /// How far it came.
        progress: Progress,
        /// Which replicas failed, and why.
        failures: Vec<(IpAddr, FailureReason)>,
        /// What it was.
        write_type: WriteType,
    },
    /// 0x1600: no space left for change data capture (version 4 and later; before, Invalid).
    CdcWriteFailure,
    /// 0x1700: whether a conditional update was done is not known (version 5; before, a write
    /// timeout).
    CasWriteUnknown {
        /// How far it came.
        progress: Progress,
    },
    /// 0x2000: not CQL.
    Syntax,
    /// 0x2100: not allowed.
    Unauthorized,
    /// 0x2200: CQL, but it cannot be done.
    Invalid,
    /// 0x2300: it cannot be done with this configuration.
    Config,
    /// 0x2400: the keyspace or table exists.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; empty if the keyspace itself exists.
        table: String,
    },
    /// 0x2500: no statement of this id has been prepared here.
    Unprepared {
        /// The id.
        id: Vec<u8>,
    },
}

impl ErrorKind {
    /// The code.
    pub fn code(&self) -> i32 {
        match self {
            ErrorKind::Server => 0x0000,
            ErrorKind::Protocol => 0x000A,
            ErrorKind::BadCredentials => 0x0100,
            ErrorKind::Unavailable { .. } => 0x1000,
            ErrorKind::Overloaded => 0x1001,
            ErrorKind::IsBootstrapping => 0x1002,
            ErrorKind::Truncate => 0x1003,
            ErrorKind::WriteTimeout { .. } => 0x1100,
            ErrorKind::ReadTimeout { .. } => 0x1200,
            ErrorKind::ReadFailure { .. } => 0x1300,
            ErrorKind::FunctionFailure { .. } => 0x1400,
            ErrorKind::WriteFailure { .. } => 0x1500,
            ErrorKind::CdcWriteFailure => 0x1600,
            ErrorKind::CasWriteUnknown { .. } => 0x1700,
            ErrorKind::Syntax => 0x2000,
            ErrorKind::Unauthorized => 0x2100,
            ErrorKind::Invalid => 0x2200,
            ErrorKind::Config => 0x2300,
            ErrorKind::AlreadyExists { .. } => 0x2400,
            ErrorKind::Unprepared { .. } => 0x2500,
        }
    }
}

/// An ERROR response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    /// Its code and what follows the message.
    pub kind: ErrorKind,
    /// What a human reads; some drivers match on it.
    pub message: String,
}

impl ErrorReply {
    /// An error of this kind and message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ErrorReply {
        ErrorReply {
            kind,
            message: message.into(),
        }
    }

    /// Appends the body of the response. Kinds that `version` does not know are replaced by the
    /// nearest it knows.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let replacement = older_kind(&self.kind, version);
        let kind = replacement.as_ref().unwrap_or(&self.kind);
        out.put_int(kind.code());
        out.put_string(&self.message);
        encode_detail(kind, version, out);
    }

    /// Reads the body of the response.
    pub fn decode(body: &[u8], version: Version) -> Result<ErrorReply, DecodeError> {
        let mut reader = BodyReader::new(body);
        let code = reader.int()?;
        let message = reader.string()?.to_owned();
        let kind = decode_kind(code, &mut reader, version)?;
        Ok(ErrorReply { kind, message })
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[0x{:04X}] {}", self.kind.code(), self.message)
    }
}

impl std::error::Error for ErrorReply {}

impl From<DecodeError> for ErrorReply {
    fn from(error: DecodeError) -> ErrorReply {
        ErrorReply::new(ErrorKind::Protocol, error.text())
    }
}

/// What `version` gets in place of a kind it does not know.
fn older_kind(kind: &ErrorKind, version: Version) -> Option<ErrorKind> {
    match kind {
        ErrorKind::ReadFailure {
            progress,
            data_present,
            ..
        } if version < Version::V4 => Some(ErrorKind::ReadTimeout {
            progress: *progress,
            data_present: *data_present,
        }),
        ErrorKind::WriteFailure {
            progress,
            write_type,
            ..
        } if version < Version::V4 => Some(ErrorKind::WriteTimeout {
            progress: *progress,
            write_type: *write_type,
            contentions: None,
        }),
        ErrorKind::FunctionFailure { .. } | ErrorKind::CdcWriteFailure if version < Version::V4 => {
            Some(ErrorKind::Invalid)
        }
        ErrorKind::CasWriteUnknown { progress } if version < Version::V5 => {
            Some(ErrorKind::WriteTimeout {
                progress: *progress,
                write_type: WriteType::Cas,
                contentions: None,
            })
        }
        _ => None,
    }
}

fn encode_detail(kind: &ErrorKind, version: Version, out: &mut Vec<u8>) {
    match kind {
        ErrorKind::Unavailable {
            consistency,
            required,
            alive,
        } => {
            out.put_consistency(*consistency);
            out.put_int(*required);
            out.put_int(*alive);
        }
        ErrorKind::WriteTimeout {
            progress,
            write_type,
            contentions,
        } => {
            put_progress(*progress, out);
            out.put_string(write_type.name());
            if let (Some(contentions), true) = (contentions, version >= Version::V5) {
                out.put_short(*contentions);
            }
        }
        ErrorKind::ReadTimeout {
            progress,
            data_present,
        } => {
            put_progress(*progress, out);
            out.put_byte(u8::from(*data_present));
        }
        ErrorKind::ReadFailure {
            progress,
            failures,
            data_present,
        } => {
            put_progress(*progress, out);
            put_failures(failures, version, out);
            out.put_byte(u8::from(*data_present));
        }
        ErrorKind::FunctionFailure {
            keyspace,
            function,
            argument_types,
        } => {
            out.put_string(keyspace);
            out.put_string(function);
            out.put_string_list(argument_types);
        }
        ErrorKind::WriteFailure {
            progress,
            failures,
            write_type,
        } => {
            put_progress(*progress, out);
            put_failures(failures, version, out);
            out.put_string(write_type.name());
        }
        ErrorKind::CasWriteUnknown { progress } => put_progress(*progress, out),
        ErrorKind::AlreadyExists { keyspace, table } => {
            out.put_string(keyspace);
            out.put_string(table);
        }
        ErrorKind::Unprepared { id } => out.put_short_bytes(id),
        ErrorKind::Server
        | ErrorKind::Protocol
        | ErrorKind::BadCredentials
        | ErrorKind::Overloaded
        | ErrorKind::IsBootstrapping
        | ErrorKind::Truncate
        | ErrorKind::CdcWriteFailure
        | ErrorKind::Syntax
        | ErrorKind::Unauthorized
        | ErrorKind::Invalid
        | ErrorKind::Config => {}
    }
}

fn put_progress(progress: Progress, out: &mut Vec<u8>) {
    out.put_consistency(progress.consistency);
    out.put_int(progress.received);
    out.put_int(progress.required);
}

/// Version 4 only counts the failures; version 5 names them.
fn put_failures(failures: &[(IpAddr, FailureReason)], version: Version, out: &mut Vec<u8>) {
    out.put_int(failures.len() as i32);
    if version >= Version::V5 {
        for (address, reason) in failures {
            out.put_inet_address(*address);
            out.put_short(*reason as u16);
        }
    }
}

fn decode_kind(
    code: i32,
    reader: &mut BodyReader<'_>,
    version: Version,
) -> Result<ErrorKind, DecodeError> {
    Ok(match code {
        0x0000 => ErrorKind::Server,
        0x000A => ErrorKind::Protocol,
        0x0100 => ErrorKind::BadCredentials,
        0x1000 => ErrorKind::Unavailable {
            consistency: reader.consistency()?,
            required: reader.int()?,
            alive: reader.int()?,
        },
        0x1001 => ErrorKind::Overloaded,
        0x1002 => ErrorKind::IsBootstrapping,
        0x1003 => ErrorKind::Truncate,
        0x1100 => ErrorKind::WriteTimeout {
            progress: progress(reader)?,
            write_type: WriteType::from_name(reader.string()?)?,
            contentions: if reader.rest().is_empty() {
                None
            } else {
                Some(reader.short()?)
            },
        },
        0x1200 => ErrorKind::ReadTimeout {
            progress: progress(reader)?,
            data_present: reader.byte()? != 0,
        },
        0x1300 => ErrorKind::ReadFailure {
            progress: progress(reader)?,
            failures: failures(reader, version)?,
            data_present: reader.byte()? != 0,
        },
        0x1400 => ErrorKind::FunctionFailure {
            keyspace: reader.string()?.to_owned(),
            function: reader.string()?.to_owned(),
            argument_types: reader
                .string_list()?
                .into_iter()
                .map(str::to_owned)
                .collect(),
        },
        0x1500 => ErrorKind::WriteFailure {
            progress: progress(reader)?,
            failures: failures(reader, version)?,
            write_type: WriteType::from_name(reader.string()?)?,
        },
        0x1600 => ErrorKind::CdcWriteFailure,
        0x1700 => ErrorKind::CasWriteUnknown {
            progress: progress(reader)?,
        },
        0x2000 => ErrorKind::Syntax,
        0x2100 => ErrorKind::Unauthorized,
        0x2200 => ErrorKind::Invalid,
        0x2300 => ErrorKind::Config,
        0x2400 => ErrorKind::AlreadyExists {
            keyspace: reader.string()?.to_owned(),
            table: reader.string()?.to_owned(),
        },
        0x2500 => ErrorKind::Unprepared {
            id: reader.short_bytes()?.to_vec(),
        },
        _ => {
            return Err(DecodeError::new(format!("Unknown error code {code:#06x}")));
        }
    })
}

fn progress(reader: &mut BodyReader<'_>) -> Result<Progress, DecodeError> {
    Ok(Progress {
        consistency: reader.consistency()?,
        received: reader.int()?,
        required: reader.int()?,
    })
}

/// Version 4 gives only their number: the addresses are then unspecified.
fn failures(
    reader: &mut BodyReader<'_>,
    version: Version,
) -> Result<Vec<(IpAddr, FailureReason)>, DecodeError> {
    let count = reader.int()?;
    if version < Version::V5 {
        let count = usize::try_from(count).unwrap_or(0).min(1024);
        let unknown = (IpAddr::from([0; 4]), FailureReason::Unknown);
        return Ok(vec![unknown; count]);
    }
    (0..count)
        .map(|_| Ok((reader.inet_address()?, failure_reason(reader.short()?))))
        .collect()
}

/// Codes that are not known here say no more than that the replica failed.
fn failure_reason(code: u16) -> FailureReason {
    const KNOWN: [FailureReason; 6] = [
        FailureReason::ReadTooManyTombstones,
        FailureReason::Timeout,
        FailureReason::IncompatibleSchema,
        FailureReason::ReadSize,
        FailureReason::NodeDown,
        FailureReason::IndexNotAvailable,
    ];
    let known = KNOWN.into_iter().find(|reason| *reason as u16 == code);
    known.unwrap_or(FailureReason::Unknown)
}
