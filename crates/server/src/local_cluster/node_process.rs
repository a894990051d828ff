//! A node of the cluster as a process: started, listened to, told to stop.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::start::PARENT;

/// How long the last lines of a process that has ended may take: somebody else may have its output
/// open, such as a command that archives.
const LAST_LINES: Duration = Duration::from_secs(1);
/// A longer line is cut into several, in bytes.
const MOST_OF_LINE: u64 = 64 << 10;
/// How many times a node may be told to stop before it has heard of the first.
const STOPS: usize = 16;

/// Where a process says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Its standard output.
    Output,
    /// Its standard error: the log.
    Log,
}

/// What happens to a process.
#[derive(Debug)]
pub(super) enum News {
    /// It says something.
    Line {
        /// The number of the node, from 0.
        node: usize,
        /// Where.
        stream: Stream,
        /// A line, without its end.
        line: String,
    },
    /// It is gone, and has said all.
    Ended {
        /// The number of the node, from 0.
        node: usize,
        /// How; an error if nobody knows.
        status: std::io::Result<ExitStatus>,
    },
}

/// A process that runs a node.
#[derive(Debug)]
pub(super) struct NodeProcess {
    stops: Sender<()>,
}

impl NodeProcess {
    /// Starts `helenus` with these arguments. What happens to it is told to `news`.
    pub(super) fn start(
        binary: &Path,
        arguments: &[OsString],
        node: usize,
        news: &Sender<News>,
    ) -> std::io::Result<NodeProcess> {
        let mut child = Command::new(binary)
            .args(arguments)
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal is for all of a group: the nodes hear of it from here, once.
            .process_group(0)
            .spawn()?;
        let output = relay(child.stdout.take(), node, Stream::Output, news.clone());
        let log = relay(child.stderr.take(), node, Stream::Log, news.clone());
        let (stops, stopped) = channel(STOPS);
        let news = news.clone();
        tokio::spawn(async move {
            let said = tokio::spawn(async { tokio::join!(output, log) });
            let status = wait(&mut child, stopped).await;
            let _ = tokio::time::timeout(LAST_LINES, said).await;
            // Nobody listens any more only if this process ends.
            let _ = news.send(News::Ended { node, status }).await;
        });
        Ok(NodeProcess { stops })
    }

    /// Tells it to stop; told again, it stops at once. One that is gone hears nothing.
    pub(super) fn stop(&self) {
        let _ = self.stops.try_send(());
    }
}

/// Waits for the end of a process, and passes on that it is to stop. Until this has returned the process is
/// waited for by nobody, so that its number is no other's.
async fn wait(child: &mut Child, mut stops: Receiver<()>) -> std::io::Result<ExitStatus> {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status,
            Some(()) = stops.recv() => {
                if let Some(pid) = pid {
                    // It may have ended this very moment.
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
    }
}

/// Tells line by line what comes out of a pipe, until its end.
async fn relay(
    pipe: Option<impl AsyncRead + Unpin>,
    node: usize,
    stream: Stream,
    news: Sender<News>,
) {
    let Some(pipe) = pipe else { return };
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = (&mut pipe).take(MOST_OF_LINE);
        let read = part.read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = String::from_utf8_lossy(text).into_owned();
        let told = news.send(News::Line { node, stream, line });
        if told.await.is_err() {
            return;
        }
    }
}
