//! A bounded channel between tasks of a shard.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::semaphore::{Permit, Semaphore};

struct Shared<T> {
    queue: VecDeque<(T, Permit)>,
    receiver_waker: Option<Waker>,
    senders: usize,
    receiver_gone: bool,
}

/// Puts values into a channel.
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
    room: Semaphore,
}

/// Knows a channel without keeping it open: it ends when all [`Sender`]s have gone, however many of
/// these there are.
pub struct WeakSender<T> {
    shared: Rc<RefCell<Shared<T>>>,
    room: Semaphore,
}

/// Takes values out of a channel, in the order in which they were sent.
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
    room: Semaphore,
}

/// The receiver has gone; here is the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("who was to receive has gone")]
pub struct Closed<T>(pub T);

/// A value that was not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// There is no room now.
    #[error("the queue is full")]
    Full(T),
    /// The receiver has gone.
    #[error("who was to receive has gone")]
    Closed(T),
}

/// A channel that holds up to `capacity` values, at least one.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Rc::new(RefCell::new(Shared {
        queue: VecDeque::new(),
        receiver_waker: None,
        senders: 1,
        receiver_gone: false,
    }));
    let room = Semaphore::new(capacity.max(1));
    let sender = Sender {
        shared: shared.clone(),
        room: room.clone(),
    };
    (sender, Receiver { shared, room })
}

impl<T> Sender<T> {
    /// Puts a value in, once there is room.
    pub async fn send(&self, value: T) -> Result<(), Closed<T>> {
        let permit = self.room.acquire(1).await;
        self.put(value, permit).map_err(Closed)
    }

    /// Puts a value in if there is room now.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.shared.borrow().receiver_gone {
            return Err(TrySendError::Closed(value));
        }
        match self.room.try_acquire(1) {
            Some(permit) => self.put(value, permit).map_err(TrySendError::Closed),
            None => Err(TrySendError::Full(value)),
        }
    }

    /// A handle that does not keep the channel open.
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
            shared: self.shared.clone(),
            room: self.room.clone(),
        }
    }

    fn put(&self, value: T, permit: Permit) -> Result<(), T> {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            if shared.receiver_gone {
                return Err(value);
            }
            shared.queue.push_back((value, permit));
            shared.receiver_waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.borrow_mut().senders += 1;
        Sender {
            shared: self.shared.clone(),
            room: self.room.clone(),
        }
    }
}

impl<T> WeakSender<T> {
    /// A sender, unless all have gone.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let shared = &mut *self.shared.borrow_mut();
        if shared.senders == 0 {
            return None;
        }
        shared.senders += 1;
        Some(Sender {
            shared: self.shared.clone(),
            room: self.room.clone(),
        })
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> WeakSender<T> {
        WeakSender {
            shared: self.shared.clone(),
            room: self.room.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            shared.senders -= 1;
            if shared.senders > 0 {
                return;
            }
            shared.receiver_waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next value; `None` once all senders have gone and the channel is empty.
    pub fn receive(&mut self) -> impl Future<Output = Option<T>> + '_ {
        poll_fn(|context| self.poll_receive(context))
    }

    /// The next value, if one is there.
    pub fn try_receive(&mut self) -> Option<T> {
        let first = self.shared.borrow_mut().queue.pop_front();
        first.map(|(value, _permit)| value)
    }

    /// How many values wait.
    pub fn len(&self) -> usize {
        self.shared.borrow().queue.len()
    }

    /// Does no value wait?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Have all senders gone? What they sent may still be here.
    pub fn is_closed(&self) -> bool {
        self.shared.borrow().senders == 0
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.try_receive() {
            return Poll::Ready(Some(value));
        }
        let mut shared = self.shared.borrow_mut();
        if shared.senders == 0 {
            return Poll::Ready(None);
        }
        shared.receiver_waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let unread = {
            let mut shared = self.shared.borrow_mut();
            shared.receiver_gone = true;
            std::mem::take(&mut shared.queue)
        };
        drop(unread);
        self.room.release_all_waiting();
    }
}
