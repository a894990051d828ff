//! Operations on a node that no client asks for in CQL: what `nodetool` and the REST API do.
//!
//! They come from threads that are no shards. An operation is a function that a shard is sent; it
//! runs there as a task of [`TaskGroup::Maintenance`](io::TaskGroup) and answers through a channel.
//! The calls here block until all shards that were asked have answered.

mod clients;
mod cluster;
mod compaction;
mod gossip;
mod hints;
mod import;
mod information;
mod settings;
mod snapshots;
mod tables;
mod views;

use std::fmt::Display;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};

use model::{Schema, Table, TableId};

use crate::node::{Control, ShardHandle};
use crate::shard::Shard;

pub(crate) use cluster::ranges;
pub use cluster::{ClusterInformation, NodeState, NodeStatus, RangeReplicas};
pub use compaction::{CompactionReport, RECENT_MINUTES, RunningCompaction, token_range};
pub use gossip::Silence;
pub use information::NodeInformation;
pub(crate) use snapshots::schema_cql;
pub use snapshots::{SnapshotAge, SnapshotRequest, SnapshotSelection};

/// What a shard is sent to do.
pub(crate) type Operation = Box<dyn FnOnce(Rc<Shard>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// There is no such keyspace.
    #[error("Keyspace [{0}] does not exist.")]
    UnknownKeyspace(String),
    /// There is no such table.
    #[error("Unknown keyspace/cf pair ({0}.{1})")]
    UnknownTable(String, String),
    /// What was asked for makes no sense: nothing was done.
    #[error("{0}")]
    Refused(String),
    /// It was begun and could not be finished.
    #[error("{0}")]
    Failed(String),
    /// So much is under way that no more is taken.
    #[error("too many operations are under way: try again when some have finished")]
    Busy,
    /// The node has been drained or is about to end.
    #[error("the node is shutting down")]
    Closed,
}

/// May a service be started that an operator stopped (`StorageService.checkServiceAllowedToStart`)?
fn refuse_to_start(service: &str, shard: &Shard) -> Result<(), AdminError> {
    match shard.stopping.get() {
        true => Err(AdminError::Refused(format!(
            "Unable to start {service} because the node was drained, or a drive has failed: start it again"
        ))),
        false => Ok(()),
    }
}

/// Operates a node from any thread.
#[derive(Clone)]
pub struct Admin {
    shards: Arc<[ShardHandle]>,
    /// Held while sstables are imported.
    importing: Arc<Mutex<()>>,
    /// Held while the node is closed or opened to clients.
    clients: Arc<Mutex<()>>,
}

impl Admin {
    pub(crate) fn new(shards: Arc<[ShardHandle]>) -> Admin {
        Admin {
            shards,
            importing: Arc::default(),
            clients: Arc::default(),
        }
    }

    /// Has one shard do something.
    fn on<T, F>(
        &self,
        shard: usize,
        operation: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<mpsc::Receiver<T>, AdminError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (answer, answers) = mpsc::channel();
        let operation: Operation = Box::new(move |shard| {
            Box::pin(async move {
                // Who asked may have gone.
                let _ = answer.send(operation(shard).await);
            })
        });
        let sent = self.shards[shard]
            .control
            .try_send(Control::Operate(operation));
        sent.map(|()| answers).map_err(|_| AdminError::Busy)
    }

    /// Has shard 0, which leads, do something, and waits.
    fn lead<T, F>(
        &self,
        operation: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, AdminError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let answers = self.on(0, operation)?;
        answers.recv().map_err(|_| AdminError::Closed)
    }

