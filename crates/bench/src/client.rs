//! The threads that make the load: each has an executor, a session and some of the workers.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::connection::{Connection, DatabaseError};
use crate::gate::Gate;
use crate::measurement::Recorder;
use crate::options::Common;
use crate::pacing::{self, Pacing};
use crate::table::{Buffers, Table, Task};
use crate::workload::{Kind, Workload};

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) options: Common,
    pub(crate) workload: Workload,
    /// One for each thread.
    pub(crate) recorders: Vec<Recorder>,
    /// Its limit does not count the warm-up.
    pub(crate) gate: Gate,
}

impl Load {
    pub(crate) fn new(options: Common, workload: Workload, client_threads: usize) -> Load {
        Load {
            options,
            workload,
            recorders: (0..client_threads).map(|_| Recorder::new()).collect(),
            gate: Gate::open(),
        }
    }
}

/// Threads that are connected, and wait for the start.
pub(crate) struct Clients {
    threads: Vec<JoinHandle<Result<(), String>>>,
    starts: Vec<mpsc::Sender<Start>>,
}

/// What a thread is told when it may go: when, or at which moments.
enum Start {
    At(Instant),
    Paced(Arc<Pacing>),
}

impl Clients {
    /// Starts the threads and waits until all are connected.
    pub(crate) fn connect(load: &Arc<Load>) -> Result<Clients, String> {
        let mut clients = Clients {
            threads: Vec::new(),
            starts: Vec::new(),
        };
        let (ready, all_ready) = mpsc::channel();
        for index in 0..load.recorders.len() {
            let (start, started) = mpsc::channel();
            let (load, ready) = (load.clone(), ready.clone());
            let thread = std::thread::Builder::new().name(format!("client-{index}"));
            let work = move || run_thread(&load, index, &ready, &started);
            let thread = thread.spawn(work).map_err(|error| error.to_string())?;
            clients.threads.push(thread);
            clients.starts.push(start);
        }
        for _ in &clients.threads {
            let connected = all_ready
                .recv()
                .map_err(|_| "a client thread ended".to_owned())?;
            connected?;
        }
        Ok(clients)
    }

    /// Lets them go, all at one moment.
    pub(crate) fn start(&self, load: &Arc<Load>) {
        let moment = Instant::now() + Duration::from_millis(10);
        let count = self.starts.len();
        let pacings = load.options.rate;
        let pacings = pacings.map(|rate| pacing::shares(moment, rate, count));
        for (i, start) in self.starts.iter().enumerate() {
            let order = match &pacings {
                Some(pacings) => Start::Paced(pacings[i].clone()),
                None => Start::At(moment),
            };
            // A thread that is gone says why when it is joined.
            let _ = start.send(order);
        }
    }

    /// Have all ended?
    pub(crate) fn finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end.
    pub(crate) fn join(self) -> Result<(), String> {
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| "a client thread panicked".to_owned())??;
        }
        Ok(())
    }
}

fn run_thread(
    load: &Arc<Load>,
    index: usize,
    ready: &mpsc::Sender<Result<(), String>>,
    started: &mpsc::Receiver<Start>,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let local = LocalSet::new();
    let opened = local.block_on(&runtime, open(&load.options));
    let (opened, answer) = match opened {
        Ok(opened) => (Some(opened), Ok(())),
        Err(error) => (None, Err(error.to_string())),
    };
    let told = ready.send(answer).is_ok();
    let (Some(opened), true, Ok(start)) = (opened, told, started.recv()) else {
        // The reason was told.
        return Ok(());
    };
    local.block_on(&runtime, run_workers(load, index, opened, start))
}

/// Connects, and prepares the statements.
async fn open(options: &Common) -> Result<(Connection, Table), DatabaseError> {
    let connection = Connection::open(options).await?;
    let table = Table::open(&connection, options).await?;
    Ok((connection, table))
}

/// All workers of one thread, to their end.
async fn run_workers(
    load: &Arc<Load>,
    index: usize,
    opened: (Connection, Table),
    start: Start,
) -> Result<(), String> {
    let (clients, workers) = (load.recorders.len(), load.options.threads);
    let opened = Rc::new(opened);
    let pacing = match start {
        Start::Paced(pacing) => Some(pacing),
        Start::At(moment) => {
            tokio::time::sleep_until(moment.into()).await;
            None
        }
    };
    let pacer = pacing.clone().map(|pacing| {
        let load = load.clone();
        tokio::task::spawn_local(async move { pacing.drive(&load.gate.stopped).await })
    });
    let mut running = Vec::new();
    for worker in (index..workers.max(clients)).step_by(clients) {
        let (load, opened, pacing) = (load.clone(), opened.clone(), pacing.clone());
        let work = async move { work(&load, index, worker, &opened, pacing.as_deref()).await };
        running.push(tokio::task::spawn_local(work));
    }
    for worker in running {
        worker.await.map_err(|error| error.to_string())?;
    }
    match pacer {
        Some(pacer) => pacing::ended(pacer.await),
        None => Ok(()),
    }
}

/// One worker: one operation after the other.
async fn work(
    load: &Load,
    index: usize,
    worker: usize,
    (connection, table): &(Connection, Table),
    pacing: Option<&Pacing>,
) {
    let recorder = &load.recorders[index];
    let seed = load
        .options
        .seed
        .wrapping_mul(1 << 20)
        .wrapping_add(worker as u64);
    let mut chooser = load.workload.worker(seed);
    let mut buffers = Buffers::default();
    loop {
        let begun = match pacing {
            None => Instant::now(),
            Some(pacing) => match pacing.next().await {
                Some(due) => due,
                None => return,
            },
        };
        if !load.gate.pass() {
            return;
        }
        let operation = chooser.next();
        let task = Task {
            connection,
            random: &mut chooser.random,
            buffers: &mut buffers,
        };
        let done = table.execute(&operation, task).await;
        match done {
            Ok(found) => recorder.succeeded(operation.kind.name(), begun.elapsed(), found),
            Err(error) => recorder.failed(error),
        }
        if operation.kind == Kind::Insert {
            // Also if it failed: those behind it must not wait for ever.
            load.workload.inserted(operation.record);
        }
    }
}
