//! Taking connections in. Shard 0 accepts for all.
//!
//! On the usual port a connection goes to the shard that has the fewest; on the shard-aware port
//! to the one that the client names by its own port (scylladb/scylladb
//! `docs/dev/protocol-extensions.md`).

use std::cell::RefCell;
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

/// The open ports of a node.
pub(crate) struct Listeners {
    tasks: Vec<Task<()>>,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
}

impl Listeners {
    /// Takes no more connections.
    pub(crate) fn close(self) {
        for task in self.tasks {
            drop(task.cancel());
        }
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
    Ok(Listeners { tasks, address })
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
