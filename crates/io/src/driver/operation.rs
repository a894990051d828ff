//! Operations that the kernel has, and what it may touch until they are done.
//!
//! A future that waits for an operation may be dropped; the kernel does not know. So the buffer and
//! the descriptor stay here until the completion comes, and only then go back or away.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::file::OpenFile;
use crate::buffer::AlignedBuf;
use crate::drive::Passage;

/// Memory that an operation reads or writes. It does not move while the value does.
pub(crate) enum Buffer {
    None,
    Bytes(Vec<u8>),
    Aligned(AlignedBuf),
    Address(Box<rustix::net::addr::SocketAddrStorage>),
}

/// A descriptor that must not be closed, or its number would soon mean another file.
pub(crate) enum Handle {
    File(Arc<OpenFile>),
    Socket(Rc<OwnedFd>),
}

impl Handle {
    pub(crate) fn number(&self) -> RawFd {
        match self {
            Handle::File(file) => file.as_raw_fd(),
            Handle::Socket(socket) => socket.as_raw_fd(),
        }
    }
}

/// Which way bytes of a file go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into the buffer.
    Read,
    /// Out of it.
    Write {
        /// Is it done only when the drive has them?
        synced: bool,
    },
}

/// Bytes that go between a buffer and a file.
pub(crate) struct Transfer {
    pub(crate) direction: Direction,
    pub(crate) file: Arc<OpenFile>,
    pub(crate) buffer: Buffer,
    /// Where they begin in the buffer.
    pub(crate) from: usize,
    /// How many they are at most.
    pub(crate) bytes: usize,
    /// Where they begin in the file.
    pub(crate) offset: u64,
    /// Leave to use the drive until it is done, if it goes there.
    pub(crate) passage: Option<Passage>,
}

impl Direction {
    /// The `RWF_` flags of the system's calls.
    pub(crate) fn flags(self) -> i32 {
        match self {
            Direction::Write { synced: true } => libc::RWF_DSYNC,
            Direction::Read | Direction::Write { .. } => 0,
        }
    }
}

/// The operations of one shard that are under way, or done and not yet asked for.
#[derive(Default)]
pub(crate) struct Operations {
    slab: RefCell<Slab<Operation>>,
}

struct Operation {
    buffer: Buffer,
    _handle: Handle,
    /// Is the result of success a new descriptor?
    opens: bool,
    /// Given back when it is done, not when somebody asks.
    passage: Option<Passage>,
    state: State,
}

enum State {
    Waiting(Option<Waker>),
    Done(i64),
    Abandoned,
}

impl Operations {
    /// An operation begins. The kernel is given the key and gives it back with the result.
    pub(crate) fn begin(self: &Rc<Self>, handle: Handle, buffer: Buffer) -> Completion {
        self.insert(handle, buffer, false, None)
    }

    /// An operation that has leave to use the drive until it is done.
    pub(crate) fn begin_passing(
        self: &Rc<Self>,
        handle: Handle,
        buffer: Buffer,
        passage: Option<Passage>,
    ) -> Completion {
        self.insert(handle, buffer, false, passage)
    }

    /// An operation whose result is a descriptor.
    pub(crate) fn begin_opening(self: &Rc<Self>, handle: Handle) -> Completion {
        self.insert(handle, Buffer::None, true, None)
    }

    fn insert(
        self: &Rc<Self>,
        handle: Handle,
        buffer: Buffer,
        opens: bool,
        passage: Option<Passage>,
    ) -> Completion {
        let key = self.slab.borrow_mut().insert(Operation {
            buffer,
            _handle: handle,
            opens,
            passage,
            state: State::Waiting(None),
        });
        Completion {
            operations: self.clone(),
            key,
            taken: false,
        }
    }

