//! Memory that direct I/O accepts.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytes::Bytes;

/// What offsets, lengths and addresses of direct I/O are multiples of, in bytes. Drives want 512 or
/// 4096.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// A buffer for direct I/O: its address and what it has room for are multiples of
/// [`DIRECT_ALIGNMENT`]. Its content is the first part of that, which was written or read.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the buffer owns its memory, like a boxed slice.
unsafe impl Send for AlignedBuf {}

impl AlignedBuf {
    /// A buffer of zeros of at least `len` bytes, rounded up to the alignment (one unit at least).
    pub fn new(len: usize) -> AlignedBuf {
        // SAFETY: the layout's size is not zero.
        let buffer = rounded_up(len)
            .and_then(|len| AlignedBuf::allocate(len, |layout| unsafe { alloc_zeroed(layout) }));
        let mut buffer = buffer.expect("there is memory for a buffer");
        buffer.len = buffer.capacity;
        buffer
    }

    /// An empty buffer with room for at least `capacity` bytes, rounded up likewise: for reading
    /// into. `None` if there is no memory for it.
    pub fn with_capacity(capacity: usize) -> Option<AlignedBuf> {
        // SAFETY: the layout's size is not zero.
        AlignedBuf::allocate(rounded_up(capacity)?, |layout| unsafe { alloc(layout) })
    }

    fn allocate(capacity: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Option<AlignedBuf> {
        let layout = Layout::from_size_align(capacity, DIRECT_ALIGNMENT).ok()?;
        Some(AlignedBuf {
            start: NonNull::new(allocate(layout))?,
            len: 0,
            capacity,
        })
    }

    /// For how many bytes it has room.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Puts bytes behind the content.
    ///
    /// # Panics
    ///
    /// If there is no room for them.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let len = self.len + bytes.len();
        let spare = &mut self.spare()[..bytes.len()];
        spare.write_copy_of_slice(bytes);
        // SAFETY: they have just been written.
        unsafe { self.set_len(len) }
    }

    /// Where its memory begins.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// What is behind the content.
    pub(crate) fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the memory behind the first `len` bytes goes up to `capacity`, and nobody else
        // has a reference to it.
        unsafe {
            let start = self.start.as_ptr().add(self.len).cast();
            std::slice::from_raw_parts_mut(start, self.capacity - self.len)
        }
    }

    /// Makes the first `len` bytes the content.
    ///
    /// # Safety
    ///
    /// They have been written.
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity, "a buffer has no more than its room");
        self.len = len;
    }

    /// The content, without copying it.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Do these bytes begin where direct I/O wants them to?
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
}

/// The next multiple of the alignment, one unit at least.
fn rounded_up(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(DIRECT_ALIGNMENT)
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes from `start` on have been written.
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
        unsafe {
            let layout = Layout::from_size_align_unchecked(self.capacity, DIRECT_ALIGNMENT);
            dealloc(self.start.as_ptr(), layout);
        }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}
