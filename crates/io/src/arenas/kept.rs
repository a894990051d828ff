//! What the allocator gave back, but the process keeps.
//!
//! The kernel gives memory in huge pages, of which the allocator gives back parts. If the process gave those back one by one,
//! the kernel would break the page up, and `khugepaged` put it together again, with all that was given back of it, a few pages
//! each ten seconds, in which nobody gets at them. So huge pages are given back as a whole, those that nobody uses any part of,
//! wherever they are, as TCMalloc does (Hunter et al., "Beyond malloc efficiency to fleet efficiency: a hugepage-aware memory
//! allocator", OSDI 2021); parts are only if too much of what is there is that.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};

use super::{HUGE_PAGE, SLICE, beside, map};

/// What part of its memory a process keeps though the allocator gave it back, however much is in use beside it.
const LEAST_SHARE: usize = 8;
/// What part of it is kept beyond that, where there are no whole pages to give back.
const PARTS_SHARE: usize = 16;
/// Slices of a huge page.
const OF_A_PAGE: usize = HUGE_PAGE / SLICE;
/// Pages that are given back for each one's worth of slices, and as many more: who gives back waits for it.
const PAGES_BESIDE: usize = 2;

/// Of which slices of a huge page somebody has use, and which are there, a bit each. Who has use of one has it there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Page {
    used: u32,
    there: u32,
}

impl Page {
    /// It is being given back: nobody may use it before that is done. No other page has this.
    const GOING: Page = Page {
        used: u32::MAX,
        there: 0,
    };
    const GONE: Page = Page { used: 0, there: 0 };

    const fn from_word(word: u64) -> Page {
        Page {
            used: word as u32,
            there: (word >> u32::BITS) as u32,
        }
    }

    const fn word(self) -> u64 {
        (self.there as u64) << u32::BITS | self.used as u64
    }

    /// Does nobody use what is there of it?
    const fn is_spare(self) -> bool {
        self.used == 0 && self.there != 0
    }
}

/// Slices of an arena that nobody uses and that are still there. It may be asked while somebody allocates.
///
/// A slice belongs to whoever gives it back until that is done, and to whoever takes it from then on; but the huge page that it
/// lies in is everybody's, so that each is changed by all at once or by nobody ([`Page::GOING`]).
#[derive(Debug)]
pub(super) struct Kept {
    /// Made before anything is taken.
    pages: OnceLock<&'static [AtomicU64]>,
    /// How many slices are in use, and how many are there, those among them.
    used: AtomicIsize,
    there: AtomicIsize,
    /// How many pages nobody uses any part of, though something of them is there; and the one behind which to look for them.
    spare: AtomicIsize,
    behind: AtomicUsize,
    /// How many slices the process may have in all.
    memory: AtomicUsize,
    /// Does the kernel give huge pages? Else it gives what is touched alone.
    is_huge: AtomicBool,
}

impl Kept {
    pub(super) const fn new() -> Kept {
        Kept {
            pages: OnceLock::new(),
            used: AtomicIsize::new(0),
            there: AtomicIsize::new(0),
            spare: AtomicIsize::new(0),
            behind: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            is_huge: AtomicBool::new(false),
        }
    }

    /// Notes from now on what of a region of so many bytes is used.
    ///
    /// # Errors
    ///
    /// There are no addresses for that.
    pub(super) fn note(&self, region: usize) -> std::io::Result<()> {
        let count = region.div_ceil(HUGE_PAGE);
        // Not from the allocator, which would go on where it has had this from.
        let words = map(count * size_of::<AtomicU64>())?;
        // SAFETY: so many words are mapped, for good, all zeros; nobody else knows of them.
        let pages = unsafe { std::slice::from_raw_parts(words.cast_const().cast(), count) };
        self.pages.get_or_init(|| pages);
        Ok(())
    }

    /// From now on a part of so many bytes is kept, which the process may have in all; in huge pages, or not.
    pub(super) fn keep(&self, memory: usize, is_huge: bool) {
        self.memory.store(memory / SLICE, Ordering::Relaxed);
        self.is_huge.store(is_huge, Ordering::Relaxed);
    }

