//! Queues between the shards of a node: a bounded single-producer, single-consumer ring for every
//! ordered pair.
//!
//! A shard looks at its rings every turn, so a message to a shard that is awake costs no more than
//! a store and a load. The bell of a shard that sleeps is rung once at the end of the sender's
//! turn, however many messages went its way. A sender that waits for room looks again after
//! [`IMPATIENCE`]: a full ring means that the receiver is awake and busy, and so the receiver need
//! not know who waits.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::doorbell::Doorbell;
use crate::env::{Env, Polled};

/// How long a shard that waits for room in a ring may sleep.
pub(crate) const IMPATIENCE: Duration = Duration::from_micros(100);

/// Makes the rings between `shards` shards, each for up to `capacity` messages that have not been
/// received, and a seat for each shard.
pub fn mesh<M: Send>(shards: u16, capacity: usize) -> Vec<MeshSeat<M>> {
    let bells: Arc<[OnceLock<Arc<Doorbell>>]> = (0..shards).map(|_| OnceLock::new()).collect();
    let mut seats: Vec<MeshSeat<M>> = (0..shards)
        .map(|shard| MeshSeat {
            shard,
            to: Vec::new(),
            from: Vec::new(),
            bells: bells.clone(),
        })
        .collect();
    for sender in 0..usize::from(shards) {
        for receiver in 0..usize::from(shards) {
            let (producer, consumer) = RingBuffer::new(capacity.max(1));
            seats[sender].to.push(producer);
            seats[receiver].from.push(consumer);
        }
    }
    seats
}

/// A shard's place in a mesh that it has not taken yet. It may go to the shard's thread.
pub struct MeshSeat<M> {
    shard: u16,
    to: Vec<Producer<M>>,
    from: Vec<Consumer<M>>,
    bells: Arc<[OnceLock<Arc<Doorbell>>]>,
}

impl<M: Send + 'static> MeshSeat<M> {
    /// Whose seat this is.
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// Takes the seat, on the shard whose it is.
    pub fn join(self, env: &Env) -> Mesh<M> {
        assert_eq!(
            self.shard,
            env.shard().0,
            "a seat is taken by its own shard"
        );
        // Messages may have come already; the next turn looks at them.
        let _ = self.bells[usize::from(self.shard)].set(env.inner.doorbell.clone());
        let inner = Rc::new(Inner {
            env: env.clone(),
            to: self.to.into_iter().map(RefCell::new).collect(),
            from: self.from.into_iter().map(RefCell::new).collect(),
            bells: self.bells,
            receiver: RefCell::new(None),
            next: Cell::new(0),
            senders: RefCell::default(),
        });
        let polled: Rc<dyn Polled> = inner.clone();
        env.add_polled(Rc::downgrade(&polled));
        Mesh { inner }
    }
}

/// A message that found no room: the receiving shard has too much to do.
#[derive(PartialEq, Eq, thiserror::Error)]
#[error("the queue to the other shard is full")]
pub struct Full<M>(pub M);

impl<M> fmt::Debug for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

/// A shard's place in a mesh. Messages from one shard to another arrive in the order in which they
/// were sent. Cheap to clone; one task receives.
pub struct Mesh<M> {
    inner: Rc<Inner<M>>,
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Mesh<M> {
        Mesh {
            inner: self.inner.clone(),
        }
    }
}

struct Inner<M> {
    env: Env,
    to: Vec<RefCell<Producer<M>>>,
    from: Vec<RefCell<Consumer<M>>>,
    bells: Arc<[OnceLock<Arc<Doorbell>>]>,
    receiver: RefCell<Option<Waker>>,
    /// The ring to look at first.
    next: Cell<usize>,
    /// Tasks that wait for room, by the receiving shard.
    senders: RefCell<Vec<(u16, Waker)>>,
}

impl<M: Send + 'static> Mesh<M> {
    /// Sends a message if there is room for it.
    pub fn try_send(&self, to: u16, message: M) -> Result<(), Full<M>> {
        let inner = &*self.inner;
        let pushed = inner.to[usize::from(to)].borrow_mut().push(message);
        match pushed {
            Ok(()) => {
                if let Some(bell) = inner.bells[usize::from(to)].get() {
                    inner.env.ring_later(bell);
                }
                Ok(())
            }
            Err(PushError::Full(message)) => Err(Full(message)),
        }
    }

    /// Sends a message once there is room for it. If the other shard has left for good, the message
    /// is dropped: the node is about to end.
    pub async fn send(&self, to: u16, message: M) {
        let mut message = Some(message);
        poll_fn(|context| {
            let Some(unsent) = message.take() else {
                return Poll::Ready(());
            };
            let Err(Full(unsent)) = self.try_send(to, unsent) else {
                return Poll::Ready(());
            };
            if self.inner.to[usize::from(to)].borrow().is_abandoned() {
                return Poll::Ready(());
            }
            message = Some(unsent);
            let mut senders = self.inner.senders.borrow_mut();
            senders.push((to, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// The next message, with the shard it comes from. The rings take turns.
    pub fn recv(&self) -> impl Future<Output = (u16, M)> + '_ {
        poll_fn(|context| self.poll_recv(context))
    }

    /// The next message, if one is there.
    pub fn try_recv(&self) -> Option<(u16, M)> {
        let inner = &*self.inner;
        let shards = inner.from.len();
        for step in 0..shards {
            let from = (inner.next.get() + step) % shards;
            let popped = inner.from[from].borrow_mut().pop();
            if let Ok(message) = popped {
                inner.next.set((from + 1) % shards);
                return Some((from as u16, message));
            }
        }
        None
    }

    fn poll_recv(&self, context: &mut Context<'_>) -> Poll<(u16, M)> {
        if self.inner.env.poll_operation(context).is_pending() {
            return Poll::Pending;
        }
        if let Some(received) = self.try_recv() {
            return Poll::Ready(received);
        }
        *self.inner.receiver.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<M> Polled for Inner<M> {
    fn poll_now(&self) -> bool {
        self.wake_senders();
        if !self.has_message() {
            return false;
        }
        let waker = self.receiver.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn is_ready(&self) -> bool {
        self.has_message()
    }

    fn is_impatient(&self) -> bool {
        !self.senders.borrow().is_empty()
    }
}

impl<M> Inner<M> {
    /// Is there a message that somebody waits for?
    fn has_message(&self) -> bool {
        self.receiver.borrow().is_some() && self.from.iter().any(|ring| !ring.borrow().is_empty())
    }

    fn wake_senders(&self) {
        if self.senders.borrow().is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut *self.senders.borrow_mut());
        for (to, waker) in waiting {
            let ring = self.to[usize::from(to)].borrow();
            let go_on = !ring.is_full() || ring.is_abandoned();
            drop(ring);
            if go_on {
                waker.wake();
            } else {
                self.senders.borrow_mut().push((to, waker));
            }
        }
    }
}
