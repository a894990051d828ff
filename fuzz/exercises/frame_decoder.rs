//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte chooses version, compression and how the rest is fed, the second the size of
//! the pieces in which it arrives. A fuzzer hardly finds a checksum, so one way of feeding puts
//! the rest into intact segments.

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

/// The data in segments of at most 1000 bytes, with checksums that are right.
fn segments(data: &[u8], lz4_headers: bool, self_contained: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in data.chunks(1000) {
        let length = payload.len() as u64;
        let contained = u64::from(self_contained);
        let header = match lz4_headers {
            true => length | contained << 34,
            false => length | contained << 17,
        };
        let header_length = if lz4_headers { 5 } else { 3 };
        let header = &header.to_le_bytes()[..header_length];
        out.extend_from_slice(header);
        out.extend_from_slice(&crc24(header).to_le_bytes()[..3]);
        out.extend_from_slice(payload);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[0xFA, 0x2D, 0x55, 0xCA]);
        crc.update(payload);
        out.extend_from_slice(&crc.finalize().to_le_bytes());
    }
    out
}

fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x0087_5060, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 16, |crc, _| {
            let carry = if crc & 0x0080_0000 != 0 {
                0x0197_4F0B
            } else {
                0
            };
            (crc << 1) ^ carry
        })
    })
}
