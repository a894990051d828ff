//! The memory that the allocator gives out, made ready before somebody waits for it.
//!
//! Where memory is touched for the first time, the kernel has to find and to clear it, and with huge pages that is 2 MiB in
//! one go. It is a tenth of a millisecond on a machine of its own and ten in a virtual one whose host has to find them, too;
//! and a shard that grows a memtable or a cache does nothing else meanwhile. So the allocator, mimalloc, has all of its memory
//! from here (`mi_manage_memory`) and says which of it it begins to use; and a thread that runs only while the processor has
//! nothing else to do touches what comes next. What the allocator gives back, as a memtable that was flushed, stays as it is
//! for what it takes next, up to a bound, beyond which the kernel gets it back in whole huge pages.
//!
//! Seastar's prefaulting threads and the JVM's `-XX:+AlwaysPreTouch`, which Cassandra sets, are for the same; they take all
//! memory at start. Here a process has what it needs, and up to a quarter of what it may have beside it, if nobody else
//! on the machine is short of it: memory that was touched while there was nothing to do costs nobody anything.

mod kept;

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use kept::Kept;

/// Bytes that the allocator takes and gives back at least, and multiples of it (`MI_ARENA_SLICE_SIZE`).
const SLICE: usize = 64 << 10;
/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// The allocator has memory in multiples of this (`MI_ARENA_MIN_SIZE`).
const CHUNK: usize = 32 << 20;
/// Bytes of one arena of the allocator. What it keeps about 16 GiB does not fit its own bounds.
const ARENA: usize = 15 << 30;
/// There are no more arenas than that. Memory beyond them the allocator asks the system for.
const MOST: usize = 64;

/// What part of its memory a process has ready, and keeps, for the sake of speed, as long as there is plenty ([`beside`]).
const MOST_SHARE: usize = 4;
/// What part of it is ready beyond what was ever used at least, unless the machine has none.
const LEAST_READY_SHARE: usize = 32;
/// What part of the machine's memory is left to others.
const OTHERS_SHARE: usize = 8;
/// How long nothing is looked at when all is ready.
const PAUSE: Duration = Duration::from_millis(20);

/// `mi_option_generic_collect` of `mimalloc.h`: after how many allocations that are not small the allocator looks through all
/// pages of a thread for what others gave back of them, 10,000 unless it is told otherwise.
const GENERIC_COLLECT: c_int = 34;
/// With gigabytes that look takes milliseconds, in which a shard answers nobody, and at 50,000 requests a second it came twenty
/// times a second. Where memory is asked for its pages are looked at anyway; this is the most that the allocator takes.
const RARELY: c_long = 1_000_000;
/// `mi_option_page_commit_on_demand`: whether the allocator says only of a part of what it takes that it begins to use that, and
/// nothing of the rest when it comes to it. What nobody is said to use is given back, so it may not, whatever the environment
/// says (`MIMALLOC_PAGE_COMMIT_ON_DEMAND`).
const PAGE_COMMIT_ON_DEMAND: c_int = 40;

/// What the allocator calls when it begins to use memory and when it gives it back (`mi_commit_fun_t`): whether it
/// begins, what memory, whether that is all zeros if it is known, and whose it is. It says: was it done?
type CommitFunction =
    unsafe extern "C" fn(bool, *mut c_void, usize, *mut bool, *mut c_void) -> bool;

unsafe extern "C" {
    /// Prepares the allocator, if nobody has. It allocates nothing.
    fn mi_process_init();

    /// Sets an option of the allocator, by its number (`mimalloc.h`).
    fn mi_option_set(option: c_int, value: c_long);

    /// Gives the allocator memory to give out (`mimalloc.h`).
    fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        commit: CommitFunction,
        commit_argument: *const c_void,
        arena_id: *mut *mut c_void,
    ) -> bool;
}

/// The memory of a process's allocator. There is one in a process, as there is one allocator.
#[derive(Debug)]
pub struct Arenas {
    region: OnceLock<Region>,
    /// Of each arena.
    used: [Used; MOST],
    /// What was given back and is still there.
    kept: Kept,
}

/// How far an arena is in use, in bytes from its start. The allocator goes from its start to its end, if not in order.
#[derive(Debug)]
struct Used {
    /// What the allocator keeps there about it.
    own: AtomicUsize,
    /// Up to the last that was ever used.
    most: AtomicUsize,
}

impl Used {
    const fn new() -> Used {
        Used {
            own: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        }
    }