    /// Has all shards do the same at once, and waits for all; their answers in order.
    fn everywhere<T, F>(
        &self,
        operation: impl Fn(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Result<Vec<T>, AdminError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let all = 0..self.shards.len();
        let asked: Vec<_> = all.map(|shard| self.on(shard, operation.clone())).collect();
        // Those that were asked are waited for, whatever became of the others.
        let answered: Vec<_> = asked
            .into_iter()
            .map(|asked| asked.and_then(|answers| answers.recv().map_err(|_| AdminError::Closed)))
            .collect();
        answered.into_iter().collect()
    }

    /// As [`Admin::everywhere`], of an operation that may fail: the first error once all are done.
    fn try_everywhere<T, E, F>(
        &self,
        operation: impl Fn(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Result<Vec<T>, AdminError>
    where
        T: Send + 'static,
        E: Display + 'static,
        F: Future<Output = Result<T, E>> + 'static,
    {
        let run = move |shard: Rc<Shard>| {
            let done = operation(shard);
            async move {
                done.await
                    .map_err(|error| AdminError::Failed(error.to_string()))
            }
        };
        self.everywhere(run)?.into_iter().collect()
    }

    /// The schema as of now.
    pub fn schema(&self) -> Result<Arc<Schema>, AdminError> {
        self.lead(async |shard: Rc<Shard>| shard.metadata().schema.clone())
    }

    /// The tables of this node that an operation is to be done on: all of all keyspaces, all of one
    /// keyspace, or some of it. Virtual tables have nothing to operate on.
    pub fn tables(
        &self,
        keyspace: Option<&str>,
        names: &[String],
    ) -> Result<Vec<Arc<Table>>, AdminError> {
        let schema = self.schema()?;
        let Some(keyspace) = keyspace else {
            let keyspaces = schema.keyspaces.values();
            let tables = keyspaces.flat_map(|keyspace| keyspace.tables.values());
            return Ok(tables.filter(|table| !table.is_virtual).cloned().collect());
        };
        let found = schema.keyspaces.get(keyspace).filter(|k| !k.is_virtual);
        let unknown = || AdminError::UnknownKeyspace(keyspace.to_owned());
        let found = found.ok_or_else(unknown)?;
        if names.is_empty() {
            return Ok(found.tables.values().cloned().collect());
        }
        let table = |name: &String| {
            let unknown = || AdminError::UnknownTable(keyspace.to_owned(), name.clone());
            found.tables.get(&**name).cloned().ok_or_else(unknown)
        };
        names.iter().map(table).collect()
    }

    fn table_ids(
        &self,
        keyspace: Option<&str>,
        names: &[String],
    ) -> Result<Vec<TableId>, AdminError> {
        let tables = self.tables(keyspace, names)?;
        Ok(tables.iter().map(|table| table.id).collect())
    }

    /// Forgets the rows that were kept for being read again.
    pub fn invalidate_row_cache(&self) -> Result<(), AdminError> {
        let forget = async |shard: Rc<Shard>| shard.store.invalidate_row_cache().await;
        self.everywhere(forget).map(drop)
    }

    /// Says farewell to other nodes, takes no more clients, finishes what is under way, flushes all
    /// memtables and closes the commit log. The process goes on, but writes nothing any more.
    pub fn drain(&self) -> Result<(), AdminError> {
        let stopped = self.ask(Control::StopClients);
        let settled = self.ask(Control::Settle);
        let drained = self.ask(Control::Drain);
        stopped.and(settled).and(drained)
    }

    fn ask(
        &self,
        what: impl Fn(mpsc::Sender<Result<(), String>>) -> Control,
    ) -> Result<(), AdminError> {
        let asked: Vec<_> = self
            .shards
            .iter()
            .map(|shard| {
                let (answer, answers) = mpsc::channel();
                let sent = shard.control.try_send(what(answer));
                sent.map(|()| answers).map_err(|_| AdminError::Busy)
            })
            .collect();
        let mut result = Ok(());
        for answers in asked {
            let answer = answers.and_then(|a| a.recv().map_err(|_| AdminError::Closed));
            result = result.and(answer.and_then(|done| done.map_err(AdminError::Failed)));
        }
        result
    }
}
