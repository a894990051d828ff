//! The coordinator among replicas on other nodes.

mod batch;
mod by_index;
mod content;
mod hint_verbs;
mod hints;
mod movement;
mod partition;
mod places;
mod range;
mod repair;
mod serial;
mod speculation;
mod stop;
mod story;
mod world;
mod write;
