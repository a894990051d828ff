//! What one side writes the other reads: for all versions, compressions and sizes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use model::{CqlType, Value};
use proptest::prelude::*;
use wire::client::{ClientConnection, QueryResult, Response, ResponseMessage};
use wire::{
    Batch, BatchKind, BatchStatement, BatchTarget, ChangeKind, ChangeTarget, ColumnSpec,
    Compression, Consistency, EncodedColumns, ErrorKind, ErrorReply, Event, Execute, FailureReason,
    Prepare, Prepared, Progress, Query, QueryParameters, Request, ResponseExtras, ResponseWriter,
    RowsHead, SchemaChange, ServerConnection, StatusChange, TopologyChange, Version, WriteType,
};

fn versions() -> impl Strategy<Value = Version> {
    prop::sample::select(Version::ALL.to_vec())
}

fn compressions(version: Version) -> Vec<Option<Compression>> {
    match version {
        Version::V5 | Version::V6 => vec![None, Some(Compression::Lz4)],
        _ => vec![None, Some(Compression::Lz4), Some(Compression::Snappy)],
    }
}

fn pair(
    version: Version,
    compression: Option<Compression>,
) -> (ClientConnection, ServerConnection) {
    let mut client = ClientConnection::new(version, compression);
    let mut server = ServerConnection::default();
    client.start_up(0);
    let mut bytes = Vec::new();
    client.take_output(&mut bytes);
    let envelope = server
        .receive(&mut BytesMut::from(&bytes[..]))
        .unwrap()
        .unwrap();
    let Ok(Request::Startup(startup)) = Request::decode(&envelope) else {
        panic!("a STARTUP");
    };
    server.start_up(&envelope.header, &startup, None).unwrap();
    bytes.clear();
    server.take_output(&mut bytes);
    client
        .receive(&mut BytesMut::from(&bytes[..]))
        .unwrap()
        .unwrap();
    assert_eq!(server.compression(), compression);
    assert_eq!(server.version(), Some(version));
    (client, server)
}

/// The parameters of a request, owned.
#[derive(Clone, Debug)]
struct Parameters {
    consistency: Consistency,
    values: Vec<(String, Option<Option<Vec<u8>>>)>,
    named: bool,
    skip_metadata: bool,
    page_size: Option<i32>,
    paging_state: Option<Vec<u8>>,
    serial_consistency: Option<Consistency>,
    timestamp: Option<i64>,
    keyspace: Option<String>,
    now_in_seconds: Option<u32>,
}

fn consistency() -> impl Strategy<Value = Consistency> {
    (0u16..12).prop_map(|code| Consistency::from_code(code).unwrap())
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let value = prop::option::of(prop::option::of(prop::collection::vec(any::<u8>(), 0..50)));
    (
        consistency(),
        prop::collection::vec(("[a-z]{1,5}", value), 0..12),
        any::<(bool, bool, Option<i32>)>(),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        prop::option::of(consistency()),
        prop::option::of(i64::MIN + 1..),
        prop::option::of("[a-z]{1,8}"),
        any::<Option<u32>>(),
    )
        .prop_map(
            |(
                consistency,
                values,
                (named, skip_metadata, page_size),
                state,
                serial,
                timestamp,
                keyspace,
                now,
            )| {
                Parameters {
                    consistency,
                    values,
                    named,
                    skip_metadata,
                    page_size,
                    paging_state: state,
                    serial_consistency: serial,
                    timestamp,
                    keyspace,
                    now_in_seconds: now,
                }
            },
        )
}

impl Parameters {
    /// As `version` can say it.
    fn borrow(&self, version: Version) -> QueryParameters<'_> {
        let value = |value| match value {
            Some(Some(bytes)) => Value::Bytes(bytes),
            None if version >= Version::V4 => Value::Unset,
            _ => Value::Null,
        };
        QueryParameters {
            consistency: self.consistency,
            values: self
                .values
                .iter()
                .map(|(_, held)| value(held.as_ref().map(Option::as_deref)))
                .collect(),
            names: match self.named {
                true => self.values.iter().map(|(name, _)| name.as_str()).collect(),
                false => Vec::new(),
            },
            skip_metadata: self.skip_metadata,
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            serial_consistency: self.serial_consistency,
            timestamp: self.timestamp,
            keyspace: self.keyspace.as_deref(),
            now_in_seconds: self.now_in_seconds.filter(|_| version >= Version::V5),
        }
    }
}

