//! What memory takes beside what is asked for.

/// Reference counts beside what they count.
pub(crate) const COUNTS: usize = 2 * size_of::<usize>();

/// Bytes that an allocator takes for a piece of so many: it has four sizes for each power of two,
/// as mimalloc (`mi_bin`) and jemalloc do.
pub(crate) const fn allocated(bytes: usize) -> usize {
    const WORD: usize = size_of::<usize>();
    let words = bytes.div_ceil(WORD);
    let taken = match words {
        0 | 1 => words,
        2..=8 => words.next_multiple_of(2),
        _ => {
            let step = 1 << ((words - 1).ilog2() - 2);
            words.next_multiple_of(step)
        }
    };
    taken * WORD
}

#[cfg(test)]
mod tests {
    use super::allocated;

    #[test]
    fn sizes_of_an_allocator() {
        let sizes = [
            (0, 0),
            (1, 8),
            (9, 16),
            (17, 32),
            (64, 64),
            (65, 80),
            (80, 80),
            (129, 160),
            (160, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (1024, 1024),
            (1025, 1280),
        ];
        for (bytes, taken) in sizes {
            assert_eq!(allocated(bytes), taken, "{bytes}");
        }
    }
}
