//! The connection to a shard of another node: made when there is something to say, and again after it broke.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use io::{Notify, TaskGroup};
use wire::internode::{Answer, Link, MessageHead, MessageKind, Refusal, Verb, Welcome};

use super::encryption::Encryption;
use super::peer::{PeerError, Shared, Standing};
use super::stream::{HandshakeError, Stream};
use super::{READ_BUFFER, Unheard, emptied, first_words};
use crate::peers::LEADING_SHARD;
use crate::timeouts::TimeoutKind;
use crate::tls::TlsError;

/// How long nobody tries again after connecting failed. Requests fail at once meanwhile.
const PAUSE: Duration = Duration::from_millis(200);
/// How often it is looked whether a peer is silent.
const LOOK: Duration = Duration::from_millis(500);
/// How long a peer may be silent while answers are due before it is asked whether it is there.
const ASK: Duration = Duration::from_secs(1);
/// How long it may be before it is given up: it may have gone without a word, or the way to it, and the system
/// would not notice for minutes. Its system has acknowledged nothing for as long either, where that is known:
/// a large request on a narrow way is no silence.
const GONE: Duration = Duration::from_secs(2);
/// How long a process may be silent whose system is there.
const STUCK: Duration = Duration::from_secs(10);
/// How long nothing may be said before a peer is asked whether it is there: a way can vanish while nobody looks,
/// and what is on it (firewalls, address translation) forgets who says nothing. So the first request after that
/// has not to wait until it is noticed.
const IDLE: Duration = Duration::from_secs(10);

/// Connects whenever there is something to say, until nobody asks any more.
pub(super) async fn keep_connected(shared: Rc<Shared>) {
    loop {
        while !shared.has_queued() {
            if shared.closed.get() {
                return;
            }
            shared.wake.notified().await;
        }
        shared.standing.set(Standing::Connecting);
        let connected = connect_in_time(&shared).await;
        match connected {
            Ok(stream) => {
                shared.told.take();
                shared.standing.set(Standing::Connected);
                let error = talk(&shared, stream).await;
                if !shared.closed.get() {
                    shared.terms.metrics.lost_connections.add(1);
                }
                shared.fail_all(&error);
            }
            Err(error) => {
                tell_operator(&shared, &error);
                let until = shared.env.now() + PAUSE;
                *shared.down.borrow_mut() = Some((until, error.clone()));
                shared.fail_all(&error);
            }
        }
        shared.standing.set(Standing::None);
    }
}

/// Connects; begins anew when the node was found to be up meanwhile.
async fn connect_in_time(shared: &Shared) -> Result<Stream, PeerError> {
    loop {
        let time = shared.terms.timeouts.get(TimeoutKind::InternodeConnect);
        let connecting = shared.env.timeout(time, connect(shared));
        if let Some(connected) = either(connecting, shared.anew.notified()).await {
            return connected.unwrap_or_else(|_| Err(shared.unreachable("it does not answer")));
        }
    }
}

/// What comes of a future, `None` if the other one ends before.
async fn either<T>(future: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    let (mut future, mut other) = (pin!(future), pin!(other));
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        other.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Says why a node is not talked to, if that needs an operator: once, and only along the one connection that
/// all nodes have to each other.
fn tell_operator(shared: &Shared, error: &PeerError) {
    let leads = shared.env.shard().0 == LEADING_SHARD && shared.hello.shard == LEADING_SHARD;
    if !leads
        || !matches!(
            error,
            PeerError::Refused { .. } | PeerError::Insecure { .. }
        )
    {
        return;
    }
    let text = error.to_string();
    if shared.told.borrow().as_ref() != Some(&text) {
        tracing::warn!("{text}");
        *shared.told.borrow_mut() = Some(text);
    }
}

/// Connects and says the first words.
async fn connect(shared: &Shared) -> Result<Stream, PeerError> {
    let stream = match &shared.encryption {
        None => plain(shared).await?,
        Some(encryption) => match secure(shared, encryption).await {
            Ok(stream) => stream,
            Err(Insecure::NoTls) if encryption.may_be_plain() => plain(shared).await?,
            Err(Insecure::NoTls) => {
                return Err(PeerError::Refused {
                    address: shared.address,
                    refusal: Refusal::NoTls,
                });
            }
            Err(Insecure::Other(error)) => return Err(error),
        },
    };
    let unreachable = |reason: std::io::Error| shared.unreachable(reason);
    let mut words = Vec::new();
    shared.hello.encode(&mut words);
    stream.write_all(words).await.0.map_err(unreachable)?;
    match first_words(&stream, BytesMut::new(), Answer::decode).await {
        Ok(Answer::Welcome(Welcome { .. })) => Ok(stream),
        Ok(Answer::Refused(refusal)) => Err(PeerError::Refused {
            address: shared.address,
            refusal,
        }),
        // With version 1.3 it judges this node's certificate only now.
        Err(Unheard::Gone(reason)) if stream.is_secure() && is_of_tls(&reason) => {
            Err(insecure(shared, reason))
        }
        Err(reason) => Err(shared.unreachable(reason)),
    }
}

fn is_of_tls(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<TlsError>())
}

