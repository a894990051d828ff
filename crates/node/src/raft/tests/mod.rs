//! The adapter held to openraft's own suite, and clusters that run on it.

mod cluster;
mod connections;
mod journal;
mod life;
mod log;
mod metadata;
mod network;
mod scope;
mod store;
mod suite;
