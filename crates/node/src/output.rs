//! What a connection has to send.

use std::cell::{Cell, RefCell};

use io::{Notify, TcpStream};
use wire::ServerConnection;

use crate::metrics::ShardMetrics;

/// Bytes that may wait for a slow reader before its next requests wait too.
const HIGH_WATER: usize = 1 << 20;
/// Buffers larger than this are given back once they are empty.
const KEEP_BUFFER: usize = 256 << 10;

/// The sending side of a connection. Responses gather and go out together, at the end of each of the
/// shard's turns ([`io::Env::spawn_last`]).
pub(crate) struct Output {
    connection: RefCell<ServerConnection>,
    /// Bytes that the socket has not taken yet.
    sending: Cell<usize>,
    wake: Notify,
    closed: Cell<bool>,
    broken: Cell<bool>,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output {
            connection: RefCell::default(),
            sending: Cell::new(0),
            wake: Notify::new(),
            closed: Cell::new(false),
            broken: Cell::new(false),
        }
    }

    /// Does something with the protocol's state; responses it writes are sent.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut ServerConnection) -> R) -> R {
        let mut connection = self.connection.borrow_mut();
        let result = act(&mut connection);
        if connection.pending() > 0 {
            self.wake.notify_one();
        }
        result
    }

    /// Is so much waiting that no more should be asked for?
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// How many bytes more may wait before no more should be asked for.
    pub(crate) fn room(&self) -> usize {
        HIGH_WATER.saturating_sub(self.waiting())
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.sending.get() + self.connection.borrow().pending()
    }

    /// Can nothing be sent any more?
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Nothing will be added any more: the writer ends when all is sent.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.wake.notify_one();
    }

    /// Sends until closed, or until the other side is gone. `sent` is called whenever the socket
    /// has taken all it was given.
    pub(crate) async fn write_to(
        &self,
        stream: &TcpStream,
        metrics: &ShardMetrics,
        sent: impl Fn(),
    ) {
        let mut buffer = Vec::new();
        loop {
            self.connection.borrow_mut().take_output(&mut buffer);
            if buffer.is_empty() {
                if self.closed.get() {
                    return;
                }
                self.wake.notified().await;
                continue;
            }
            let bytes = buffer.len();
            self.sending.set(bytes);
            let (result, back) = stream.write_all(buffer).await;
            buffer = back;
            buffer.clear();
            if buffer.capacity() > KEEP_BUFFER {
                buffer = Vec::new();
            }
            self.sending.set(0);
            metrics.bytes_out.add(bytes as u64);
            if result.is_err() {
                self.broken.set(true);
            }
            sent();
            if self.broken.get() {
                return;
            }
        }
    }
}
