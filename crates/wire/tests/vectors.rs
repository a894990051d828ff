//! Bytes as the specifications have them, and as a running Cassandra 5.0.6 sent them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::BytesMut;
use cluster::Consistency;
use model::{CqlType, Value};
use wire::{
    BodyReader, ColumnSpec, EncodedColumns, EventKind, Flags, Header, Opcode, Prepared, Request,
    ResponseExtras, ResponseWriter, RowsHead, ServerConnection, Version, put_type, read_type,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// A connection that has had STARTUP of this version, its READY sent.
fn started(version: u8) -> ServerConnection {
    let mut connection = ServerConnection::default();
    let mut input = BytesMut::from(
        &hex("04 00 0007 01 00000016 0001 000b 43514c5f56455253494f4e 0005 332e302e30")[..],
    );
    input[0] = version;
    let envelope = connection.receive(&mut input).unwrap().unwrap();
    let Ok(Request::Startup(startup)) = Request::decode(&envelope) else {
        panic!("a STARTUP");
    };
    connection
        .start_up(&envelope.header, &startup, None)
        .unwrap();
    let mut sent = Vec::new();
    connection.take_output(&mut sent);
    assert_eq!(
        sent,
        [version | 0x80, 0, 0, 7, 2, 0, 0, 0, 0],
        "READY, not in a segment"
    );
    connection
}

#[test]
fn query_of_version_4() {
    let mut connection = started(4);
    // SELECT 1 at QUORUM with a value, a null, an unset value, a page size and a timestamp.
    let bytes = hex("04 02 0102 07 00000033 00000008 53454c4543542031 0004 25
         0003 00000002 cafe ffffffff fffffffe 00001388 0000000000000001");
    let mut input = BytesMut::from(&bytes[..]);
    // The length of the body is that of what follows the header.
    let length = (input.len() - 9) as u8;
    input[8] = length;
    let envelope = connection.receive(&mut input).unwrap().unwrap();
    assert!(envelope.header.flags.contains(Flags::TRACING));
    assert_eq!(envelope.header.stream, 0x0102);
    let Request::Query(query) = Request::decode(&envelope).unwrap() else {
        panic!("a QUERY");
    };
    assert_eq!(query.text, "SELECT 1");
    let parameters = query.parameters;
    assert_eq!(parameters.consistency, Consistency::Quorum);
    assert_eq!(
        parameters.values.as_slice(),
        [Value::Bytes(&[0xca, 0xfe]), Value::Null, Value::Unset]
    );
    assert_eq!(parameters.page_size, Some(5000));
    assert_eq!(parameters.timestamp, Some(1));
    assert!(input.is_empty());
}

#[test]
fn options_in_a_segment_of_version_5() {
    // As captured: an uncompressed, self-contained segment that holds OPTIONS on stream 7.
    let mut connection = started(5);
    let envelope = hex("05 00 0007 05 00000000");
    let mut segment = hex("09 00 02");
    let crc = crc24(&segment);
    segment.extend_from_slice(&crc.to_le_bytes()[..3]);
    segment.extend_from_slice(&envelope);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xfa, 0x2d, 0x55, 0xca]);
    crc.update(&envelope);
    segment.extend_from_slice(&crc.finalize().to_le_bytes());
    let mut input = BytesMut::from(&segment[..]);
    let received = connection.receive(&mut input).unwrap().unwrap();
    assert_eq!(received.header.opcode, Opcode::Options);
}

/// Bit by bit, as the specification defines it.
fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x0087_5060, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 16, |crc, _| {
            let shifted = crc << 1;
            match shifted & 0x0100_0000 {
                0 => shifted,
                _ => shifted ^ 0x0197_4f0b,
            }
        })
    })
}

#[test]
fn error_in_a_segment_as_cassandra_sends_it() {
    // The answer of Cassandra 5.0.6 to opcode 0x55 on stream 7, captured.
    let expected = hex(
        "20000239 02e5 85000007 00 00000017 0000000a 0011 556e6b6e6f776e206f70636f6465203835 b6110085",
    );
    let mut connection = started(5);
    let mut input = BytesMut::from(&hex("09000265 ef31 05 00 0007 55 00000000 00000000")[..]);
    let header_crc = crc24(&input[..3]).to_le_bytes();
    input[3..6].copy_from_slice(&header_crc[..3]);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xfa, 0x2d, 0x55, 0xca]);
    crc.update(&input[6..15]);
    input[15..19].copy_from_slice(&crc.finalize().to_le_bytes());
    let error = connection.receive(&mut input).unwrap_err();
    assert!(!error.fatal);
    connection.refuse(&error);
    let mut sent = Vec::new();
    connection.take_output(&mut sent);
    assert_eq!(sent, expected);
}

