//! How a real shard reaches the kernel: the drivers, and the choice between them.

pub(crate) mod epoll;
pub(crate) mod file;
pub(crate) mod pool;

use std::sync::Arc;
use std::time::Duration;

use crate::doorbell::Doorbell;

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring if the kernel allows it, else epoll with Linux AIO.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// epoll with Linux AIO.
    Epoll,
}

/// Which driver is in use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverReport {
    /// `io_uring` or `epoll + linux-aio`.
    pub name: &'static str,
    /// Why a better one is not used, if the choice was free.
    pub reason: Option<String>,
}

/// The driver of one shard.
pub(crate) enum Driver {
    Epoll(epoll::EpollDriver),
}

impl Driver {
    /// Starts a driver on the current thread.
    pub(crate) fn start(
        choice: DriverChoice,
        doorbell: Arc<Doorbell>,
    ) -> std::io::Result<(Driver, DriverReport)> {
        let report = DriverReport {
            name: epoll::NAME,
            reason: match choice {
                DriverChoice::Auto => Some("io_uring is not built in yet".to_owned()),
                _ => None,
            },
        };
        Ok((Driver::Epoll(epoll::EpollDriver::start(doorbell)?), report))
    }

    /// Submits what gathered and wakes the tasks whose operations are done. Waits up to `timeout`
    /// for the first (for ever if `None`).
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        match self {
            Driver::Epoll(driver) => driver.turn(timeout),
        }
    }
}
