//! Permits that tasks of a shard take and give back.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::waiters::Waiters;

/// A number of permits, given out in the order in which they were asked for. Cheap to clone.
#[derive(Clone)]
pub struct Semaphore {
    state: Rc<RefCell<State>>,
}

struct State {
    available: usize,
    waiters: Waiters<usize>,
}

impl Semaphore {
    /// `permits` permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore {
            state: Rc::new(RefCell::new(State {
                available: permits,
                waiters: Waiters::new(),
            })),
        }
    }

    /// How many permits nobody has.
    pub fn available(&self) -> usize {
        self.state.borrow().available
    }

    /// Takes `count` permits once there are so many and all who asked before have got theirs.
    /// Asking for more than there are at all waits for ever.
    pub fn acquire(&self, count: usize) -> Acquire {
        Acquire {
            semaphore: self.clone(),
            count,
            ticket: None,
            done: false,
        }
    }

    /// Takes `count` permits if that needs no waiting.
    pub fn try_acquire(&self, count: usize) -> Option<Permit> {
        let mut state = self.state.borrow_mut();
        if !state.waiters.is_empty() || state.available < count {
            return None;
        }
        state.available -= count;
        drop(state);
        Some(Permit {
            semaphore: self.clone(),
            count,
        })
    }

    /// Gives `count` permits more.
    pub fn add(&self, count: usize) {
        self.state.borrow_mut().available += count;
        self.serve();
    }

    /// Lets all who wait now have their permits, whether there are enough or not.
    pub(super) fn release_all_waiting(&self) {
        loop {
            let first = self.state.borrow_mut().waiters.pop();
            match first {
                Some((_, waker, _)) => waker.wake(),
                None => return,
            }
        }
    }

    fn serve(&self) {
        loop {
            let waker = {
                let mut state = self.state.borrow_mut();
                match state.waiters.first() {
                    Some(count) if *count <= state.available => {}
                    _ => return,
                }
                let Some((_, waker, count)) = state.waiters.pop() else {
                    return;
                };
                state.available -= count;
                waker
            };
            waker.wake();
        }
    }
}

/// Waits for permits.
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire {
    semaphore: Semaphore,
    count: usize,
    ticket: Option<u64>,
    done: bool,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        match self.ticket {
            None => {
                if let Some(permit) = self.semaphore.try_acquire(self.count) {
                    self.done = true;
                    return Poll::Ready(permit);
                }
                let ticket = {
                    let mut state = self.semaphore.state.borrow_mut();
                    state.waiters.push(context.waker(), self.count)
                };
                self.ticket = Some(ticket);
                Poll::Pending
            }
            Some(ticket) => {
                let mut state = self.semaphore.state.borrow_mut();
                if state.waiters.update(ticket, context.waker()) {
                    return Poll::Pending;
                }
                drop(state);
                self.done = true;
                Poll::Ready(Permit {
                    semaphore: self.semaphore.clone(),
                    count: self.count,
                })
            }
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        if self.done {
            return;
        }
        let waited = self.semaphore.state.borrow_mut().waiters.remove(ticket);
        if waited {
            // It may have stood in the way of one who asks for less.
            self.semaphore.serve();
        } else {
            self.semaphore.add(self.count);
        }
    }
}

/// Permits, given back when this is dropped.
pub struct Permit {
    semaphore: Semaphore,
    count: usize,
}

impl Permit {
    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Never gives them back.
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.semaphore.add(self.count);
        }
    }
}
