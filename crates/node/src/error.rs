//! What goes wrong with a request, and how clients are told.

use std::net::{IpAddr, SocketAddr};

use cluster::{Consistency, ConsistencyError, FailureReason, Outcome, Unavailable};
use cql::CqlError;
use wire::{DecodeError, ErrorKind, ErrorReply, Progress, WriteType};

/// Why a request was not answered with a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The statement is no good.
    #[error(transparent)]
    Cql(#[from] CqlError),
    /// The message is no good.
    #[error("{}", .0.text())]
    Decode(#[from] DecodeError),
    /// The level is not for this kind of request.
    #[error(transparent)]
    Consistency(#[from] ConsistencyError),
    /// Too few replicas are up.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// No other node of the data centre that could keep a logged batch is up.
    #[error("{0} for batchlog in local DC, required:{required}, available:{alive}", required = .0.required, alive = .0.alive)]
    NoBatchLog(Unavailable),
    /// No statement of this id has been prepared.
    #[error(
        "Prepared query with ID {} not found (either the query was not prepared on this host \
         (maybe the host has been restarted?) or you have prepared too many queries and it has \
         been evicted from the internal cache)",
        hex(.0)
    )]
    Unprepared(Vec<u8>),
    /// A write did not reach enough replicas, or they failed.
    #[error("{}", unreached(.outcome, .failures))]
    Write {
        /// The level asked for.
        consistency: Consistency,
        /// What it was.
        write_type: WriteType,
        /// What became of it.
        outcome: Outcome,
        /// The replicas that failed.
        failures: Vec<(SocketAddr, FailureReason)>,
    },
    /// All replicas of a write would refuse it.
    #[error("{why}")]
    Unwritable {
        /// Why.
        why: String,
        /// The level asked for.
        consistency: Consistency,
        /// What it was.
        write_type: WriteType,
        /// A failure of all replicas.
        outcome: Outcome,
        /// They.
        failures: Vec<(SocketAddr, FailureReason)>,
    },
    /// A read did not reach enough replicas, or they failed.
    #[error("{}", unreached(.outcome, .failures))]
    Read {
        /// The level asked for.
        consistency: Consistency,
        /// What became of it.
        outcome: Outcome,
        /// Did the replica that was asked for data answer?
        data_present: bool,
        /// The replicas that failed.
        failures: Vec<(SocketAddr, FailureReason)>,
    },
    /// A conditional update or a serial read was not agreed upon, or not committed at its level
    /// (`Paxos.MaybeFailure`).
    #[error("{}", undecided(.outcome, .failures, *.is_read, *.contentions))]
    Serial {
        /// Is it a read?
        is_read: bool,
        /// The serial level, or that of the commit.
        consistency: Consistency,
        /// What became of it.
        outcome: Outcome,
        /// How often another one came in its way.
        contentions: u32,
        /// The replicas that failed.
        failures: Vec<(SocketAddr, FailureReason)>,
    },
    /// The node has too much to do, or is about to stop. Nothing was done.
    #[error("{0}")]
    Overloaded(String),
    /// A table could not be emptied.
    #[error("Error during truncate: {0}")]
    Truncate(String),
    /// The node itself failed.
    #[error("{0}")]
    Server(String),
}

impl RequestError {
    /// A statement that cannot be executed.
    pub(crate) fn invalid(text: impl Into<String>) -> RequestError {
        RequestError::Cql(CqlError::Invalid(text.into()))
    }

    /// What the client is told.
    pub(crate) fn into_reply(self) -> ErrorReply {
        let message = self.to_string();
        let kind = match self {
            RequestError::Cql(error) => cql_kind(error),
            RequestError::Decode(_) => ErrorKind::Protocol,
            RequestError::Consistency(_) => ErrorKind::Invalid,
            RequestError::Unavailable(error) | RequestError::NoBatchLog(error) => {
                ErrorKind::Unavailable {
                    consistency: error.consistency,
                    required: count(error.required),
                    alive: count(error.alive),
                }
            }
            RequestError::Unprepared(id) => ErrorKind::Unprepared { id },
            RequestError::Write {
                consistency,
                write_type,
                outcome,
                failures,
            }
            | RequestError::Unwritable {
                consistency,
                write_type,
                outcome,
                failures,
                ..
            } => write_kind(consistency, write_type, &outcome, failures),
            RequestError::Read {
                consistency,
                outcome,
                data_present,
                failures,
            } => read_kind(consistency, &outcome, data_present, failures),
            RequestError::Serial {
                is_read: true,
                consistency,
                outcome,
                failures,
                ..
            } => read_kind(consistency, &outcome, false, failures),
            RequestError::Serial {
                consistency,
                outcome,
                contentions,
                failures,
                ..
            } => match write_kind(consistency, WriteType::Cas, &outcome, failures) {
                ErrorKind::WriteTimeout {
                    progress,
                    write_type,
                    ..
                } => ErrorKind::WriteTimeout {
                    progress,
                    write_type,
                    contentions: Some(u16::try_from(contentions).unwrap_or(u16::MAX)),
                },
                other => other,
            },
            RequestError::Overloaded(_) => ErrorKind::Overloaded,
            RequestError::Truncate(_) => ErrorKind::Truncate,
            RequestError::Server(_) => ErrorKind::Server,
        };
        ErrorReply::new(kind, message)
    }
}