    /// Slices that nobody uses any more. What is not kept is given to `give_back`: which slices, from the first on, and how many.
    pub(super) fn put(&self, first: usize, count: usize, give_back: impl Fn(usize, usize)) {
        for (page, mask) in parts(first, count) {
            self.change(page, |Page { used, there }| Page {
                used: used & !mask,
                there,
            });
        }
        let most = self.most();
        let (pages, parts_kept) = match self.is_huge.load(Ordering::Relaxed) {
            true => (
                count / OF_A_PAGE + PAGES_BESIDE,
                self.memory.load(Ordering::Relaxed) / PARTS_SHARE,
            ),
            false => (0, 0),
        };
        for _ in 0..pages {
            if self.count() <= most || !self.give_back_page(&give_back) {
                break;
            }
        }
        // Whole pages that are left go with what is given back next.
        let is_page_next = pages > 0 && self.has_spare();
        if self.count() > most + parts_kept && !is_page_next {
            give_back(first, count);
            for (page, mask) in parts(first, count) {
                self.change(page, |Page { used, there }| Page {
                    used,
                    there: there & !mask,
                });
            }
        }
    }

    /// Slices that are used from now on, whether they were kept or not.
    pub(super) fn take(&self, first: usize, count: usize) {
        let is_huge = self.is_huge.load(Ordering::Relaxed);
        for (page, mask) in parts(first, count) {
            self.change(page, |Page { used, there }| Page {
                used: used | mask,
                // Who touches a page of which nothing is there has all of it.
                there: match is_huge && there == 0 {
                    true => u32::MAX,
                    false => there | mask,
                },
            });
        }
    }

    /// How many slices are kept.
    fn count(&self) -> usize {
        let there = self.there.load(Ordering::Relaxed);
        usize::try_from(there - self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// How many may be, more or less: several may be given back at the same time.
    fn most(&self) -> usize {
        let used = self.used.load(Ordering::Relaxed);
        let memory = self.memory.load(Ordering::Relaxed);
        beside(usize::try_from(used).unwrap_or(0), memory, LEAST_SHARE)
    }

    fn pages(&self) -> &'static [AtomicU64] {
        self.pages.get().copied().unwrap_or(&[])
    }

    /// Changes a page, once it is not being given back, and counts what that changes.
    fn change(&self, page: usize, change: impl Fn(Page) -> Page) {
        let Some(word) = self.pages().get(page) else {
            return;
        };
        let changed = |word| {
            let page = Page::from_word(word);
            (page != Page::GOING).then(|| change(page).word())
        };
        loop {
            if let Ok(before) = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, changed) {
                let before = Page::from_word(before);
                return self.note_change(before, change(before));
            }
            // Not for long: whoever does it asks the kernel, and nobody else, for something that takes as long as that page.
            std::thread::yield_now();
        }
    }

    /// Counts what a change changes.
    fn note_change(&self, before: Page, after: Page) {
        assert_eq!(after.used & !after.there, 0, "what is used is there");
        let more =
            |before: u32, after: u32| after.count_ones() as isize - before.count_ones() as isize;
        let add = |count: &AtomicIsize, more: isize| {
            if more != 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&self.used, more(before.used, after.used));
        add(&self.there, more(before.there, after.there));
        add(
            &self.spare,
            isize::from(after.is_spare()) - isize::from(before.is_spare()),
        );
    }

    /// Is there a page that nobody uses any part of?
    fn has_spare(&self) -> bool {
        self.spare.load(Ordering::Relaxed) > 0
    }

    /// Gives back such a page, which nobody uses before that is done. `false` if there is none.
    fn give_back_page(&self, give_back: impl Fn(usize, usize)) -> bool {
        let Some((page, before)) = self.begin_to_give_back() else {
            return false;
        };
        self.note_change(before, Page::GONE);
        give_back(page * OF_A_PAGE, OF_A_PAGE);
        let going = self.pages()[page].swap(Page::GONE.word(), Ordering::Release);
        assert_eq!(Page::from_word(going), Page::GOING, "nobody changes it");
        true
    }

