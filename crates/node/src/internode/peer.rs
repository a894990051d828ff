//! A shard of another node, as whoever asks it sees it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use io::{Env, Instant, Notify, TaskGroup, TcpStream, oneshot};
use wire::internode::{Answer, Hello, Link, MessageHead, MessageKind, Refusal, Verb, Welcome};

use super::{READ_BUFFER, emptied, first_words};

/// How long connecting may take, first words included (`internode_tcp_connect_timeout`).
const CONNECT: Duration = Duration::from_secs(2);
/// How long nobody tries again after connecting failed. Requests fail at once meanwhile.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a peer may be silent while answers are due before it is asked whether it is there, and as
/// long again before the connection is given up. It may have gone without a word: what is sent then
/// would only wait for the system to notice, which takes minutes.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes of requests that may wait to be sent
/// (`internode_application_send_queue_capacity`).
const QUEUE_BYTES: usize = 4 << 20;

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
    /// The connection broke; nobody knows whether it has seen the request.
    #[error("the connection to {address} broke: {reason}")]
    Lost {
        /// Where it is.
        address: SocketAddr,
        /// How.
        reason: String,
    },
    /// Too much waits to be sent to it; it has not seen the request.
    #[error("{QUEUE_BYTES} bytes wait for {0}")]
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

impl Drop for Asking {
    fn drop(&mut self) {
        self.shared.closed.set(true);
        self.shared.wake.notify_one();
    }
}

/// Where an answer comes.
type Answered = oneshot::Receiver<Result<Bytes, PeerError>>;

/// What those who ask and the task of the connection share.
struct Shared {
    env: Env,
    address: SocketAddr,
    hello: Hello,
    queue: RefCell<VecDeque<Queued>>,
    /// Bytes of the bodies in the queue.
    queued: Cell<usize>,
    /// Those who wait for an answer, by the number of their request.
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Result<Bytes, PeerError>>>>,
    next: Cell<u64>,
    /// Until when nobody tries to connect, and why.
    down: RefCell<Option<(Instant, PeerError)>>,
    /// When the peer was heard last, or began to owe an answer.
    heard: Cell<Instant>,
    wake: Notify,
    closed: Cell<bool>,
}

/// A request that has not been sent yet.
struct Queued {
    number: u64,
    verb: Verb,
    epoch: u64,
    deadline: Instant,
    body: Bytes,
}

