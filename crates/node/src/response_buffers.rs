//! Buffers that responses are put together in.

use std::cell::RefCell;

/// Buffers that wait for their next response, and bytes that each of them may have: what is beyond
/// is given back to the allocator.
const KEEP: usize = 64;
const KEEP_BYTES: usize = 16 << 10;

/// The buffers of a shard: taken when a response begins, given back when it is on its way. So they
/// have grown to what responses need, once.
#[derive(Default)]
pub(crate) struct ResponseBuffers {
    free: RefCell<Vec<Vec<u8>>>,
}

impl ResponseBuffers {
    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_default()
    }

    /// A buffer that is not needed any more.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if buffer.capacity() <= KEEP_BYTES && free.len() < KEEP {
            buffer.clear();
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
}
