//! What other nodes ask.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use io::{Env, Notify, TaskGroup, TcpStream};
use wire::internode::{Answer, Hello, Identity, Link, MessageHead, MessageKind, Refusal, Verb};

use super::encryption::Encryption;
use super::stream::{HandshakeError, Stream, is_tls};
use super::{READ_BUFFER, Unheard, emptied, first_words};
use crate::metrics::ShardMetrics;
use crate::tls::TlsError;

/// How long the first words may take.
const GREETING: Duration = Duration::from_secs(5);
/// Bytes of requests that one connection may have under way, and of answers that may wait to be sent:
/// beyond that it is not read from (`internode_application_receive_queue_capacity`).
const UNDER_WAY_BYTES: usize = 4 << 20;
/// How often a node that reads nothing says that it is there. Peers take who is silent for longer to be gone.
const SIGN: Duration = Duration::from_millis(500);
/// How long nothing may come along a connection: who asks says something every ten seconds or so, so it has gone
/// without a word.
const UNHEARD: Duration = Duration::from_secs(60);
/// What a request takes besides its bytes.
pub(super) const REQUEST_BYTES: usize = 512;

/// Whoever connected was not let in.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It was told why.
    #[error("a node of the cluster `{cluster}` was refused: {refusal}")]
    Unfit {
        /// The cluster it says it belongs to.
        cluster: String,
        /// What it was told.
        refusal: Refusal,
    },
    /// It speaks TLS, and this node does not.
    #[error("a node that connects under TLS was refused: {}", Refusal::NoTls)]
    NoTls,
    /// It cannot agree with this node on TLS.
    #[error("a node that connects under TLS was refused: {0}")]
    Insecure(#[from] TlsError),
    /// It is no node, or went away.
    #[error(transparent)]
    Unheard(#[from] Unheard),
    /// It said nothing.
    #[error("it said nothing for {} s", GREETING.as_secs())]
    Silent,
}

/// Who receives connections, and how.
#[derive(Clone, Copy)]
pub struct Reception<'r> {
    /// The node that answers.
    pub identity: &'r Identity,
    /// How it takes TLS; `None`: it does not.
    pub encryption: Option<&'r Encryption>,
    /// Is who said this taken without TLS?
    pub takes_plain: &'r dyn Fn(&Hello) -> bool,
}

