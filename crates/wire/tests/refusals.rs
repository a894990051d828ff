//! What is wrong with requests: which errors end the connection, which cost one request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::BytesMut;
use model::Value;
use smallvec::smallvec;
use wire::client::{ClientConnection, Response, ResponseMessage};
use wire::{
    Compression, Consistency, Envelope, ErrorKind, ProtocolError, Query, QueryParameters, Request,
    ServerConnection, Startup, Version,
};

/// Both ends of a connection, STARTUP done.
fn pair(
    version: Version,
    compression: Option<Compression>,
) -> (ClientConnection, ServerConnection) {
    let mut client = ClientConnection::new(version, compression);
    let mut server = ServerConnection::default();
    client.start_up(0);
    let envelope = pass(&mut client, &mut server).unwrap().unwrap();
    let Ok(Request::Startup(startup)) = Request::decode(&envelope) else {
        panic!("a STARTUP");
    };
    server.start_up(&envelope.header, &startup, None).unwrap();
    let ready = answer(&mut server, &mut client);
    assert_eq!(
        ResponseMessage::decode(&ready).unwrap().response,
        Response::Ready
    );
    (client, server)
}

fn pass(
    client: &mut ClientConnection,
    server: &mut ServerConnection,
) -> Result<Option<Envelope>, ProtocolError> {
    let mut bytes = Vec::new();
    client.take_output(&mut bytes);
    server.receive(&mut BytesMut::from(&bytes[..]))
}

fn answer(server: &mut ServerConnection, client: &mut ClientConnection) -> Envelope {
    let mut bytes = Vec::new();
    server.take_output(&mut bytes);
    let mut input = BytesMut::from(&bytes[..]);
    client.receive(&mut input).unwrap().expect("a response")
}

fn query(text: &str) -> Request<'_> {
    Request::Query(Query {
        text,
        parameters: QueryParameters {
            consistency: Consistency::LocalOne,
            values: smallvec![Value::Null],
            ..QueryParameters::default()
        },
    })
}

/// What the client sends for this request.
fn bytes_of(client: &mut ClientConnection, stream: i16, request: &Request<'_>) -> Vec<u8> {
    client.request(stream, request);
    let mut bytes = Vec::new();
    client.take_output(&mut bytes);
    bytes
}

#[test]
fn requests_wait_for_startup_and_startup_comes_once() {
    let mut server = ServerConnection::default();
    let mut client = ClientConnection::new(Version::V4, None);
    client.request(5, &query("SELECT"));
    let error = pass(&mut client, &mut server).unwrap_err();
    assert_eq!((error.stream, error.fatal), (5, false));
    assert_eq!(
        error.reply.message,
        "Unexpected message QUERY, expecting STARTUP or OPTIONS"
    );
    client.request(6, &Request::Options);
    assert!(pass(&mut client, &mut server).unwrap().is_some());

    let (mut client, mut server) = pair(Version::V4, None);
    client.start_up(7);
    let error = pass(&mut client, &mut server).unwrap_err();
    assert_eq!((error.stream, error.fatal), (7, false));
}

#[test]
fn authentication_comes_before_requests() {
    let mut server = ServerConnection::default();
    let mut client = ClientConnection::new(Version::V5, None);
    client.start_up(0);
    let envelope = pass(&mut client, &mut server).unwrap().unwrap();
    let startup = Startup {
        options: vec![("CQL_VERSION", "3.0.0")],
    };
    server
        .start_up(&envelope.header, &startup, Some("A"))
        .unwrap();
    let reply = answer(&mut server, &mut client);
    let reply = ResponseMessage::decode(&reply).unwrap();
    assert_eq!(reply.response, Response::Authenticate("A"));
    client.request(1, &query("SELECT"));
    assert!(!pass(&mut client, &mut server).unwrap_err().fatal);
    client.request(1, &Request::AuthResponse(Some(b"t")));
    assert!(pass(&mut client, &mut server).unwrap().is_some());
    server.authenticated();
    client.request(1, &query("SELECT"));
    assert!(pass(&mut client, &mut server).unwrap().is_some());
}

