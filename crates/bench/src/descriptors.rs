//! How many files, and so connections, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files open beside connections: standard streams, executors, result files.
const OTHERS: u64 = 64;

/// Sees to it that so many connections can be open, and raises the soft limit if it is lower.
///
/// # Errors
///
/// The hard limit is lower; says what to do.
pub(crate) fn reserve(connections: usize) -> Result<(), String> {
    let needed = (connections as u64).saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    // No limit is as good as any that is high enough.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|maximum| *maximum < needed) {
        return Err(format!(
            "{connections} connections need {needed} open files, and this process may have \
             {maximum}: raise its hard limit (`ulimit -Hn {needed}` as root, LimitNOFILE= of a \
             systemd unit, --ulimit nofile={needed} of a container), or ask for fewer connections"
        ));
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        format!(
            "cannot raise the limit of open files to {needed}: {error}: use `ulimit -n {needed}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_refused_with_what_to_do() {
        assert_eq!(reserve(1), Ok(()));
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let error = reserve(usize::MAX).unwrap_err();
            assert!(error.contains("ulimit -Hn"), "{error}");
        }
    }
}
