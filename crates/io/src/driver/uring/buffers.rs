//! Memory that the kernel puts what sockets receive into (provided buffers, io_uring(7)).
//!
//! It takes a buffer only once bytes have come, so a connection that waits holds none. What came
//! is copied out at once, and the buffer goes back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use crate::buffer::AlignedBuf;

/// The group of buffers of which all sockets of a ring receive.
pub(super) const GROUP: u16 = 0;
/// How many there are; a power of two.
const COUNT: u16 = 256;
/// Bytes of each.
const SIZE: usize = 8 << 10;

/// The buffers, and the ring through which the kernel is given them.
pub(super) struct Buffers {
    ring: AlignedBuf,
    memory: AlignedBuf,
    tail: Cell<u16>,
}

impl Buffers {
    /// Registers the buffers. They must be dropped after the ring is.
    pub(super) fn register(submitter: &Submitter<'_>) -> std::io::Result<Buffers> {
        let buffers = Buffers {
            ring: AlignedBuf::new(usize::from(COUNT) * size_of::<BufRingEntry>()),
            memory: AlignedBuf::new(usize::from(COUNT) * SIZE),
            tail: Cell::new(0),
        };
        let address = buffers.ring.as_ptr() as u64;
        // SAFETY: the address is of that many entries, aligned to a page, and outlives the ring.
        unsafe { submitter.register_buf_ring_with_flags(address, COUNT, GROUP, 0)? };
        for index in 0..COUNT {
            buffers.give(index);
        }
        Ok(buffers)
    }

    fn at(&self, index: u16) -> *const u8 {
        assert!(index < COUNT, "the kernel names a buffer that it was given");
        self.memory[usize::from(index) * SIZE..].as_ptr()
    }

    /// Gives a buffer (back) to the kernel.
    fn give(&self, index: u16) {
        let tail = self.tail.get();
        let entries = self.ring.as_ptr().cast::<BufRingEntry>().cast_mut();
        // SAFETY: the slot is one of the ring's, and the kernel does not look at it before the tail
        // says so: there are no more buffers than slots. Only this thread writes.
        let entry = unsafe { &mut *entries.add(usize::from(tail % COUNT)) };
        entry.set_addr(self.at(index) as u64);
        entry.set_len(SIZE as u32);
        entry.set_bid(index);
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the tail is an aligned word within the first entry, which lives as long as
        // `self`; kernel and process both access it atomically.
        unsafe {
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail.get(), Ordering::Release);
        }
    }

    /// Appends what the kernel has put into a buffer to `into`, and gives the buffer back.
    pub(super) fn take(&self, index: u16, bytes: usize, into: &mut Vec<u8>) {
        assert!(bytes <= SIZE, "no more than the buffer holds");
        // SAFETY: the kernel has filled in so many bytes and leaves the buffer alone until it is
        // given back.
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(self.at(index), bytes) });
        self.give(index);
    }
}
