//! What `idle` does: holds connections on which nothing is asked, as the pools of many clients do. What
//! they cost a server, one measures beside it.

use std::future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use rustix::fs::FileType;
use tokio::net::TcpStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::descriptors;
use crate::options::IdleOptions;
use crate::raw;

/// Connections that are being opened at a time: fewer than the shortest usual backlog, 128.
const AT_ONCE: usize = 64;

/// Does it, until time is up or somebody says so.
///
/// # Errors
///
/// One of the connections could not be opened, or the server has closed one before all were; says what
/// to do.
pub(crate) fn run(options: &IdleOptions) -> Result<(), String> {
    descriptors::reserve(options.connections_held)?;
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    executor.block_on(async {
        let mut end = End::listen().map_err(|error| error.to_string())?;
        let held = tokio::select! {
            held = Held::open(&options.nodes.hosts, options.connections_held) => held?,
            () = end.comes() => return Err("ended before all connections were there".to_owned()),
        };
        say_that_they_are_held(options.connections_held).map_err(|error| error.to_string())?;
        tokio::select! {
            () = tokio::time::sleep(options.duration) => {}
            () = end.comes() => {}
        }
        match held.closed() {
            0 => {}
            closed => eprintln!("note: the server has closed {closed} of them in the meantime"),
        }
        Ok(())
    })
}

/// Whoever started this may wait for the line.
fn say_that_they_are_held(count: usize) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{count} connections are held")?;
    out.flush()
}

/// Connections that are open as long as this is there.
struct Held {
    connections: Vec<TcpStream>,
}

impl Held {
    /// Opens `count` connections, to each host in turn.
    async fn open(hosts: &[String], count: usize) -> Result<Held, String> {
        let addresses = raw::reach(hosts).await?;
        let mut connections = Vec::with_capacity(count);
        let mut opening = JoinSet::new();
        for address in addresses.iter().cycle().take(count) {
            if opening.len() == AT_ONCE {
                connections.extend(next_of(&mut opening, connections.len(), count).await?);
            }
            opening.spawn(open(*address));
        }
        while !opening.is_empty() {
            connections.extend(next_of(&mut opening, connections.len(), count).await?);
        }
        let held = Held { connections };
        match held.closed() {
            0 => Ok(held),
            closed => Err(format!(
                "the server has closed {closed} of {count} connections while the others were \
                 opened: what does its log say? It may limit them"
            )),
        }
    }

    /// How many of them the server has closed.
    fn closed(&self) -> usize {
        let closed = self.connections.iter().filter(|connection| {
            // Nothing was asked, so there is nothing to read, but an end.
            match connection.try_read(&mut [0]) {
                Ok(read) => read == 0,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            }
        });
        closed.count()
    }
}

async fn open(address: SocketAddr) -> Result<TcpStream, String> {
    let opened = raw::open(address).await;
    opened.map_err(|error| format!("{address}: {error}: {}", error.remedy()))
}

/// The next connection that is there, `before` having been there before it.
async fn next_of(
    opening: &mut JoinSet<Result<TcpStream, String>>,
    before: usize,
    count: usize,
) -> Result<Option<TcpStream>, String> {
    let Some(opened) = opening.join_next().await else {
        return Ok(None);
    };
    let opened = opened.map_err(|error| error.to_string())?;
    let opened = opened.map_err(|error| format!("{before} of {count} connections opened: {error}"));
    opened.map(Some)
}

/// What ends it early: SIGTERM, SIGINT, or the end of standard input.
struct End {
    terminate: Signal,
    interrupt: Signal,
    /// Its other side is dropped when standard input ends.
    input: Option<oneshot::Receiver<()>>,
}

impl End {
    fn listen() -> io::Result<End> {
        Ok(End {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            input: standard_input(),
        })
    }

    async fn comes(&mut self) {
        let input = async {
            match &mut self.input {
                Some(input) => drop(input.await),
                None => future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = input => {}
        }
    }
}

/// Ends when standard input does, if that is a pipe or a socket. Others have no end that means
/// anything: /dev/null, which a shell gives what it starts in the background, is at its end at once, and
/// a terminal would stop a background process that reads from it.
fn standard_input() -> Option<oneshot::Receiver<()>> {
    let kind = rustix::fs::fstat(io::stdin()).ok()?;
    match FileType::from_raw_mode(kind.st_mode) {
        FileType::Fifo | FileType::Socket => {}
        _ => return None,
    }
    let (open, ended) = oneshot::channel();
    std::thread::spawn(move || {
        // An error is an end, too.
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        drop::<oneshot::Sender<()>>(open);
    });
    Some(ended)
}

#[cfg(test)]
mod tests {
    use crate::options::Nodes;
    use std::time::Duration;

    use super::*;
    use crate::made_up_server::{Behaviour, Server};

    async fn hold(server: &Server, count: usize) -> Result<Held, String> {
        Held::open(&[server.address.to_string()], count).await
    }

    fn executor() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    #[test]
    fn so_many_are_held_and_then_released() {
        let server = Server::start(Behaviour::Ready);
        for count in [0, 1, AT_ONCE, 300] {
            let executor = executor();
            let held = executor.block_on(hold(&server, count)).unwrap();
            assert_eq!(held.connections.len(), count);
            server.await_open(count);
            assert_eq!(held.closed(), 0);
            drop(held);
            server.await_open(0);
        }
    }

    #[test]
    fn what_the_server_closes_is_not_held() {
        let server = Server::start(Behaviour::ReadyThenEnd);
        let held = executor().block_on(async {
            let stream = raw::open(server.address).await.unwrap();
            stream.readable().await.unwrap();
            Held {
                connections: vec![stream],
            }
        });
        assert_eq!(held.closed(), 1);
    }

    #[test]
    fn it_ends_when_the_time_is_up() {
        let server = Server::start(Behaviour::Ready);
        let options = IdleOptions {
            nodes: Nodes {
                hosts: vec![server.address.to_string()],
            },
            connections_held: 10,
            duration: Duration::from_millis(10),
        };
        assert_eq!(run(&options), Ok(()));
        server.await_open(0);
    }
}
