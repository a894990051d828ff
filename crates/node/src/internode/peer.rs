//! A shard of another node, as whoever asks it sees it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io::{Env, Instant, Notify, TaskGroup, oneshot};
use wire::internode::{Hello, Refusal, Verb};

use super::connection::keep_connected;
use super::encryption::Encryption;
use super::inbound::REQUEST_BYTES;
use crate::metrics::ShardMetrics;
use crate::timeouts::Timeouts;

/// Bytes of requests that may wait to be sent
/// (`internode_application_send_queue_capacity`).
const QUEUE_BYTES: usize = 4 << 20;
/// The same for all peers of a shard together (`internode_application_send_queue_reserve_global_capacity`).
const ALL_QUEUES_BYTES: usize = 64 << 20;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It cannot be reached; it has not seen the request.
    #[error("{address} cannot be reached: {reason}")]
    Unreachable {
        /// Where it is.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// It does not talk to us; it has not seen the request.
    #[error("{address} refuses: {refusal}")]
    Refused {
        /// Where it is.
        address: SocketAddr,
        /// Why.
        refusal: Refusal,
    },
    /// Both cannot agree on TLS; it has not seen the request.
    #[error("{address} cannot be talked to under TLS: {reason}")]
    Insecure {
        /// Where it is.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The connection broke; nobody knows whether it has seen the request.
    #[error("the connection to {address} broke: {reason}")]
    Lost {
        /// Where it is.
        address: SocketAddr,
        /// How.
        reason: String,
    },
    /// Too much waits to be sent to it; it has not seen the request.
    #[error("too many bytes wait for {0} and others")]
    Overloaded(SocketAddr),
    /// It has not answered in time.
    #[error("{0} has not answered in time")]
    TimedOut(SocketAddr),
    /// The request is too large to be sent.
    #[error("{0}")]
    TooLong(String),
    /// It says that it could not do what was asked, in words of the one who was asked.
    #[error("it failed")]
    Failed(Bytes),
}

/// A shard of another node. Cheap to clone; the connection is closed when the last clone is dropped.
#[derive(Clone)]
pub struct Peer {
    asking: Rc<Asking>,
}

struct Asking {
    shared: Rc<Shared>,
}

/// What the connections of a shard to others have in common.
#[derive(Clone, Default)]
pub struct Terms {
    /// Where what happens to them is counted.
    pub metrics: Arc<ShardMetrics>,
    /// How long connecting may take, first words included.
    pub timeouts: Rc<Timeouts>,
    /// Bytes that wait to be sent to any of them.
    queued: Rc<Cell<usize>>,
}

impl Terms {
    /// Nothing waits yet.
    pub fn new(metrics: Arc<ShardMetrics>, timeouts: Rc<Timeouts>) -> Terms {
        Terms {
            metrics,
            timeouts,
            queued: Rc::default(),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.shared.closed.set(true);
        self.shared.wake.notify_one();
    }
}

/// Where an answer comes.
type Answered = oneshot::Receiver<Result<Bytes, PeerError>>;

/// What those who ask and the task of the connection share.
pub(super) struct Shared {
    pub(super) env: Env,
    pub(super) address: SocketAddr,
    pub(super) hello: Hello,
    /// How TLS is spoken; `None`: it is not.
    pub(super) encryption: Option<Arc<Encryption>>,
    pub(super) terms: Terms,
    queue: RefCell<VecDeque<Queued>>,
    /// Bytes of what is in the queue.
    queued: Cell<usize>,
    /// Those who wait for an answer, by the number of their request.
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Result<Bytes, PeerError>>>>,
    next: Cell<u64>,
    /// Until when nobody tries to connect, and why.
    pub(super) down: RefCell<Option<(Instant, PeerError)>>,
    /// When the peer was heard last, or began to owe an answer.
    pub(super) heard: Cell<Instant>,
    pub(super) wake: Notify,
    pub(super) closed: Cell<bool>,
    /// Was the node found to be down or up? What was begun before that is begun anew.
    pub(super) anew: Notify,
    /// Is there a connection, or is one made?
    pub(super) standing: Cell<Standing>,
    /// Why it was not talked to the last time, so that it is said once.
    pub(super) told: RefCell<Option<String>>,
}

/// What there is of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    None,
    Connecting,
    Connected,
}

/// A request that has not been sent yet.
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) verb: Verb,
    pub(super) epoch: u64,
    pub(super) deadline: Instant,
    pub(super) body: Bytes,
}

impl Queued {
    /// What it takes while it waits, in bytes.
    fn size(&self) -> usize {
        self.body.len() + REQUEST_BYTES
    }
}

impl Peer {
    /// The shard that `hello` means, at `address`; under TLS if there is an `encryption`. Nothing is sent
    /// yet.
    pub fn new(
        env: &Env,
        address: SocketAddr,
        hello: Hello,
        encryption: Option<Arc<Encryption>>,
        terms: Terms,
    ) -> Peer {
        let shared = Rc::new(Shared {
            env: env.clone(),
            address,
            hello,
            encryption,
            terms,
            queue: RefCell::default(),
            queued: Cell::new(0),
            waiting: RefCell::default(),
            next: Cell::new(0),
            down: RefCell::default(),
            heard: Cell::new(env.now()),
            wake: Notify::new(),
            closed: Cell::new(false),
            anew: Notify::new(),
            standing: Cell::new(Standing::None),
            told: RefCell::default(),
        });
        env.spawn(TaskGroup::Foreground, keep_connected(shared.clone()))
            .detach();
        Peer {
            asking: Rc::new(Asking { shared }),
        }
    }

