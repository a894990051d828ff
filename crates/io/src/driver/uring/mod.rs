//! The driver over io_uring: what tasks ask for gathers in a ring, and one call a turn gives it to
//! the kernel and takes what is done.
//!
//! The ring belongs to its thread (`SINGLE_ISSUER`), and the kernel does its part of completing
//! when the shard asks, not in the middle of something else (`DEFER_TASKRUN`): Linux 6.1.

mod buffers;
pub(crate) mod socket;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use slab::Slab;

use super::file::OpenFile;
use super::operation::{Buffer, Completion, Direction, Handle, Operations, Transfer};
use crate::clock::Clock;
use crate::doorbell::Doorbell;
use buffers::Buffers;
use socket::Receiving;

/// The driver's name in logs.
pub(crate) const NAME: &str = "io_uring";

/// Places for what was asked for and is not with the kernel yet; if they are taken, they are
/// emptied at once.
const SUBMISSIONS: u32 = 512;
/// Places for what is done and was not looked at; the kernel keeps what does not fit.
const COMPLETIONS: u32 = 4096;

/// Drives may be slow; one that does not answer for so long hangs.
const DRIVE_HANGS: Duration = Duration::from_secs(30);
/// How long what the kernel is asked to end may take, until it is asked once more.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What a number that comes back from the kernel is the number of, in its upper byte.
mod tag {
    pub(super) const OPERATION: u64 = 0;
    pub(super) const RECEIVING: u64 = 1 << 56;
    pub(super) const DOORBELL: u64 = 2 << 56;
    pub(super) const IGNORED: u64 = 3 << 56;
    pub(super) const MASK: u64 = 0xff << 56;
}

/// The driver of one shard. Cheap to clone.
#[derive(Clone)]
pub(crate) struct UringDriver {
    inner: Rc<Inner>,
}

struct Inner {
    // Dropped in this order: the ring before what the kernel may touch.
    ring: RefCell<IoUring>,
    buffers: Buffers,
    operations: Rc<Operations>,
    receiving: RefCell<Slab<Rc<Receiving>>>,
    /// What found no place in the ring.
    backlog: RefCell<VecDeque<squeue::Entry>>,
    /// Used by each turn anew.
    completed: Cell<Vec<(u64, i32, u32)>>,
    doorbell: Arc<Doorbell>,
}

impl UringDriver {
    /// # Errors
    /// The kernel has no io_uring, not all of what is needed of it, or does not allow it here.
    pub(crate) fn start(doorbell: Arc<Doorbell>) -> std::io::Result<UringDriver> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_coop_taskrun()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(SUBMISSIONS)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(std::io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let buffers = Buffers::register(&ring.submitter())?;
        let driver = UringDriver {
            inner: Rc::new(Inner {
                ring: RefCell::new(ring),
                buffers,
                operations: Rc::default(),
                receiving: RefCell::default(),
                backlog: RefCell::default(),
                completed: Cell::default(),
                doorbell,
            }),
        };
        driver.inner.listen_to_doorbell();
        Ok(driver)
    }

    /// Gives the kernel what has gathered, waits up to `timeout` (for ever if `None`) for the first
    /// completion, and wakes whom the completions are for.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        self.inner.turn(timeout)
    }

    /// Moves bytes between a buffer and a file.
    pub(crate) fn transfer(&self, transfer: Transfer) -> Completion {
        let (offset, flags) = (transfer.offset, transfer.direction.flags());
        let length = length(transfer.bytes);
        let handle = Handle::File(transfer.file);
        let fd = Fd(handle.number());
        let completion =
            self.inner
                .operations
                .begin_passing(handle, transfer.buffer, transfer.passage);
        let address = completion.address().wrapping_add(transfer.from);
        let entry = match transfer.direction {
            Direction::Read => opcode::Read::new(fd, address, length)
                .offset(offset)
                .build(),
            Direction::Write { .. } => opcode::Write::new(fd, address.cast_const(), length)
                .offset(offset)
                .rw_flags(flags)
                .build(),
        };
        let number = tag::OPERATION | completion.key() as u64;
        self.inner.push(entry.user_data(number));
        completion
    }

    /// Waits until the drive has a file.
    pub(crate) fn sync(&self, file: Arc<OpenFile>, data_only: bool) -> Completion {
        let handle = Handle::File(file);
        let flags = match data_only {
            true => FsyncFlags::DATASYNC,
            false => FsyncFlags::empty(),
        };
        let entry = opcode::Fsync::new(Fd(handle.number())).flags(flags);
        let completion = self.inner.operations.begin(handle, Buffer::None);
        self.inner.push(
            entry
                .build()
                .user_data(tag::OPERATION | completion.key() as u64),
        );
        completion
    }
}

