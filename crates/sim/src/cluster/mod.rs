//! Clusters: nodes with the real session, coordinator, storage and metadata code, on a simulated
//! network and simulated drives, and clients that speak the native protocol to them.

mod client;
pub mod forming;
pub mod registers;
mod world;

pub use client::{Answer, Client, Failure};
pub use world::World;