impl<'r> Reception<'r> {
    /// Of a node without TLS.
    pub fn plain(identity: &'r Identity) -> Reception<'r> {
        Reception {
            identity,
            encryption: None,
            takes_plain: &|_| true,
        }
    }
}

/// Hears the first words on a connection that was accepted, and answers. What is returned is what was said;
/// requests may come then.
///
/// # Errors
/// The connection is to be closed.
pub async fn greet(
    env: &Env,
    socket: TcpStream,
    reception: Reception<'_>,
) -> Result<(Stream, Hello), Refused> {
    let hearing = hear(env, socket.clone(), reception);
    let (stream, hello) = match env.timeout(GREETING, hearing).await {
        Ok(Ok(heard)) => heard,
        Ok(Err(refused)) => {
            if matches!(refused, Refused::NoTls | Refused::Insecure(_)) {
                linger(env, &socket).await;
            }
            return Err(refused);
        }
        Err(_) => return Err(Refused::Silent),
    };
    let answer = if stream.judge_address(hello.address.ip()).is_err() {
        Answer::Refused(Refusal::OtherCertificate)
    } else if stream.is_secure() || (reception.takes_plain)(&hello) {
        hello.answer(reception.identity)
    } else {
        Answer::Refused(Refusal::TlsRequired)
    };
    let mut words = Vec::new();
    answer.encode(&mut words);
    stream.write_all(words).await.0.map_err(Unheard::Gone)?;
    match answer {
        Answer::Welcome(_) => Ok((stream, hello)),
        Answer::Refused(refusal) => {
            // The refusal would vanish with unread input.
            let _ = stream.shutdown().await;
            Err(Refused::Unfit {
                cluster: hello.cluster,
                refusal,
            })
        }
    }
}

/// The first words, under TLS or not, whatever comes.
async fn hear(
    env: &Env,
    socket: TcpStream,
    reception: Reception<'_>,
) -> Result<(Stream, Hello), Refused> {
    let (read, bytes) = socket.read(Vec::new()).await;
    if read.map_err(Unheard::Gone)? == 0 {
        return Err(Unheard::Gone(ErrorKind::UnexpectedEof.into()).into());
    }
    if !is_tls(&bytes) {
        let stream = Stream::plain(socket);
        let hello = first_words(&stream, BytesMut::from(&bytes[..]), Hello::decode).await?;
        return Ok((stream, hello));
    }
    let takes_tls = |encryption: &&Encryption| encryption.takes_tls();
    let Some(encryption) = reception.encryption.filter(takes_tls) else {
        let mut words = Vec::new();
        Answer::Refused(Refusal::NoTls).encode(&mut words);
        socket.write_all(words).await.0.map_err(Unheard::Gone)?;
        return Err(Refused::NoTls);
    };
    let context = encryption.context();
    let tls = context.accept(env.wall_micros())?;
    let stream = match Stream::secure(socket, tls, &bytes).await {
        Ok(stream) => stream,
        Err(HandshakeError::Tls(error)) => return Err(error.into()),
        Err(HandshakeError::Io(error)) => return Err(Unheard::Gone(error).into()),
        Err(HandshakeError::HungUp { .. } | HandshakeError::Plain(_)) => {
            return Err(Unheard::Gone(ErrorKind::UnexpectedEof.into()).into());
        }
    };
    let hello = first_words(&stream, BytesMut::new(), Hello::decode).await?;
    Ok((stream, hello))
}

/// How long, and for how many bytes, who is refused is listened to: what was said would vanish if the
/// connection were closed with unread input.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;

async fn linger(env: &Env, socket: &TcpStream) {
    let _ = socket.shutdown().await;
    let draining = async {
        let (mut drained, mut buffer) = (0, Vec::new());
        while drained < LINGER_BYTES {
            let (read, bytes) = socket.read(buffer).await;
            match read {
                Ok(count @ 1..) => drained += count,
                _ => return,
            }
            buffer = emptied(bytes);
        }
    };
    let _ = env.timeout(LINGER, draining).await;
}

/// What is under way on a connection.
struct UnderWay {
    /// Bytes of requests that are worked on.
    bytes: Cell<usize>,
    answers: RefCell<Link>,
    /// Something was answered.
    answered: Notify,
    /// There is something to be sent, or never will be.
    wake: Notify,
    ended: Cell<bool>,
}

impl UnderWay {
    fn is_full(&self) -> bool {
        self.bytes.get() + self.answers.borrow().pending() > UNDER_WAY_BYTES
    }

    /// Who asks hears that this node is there, though it reads nothing more for now: an answer to what nobody
    /// has asked.
    fn give_sign(&self) {
        let mut link = self.answers.borrow_mut();
        // Answers that wait are not taken: another would not be, either.
        if link.pending() > 0 {
            return;
        }
        let head = MessageHead {
            kind: MessageKind::Reply,
            number: u64::MAX,
            time_left: None,
            epoch: 0,
        };
        let told = link.send(&head, |_| ());
        debug_assert!(told.is_ok(), "nothing is short");
        drop(link);
        self.wake.notify_one();
    }