fn cql_kind(error: CqlError) -> ErrorKind {
    match error {
        CqlError::GaveWay => ErrorKind::Server,
        CqlError::Protocol(_) => ErrorKind::Protocol,
        CqlError::Syntax(_) => ErrorKind::Syntax,
        CqlError::Unauthorized(_) => ErrorKind::Unauthorized,
        CqlError::Invalid(_) => ErrorKind::Invalid,
        CqlError::Config(_) => ErrorKind::Config,
        CqlError::AlreadyExists { keyspace, table } => ErrorKind::AlreadyExists { keyspace, table },
        CqlError::Function {
            keyspace,
            function,
            argument_types,
            ..
        } => ErrorKind::FunctionFailure {
            keyspace,
            function,
            argument_types,
        },
    }
}

fn write_kind(
    consistency: Consistency,
    write_type: WriteType,
    outcome: &Outcome,
    failures: Vec<(SocketAddr, FailureReason)>,
) -> ErrorKind {
    let progress = progress(consistency, outcome);
    match outcome {
        Outcome::Failure { .. } => ErrorKind::WriteFailure {
            progress,
            failures: by_address(failures),
            write_type,
        },
        Outcome::Timeout { .. } | Outcome::Done => ErrorKind::WriteTimeout {
            progress,
            write_type,
            contentions: None,
        },
    }
}

fn read_kind(
    consistency: Consistency,
    outcome: &Outcome,
    data_present: bool,
    failures: Vec<(SocketAddr, FailureReason)>,
) -> ErrorKind {
    let progress = progress(consistency, outcome);
    match outcome {
        Outcome::Failure { .. } => ErrorKind::ReadFailure {
            progress,
            failures: by_address(failures),
            data_present,
        },
        Outcome::Timeout { .. } | Outcome::Done => ErrorKind::ReadTimeout {
            progress,
            data_present,
        },
    }
}

fn progress(consistency: Consistency, outcome: &Outcome) -> Progress {
    let (received, required) = counts(outcome);
    Progress {
        consistency,
        received: count(received),
        required: count(required),
    }
}

fn counts(outcome: &Outcome) -> (u32, u32) {
    match outcome {
        Outcome::Done => (0, 0),
        Outcome::Timeout {
            received,
            block_for,
        }
        | Outcome::Failure {
            received,
            block_for,
            ..
        } => (*received, *block_for),
    }
}

/// As `RequestTimeoutException` and `RequestFailureException` put it.
fn unreached(outcome: &Outcome, failures: &[(SocketAddr, FailureReason)]) -> String {
    let (received, _) = counts(outcome);
    match outcome {
        Outcome::Failure { .. } => {
            let of =
                |(node, reason): &(SocketAddr, FailureReason)| format!("{reason} from /{node}");
            let reasons: Vec<String> = failures.iter().map(of).collect();
            format!(
                "Operation failed - received {received} responses and {} failures: {}",
                failures.len(),
                reasons.join(", ")
            )
        }
        Outcome::Timeout { .. } | Outcome::Done => {
            format!("Operation timed out - received only {received} responses.")
        }
    }
}

/// As `CasWriteTimeoutException` puts it, or as other reads and writes.
fn undecided(
    outcome: &Outcome,
    failures: &[(SocketAddr, FailureReason)],
    is_read: bool,
    contentions: u32,
) -> String {
    match outcome {
        Outcome::Timeout {
            received,
            block_for,
        } if !is_read => format!(
            "CAS operation timed out: received {received} of {block_for} required responses after \
             {contentions} contention retries"
        ),
        _ => unreached(outcome, failures),
    }
}

/// As the protocol has them: without ports.
fn by_address(failures: Vec<(SocketAddr, FailureReason)>) -> Vec<(IpAddr, FailureReason)> {
    let failures = failures.into_iter();
    failures.map(|(node, reason)| (node.ip(), reason)).collect()
}

fn count(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
