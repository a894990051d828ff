//! A queue of tasks that wait.

use std::collections::BTreeMap;
use std::task::Waker;

/// Tasks that wait, in the order in which they came.
#[derive(Default)]
pub(crate) struct Waiters<T> {
    queue: BTreeMap<u64, (Waker, T)>,
    next: u64,
}

impl<T> Waiters<T> {
    pub(crate) fn new() -> Waiters<T> {
        Waiters {
            queue: BTreeMap::new(),
            next: 0,
        }
    }

    /// Puts a task at the end of the queue, under the ticket that this returns.
    pub(crate) fn push(&mut self, waker: &Waker, value: T) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.queue.insert(ticket, (waker.clone(), value));
        ticket
    }

    /// Is the ticket still in the queue? If so it is `waker` that will be woken.
    pub(crate) fn update(&mut self, ticket: u64, waker: &Waker) -> bool {
        match self.queue.get_mut(&ticket) {
            Some((old, _)) => {
                old.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// What the first one in the queue brought.
    pub(crate) fn first(&self) -> Option<&T> {
        self.queue.first_key_value().map(|(_, (_, value))| value)
    }

    /// The first ticket in the queue, with what it brought.
    pub(crate) fn first_entry(&self) -> Option<(u64, &T)> {
        let (ticket, (_, value)) = self.queue.first_key_value()?;
        Some((*ticket, value))
    }

    /// What wakes the first one in the queue.
    pub(crate) fn first_waker(&self) -> Option<&Waker> {
        self.queue.first_key_value().map(|(_, (waker, _))| waker)
    }

    /// Is the ticket still in the queue?
    pub(crate) fn holds(&self, ticket: u64) -> bool {
        self.queue.contains_key(&ticket)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Waker, T)> {
        let (ticket, (waker, value)) = self.queue.pop_first()?;
        Some((ticket, waker, value))
    }

    /// Takes a ticket out of the queue; `false` if it was not there any more.
    pub(crate) fn remove(&mut self, ticket: u64) -> bool {
        self.queue.remove(&ticket).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The ticket that the next one to come will get: all before it are in the queue or served.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }
}
