//! Limits of the process: open files (sockets, sstables and segments of the commit log all count), and
//! memory that may be locked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Fewer do not carry a node with a few hundred connections and sstables.
const NEEDED: u64 = 4096;

/// Why there are too few file descriptors.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too few file descriptors: this process may open {allowed}, and needs {NEEDED}; raise the hard \
     limit (`ulimit -Hn`, LimitNOFILE= of systemd, --ulimit nofile= of docker)"
)]
pub(crate) struct TooFewDescriptors {
    allowed: u64,
}

/// Raises the limit of open files as far as it goes without privileges; how far that is.
pub(crate) fn raise_open_files() -> Result<u64, TooFewDescriptors> {
    check(raise(Resource::Nofile))
}

/// Raises a limit to what it may be at most; what it is then.
fn raise(resource: Resource) -> u64 {
    let limit = getrlimit(resource);
    let wanted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(resource, wanted) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    // `None` is infinity.
    allowed.unwrap_or(u64::MAX)
}

/// Has the code that this process runs stay in memory, as far as the system lets it.
pub(crate) fn lock_code() {
    let allowed = raise(Resource::Memlock);
    match io::lock_code() {
        Ok(bytes) => tracing::debug!("{} MiB of code stay in memory", bytes >> 20),
        Err(error) => tracing::warn!(
            "code may be thrown out of memory where that is short, and the node then waits for the \
             drive ({error}): this process may lock {} KiB; raise it (`ulimit -Hl`, LimitMEMLOCK= of \
             systemd, --ulimit memlock= of docker)",
            allowed >> 10
        ),
    }
}

fn check(allowed: u64) -> Result<u64, TooFewDescriptors> {
    if allowed < NEEDED {
        return Err(TooFewDescriptors { allowed });
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_are_refused() {
        assert_eq!(check(NEEDED), Ok(NEEDED));
        let error = check(1024).expect_err("too few");
        assert!(error.to_string().contains("may open 1024"));
    }
}
