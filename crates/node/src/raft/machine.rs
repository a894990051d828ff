//! What the decided entries come to: the metadata of the cluster, and what the node makes of them.
//!
//! The metadata are in memory. A start takes them from the snapshot on the drive and applies the
//! entries behind it again, so the node hears of entries again that it has acted on before: see
//! [`Subscriber`].

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use cluster::{ClusterMetadata, EntryRefused, MetadataEntry};
use futures_util::{Stream, TryStreamExt};
use io::{Env, Semaphore};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use super::journal::JournalError;
use super::snapshot::{self, Contents, SnapshotFileError};
use super::types::{Answer, Entry, LogId, Metadata, Snapshot, SnapshotMeta, StoredMembership};

/// What the node does with metadata. One call at a time, in the order of the log; Raft waits for
/// each, and who proposed an entry has the answer only after [`Subscriber::settle`].
///
/// After a start entries come again, from the snapshot of the drive on, and the schema of that
/// snapshot comes before them. So whoever keeps the schema elsewhere keeps with it the epoch it is of
/// ([`ClusterMetadata::schema_epoch`]), and passes over what is not younger.
///
/// An error ends this Raft, which is made anew then: it is for what no repetition of the call mends.
pub trait Subscriber: 'static {
    /// An entry was decided, and `change.metadata` is what it makes of the metadata. It may be put off:
    /// entries come many at once after a start, or where a node was away.
    fn applied(&self, change: &Applied<'_>) -> impl Future<Output = IoResult<()>>;

    /// No other entry is known for now: all that was told is in force when this returns.
    fn settle(&self) -> impl Future<Output = IoResult<()>>;

    /// All of the schema, for a snapshot behind the entry that was told last.
    fn schema_snapshot(&self) -> impl Future<Output = IoResult<Bytes>>;

    /// Everything is as in a snapshot from now on: `schema` is what [`Subscriber::schema_snapshot`]
    /// gave here or on another node.
    fn install_schema(
        &self,
        metadata: &Rc<ClusterMetadata>,
        schema: Bytes,
    ) -> impl Future<Output = IoResult<()>>;
}

/// An entry that was applied.
#[derive(Debug)]
pub struct Applied<'a> {
    /// What it said.
    pub entry: &'a MetadataEntry,
    /// The metadata with it: its number is their epoch.
    pub metadata: &'a Rc<ClusterMetadata>,
    /// Was it taken? If not, nothing but the epoch has changed.
    pub result: &'a Result<(), EntryRefused>,
}

/// The state machine of a member of Raft. Clones are the same one.
pub struct Machine<S> {
    shared: Rc<Shared<S>>,
}

struct Shared<S> {
    env: Env,
    /// The snapshot's.
    path: PathBuf,
    subscriber: S,
    state: RefCell<State>,
    /// One permit: a snapshot is written after the other.
    turn: Semaphore,
    /// No snapshot is written any more.
    closed: Cell<bool>,
}

struct State {
    last: Option<LogId>,
    membership: StoredMembership,
    metadata: Rc<ClusterMetadata>,
    /// The one on the drive.
    snapshot: Option<Snapshot>,
}

impl<S> Clone for Machine<S> {
    fn clone(&self) -> Machine<S> {
        let shared = self.shared.clone();
        Machine { shared }
    }
}

impl<S: Subscriber> Machine<S> {
    /// The state machine whose snapshot is, or will be, at `path`, in a folder that is there. Nobody
    /// hears of the snapshot yet: Raft installs it when it starts.
    ///
    /// # Errors
    /// The snapshot is damaged, or the drive fails.
    pub async fn open(
        env: &Env,
        path: &Path,
        subscriber: S,
    ) -> Result<Machine<S>, SnapshotFileError> {
        let snapshot = snapshot::read(env, path).await?;
        if snapshot.is_some()
            && let Some(folder) = path.parent()
        {
            // The content was on the drive before it got the name; the name may not be there yet.
            let synced = env.sync_dir(folder).await;
            synced.map_err(JournalError::io("sync", folder))?;
        }
        let state = State {
            last: None,
            membership: StoredMembership::default(),
            metadata: Rc::default(),
            snapshot,
        };
        let shared = Shared {
            env: env.clone(),
            path: path.to_owned(),
            subscriber,
            state: RefCell::new(state),
            turn: Semaphore::new(1),
            closed: Cell::new(false),
        };
        Ok(Machine {
            shared: Rc::new(shared),
        })
    }

    /// The metadata with all entries that the subscriber has heard of.
    pub fn metadata(&self) -> Rc<ClusterMetadata> {
        self.shared.state.borrow().metadata.clone()
    }

    /// Who is told.
    pub fn subscriber(&self) -> &S {
        &self.shared.subscriber
    }

    /// The last entry that the snapshot of the drive has, if there is one.
    pub fn snapshot_last(&self) -> Option<LogId> {
        let state = self.shared.state.borrow();
        state.snapshot.as_ref()?.meta.last_log_id
    }

    /// Waits until no snapshot is on its way to the drive, and writes none any more; as
    /// [`super::Log::close`].
    pub async fn close(&self) {
        let _turn = self.shared.turn.acquire(1).await;
        self.shared.closed.set(true);
    }