/// Sends requests in pieces of this size and compares what arrives.
fn check_requests(version: Version, requests: &[Request<'_>], piece: usize) {
    for compression in compressions(version) {
        let (mut client, mut server) = pair(version, compression);
        for (stream, request) in requests.iter().enumerate() {
            client.request(stream as i16, request);
        }
        let mut bytes = Vec::new();
        client.take_output(&mut bytes);
        let mut input = BytesMut::new();
        let mut arrived = 0;
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            while let Some(envelope) = server.receive(&mut input).unwrap() {
                assert_eq!(envelope.header.stream as usize, arrived);
                let request = Request::decode(&envelope).unwrap();
                let text: usize = match &request {
                    Request::Query(query) => query.text.len(),
                    Request::Prepare(prepare) => prepare.text.len(),
                    Request::Batch(batch) => {
                        let of = |statement: &BatchStatement<'_>| match statement.target {
                            BatchTarget::Text(text) => text.len(),
                            BatchTarget::Prepared(_) => 0,
                        };
                        batch.statements.iter().map(of).sum()
                    }
                    _ => 0,
                };
                assert_eq!(wire::text_length(&envelope), text);
                // As text, for a SmallVec of borrows compares only with one of the same life.
                assert_eq!(format!("{request:?}"), format!("{:?}", requests[arrived]));
                arrived += 1;
            }
        }
        assert_eq!(arrived, requests.len());
        assert!(input.is_empty());
    }
}

proptest! {
    #[test]
    fn requests(
        version in versions(),
        text in ".{0,40}",
        id in prop::collection::vec(any::<u8>(), 0..20),
        keyspace in prop::option::of("[a-z]{1,8}"),
        first in parameters(),
        second in parameters(),
        padding in prop::sample::select(vec![0usize, 600, 131_050, 131_071, 400_000]),
        piece in 1usize..70_000,
    ) {
        let long = format!("{text}{}", " ".repeat(padding));
        let mut batch_parameters = second.borrow(version);
        let statements = vec![
            BatchStatement {
                target: BatchTarget::Text(&text),
                values: std::mem::take(&mut batch_parameters.values),
            },
            BatchStatement { target: BatchTarget::Prepared(&id), values: first.borrow(version).values },
        ];
        batch_parameters.names.clear();
        let requests = [
            Request::Options,
            Request::Query(Query { text: &long, parameters: first.borrow(version) }),
            Request::Prepare(Prepare {
                text: &text,
                keyspace: keyspace.as_deref().filter(|_| version >= Version::V5),
            }),
            Request::Execute(Execute {
                id: &id,
                result_metadata_id: (version >= Version::V5).then_some(&id[..]),
                parameters: second.borrow(version),
            }),
            Request::Batch(Batch { kind: BatchKind::Unlogged, statements, parameters: batch_parameters }),
            Request::AuthResponse(Some(&id)),
        ];
        check_requests(version, &requests, piece);
    }

    #[test]
    fn rows(
        version in versions(),
        columns in 0usize..4,
        rows in 0usize..50,
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..3000)),
        state in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        skip_metadata: bool,
        new_id in prop::option::of(Just([7u8; 16])),
        same_table: bool,
        warned: bool,
        traced: bool,
        late in prop::collection::vec("[a-z]{0,9}", 0..3),
    ) {
        let udt = CqlType::List { element: Box::new(CqlType::Map {
            key: Box::new(CqlType::Date),
            value: Box::new(CqlType::Tuple(vec![CqlType::Duration, CqlType::Text])),
            frozen: false,
        }), frozen: false };
        let tables = ["a", "b", "c"];
        let specs: Vec<ColumnSpec<'_>> = (0..columns).map(|i| ColumnSpec {
            keyspace: "k",
            table: if same_table { "t" } else { tables[i] },
            name: tables[i],
            ty: &udt,
        }).collect();
        let encoded = EncodedColumns::new(specs.iter().copied(), version);
        let warnings = if warned { vec!["careful".to_owned()] } else { Vec::new() };
        let tracing_id = traced.then(|| uuid::Uuid::from_u128(7));
        for compression in compressions(version) {
            let (mut client, mut server) = pair(version, compression);
            let head = RowsHead {
                columns: &encoded,
                skip_metadata,
                new_metadata_id: new_id.as_ref().map(|id| &id[..]),
            };
            let extras = ResponseExtras { warnings: &warnings, tracing_id, ..ResponseExtras::default() };
            let mut writer = ResponseWriter::new(server.output(), version, 3)
                .with_extras(extras)
                .rows(&head);
            for _ in 0..rows * columns {
                writer.value(value.as_deref());
            }
            writer.warn(late.clone());
            match columns {
                0 => writer.finish_without_columns(rows),
                _ => writer.finish(state.as_deref()),
            }
            // Another one behind it, so that batches are split rightly.
            ResponseWriter::new(server.output(), version, 4).void();
            let mut bytes = Vec::new();
            server.take_output(&mut bytes);
            let mut input = BytesMut::from(&bytes[..]);
            let envelope = client.receive(&mut input).unwrap().unwrap();
            let message = ResponseMessage::decode(&envelope).unwrap();
            let mut expected: Vec<&str> = warnings.iter().chain(&late).map(String::as_str).collect();
            expected.retain(|_| version >= Version::V4);
            prop_assert_eq!(&message.warnings, &expected);
            prop_assert_eq!(message.tracing_id, tracing_id);
            let Response::Result(QueryResult::Rows(read)) = message.response else {
                panic!("rows");
            };
            prop_assert_eq!(read.row_count, rows);
            prop_assert_eq!(read.column_count, columns);
            prop_assert!(read.values.iter().all(|v| *v == value.as_deref()));
            prop_assert_eq!(read.values.len(), rows * columns);
            let expected_state = state.as_deref().filter(|_| columns > 0);
            prop_assert_eq!(read.paging_state, expected_state);
            let new_id = new_id.as_ref().map(|id| &id[..]).filter(|_| version >= Version::V5);
            prop_assert_eq!(read.new_metadata_id, new_id);
            match read.columns {
                None => prop_assert!(skip_metadata && new_id.is_none()),
                Some(read) => {
                    let read: Vec<_> = read.iter().map(|c| c.spec()).collect();
                    prop_assert_eq!(read, &specs[..]);
                }
            }
            let next = client.receive(&mut input).unwrap().unwrap();
            prop_assert_eq!(next.header.stream, 4);
            prop_assert!(input.is_empty());
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), version in versions()) {
        for compression in compressions(version) {
            let (_, mut server) = pair(version, compression);
            let mut input = BytesMut::from(&bytes[..]);
            loop {
                match server.receive(&mut input) {
                    Ok(Some(envelope)) => {
                        drop(Request::decode(&envelope));
                        prop_assert!(wire::text_length(&envelope) <= envelope.body.len());
                    }
                    Ok(None) => break,
                    Err(error) if error.fatal => break,
                    Err(_) => {}
                }
            }
        }
    }

    #[test]
    fn bodies_of_garbage_are_errors(
        opcode in prop::sample::select(vec![1u8, 7, 9, 10, 11, 13, 15]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        version in versions(),
    ) {
        let mut bytes = vec![version.number(), 0, 0, 0, opcode];
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&body);
        let (_, mut server) = pair(Version::V4, None);
        if let Ok(Some(mut envelope)) = server.receive(&mut BytesMut::from(&bytes[..])) {
            envelope.header.version = version;
            drop(Request::decode(&envelope));
        }
    }
}

