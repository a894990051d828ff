//! Memory that direct I/O accepts.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What offsets, lengths and addresses of direct I/O are multiples of, in bytes. Drives want 512 or
/// 4096.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// A buffer for direct I/O: address and length are multiples of [`DIRECT_ALIGNMENT`].
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its memory, like a boxed slice.
unsafe impl Send for AlignedBuf {}

impl AlignedBuf {
    /// A buffer of zeros of at least `len` bytes, rounded up to the alignment (one unit at least).
    pub fn new(len: usize) -> AlignedBuf {
        let len = len.max(1).next_multiple_of(DIRECT_ALIGNMENT);
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => AlignedBuf { start, len },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, DIRECT_ALIGNMENT)
            .expect("a length that fits in memory and an alignment that is a power of two")
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is the start of `len` bytes that were initialised when allocated.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}
