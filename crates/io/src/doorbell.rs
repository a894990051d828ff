//! How another thread wakes a shard that sleeps in the kernel.
//!
//! A shard that is awake looks at its queues by itself. Before it sleeps it sets `asleep` and looks
//! once more; whoever puts something into one of its queues looks at `asleep` afterwards. Between
//! the two steps of either side stands a sequentially consistent fence, so at least one of them
//! sees what the other did, and the bell costs a system call only when somebody sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// The bell of one shard.
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    bell: Bell,
}

enum Bell {
    Eventfd(OwnedFd),
    Simulated { shard: usize, rung: RungShards },
}

/// The simulated shards whose bell rang since the world last looked, in the order of ringing.
#[derive(Clone, Default)]
pub(crate) struct RungShards(Arc<Mutex<Vec<usize>>>);

impl RungShards {
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Doorbell {
    pub(crate) fn real() -> std::io::Result<Doorbell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell {
            asleep: AtomicBool::new(false),
            bell: Bell::Eventfd(fd),
        })
    }

    pub(crate) fn simulated(shard: usize, rung: RungShards) -> Doorbell {
        Doorbell {
            asleep: AtomicBool::new(true),
            bell: Bell::Simulated { shard, rung },
        }
    }

    /// The descriptor that becomes readable when the bell rings. A simulated bell has none.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.bell {
            Bell::Eventfd(fd) => Some(fd.as_fd()),
            Bell::Simulated { .. } => None,
        }
    }

    /// To be called after something was put into a queue of the shard.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if !self.asleep.load(Ordering::Relaxed) || !self.asleep.swap(false, Ordering::Relaxed) {
            return;
        }
        match &self.bell {
            Bell::Eventfd(fd) => {
                // It fails only when the counter is full, and then the bell has rung already.
                let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
            }
            Bell::Simulated { shard, rung } => {
                rung.0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(*shard);
            }
        }
    }

    /// To be called when the shard's own thread made one of its tasks ready: a simulated shard does
    /// not look by itself.
    pub(crate) fn ring_if_simulated(&self) {
        if matches!(self.bell, Bell::Simulated { .. }) {
            self.ring();
        }
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
