//! Taking connections in. Shard 0 accepts for all.
//!
//! On the usual port a connection goes to the shard that has the fewest; on the shard-aware port
//! to the one that the client names by its own port (scylladb/scylladb
//! `docs/dev/protocol-extensions.md`).

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use io::{Listener, Task, TaskGroup, TcpStream};

use crate::message::Message;
use crate::session;
use crate::shard::Shard;
use crate::start::StartError;

/// Connections that wait to be accepted; a restarted node meets all its clients at once.
const BACKLOG: u32 = 4096;
/// How long accepting pauses after an error such as "too many open files".
const PAUSE: Duration = Duration::from_millis(100);

/// How often a port is tried that was open a moment ago: the kernel lets go of it a little later.
const TRIES: u32 = 30;

/// The ports of clients, as the leading shard has them: open, or closed for a while.
#[derive(Default)]
pub(crate) struct ClientPorts {
    /// What accepts; nothing if they are closed.
    tasks: RefCell<Vec<Task<()>>>,
    /// Are they closed for good?
    are_done: Cell<bool>,
}

impl ClientPorts {
    /// Are they open?
    pub(crate) fn are_open(&self) -> bool {
        !self.tasks.borrow().is_empty()
    }

    /// Takes no more connections.
    pub(crate) fn close(&self) {
        let tasks = self.tasks.take();
        for task in tasks {
            drop(task.cancel());
        }
    }
}

/// The open ports of a node.
pub(crate) struct Listeners {
    ports: Rc<ClientPorts>,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
}

impl Listeners {
    /// Takes no more connections, for good.
    pub(crate) fn close(self) {
        self.ports.are_done.set(true);
        self.ports.close();
    }
}

/// How many connections each shard was given.
type Given = Rc<RefCell<Vec<u64>>>;

/// Opens the ports. On shard 0.
pub(crate) async fn listen(shard: &Rc<Shard>) -> Result<Listeners, StartError> {
    let config = &shard.state.config;
    let given: Given = Rc::new(RefCell::new(vec![0; usize::from(config.shards)]));
    let listener = open(shard, SocketAddr::new(config.address, config.port)).await?;
    let address = listener.local_addr();
    let mut tasks = vec![accept(shard, listener, given.clone(), Choice::LeastLoaded)];
    if let Some(port) = config.shard_aware_port {
        let listener = open(shard, SocketAddr::new(config.address, port)).await?;
        tasks.push(accept(shard, listener, given, Choice::ByPort));
    }
    let ports = shard.client_ports.clone();
    ports.tasks.replace(tasks);
    Ok(Listeners { ports, address })
}

/// Opens the ports that were closed for a while. On shard 0.
pub(crate) async fn open_again(shard: &Rc<Shard>) -> Result<(), StartError> {
    let ports = &shard.client_ports;
    let mut tries = TRIES;
    while !ports.are_open() && !ports.are_done.get() {
        match listen(shard).await {
            Ok(_) => break,
            Err(StartError::Listen { source, .. })
                if source.kind() == ErrorKind::AddrInUse && tries > 0 => {}
            Err(error) => return Err(error),
        }
        tries -= 1;
        shard.env.sleep(PAUSE).await;
    }
    if ports.are_done.get() {
        // The node has begun to stop meanwhile.
        ports.close();
    }
    Ok(())
}

/// Opens the port of other nodes. On shard 0.
pub(crate) async fn open_storage_port(shard: &Shard) -> Result<Listener, StartError> {
    let config = &shard.state.config;
    open(shard, SocketAddr::new(config.address, config.storage_port)).await
}

async fn open(shard: &Shard, address: SocketAddr) -> Result<Listener, StartError> {
    let listener = shard.env.listen(address, BACKLOG).await;
    listener.map_err(|source| StartError::Listen { address, source })
}

/// How the shard of a connection is chosen.
#[derive(Clone, Copy)]
enum Choice {
    LeastLoaded,
    ByPort,
}

fn accept(shard: &Rc<Shard>, listener: Listener, given: Given, choice: Choice) -> Task<()> {
    let shard = shard.clone();
    let env = shard.env.clone();
    env.spawn(TaskGroup::Foreground, async move {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let owner = match choice {
                        Choice::LeastLoaded => least_loaded(&shard, &given.borrow()),
                        Choice::ByPort => shard.sharder.shard_of_port(peer.port()),
                    };
                    given.borrow_mut()[usize::from(owner)] += 1;
                    hand_over(&shard, stream, owner).await;
                }
                Err(error) => {
                    tracing::warn!("accepting a connection: {error}");
                    shard.env.sleep(PAUSE).await;
                }
            }
        }
    })
}

/// The shard with the fewest connections: those it was given, less those that have ended.
fn least_loaded(shard: &Shard, given: &[u64]) -> u16 {
    let open = |index: u16| {
        let metrics = &shard.state.metrics[usize::from(index)];
        let (accepted, open) = (
            metrics.connections_accepted.get(),
            metrics.connections.get(),
        );
        given[usize::from(index)].saturating_sub(accepted.saturating_sub(open))
    };
    let shards = 0..shard.env.shards();
    shards.min_by_key(|index| open(*index)).unwrap_or(0)
}

/// Gives a connection to its shard.
async fn hand_over(shard: &Rc<Shard>, stream: TcpStream, owner: u16) {
    if owner == shard.index() {
        let session = session::serve(shard.clone(), stream);
        shard.env.spawn(TaskGroup::Foreground, session).detach();
        return;
    }
    // Nobody else has a handle of a stream that was just accepted.
    if let Ok(stream) = stream.detach() {
        shard.mesh.send(owner, Message::Adopt(stream)).await;
    }
}
