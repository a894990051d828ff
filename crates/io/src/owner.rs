//! Values that one thread alone may touch, held by handles that any thread may hold.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other thread of the process has or will have.
pub(crate) fn current_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    THREAD.with(|cell| {
        if cell.get() == 0 {
            cell.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        cell.get()
    })
}

/// A value of the thread that made it. Others see that it is not theirs.
///
/// Whoever shares one must leave nothing in it that another thread may not drop.
pub(crate) struct OwnerCell<T> {
    owner: u64,
    value: RefCell<T>,
}

// SAFETY: `get` gives the value to no thread but the one that made it: thread numbers are never
// used twice. Dropping on another thread is what the type's documentation leaves to its user; the
// one user, the executor, empties the cell on the owner's thread when it closes.
unsafe impl<T> Send for OwnerCell<T> {}
// SAFETY: as above; other threads read `owner` alone, which never changes.
unsafe impl<T> Sync for OwnerCell<T> {}

impl<T> OwnerCell<T> {
    pub(crate) fn new(value: T) -> OwnerCell<T> {
        OwnerCell {
            owner: current_thread(),
            value: RefCell::new(value),
        }
    }

    /// The value, if this is its thread.
    pub(crate) fn get(&self) -> Option<&RefCell<T>> {
        (self.owner == current_thread()).then_some(&self.value)
    }
}