    /// Applies an entry.
    async fn apply_one(&self, entry: Entry) -> IoResult<Answer> {
        let LogId { index, .. } = entry.log_id;
        let (last, metadata) = {
            let state = self.shared.state.borrow();
            (state.last, state.metadata.clone())
        };
        // Metadata panic on this.
        if last.is_some_and(|last| last.index >= index) || metadata.epoch() > index {
            let error = format!("entry {index} of the metadata was applied before");
            return Err(Error::new(ErrorKind::InvalidData, error));
        }
        let mut result = Ok(());
        let mut membership = None;
        let mut next = None;
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(members) => {
                membership = Some(StoredMembership::new(Some(entry.log_id), members));
            }
            // The first is not numbered 0: that is the membership's.
            EntryPayload::Normal(_) if index == metadata.epoch() => {
                let error = format!("entry {index} of the metadata comes before any membership");
                return Err(Error::new(ErrorKind::InvalidData, error));
            }
            EntryPayload::Normal(entry) => {
                let (changed, taken) = metadata.apply(index, &entry);
                let changed = Rc::new(changed);
                let change = Applied {
                    entry: &entry,
                    metadata: &changed,
                    result: &taken,
                };
                self.shared.subscriber.applied(&change).await?;
                next = Some(changed);
                result = taken;
            }
        }
        let state = &mut *self.shared.state.borrow_mut();
        state.last = Some(entry.log_id);
        state.membership = membership.unwrap_or_else(|| state.membership.clone());
        state.metadata = next.unwrap_or_else(|| state.metadata.clone());
        let epoch = index;
        Ok(Answer { epoch, result })
    }
}

impl<S> Shared<S> {
    /// Puts a snapshot on the drive, unless a younger one is there already: one that was built while
    /// another came from a leader must not replace that.
    async fn keep(&self, snapshot: &Snapshot) -> IoResult<()> {
        let _turn = self.turn.acquire(1).await;
        if self.closed.get() {
            let error = format!("{} is closed", self.path.display());
            return Err(Error::new(ErrorKind::BrokenPipe, error));
        }
        let last = {
            let state = self.state.borrow();
            state.snapshot.as_ref().map(|kept| kept.meta.last_log_id)
        };
        if last.is_some_and(|last| last >= snapshot.meta.last_log_id) {
            return Ok(());
        }
        snapshot::write(&self.env, &self.path, snapshot).await?;
        self.state.borrow_mut().snapshot = Some(snapshot.clone());
        Ok(())
    }
}

/// A snapshot on its way to the drive.
pub struct Building<S> {
    shared: Rc<Shared<S>>,
    /// Taken between two entries; what the subscriber says if it has none.
    snapshot: IoResult<Snapshot>,
}

impl<S: Subscriber> RaftSnapshotBuilder<Metadata> for Building<S> {
    type SnapshotData = Contents;

    async fn build_snapshot(&mut self) -> IoResult<Snapshot> {
        let snapshot = match &self.snapshot {
            Ok(snapshot) => snapshot.clone(),
            Err(error) => return Err(Error::new(error.kind(), error.to_string())),
        };
        self.shared.keep(&snapshot).await?;
        Ok(snapshot)
    }
}

impl<S: Subscriber> RaftStateMachine<Metadata> for Machine<S> {
    type SnapshotData = Contents;
    type SnapshotBuilder = Building<S>;

    async fn applied_state(&mut self) -> IoResult<(Option<LogId>, StoredMembership)> {
        let state = self.shared.state.borrow();
        Ok((state.last, state.membership.clone()))
    }

    async fn apply<Entries>(&mut self, mut entries: Entries) -> IoResult<()>
    where
        Entries: Stream<Item = IoResult<EntryResponder<Metadata>>> + Unpin + OptionalSend,
    {
        let mut answers = Vec::new();
        while let Some((entry, responder)) = entries.try_next().await? {
            let answer = self.apply_one(entry).await?;
            answers.extend(responder.map(|responder| (responder, answer)));
        }
        self.shared.subscriber.settle().await?;
        for (responder, answer) in answers {
            responder.send(answer);
        }
        Ok(())
    }

    /// Raft calls this between two entries, so metadata and schema are of the same.
    async fn get_snapshot_builder(&mut self) -> Building<S> {
        let schema = self.shared.subscriber.schema_snapshot().await;
        let state = self.shared.state.borrow();
        let snapshot = schema.map(|schema| Snapshot {
            meta: SnapshotMeta {
                last_log_id: state.last,
                last_membership: state.membership.clone(),
            },
            snapshot: Contents {
                metadata: state.metadata.clone(),
                schema,
            },
        });
        Building {
            shared: self.shared.clone(),
            snapshot,
        }
    }

    /// On the drive first: entries that it has are purged next.
    async fn install_snapshot(&mut self, meta: &SnapshotMeta, contents: Contents) -> IoResult<()> {
        let snapshot = Snapshot {
            meta: meta.clone(),
            snapshot: contents,
        };
        self.shared.keep(&snapshot).await?;
        let Contents { metadata, schema } = snapshot.snapshot;
        let subscriber = &self.shared.subscriber;
        subscriber.install_schema(&metadata, schema).await?;
        let state = &mut *self.shared.state.borrow_mut();
        state.last = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        state.metadata = metadata;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> IoResult<Option<Snapshot>> {
        Ok(self.shared.state.borrow().snapshot.clone())
    }
}
