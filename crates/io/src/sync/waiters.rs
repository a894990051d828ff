//! A queue of tasks that wait.

use std::collections::BTreeMap;
use std::task::Waker;

/// Tasks that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiters<T> {
    queue: BTreeMap<u64, (Waker, T)>,
    next: u64,
}

impl<T> Waiters<T> {
    pub(super) fn new() -> Waiters<T> {
        Waiters {
            queue: BTreeMap::new(),
            next: 0,
        }
    }

    /// Puts a task at the end of the queue, under the ticket that this returns.
    pub(super) fn push(&mut self, waker: &Waker, value: T) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.queue.insert(ticket, (waker.clone(), value));
        ticket
    }

    /// Is the ticket still in the queue? If so it is `waker` that will be woken.
    pub(super) fn update(&mut self, ticket: u64, waker: &Waker) -> bool {
        match self.queue.get_mut(&ticket) {
            Some((old, _)) => {
                old.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// What the first one in the queue brought.
    pub(super) fn first(&self) -> Option<&T> {
        self.queue.first_key_value().map(|(_, (_, value))| value)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Waker, T)> {
        let (ticket, (waker, value)) = self.queue.pop_first()?;
        Some((ticket, waker, value))
    }

    /// Takes a ticket out of the queue; `false` if it was not there any more.
    pub(super) fn remove(&mut self, ticket: u64) -> bool {
        self.queue.remove(&ticket).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The ticket that the next one to come will get: all before it are in the queue or served.
    pub(super) fn end(&self) -> u64 {
        self.next
    }
}