impl Peer {
    /// The shard that `hello` means, at `address`. Nothing is sent yet.
    pub fn new(env: &Env, address: SocketAddr, hello: Hello) -> Peer {
        let shared = Rc::new(Shared {
            env: env.clone(),
            address,
            hello,
            queue: RefCell::default(),
            queued: Cell::new(0),
            waiting: RefCell::default(),
            next: Cell::new(0),
            down: RefCell::default(),
            heard: Cell::new(env.now()),
            wake: Notify::new(),
            closed: Cell::new(false),
        });
        env.spawn(TaskGroup::Foreground, keep_connected(shared.clone()))
            .detach();
        Peer {
            asking: Rc::new(Asking { shared }),
        }
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
    fn enqueue(
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
        let queued = self.queued.get() + body.len();
        // One request always may wait, however large it is.
        if queued > QUEUE_BYTES && !self.queue.borrow().is_empty() {
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
    fn next_queued(&self) -> Option<Queued> {
        let now = self.env.now();
        loop {
            let request = self.queue.borrow_mut().pop_front()?;
            self.queued.set(self.queued.get() - request.body.len());
            if now < request.deadline && self.waiting.borrow().contains_key(&request.number) {
                return Some(request);
            }
        }
    }

    fn answer(&self, number: u64, answer: Result<Bytes, PeerError>) {
        let waiting = self.waiting.borrow_mut().remove(&number);
        // Who asked may have given up meanwhile.
        if let Some(sender) = waiting {
            let _ = sender.send(answer);
        }
    }

    /// Nobody who waits gets an answer any more, be the request sent or not.
    fn fail_all(&self, error: &PeerError) {
        self.queue.borrow_mut().clear();
        self.queued.set(0);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for sender in waiting.into_values() {
            let _ = sender.send(Err(error.clone()));
        }
    }

    /// Has nothing been heard for so long while answers were due?
    fn is_silent(&self, time: Duration) -> bool {
        let silent = self.env.now().saturating_duration_since(self.heard.get());
        silent >= time && !self.waiting.borrow().is_empty()
    }

    /// Asks whether the peer is there. Nobody waits for the answer but [`hear`], for any sign.
    fn ping(&self) {
        let _no_one_waits = self.enqueue(Verb::Ping, 0, SILENCE, Bytes::new());
    }

    fn unreachable(&self, reason: impl ToString) -> PeerError {
        PeerError::Unreachable {
            address: self.address,
            reason: reason.to_string(),
        }
    }

    fn lost(&self, reason: impl ToString) -> PeerError {
        PeerError::Lost {
            address: self.address,
            reason: reason.to_string(),
        }
    }
}

/// Connects whenever there is something to say, until nobody asks any more.
async fn keep_connected(shared: Rc<Shared>) {
    loop {
        while shared.queue.borrow().is_empty() {
            if shared.closed.get() {
                return;
            }
            shared.wake.notified().await;
        }
        let connecting = shared.env.timeout(CONNECT, connect(&shared));
        let connected = connecting.await;
        match connected.unwrap_or_else(|_| Err(shared.unreachable("it does not answer"))) {
            Ok(stream) => {
                let error = talk(&shared, stream).await;
                shared.fail_all(&error);
            }
            Err(error) => {
                let until = shared.env.now() + PAUSE;
                *shared.down.borrow_mut() = Some((until, error.clone()));
                shared.fail_all(&error);
            }
        }
    }
}

/// Connects and says the first words.
async fn connect(shared: &Shared) -> Result<TcpStream, PeerError> {
    let unreachable = |reason: std::io::Error| shared.unreachable(reason);
    let stream = shared.env.connect(shared.address).await;
    let stream = stream.map_err(unreachable)?;
    let mut words = Vec::new();
    shared.hello.encode(&mut words);
    stream.write_all(words).await.0.map_err(unreachable)?;
    match first_words(&stream, Answer::decode).await {
        Ok(Answer::Welcome(Welcome { .. })) => Ok(stream),
        Ok(Answer::Refused(refusal)) => Err(PeerError::Refused {
            address: shared.address,
            refusal,
        }),
        Err(reason) => Err(shared.unreachable(reason)),
    }
}

/// Sends requests and hears answers until the connection breaks, and says how it did.
async fn talk(shared: &Rc<Shared>, stream: TcpStream) -> PeerError {
    // Each direction ends the other.
    let broken: Rc<(Cell<Option<PeerError>>, Notify)> = Rc::default();
    let listening = {
        let (shared, stream, broken) = (shared.clone(), stream.clone(), broken.clone());
        let env = shared.env.clone();
        env.spawn(TaskGroup::Foreground, async move {
            let error = hear(&shared, &stream).await;
            broken.0.set(Some(error));
            shared.wake.notify_one();
        })
    };
    let error = tell(shared, &stream, || broken.0.take()).await;
    drop(listening.cancel());
    error
}

/// Sends what is queued, until the other direction has broken or nobody asks any more.
async fn tell(
    shared: &Shared,
    stream: &TcpStream,
    broken: impl Fn() -> Option<PeerError>,
) -> PeerError {
    let mut link = Link::new(shared.hello.compressed);
    let mut buffer = Vec::new();
    loop {
        if let Some(error) = broken() {
            return error;
        }
        fill(shared, &mut link);
        link.take_output(&mut buffer);
        if buffer.is_empty() {
            if shared.closed.get() {
                return shared.lost("nobody asks it any more");
            }
            shared.wake.notified().await;
            continue;
        }
        let mut sending = pin!(stream.write_all(buffer));
        let (sent, back) = loop {
            match shared.env.timeout(SILENCE, sending.as_mut()).await {
                Ok(sent) => break sent,
                Err(_) if shared.is_silent(2 * SILENCE) => {
                    return shared.lost("it takes nothing any more");
                }
                Err(_) => {}
            }
        };
        match sent {
            Ok(()) => buffer = emptied(back),
            Err(error) => return shared.lost(error),
        }
    }
}

/// Takes requests off the queue: as many as make one write.
fn fill(shared: &Shared, link: &mut Link) {
    while link.pending() < READ_BUFFER {
        let Some(request) = shared.next_queued() else {
            return;
        };
        let left = request.deadline.saturating_duration_since(shared.env.now());
        let head = MessageHead {
            kind: MessageKind::Request(request.verb),
            number: request.number,
            time_left: Some(left),
            epoch: request.epoch,
        };
        if let Err(error) = link.send(&head, |body| body.extend_from_slice(&request.body)) {
            shared.answer(request.number, Err(PeerError::TooLong(error.to_string())));
        }
    }
}

/// Hears answers until the connection breaks.
async fn hear(shared: &Shared, stream: &TcpStream) -> PeerError {
    let mut link = Link::new(shared.hello.compressed);
    let mut buffer = Vec::with_capacity(READ_BUFFER);
    let mut input = BytesMut::new();
    loop {
        let (read, bytes) = match shared.env.timeout(SILENCE, stream.read(buffer)).await {
            Ok(read) => read,
            Err(_) if shared.is_silent(2 * SILENCE) => return shared.lost("it is silent"),
            Err(_) => {
                if shared.is_silent(SILENCE) {
                    shared.ping();
                }
                buffer = Vec::with_capacity(READ_BUFFER);
                continue;
            }
        };
        match read {
            Ok(0) => return shared.lost("it hung up"),
            Ok(_) => input.extend_from_slice(&bytes),
            Err(error) => return shared.lost(error),
        }
        buffer = emptied(bytes);
        shared.heard.set(shared.env.now());
        loop {
            let message = match link.receive(&mut input) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return shared.lost(error),
            };
            match message.head.kind {
                MessageKind::Reply => shared.answer(message.head.number, Ok(message.body)),
                MessageKind::Failure => {
                    let failed = PeerError::Failed(message.body);
                    shared.answer(message.head.number, Err(failed));
                }
                MessageKind::Request(_) | MessageKind::Unknown(_) => {
                    return shared.lost("it asks where it should answer");
                }
            }
        }
    }
}
