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
    /// The best there is. Today that is epoll.
    #[default]
    Auto,
    /// io_uring, or an error: it is not built yet.
    IoUring,
    /// epoll, with a pool of threads for files.
    Epoll,
}

/// Which driver is in use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverReport {
    /// `epoll`.
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
        let reason = match choice {
            DriverChoice::Auto => Some("io_uring is not built yet".to_owned()),
            DriverChoice::Epoll => None,
            DriverChoice::IoUring => {
                let text = "io_uring is not built yet: use epoll";
                return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, text));
            }
        };
        let report = DriverReport {
            name: epoll::NAME,
            reason,
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