#[test]
fn startup_asks_for_what_there_is() {
    let try_options = |version, options: &[(&'static str, &'static str)]| {
        let mut client = ClientConnection::new(version, None);
        let mut server = ServerConnection::default();
        client.request(
            1,
            &Request::Startup(Startup {
                options: options.to_vec(),
            }),
        );
        let envelope = pass(&mut client, &mut server).unwrap().unwrap();
        let Ok(Request::Startup(startup)) = Request::decode(&envelope) else {
            panic!("a STARTUP");
        };
        let result = server.start_up(&envelope.header, &startup, None);
        assert_eq!(result.is_err(), server.pending() == 0);
        result.map_err(|error| error.text().to_owned())
    };
    let cql = ("CQL_VERSION", "3.4.7");
    assert!(try_options(Version::V4, &[cql, ("compression", "LZ4")]).is_ok());
    assert!(try_options(Version::V4, &[("CQL_VERSION", "3.0.0-beta")]).is_ok());
    let refused = [
        (
            Version::V4,
            vec![],
            "Missing value CQL_VERSION in STARTUP message",
        ),
        (
            Version::V4,
            vec![("CQL_VERSION", "x")],
            "Invalid version value: x",
        ),
        (
            Version::V4,
            vec![("CQL_VERSION", "3.0")],
            "Invalid version value: 3.0",
        ),
        (
            Version::V4,
            vec![("CQL_VERSION", "2.0.0")],
            "CQL version 2.0.0 is not supported by the binary protocol \
             (supported version are >= 3.0.0)",
        ),
        (
            Version::V4,
            vec![cql, ("COMPRESSION", "zip")],
            "Unknown compression algorithm: zip",
        ),
        (
            Version::V5,
            vec![cql, ("COMPRESSION", "snappy")],
            "Snappy compression is not supported in protocol V5",
        ),
    ];
    for (version, options, text) in refused {
        assert_eq!(try_options(version, &options), Err(text.to_owned()));
    }
}

#[test]
fn too_large_a_request_is_passed_over() {
    for version in Version::ALL {
        let (mut client, _) = pair(version, None);
        // The server of this test takes 1000 bytes.
        let mut server = ServerConnection::new(1000);
        let mut hello = ClientConnection::new(version, None);
        hello.start_up(0);
        let envelope = pass(&mut hello, &mut server).unwrap().unwrap();
        let Ok(Request::Startup(startup)) = Request::decode(&envelope) else {
            panic!("a STARTUP");
        };
        server.start_up(&envelope.header, &startup, None).unwrap();

        let text = "x".repeat(300_000);
        let mut bytes = bytes_of(&mut client, 9, &query(&text));
        bytes.extend(bytes_of(&mut client, 10, &query("SELECT")));
        let mut input = BytesMut::new();
        let mut seen = Vec::new();
        for piece in bytes.chunks(777) {
            input.extend_from_slice(piece);
            loop {
                match server.receive(&mut input) {
                    Ok(None) => break,
                    Ok(Some(envelope)) => seen.push((envelope.header.stream, None)),
                    Err(error) => {
                        assert!(!error.fatal);
                        seen.push((error.stream, Some(error.reply.kind.clone())));
                    }
                }
            }
        }
        assert_eq!(
            seen,
            [(9, Some(ErrorKind::Invalid)), (10, None)],
            "{version}"
        );
    }
}

#[test]
fn negative_length_ends_the_connection() {
    let (_, mut server) = pair(Version::V4, None);
    let mut input = BytesMut::from(&[4u8, 0, 0, 3, 7, 0x80, 0, 0, 1][..]);
    let error = server.receive(&mut input).unwrap_err();
    assert_eq!((error.stream, error.fatal), (3, true));
}

