//! A client's connection: what is known is answered, what is not is asked of the other server.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use io::{Env, TcpStream};

use crate::answers::Answers;
use crate::frame::{Frame, FrameError, STARTUP};

/// Bytes that one read may take, as Helenus has it at most.
const READ_BUFFER: usize = 64 << 10;

/// Why a connection ended before its client ended it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The client's side.
    #[error("client: {0}")]
    Client(std::io::Error),
    /// The other server.
    #[error("{0}, which is learned from: {1}")]
    Upstream(SocketAddr, std::io::Error),
    /// What one of them sent.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// What the sessions of a shard share.
pub(crate) struct Shard {
    pub(crate) env: Env,
    pub(crate) answers: RefCell<Answers>,
    /// The server that is learned from.
    pub(crate) upstream: SocketAddr,
}

/// Serves a client to the end of its connection: all that came in one read is answered with one send.
pub(crate) async fn serve(shard: Rc<Shard>, stream: TcpStream) -> Result<(), SessionError> {
    let mut input = Vec::with_capacity(READ_BUFFER);
    let mut output = Vec::new();
    let mut upstream = Upstream::default();
    loop {
        let (result, back) = stream.read(input).await;
        input = back;
        if result.map_err(SessionError::Client)? == 0 {
            return Ok(());
        }
        let mut done = 0;
        while let Some(frame) = Frame::first(&input[done..])? {
            done += frame.bytes().len();
            if frame.opcode() == STARTUP {
                upstream.startup = frame.bytes().to_vec();
            }
            if !shard.answers.borrow().give(frame, &mut output) {
                let answer = upstream.ask(&shard, frame).await?;
                output.extend_from_slice(&answer);
            }
        }
        input.drain(..done);
        if !output.is_empty() {
            let (result, back) = stream.write_all(output).await;
            result.map_err(SessionError::Client)?;
            output = back;
            output.clear();
        }
    }
}

/// The session's own connection to the server that is learned from, made when it is needed.
#[derive(Default)]
struct Upstream {
    stream: Option<TcpStream>,
    /// How the client began.
    startup: Vec<u8>,
}

impl Upstream {
    /// The answer of the other server, which is known from then on.
    async fn ask(&mut self, shard: &Shard, question: Frame<'_>) -> Result<Vec<u8>, SessionError> {
        let failed = |error| SessionError::Upstream(shard.upstream, error);
        if self.stream.is_none() {
            let stream = shard.env.connect(shard.upstream).await.map_err(failed)?;
            if !self.startup.is_empty() && question.opcode() != STARTUP {
                exchange(&stream, &self.startup, failed).await?;
            }
            self.stream = Some(stream);
        }
        let Some(stream) = &self.stream else {
            unreachable!("it was made above");
        };
        let bytes = exchange(stream, question.bytes(), failed).await?;
        let mut known = Vec::new();
        if shard.answers.borrow().give(question, &mut known) {
            // Another connection of the shard has asked meanwhile.
            return Ok(known);
        }
        Ok(match Frame::first(&bytes)? {
            Some(answer) => shard.answers.borrow_mut().learn(question, answer),
            None => bytes,
        })
    }
}

/// Sends a frame and waits for one.
async fn exchange(
    stream: &TcpStream,
    question: &[u8],
    failed: impl Fn(std::io::Error) -> SessionError,
) -> Result<Vec<u8>, SessionError> {
    let (result, _) = stream.write_all(question.to_vec()).await;
    result.map_err(&failed)?;
    let mut bytes = Vec::with_capacity(READ_BUFFER);
    while Frame::first(&bytes)?.is_none() {
        let (result, back) = stream.read(bytes).await;
        bytes = back;
        if result.map_err(&failed)? == 0 {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(bytes)
}
