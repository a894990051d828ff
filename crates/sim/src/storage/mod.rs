//! The storage engine under simulation: random writes and reads, judged by an oracle, through
//! crashes, with drives that fail, and with bits that have changed.

mod client;
#[cfg(test)]
mod faults;
mod indexes;
mod operation;
mod oracle;
#[cfg(test)]
mod pressure;
mod rot;
mod run;
mod snapshots;
mod tables;
#[cfg(test)]
mod truncation;
mod world;
mod writes;

pub use run::{Report, run};
