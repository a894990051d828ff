//! Memory that goes back to the kernel while others allocate.

#![allow(unsafe_code)] // To ask for memory as collections do.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};

use io::Random;

static ARENAS: io::Arenas = io::Arenas::new();
// Tests have the system's allocator, so that only they ask this one.
static ALLOCATOR: io::Allocator = io::Allocator;

/// `mi_option_purge_delay` of `mimalloc.h`: after how many milliseconds memory that nobody uses is given back.
const PURGE_DELAY: c_int = 15;
const UNLESS_TOLD: c_long = 1000;
/// `mi_option_page_commit_on_demand`: whether the allocator uses more of what it has than it says. An environment may ask for it
/// (`MIMALLOC_PAGE_COMMIT_ON_DEMAND`).
const PAGE_COMMIT_ON_DEMAND: c_int = 40;

unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Bytes that a process with these arenas may have, and how many each of the threads has at most: so much that of what is given
/// back little is kept.
const MEMORY: usize = 32 << 20;
const THREADS: usize = 4;
const OF_EACH: usize = 16 << 20;
const PIECES: usize = 6000;

/// A piece of memory, all of whose words say whose it is.
struct Piece {
    start: *mut u64,
    layout: Layout,
    mark: u64,
}

impl Piece {
    fn new(words: usize, mark: u64) -> Piece {
        let layout = Layout::array::<u64>(words).expect("a piece is small");
        // SAFETY: the size is not zero.
        let start = unsafe { ALLOCATOR.alloc(layout) }.cast::<u64>();
        assert!(!start.is_null());
        let mut piece = Piece {
            start,
            layout,
            mark,
        };
        piece.words().fill(mark);
        piece
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: so many words are from the allocator, and only this has them; they are filled before they are read.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size() / 8) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mark = self.mark;
        assert!(self.words().iter().all(|word| *word == mark));
        // SAFETY: it is from above, and nobody's.
        unsafe { ALLOCATOR.dealloc(self.start.cast(), self.layout) };
    }
}

/// Allocates pieces of all sizes, and gives them back in another order.
fn churn(thread: usize) {
    let mut random = Random::new(thread as u64);
    let (mut pieces, mut bytes) = (Vec::<Piece>::new(), 0);
    for count in 0..PIECES {
        // Up to 2 MiB, most of them small.
        let most = 1 << (5 + random.below(14));
        let words = 1 + random.below(most) as usize;
        pieces.push(Piece::new(words, (thread * PIECES + count) as u64));
        bytes += words * 8;
        while bytes > OF_EACH {
            let given_back = pieces.swap_remove(random.below(pieces.len() as u64) as usize);
            bytes -= given_back.layout.size();
        }
    }
}

/// What one thread gives back is of huge pages that others use.
#[test]
fn memory_stays_as_it_is_while_others_give_back_theirs() {
    // SAFETY: they only read and write numbers.
    unsafe {
        assert_eq!(
            mi_option_get(PURGE_DELAY),
            UNLESS_TOLD,
            "it has another number"
        );
        mi_option_set(PURGE_DELAY, 0);
        mi_option_set(PAGE_COMMIT_ON_DEMAND, 1);
    }
    ARENAS.reserve().unwrap();
    if let Err(error) = ARENAS.keep_ready(MEMORY as u64) {
        eprintln!("none is ready: {error}");
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || churn(thread));
        }
    });
}
