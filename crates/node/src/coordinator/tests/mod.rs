//! The coordinator among replicas on other nodes.

mod content;
mod partition;
mod range;
mod repair;
mod speculation;
mod story;
mod world;
mod write;
