//! The coordinator among replicas on other nodes.

mod batch;
mod content;
mod hints;
mod movement;
mod partition;
mod places;
mod range;
mod repair;
mod serial;
mod speculation;
mod story;
mod world;
mod write;
