//! The coordinator among replicas on other nodes.

mod content;
mod hints;
mod movement;
mod partition;
mod places;
mod range;
mod repair;
mod speculation;
mod stop;
mod story;
mod world;
mod write;
