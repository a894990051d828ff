//! How another thread wakes a shard that sleeps in the kernel.
//!
//! A shard that is awake looks at its queues by itself. Before it sleeps it sets `asleep` and looks
//! once more; whoever puts something into one of its queues looks at `asleep` afterwards. Between
//! the two steps of either side stands a sequentially consistent fence, so at least one of them
//! sees what the other did, and the bell costs a system call only when somebody sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// The bell of one shard.
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    eventfd: OwnedFd,
}

impl Doorbell {
    pub(crate) fn real() -> std::io::Result<Doorbell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell {
            asleep: AtomicBool::new(false),
            eventfd: fd,
        })
    }

    /// The descriptor that becomes readable when the bell rings.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }

    /// To be called after something was put into a queue of the shard.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if !self.asleep.load(Ordering::Relaxed) || !self.asleep.swap(false, Ordering::Relaxed) {
            return;
        }
        // It fails only when the counter is full, and then the bell has rung already.
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    /// The shard is about to sleep; it must look at its queues once more after this.
    pub(crate) fn falls_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The shard looks at its queues again.
    pub(crate) fn wakes(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
