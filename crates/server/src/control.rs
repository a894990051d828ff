//! The control thread: signals and HTTP, away from the shards.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::encryption::{EncryptionError, InternodeEncryption};
use crate::logging::Logs;
use crate::metrics::MetricsSource;
use crate::{http, rest};

/// How far the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Opening its files.
    Starting = 0,
    /// Serving.
    Ready = 1,
    /// Finishing what was begun.
    Draining = 2,
    /// Without clients, as a drive has failed.
    Failed = 3,
    /// Without clients, as an operator wants it.
    Closed = 4,
}

/// What the control thread and the rest of the process share.
#[derive(Default)]
pub(crate) struct Status {
    phase: AtomicU8,
    /// Where metrics come from, once there is a node.
    pub(crate) metrics: MetricsSource,
    /// What operates the node, once there is one.
    pub(crate) admin: OnceLock<node::Admin>,
    /// What is logged.
    pub(crate) logs: OnceLock<Logs>,
    /// TLS between nodes, where there is any.
    pub(crate) encryption: OnceLock<Mutex<InternodeEncryption>>,
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Status({:?})", self.phase())
    }
}

/// Where the control thread answers HTTP, as far as it does.
#[derive(Debug, Default)]
pub(crate) struct HttpListeners {
    /// For `/metrics`, `/health`, `/ready`.
    pub(crate) watching: Option<TcpListener>,
    /// For the REST API.
    pub(crate) api: Option<TcpListener>,
}

impl Status {
    /// How far the node is.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            3 => Phase::Failed,
            4 => Phase::Closed,
            _ => Phase::Draining,
        }
    }

    /// The node goes over from one phase to another, if it is in that.
    pub(crate) fn turn(&self, from: Phase, to: Phase) {
        let (from, to) = (from as u8, to as u8);
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        // It is in another: that one holds.
        let _ = self.phase.compare_exchange(from, to, order.0, order.1);
    }

    /// Reads keys and certificates of TLS between nodes again, whether their files have changed or not.
    ///
    /// # Errors
    /// They are no good: the old ones stay in use.
    pub(crate) fn reload_certificates(&self) -> Result<(), EncryptionError> {
        let Some(encryption) = self.encryption.get() else {
            return Ok(());
        };
        let mut encryption = encryption.lock().unwrap_or_else(PoisonError::into_inner);
        encryption.reload()
    }

    /// As [`Status::reload_certificates`] if their files have changed; what is wrong with them is logged.
    pub(crate) fn look_at_certificates(&self) {
        if let Some(encryption) = self.encryption.get() {
            let mut encryption = encryption.lock().unwrap_or_else(PoisonError::into_inner);
            encryption.reload_if_changed();
        }
    }

    /// The node has come this far.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }
}

/// The control thread, running until the process ends.
#[derive(Debug)]
pub(crate) struct Control {
    /// Shared with it.
    pub(crate) status: Arc<Status>,
    stop: Receiver<()>,
}

impl Control {
    /// Starts the thread: from now on signals are caught, and HTTP is answered where there
    /// are listeners.
    pub(crate) fn start(listeners: HttpListeners) -> std::io::Result<Control> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Signals are caught from here on, not only once the thread runs.
        let context = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(context);
        let status = Arc::new(Status::default());
        let shared = Arc::clone(&status);
        let (stopper, stop) = channel();
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let signals = watch_signals(terminate, interrupt, &shared, &stopper);
                    let HttpListeners { watching, api } = listeners;
                    let watching = until_it_ends("HTTP", async {
                        match watching {
                            Some(listener) => http::serve(listener, Arc::clone(&shared)).await,
                            None => Ok(()),
                        }
                    });
                    let api = until_it_ends("the REST API", async {
                        match api {
                            Some(listener) => rest::serve(listener, Arc::clone(&shared)).await,
                            None => Ok(()),
                        }
                    });
                    tokio::join!(signals, watching, api);
                });
            })?;
        Ok(Control { status, stop })
    }

    /// Waits for the first SIGTERM or SIGINT, but no longer than this. Has one come?
    pub(crate) fn wait_for_stop(&self, time: Duration) -> bool {
        // Anything but a timeout means a signal, or that nobody is left who could tell of one.
        self.stop.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }
}

async fn until_it_ends(what: &str, serving: impl Future<Output = std::io::Result<()>>) {
    if let Err(error) = serving.await {
        tracing::error!("{what} ended: {error}");
    }
}

/// The first signal asks for a stop, the second one is obeyed at once. So is the first while the
/// node starts: nothing has been promised to a client yet.
async fn watch_signals(
    mut terminate: Signal,
    mut interrupt: Signal,
    status: &Status,
    stopper: &Sender<()>,
) {
    let number = next_signal(&mut terminate, &mut interrupt).await;
    if status.phase() == Phase::Starting {
        tracing::info!("stopped by signal {number} while starting");
        std::process::exit(0);
    }
    tracing::info!("signal {number}: draining; another one stops at once");
    status.enter(Phase::Draining);
    // Nobody listens only if the process is ending anyway.
    let _ = stopper.send(());
    let number = next_signal(&mut terminate, &mut interrupt).await;
    tracing::warn!("signal {number} again: stopped at once");
    std::process::exit(128 + number);
}

async fn next_signal(terminate: &mut Signal, interrupt: &mut Signal) -> i32 {
    tokio::select! {
        biased;
        _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
        _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
    }
}
