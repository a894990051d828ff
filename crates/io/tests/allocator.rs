//! The allocator, as that of a process: these tests have it for everything.

#![allow(unsafe_code)] // To ask for memory as collections do.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

unsafe extern "C" {
    /// Bytes of a piece that may be used (`mimalloc.h`).
    fn mi_usable_size(piece: *const c_void) -> usize;
}

/// Fills a piece with what its size says.
fn fill(piece: *mut u8, bytes: usize) {
    // SAFETY: it is so large, and nobody else's.
    unsafe { piece.write_bytes(bytes as u8, bytes) };
}

/// Has it been filled for this size, as far as `looked_at`?
fn is_filled(piece: *const u8, bytes: usize, looked_at: usize) -> bool {
    // SAFETY: it is no smaller, and was filled.
    let content = unsafe { std::slice::from_raw_parts(piece, looked_at) };
    content.iter().all(|byte| *byte == bytes as u8)
}

#[test]
fn memory_is_aligned_and_nobody_elses() {
    let sizes = (1..=1100).chain([2047, 2048, 4096, 5000, 16 << 10, 100_000, 1 << 20]);
    for bytes in sizes {
        for alignment in [1, 2, 4, 8, 16, 32, 64, 4096] {
            let layout = Layout::from_size_align(bytes, alignment).unwrap();
            // Several, so that some come from where others were given back.
            let pieces: Vec<*mut u8> = (0..4)
                // SAFETY: the size is not zero.
                .map(|_| unsafe { ALLOCATOR.alloc(layout) })
                .collect();
            for piece in &pieces {
                assert!(!piece.is_null() && piece.addr() % alignment == 0);
                fill(*piece, bytes);
            }
            for piece in pieces {
                assert!(is_filled(piece, bytes, bytes));
                // SAFETY: it is from above, and nobody's.
                unsafe { ALLOCATOR.dealloc(piece, layout) };
            }
        }
    }
}

#[test]
fn memory_that_grows_and_shrinks_keeps_what_it_has() {
    for alignment in [1, 8, 16, 64] {
        let (mut bytes, mut layout) = (24, Layout::from_size_align(24, alignment).unwrap());
        // SAFETY: the size is not zero.
        let mut piece = unsafe { ALLOCATOR.alloc_zeroed(layout) };
        assert!(is_filled(piece, 0, bytes), "it is all zeros");
        for next in [40, 41, 160, 3000, 100_000, 2000, 7, 1] {
            fill(piece, bytes);
            // SAFETY: it has this layout, and the next size is not zero.
            piece = unsafe { ALLOCATOR.realloc(piece, layout, next) };
            assert!(!piece.is_null() && piece.addr() % alignment == 0);
            assert!(is_filled(piece, bytes, bytes.min(next)));
            bytes = next;
            layout = Layout::from_size_align(bytes, alignment).unwrap();
        }
        // SAFETY: it is from above, and nobody's.
        unsafe { ALLOCATOR.dealloc(piece, layout) };
    }
}

#[test]
fn what_is_aligned_anyway_takes_what_it_asks_for() {
    // Those that are full sizes of the allocator, as it has them.
    for bytes in [16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320] {
        for alignment in [1, 8, 16] {
            let layout = Layout::from_size_align(bytes, alignment).unwrap();
            // More than are free by chance.
            // SAFETY: the size is not zero.
            let pieces = (0..5_000).map(|_| unsafe { ALLOCATOR.alloc(layout) });
            for piece in pieces.collect::<Vec<_>>() {
                // SAFETY: it is from above, is looked at before it is given back, and is nobody's then.
                let usable = unsafe {
                    let usable = mi_usable_size(piece.cast());
                    ALLOCATOR.dealloc(piece, layout);
                    usable
                };
                assert_eq!(usable, bytes, "aligned to {alignment}");
            }
        }
    }
}
