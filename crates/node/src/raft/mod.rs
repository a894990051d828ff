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
//! | [`call`], [`network`] | what members ask each other, and how they reach each other |
//! | [`mpsc`], [`watch`], [`oneshot`], [`mutex`] | what tasks wait with for each other |

pub mod call;
pub mod current;
pub mod instant;
pub mod join;
pub mod mpsc;
pub mod mutex;
pub mod network;
pub mod oneshot;
pub mod random;
pub mod runtime;
pub mod timeout;
pub mod watch;

#[cfg(test)]
mod tests;

pub use current::{Within, within};
pub use runtime::ShardRuntime;
