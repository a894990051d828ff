//! What a member of Raft has on its drive, opened together.

use std::path::Path;

use io::Env;

use super::journal::JournalError;
use super::log::{Log, LogError};
use super::machine::{Machine, Subscriber};
use super::snapshot::SnapshotFileError;

/// The folder, the journal in it, and the snapshot.
const FOLDER: &str = "metadata";
const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";

/// Why a member does not start from what is on its drive.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be made.
    #[error(transparent)]
    Folder(#[from] JournalError),
    /// The log does not open.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The snapshot does not open.
    #[error(transparent)]
    Snapshot(#[from] SnapshotFileError),
    /// The log begins behind what the snapshot has.
    #[error(
        "the log in {folder} begins behind entry {purged}, and no snapshot beside it goes that far: \
         restore `snapshot` and `log` from the same backup, or remove the node from the cluster and \
         let it join anew"
    )]
    Missing {
        /// Their folder.
        folder: String,
        /// The last entry that is not in the log any more.
        purged: u64,
    },
}

/// Opens `metadata/log` and `metadata/snapshot` in a folder, or begins them. What is given is on the
/// drive, whatever a process that was killed left. Nobody else may have them open, in this process
/// either ([`Log::close`], [`Machine::close`]).
///
/// # Errors
/// They are damaged or do not go together, or the drive fails.
pub async fn open<S: Subscriber>(
    env: &Env,
    folder: &Path,
    subscriber: S,
) -> Result<(Log, Machine<S>), OpenError> {
    let metadata = folder.join(FOLDER);
    let made = env.create_dir_all(&metadata).await;
    made.map_err(JournalError::io("make", &metadata))?;
    let synced = env.sync_dir(folder).await;
    synced.map_err(JournalError::io("sync", folder))?;
    let log = Log::open(env, &metadata.join(LOG)).await?;
    let machine = Machine::open(env, &metadata.join(SNAPSHOT), subscriber).await?;
    match log.purged() {
        Some(purged) if machine.snapshot_last() < Some(purged) => {
            let folder = metadata.display().to_string();
            let purged = purged.index;
            Err(OpenError::Missing { folder, purged })
        }
        _ => Ok((log, machine)),
    }
}
