//! A bounded queue into a shard from threads that are none, such as the one that serves HTTP.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::mesh::Full;

struct Shared<M> {
    state: Mutex<State<M>>,
    capacity: usize,
}

struct State<M> {
    queue: VecDeque<M>,
    waker: Option<Waker>,
    inlets: usize,
}

impl<M> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue that takes up to `capacity` messages (at least one) from any thread to one task.
pub fn inlet<M: Send>(capacity: usize) -> (Inlet<M>, Outlet<M>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            queue: VecDeque::new(),
            waker: None,
            inlets: 1,
        }),
        capacity: capacity.max(1),
    });
    let inlet = Inlet {
        shared: shared.clone(),
    };
    (inlet, Outlet { shared })
}

/// Where any thread puts messages in.
pub struct Inlet<M> {
    shared: Arc<Shared<M>>,
}

/// Where a task of a shard takes messages out.
pub struct Outlet<M> {
    shared: Arc<Shared<M>>,
}

impl<M: Send> Inlet<M> {
    /// Puts a message in, if there is room.
    pub fn try_send(&self, message: M) -> Result<(), Full<M>> {
        let waker = {
            let mut state = self.shared.lock();
            if state.queue.len() >= self.shared.capacity {
                return Err(Full(message));
            }
            state.queue.push_back(message);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl<M> Clone for Inlet<M> {
    fn clone(&self) -> Inlet<M> {
        self.shared.lock().inlets += 1;
        Inlet {
            shared: self.shared.clone(),
        }
    }
}

impl<M> Drop for Inlet<M> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.shared.lock();
            state.inlets -= 1;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<M: Send> Outlet<M> {
    /// The next message; `None` once all inlets have gone and the queue is empty.
    pub fn recv(&mut self) -> impl Future<Output = Option<M>> + '_ {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            if let Some(message) = state.queue.pop_front() {
                return Poll::Ready(Some(message));
            }
            if state.inlets == 0 {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }
}
