//! The client's side of the protocol: for tests, simulations and tools.
