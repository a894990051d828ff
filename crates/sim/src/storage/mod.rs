//! The storage engine under simulation: random writes and reads, judged by an oracle, through
//! crashes and with drives that fail.

mod client;
mod operation;
mod oracle;
mod run;
mod tables;
mod world;

pub use run::{Report, run};