    /// Up to where it is in use; `None` if it is not.
    fn most(&self) -> Option<usize> {
        let most = self.most.load(Ordering::Relaxed);
        (most > self.own.load(Ordering::Relaxed)).then_some(most)
    }
}

/// Addresses that belong to the allocator as long as the process lives.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: usize,
    bytes: usize,
}

impl Region {
    /// As many addresses as the machine has memory, and some, none of which takes any yet.
    fn reserve() -> std::io::Result<Region> {
        let installed = usize::try_from(rustix::system::sysinfo().totalram).unwrap_or(usize::MAX);
        let arenas = installed.div_ceil(ARENA).clamp(1, MOST);
        let bytes = arenas * ARENA;
        let mapped = map(bytes + CHUNK)?;
        let start = mapped.expose_provenance().next_multiple_of(CHUNK);
        Ok(Region { start, bytes })
    }

    /// Gives one arena of it to the allocator.
    fn manage(self, arena: usize, owner: &'static Arenas) -> bool {
        let start = std::ptr::with_exposed_provenance_mut(self.start + arena * ARENA);
        let argument = std::ptr::from_ref(owner).cast();
        let id = std::ptr::null_mut();
        // SAFETY: the region is mapped for good, readable, writable and nobody else's, and all zeros as it is new;
        // `commit` takes the owner for its argument, which lives as long.
        unsafe {
            mi_manage_memory(
                start, ARENA, false, false, true, -1, false, commit, argument, id,
            )
        }
    }

    /// Does the kernel touch memory for who asks? It does since Linux 5.14, and says so if it is asked for none, too.
    fn can_touch(self) -> bool {
        self.advise(0, 0, Advice::LinuxPopulateWrite) != Err(Errno::INVAL)
    }

    /// Tells the kernel something about a part of it.
    fn advise(self, from: usize, bytes: usize, advice: Advice) -> rustix::io::Result<()> {
        assert!(from + bytes <= self.bytes, "it is a part of the region");
        let start = std::ptr::with_exposed_provenance_mut(self.start + from);
        // SAFETY: the region is mapped as long as the process lives, and is the allocator's. Neither huge pages nor
        // touching change what is in memory, and it gets rid of what nobody uses only (see `Arenas::given_back`).
        unsafe { madvise(start, bytes, advice) }
    }
}

impl Default for Arenas {
    fn default() -> Arenas {
        Arenas::new()
    }
}

impl Arenas {
    /// Without memory yet.
    pub const fn new() -> Arenas {
        Arenas {
            region: OnceLock::new(),
            used: [const { Used::new() }; MOST],
            kept: Kept::new(),
        }
    }

