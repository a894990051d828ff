//! A node as the process that runs it sees it: a handle from outside the shards.

use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use io::{DriverReport, GroupStats, Inlet, Runtime, RuntimeConfig, ShardError};
use storage::{SharedFiles, StoreStats};

use crate::admin::{Admin, Operation};
use crate::config::NodeConfig;
use crate::flaw::Flaw;
use crate::metrics::ShardMetrics;
use crate::shard::{Seat, Shard, SharedState};
use crate::start::{self, StartError};
use crate::system::system_keyspaces;

/// How long a shard may take to tell its numbers before its last ones are shown.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(1);
/// How many messages wait for a shard's control task. More are never under way.
const CONTROL_QUEUE: usize = 16;
/// How many messages from one shard wait for another.
const MESH_CAPACITY: usize = 1024;

/// What the process asks of a shard.
pub(crate) enum Control {
    /// Tell the numbers.
    Snapshot(mpsc::Sender<ShardSnapshot>),
    /// Take no more requests, and finish those under way.
    StopClients(mpsc::Sender<Result<(), String>>),
    /// Do what an administrator asks.
    Operate(Operation),
    /// Write down what others have to know, and decide on nothing more.
    Settle(mpsc::Sender<Result<(), String>>),
    /// Flush everything and write nothing from then on.
    Drain(mpsc::Sender<Result<(), String>>),
    /// Flush everything and end.
    Close(mpsc::Sender<Result<(), String>>),
    /// End at once.
    Abort,
}

/// A shard's numbers at one moment.
#[derive(Clone, Debug)]
pub struct ShardSnapshot {
    /// Which shard.
    pub shard: u16,
    /// What it counts of requests and connections.
    pub requests: Arc<ShardMetrics>,
    /// What its store did and holds; `None` until it is open.
    pub store: Option<StoreStats>,
    /// What its groups of tasks did.
    pub groups: Vec<GroupStats>,
    /// How many of its tasks panicked: each is a defect.
    pub task_panics: u64,
    /// What all shards share: one of them tells it.
    pub process: Option<ProcessSnapshot>,
}

/// What the shards of a process share.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessSnapshot {
    /// Bytes of memory that it really has ([`io::Env::resident_bytes`]); 0 where the system does not say.
    pub resident_bytes: u64,
    /// Bytes that flushes and compactions may have under way ([`io::Env::background_window`]).
    pub background_window: u64,
}

/// The numbers of all shards.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    /// By shard.
    pub shards: Vec<ShardSnapshot>,
}

/// A shard as other threads see it.
pub(crate) struct ShardHandle {
    pub(crate) control: Inlet<Control>,
    last: Mutex<ShardSnapshot>,
}

/// A running node.
pub struct Node {
    runtime: Runtime,
    watch: NodeWatch,
    address: SocketAddr,
    files: Arc<SharedFiles>,
}

/// Sees the numbers of a node from any thread; after the node has ended, its last ones.
#[derive(Clone)]
pub struct NodeWatch {
    shards: Arc<[ShardHandle]>,
}

/// Why a node did not stop as it should have. What was acknowledged is in the commit log.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// A shard could not finish.
    #[error("shard {shard}: {reason}")]
    Shard {
        /// Which.
        shard: u16,
        /// Why.
        reason: String,
    },
    /// A shard ended before.
    #[error(transparent)]
    Ended(#[from] ShardError),
}

/// The shards of a node that have not been started yet. [`Node::start`] runs them on threads of their
/// own; a simulator runs them on its.
pub struct NodeShards {
    state: Arc<SharedState>,
    seats: Mutex<Vec<Option<Seat>>>,
    handles: Arc<[ShardHandle]>,
    started: mpsc::Receiver<Result<SocketAddr, StartError>>,
}

impl NodeShards {
    /// Those of a node that is told this.
    pub fn new(config: NodeConfig) -> NodeShards {
        NodeShards::with_flaw(config, Flaw::None)
    }

    /// Those of a node with a mistake, to prove that it is found.
    pub fn with_flaw(config: NodeConfig, flaw: Flaw) -> NodeShards {
        let (ready, started) = mpsc::channel();
        let state = Arc::new(SharedState {
            metrics: (0..config.shards).map(|_| Arc::default()).collect(),
            files: Arc::new(SharedFiles::new(config.failure_policies, config.archives)),
            config,
            system: Arc::new(system_keyspaces()),
            flaw,
        });
        let mut handles = Vec::new();
        let mut seats = Vec::new();
        for (shard, mesh) in io::mesh(state.config.shards, MESH_CAPACITY)
            .into_iter()
            .enumerate()
        {
            let (control, controls) = io::inlet(CONTROL_QUEUE);
            seats.push(Some(Seat {
                mesh,
                controls,
                ready: ready.clone(),
            }));
            handles.push(ShardHandle {
                control,
                last: Mutex::new(ShardSnapshot {
                    shard: shard as u16,
                    requests: state.metrics[shard].clone(),
                    store: None,
                    groups: Vec::new(),
                    task_panics: 0,
                    process: None,
                }),
            });
        }
        NodeShards {
            state,
            seats: Mutex::new(seats),
            handles: handles.into(),
            started,
        }
    }

    /// The life of a shard, from its start to its end.
    ///
    /// # Panics
    /// If a shard is started twice.
    pub fn run(&self, env: io::Env) -> impl Future<Output = ()> + use<> {
        run(env, &self.state, &self.seats)
    }

