//! Sockets over io_uring.
//!
//! Receiving is asked for once and goes on by itself (multishot): what comes gathers in the socket
//! until a task reads it. If nobody does, receiving is cancelled, so that the other side has to
//! wait, and asked for again by the next read that finds nothing.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{cqueue, opcode};
use rustix::net::addr::{SocketAddrArg, SocketAddrStorage};

use super::{UringDriver, buffers, tag};
use crate::driver::operation::{Buffer, Completion, Handle};

/// Bytes that may have come and wait for a reader before receiving is cancelled.
const READ_AHEAD: usize = 64 << 10;
/// How many handles of its descriptor a socket has that does nothing: its own and `Receiving`'s.
const HANDLES: usize = 2;
/// Buffers larger than this are given back once they are empty, unless as much as [`WORTH_A_SWAP`] came at once.
const KEEP_BUFFER: usize = 16 << 10;
/// So many bytes are rather moved than copied.
const WORTH_A_SWAP: usize = 4 << 10;

/// What a socket has received, and whether it goes on.
pub(super) struct Receiving {
    /// Kept open as long as the kernel receives of it.
    fd: Rc<OwnedFd>,
    state: RefCell<Received>,
    /// The key under which the kernel knows it, while it receives.
    armed: Cell<Option<usize>>,
    cancelling: Cell<bool>,
}

#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    /// How many of them were read.
    read: usize,
    /// Nothing more will come: 0 at the end, else an errno.
    end: Option<i32>,
    reader: Option<Waker>,
}

impl Received {
    /// Moves what has come to the spare capacity of `buffer`; gives how many bytes that are.
    fn give(&mut self, buffer: &mut Vec<u8>) -> usize {
        let waiting = self.bytes.len() - self.read;
        let count = waiting.min(buffer.capacity() - buffer.len());
        if count >= WORTH_A_SWAP && count == self.bytes.len() && buffer.is_empty() {
            // All of it, so the memory may change hands, and nothing is copied. Who receives much goes on doing so.
            std::mem::swap(buffer, &mut self.bytes);
            return count;
        }
        buffer.extend_from_slice(&self.bytes[self.read..self.read + count]);
        self.read += count;
        if self.read == self.bytes.len() {
            self.read = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP_BUFFER {
                self.bytes = Vec::new();
            }
        }
        count
    }
}

