//! Buffers that responses are put together in.

use std::cell::{Cell, RefCell};

/// Buffers that wait for their next response, bytes that each of them may have, and all together: what is
/// beyond is given back to the allocator.
const KEEP: usize = 64;
const KEEP_BYTES: usize = 128 << 10;
const KEEP_IN_ALL: usize = 1 << 20;

/// The buffers of a shard: taken when a response begins, given back when it is on its way. So they
/// have grown to what responses need, once.
#[derive(Default)]
pub(crate) struct ResponseBuffers {
    free: RefCell<Vec<Vec<u8>>>,
    /// Bytes of those.
    bytes: Cell<usize>,
}

impl ResponseBuffers {
    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        let buffer = self.free.borrow_mut().pop().unwrap_or_default();
        self.bytes.set(self.bytes.get() - buffer.capacity());
        buffer
    }

    /// A buffer that is not needed any more.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        let bytes = self.bytes.get() + buffer.capacity();
        if buffer.capacity() <= KEEP_BYTES && bytes <= KEEP_IN_ALL && free.len() < KEEP {
            buffer.clear();
            self.bytes.set(bytes);
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_never_too_large() {
        let buffers = ResponseBuffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(&[1; 1000]);
        buffers.give_back(buffer);
        let again = buffers.take();
        assert!(again.is_empty() && again.capacity() >= 1000);
        buffers.give_back(Vec::with_capacity(KEEP_BYTES + 1));
        assert_eq!(buffers.take().capacity(), 0);
    }

    #[test]
    fn buffers_that_wait_have_a_bound_in_all() {
        let buffers = ResponseBuffers::default();
        for _ in 0..2 * KEEP_IN_ALL / KEEP_BYTES {
            buffers.give_back(Vec::with_capacity(KEEP_BYTES));
        }
        let kept: usize = (0..KEEP).map(|_| buffers.take().capacity()).sum();
        assert_eq!(kept, KEEP_IN_ALL);
    }
}
