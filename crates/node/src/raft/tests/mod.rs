//! The adapter held to openraft's own suite, and clusters that run on it.

mod cluster;
mod life;
mod network;
mod scope;
mod store;
mod suite;
