//! What gives a process its memory, piece by piece.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// Whatever the allocator gives begins at a multiple of this, in bytes, if it is as large (`MI_MAX_ALIGN_SIZE`).
const ALIGNED: usize = 16;

/// mimalloc, faster than the system's allocator, above all where one thread frees what another allocated. Its memory is that of
/// [`Arenas`](crate::Arenas), if there are any.
///
/// The crate `mimalloc` says with each piece what it is to be aligned to. Unless a free one of its size lies at hand, mimalloc
/// then takes one that is larger by as much (`mi_theap_malloc_zero_aligned_at_overalloc`): for several times the instructions,
/// and where a piece would fill one of its sizes, as 48 or 160 bytes do, with an eighth to a third more memory. But all that
/// it gives is aligned as nearly everything wants to be anyway, so it is asked for that as a C program asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Is a piece of so many bytes aligned to this wherever it lies?
const fn is_aligned_anyway(bytes: usize, alignment: usize) -> bool {
    alignment <= ALIGNED && alignment <= bytes
}

// SAFETY: mimalloc gives each piece to one alone until it is given back, of any thread, with the size and the alignment that it
// is asked for; pieces that were asked for in one way may be given back or made larger in the other. It unwinds from nowhere.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (bytes, alignment) = (layout.size(), layout.align());
        // SAFETY: any size may be asked for, and an alignment is a power of two.
        let piece = unsafe {
            match is_aligned_anyway(bytes, alignment) {
                true => mi_malloc(bytes),
                false => mi_malloc_aligned(bytes, alignment),
            }
        };
        debug_assert_eq!(piece.addr() % alignment, 0);
        piece.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (bytes, alignment) = (layout.size(), layout.align());
        // SAFETY: as above.
        let piece = unsafe {
            match is_aligned_anyway(bytes, alignment) {
                true => mi_zalloc(bytes),
                false => mi_zalloc_aligned(bytes, alignment),
            }
        };
        debug_assert_eq!(piece.addr() % alignment, 0);
        piece.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, _layout: Layout) {
        // SAFETY: who calls has it from here, and has it no more.
        unsafe { mi_free(piece.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let alignment = layout.align();
        // SAFETY: who calls has it from here, and asks for a size that is none of zero.
        let piece = unsafe {
            match is_aligned_anyway(bytes, alignment) {
                true => mi_realloc(piece.cast(), bytes),
                false => mi_realloc_aligned(piece.cast(), bytes, alignment),
            }
        };
        debug_assert_eq!(piece.addr() % alignment, 0);
        piece.cast()
    }
}
