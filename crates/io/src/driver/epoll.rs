//! The driver for kernels and containers that do not allow io_uring: epoll for sockets, Linux AIO
//! for files past the page cache.
//!
//! Sockets are registered edge-triggered, for reading and writing at once, the first time they
//! have to wait. A flag says whether trying is worth a system call; it falls when a call would
//! block, or when it moved less than there was room for, and rises with the next edge. An end or
//! error that an edge announced keeps the flag up, because no other edge will follow.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use slab::Slab;

use super::aio::Aio;
use crate::doorbell::Doorbell;

/// The driver's name in logs.
pub(crate) const NAME: &str = "epoll + linux-aio";
/// Its name where AIO is not to be had.
pub(crate) const NAME_WITHOUT_AIO: &str = "epoll";

/// The key of the doorbell, which no socket has.
const DOORBELL: u64 = u64::MAX;
/// The key of the eventfd of AIO.
const AIO: u64 = u64::MAX - 1;

/// How many events one call brings.
const EVENTS: usize = 512;

/// The driver of one shard. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EpollDriver {
    inner: Rc<Inner>,
}

struct Inner {
    epoll: OwnedFd,
    doorbell: Arc<Doorbell>,
    aio: std::io::Result<Aio>,
    sockets: RefCell<Slab<Rc<Readiness>>>,
    events: RefCell<Vec<libc::epoll_event>>,
    /// Is `epoll_pwait2` there, so that waiting is not rounded up to milliseconds?
    precise: Cell<bool>,
}

/// What the kernel said of a socket.
struct Readiness {
    readable: Cell<bool>,
    writable: Cell<bool>,
    /// No other edge will come for reading.
    ended: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

impl EpollDriver {
    pub(crate) fn start(doorbell: Arc<Doorbell>) -> std::io::Result<EpollDriver> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, doorbell.fd(), EventData::new_u64(DOORBELL), flags)?;
        let aio = Aio::start();
        if let Ok(aio) = &aio {
            epoll::add(&epoll, aio.eventfd(), EventData::new_u64(AIO), flags)?;
        }
        Ok(EpollDriver {
            inner: Rc::new(Inner {
                epoll,
                doorbell,
                aio,
                sockets: RefCell::default(),
                events: RefCell::new(Vec::with_capacity(EVENTS)),
                precise: Cell::new(true),
            }),
        })
    }

    /// Waits up to `timeout` (for ever if `None`) for the first event, then wakes whom the events
    /// are for.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        if let Ok(aio) = &self.inner.aio {
            aio.submit();
        }
        let mut events = self.inner.events.borrow_mut();
        match self.inner.wait(&mut events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        for event in events.iter() {
            self.inner.event(event.u64, event.events);
        }
        Ok(())
    }

    /// AIO, or why there is none.
    pub(crate) fn aio(&self) -> &std::io::Result<Aio> {
        &self.inner.aio
    }

    pub(crate) fn socket(&self, fd: OwnedFd) -> EpollSocket {
        EpollSocket {
            driver: self.clone(),
            fd: Some(fd),
            registered: OnceCell::new(),
            readiness: Rc::new(Readiness {
                readable: Cell::new(true),
                writable: Cell::new(true),
                ended: Cell::new(false),
                reader: RefCell::default(),
                writer: RefCell::default(),
            }),
        }
    }
}

