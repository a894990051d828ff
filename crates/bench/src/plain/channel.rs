//! A connection on which any number of requests are under way at once, each as a stream of its own.
//!
//! What is asked in one turn of the executor goes out together, and what comes in together is answered together: so
//! many requests take no more calls of the kernel than few.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::answer;
use crate::connection::TIMEOUT;

/// Bytes of a frame's header.
const HEADER: usize = 9;
/// How much may come in one read, at least, in bytes.
const READ_ROOM: usize = 64 << 10;
/// The longest frame of the protocol, in bytes.
const LONGEST: usize = 256 << 20;
/// So many streams has a connection.
const STREAMS: usize = 1 << 15;
/// The time between two turns of [`Channel::watch`].
const TURN: Duration = Duration::from_secs(1);
/// How long an answer may take, in these.
const PATIENCE: u32 = (TIMEOUT.as_secs() / TURN.as_secs()) as u32;

/// What comes of a request: the number of rows, or why there is none.
type Outcome = Result<usize, String>;

/// A connection.
pub(super) struct Channel {
    /// Frames that nobody has sent yet.
    output: RefCell<Vec<u8>>,
    /// There are some.
    asked: Notify,
    streams: RefCell<Streams>,
    /// Why it does not work any more.
    lost: RefCell<Option<String>>,
    turn: Cell<u32>,
}

#[derive(Default)]
struct Streams {
    states: Vec<State>,
    free: Vec<u16>,
}

/// What is known of a stream.
enum State {
    Free,
    /// It was asked in this turn, and nobody has answered.
    Waiting(u32, Option<Waker>),
    /// It was told to have taken too long, but that was not heard yet.
    Late,
    /// Nobody waits for the answer any more.
    GivenUp,
    Answered(Outcome),
}

impl Channel {
    /// Requests on a connection that has started up. Its tasks run on the `LocalSet` of who calls.
    pub(super) fn new(stream: TcpStream) -> Rc<Channel> {
        let channel = Rc::new(Channel {
            output: RefCell::default(),
            asked: Notify::new(),
            streams: RefCell::default(),
            lost: RefCell::default(),
            turn: Cell::default(),
        });
        let (input, output) = stream.into_split();
        let (reader, writer, watcher) = (channel.clone(), channel.clone(), channel.clone());
        tokio::task::spawn_local(async move {
            let lost = reader.read(input).await;
            reader.lose(&lost);
        });
        tokio::task::spawn_local(async move {
            let Err(error) = writer.write(output).await;
            writer.lose(&error.to_string());
        });
        tokio::task::spawn_local(async move { watcher.watch().await });
        channel
    }

    /// Asks what `write` appends, a whole frame on the stream that it is given; the number of rows of the answer.
    pub(super) async fn ask(
        &self,
        write: impl FnOnce(&mut Vec<u8>, u16) -> Result<(), String>,
    ) -> Outcome {
        if let Some(reason) = &*self.lost.borrow() {
            return Err(reason.clone());
        }
        let stream = self.streams.borrow_mut().take(self.turn.get());
        let stream = stream.ok_or("all streams of a connection are taken")?;
        let asked = Asked {
            channel: self,
            stream,
        };
        self.append(write, stream)?;
        poll_fn(|context| self.streams.borrow_mut().poll(asked.stream, context)).await
    }

    fn append(
        &self,
        write: impl FnOnce(&mut Vec<u8>, u16) -> Result<(), String>,
        stream: u16,
    ) -> Result<(), String> {
        let mut output = self.output.borrow_mut();
        let before = output.len();
        let written = write(&mut output, stream);
        match written {
            Err(_) => {
                output.truncate(before);
                self.streams.borrow_mut().states[usize::from(stream)] = State::Answered(Ok(0));
            }
            Ok(()) if before == 0 => self.asked.notify_one(),
            Ok(()) => {}
        }
        written
    }

    async fn write(&self, mut socket: OwnedWriteHalf) -> std::io::Result<std::convert::Infallible> {
        let mut sending = Vec::new();
        loop {
            if self.output.borrow().is_empty() {
                self.asked.notified().await;
            }
            std::mem::swap(&mut sending, &mut *self.output.borrow_mut());
            socket.write_all(&sending).await?;
            sending.clear();
        }
    }