    /// Gives the allocator its memory. To be called before anything is allocated: what was allocated before lies
    /// elsewhere, and the allocator goes on there until that is full.
    ///
    /// # Errors
    ///
    /// The system does not let the process have as many addresses as the machine has memory (`ulimit -v`,
    /// `vm.overcommit_memory=2`), or it was called before. The allocator asks the system for memory then.
    pub fn reserve(&'static self) -> std::io::Result<()> {
        let refused = || std::io::Error::from(std::io::ErrorKind::AddrInUse);
        let region = Region::reserve()?;
        // SAFETY: both may be called at any time, and no other thread allocates yet.
        unsafe {
            mi_process_init();
            mi_option_set(GENERIC_COLLECT, RARELY);
            mi_option_set(PAGE_COMMIT_ON_DEMAND, 0);
        }
        self.region.set(region).map_err(|_| refused())?;
        self.kept.note(region.bytes)?;
        for arena in 0..region.bytes / ARENA {
            if !region.manage(arena, self) {
                return Err(refused());
            }
            let used = &self.used[arena];
            used.own
                .store(used.most.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    }

    /// From now on memory is ready before the allocator uses it, of a process that has so many bytes in all.
    ///
    /// # Errors
    ///
    /// The system does not start a thread, or touches no memory ahead. All goes on as before then.
    pub fn keep_ready(&'static self, memory: u64) -> std::io::Result<()> {
        let Some(region) = self.region.get().copied() else {
            return Ok(());
        };
        // Only now: a command that ends at once has no use for 2 MiB where it needs 4 KiB. Without them it works as well.
        let advised = region.advise(0, region.bytes, Advice::LinuxHugepage);
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        self.kept.keep(memory, advised.is_ok() && has_huge_pages());
        if !region.can_touch() {
            let unsupported = std::io::ErrorKind::Unsupported;
            return Err(std::io::Error::new(
                unsupported,
                "Linux touches none ahead of its use before 5.14",
            ));
        }
        let thread = std::thread::Builder::new().name("memory".to_owned());
        let touch = move || self.touch_ahead(region, memory);
        thread.spawn(touch).map(drop)
    }

    /// Touches what comes after what is used, of a process that has so many bytes in all, for good.
    fn touch_ahead(&self, region: Region, memory: usize) {
        crate::scheduling::run_when_idle();
        let mut ready = [0; MOST];
        loop {
            let mut is_done = true;
            let arenas = self.used.iter().enumerate();
            let in_use = arenas.filter_map(|(arena, used)| Some((arena, used.most()?)));
            let count = in_use.clone().count();
            let all = in_use.clone().map(|(_, used)| used).sum();
            for (arena, used) in in_use {
                let own = self.used[arena].own.load(Ordering::Relaxed);
                let from = usize::max(ready[arena], own / HUGE_PAGE * HUGE_PAGE);
                let up_to = |ahead: usize| {
                    let ahead = (ahead / count).next_multiple_of(HUGE_PAGE);
                    (used + ahead).min(ARENA)
                };
                let least = up_to(memory / LEAST_READY_SHARE);
                let mut to = up_to(beside(all, memory, LEAST_READY_SHARE));
                // Less than a page is not touched: nobody has to look for that.
                if to > least && to >= from + HUGE_PAGE && is_machine_short() {
                    to = least;
                }
                // Then what is used and what the machine has is looked at again.
                let piece = to.min(from + CHUNK);
                ready[arena] = touch(region, arena * ARENA, from, piece);
                is_done &= ready[arena] < from + CHUNK;
            }
            if is_done {
                // This is no shard, and has no clock of one.
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// The allocator begins to use this.
    fn taken(&self, from: usize, bytes: usize) {
        if let Some(used) = self.used.get(from / ARENA) {
            used.most.fetch_max(from % ARENA + bytes, Ordering::Relaxed);
        }
        self.kept.take(from / SLICE, bytes / SLICE);
    }

    /// The allocator has no use for this any more: it holds it for nobody else meanwhile, and says so before it uses it again.
    fn given_back(&self, region: Region, from: usize, bytes: usize) {
        self.kept.put(from / SLICE, bytes / SLICE, |slice, count| {
            // If it is not taken back, it stays.
            let _ = region.advise(slice * SLICE, count * SLICE, Advice::LinuxDontNeed);
        });
    }
}

/// So many bytes of addresses, all zeros, none of which takes memory before it is touched.
fn map(bytes: usize) -> rustix::io::Result<*mut c_void> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: nothing else is at addresses that the kernel chooses.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }
}

/// How much a process that may have so much memory has beside what it uses, for the sake of speed alone: a quarter, as long as
/// both are no more than three quarters, and then less, down to one part in so many. Else it would be in the way of those who
/// give something back when the process has more than it may.
fn beside(used: usize, memory: usize, least_share: usize) -> usize {
    let unused = (memory / 4 * 3).saturating_sub(used);
    unused.clamp(memory / least_share, memory / MOST_SHARE)
}

/// Does the kernel give huge pages to who asks for them (`transparent_hugepage=never` says that it does not)?
fn has_huge_pages() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|told| !told.contains("[never]"))
}

/// Has the machine little memory left for others? If it does not say so, no.
fn is_machine_short() -> bool {
    let Ok(told) = std::fs::read_to_string("/proc/meminfo") else {
        return false;
    };
    let kib = |name| {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        let count = line.and_then(|line| line.split_whitespace().next());
        count.and_then(|count| count.parse::<usize>().ok())
    };
    let (all, available) = (kib("MemTotal:"), kib("MemAvailable:"));
    all.zip(available)
        .is_some_and(|(all, available)| available < all / OTHERS_SHARE)
}

/// Touches an arena, which begins there in its region, from one place up to another; says how far it came. What is there already
/// stays as it is.
fn touch(region: Region, arena: usize, mut from: usize, to: usize) -> usize {
    // There may be no memory.
    let touched = |from| {
        region
            .advise(arena + from, HUGE_PAGE, Advice::LinuxPopulateWrite)
            .is_ok()
    };
    while from + HUGE_PAGE <= to && touched(from) {
        from += HUGE_PAGE;
        // The least of shares is one in 340: beside a shard that never sleeps the thread has its turn each second, and if it
        // does not end that by itself, the kernel does at its next tick, up to 10 ms later.
        std::thread::yield_now();
    }
    from
}

/// What the allocator calls. It is in the middle of an allocation: nothing here allocates.
///
/// # Safety
///
/// `argument` is the [`Arenas`] that it was told with, whose memory this is.
unsafe extern "C" fn commit(
    begins: bool,
    start: *mut c_void,
    bytes: usize,
    _is_zero: *mut bool,
    argument: *mut c_void,
) -> bool {
    // SAFETY: as the caller says; they are shared, and live as long as the process.
    let arenas: &'static Arenas = unsafe { &*argument.cast_const().cast() };
    let Some(region) = arenas.region.get() else {
        return false;
    };
    let from = start.addr().wrapping_sub(region.start);
    assert!(
        from.is_multiple_of(SLICE) && bytes.is_multiple_of(SLICE) && bytes > 0,
        "the allocator has whole slices"
    );
    match begins {
        true => arenas.taken(from, bytes),
        false => arenas.given_back(*region, from, bytes),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    static ARENAS: Arenas = Arenas::new();

    /// Does the process have this page of memory?
    fn is_resident(address: usize) -> bool {
        let mut page = 0u8;
        let start = std::ptr::with_exposed_provenance_mut(address & !0xfff);
        // SAFETY: one page is asked for, and there is a byte for it.
        let result = unsafe { libc::mincore(start, 4096, &raw mut page) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        page & 1 == 1
    }

    unsafe extern "C" {
        /// The value of an option (`mimalloc.h`).
        fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn options_have_the_numbers_that_the_allocator_knows_them_by() {
        /// `mi_option_page_reclaim_on_free` and `mi_option_page_full_retain` come behind it.
        const NEXT: [c_int; 2] = [GENERIC_COLLECT + 1, GENERIC_COLLECT + 2];
        // SAFETY: they only read and write numbers.
        let (asked, next) = unsafe {
            (
                mi_option_get(GENERIC_COLLECT),
                NEXT.map(|option| mi_option_get(option)),
            )
        };
        // Another test may have set it by now.
        assert!([10_000, RARELY].contains(&asked), "{asked}");
        assert_eq!(next, [0, 2]);
        // `mi_option_pagemap_commit` comes before it, `mi_option_page_max_reclaim` and the same across threads behind it.
        // SAFETY: they only read numbers.
        let around =
            [-1, 0, 1, 2].map(|beside| unsafe { mi_option_get(PAGE_COMMIT_ON_DEMAND + beside) });
        assert_eq!(around, [0, 0, -1, 32]);
    }

    #[test]
    fn a_quarter_is_ready_as_long_as_there_is_plenty() {
        let ahead = |used| beside(used, 6400, LEAST_READY_SHARE);
        assert_eq!(ahead(0), 1600);
        assert_eq!(ahead(3200), 1600);
        assert_eq!(ahead(4000), 800);
        assert_eq!(ahead(4800), 200);
        assert_eq!(ahead(7000), 200);
    }

    #[test]
    fn what_the_allocator_takes_next_is_there() {
        ARENAS.reserve().unwrap();
        assert!(ARENAS.reserve().is_err(), "there is one allocator");
        let region = *ARENAS.region.get().unwrap();
        // Tests have the system's allocator, so this is the first that mimalloc gives.
        let bytes = 10 << 20;
        // SAFETY: what is allocated is not used.
        let given = unsafe { libmimalloc_sys::mi_malloc(bytes) }.addr();
        assert!(given >= region.start && given + bytes <= region.start + region.bytes);
        let used = ARENAS.used[0].most().unwrap();
        assert!(
            given + bytes <= region.start + used && used < 128 << 20,
            "{used}"
        );
        let others = || ARENAS.used[1..].iter().filter_map(Used::most);
        assert_eq!(others().next(), None);
        assert!(!is_resident(given + bytes / 2), "nobody touched it");
        if !region.can_touch() {
            eprintln!("not tested: this kernel touches no memory ahead");
            return;
        }
        // A quarter, wherever the allocator is by then.
        let all = 128 << 20;
        let memory = beside(used, all, LEAST_READY_SHARE);
        if is_machine_short() {
            eprintln!("not tested: this machine has no memory");
            return;
        }
        ARENAS.keep_ready(all as u64).unwrap();
        let last = (region.start + used + memory) / HUGE_PAGE * HUGE_PAGE - HUGE_PAGE;
        let mut tries = 0;
        while !is_resident(last) {
            tries += 1;
            assert!(tries < 3000, "nobody touches it");
            // There are no shards whose clock this could be.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_resident(given + bytes / 2));
        assert!(!is_resident(last + 2 * HUGE_PAGE), "no more than that");
    }
}