impl Inner {
    fn wait(
        &self,
        events: &mut Vec<libc::epoll_event>,
        timeout: Option<Duration>,
    ) -> std::io::Result<()> {
        events.clear();
        if self.precise.get() && timeout.is_some_and(|timeout| !timeout.is_zero()) {
            match self.wait_precisely(events, timeout) {
                // Old kernels do not have the call, and some containers do not allow it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.precise.set(false);
                }
                result => return result,
            }
        }
        let millis = match timeout {
            None => -1,
            Some(timeout) => {
                let millis = timeout.as_nanos().div_ceil(1_000_000);
                i32::try_from(millis).unwrap_or(i32::MAX)
            }
        };
        use std::os::fd::AsRawFd;
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the pointer and the count describe the vector's spare capacity.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), EVENTS as i32, millis) };
        self.received(events, i64::from(count))
    }

    fn wait_precisely(
        &self,
        events: &mut Vec<libc::epoll_event>,
        timeout: Option<Duration>,
    ) -> std::io::Result<()> {
        use std::os::fd::AsRawFd;
        let spec = timeout.map(|timeout| libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        // SAFETY: the pointer and the count describe the vector's spare capacity; the timespec
        // lives through the call; no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        self.received(events, count)
    }

    fn received(&self, events: &mut Vec<libc::epoll_event>, count: i64) -> std::io::Result<()> {
        let Ok(count) = usize::try_from(count) else {
            return Err(std::io::Error::last_os_error());
        };
        // SAFETY: the kernel has filled in so many, which are no more than there was room for.
        unsafe { events.set_len(count) };
        Ok(())
    }

    fn event(&self, key: u64, flags: u32) {
        if key == DOORBELL {
            // Empty it, so that its counter never gets full.
            let _ = rustix::io::read(self.doorbell.fd(), &mut [0u8; 8]);
            return;
        }
        if let (AIO, Ok(aio)) = (key, &self.aio) {
            aio.reap();
            return;
        }
        let readiness = self.sockets.borrow().get(key as usize).cloned();
        let Some(readiness) = readiness else { return };
        let flags = EventFlags::from_bits_retain(flags);
        let broken = EventFlags::ERR | EventFlags::HUP;
        if flags.intersects(broken | EventFlags::RDHUP) {
            readiness.ended.set(true);
        }
        if flags.intersects(broken | EventFlags::IN | EventFlags::RDHUP) {
            readiness.readable.set(true);
            wake(&readiness.reader);
        }
        if flags.intersects(broken | EventFlags::OUT) {
            readiness.writable.set(true);
            wake(&readiness.writer);
        }
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    let waker = waker.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A socket that does not block.
pub(crate) struct EpollSocket {
    driver: EpollDriver,
    /// There until the socket is handed over.
    fd: Option<OwnedFd>,
    registered: OnceCell<usize>,
    readiness: Rc<Readiness>,
}

impl EpollSocket {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd
            .as_ref()
            .expect("only dropping takes the descriptor")
            .as_fd()
    }

    /// Takes the descriptor out of the driver.
    pub(crate) fn into_fd(mut self) -> OwnedFd {
        self.deregister();
        self.fd.take().expect("only dropping takes the descriptor")
    }

    fn register(&self) -> std::io::Result<()> {
        if self.registered.get().is_some() {
            return Ok(());
        }
        let inner = &*self.driver.inner;
        let key = inner.sockets.borrow_mut().insert(self.readiness.clone());
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(key as u64);
        if let Err(error) = epoll::add(&inner.epoll, self.fd(), data, flags) {
            inner.sockets.borrow_mut().remove(key);
            return Err(error.into());
        }
        let _ = self.registered.set(key);
        Ok(())
    }

    fn deregister(&mut self) {
        if let Some(key) = self.registered.take() {
            let inner = &*self.driver.inner;
            // A descriptor that somebody else has as well (a child process) would stay registered.
            let _ = epoll::delete(&inner.epoll, self.fd());
            let readiness = inner.sockets.borrow_mut().try_remove(key);
            drop(readiness);
        }
    }

    /// Tries `call` while the socket may be readable, else waits.
    pub(crate) fn poll_read<T>(
        &self,
        context: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> Poll<std::io::Result<T>> {
        let readiness = &*self.readiness;
        loop {
            if !readiness.readable.get() {
                let waker = context.waker().clone();
                let old = readiness.reader.borrow_mut().replace(waker);
                drop(old);
                return Poll::Pending;
            }
            match call(self.fd()) {
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    readiness.readable.set(false);
                    self.register()?;
                }
                result => return Poll::Ready(result.map_err(std::io::Error::from)),
            }
        }
    }

    /// Tries `call` while the socket may be writable, else waits.
    pub(crate) fn poll_write<T>(
        &self,
        context: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> Poll<std::io::Result<T>> {
        let readiness = &*self.readiness;
        loop {
            if !readiness.writable.get() {
                let waker = context.waker().clone();
                let old = readiness.writer.borrow_mut().replace(waker);
                drop(old);
                return Poll::Pending;
            }
            match call(self.fd()) {
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    readiness.writable.set(false);
                    self.register()?;
                }
                result => return Poll::Ready(result.map_err(std::io::Error::from)),
            }
        }
    }

    /// Receives into the spare capacity of `buffer`.
    pub(crate) fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<std::io::Result<usize>> {
        let room = buffer.capacity() - buffer.len();
        let received = self.poll_read(context, |fd| {
            let spare = rustix::buffer::spare_capacity(buffer);
            rustix::net::recv(fd, spare, RecvFlags::empty()).map(|(count, _)| count)
        });
        if let Poll::Ready(Ok(count)) = received
            && count < room
            && self.registered.get().is_some()
            && !self.readiness.ended.get()
        {
            // The socket is empty: what comes next makes an edge.
            self.readiness.readable.set(false);
        }
        received
    }

    /// Sends some of `bytes`.
    pub(crate) fn poll_send(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.poll_write(context, |fd| {
            rustix::net::send(fd, bytes, SendFlags::NOSIGNAL)
        })
    }

    /// Makes the next try to write wait for an edge, as a connection under way needs it.
    pub(crate) fn expect_write_edge(&self) -> std::io::Result<()> {
        self.readiness.writable.set(false);
        self.register()
    }
}

impl Drop for EpollSocket {
    fn drop(&mut self) {
        if self.fd.is_some() {
            self.deregister();
        }
    }
}
