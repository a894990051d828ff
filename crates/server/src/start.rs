//! `helenus start`: everything from the command line to the last line of a drain.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use node::{MetadataConfig, Node, NodeConfig};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use storage::{CommitLogConfig, Verdict};

use crate::archiving::{Archiving, ArchivingError};
use crate::config_file::{self, ConfigFileError};
use crate::control::{Control, HttpListeners, Phase};
use crate::data_folder::{DataFolder, DataFolderError};
use crate::encryption::{EncryptionError, InternodeEncryption};
use crate::limits::{self, TooFewDescriptors};
use crate::logging;
use crate::machine::{self, Machine};
use crate::options::StartOptions;
use crate::settings::{Settings, SettingsError};
use crate::size;

/// The number of tokens of a new node: Cassandra's `num_tokens`.
const NUM_TOKENS: u16 = 16;
/// How often the process looks whether all shards run.
const LIFE_SIGN: Duration = Duration::from_millis(250);

/// After how many of those it looks whether certificates have changed.
const SIGNS_TO_RELOAD: u32 = 40;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The configuration file is no good.
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// The options do not fit together.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The system gives too little.
    #[error(transparent)]
    Descriptors(#[from] TooFewDescriptors),
    /// The folder cannot be used.
    #[error(transparent)]
    DataFolder(#[from] DataFolderError),
    /// A port cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another port with --{option}")]
    Port {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
        /// The option that moves it.
        option: &'static str,
    },
    /// The control thread cannot be started.
    #[error("cannot start the control thread: {0}")]
    Control(std::io::Error),
    /// Whoever started it does not want it any more.
    #[error(
        "the process {0}, which {PARENT} names, has not started this node or is gone: unset {PARENT}"
    )]
    NoParent(String),
    /// Keys and certificates cannot be used.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// Segments of the commit log cannot be archived or restored.
    #[error(transparent)]
    Archiving(#[from] ArchivingError),
    /// The node itself does not start.
    #[error(transparent)]
    Node(#[from] node::StartError),
    /// The node did not end as it should have.
    #[error(transparent)]
    Drain(#[from] node::DrainError),
}

/// Starts a node, waits for a signal, drains. `memory` is what the allocator gives out, or why it asks the system for it.
pub(crate) fn start(
    options: StartOptions,
    memory: Result<&'static io::Arenas, &'static std::io::Error>,
) -> Result<(), StartError> {
    let logs = logging::start();
    let options = match &options.config {
        Some(path) => {
            let file = config_file::read(path)?;
            options.or(file)
        }
        None => options,
    };
    let settings = Settings::resolve(options, Machine::inspect())?;
    stop_with_parent()?;
    limits::raise_open_files()?;
    limits::lock_code();
    let ready = memory.map(|memory| memory.keep_ready(settings.memory));
    let refused = match &ready {
        Ok(ready) => ready.as_ref().err(),
        Err(error) => Some(*error),
    };
    if let Some(error) = refused {
        tracing::info!("memory comes from the system as it is needed: {error}");
    }
    let folder = DataFolder::lock(&settings.data)?;
    check_ports(&settings)?;
    let control = Control::start(http_listeners(&settings)?).map_err(StartError::Control)?;
    // There is one start in a process, so these are the first.
    let _ = control.status.logs.set(logs);
    run(&settings, &folder, &control)
}

/// A process that starts nodes and is to take them along when it ends, however it ends, says its number in
/// the environment under this name.
pub(crate) const PARENT: &str = "HELENUS_CLUSTER";

/// Has the system tell this process to stop when the one that started it is gone.
fn stop_with_parent() -> Result<(), StartError> {
    let Ok(parent) = std::env::var(PARENT) else {
        return Ok(());
    };
    let set = set_parent_process_death_signal(Some(Signal::TERM));
    set.map_err(|error| StartError::Control(error.into()))?;
    // It may have gone before that.
    let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    match now.as_ref() == Some(&parent) {
        true => Ok(()),
        false => Err(StartError::NoParent(parent)),
    }
}

/// Are all ports free that a node of these settings needs?
pub(crate) fn check_all_ports(settings: &Settings) -> Result<(), StartError> {
    check_ports(settings)?;
    http_listeners(settings).map(drop)
}

fn http_listeners(settings: &Settings) -> Result<HttpListeners, StartError> {
    let watching = settings.metrics_port.map(|port| {
        let address = SocketAddr::new(settings.address, port);
        listen(address, "metrics-port")
    });
    let api = settings.api.map(|address| listen(address, "api-port"));
    Ok(HttpListeners {
        watching: watching.transpose()?,
        api: api.transpose()?,
    })
}

/// A node on another folder, or a Cassandra, may have the ports: better said now than after the
/// replay of a large commit log.
fn check_ports(settings: &Settings) -> Result<(), StartError> {
    listen(settings.cql(), "port")?;
    if let Some(port) = settings.shard_aware_port {
        listen(SocketAddr::new(settings.address, port), "shard-aware-port")?;
    }
    let storage = SocketAddr::new(settings.address, settings.storage_port);
    listen(storage, "storage-port")?;
    Ok(())
}

/// How long a port may still be taken: the kernel closes the sockets of a killed node's io_uring a
/// little after the process is gone, and whoever watches it starts the next one at once.
const PORT_PATIENCE: Duration = Duration::from_secs(3);
/// How long to wait before a port is tried again.
const PORT_PAUSE: Duration = Duration::from_millis(20);

fn listen(address: SocketAddr, option: &'static str) -> Result<TcpListener, StartError> {
    let mut tries = PORT_PATIENCE.as_millis() / PORT_PAUSE.as_millis();
    loop {
        let source = match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(source) => source,
        };
        let taken = source.kind() == std::io::ErrorKind::AddrInUse;
        if !taken || tries == 0 {
            return Err(StartError::Port {
                address,
                source,
                option,
            });
        }
        tries -= 1;
        // There are no shards yet whose clock this could be.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(PORT_PAUSE);
    }
}

/// Starts the node and serves until a signal comes.
fn run(settings: &Settings, folder: &DataFolder, control: &Control) -> Result<(), StartError> {
    tracing::info!(
        "sstables in {}, commit log in {}, {} shards, {} of memory, {:?}",
        folder.sstables.display(),
        folder.commitlog.display(),
        settings.shards,
        size::display(settings.memory),
        settings.commitlog.sync,
    );
    let archiving = match &settings.commitlog_archiving {
        Some(path) => Archiving::read(path)?,
        None => Archiving::default(),
    };
    archiving.archive_found(&folder.commitlog)?;
    archiving.restore(&folder.commitlog)?;
    let encryption = InternodeEncryption::open(&settings.encryption)?;
    let shared = encryption.as_ref().map(InternodeEncryption::shared);
    if let Some(encryption) = encryption {
        // There is one node in a process, so this is the first.
        let _ = control.status.encryption.set(Mutex::new(encryption));
    }
    let config = NodeConfig {
        encryption: shared,
        ..node_config(settings, folder, &archiving)
    };
    let node = Node::start(config)?;
    let started = archiving.start(Arc::clone(node.files()));
    started.map_err(StartError::Control)?;
    if let Some(reason) = &node.driver().reason {
        tracing::info!("I/O by {}: {reason}", node.driver().name);
    }
    let watch = node.watch();
    control
        .status
        .metrics
        .connect(move || watch.metrics().shards);
    // There is one node in a process, so this is the first.
    let _ = control.status.admin.set(node.admin());
    control.status.enter(Phase::Ready);
    announce(settings, node.driver().name);
    let mut signs = 0;
    while !control.wait_for_stop(LIFE_SIGN) {
        if !node.is_running() {
            break;
        }
        signs += 1;
        if signs % SIGNS_TO_RELOAD == 0 {
            control.status.look_at_certificates();
        }
        obey_policies(&node, control);
    }
    Ok(node.drain()?)
}

/// Does what the failure policies ask for after a drive has failed.
fn obey_policies(node: &Node, control: &Control) {
    let (verdict, reason) = node.files().health.verdict();
    let reason = reason.unwrap_or_default();
    match verdict {
        Verdict::GoOn => {}
        Verdict::StopClients if control.status.phase() == Phase::Failed => {}
        Verdict::StopClients => {
            tracing::error!("clients are sent away, as the failure policies say: {reason}");
            control.status.enter(Phase::Failed);
            if let Err(error) = node.stop_clients() {
                tracing::error!("sending clients away: {error}");
            }
        }
        Verdict::Die => {
            tracing::error!("the process ends, as the failure policies say: {reason}");
            std::process::exit(1);
        }
    }
}

fn node_config(settings: &Settings, folder: &DataFolder, archiving: &Archiving) -> NodeConfig {
    NodeConfig {
        data: folder.path.clone(),
        sstables: folder.sstables.clone(),
        commitlog_dir: folder.commitlog.clone(),
        address: settings.address,
        port: settings.port,
        shard_aware_port: settings.shard_aware_port,
        shards: settings.shards,
        cpus: machine::cpus_of(settings.shards),
        driver: settings.driver,
        memory: settings.memory,
        sstable_format: settings.sstable_format,
        commitlog: CommitLogConfig {
            restore_until: archiving.restore_until.unwrap_or(i64::MAX),
            restore_point: archiving.restore_point.unwrap_or(i64::MAX),
            snapshot_position: archiving.snapshot_position,
            ..settings.commitlog
        },
        commitlog_total_space: settings.commitlog_total_space,
        archives: archiving.archive_command.is_some(),
        failure_policies: settings.failure_policies,
        auto_snapshot: settings.auto_snapshot,
        user_functions: settings.user_functions,
        materialized_views: settings.materialized_views,
        sasi_indexes: settings.sasi_indexes,
        dynamic_data_masking: settings.dynamic_data_masking,
        batch_limits: settings.batch_limits,
        guardrails: settings.guardrails.clone(),
        tombstones: settings.tombstones,
        incremental_backups: settings.incremental_backups,
        cluster_name: settings.cluster_name.clone(),
        data_center: settings.data_center.clone(),
        rack: settings.rack.clone(),
        storage_port: settings.storage_port,
        seeds: settings.seeds.clone(),
        encryption: None,
        num_tokens: NUM_TOKENS,
        metadata: MetadataConfig::default(),
    }
}

/// What the one line begins with that a node prints when clients can connect.
pub(crate) const READY: &str = "helenus ready: ";

fn announce(settings: &Settings, driver: &str) {
    let shards = match settings.shards {
        1 => "1 shard".to_owned(),
        shards => format!("{shards} shards"),
    };
    let memory = size::display(settings.memory);
    let line = format!(
        "{READY}CQL {}, {shards}, {memory}, {driver}\n",
        settings.cql()
    );
    // Nobody may be reading; the node serves all the same.
    let _ = std::io::stdout().write_all(line.as_bytes());
}
