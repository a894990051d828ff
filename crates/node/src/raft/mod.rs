//! Raft on our own shards: what lets `openraft` run on [`io::Env`].
//!
//! `openraft` asks for its runtime by the trait `AsyncRuntime`, whose functions are static: "sleep",
//! not "sleep on this shard". [`ShardRuntime`] implements it, and so the same Raft runs on a real
//! shard and on a simulated one, where its clock, its random numbers and the order of its tasks
//! follow from the seed. Which shard is meant is known while one of its futures is polled
//! ([`current`]): openraft's own tasks are wrapped by the runtime that spawns them, and who calls
//! openraft from outside wraps the call in [`within`].
//!
//! | file | what |
//! |---|---|
//! | [`current`] | the shard whose future is being polled |
//! | [`runtime`] | the trait itself |
//! | [`join`] | handles of spawned tasks |
//! | [`timeout`], [`instant`], [`random`] | time and chance of the shard |
//! | [`mpsc`], [`watch`], [`oneshot`], [`mutex`] | what tasks wait with for each other |
//!
//! What the group decides on is the cluster's metadata ([`Metadata`]), and a member has on its drive
//! what [`open`](open::open) gives:
//!
//! | file | what |
//! |---|---|
//! | [`types`] | what the group consists of |
//! | [`log`] | the log, in a [`journal`] of [`records`] |
//! | [`machine`] | what the entries come to, and who is told |
//! | [`snapshot`] | all of that as bytes |
//! | [`encoding`] | how votes, entries and memberships are written |
//! | [`call`], [`network`] | what members ask each other, and how they reach each other |

pub mod call;
pub mod current;
pub mod encoding;
pub mod instant;
pub mod join;
pub mod journal;
pub mod log;
pub mod machine;
pub mod mpsc;
pub mod mutex;
pub mod network;
pub mod oneshot;
pub mod open;
pub mod random;
pub mod records;
pub mod runtime;
pub mod snapshot;
pub mod timeout;
pub mod types;
pub mod watch;

#[cfg(test)]
mod tests;

pub use call::{Call, CallError};
pub use current::{Within, within};
pub(crate) use journal::replace_file;
pub use log::Log;
pub use machine::{Applied, Machine, Subscriber};
pub use network::Dialer;
pub use open::{OpenError, open};
pub use runtime::ShardRuntime;
pub use snapshot::{Contents, receive};
pub use types::{Answer, Member, Metadata, config, node_id, raft_id};