    /// The kernel is done with an operation: a count or descriptor, or the negative of an errno.
    pub(crate) fn complete(&self, key: usize, result: i64) {
        let mut slab = self.slab.borrow_mut();
        let operation = slab.get_mut(key).expect("what is done has begun");
        // Dropped at the end: it wakes who waits for the drive.
        let _passage = operation.passage.take();
        match std::mem::replace(&mut operation.state, State::Done(result)) {
            State::Waiting(waker) => {
                drop(slab);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Abandoned => {
                let operation = slab.remove(key);
                drop(slab);
                operation.close_result(result);
            }
            State::Done(_) => unreachable!("an operation is done once"),
        }
    }

    /// Operations that nobody will ever complete use the drive no more, as far as others go.
    pub(crate) fn give_up_passages(&self) {
        let mut slab = self.slab.borrow_mut();
        let held = |(_, operation): (usize, &mut Operation)| operation.passage.take();
        let passages: Vec<_> = slab.iter_mut().filter_map(held).collect();
        drop(slab);
        // They wake who waits for the drive.
        drop(passages);
    }

    /// How many the kernel has.
    pub(crate) fn under_way(&self) -> usize {
        let slab = self.slab.borrow();
        let open = |operation: &Operation| !matches!(operation.state, State::Done(_));
        slab.iter().filter(|(_, operation)| open(operation)).count()
    }
}

impl Operation {
    /// Nobody wants the result: a descriptor must not stay open.
    fn close_result(&self, result: i64) {
        if let (true, Ok(fd)) = (self.opens, RawFd::try_from(result))
            && fd >= 0
        {
            // SAFETY: the kernel has just opened it, and nobody else was told.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

/// Waits for an operation. Dropping it lets the operation go on alone.
pub(crate) struct Completion {
    operations: Rc<Operations>,
    key: usize,
    taken: bool,
}

impl Completion {
    /// What the kernel is to give back.
    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Where the operation's memory begins. It stays valid until the operation is complete.
    pub(crate) fn address(&self) -> *mut u8 {
        let mut slab = self.operations.slab.borrow_mut();
        match &mut slab[self.key].buffer {
            Buffer::None => std::ptr::null_mut(),
            Buffer::Bytes(bytes) => bytes.as_mut_ptr(),
            Buffer::Aligned(bytes) => bytes.start(),
            Buffer::Address(address) => std::ptr::from_mut(&mut **address).cast(),
        }
    }
}

impl Future for Completion {
    type Output = (io::Result<usize>, Buffer);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut slab = this.operations.slab.borrow_mut();
        match &mut slab[this.key].state {
            State::Done(result) => {
                let result = *result;
                let operation = slab.remove(this.key);
                this.taken = true;
                let result = usize::try_from(result).map_err(|_| {
                    let errno = i32::try_from(-result).unwrap_or(libc::EIO);
                    io::Error::from_raw_os_error(errno)
                });
                Poll::Ready((result, operation.buffer))
            }
            State::Waiting(waker) => {
                let old = waker.replace(context.waker().clone());
                drop(slab);
                drop(old);
                Poll::Pending
            }
            State::Abandoned => unreachable!("only dropping abandons"),
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut slab = self.operations.slab.borrow_mut();
        let operation = &mut slab[self.key];
        match std::mem::replace(&mut operation.state, State::Abandoned) {
            State::Waiting(waker) => {
                drop(slab);
                drop(waker);
            }
            State::Done(result) => {
                let operation = slab.remove(self.key);
                drop(slab);
                operation.close_result(result);
            }
            State::Abandoned => unreachable!("it is dropped once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drive::Way;
    use crate::group::TaskGroup;
    use crate::sim::{SimConfig, Simulation};

    /// A fresh drive has room for one piece of a group.
    const PIECE: usize = 256 << 10;

    #[test]
    fn what_is_left_to_the_kernel_is_in_nobodys_way() {
        let mut simulation = Simulation::new(1, SimConfig::default());
        let node = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 30);
        simulation.start(node, |env| async move {
            let of_task = env.clone();
            let task = env.spawn(TaskGroup::Flush, async move {
                let env = of_task;
                let operations = Rc::new(Operations::default());
                let nothing = std::fs::File::open("/dev/null").expect("it is there");
                let handle = Handle::Socket(Rc::new(nothing.into()));
                let passage = env.pass(Way::Write, PIECE).await;
                drop(operations.begin_passing(handle, Buffer::None, Some(passage)));
                let next = env.timeout(Duration::from_secs(1), env.pass(Way::Write, PIECE));
                assert!(next.await.is_err(), "it is under way");
                operations.give_up_passages();
                let next = env.timeout(Duration::from_secs(1), env.pass(Way::Write, PIECE));
                assert!(next.await.is_ok(), "nobody waits for it any more");
                assert_eq!(operations.under_way(), 1);
            });
            task.await;
        });
        assert!(simulation.run_to_end(node, Duration::from_secs(60)));
    }
}