    /// The node was found to be up: whoever waits for a connection gets it as soon as there can be one.
    pub fn found_up(&self) {
        let shared = &*self.asking.shared;
        shared.down.borrow_mut().take();
        if shared.standing.get() == Standing::Connecting {
            shared.anew.notify_one();
        }
    }

    /// The node was found to be down: nobody waits for its answers any more.
    pub fn found_down(&self) {
        let shared = &*self.asking.shared;
        if shared.standing.get() == Standing::Connected {
            shared.anew.notify_one();
            shared.wake.notify_one();
        }
    }

    /// How many requests were sent, or wait to be.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> u64 {
        self.asking.shared.next.get()
    }

    /// How many requests wait to be sent, and how many were answered or given up.
    pub fn messages(&self) -> (u64, u64) {
        let shared = &*self.asking.shared;
        let open = shared.waiting.borrow().len() as u64;
        let queued = shared.queue.borrow().len() as u64;
        (queued, shared.next.get().saturating_sub(open))
    }

    /// Asks for something and waits for the answer, no longer than `time`.
    ///
    /// # Errors
    /// There is none. See [`PeerError`] for which of them leave open whether it was done.
    pub async fn ask(
        &self,
        verb: Verb,
        epoch: u64,
        time: Duration,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, PeerError> {
        let shared = &*self.asking.shared;
        let (number, receiver) = shared.enqueue(verb, epoch, time, body.into())?;
        let mut pending = Pending {
            shared,
            number,
            receiver,
        };
        match shared.env.timeout(time, &mut pending.receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(PeerError::TimedOut(shared.address)),
        }
    }
}

/// A request whose answer is waited for; forgotten when dropped.
struct Pending<'s> {
    shared: &'s Shared,
    number: u64,
    receiver: Answered,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let forgotten = self.shared.waiting.borrow_mut().remove(&self.number);
        drop(forgotten);
    }
}

impl Shared {
    /// Puts a request into the queue; gives its number and where its answer comes.
    pub(super) fn enqueue(
        &self,
        verb: Verb,
        epoch: u64,
        time: Duration,
        body: Bytes,
    ) -> Result<(u64, Answered), PeerError> {
        let now = self.env.now();
        if let Some((until, error)) = &*self.down.borrow()
            && now < *until
        {
            return Err(error.clone());
        }
        let size = body.len() + REQUEST_BYTES;
        let (queued, of_all) = (self.queued.get() + size, self.terms.queued.get() + size);
        // One request always may wait, however large it is.
        if (queued > QUEUE_BYTES || of_all > ALL_QUEUES_BYTES) && !self.queue.borrow().is_empty() {
            self.terms.metrics.shed_messages.add(1);
            return Err(PeerError::Overloaded(self.address));
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let (sender, receiver) = oneshot();
        if self.waiting.borrow().is_empty() {
            self.heard.set(now);
        }
        self.waiting.borrow_mut().insert(number, sender);
        self.queued.set(queued);
        self.terms.queued.set(of_all);
        self.queue.borrow_mut().push_back(Queued {
            number,
            verb,
            epoch,
            deadline: now + time,
            body,
        });
        self.wake.notify_one();
        Ok((number, receiver))
    }

    /// Takes the next request whose answer somebody still waits for.
    pub(super) fn next_queued(&self) -> Option<Queued> {
        let now = self.env.now();
        loop {
            let request = self.queue.borrow_mut().pop_front()?;
            self.unqueue(request.size());
            if now < request.deadline && self.waiting.borrow().contains_key(&request.number) {
                return Some(request);
            }
            if now >= request.deadline {
                self.terms.metrics.count_late(Some(request.verb));
                // No answer is due any more.
                drop(self.waiting.borrow_mut().remove(&request.number));
            }
        }
    }

    /// So many bytes wait no more.
    fn unqueue(&self, bytes: usize) {
        self.queued.set(self.queued.get() - bytes);
        self.terms.queued.set(self.terms.queued.get() - bytes);
    }

    /// Does anything wait to be sent?
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    pub(super) fn answer(&self, number: u64, answer: Result<Bytes, PeerError>) {
        let waiting = self.waiting.borrow_mut().remove(&number);
        // Who asked may have given up meanwhile.
        if let Some(sender) = waiting {
            let _ = sender.send(answer);
        }
    }

    /// Nobody who waits gets an answer any more, be the request sent or not.
    pub(super) fn fail_all(&self, error: &PeerError) {
        self.queue.borrow_mut().clear();
        self.unqueue(self.queued.get());
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for sender in waiting.into_values() {
            let _ = sender.send(Err(error.clone()));
        }
    }

    /// For how long has nothing been heard, and are answers due?
    pub(super) fn silence(&self) -> (Duration, bool) {
        let silent = self.env.now().saturating_duration_since(self.heard.get());
        (silent, !self.waiting.borrow().is_empty())
    }

    pub(super) fn unreachable(&self, reason: impl ToString) -> PeerError {
        PeerError::Unreachable {
            address: self.address,
            reason: reason.to_string(),
        }
    }

    pub(super) fn lost(&self, reason: impl ToString) -> PeerError {
        PeerError::Lost {
            address: self.address,
            reason: reason.to_string(),
        }
    }
}
