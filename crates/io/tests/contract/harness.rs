//! Running a scenario on the shards of one node, real or simulated.

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use std::time::Duration;

use io::sim::{SimConfig, Simulation};
use io::{DriverChoice, Env, MeshSeat, Runtime, RuntimeConfig, StartError};

/// What runs the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// io_uring. Where the machine does not allow it the scenario is skipped, and says so.
    IoUring,
    /// epoll with Linux AIO.
    Epoll,
    /// The simulator.
    Simulated,
}

/// Runs `main` on each of `shards` shards of one node, to the end.
pub(crate) fn run<F>(driver: Driver, shards: u16, main: impl Fn(Env) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + 'static,
{
    if driver == Driver::Simulated {
        return simulate(shards, main);
    }
    let config = RuntimeConfig {
        shards,
        driver: match driver {
            Driver::IoUring => DriverChoice::IoUring,
            _ => DriverChoice::Epoll,
        },
        ..RuntimeConfig::default()
    };
    match Runtime::start(config, main) {
        Ok(runtime) => runtime.join().expect("no shard fails"),
        Err(StartError::Driver { source, .. })
            if driver == Driver::IoUring && source.kind() == std::io::ErrorKind::Unsupported =>
        {
            println!("skipped: {source}");
        }
        Err(error) => panic!("the runtime does not start: {error}"),
    }
}

fn simulate<F>(shards: u16, main: impl Fn(Env) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let mut simulation = Simulation::new(1, SimConfig::default());
    let node = simulation.add_node([10, 0, 0, 1].into(), shards, 1 << 30);
    simulation.start(node, &main);
    let ended = simulation.run_to_end(node, Duration::from_secs(3600));
    assert!(ended, "the scenario comes to its end");
}

/// Runs `main` on the only shard of a node.
pub(crate) fn run_one<F>(driver: Driver, main: impl Fn(Env) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + 'static,
{
    run(driver, 1, main);
}

/// Seats of a mesh, each to be taken by its shard.
pub(crate) struct Seats<M>(Arc<Mutex<Vec<Option<MeshSeat<M>>>>>);

impl<M> Clone for Seats<M> {
    fn clone(&self) -> Seats<M> {
        Seats(self.0.clone())
    }
}

impl<M: Send + 'static> Seats<M> {
    pub(crate) fn new(shards: u16, capacity: usize) -> Seats<M> {
        let seats = io::mesh(shards, capacity).into_iter().map(Some).collect();
        Seats(Arc::new(Mutex::new(seats)))
    }

    pub(crate) fn join(&self, env: &Env) -> io::Mesh<M> {
        let seat = self.0.lock().unwrap()[usize::from(env.shard().0)].take();
        seat.expect("each seat is taken once").join(env)
    }
}

/// A folder for one scenario, removed when dropped.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) async fn new(env: &Env) -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-io-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        env.create_dir_all(&path).await.expect("a folder is made");
        Folder { path }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What tasks note, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Rc<RefCell<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.0.borrow_mut().push(note.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

/// Bytes that tell where they were in the whole.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = io::Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Does this process have a file open that the kernel calls so?
pub(crate) fn is_open(path: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .any(|name| name == path)
}