#[test]
fn unsupported_version_as_cassandra_answers_it() {
    let mut connection = ServerConnection::default();
    let mut input = BytesMut::from(&[0x42u8][..]);
    let error = connection.receive(&mut input).unwrap_err();
    assert!(error.fatal);
    connection.refuse(&error);
    let mut sent = Vec::new();
    connection.take_output(&mut sent);
    let text = "Invalid or unsupported protocol version (66); \
                supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)";
    assert_eq!(sent[..5], [0x85, 0, 0, 0, 0], "version 5, stream 0, ERROR");
    assert_eq!(sent[9..13], [0, 0, 0, 0x0a], "a protocol error");
    assert_eq!(&sent[15..], text.as_bytes());
}

#[test]
fn a_beta_is_spoken_with_clients_that_say_so_alone() {
    let mut connection = ServerConnection::default();
    let mut input = BytesMut::from(&[6u8, 0, 0, 1, 5, 0, 0, 0, 0][..]);
    let error = connection.receive(&mut input).unwrap_err();
    assert!(error.fatal);
    connection.refuse(&error);
    let mut sent = Vec::new();
    connection.take_output(&mut sent);
    // As Cassandra 5.0.6 sends it.
    let text = "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset";
    assert_eq!(sent[..9], [0x86, 0x10, 0, 0, 0, 0, 0, 0, 0x4f]);
    assert_eq!(&sent[15..], text.as_bytes());

    let mut connection = ServerConnection::default();
    let mut input = BytesMut::from(&[6u8, 0x10, 0, 1, 5, 0, 0, 0, 0][..]);
    let envelope = connection.receive(&mut input).unwrap().unwrap();
    connection.respond(&envelope.header).ready();
    let mut sent = Vec::new();
    connection.take_output(&mut sent);
    assert_eq!(sent, [0x86, 0x10, 0, 1, 2, 0, 0, 0, 0]);
}

#[test]
fn version_2_is_answered_with_its_own_header() {
    let mut connection = ServerConnection::default();
    let mut input = BytesMut::from(&[2u8, 0, 0, 5, 0, 0, 0, 0][..]);
    let error = connection.receive(&mut input).unwrap_err();
    connection.refuse(&error);
    let mut sent = Vec::new();
    connection.take_output(&mut sent);
    assert_eq!(sent[..4], [0x82, 0, 0, 0]);
    let length = u32::from_be_bytes([sent[4], sent[5], sent[6], sent[7]]) as usize;
    assert_eq!(sent.len(), 8 + length);
}

#[test]
fn rows_as_cassandra_sends_them() {
    // SELECT key FROM system.local in version 4, captured.
    let expected = hex(
        "84000007 08 0000002f 00000002 00000001 00000001 0006 73797374656d 0005 6c6f63616c
         0003 6b6579 000d 00000001 00000005 6c6f63616c",
    );
    let key = ColumnSpec {
        keyspace: "system",
        table: "local",
        name: "key",
        ty: &CqlType::Text,
    };
    let columns = EncodedColumns::new([key], Version::V4);
    let mut out = Vec::new();
    let head = RowsHead {
        columns: &columns,
        skip_metadata: false,
        new_metadata_id: None,
    };
    let mut rows = ResponseWriter::new(&mut out, Version::V4, 7).rows(&head);
    rows.value(Some(b"local"));
    rows.finish(None);
    assert_eq!(out, expected);
}

