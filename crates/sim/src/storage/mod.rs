//! The storage engine under simulation: random writes and reads, judged by an oracle.

pub(crate) mod client;
pub(crate) mod operation;
pub(crate) mod oracle;
pub(crate) mod tables;
pub(crate) mod world;
