//! A lock that openraft's tasks may hold while they wait.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use io::{Permit, Semaphore};

/// A value that one task at a time has, in the order in which they asked for it.
pub struct Mutex<T> {
    /// Borrowed by who has the permit and by nobody else.
    value: RefCell<T>,
    /// One permit.
    turn: Semaphore,
}

/// Has the value of a [`Mutex`] until it is dropped.
pub struct MutexGuard<'a, T> {
    // Declared first, so dropped first: who gets the permit next borrows the value.
    value: RefMut<'a, T>,
    _turn: Permit,
}

impl<T: 'static> openraft::async_runtime::Mutex<T> for Mutex<T> {
    type Guard<'a> = MutexGuard<'a, T>;

    fn new(value: T) -> Mutex<T> {
        Mutex {
            value: RefCell::new(value),
            turn: Semaphore::new(1),
        }
    }

    async fn lock(&self) -> MutexGuard<'_, T> {
        let turn = self.turn.acquire(1).await;
        MutexGuard {
            value: self.value.borrow_mut(),
            _turn: turn,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
