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
//!
//! | file | what |
//! |---|---|
//! | [`peer`] | a shard of another node, as whoever asks it sees it: its queue, and who waits for answers |
//! | [`connection`] | the connection to it: made, kept, given up |
//! | [`inbound`] | what other nodes ask |
//! | [`stream`] | the bytes of a connection, with TLS or without |
//! | [`encryption`] | which connections are under TLS |

mod connection;
mod encryption;
mod inbound;
mod peer;
mod stream;

use bytes::BytesMut;
use wire::internode::HelloError;

pub use encryption::{Encrypted, Encryption};
pub use inbound::{Reception, Refused, greet, serve};
pub use peer::{Peer, PeerError, Terms};
pub use stream::{DetachedLink, NotDetached, Stream};

/// Bytes that one read has room for.
const READ_BUFFER: usize = 64 << 10;
/// Buffers larger than this are given back once they are empty.
const KEEP_BUFFER: usize = 256 << 10;

/// Nothing that can be understood was said.
#[derive(Debug, thiserror::Error)]
pub enum Unheard {
    /// It is no node.
    #[error(transparent)]
    Stranger(#[from] HelloError),
    /// It went away.
    #[error("it went away: {0}")]
    Gone(#[from] std::io::Error),
}

/// The first words of the other side, which `input` may have a part of already. Nothing comes behind them
/// before they are answered.
async fn first_words<T>(
    stream: &Stream,
    mut input: BytesMut,
    decode: impl Fn(&mut BytesMut) -> Result<Option<T>, HelloError>,
) -> Result<T, Unheard> {
    loop {
        if let Some(words) = decode(&mut input)? {
            return Ok(words);
        }
        let (read, bytes) = stream.read(Vec::new()).await;
        if read? == 0 {
            return Err(Unheard::Gone(std::io::ErrorKind::UnexpectedEof.into()));
        }
        input.extend_from_slice(&bytes);
    }
}

/// Empties a buffer for its next use.
fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEEP_BUFFER {
        return Vec::new();
    }
    buffer.clear();
    buffer
}