    /// Returns why nothing comes any more.
    async fn read(&self, mut socket: OwnedReadHalf) -> String {
        let mut input = Vec::new();
        loop {
            input.reserve(READ_ROOM);
            match socket.read_buf(&mut input).await {
                Ok(0) => return "the server has closed the connection".to_owned(),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
            match self.take_answers(&input) {
                Ok(taken) => drop(input.drain(..taken)),
                Err(error) => return error,
            }
        }
    }

    /// Gives whole frames to those who wait for them; how many bytes these are.
    fn take_answers(&self, input: &[u8]) -> Result<usize, String> {
        let mut rest = input;
        while let Some((header, body)) = rest.split_first_chunk::<HEADER>() {
            let [_, flags, high, low, opcode, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            if length > LONGEST {
                return Err(format!("an answer of {length} bytes"));
            }
            let Some((body, behind)) = body.split_at_checked(length) else {
                break;
            };
            rest = behind;
            let stream = u16::from_be_bytes([high, low]);
            let outcome = answer::rows(opcode, flags, body);
            self.streams.borrow_mut().answer(stream, outcome)?;
        }
        Ok(input.len() - rest.len())
    }

    /// Looks for what has not been answered for too long.
    async fn watch(&self) {
        while self.lost.borrow().is_none() {
            tokio::time::sleep(TURN).await;
            let turn = self.turn.get() + 1;
            self.turn.set(turn);
            self.streams.borrow_mut().lose_patience(turn);
        }
    }

    /// The connection does not work any more.
    fn lose(&self, reason: &str) {
        self.lost
            .borrow_mut()
            .get_or_insert_with(|| format!("connection lost: {reason}"));
        self.streams.borrow_mut().end(reason);
    }
}

/// A stream that is in use, until this is dropped.
struct Asked<'c> {
    channel: &'c Channel,
    stream: u16,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.channel.streams.borrow_mut().leave(self.stream);
    }
}

impl Streams {
    /// One that nobody uses; it is waited for from this turn on.
    fn take(&mut self, turn: u32) -> Option<u16> {
        if self.free.is_empty() && self.states.len() < STREAMS {
            self.free.push(self.states.len() as u16);
            self.states.push(State::Free);
        }
        let stream = self.free.pop()?;
        self.states[usize::from(stream)] = State::Waiting(turn, None);
        Some(stream)
    }

