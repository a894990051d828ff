//! Talking to other nodes: connections over [`io`] that speak [`wire::internode`].
//!
//! A shard asks a shard of another node through a [`Peer`], which connects when there is something to
//! say and again after a failure. What other shards ask comes in through [`serve`]; nobody here
//! knows what is asked or answered. Requests go one way along a connection and their answers the
//! other.
//!
//! Nothing waits without bound: what a peer has not taken yet has a limit beyond which requests are
//! refused at once, every request has a deadline, also while it waits, and a connection from which
//! too much is under way is not read from.

mod inbound;
mod peer;

pub use inbound::{Refused, greet, serve};
pub use peer::{Peer, PeerError};

/// Bytes that one read has room for.
const READ_BUFFER: usize = 64 << 10;
/// Buffers larger than this are given back once they are empty.
const KEEP_BUFFER: usize = 256 << 10;

/// Empties a buffer for its next use.
fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEEP_BUFFER {
        return Vec::new();
    }
    buffer.clear();
    buffer
}
