//! Asking for memory before it is read.

/// Bytes that processors move between memory and their caches at once.
const LINE: usize = 64;
/// Of larger values, processors bring the rest by their own guess once somebody goes along them.
const MOST_LINES: usize = 24;

/// Tells the processor that a value is read soon: it goes on, and the value's memory comes nearer meanwhile. Who looks
/// up several things that lie anywhere asks for all of them before the first, and waits once.
///
/// Changes nothing but the time that things take.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let skipped = start.addr() % LINE;
    let lines = (skipped + size_of_val(value)).div_ceil(LINE);
    for line in 0..lines.min(MOST_LINES) {
        prefetch_line(start.wrapping_sub(skipped).wrapping_add(line * LINE));
    }
}

#[inline]
fn prefetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction (SSE); it reads nothing that a program sees and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction reads nothing that a program sees, changes no register and never faults.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_may_be_asked_for() {
        prefetch(&1u8);
        prefetch::<[u8]>(&[]);
        prefetch(&[7u8; 3 * LINE + 1][1..]);
        prefetch(vec![1u64; 10_000].as_slice());
        prefetch(&());
    }
}