    /// Has all shards keep hints, or none, until the next start, as [`Admin::enable_hints`] does: for who runs
    /// them on its own thread, and so does not wait for them. Were all told?
    pub fn enable_hints(&self, enabled: bool) -> bool {
        let mut all = true;
        for shard in self.handles.iter() {
            let enable = move |shard: Rc<Shard>| -> Pin<Box<dyn Future<Output = ()>>> {
                Box::pin(async move { shard.hints.enable(enabled) })
            };
            let sent = shard.control.try_send(Control::Operate(Box::new(enable)));
            all &= sent.is_ok();
        }
        all
    }

    /// Where clients connect, once the node is ready; why it is not to be, if it is not to be. Told once;
    /// `None`: not yet, or told already.
    pub fn ready(&self) -> Option<Result<SocketAddr, StartError>> {
        self.started.try_recv().ok()
    }
}

impl Node {
    /// Starts a node. Blocks until clients can connect.
    pub fn start(config: NodeConfig) -> Result<Node, StartError> {
        let node = NodeShards::new(config);
        let (state, shards) = (node.state.clone(), node.handles.clone());
        let runtime = RuntimeConfig {
            shards: state.config.shards,
            driver: state.config.driver,
            cpus: state.config.cpus.clone(),
            name: "shard".to_owned(),
        };
        let NodeShards { seats, started, .. } = node;
        let files = state.files.clone();
        let main = move |env: io::Env| run(env, &state, &seats);
        let runtime = Runtime::start(runtime, main)?;
        match started.recv() {
            Ok(Ok(address)) => Ok(Node {
                runtime,
                watch: NodeWatch { shards },
                address,
                files,
            }),
            Ok(Err(error)) => {
                abort(&shards);
                let _ = runtime.join();
                Err(error)
            }
            Err(_) => {
                abort(&shards);
                let ended = runtime.join();
                Err(StartError::Ended(ended.err()))
            }
        }
    }

    /// The driver in use, and why.
    pub fn driver(&self) -> &DriverReport {
        self.runtime.driver()
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Do all shards run? If one has ended, the node cannot go on.
    pub fn is_running(&self) -> bool {
        self.runtime.is_running()
    }

    /// Sees the numbers of the node, as long as it runs.
    pub fn watch(&self) -> NodeWatch {
        self.watch.clone()
    }

    /// What failed drives ask for, and which segments of the commit log wait to be copied.
    pub fn files(&self) -> &Arc<SharedFiles> {
        &self.files
    }

    /// Operates the node, as long as it runs.
    pub fn admin(&self) -> Admin {
        Admin::new(self.watch.shards.clone())
    }

    /// Sends clients away and takes no new ones; the node stays as it is otherwise. Blocks.
    pub fn stop_clients(&self) -> Result<(), DrainError> {
        self.ask_all(Control::StopClients)
    }

    /// Says farewell to other nodes, takes no more clients, finishes what is under way, flushes everything
    /// and ends. Blocks.
    pub fn drain(self) -> Result<(), DrainError> {
        let stopped = self.ask_all(Control::StopClients);
        let settled = self.ask_all(Control::Settle);
        let closed = self.ask_all(Control::Close);
        abort(&self.watch.shards);
        let ended = self.runtime.join();
        stopped.and(settled).and(closed)?;
        Ok(ended?)
    }

    /// Asks all shards at once and waits for all; the first error is returned once all have
    /// answered.
    fn ask_all(
        &self,
        what: impl Fn(mpsc::Sender<Result<(), String>>) -> Control,
    ) -> Result<(), DrainError> {
        let asked: Vec<_> = self
            .watch
            .shards
            .iter()
            .map(|shard| {
                let (answer, answers) = mpsc::channel();
                let sent = shard.control.try_send(what(answer));
                sent.map(|()| answers)
            })
            .collect();
        let mut result = Ok(());
        for (shard, answers) in asked.into_iter().enumerate() {
            let answer = match answers.map(|answers| answers.recv()) {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err("it ended before".to_owned()),
                Err(_) => Err("it does not answer".to_owned()),
            };
            let shard = shard as u16;
            result = result.and(answer.map_err(|reason| DrainError::Shard { shard, reason }));
        }
        result
    }
}

impl NodeWatch {
    /// The numbers of all shards. A shard that does not answer within a second is shown as it was.
    pub fn metrics(&self) -> NodeMetrics {
        let asked: Vec<_> = self
            .shards
            .iter()
            .map(|shard| {
                let (answer, answers) = mpsc::channel();
                // A full queue means that the shard has not answered before either.
                let _ = shard.control.try_send(Control::Snapshot(answer));
                answers
            })
            .collect();
        let shards = self.shards.iter().zip(asked).map(|(shard, answers)| {
            let mut last = shard.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(snapshot) = answers.recv_timeout(SNAPSHOT_WAIT) {
                *last = snapshot;
            }
            last.clone()
        });
        NodeMetrics {
            shards: shards.collect(),
        }
    }
}

fn run(
    env: io::Env,
    state: &Arc<SharedState>,
    seats: &Mutex<Vec<Option<Seat>>>,
) -> impl Future<Output = ()> + use<> {
    let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
    let seat = seats[usize::from(env.shard().0)].take();
    let seat = seat.expect("each shard starts once");
    start::run_shard(env, state.clone(), seat)
}

fn abort(shards: &[ShardHandle]) {
    for shard in shards {
        // Whoever has ended takes no messages, and need not.
        let _ = shard.control.try_send(Control::Abort);
    }
}
