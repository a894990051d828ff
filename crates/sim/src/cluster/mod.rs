//! Clusters: nodes with the real session, coordinator, storage and metadata code, on a simulated
//! network and simulated drives, and clients that speak the native protocol to them.

pub mod agreements;
mod client;
mod clients;
pub mod forming;
pub mod registers;
mod session;
mod trouble;
mod world;

pub use client::{Answer, Client, Failure};
pub use session::Session;
pub use trouble::Trouble;
pub use world::World;
