//! `helenus-limit`: a server that does nothing but its I/O, to stand beside Helenus in a measurement.
//!
//! It answers each frame with what another server answered once to the same question, or, where a
//! prepared statement is executed, to any execution of it: a canned response of the same size, sent by
//! the same drivers, from as many shards. What Helenus takes beyond that is its own work. Clients and
//! drivers need not know of it: what it has not been asked before it passes on and remembers.

mod answers;
mod frame;
mod session;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use clap::Parser;
use io::{
    DetachedStream, DriverChoice, Env, Mesh, MeshSeat, Runtime, RuntimeConfig, TaskGroup, TcpStream,
};

use crate::answers::Answers;
use crate::session::Shard;

/// Connections that wait to be accepted, or to be taken over by another shard.
const BACKLOG: u32 = 4096;
const QUEUE: usize = 1024;
/// How long accepting pauses after an error such as "too many open files".
const PAUSE: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  Learn from a node of Helenus, whose data must be loaded, on two cores:
    taskset -c 0-1 helenus-limit --upstream 127.0.0.1:9042 --listen 127.0.0.9:9042 --shards 2

  What reads and updates cost where nothing but I/O is done:
    helenus-bench run c --hosts 127.0.0.9 --pid $(pidof helenus-limit)
";

/// Answers each frame with what another server answered once, and does nothing else.
#[derive(Debug, Parser)]
#[command(name = "helenus-limit", version, after_help = EXAMPLES)]
struct Options {
    /// The server that is learned from; it speaks version 4 of the protocol and wants no password
    #[arg(long, value_name = "ADDRESS:PORT")]
    upstream: SocketAddr,
    /// Where clients connect
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.9:9042")]
    listen: SocketAddr,
    /// Threads that serve, each with its own connections
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: u16,
    /// How the kernel is asked: io_uring, or epoll [default: the better one that there is]
    #[arg(long, value_name = "DRIVER", value_parser = driver)]
    driver: Option<DriverChoice>,
}

fn driver(text: &str) -> Result<DriverChoice, String> {
    match text {
        "io_uring" => Ok(DriverChoice::IoUring),
        "epoll" => Ok(DriverChoice::Epoll),
        _ => Err(format!("`{text}` is none of io_uring, epoll")),
    }
}

fn main() -> ExitCode {
    match serve(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until it is ended by a signal; it keeps nothing that would have to be closed.
fn serve(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let config = RuntimeConfig {
        shards: options.shards,
        driver: options.driver.unwrap_or(DriverChoice::Auto),
        cpus: cpus_of(options.shards),
        name: "shard".to_owned(),
    };
    let seats = io::mesh::<DetachedStream>(options.shards, QUEUE);
    let seats = Mutex::new(seats.into_iter().map(Some).collect::<Vec<_>>());
    let (failed, failures) = mpsc::channel();
    let (listen, upstream) = (options.listen, options.upstream);
    let runtime = Runtime::start(config, move |env| {
        let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = seats[usize::from(env.shard().0)].take();
        let failed = failed.clone();
        async move {
            let Some(seat) = seat else {
                unreachable!("each shard is started once");
            };
            if let Err(error) = run_shard(env, seat, listen, upstream).await {
                let _ = failed.send(format!("{listen} cannot be listened at: {error}"));
            }
        }
    })?;
    let driver = runtime.driver().name;
    eprintln!(
        "{} shards on {listen}, {driver}, learning from {upstream}",
        options.shards
    );
    match failures.recv() {
        Ok(failure) => Err(failure.into()),
        Err(_) => Ok(runtime.join()?),
    }
}

/// The CPU of each shard: where there is one for each that this process may use.
fn cpus_of(shards: u16) -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    let cpus: Vec<usize> = all.filter(|cpu| allowed.is_set(*cpu)).collect();
    match cpus.len() == usize::from(shards) {
        true => cpus,
        false => Vec::new(),
    }
}

/// Shard 0 accepts and deals the connections out, as Helenus does.
async fn run_shard(
    env: Env,
    seat: MeshSeat<DetachedStream>,
    listen: SocketAddr,
    upstream: SocketAddr,
) -> std::io::Result<()> {
    let mesh = seat.join(&env);
    let shard = Rc::new(Shard {
        env: env.clone(),
        answers: RefCell::new(Answers::new(upstream.ip(), listen.ip())),
        upstream,
    });
    if env.shard().0 == 0 {
        return accept(&shard, &mesh, listen).await;
    }
    loop {
        let (_, stream) = mesh.recv().await;
        begin(&shard, env.adopt(stream));
    }
}

async fn accept(
    shard: &Rc<Shard>,
    mesh: &Mesh<DetachedStream>,
    listen: SocketAddr,
) -> std::io::Result<()> {
    let listener = shard.env.listen(listen, BACKLOG).await?;
    let mut owner = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) if owner == 0 => begin(shard, stream),
            Ok((stream, _)) => {
                // Nobody else has a handle of a stream that was just accepted.
                if let Ok(stream) = stream.detach() {
                    mesh.send(owner, stream).await;
                }
            }
            Err(error) => {
                eprintln!("accepting a connection: {error}");
                shard.env.sleep(PAUSE).await;
                continue;
            }
        }
        owner = (owner + 1) % shard.env.shards();
    }
}

fn begin(shard: &Rc<Shard>, stream: TcpStream) {
    let session = session::serve(shard.clone(), stream);
    let ended = async move {
        if let Err(error) = session.await {
            eprintln!("a connection ended: {error}");
        }
    };
    shard.env.spawn(TaskGroup::Foreground, ended).detach();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