impl super::Inner {
    /// A completion of a socket that receives.
    pub(super) fn received(&self, key: usize, result: i32, flags: u32) {
        let receiving = self.receiving.borrow()[key].clone();
        let mut state = receiving.state.borrow_mut();
        match (cqueue::buffer_select(flags), usize::try_from(result)) {
            (Some(buffer), Ok(count)) if count > 0 => {
                self.buffers.take(buffer, count, &mut state.bytes);
            }
            (_, Ok(_)) => state.end = Some(0),
            (_, Err(_)) if matches!(-result, libc::ECANCELED | libc::ENOBUFS | libc::EINTR) => {}
            (_, Err(_)) => state.end = Some(-result),
        }
        if !cqueue::more(flags) {
            self.receiving.borrow_mut().remove(key);
            receiving.armed.set(None);
            receiving.cancelling.set(false);
        } else if state.bytes.len() - state.read > READ_AHEAD && !receiving.cancelling.get() {
            receiving.cancelling.set(true);
            self.cancel(tag::RECEIVING | key as u64);
        }
        let waker = state.reader.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A socket.
pub(crate) struct UringSocket {
    driver: UringDriver,
    fd: Rc<OwnedFd>,
    receiving: Rc<Receiving>,
    /// A connection that is waited for, should the one who waited have gone.
    accepting: RefCell<Option<Completion>>,
}

impl UringDriver {
    /// A socket that has received some bytes already.
    pub(crate) fn socket(&self, fd: OwnedFd, received: Vec<u8>) -> UringSocket {
        let fd = Rc::new(fd);
        UringSocket {
            driver: self.clone(),
            receiving: Rc::new(Receiving {
                fd: fd.clone(),
                state: RefCell::new(Received {
                    bytes: received,
                    ..Received::default()
                }),
                armed: Cell::new(None),
                cancelling: Cell::new(false),
            }),
            fd,
            accepting: RefCell::default(),
        }
    }
}

impl UringSocket {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn raw(&self) -> Fd {
        Fd(self.fd.as_raw_fd())
    }

    fn push(&self, entry: io_uring::squeue::Entry, completion: &Completion) {
        let number = tag::OPERATION | completion.key() as u64;
        self.driver.inner.push(entry.user_data(number));
    }

    /// Takes the socket out of the driver, with what it has received and nobody has read.
    pub(crate) fn take(&self) -> io::Result<(OwnedFd, Vec<u8>)> {
        let inner = &self.driver.inner;
        if let Some(key) = self.receiving.armed.get() {
            if !self.receiving.cancelling.replace(true) {
                inner.cancel(tag::RECEIVING | key as u64);
            }
            // The kernel answers at once; what it says to others on the way wakes them.
            for _ in 0..1000 {
                if self.receiving.armed.get().is_none() {
                    break;
                }
                inner.turn(Some(std::time::Duration::from_millis(10)))?;
            }
            assert!(
                self.receiving.armed.get().is_none(),
                "receiving can be cancelled"
            );
        }
        // Another handle of it may still send what nobody waits for.
        let fd = rustix::io::fcntl_dupfd_cloexec(&*self.fd, 3)?;
        let mut state = self.receiving.state.borrow_mut();
        let read = std::mem::take(&mut state.read);
        let mut bytes = std::mem::take(&mut state.bytes);
        bytes.drain(..read);
        drop(state);
        Ok((fd, bytes))
    }

    /// Bytes that the kernel has given and nobody has read.
    pub(crate) fn received(&self) -> usize {
        let state = self.receiving.state.borrow();
        state.bytes.len() - state.read
    }

    /// Moves what has come to the spare capacity of `buffer`, which has some.
    pub(crate) fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.receiving.state.borrow_mut();
        let waiting = state.bytes.len() - state.read;
        if waiting > 0 {
            return Poll::Ready(Ok(state.give(buffer)));
        }
        match state.end {
            Some(0) => return Poll::Ready(Ok(0)),
            Some(errno) => return Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
            None => {}
        }
        let old = state.reader.replace(context.waker().clone());
        drop(state);
        drop(old);
        if self.receiving.armed.get().is_none() {
            self.receive();
        }
        Poll::Pending
    }

    fn receive(&self) {
        let inner = &self.driver.inner;
        let key = inner.receiving.borrow_mut().insert(self.receiving.clone());
        self.receiving.armed.set(Some(key));
        let fd = Fd(self.receiving.fd.as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, buffers::GROUP);
        inner.push(entry.build().user_data(tag::RECEIVING | key as u64));
    }

    /// Sends all of `bytes`.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let (mut bytes, mut sent) = (bytes, 0);
        while sent < bytes.len() {
            let left = bytes.len() - sent;
            let handle = Handle::Socket(self.fd.clone());
            let completion = self
                .driver
                .inner
                .operations
                .begin(handle, Buffer::Bytes(bytes));
            let address = completion.address().wrapping_add(sent).cast_const();
            let entry = opcode::Send::new(self.raw(), address, super::length(left))
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL);
            self.push(entry.build(), &completion);
            let (result, back) = completion.await;
            let Buffer::Bytes(back) = back else {
                unreachable!("what went in comes back");
            };
            bytes = back;
            match result {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), bytes),
            }
        }
        (Ok(()), bytes)
    }

    /// Takes a connection. One that comes when the future was dropped is kept for the next.
    pub(crate) async fn accept(&self) -> io::Result<OwnedFd> {
        poll_fn(|context| {
            let mut accepting = self.accepting.borrow_mut();
            let completion = accepting.get_or_insert_with(|| self.begin_accept());
            let (result, _) = ready!(Pin::new(completion).poll(context));
            accepting.take();
            let fd = i32::try_from(result?).expect("a descriptor is an int");
            // SAFETY: the kernel has just opened it for us.
            Poll::Ready(Ok(unsafe { OwnedFd::from_raw_fd(fd) }))
        })
        .await
    }

    fn begin_accept(&self) -> Completion {
        let handle = Handle::Socket(self.fd.clone());
        let completion = self.driver.inner.operations.begin_opening(handle);
        let none = std::ptr::null_mut();
        let entry = opcode::Accept::new(self.raw(), none, none.cast())
            .flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        self.push(entry.build(), &completion);
        completion
    }

    /// Connects to `address`.
    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let mut storage = Box::new(SocketAddrStorage::zeroed());
        // SAFETY: the storage has room for every address of IP.
        let bytes = unsafe { address.write_sockaddr(&raw mut *storage) };
        let handle = Handle::Socket(self.fd.clone());
        let operations = &self.driver.inner.operations;
        let completion = operations.begin(handle, Buffer::Address(storage));
        let at = completion.address().cast_const().cast();
        let entry = opcode::Connect::new(self.raw(), at, bytes);
        self.push(entry.build(), &completion);
        let (result, _) = completion.await;
        result.map(|_| ())
    }
}

