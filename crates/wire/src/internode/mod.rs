//! The protocol between nodes.
//!
//! A connection goes from one shard of a node to one shard of another. It begins with a [`Hello`] and
//! its answer, by which both know who the other is and which version they speak. Then requests go
//! the one way and their replies the other, many at a time ([`Link`]): each a [`MessageHead`] and a
//! body, packed into the checksummed segments that the native protocol has too, compressed where
//! the connection leaves the data centre.
//!
//! Versions: a node speaks those of [`VERSIONS`], the newest both speak is used, and the one before
//! the newest stays, so that a cluster can be upgraded node by node. What a version brought, nodes are asked
//! only of whom the cluster's metadata says that they speak it.
//!
//! | version | brought |
//! |---|---|
//! | 1 | |
//! | 2 | writes that a replica passes on within its data centre |
//! | 3 | requests that are traced ([`TracedRequest`]) |

mod hello;
mod link;
mod message;
mod traced;

pub use hello::{Answer, Hello, HelloError, Identity, Refusal, Welcome};
pub use link::{Link, LinkError, MAX_BODY};
pub use message::{Message, MessageHead, MessageKind, MessageTooLong, Verb};
pub use traced::{NotTraced, TracedRequest};

use std::ops::RangeInclusive;

/// The versions of this protocol that are spoken here.
pub const VERSIONS: RangeInclusive<u16> = 1..=3;