#[test]
fn errors_in_one_envelope_of_a_stream_spare_the_next() {
    let cases: [(&str, Vec<u8>); 4] = [
        (
            "Unknown opcode 85",
            vec![4, 0, 0, 3, 0x55, 0, 0, 0, 2, 1, 1],
        ),
        (
            "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 2 (READY)",
            vec![4, 0, 0, 3, 2, 0, 0, 0, 0],
        ),
        (
            "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 5 (OPTIONS)",
            vec![0x84, 0, 0, 3, 5, 0, 0, 0, 0],
        ),
        (
            "Invalid message version. Got 3/v3 but previous messages on this connection had \
             version 4/v4",
            vec![3, 0, 0, 3, 5, 0, 0, 0, 1, 1],
        ),
    ];
    for (text, mut bytes) in cases {
        let (mut client, mut server) = pair(Version::V4, None);
        bytes.extend(bytes_of(&mut client, 4, &Request::Options));
        let mut input = BytesMut::from(&bytes[..]);
        let error = server.receive(&mut input).unwrap_err();
        assert_eq!((error.reply.message.as_str(), error.stream), (text, 3));
        assert!(!error.fatal);
        let next = server.receive(&mut input).unwrap().unwrap();
        assert_eq!(next.header.stream, 4);
    }
}

#[test]
fn a_damaged_segment_ends_the_connection() {
    for compression in [None, Some(Compression::Lz4)] {
        let text = "SELECT * FROM t WHERE k = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'";
        let bytes = bytes_of(&mut pair(Version::V5, compression).0, 1, &query(text));
        for bit in 0..bytes.len() * 8 {
            let (_, mut server) = pair(Version::V5, compression);
            let mut damaged = BytesMut::from(&bytes[..]);
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = server.receive(&mut damaged).unwrap_err();
            assert!(error.fatal, "bit {bit}");
            assert!(error.reply.message.contains("CRC mismatch"), "{error}");
        }
    }
}

#[test]
fn half_of_anything_waits() {
    for version in Version::ALL {
        for compression in [None, Some(Compression::Lz4)] {
            let (mut client, mut server) = pair(version, compression);
            let text = "x".repeat(2000);
            let bytes = bytes_of(&mut client, 1, &query(&text));
            let mut input = BytesMut::new();
            for byte in &bytes[..bytes.len() - 1] {
                input.extend_from_slice(&[*byte]);
                assert_eq!(server.receive(&mut input), Ok(None));
            }
            input.extend_from_slice(&bytes[bytes.len() - 1..]);
            let envelope = server.receive(&mut input).unwrap().unwrap();
            assert_eq!(Request::decode(&envelope), Ok(query(&text)));
        }
    }
}

#[test]
fn a_body_that_claims_too_much_is_not_unpacked() {
    let (_, mut server) = pair(Version::V4, Some(Compression::Lz4));
    // Four bytes that claim 4 GiB.
    let mut input = BytesMut::from(&[4u8, 1, 0, 3, 7, 0, 0, 0, 4, 255, 255, 255, 255][..]);
    let error = server.receive(&mut input).unwrap_err();
    assert_eq!((error.stream, error.fatal), (3, false));
}

#[test]
fn what_follows_the_last_envelope_of_a_segment_costs_that_segment() {
    let (mut client, mut server) = pair(Version::V5, None);
    // A request cut short by four bytes within an intact segment: made by spreading the
    // envelope over two self-contained segments.
    let whole = bytes_of(&mut client, 3, &query("SELECT"));
    let envelope = &whole[6..whole.len() - 4];
    let mut bytes = segment(&envelope[..envelope.len() - 4]);
    bytes.extend(bytes_of(&mut client, 4, &Request::Options));
    let mut input = BytesMut::from(&bytes[..]);
    let error = server.receive(&mut input).unwrap_err();
    assert_eq!((error.stream, error.fatal), (3, false));
    let next = server.receive(&mut input).unwrap().unwrap();
    assert_eq!(next.header.stream, 4);
}

/// A self-contained, uncompressed segment.
fn segment(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32 | 1 << 17).to_le_bytes();
    let mut bytes = length[..3].to_vec();
    let crc = bytes.iter().fold(0x0087_5060u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 16, |crc, _| {
            (crc << 1)
                ^ if crc & 0x0080_0000 != 0 {
                    0x0197_4f0b
                } else {
                    0
                }
        })
    });
    bytes.extend_from_slice(&crc.to_le_bytes()[..3]);
    bytes.extend_from_slice(payload);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xfa, 0x2d, 0x55, 0xca]);
    crc.update(payload);
    bytes.extend_from_slice(&crc.finalize().to_le_bytes());
    bytes
}
