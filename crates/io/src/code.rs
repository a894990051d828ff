//! The machine code of the process, which the kernel is not to throw out of memory.
//!
//! Code is pages of files. Where memory is short (another program takes it, or writes many files) the
//! kernel takes such pages away first, and each has to be read again before a shard can go on: beside
//! a program that took all that was there a node stood still for seconds at a time. What is in use is
//! locked, as Cassandra locks its memory (`NativeLibrary.tryMlockall`); there is nothing else of the
//! process that a machine without swap could take.

use std::ffi::c_void;

use rustix::mm::{MlockFlags, mlock_with};

/// Of a line of `/proc/self/maps` (proc(5)) the address and the bytes, where it is a part of a file
/// that nobody can write to.
fn code_at(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let is_private_and_constant = matches!(fields.next()?, "r--p" | "r-xp");
    let is_file = fields.nth(3)?.starts_with('/');
    let from = usize::from_str_radix(from, 16).ok()?;
    let to = usize::from_str_radix(to, 16).ok()?;
    let bytes = to.checked_sub(from)?;
    (is_private_and_constant && is_file).then_some((from, bytes))
}

/// Keeps what the process uses of its program and libraries in memory, from now on as it is used.
/// Returns the bytes that may come to be locked so.
///
/// # Errors
///
/// The kernel does not let this process lock so much (`RLIMIT_MEMLOCK`, getrlimit(2)), or cannot lock
/// what is in use only (before Linux 4.4). What was locked until then stays so.
pub fn lock_code() -> std::io::Result<usize> {
    // Made by the kernel as it is read: nothing that could wait.
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut locked = 0;
    for (address, bytes) in maps.lines().filter_map(code_at) {
        let address = std::ptr::with_exposed_provenance_mut::<c_void>(address);
        // SAFETY: nothing is read or written here, and what is locked is as valid as before. Code is
        // mapped until the process ends: no library is loaded or unloaded meanwhile.
        unsafe { mlock_with(address, bytes, MlockFlags::ONFAULT) }?;
        locked += bytes;
    }
    Ok(locked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_is_of_a_file_and_constant() {
        let code = "55d0c4a00000-55d0c4a28000 r-xp 00028000 fe:00 1835 /usr/bin/some program";
        assert_eq!(code_at(code), Some((0x55d0_c4a0_0000, 0x28000)));
        let constant = "7f00-8000 r--p 00000000 fe:00 1835 /usr/lib/libc.so.6";
        assert_eq!(code_at(constant), Some((0x7f00, 0x100)));
        for other in [
            "55d0c4a00000-55d0c4a28000 rw-p 00028000 fe:00 1835 /usr/bin/helenus",
            "55d0c4a00000-55d0c4a28000 r--s 00028000 fe:00 1835 /var/lib/some.db",
            "7ffd0000-7ffd1000 r-xp 00000000 00:00 0 [vdso]",
            "7ffd0000-7ffd1000 r--p 00000000 00:00 0",
            "7ffd1000-7ffd0000 r-xp 00000000 fe:00 1835 /usr/bin/helenus",
            "x-y r-xp 00000000 fe:00 1835 /usr/bin/helenus",
            "7ffd0000",
            "",
        ] {
            assert_eq!(code_at(other), None, "{other}");
        }
    }

    /// Bytes of this process that are locked, in kB, of proc(5).
    fn locked_kilobytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmLck:"));
        let value = line.unwrap().split_ascii_whitespace().nth(1);
        value.unwrap().parse().unwrap()
    }

    #[test]
    fn what_runs_is_locked_or_the_kernel_refuses() {
        match lock_code() {
            Ok(bytes) => {
                assert!(bytes > 100 << 10, "{bytes}");
                assert_eq!(locked_kilobytes(), bytes as u64 >> 10);
            }
            Err(error) => assert!(
                matches!(
                    error
                        .raw_os_error()
                        .map(rustix::io::Errno::from_raw_os_error),
                    Some(
                        rustix::io::Errno::NOMEM
                            | rustix::io::Errno::PERM
                            | rustix::io::Errno::AGAIN
                    )
                ),
                "{error}"
            ),
        }
    }
}
