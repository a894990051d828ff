//! How a real shard reaches the kernel: the drivers, and the choice between them.

pub(crate) mod aio;
pub(crate) mod epoll;
pub(crate) mod file;
pub(crate) mod operation;
pub(crate) mod pool;
pub(crate) mod removal;
pub(crate) mod uring;

use std::sync::Arc;
use std::time::Duration;

use crate::doorbell::Doorbell;

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where the kernel has and allows it, else epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// epoll, with Linux AIO for files past the page cache and a pool of threads for the others.
    Epoll,
}

/// Which driver is in use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverReport {
    /// `io_uring`, `epoll + linux-aio`, or `epoll` where there is no AIO either.
    pub name: &'static str,
    /// Why a better one is not used, if it was wanted.
    pub reason: Option<String>,
}

/// The driver of one shard.
pub(crate) enum Driver {
    Uring(uring::UringDriver),
    Epoll(epoll::EpollDriver),
}

impl Driver {
    /// Starts a driver on the current thread.
    pub(crate) fn start(
        choice: DriverChoice,
        doorbell: &Arc<Doorbell>,
    ) -> std::io::Result<(Driver, DriverReport)> {
        let reason = match choice {
            DriverChoice::Epoll => None,
            DriverChoice::Auto | DriverChoice::IoUring => {
                match uring::UringDriver::start(doorbell.clone()) {
                    Ok(driver) => {
                        let report = DriverReport {
                            name: uring::NAME,
                            reason: None,
                        };
                        return Ok((Driver::Uring(driver), report));
                    }
                    Err(error) => Some(why_no_uring(error)),
                }
            }
        };
        if let (DriverChoice::IoUring, Some(reason)) = (choice, &reason) {
            let text = format!("{reason}; --driver epoll does without it");
            return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, text));
        }
        let driver = epoll::EpollDriver::start(doorbell.clone())?;
        let (name, reason) = match driver.aio() {
            Ok(_) => (epoll::NAME, reason),
            Err(error) => {
                let error = format!("no Linux AIO: {error}");
                let both = reason.map_or(error.clone(), |reason| format!("{reason}; {error}"));
                (epoll::NAME_WITHOUT_AIO, Some(both))
            }
        };
        Ok((Driver::Epoll(driver), DriverReport { name, reason }))
    }

    /// Submits what gathered and wakes the tasks whose operations are done. Waits up to `timeout`
    /// for the first (for ever if `None`).
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        match self {
            Driver::Uring(driver) => driver.turn(timeout),
            Driver::Epoll(driver) => driver.turn(timeout),
        }
    }
}

fn why_no_uring(error: std::io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has none",
        Some(libc::EPERM | libc::EACCES) => {
            "the container's seccomp profile or kernel.io_uring_disabled forbids it"
        }
        Some(libc::EINVAL | libc::EOPNOTSUPP) => "it takes Linux 6.1",
        Some(libc::ENOMEM) => "the limit of locked memory (ulimit -l) is too low",
        _ => "it did not start",
    };
    format!("no io_uring: {remedy} ({error})")
}
