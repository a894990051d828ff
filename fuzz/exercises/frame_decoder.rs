//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte chooses version, compression and how the rest is fed, the second the size of
//! the pieces in which it arrives. A fuzzer hardly finds a checksum, so one way of feeding puts
//! the rest into intact segments.

use crate::segments::segments;
use bytes::BytesMut;
use wire::client::{ClientConnection, ResponseMessage, put_request};
use wire::{
    Compression, Envelope, Flags, Header, Opcode, Request, ServerConnection, Startup, Version,
};

/// Feeds the input to a server and to a client.
pub(super) fn run(data: &[u8]) {
    let [choice, piece, data @ ..] = data else {
        return;
    };
    let version = Version::ALL[usize::from(choice & 3) % 3];
    let compression = match choice >> 2 & 3 {
        1 => Some(Compression::Lz4),
        2 if version < Version::V5 => Some(Compression::Snappy),
        _ => None,
    };
    let packed = version == Version::V5 && choice >> 4 & 1 == 1;
    let fed = match packed {
        true => segments(data, compression.is_some(), choice >> 5 & 1 == 1),
        false => data.to_vec(),
    };
    let piece = usize::from(*piece) + 1;
    feed_server(version, compression, &fed, piece);
    if choice >> 6 & 1 == 1 {
        feed_client(version, compression, &fed, piece);
    }
}

fn feed_server(version: Version, compression: Option<Compression>, data: &[u8], piece: usize) {
    let mut server = ServerConnection::new(1 << 16);
    let mut options = vec![("CQL_VERSION", "3.0.0")];
    options.extend(compression.map(|c| ("COMPRESSION", c.name())));
    let header = Header {
        version,
        flags: Flags::default(),
        stream: 0,
        opcode: Opcode::Startup,
    };
    server
        .start_up(&header, &Startup { options }, None)
        .expect("all of this is supported");
    let mut input = BytesMut::new();
    for piece in data.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            match server.receive(&mut input) {
                Ok(Some(envelope)) => check_request(&envelope),
                Ok(None) => break,
                Err(error) => {
                    server.refuse(&error);
                    if error.fatal {
                        return server.take_output(&mut Vec::new());
                    }
                }
            }
        }
    }
    server.take_output(&mut Vec::new());
}

/// A request that is understood is understood the same way once written anew.
fn check_request(envelope: &Envelope) {
    // An unknown payload gives an error or not, but no panic.
    let _ = wire::custom_payload(envelope);
    let Ok(request) = Request::decode(envelope) else {
        return;
    };
    let version = envelope.header.version;
    let mut bytes = Vec::new();
    put_request(&mut bytes, version, 0, Flags::default(), &request);
    let again = Envelope {
        header: Header {
            flags: Flags::default(),
            ..envelope.header
        },
        body: bytes.split_off(wire::HEADER_LENGTH).into(),
    };
    let again = Request::decode(&again).expect("what was written can be read");
    assert_eq!(format!("{request:?}"), format!("{again:?}"));
}

fn feed_client(version: Version, compression: Option<Compression>, data: &[u8], piece: usize) {
    let mut client = ClientConnection::new(version, compression);
    let ready = [
        version.number() | 0x80,
        0,
        0,
        0,
        Opcode::Ready as u8,
        0,
        0,
        0,
        0,
    ];
    let mut input = BytesMut::from(&ready[..]);
    let ready = client.receive(&mut input).expect("READY is the protocol");
    assert!(ready.is_some());
    for piece in data.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            match client.receive(&mut input) {
                // Any answer is understood or not, but no panic.
                Ok(Some(envelope)) => drop(ResponseMessage::decode(&envelope)),
                Ok(None) => break,
                Err(error) if error.fatal => return,
                Err(_) => {}
            }
        }
    }
}
