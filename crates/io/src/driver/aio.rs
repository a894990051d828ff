//! Linux AIO: reading and writing past the page cache without a thread (io_submit(2)).
//!
//! Only for files that were opened with `O_DIRECT`; with others the kernel would do the work while
//! it submits, and the shard would wait. What gathers during a turn is submitted at its end, and an
//! eventfd among the sockets tells of completions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::event::{EventfdFlags, eventfd};

use super::operation::{Completion, Direction, Handle, Operations, Transfer};

/// How many operations of a shard the kernel has at once; others wait for their turn.
const DEPTH: usize = 128;

/// `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE` of linux/aio_abi.h.
const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
/// `IOCB_FLAG_RESFD`: ring an eventfd.
const FLAG_EVENTFD: u32 = 1;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    /// Two words whose order depends on that of bytes.
    key_and_flags: [u32; 2],
    command: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    second: i64,
}

/// The kernel's own word, which is zero, and the flags of reading and writing.
fn key_and_flags(flags: i32) -> [u32; 2] {
    match cfg!(target_endian = "little") {
        true => [0, flags as u32],
        false => [flags as u32, 0],
    }
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && size_of::<Event>() == 32);

/// The context of one shard.
pub(crate) struct Aio {
    context: libc::c_ulong,
    eventfd: OwnedFd,
    operations: Rc<Operations>,
    waiting: RefCell<VecDeque<ControlBlock>>,
    submitted: Cell<usize>,
}

impl Aio {
    /// # Errors
    /// The kernel has no AIO, does not allow it, or all of `fs.aio-max-nr` is taken.
    pub(crate) fn start() -> std::io::Result<Aio> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number to the pointer, which outlives the call.
        let result =
            unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, std::ptr::from_mut(&mut context)) };
        if result < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Aio {
            context,
            eventfd,
            operations: Rc::default(),
            waiting: RefCell::default(),
            submitted: Cell::new(0),
        })
    }

    /// Becomes readable when operations are done.
    pub(crate) fn eventfd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }

    /// Moves bytes between a buffer and a file.
    pub(crate) fn transfer(&self, transfer: Transfer) -> Completion {
        let command = match transfer.direction {
            Direction::Read => COMMAND_READ,
            Direction::Write { .. } => COMMAND_WRITE,
        };
        let handle = Handle::File(transfer.file);
        let file = handle.number();
        let completion = self
            .operations
            .begin_passing(handle, transfer.buffer, transfer.passage);
        let block = ControlBlock {
            data: completion.key() as u64,
            key_and_flags: key_and_flags(transfer.direction.flags()),
            command,
            file: file as u32,
            buffer: completion.address() as u64 + transfer.from as u64,
            bytes: transfer.bytes as u64,
            offset: transfer.offset as i64,
            flags: FLAG_EVENTFD,
            eventfd: self.eventfd.as_raw_fd() as u32,
            ..ControlBlock::default()
        };
        self.waiting.borrow_mut().push_back(block);
        completion
    }

    /// Gives the kernel what has gathered, as far as it takes it.
    pub(crate) fn submit(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while !waiting.is_empty() && self.submitted.get() < DEPTH {
            let room = DEPTH - self.submitted.get();
            let blocks: Vec<*mut ControlBlock> = waiting
                .iter_mut()
                .take(room)
                .map(std::ptr::from_mut)
                .collect();
            // SAFETY: the pointers are to control blocks that outlive the call, which copies them;
            // what those point to is kept by `operations` until the kernel is done.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    blocks.len(),
                    blocks.as_ptr(),
                )
            };
            match usize::try_from(taken) {
                Ok(taken) => {
                    waiting.drain(..taken);
                    self.submitted.set(self.submitted.get() + taken);
                }
                Err(_) => {
                    let errno = std::io::Error::last_os_error().raw_os_error();
                    let errno = errno.unwrap_or(libc::EIO);
                    if errno == libc::EAGAIN && self.submitted.get() > 0 {
                        return; // Once some are done there is room.
                    }
                    // It does not like the first one.
                    if let Some(block) = waiting.pop_front() {
                        self.operations
                            .complete(block.data as usize, -i64::from(errno));
                    }
                }
            }
        }
    }

    /// Looks what is done. To be called when the eventfd is readable.
    pub(crate) fn reap(&self) {
        let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
        while self.submitted.get() > 0 {
            let mut events = [Event::default(); DEPTH];
            let no_time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: the kernel fills in no more events than there is room for, and only reads
            // the time.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    0usize,
                    events.len(),
                    events.as_mut_ptr(),
                    std::ptr::from_ref(&no_time),
                )
            };
            let count = usize::try_from(count).unwrap_or(0);
            for event in &events[..count] {
                self.submitted.set(self.submitted.get() - 1);
                self.operations.complete(event.data as usize, event.result);
            }
            if count < events.len() {
                return;
            }
        }
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // It returns when the kernel touches no buffer any more.
        // SAFETY: the context was made by io_setup and is destroyed once.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