fn insecure(shared: &Shared, reason: impl ToString) -> PeerError {
    PeerError::Insecure {
        address: shared.address,
        reason: reason.to_string(),
    }
}

async fn plain(shared: &Shared) -> Result<Stream, PeerError> {
    let socket = shared.env.connect(shared.address).await;
    let socket = socket.map_err(|reason| shared.unreachable(reason))?;
    Ok(Stream::plain(socket))
}

/// Why there is no connection under TLS.
enum Insecure {
    /// The other side takes none.
    NoTls,
    Other(PeerError),
}

async fn secure(shared: &Shared, encryption: &Encryption) -> Result<Stream, Insecure> {
    let other = |error| Insecure::Other(error);
    let socket = shared.env.connect(shared.address).await;
    let socket = socket.map_err(|reason| other(shared.unreachable(reason)))?;
    let context = encryption.context();
    let tls = context.connect(shared.address.ip(), shared.env.wall_micros());
    let tls = tls.map_err(|error| other(insecure(shared, error)))?;
    match Stream::secure(socket, tls, &[]).await {
        Ok(stream) => Ok(stream),
        // Versions before there was TLS hang up.
        Err(HandshakeError::HungUp { spoke: false }) => Err(Insecure::NoTls),
        Err(HandshakeError::Plain(words)) => {
            Err(match Answer::decode(&mut BytesMut::from(&words[..])) {
                Ok(Some(Answer::Refused(Refusal::NoTls))) => Insecure::NoTls,
                _ => other(insecure(shared, "what it says is not TLS")),
            })
        }
        Err(HandshakeError::Io(error)) => Err(other(shared.unreachable(error))),
        Err(error) => Err(other(insecure(shared, error))),
    }
}

/// Sends requests and hears answers until the connection breaks, and says how it did.
async fn talk(shared: &Rc<Shared>, stream: Stream) -> PeerError {
    // Each direction ends the other.
    let broken: Rc<(Cell<Option<PeerError>>, Notify)> = Rc::default();
    let listening = {
        let (shared, stream, broken) = (shared.clone(), stream.clone(), broken.clone());
        let env = shared.env.clone();
        env.spawn(TaskGroup::Foreground, async move {
            let error = hear(&shared, &stream).await;
            broken.0.set(Some(error));
            broken.1.notify_one();
            shared.wake.notify_one();
        })
    };
    let error = tell(shared, &stream, &broken).await;
    drop(listening.cancel());
    error
}

/// Sends what is queued, until the other direction has broken or nobody asks any more.
async fn tell(
    shared: &Shared,
    stream: &Stream,
    broken: &(Cell<Option<PeerError>>, Notify),
) -> PeerError {
    let mut link = Link::new(shared.hello.compressed);
    let mut buffer = Vec::new();
    loop {
        if let Some(error) = broken.0.take() {
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
        // Who hears is who notices that nothing is taken any more.
        let sending = either(stream.write_all(buffer), broken.1.notified());
        let Some((sent, back)) = sending.await else {
            buffer = Vec::new();
            continue;
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
async fn hear(shared: &Shared, stream: &Stream) -> PeerError {
    let mut link = Link::new(shared.hello.compressed);
    let mut buffer = Vec::with_capacity(READ_BUFFER);
    let mut input = BytesMut::new();
    loop {
        let reading = shared.env.timeout(LOOK, stream.read(buffer));
        let (read, bytes) = match either(reading, shared.anew.notified()).await {
            None => return shared.lost("its node was found to be down"),
            Some(Ok(read)) => read,
            Some(Err(_)) => {
                if is_gone(shared, stream) {
                    return shared.lost("it is silent");
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

/// Has the peer gone without a word? One that is silent is asked.
fn is_gone(shared: &Shared, stream: &Stream) -> bool {
    let (silent, answers_due) = shared.silence();
    if answers_due && silent >= STUCK {
        return true;
    }
    if answers_due && silent >= GONE && stream.acknowledged().is_none_or(|ago| ago >= GONE) {
        return true;
    }
    let patience = match answers_due {
        true => ASK,
        false => IDLE,
    };
    if silent >= patience {
        // Nobody waits for the answer but who hears, for any sign.
        let _no_one_waits = shared.enqueue(Verb::Ping, 0, GONE, Bytes::new());
    }
    false
}