    /// Which page, and what it was.
    fn begin_to_give_back(&self) -> Option<(usize, Page)> {
        if !self.has_spare() {
            return None;
        }
        let pages = self.pages();
        // The allocator takes from the start what it can, so what is farthest from there is asked for last.
        let behind = self.behind.load(Ordering::Relaxed).min(pages.len());
        let mut downwards = (0..behind).rev().chain((behind..pages.len()).rev());
        let going = |word| {
            Page::from_word(word)
                .is_spare()
                .then_some(Page::GOING.word())
        };
        let found = downwards.find_map(|page| {
            let before = pages[page].fetch_update(Ordering::AcqRel, Ordering::Relaxed, going);
            Some((page, Page::from_word(before.ok()?)))
        });
        if let Some((page, _)) = found {
            self.behind.store(page, Ordering::Relaxed);
        }
        found
    }
}

/// The huge pages that so many slices from the first on lie in, and which of each one's they are.
fn parts(first: usize, count: usize) -> impl Iterator<Item = (usize, u32)> {
    let end = first + count;
    (first / OF_A_PAGE..end.div_ceil(OF_A_PAGE)).map(move |page| {
        let from = first.saturating_sub(page * OF_A_PAGE);
        let to = (end - page * OF_A_PAGE).min(OF_A_PAGE);
        (page, (u32::MAX >> (OF_A_PAGE - (to - from))) << from)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use proptest::prelude::*;

    /// Of a region of so many slices, of which the process may have as many as `memory`.
    fn of(slices: usize, memory: usize, is_huge: bool) -> Kept {
        let kept = Kept::new();
        kept.note(slices * SLICE).unwrap();
        kept.keep(memory * SLICE, is_huge);
        kept
    }

    /// Gives slices back; which of all are not there any more.
    fn put(kept: &Kept, first: usize, count: usize) -> BTreeSet<usize> {
        let gone = RefCell::new(BTreeSet::new());
        kept.put(first, count, |first, count| {
            gone.borrow_mut().extend(first..first + count)
        });
        gone.into_inner()
    }

    #[test]
    fn nothing_is_kept_unless_it_was_said() {
        let kept = Kept::new();
        kept.note(1000 * SLICE).unwrap();
        kept.take(0, 2);
        assert_eq!(put(&kept, 0, 1), BTreeSet::from([0]));
        kept.keep(0, true);
        kept.take(40, 2);
        assert_eq!(put(&kept, 40, 1), BTreeSet::from([40]));
        assert_eq!(put(&kept, 41, 1), (32..64).collect());
    }

    #[test]
    fn whole_pages_go_and_parts_stay() {
        // Of 16 pages four may be kept, as nothing much is used, and parts of another one.
        let kept = of(100 * OF_A_PAGE, 16 * OF_A_PAGE, true);
        kept.take(0, 6 * OF_A_PAGE);
        assert!(put(&kept, OF_A_PAGE / 2, 4 * OF_A_PAGE).is_empty());
        // The last page nobody uses is in the middle.
        assert_eq!(
            put(&kept, 5 * OF_A_PAGE, 1),
            (3 * OF_A_PAGE..4 * OF_A_PAGE).collect()
        );
        assert_eq!(kept.count(), 3 * OF_A_PAGE + 1);
    }

    #[test]
    fn too_many_parts_go_one_by_one() {
        let kept = of(100 * OF_A_PAGE, 16 * OF_A_PAGE, true);
        kept.take(0, 20 * OF_A_PAGE);
        // Half of each page: two pages may be kept, and one more.
        let gone: Vec<_> = (0..20)
            .map(|page| put(&kept, page * OF_A_PAGE, OF_A_PAGE / 2).len())
            .collect();
        assert_eq!(gone[..6], [0; 6]);
        assert_eq!(gone[6..], [OF_A_PAGE / 2; 14]);
    }

    #[test]
    fn a_huge_page_is_there_as_a_whole() {
        for (is_huge, there) in [(true, OF_A_PAGE - 1), (false, 0)] {
            let kept = of(10 * OF_A_PAGE, 10 * OF_A_PAGE, is_huge);
            kept.take(7, 1);
            assert_eq!(kept.count(), there);
        }
    }

    /// Threads take and give back slices of the same pages: what is given back nobody uses meanwhile.
    #[test]
    fn nobody_uses_what_is_given_back() {
        const THREADS: usize = 4;
        const PAGES: usize = 8;
        let kept = of(PAGES * OF_A_PAGE, 0, true);
        let users: Vec<_> = (0..PAGES * OF_A_PAGE).map(|_| AtomicU32::new(0)).collect();
        let run = |thread: usize| {
            let own = || (0..PAGES * OF_A_PAGE / THREADS).map(|slice| slice * THREADS + thread);
            let give_back = |first: usize, count: usize| {
                let used = || -> u32 {
                    let users = users[first..first + count].iter();
                    users.map(|users| users.load(Ordering::SeqCst)).sum()
                };
                assert_eq!(used(), 0);
                std::thread::yield_now();
                assert_eq!(used(), 0);
            };
            for round in 0..200 {
                for slice in own() {
                    kept.take(slice, 1);
                    users[slice].fetch_add(1, Ordering::SeqCst);
                }
                for slice in own()
                    .filter(|slice| (slice + round) % 3 > 0)
                    .chain(own().filter(|slice| (slice + round) % 3 == 0))
                {
                    users[slice].fetch_sub(1, Ordering::SeqCst);
                    kept.put(slice, 1, give_back);
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || run(thread));
            }
        });
        let pages = kept.pages().iter();
        let pages = pages.map(|word| Page::from_word(word.load(Ordering::Relaxed)));
        let there: u32 = pages.clone().map(|page| page.there.count_ones()).sum();
        assert_eq!(pages.clone().map(|page| page.used).max(), Some(0));
        assert_eq!(kept.count(), there as usize);
        assert_eq!(kept.used.load(Ordering::Relaxed), 0);
        let spare = pages.filter(|page| page.is_spare()).count();
        assert_eq!(kept.spare.load(Ordering::Relaxed), spare as isize);
    }

    proptest! {
        #[test]
        fn parts_are_the_slices(first in 0usize..1000, count in 1usize..300) {
            let slices = parts(first, count).flat_map(|(page, mask)| {
                let of_it = (0..OF_A_PAGE).filter(move |slice| mask >> slice & 1 == 1);
                of_it.map(move |slice| page * OF_A_PAGE + slice)
            });
            prop_assert!(slices.eq(first..first + count));
        }

        /// Slices are taken and given back in any order: nothing goes that is used, whole pages go first, and no more is kept
        /// than may be.
        #[test]
        fn what_is_kept_is_counted(
            is_huge: bool,
            moves in prop::collection::vec((0usize..950, 1usize..70), 1..200),
        ) {
            const MEMORY: usize = 640;
            let kept = of(1024, MEMORY, is_huge);
            let mut used = BTreeSet::new();
            let mut there = BTreeSet::new();
            for (first, count) in moves {
                let range = first..first + count;
                if range.clone().all(|slice| used.contains(&slice)) {
                    used.retain(|slice| !range.contains(slice));
                    let gone = put(&kept, first, count);
                    prop_assert!(gone.is_disjoint(&used));
                    there.retain(|slice| !gone.contains(slice));
                    let most = (MEMORY / 4 * 3).saturating_sub(used.len()).clamp(MEMORY / 8, MEMORY / 4);
                    let parts = if is_huge { MEMORY / 16 } else { 0 };
                    let is_enough = there.len() - used.len() <= most + parts;
                    let whole = gone.len() / OF_A_PAGE;
                    prop_assert!(is_enough || gone.is_superset(&range.collect()) || whole > count / OF_A_PAGE);
                } else if range.clone().all(|slice| !used.contains(&slice)) {
                    kept.take(first, count);
                    for page in first / OF_A_PAGE..(first + count).div_ceil(OF_A_PAGE) {
                        let of_it = page * OF_A_PAGE..(page + 1) * OF_A_PAGE;
                        let is_whole = is_huge && of_it.clone().all(|slice| !there.contains(&slice));
                        there.extend(of_it.filter(|slice| is_whole || range.contains(slice)));
                    }
                    used.extend(range);
                }
                prop_assert_eq!(kept.count(), there.len() - used.len());
                prop_assert_eq!(kept.used.load(Ordering::Relaxed), used.len() as isize);
                let spare = (0..32).filter(|page| {
                    let of_it = page * OF_A_PAGE..(page + 1) * OF_A_PAGE;
                    there.range(of_it.clone()).next().is_some() && used.range(of_it).next().is_none()
                });
                prop_assert_eq!(kept.spare.load(Ordering::Relaxed), spare.count() as isize);
            }
        }
    }
}
