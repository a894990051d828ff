//! The coordinator among replicas on other nodes.

mod partition;
mod world;
mod write;
