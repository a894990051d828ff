//! Waking tasks that wait for something to happen.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::waiters::Waiters;

/// Wakes tasks of the same shard. It carries no value: who is woken looks what happened.
#[derive(Default)]
pub struct Notify {
    waiters: RefCell<Waiters<()>>,
    /// `notify_one` was called while nobody waited.
    permit: Cell<bool>,
    /// Everybody with a ticket below this was woken by `notify_all`.
    woken_all: Cell<u64>,
}

impl Notify {
    /// A notifier that nobody waits for.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the one who has waited longest. If nobody waits, the next one to wait goes on at once;
    /// calling it twice then has no more effect than once.
    pub fn notify_one(&self) {
        let first = self.waiters.borrow_mut().pop();
        match first {
            Some((_, waker, ())) => waker.wake(),
            None => self.permit.set(true),
        }
    }

    /// Wakes all who wait now, and leaves nothing for those who come later.
    pub fn notify_all(&self) {
        self.woken_all.set(self.waiters.borrow().end());
        loop {
            let first = self.waiters.borrow_mut().pop();
            match first {
                Some((_, waker, ())) => waker.wake(),
                None => return,
            }
        }
    }

    /// Waits for the next notification. It waits from the first poll on.
    pub fn notified(&self) -> Notified<'_> {
        Notified {
            notify: self,
            state: State::New,
        }
    }
}

/// Waits for a notification. A notification that comes to one that is dropped goes to the next.
#[must_use = "nothing waits until this is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    state: State,
}

enum State {
    New,
    Waiting(u64),
    Done,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        match self.state {
            State::New if notify.permit.replace(false) => {}
            State::New => {
                let ticket = notify.waiters.borrow_mut().push(context.waker(), ());
                self.state = State::Waiting(ticket);
                return Poll::Pending;
            }
            State::Waiting(ticket) => {
                if notify.waiters.borrow_mut().update(ticket, context.waker()) {
                    return Poll::Pending;
                }
            }
            State::Done => {}
        }
        self.state = State::Done;
        Poll::Ready(())
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if let State::Waiting(ticket) = self.state {
            let waited = self.notify.waiters.borrow_mut().remove(ticket);
            if !waited && ticket >= self.notify.woken_all.get() {
                self.notify.notify_one();
            }
        }
    }
}
