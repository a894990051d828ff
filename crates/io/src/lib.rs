//! Env: clock, tasks, disk, network and shard-to-shard channels, real and simulated, behind one handle.

#![allow(unsafe_code)] // The one crate that may; every block says why it is sound.

mod allocator;
mod arenas;
mod buffer;
mod clock;
mod code;
mod doorbell;
mod drive;
mod driver;
mod env;
mod executor;
mod file;
mod folder;
mod group;
mod inlet;
mod instant;
mod mesh;
mod net;
mod owner;
mod prefetch;
mod random;
mod resident;
mod runtime;
mod scheduling;
pub mod sim;
mod sync;
mod task;
mod timer;

pub use allocator::Allocator;
pub use arenas::Arenas;
pub use buffer::{AlignedBuf, DIRECT_ALIGNMENT};
pub use code::lock_code;
pub use driver::{DriverChoice, DriverReport};
pub use env::{Elapsed, Env, ShardIndex, Sleep, TIME_SLICE, Timeout};
pub use file::{File, OpenOptions};
pub use folder::{DirEntry, FileLock};
pub use group::{GroupStats, TaskGroup};
pub use inlet::{Inlet, Outlet, inlet};
pub use instant::Instant;
pub use mesh::{Full, Mesh, MeshSeat, mesh};
pub use net::{DetachedStream, Listener, TcpStream};
pub use prefetch::prefetch;
pub use random::Random;
pub use runtime::{Runtime, RuntimeConfig, ShardError, StartError};
pub use sync::oneshot::oneshot;
pub use sync::{
    Acquire, Closed, Notified, Notify, Permit, Receiver, Semaphore, Sender, TrySendError,
    WeakSender, channel, oneshot,
};
pub use task::{Cancelled, Task};