impl Drop for UringSocket {
    fn drop(&mut self) {
        // The kernel would keep the connection open for what nobody waits for.
        let others = Rc::strong_count(&self.fd) > HANDLES;
        if others || self.receiving.armed.get().is_some() {
            let inner = &self.driver.inner;
            let everything = CancelBuilder::fd(self.raw()).all();
            let handle = Handle::Socket(self.fd.clone());
            let cancel = inner.operations.begin(handle, Buffer::None);
            self.push(opcode::AsyncCancel2::new(everything).build(), &cancel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(bytes: &[u8]) -> Received {
        Received {
            bytes: bytes.to_vec(),
            ..Received::default()
        }
    }

    #[test]
    fn much_that_comes_at_once_changes_hands() {
        let mut state = received(&[7; WORTH_A_SWAP]);
        let memory = state.bytes.as_ptr();
        let mut buffer = Vec::with_capacity(2 * WORTH_A_SWAP);
        assert_eq!(state.give(&mut buffer), WORTH_A_SWAP);
        assert_eq!(
            (&buffer[..], buffer.as_ptr()),
            (&[7; WORTH_A_SWAP][..], memory)
        );
        assert!(state.bytes.is_empty() && state.bytes.capacity() == 2 * WORTH_A_SWAP);
    }

    #[test]
    fn no_more_is_given_than_there_is_room_for() {
        let bytes: Vec<u8> = (0..2 * WORTH_A_SWAP).map(|at| at as u8).collect();
        let mut state = received(&bytes);
        let mut all = Vec::new();
        for (capacity, count) in [
            (WORTH_A_SWAP, WORTH_A_SWAP),
            (100, 100),
            (8 * WORTH_A_SWAP, WORTH_A_SWAP - 100),
        ] {
            let mut buffer = Vec::with_capacity(capacity);
            assert_eq!(state.give(&mut buffer), count);
            all.extend(buffer);
        }
        assert_eq!(all, bytes);
        // What is there already stays before it.
        let (mut state, mut buffer) = (received(&bytes), vec![1]);
        buffer.reserve(bytes.len());
        assert_eq!(state.give(&mut buffer), bytes.len());
        assert_eq!((buffer[0], &buffer[1..]), (1, &bytes[..]));
        assert!(state.bytes.is_empty() && state.bytes.capacity() <= KEEP_BUFFER);
    }
}
