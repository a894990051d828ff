//! A channel for one value between two tasks of a shard.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Shared<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// Gives the value, or is dropped and gives none.
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// Awaits the value.
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The sender was dropped before it gave a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("who was to answer has gone")]
pub struct Cancelled;

/// A channel for one value.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Rc::new(RefCell::new(Shared {
        value: None,
        waker: None,
        sender_gone: false,
        receiver_gone: false,
    }));
    let sender = Sender {
        shared: shared.clone(),
    };
    (sender, Receiver { shared })
}

impl<T> Sender<T> {
    /// Gives the value; gives it back if nobody waits for it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut shared = self.shared.borrow_mut();
        if shared.receiver_gone {
            return Err(value);
        }
        shared.value = Some(value);
        Ok(())
        // Dropping the sender wakes the receiver.
    }

    /// Does nobody wait for the value any more?
    pub fn is_closed(&self) -> bool {
        self.shared.borrow().receiver_gone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            shared.sender_gone = true;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The value, if it is there already.
    pub fn try_receive(&mut self) -> Option<T> {
        self.shared.borrow_mut().value.take()
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Cancelled>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.borrow_mut();
        if let Some(value) = shared.value.take() {
            return Poll::Ready(Ok(value));
        }
        if shared.sender_gone {
            return Poll::Ready(Err(Cancelled));
        }
        shared.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let unread = {
            let mut shared = self.shared.borrow_mut();
            shared.receiver_gone = true;
            (shared.value.take(), shared.waker.take())
        };
        drop(unread);
    }
}