/// As much of a length as one operation takes.
fn length(bytes: usize) -> u32 {
    // What the kernel moves at most in one call (MAX_RW_COUNT).
    bytes.min(0x7fff_f000) as u32
}

impl Inner {
    /// Puts an entry into the ring; the kernel gets it with the next turn, or when the ring is full.
    fn push(&self, entry: squeue::Entry) {
        let mut backlog = self.backlog.borrow_mut();
        if backlog.is_empty() {
            let mut ring = self.ring.borrow_mut();
            // SAFETY: what the entry points to is kept by `operations` or `receiving` until the
            // kernel says that it is done with it.
            if unsafe { ring.submission().push(&entry) }.is_ok() {
                return;
            }
            let _ = ring.submit();
            // SAFETY: as above.
            if unsafe { ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        backlog.push_back(entry);
    }

    fn push_backlog(&self) {
        let mut backlog = self.backlog.borrow_mut();
        let mut ring = self.ring.borrow_mut();
        let mut queue = ring.submission();
        while let Some(entry) = backlog.front() {
            // SAFETY: as in `push`.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            backlog.pop_front();
        }
    }

    fn listen_to_doorbell(&self) {
        let fd = Fd(self.doorbell.fd().as_raw_fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true);
        self.push(poll.build().user_data(tag::DOORBELL));
    }

    fn cancel(&self, user_data: u64) {
        let cancel = opcode::AsyncCancel::new(user_data);
        self.push(cancel.build().user_data(tag::IGNORED));
    }

    fn turn(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        self.push_backlog();
        self.enter(timeout)?;
        self.reap();
        Ok(())
    }

    /// The call, if there is a reason for it.
    fn enter(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        let result = match timeout {
            Some(Duration::ZERO) => {
                let queue = ring.submission();
                let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
                drop(queue);
                match idle {
                    true => Ok(0),
                    false => ring.submit(),
                }
            }
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                let arguments = SubmitArgs::new().timespec(&timespec);
                ring.submitter().submit_with_args(1, &arguments)
            }
            None => ring.submit_and_wait(1),
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The time is up; a signal; completions have to be looked at first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Wakes whom completions are for.
    fn reap(&self) {
        let mut completed = self.completed.take();
        let entries = |entry: cqueue::Entry| (entry.user_data(), entry.result(), entry.flags());
        completed.extend(self.ring.borrow_mut().completion().map(entries));
        for (number, result, flags) in completed.drain(..) {
            let key = (number & !tag::MASK) as usize;
            match number & tag::MASK {
                tag::OPERATION => self.operations.complete(key, i64::from(result)),
                tag::RECEIVING => self.received(key, result, flags),
                tag::DOORBELL => self.bell_rang(flags),
                _ => {}
            }
        }
        self.completed.set(completed);
    }

    fn bell_rang(&self, flags: u32) {
        // Each ring is told of, whether its counter is empty or not: nobody reads that, which would be a call each time. It
        // has room for as many rings as there ever will be.
        if !cqueue::more(flags) {
            self.listen_to_doorbell();
        }
    }

    fn is_idle(&self) -> bool {
        self.operations.under_way() == 0 && self.receiving.borrow().is_empty()
    }

    /// Ends all that the kernel still does, so that it touches no memory that is given back. What a
    /// drive has begun cannot be ended, only waited for.
    fn end_everything(&self) -> bool {
        let clock = Clock::new();
        let (mut now, mut asked) = (clock.now(), None);
        let end = now + DRIVE_HANGS;
        while !self.is_idle() {
            if now >= end {
                return false;
            }
            if asked.is_none_or(|asked| now >= asked + ASK_AGAIN) {
                let all = opcode::AsyncCancel2::new(CancelBuilder::any());
                self.push(all.build().user_data(tag::IGNORED));
                asked = Some(now);
            }
            // It ends with anything that is done, and what was asked for is done at once.
            if self.turn(Some(ASK_AGAIN)).is_err() {
                return false;
            }
            now = clock.now();
        }
        true
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.end_everything() {
            tracing::warn!("the kernel has not ended all I/O; its buffers are left to it");
            // Other shards live on, and nothing here would ever give them room on the drive again.
            self.operations.give_up_passages();
            std::mem::forget(self.operations.clone());
            let nothing = Slab::new();
            std::mem::forget(self.receiving.replace(nothing));
        }
    }
}
