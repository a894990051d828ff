//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte says what the rest is taken for, the second the size of the pieces in which it
//! arrives. Messages are fed as they are and in intact segments.

use crate::segments::segments;
use bytes::BytesMut;
use wire::internode::{Answer, Hello, Link, LinkError, MAX_BODY, TracedRequest};

/// Feeds the input to a node that is connected to, to one that connects, and to a connection.
pub(super) fn run(data: &[u8]) {
    let [choice, piece, data @ ..] = data else {
        return;
    };
    let compressed = choice & 4 != 0;
    let piece = usize::from(*piece) + 1;
    match choice & 3 {
        0 => drop(Hello::decode(&mut BytesMut::from(data))),
        1 => drop(Answer::decode(&mut BytesMut::from(data))),
        2 => drop(feed(compressed, data, piece)),
        _ => drop(feed(
            compressed,
            &segments(data, compressed, choice & 8 != 0),
            piece,
        )),
    }
}

fn feed(compressed: bool, data: &[u8], piece: usize) -> Result<(), LinkError> {
    let mut link = Link::new(compressed);
    let mut input = BytesMut::new();
    for piece in data.chunks(piece) {
        input.extend_from_slice(piece);
        while let Some(message) = link.receive(&mut input)? {
            assert!(message.body.len() <= MAX_BODY);
            drop(TracedRequest::decode(message.body));
        }
    }
    Ok(())
}
