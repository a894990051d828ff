//! A client that does no more than frames (`native_protocol_v4.spec`): for machines on which a driver would be what is
//! measured.
//!
//! A driver looks after more than requests: profiles, policies, retries, speculation, histories, metrics. That takes
//! several times the CPU that a fast server takes to answer, so that on few cores the client is full long before the
//! server is, and latencies are its own. Statements are prepared by the driver here, too, and values written by it;
//! what differs is how they come to the server and back. The bytes are those that the driver sends.

mod answer;
mod channel;
mod channels;

pub(crate) use channels::Channels;