    fn answer(&self, head: &MessageHead, answer: Result<Vec<u8>, Vec<u8>>) {
        let mut link = self.answers.borrow_mut();
        let (kind, body) = match answer {
            Ok(body) => (MessageKind::Reply, body),
            Err(body) => (MessageKind::Failure, body),
        };
        let head = MessageHead {
            kind,
            time_left: None,
            ..*head
        };
        if let Err(error) = link.send(&head, |into| into.extend_from_slice(&body)) {
            let head = MessageHead {
                kind: MessageKind::Failure,
                ..head
            };
            let told = link.send(&head, |into| into.extend(error.to_string().into_bytes()));
            debug_assert!(told.is_ok(), "an error is short");
        }
        drop(link);
        self.wake.notify_one();
    }
}

/// Answers what comes along a connection whose first words have been said, until it ends: a reply or
/// a failure, as `handle` says; a ping is answered here. What is already too late is not begun, but counted.
/// An answer is polled where its request was read; only one that has to wait becomes a task.
pub async fn serve<F>(
    env: &Env,
    stream: &Stream,
    hello: &Hello,
    metrics: &ShardMetrics,
    handle: impl Fn(MessageHead, Bytes) -> F + 'static,
) where
    F: Future<Output = Result<Vec<u8>, Vec<u8>>> + 'static,
{
    let under_way = Rc::new(UnderWay {
        bytes: Cell::new(0),
        answers: RefCell::new(Link::new(hello.compressed)),
        answered: Notify::new(),
        wake: Notify::new(),
        ended: Cell::new(false),
    });
    let writer = {
        let (under_way, stream) = (under_way.clone(), stream.clone());
        env.spawn(TaskGroup::Foreground, async move {
            send_answers(&under_way, &stream).await;
            under_way.ended.set(true);
            under_way.answered.notify_all();
        })
    };
    read_requests(env, (stream, hello), &under_way, metrics, Rc::new(handle)).await;
    under_way.ended.set(true);
    under_way.wake.notify_one();
    writer.await;
}

async fn send_answers(under_way: &UnderWay, stream: &Stream) {
    let mut buffer = Vec::new();
    loop {
        under_way.answers.borrow_mut().take_output(&mut buffer);
        if buffer.is_empty() {
            if under_way.ended.get() {
                return;
            }
            under_way.wake.notified().await;
            continue;
        }
        let (sent, back) = stream.write_all(buffer).await;
        if sent.is_err() {
            return;
        }
        buffer = emptied(back);
        under_way.answered.notify_all();
    }
}

async fn read_requests<F>(
    env: &Env,
    (stream, hello): (&Stream, &Hello),
    under_way: &Rc<UnderWay>,
    metrics: &ShardMetrics,
    handle: Rc<impl Fn(MessageHead, Bytes) -> F + 'static>,
) where
    F: Future<Output = Result<Vec<u8>, Vec<u8>>> + 'static,
{
    let mut link = Link::new(hello.compressed);
    let mut buffer = Vec::with_capacity(READ_BUFFER);
    let mut input = BytesMut::new();
    loop {
        let Ok((read, bytes)) = env.timeout(UNHEARD, stream.read(buffer)).await else {
            return;
        };
        if !matches!(read, Ok(1..)) {
            return;
        }
        input.extend_from_slice(&bytes);
        buffer = emptied(bytes);
        let arrived = env.now();
        loop {
            let message = match link.receive(&mut input) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!("a connection of the node {}: {error}", hello.host_id);
                    return;
                }
            };
            while under_way.is_full() && !under_way.ended.get() {
                let answered = env.timeout(SIGN, under_way.answered.notified());
                if answered.await.is_err() {
                    under_way.give_sign();
                }
            }
            if under_way.ended.get() {
                return;
            }
            let waited = env.now().saturating_duration_since(arrived);
            let head = message.head;
            if head.time_left.is_some_and(|left| left <= waited) {
                let verb = match head.kind {
                    MessageKind::Request(verb) => Some(verb),
                    _ => None,
                };
                metrics.count_late(verb);
                continue;
            }
            if head.kind == MessageKind::Request(Verb::Ping) {
                under_way.answer(&head, Ok(Vec::new()));
                continue;
            }
            let bytes = message.body.len() + REQUEST_BYTES;
            under_way.bytes.set(under_way.bytes.get() + bytes);
            let (handle, answers) = (handle.clone(), under_way.clone());
            let mut answering = Box::pin(async move {
                let answer = handle(head, message.body).await;
                answers.bytes.set(answers.bytes.get() - bytes);
                answers.answer(&head, answer);
                answers.answered.notify_all();
            });
            let polled = |context: &mut Context<'_>| {
                Poll::Ready(answering.as_mut().poll(context).is_ready())
            };
            if !poll_fn(polled).await {
                env.spawn(TaskGroup::Foreground, answering).detach();
            }
            // One buffer may hold hundreds of requests, and nothing above has to wait.
            env.maybe_yield().await;
        }
    }
}
