//! What operators do with hints: keep none, deliver none for a while, look at them, forget them
//! (`HintsService`, `StorageProxy`).

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::{Hints, Kept, LAST_HINTS, WINDOW, records, written};
use crate::shard::Shard;

/// What operators want, until the next start.
#[derive(Default)]
pub(super) struct Wishes {
    /// No hints are kept.
    disabled: Cell<bool>,
    /// None are delivered.
    paused: Cell<bool>,
    /// For how long they are kept for a node that is down, if not for the usual time.
    window: Cell<Option<Duration>>,
}

/// The hints that a shard has on its drive for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingHints {
    /// The node.
    pub host_id: Uuid,
    /// How many files.
    pub files: usize,
    /// When the oldest of them was begun, in milliseconds since 1970.
    pub oldest: i64,
    /// When the newest of them was begun, in milliseconds since 1970.
    pub newest: i64,
}

impl Hints {
    /// Are hints kept?
    pub(crate) fn is_enabled(&self) -> bool {
        !self.wishes.disabled.get()
    }

    /// Has them kept, or not.
    pub(crate) fn enable(&self, enabled: bool) {
        self.wishes.disabled.set(!enabled);
    }

    /// Has none delivered, or goes on with it.
    pub(crate) fn pause(&self, paused: bool) {
        self.wishes.paused.set(paused);
    }

    /// Are none to be delivered?
    pub(super) fn rests(&self) -> bool {
        self.closed.get() || self.wishes.paused.get()
    }

    /// After how long nothing more is kept for a node that is down.
    pub(crate) fn window(&self) -> Duration {
        self.wishes.window.get().unwrap_or(WINDOW)
    }

    /// Sets [`Hints::window`].
    pub(crate) fn set_window(&self, window: Duration) {
        self.wishes.window.set(Some(window));
    }
}

/// What waits for each node.
///
/// # Errors
/// A file cannot be read.
pub(crate) async fn pending(shard: &Shard) -> std::io::Result<Vec<PendingHints>> {
    flushed(shard).await;
    let files = shard.hints.files.borrow().clone();
    let mut pending = Vec::new();
    for (host_id, files) in files {
        let mut begun = Vec::new();
        for path in [files.first(), files.last()].into_iter().flatten() {
            match shard.env.read_file(path).await {
                Ok(bytes) => begun.extend(begun_at(bytes)),
                // It was delivered meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if let (Some(oldest), Some(newest)) = (begun.iter().min(), begun.iter().max()) {
            pending.push(PendingHints {
                host_id,
                files: files.len(),
                oldest: *oldest,
                newest: *newest,
            });
        }
    }
    Ok(pending)
}

/// When the first hint of a file was made; `None` if it has none that is whole.
fn begun_at(bytes: Vec<u8>) -> Option<i64> {
    let mut file = Bytes::from(bytes);
    records::read_head(&mut file)?;
    Some(records::next_hint(&mut file)?.made_at)
}

/// The drive has what was handed in before, if it takes it.
async fn flushed(shard: &Shard) {
    let last = Kept(shard.hints.taken.get());
    let _ = shard.env.timeout(LAST_HINTS, written(shard, last)).await;
}

/// Forgets all hints for a node, or for all.
///
/// # Errors
/// A file cannot be removed.
pub(crate) async fn truncate(shard: &Shard, host_id: Option<Uuid>) -> std::io::Result<()> {
    flushed(shard).await;
    let _turn = shard.hints.turn.0.acquire(1).await;
    let meant = |of: &Uuid| host_id.is_none_or(|host_id| host_id == *of);
    let mut doomed: Vec<PathBuf> = Vec::new();
    shard.hints.open.borrow_mut().retain(|of, _| !meant(of));
    shard.hints.files.borrow_mut().retain(|of, files| {
        if meant(of) {
            doomed.extend(files.iter().cloned());
        }
        !meant(of)
    });
    for path in doomed {
        shard.env.remove_file_if_there(&path).await?;
    }
    Ok(())
}
