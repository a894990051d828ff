//! TLS between nodes: the stage without sockets, and connections in the simulator.

mod certificates;
mod connections;
mod credentials;
mod session;
