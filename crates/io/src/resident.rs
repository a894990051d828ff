//! How much memory the process really has.

use crate::env::{Backend, Env};

/// Of `/proc/self/statm` (proc(5)), in pages: all of the process, what is resident of it, and what of
/// that are files.
fn own_pages(statm: &str) -> Option<u64> {
    let mut fields = statm.split_ascii_whitespace().skip(1);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (resident, files) = (next()?, next()?);
    Some(resident.saturating_sub(files))
}

impl Env {
    /// Bytes of memory that the process really has, without the files that it has mapped: what the
    /// kernel cannot take back, and counts before it kills for want of memory. `None` where the system
    /// does not say, and in a simulation.
    pub fn resident_bytes(&self) -> Option<u64> {
        match &self.inner.backend {
            // Made by the kernel as it is read: nothing that could wait.
            Backend::Real(_) => {
                let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
                Some(own_pages(&statm)?.saturating_mul(rustix::param::page_size() as u64))
            }
            Backend::Sim(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::own_pages;

    #[test]
    fn what_is_resident_and_no_file_is_its_own() {
        assert_eq!(own_pages("3000 500 120 90 0 400 0\n"), Some(380));
        assert_eq!(own_pages("3000 100 120 90 0 400 0\n"), Some(0));
        assert_eq!(own_pages("3000 500"), None);
        assert_eq!(own_pages("a b c"), None);
        assert_eq!(own_pages(""), None);
    }
}