#[test]
fn unfinished_rows_leave_no_trace() {
    let columns = EncodedColumns::new([], Version::V4);
    let head = RowsHead {
        columns: &columns,
        skip_metadata: true,
        new_metadata_id: None,
    };
    let mut out = vec![1, 2, 3];
    drop(ResponseWriter::new(&mut out, Version::V4, 7).rows(&head));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn prepared_of_each_version() {
    let spec = |name| ColumnSpec {
        keyspace: "k",
        table: "t",
        name,
        ty: &CqlType::Int,
    };
    let body = |version| {
        let variables = EncodedColumns::new([spec("a"), spec("b")], version);
        let mut out = Vec::new();
        ResponseWriter::new(&mut out, version, 1).prepared(&Prepared {
            id: &[0xaa],
            result_metadata_id: &[0xbb],
            variables: &variables,
            partition_key_indexes: &[1],
            extension_flags: 0,
            result_columns: None,
        });
        out.split_off(9)
    };
    let variables = "00000001 00000002";
    let columns = "0001 6b 0001 74 0001 61 0009 0001 62 0009";
    let result = "00000004 00000000";
    let expect = |text: String| hex(&text);
    assert_eq!(
        body(Version::V3),
        expect(format!("00000004 0001 aa {variables} {columns} {result}"))
    );
    let keys = "00000001 0001";
    assert_eq!(
        body(Version::V4),
        expect(format!(
            "00000004 0001 aa {variables} {keys} {columns} {result}"
        ))
    );
    assert_eq!(
        body(Version::V5),
        expect(format!(
            "00000004 0001 aa 0001 bb {variables} {keys} {columns} {result}"
        ))
    );
}

#[test]
fn types_that_a_version_does_not_know_are_custom() {
    let encoded = |ty: &CqlType, version| {
        let mut out = Vec::new();
        put_type(ty, version, &mut out);
        out
    };
    let custom = |class: &str| {
        let class = format!("org.apache.cassandra.db.marshal.{class}");
        let mut out = vec![0, 0, 0, class.len() as u8];
        out.extend_from_slice(class.as_bytes());
        out
    };
    assert_eq!(
        encoded(&CqlType::Date, Version::V3),
        custom("SimpleDateType")
    );
    assert_eq!(encoded(&CqlType::Date, Version::V4), [0, 0x11]);
    assert_eq!(
        encoded(&CqlType::Duration, Version::V4),
        custom("DurationType")
    );
    assert_eq!(encoded(&CqlType::Duration, Version::V5), [0, 0x15]);
    let vector = CqlType::Vector {
        element: Box::new(CqlType::Float),
        dimension: 3,
    };
    assert_eq!(
        encoded(&vector, Version::V5),
        custom("VectorType(org.apache.cassandra.db.marshal.FloatType , 3)")
    );
    let class = "CompositeType(org.apache.cassandra.db.marshal.UTF8Type,\
                 org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.Int32Type))";
    let composite = CqlType::from_marshal(class).unwrap();
    for version in [Version::V3, Version::V4, Version::V5] {
        let bytes = encoded(&composite, version);
        assert_eq!(bytes, custom(class));
        assert_eq!(read_type(&mut BodyReader::new(&bytes)).unwrap(), composite);
    }
}

#[test]
fn extras_stand_before_the_message() {
    let warnings = ["w".to_owned()];
    let extras = ResponseExtras {
        tracing_id: Some(uuid::Uuid::from_u128(1)),
        warnings: &warnings,
        custom_payload: &[("p", None)],
    };
    let mut out = Vec::new();
    ResponseWriter::new(&mut out, Version::V4, 1)
        .with_extras(extras)
        .void();
    assert_eq!(
        out,
        hex("84 0e 0001 08 00000022 00000000000000000000000000000001
             0001 0001 77 0001 0001 70 ffffffff 00000001")
    );
}

#[test]
fn register_takes_names_of_any_case() {
    let mut connection = started(4);
    let mut input = BytesMut::from(&hex("04 00 0001 0b 00000011 0001 000d")[..]);
    input.extend_from_slice(b"status_change");
    let envelope = connection.receive(&mut input).unwrap().unwrap();
    assert_eq!(
        Request::decode(&envelope),
        Ok(Request::Register(vec![EventKind::Status]))
    );
}

#[test]
fn header_of_a_request_and_of_a_response() {
    let header = Header {
        version: Version::V4,
        flags: Flags::COMPRESSED,
        stream: -1,
        opcode: Opcode::Event,
    };
    assert_eq!(header.encode(5), [0x84, 1, 0xff, 0xff, 0x0c, 0, 0, 0, 5]);
    let header = Header {
        opcode: Opcode::Options,
        ..header
    };
    assert_eq!(header.encode(5)[0], 0x04);
}
