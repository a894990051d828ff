//! What other nodes ask.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use io::{Env, Notify, TaskGroup, TcpStream};
use wire::internode::{Answer, Hello, Identity, Link, MessageHead, MessageKind, Refusal, Verb};

use super::{READ_BUFFER, Unheard, emptied, first_words};

/// How long the first words may take.
const GREETING: Duration = Duration::from_secs(5);
/// Bytes of requests that one connection may have under way, and of answers that may wait to be sent:
/// beyond that it is not read from (`internode_application_receive_queue_capacity`).
const UNDER_WAY_BYTES: usize = 4 << 20;
/// What a request takes besides its bytes.
const REQUEST_BYTES: usize = 512;

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
    /// It is no node, or went away.
    #[error(transparent)]
    Unheard(#[from] Unheard),
    /// It said nothing.
    #[error("it said nothing for {} s", GREETING.as_secs())]
    Silent,
}

/// Hears the first words on a connection that was accepted, and answers as the node `own`. What is
/// returned is what was said; requests may come then.
///
/// # Errors
/// The connection is to be closed.
pub async fn greet(env: &Env, stream: &TcpStream, own: &Identity) -> Result<Hello, Refused> {
    let hearing = first_words(stream, Hello::decode);
    let hello = match env.timeout(GREETING, hearing).await {
        Ok(hello) => hello?,
        Err(_) => return Err(Refused::Silent),
    };
    let answer = hello.answer(own);
    let mut words = Vec::new();
    answer.encode(&mut words);
    stream.write_all(words).await.0.map_err(Unheard::Gone)?;
    match answer {
        Answer::Welcome(_) => Ok(hello),
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
/// a failure, as `handle` says; a ping is answered here. What is already too late is not begun.
pub async fn serve<F>(
    env: &Env,
    stream: &TcpStream,
    hello: &Hello,
    handle: impl Fn(MessageHead, Bytes) -> F,
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
    read_requests(env, stream, hello, &under_way, handle).await;
    under_way.ended.set(true);
    under_way.wake.notify_one();
    writer.await;
}

async fn send_answers(under_way: &UnderWay, stream: &TcpStream) {
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
    stream: &TcpStream,
    hello: &Hello,
    under_way: &Rc<UnderWay>,
    handle: impl Fn(MessageHead, Bytes) -> F,
) where
    F: Future<Output = Result<Vec<u8>, Vec<u8>>> + 'static,
{
    let mut link = Link::new(hello.compressed);
    let mut buffer = Vec::with_capacity(READ_BUFFER);
    let mut input = BytesMut::new();
    loop {
        let (read, bytes) = stream.read(buffer).await;
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
                under_way.answered.notified().await;
            }
            if under_way.ended.get() {
                return;
            }
            let waited = env.now().saturating_duration_since(arrived);
            let head = message.head;
            if head.time_left.is_some_and(|left| left <= waited) {
                continue;
            }
            if head.kind == MessageKind::Request(Verb::Ping) {
                under_way.answer(&head, Ok(Vec::new()));
                continue;
            }
            let bytes = message.body.len() + REQUEST_BYTES;
            under_way.bytes.set(under_way.bytes.get() + bytes);
            let (answering, under_way) = (handle(head, message.body), under_way.clone());
            env.spawn(TaskGroup::Foreground, async move {
                let answer = answering.await;
                under_way.bytes.set(under_way.bytes.get() - bytes);
                under_way.answer(&head, answer);
                under_way.answered.notify_all();
            })
            .detach();
        }
    }
}
