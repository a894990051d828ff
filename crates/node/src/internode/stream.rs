//! The bytes of a connection between nodes, with TLS or without.

use std::cell::RefCell;
use std::io::{Error as IoError, Result as IoResult};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use ::io::{DetachedStream, Env, TcpStream};

use super::{READ_BUFFER, emptied};
use crate::tls::{Tls, TlsError};

/// How much is encrypted at once.
const PIECE: usize = 64 << 10;

/// A connection to another node. Cheap to clone; one task reads and one writes at a time.
#[derive(Clone)]
pub struct Stream {
    socket: TcpStream,
    secured: Option<Rc<RefCell<Secured>>>,
}

#[derive(Debug)]
struct Secured {
    tls: Tls,
    /// What was said right behind the handshake.
    early: Vec<u8>,
}

/// A connection on its way to another shard.
#[derive(Debug)]
pub struct DetachedLink {
    socket: DetachedStream,
    secured: Option<Box<Secured>>,
}

/// Both sides could not agree on TLS.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The other side went away before or while it spoke.
    #[error("it hung up{}", if *.spoke { " in the middle" } else { "" })]
    HungUp { spoke: bool },
    #[error(transparent)]
    Io(#[from] IoError),
    /// It answered without TLS; its words.
    #[error("what it says is not TLS")]
    Plain(Vec<u8>),
}

impl Stream {
    /// Without TLS.
    pub fn plain(socket: TcpStream) -> Stream {
        Stream {
            socket,
            secured: None,
        }
    }

    /// Under TLS: says and hears what is needed for both sides to agree. `received`: what has come in
    /// already.
    pub(super) async fn secure(
        socket: TcpStream,
        mut tls: Tls,
        received: &[u8],
    ) -> Result<Stream, HandshakeError> {
        let mut early = Vec::new();
        let mut judged = tls.receive(received, &mut early);
        let mut spoke = !received.is_empty();
        let mut buffer = Vec::with_capacity(READ_BUFFER);
        loop {
            let mut output = Vec::new();
            tls.take_output(&mut output);
            if !output.is_empty() {
                // The other side learns why.
                let sent = socket.write_all(output).await.0;
                judged?;
                sent?;
            } else {
                judged?;
            }
            if !tls.is_handshaking() {
                break;
            }
            let (read, bytes) = socket.read(buffer).await;
            match read {
                Ok(0) => return Err(HandshakeError::HungUp { spoke }),
                Ok(_) => {}
                Err(_) if !spoke => return Err(HandshakeError::HungUp { spoke }),
                Err(error) => return Err(error.into()),
            }
            if !spoke && !is_tls(&bytes) {
                return Err(HandshakeError::Plain(bytes));
            }
            spoke = true;
            judged = tls.receive(&bytes, &mut early);
            buffer = emptied(bytes);
        }
        Ok(Stream {
            socket,
            secured: Some(Rc::new(RefCell::new(Secured { tls, early }))),
        })
    }

    /// Appends what has come, at least a byte, to `buffer`; 0 means that the other side will send no more.
    /// Dropping the future loses nothing but the buffer.
    pub(super) async fn read(&self, mut buffer: Vec<u8>) -> (IoResult<usize>, Vec<u8>) {
        let Some(secured) = &self.secured else {
            return self.socket.read(buffer).await;
        };
        let start = buffer.len();
        buffer.append(&mut secured.borrow_mut().early);
        let mut encrypted = Vec::new();
        while buffer.len() == start {
            encrypted.clear();
            let (read, bytes) = self.socket.read(encrypted).await;
            match read {
                Ok(0) => return (Ok(0), buffer),
                Ok(_) => {}
                Err(error) => return (Err(error), buffer),
            }
            let received = secured.borrow_mut().tls.receive(&bytes, &mut buffer);
            if let Err(error) = received {
                return (Err(IoError::other(error)), buffer);
            }
            encrypted = bytes;
        }
        (Ok(buffer.len() - start), buffer)
    }

    /// Sends all of `buffer`. After an error, or if the future is dropped, nobody knows how much of it went.
    pub(super) async fn write_all(&self, buffer: Vec<u8>) -> (IoResult<()>, Vec<u8>) {
        let Some(secured) = &self.secured else {
            return self.socket.write_all(buffer).await;
        };
        let mut encrypted = Vec::new();
        for piece in buffer.chunks(PIECE) {
            secured.borrow_mut().tls.send(piece, &mut encrypted);
            let (sent, back) = self.socket.write_all(encrypted).await;
            if sent.is_err() {
                return (sent, buffer);
            }
            encrypted = emptied(back);
        }
        (Ok(()), buffer)
    }

    /// Tells the other side that no more will come.
    pub(super) async fn shutdown(&self) -> IoResult<()> {
        self.socket.shutdown().await
    }

    /// How long ago the other side's system has acknowledged anything; `None` if that is not known.
    pub(super) fn acknowledged(&self) -> Option<Duration> {
        self.socket.acknowledged()
    }

    /// The other side's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.socket.peer_addr()
    }

    /// Is the certificate of who connected for the address that it says it is at?
    pub(super) fn judge_address(&self, address: IpAddr) -> Result<(), TlsError> {
        let Some(secured) = &self.secured else {
            return Ok(());
        };
        secured.borrow().tls.judge_address(address)
    }

    /// Is it under TLS?
    pub fn is_secure(&self) -> bool {
        self.secured.is_some()
    }

    /// Takes the connection off this shard, for another one to adopt. Nothing is lost that has come in.
    ///
    /// # Errors
    /// There are clones of this handle, or no descriptors left: the connection is closed.
    pub fn detach(self) -> Result<DetachedLink, NotDetached> {
        let secured = match self.secured.map(Rc::try_unwrap) {
            None => None,
            Some(Ok(secured)) => Some(Box::new(secured.into_inner())),
            Some(Err(_)) => return Err(NotDetached),
        };
        let socket = self.socket.detach().map_err(|_| NotDetached)?;
        Ok(DetachedLink { socket, secured })
    }

    /// Takes over a connection that another shard accepted.
    pub fn adopt(env: &Env, link: DetachedLink) -> Stream {
        Stream {
            socket: env.adopt(link.socket),
            secured: link.secured.map(|secured| Rc::new(RefCell::new(*secured))),
        }
    }
}

/// A connection that stays where it is.
#[derive(Debug, thiserror::Error)]
#[error("the connection is held by others, too, or there are no descriptors left")]
pub struct NotDetached;

/// Does a record of TLS begin so? (RFC 8446, 5.1: a handshake or an alert.)
pub(super) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, ..])
}