    fn poll(&mut self, stream: u16, context: &mut Context<'_>) -> Poll<Outcome> {
        let state = &mut self.states[usize::from(stream)];
        match state {
            State::Waiting(_, waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Late => Poll::Ready(Err(format!("no answer within {} s", TIMEOUT.as_secs()))),
            State::Answered(outcome) => Poll::Ready(std::mem::replace(outcome, Ok(0))),
            State::Free | State::GivenUp => unreachable!("who polls has not left"),
        }
    }

    /// The answer has come.
    fn answer(&mut self, stream: u16, outcome: Outcome) -> Result<(), String> {
        let state = self.states.get_mut(usize::from(stream));
        match state {
            Some(state @ (State::Waiting(..) | State::Late)) => {
                if let State::Waiting(_, Some(waker)) =
                    std::mem::replace(state, State::Answered(outcome))
                {
                    waker.wake();
                }
                Ok(())
            }
            Some(state @ State::GivenUp) => {
                *state = State::Free;
                self.free.push(stream);
                Ok(())
            }
            _ => Err(format!(
                "an answer on stream {stream}, where nothing was asked"
            )),
        }
    }

    /// Who asked does not wait any more.
    fn leave(&mut self, stream: u16) {
        let state = &mut self.states[usize::from(stream)];
        *state = match state {
            State::Waiting(..) | State::Late => State::GivenUp,
            State::Answered(_) => {
                self.free.push(stream);
                State::Free
            }
            State::Free | State::GivenUp => unreachable!("one leaves once"),
        };
    }

    fn lose_patience(&mut self, turn: u32) {
        for state in &mut self.states {
            if matches!(state, State::Waiting(since, _) if turn - *since > PATIENCE)
                && let State::Waiting(_, Some(waker)) = std::mem::replace(state, State::Late)
            {
                waker.wake();
            }
        }
    }

    /// No answer will come any more.
    fn end(&mut self, reason: &str) {
        for state in &mut self.states {
            if let State::Waiting(_, waker) = state {
                let waker = waker.take();
                *state = State::Answered(Err(format!("connection lost: {reason}")));
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;

    /// Runs a client on a connection, and a server.
    fn between<C: Future<Output = ()>, S: Future<Output = ()> + 'static>(
        server: impl FnOnce(TcpStream) -> S + 'static,
        client: impl FnOnce(Rc<Channel>) -> C,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
            let (accepted, _) = listener.accept().await.unwrap();
            let serving = tokio::task::spawn_local(server(accepted));
            client(Channel::new(stream.unwrap())).await;
            serving.await.unwrap();
        });
    }

    /// A question without a body.
    fn question(output: &mut Vec<u8>, stream: u16) -> Result<(), String> {
        let [high, low] = stream.to_be_bytes();
        output.extend_from_slice(&[4, 0, high, low, 0x0A, 0, 0, 0, 0]);
        Ok(())
    }

    /// A result of rows, as many as its stream says.
    fn rows(stream: [u8; 2]) -> Vec<u8> {
        let body = [2, 4, 0, u32::from(u16::from_be_bytes(stream))].map(u32::to_be_bytes);
        [
            &[0x84, 0, stream[0], stream[1], 0x08, 0, 0, 0, 16][..],
            &body.concat(),
        ]
        .concat()
    }

    #[test]
    fn each_gets_its_own_answer_in_whatever_order() {
        const COUNT: usize = 1000;
        let server = async |mut socket: TcpStream| {
            let mut questions = vec![0; COUNT * HEADER];
            socket.read_exact(&mut questions).await.unwrap();
            let answers = questions
                .chunks(HEADER)
                .rev()
                .map(|question| rows([question[2], question[3]]));
            // In pieces that end anywhere.
            for piece in answers.collect::<Vec<_>>().concat().chunks(1001) {
                socket.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        between(server, async |channel| {
            let asked = (0..COUNT).map(|_| {
                let channel = channel.clone();
                tokio::task::spawn_local(async move {
                    let mut stream = None;
                    let asked = channel.ask(|output, taken| {
                        stream = Some(usize::from(taken));
                        question(output, taken)
                    });
                    let rows = asked.await;
                    assert_eq!(rows, Ok(stream.unwrap()));
                })
            });
            for asked in asked.collect::<Vec<_>>() {
                asked.await.unwrap();
            }
            let streams = channel.streams.borrow();
            assert_eq!(streams.free.len(), streams.states.len());
        });
    }

    #[test]
    fn a_stream_is_used_again_when_its_answer_has_come() {
        let server = async |mut socket: TcpStream| {
            let mut question = [0; HEADER];
            for _ in 0..3 {
                socket.read_exact(&mut question).await.unwrap();
                assert_eq!(question[2..4], [0, 0]);
                socket.write_all(&rows([0, 0])).await.unwrap();
            }
        };
        between(server, async |channel| {
            assert_eq!(
                channel.ask(|_, _| Err("no".to_owned())).await,
                Err("no".to_owned())
            );
            for _ in 0..3 {
                assert_eq!(channel.ask(question).await, Ok(0));
            }
        });
    }

    #[test]
    fn who_asks_is_told_when_the_connection_ends() {
        let server = async |mut socket: TcpStream| {
            socket.read_exact(&mut [0; HEADER]).await.unwrap();
        };
        between(server, async |channel| {
            for _ in 0..2 {
                let error = channel.ask(question).await.unwrap_err();
                assert!(error.contains("connection lost"), "{error}");
            }
        });
        let server = async |mut socket: TcpStream| {
            socket.read_exact(&mut [0; HEADER]).await.unwrap();
            socket.write_all(&rows([0, 9])).await.unwrap();
        };
        between(server, async |channel| {
            let error = channel.ask(question).await.unwrap_err();
            assert!(error.contains("stream 9"), "{error}");
        });
    }

    #[test]
    fn what_is_late_or_left_keeps_its_stream_until_it_comes() {
        let mut streams = Streams::default();
        let mut context = Context::from_waker(Waker::noop());
        let (late, left) = (streams.take(0).unwrap(), streams.take(5).unwrap());
        assert!(streams.poll(late, &mut context).is_pending());
        streams.lose_patience(PATIENCE);
        assert!(streams.poll(late, &mut context).is_pending());
        streams.lose_patience(PATIENCE + 1);
        assert!(matches!(
            streams.poll(late, &mut context),
            Poll::Ready(Err(_))
        ));
        assert!(streams.poll(left, &mut context).is_pending());
        streams.leave(late);
        streams.leave(left);
        let third = streams.take(6).unwrap();
        assert_eq!(third, 2);
        streams.answer(late, Ok(1)).unwrap();
        assert_eq!(streams.take(6), Some(late));
        assert!(streams.answer(7, Ok(1)).is_err());
    }
}