fn send(version: Version, write: impl FnOnce(ResponseWriter<'_>)) -> wire::Envelope {
    let (mut client, mut server) = pair(version, None);
    write(ResponseWriter::new(server.output(), version, 3));
    let mut bytes = Vec::new();
    server.take_output(&mut bytes);
    client
        .receive(&mut BytesMut::from(&bytes[..]))
        .unwrap()
        .unwrap()
}

fn error_kinds() -> Vec<ErrorKind> {
    let progress = Progress {
        consistency: Consistency::Quorum,
        received: 1,
        required: 2,
    };
    let failures = vec![
        (IpAddr::from([127, 0, 0, 1]), FailureReason::Timeout),
        (IpAddr::from([0u16; 8]), FailureReason::Unknown),
    ];
    let text = "x".to_owned();
    let timeout = |write_type, contentions| ErrorKind::WriteTimeout {
        progress,
        write_type,
        contentions,
    };
    vec![
        ErrorKind::Server,
        ErrorKind::Protocol,
        ErrorKind::BadCredentials,
        ErrorKind::Unavailable {
            consistency: Consistency::All,
            required: 3,
            alive: 1,
        },
        ErrorKind::Overloaded,
        ErrorKind::IsBootstrapping,
        ErrorKind::Truncate,
        timeout(WriteType::UnloggedBatch, None),
        timeout(WriteType::Cas, Some(4)),
        ErrorKind::ReadTimeout {
            progress,
            data_present: true,
        },
        ErrorKind::ReadFailure {
            progress,
            failures: failures.clone(),
            data_present: false,
        },
        ErrorKind::FunctionFailure {
            keyspace: text.clone(),
            function: text.clone(),
            argument_types: vec![text.clone()],
        },
        ErrorKind::WriteFailure {
            progress,
            failures,
            write_type: WriteType::Simple,
        },
        ErrorKind::CdcWriteFailure,
        ErrorKind::CasWriteUnknown { progress },
        ErrorKind::Syntax,
        ErrorKind::Unauthorized,
        ErrorKind::Invalid,
        ErrorKind::Config,
        ErrorKind::AlreadyExists {
            keyspace: text.clone(),
            table: String::new(),
        },
        ErrorKind::Unprepared { id: vec![1; 16] },
    ]
}

#[test]
fn errors() {
    for kind in error_kinds() {
        let error = ErrorReply::new(kind, "what is wrong");
        for version in Version::ALL {
            let envelope = send(version, |response| response.error(&error));
            let message = ResponseMessage::decode(&envelope).unwrap();
            let Response::Error(read) = message.response else {
                panic!("an error");
            };
            assert_eq!(read.message, error.message);
            if version >= Version::V5 {
                assert_eq!(read, error);
            }
            // Codes 0x1300 and up to 0x1700 are not known to version 3.
            if version == Version::V3 {
                assert!(!(0x1300..0x2000).contains(&read.kind.code()), "{read}");
            }
        }
    }
}

#[test]
fn events_and_schema_changes() {
    let node: SocketAddr = "127.0.0.1:9042".parse().unwrap();
    let node6: SocketAddr = "[::1]:9042".parse().unwrap();
    let change = |kind, target| SchemaChange {
        kind,
        keyspace: "k".to_owned(),
        target,
    };
    let name = || "n".to_owned();
    let argument_types = || vec!["int".to_owned(), "frozen<list<int>>".to_owned()];
    let changes = [
        change(ChangeKind::Created, ChangeTarget::Keyspace),
        change(ChangeKind::Updated, ChangeTarget::Table(name())),
        change(ChangeKind::Dropped, ChangeTarget::Type(name())),
        change(
            ChangeKind::Created,
            ChangeTarget::Function {
                name: name(),
                argument_types: argument_types(),
            },
        ),
        change(
            ChangeKind::Created,
            ChangeTarget::Aggregate {
                name: name(),
                argument_types: argument_types(),
            },
        ),
    ];
    let mut events = vec![
        Event::Topology(TopologyChange::NewNode, node),
        Event::Topology(TopologyChange::RemovedNode, node6),
        Event::Status(StatusChange::Up, node),
        Event::Status(StatusChange::Down, node),
    ];
    events.extend(changes.clone().map(Event::Schema));
    for version in Version::ALL {
        for event in &events {
            let envelope = send(version, |response| response.event(event));
            let message = ResponseMessage::decode(&envelope).unwrap();
            assert_eq!(message.response, Response::Event(event.clone()));
        }
        for change in &changes {
            let envelope = send(version, |response| response.schema_change(change));
            let message = ResponseMessage::decode(&envelope).unwrap();
            let expected = Response::Result(QueryResult::SchemaChange(change.clone()));
            assert_eq!(message.response, expected);
        }
    }
}

#[test]
fn small_responses() {
    for version in Version::ALL {
        let check = |write: &dyn Fn(ResponseWriter<'_>), expected: Response<'_>| {
            let envelope = send(version, write);
            let message = ResponseMessage::decode(&envelope).unwrap();
            assert_eq!(message.response, expected);
        };
        check(&|r| r.ready(), Response::Ready);
        check(&|r| r.authenticate("A"), Response::Authenticate("A"));
        check(
            &|r| r.auth_challenge(Some(b"t")),
            Response::AuthChallenge(Some(b"t")),
        );
        check(&|r| r.auth_success(None), Response::AuthSuccess(None));
        check(&|r| r.void(), Response::Result(QueryResult::Void));
        check(
            &|r| r.set_keyspace("k"),
            Response::Result(QueryResult::SetKeyspace("k")),
        );
        let options = [("A", vec!["1".to_owned(), "2".to_owned()])];
        check(
            &|r| r.supported(&options),
            Response::Supported(vec![("A", vec!["1", "2"])]),
        );
    }
}

#[test]
fn prepared_statements() {
    for version in Version::ALL {
        let specs = ["a", "b"].map(|name| ColumnSpec {
            keyspace: "k",
            table: "t",
            name,
            ty: &CqlType::Duration,
        });
        let columns = EncodedColumns::new(specs, version);
        let none = EncodedColumns::new([], version);
        for (variables, result) in [(&columns, None), (&none, Some(&columns)), (&none, None)] {
            let envelope = send(version, |response| {
                response.prepared(&Prepared {
                    id: b"id",
                    result_metadata_id: b"metadata",
                    variables,
                    partition_key_indexes: &[1, 0],
                    extension_flags: 1 << 31,
                    result_columns: result,
                });
            });
            let message = ResponseMessage::decode(&envelope).unwrap();
            let Response::Result(QueryResult::Prepared(read)) = message.response else {
                panic!("a prepared statement");
            };
            assert_eq!(read.id, b"id");
            assert_eq!(read.variables.len(), variables.count());
            assert!(read.flags < 0);
            assert_eq!(
                read.result_columns.map(|c| c.len()),
                result.map(EncodedColumns::count)
            );
            if version >= Version::V4 {
                assert_eq!(read.partition_key_indexes, [1, 0]);
            }
            assert_eq!(read.result_metadata_id.is_some(), version >= Version::V5);
        }
    }
}
