//! What the tasks of one shard wait with for each other. None of it is for other threads.

mod channel;
mod notify;
pub mod oneshot;
mod semaphore;
mod waiters;

pub use channel::{Closed, Receiver, Sender, TrySendError, WeakSender, channel};
pub use notify::{Notified, Notify};
pub use semaphore::{Acquire, Permit, Semaphore};
pub(crate) use waiters::Waiters;
