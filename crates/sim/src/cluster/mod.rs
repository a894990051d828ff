//! Clusters: nodes with the real session, coordinator, storage and metadata code, on a simulated
//! network and simulated drives, and clients that speak the native protocol to them.

pub mod agreements;
mod client;
mod clients;
mod elements;
pub mod forming;
pub mod registers;
pub mod repairs;
mod session;
pub mod traffic;
mod trouble;
pub mod views;
mod world;

pub use client::{Answer, Client, Failure};
pub use session::Session;
pub use trouble::Trouble;
pub use world::World;
