//! The task that removes segments whose writes are all in sstables.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::format::SegmentName;
use super::log::Inner;
use super::state::Segment;

/// How often to look whether the other shards have let go of a file too or have no room, or a removal
/// that failed succeeds now.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How many files are kept to be used again, at most: a flush sets free what a full memtable held,
/// many at once, and until the next one they are all needed again.
const SPARES: u64 = 8;

enum Next {
    /// Nothing can go now.
    Nothing,
    /// The file of this segment goes.
    Remove(SegmentName),
    /// The last shard to need it has removed it.
    Gone(SegmentName),
}

impl Inner {
    /// Removes segments as they become free, until the log is closed; and what it can do without, if
    /// the drive has no room for the log of another shard.
    pub(super) async fn run_releases(&self) {
        while !self.closing.get() {
            self.release_free().await;
            if self.another_is_starved() {
                self.remove_spares().await;
                self.make_room.notify_one();
            }
            let _ = self.env.timeout(LOOK_AGAIN, self.release.notified()).await;
        }
    }

    /// Has another shard's log no room on the drive, but this one has?
    fn another_is_starved(&self) -> bool {
        self.state.borrow().stalled.is_none()
            && self.shared.starved_logs.load(Ordering::Relaxed) > 0
    }

    async fn remove_spares(&self) {
        loop {
            let spare = self.state.borrow_mut().spares.pop();
            let Some(spare) = spare else { return };
            self.discard(&spare).await;
        }
    }

    /// Removes a file that holds nothing.
    pub(super) async fn discard(&self, path: &Path) {
        if let Err(error) = self.env.remove_file(path).await {
            tracing::warn!("commit log: removing {}: {error}", path.display());
        }
    }

    /// Removes what can go.
    pub(super) async fn release_free(&self) {
        let _one_at_a_time = self.releasing.acquire(1).await;
        loop {
            match self.next_release() {
                Next::Nothing => return,
                Next::Gone(name) => {
                    self.state.borrow_mut().segments.remove(&name);
                }
                Next::Remove(name) => {
                    if let Err(error) = self.remove(name).await {
                        let path = self.dir.join(name.file_name());
                        tracing::warn!("commit log: removing {}: {error}", path.display());
                        return;
                    }
                    self.state.borrow_mut().segments.remove(&name);
                }
            }
        }
    }

    /// What to do with the oldest segment.
    fn next_release(&self) -> Next {
        let state = &mut *self.state.borrow_mut();
        if state.replaying {
            return Next::Nothing;
        }
        self.let_go_of_shared(&mut state.segments);
        let Some((name, segment)) = state.segments.iter().next() else {
            return Next::Nothing;
        };
        if !segment.is_free() {
            return Next::Nothing;
        }
        if segment.without_file {
            return Next::Gone(*name);
        }
        let path = self.dir.join(name.file_name());
        if !self.shared.archive.may_go(&path) {
            return Next::Nothing;
        }
        if name.shards == self.sharder.shards() || segment.last {
            Next::Remove(*name)
        } else if self.shared.is_gone(&path) {
            Next::Gone(*name)
        } else {
            Next::Nothing
        }
    }

    /// Lets go of all files that others need too, up to the first that this shard needs: so the
    /// last shard to come here is the last one for all of them.
    fn let_go_of_shared(&self, segments: &mut BTreeMap<SegmentName, Segment>) {
        let ours = self.sharder.shards();
        let free = segments
            .iter_mut()
            .take_while(|(_, segment)| segment.is_free());
        for (name, segment) in free.filter(|(name, _)| name.shards != ours) {
            if !segment.let_go {
                segment.let_go = true;
                let path = self.dir.join(name.file_name());
                segment.last = self.shared.let_go(&path, ours);
            }
        }
    }

    /// Is there use for one more spare, so that with the segments there are, and the one made ahead,
    /// all stay within what the log may take?
    fn keeps_spare(&self) -> bool {
        let most = self.config.total_bytes / self.config.segment_bytes.max(1);
        let state = self.state.borrow();
        let spares = state.spares.len() as u64;
        let all = state.segments.len() as u64 + spares + 1;
        spares < (most / 2).clamp(1, SPARES) && all <= most && !self.another_is_starved()
    }

    async fn remove(&self, name: SegmentName) -> std::io::Result<()> {
        let path = self.dir.join(name.file_name());
        let ours = name.shards == self.sharder.shards();
        // What is archived or was restored by a link is this very file: to use it again would change it
        // there too. Of earlier runs' files nobody knows what has links to them.
        let linked = self.shared.archive.is_enabled() || name.segment < self.run.get();
        let again = ours && !linked && self.keeps_spare();
        let spare = again.then(|| self.spare_path(name));
        let removed = match &spare {
            Some(spare) => self.env.rename(&path, spare).await,
            None => self.env.remove_file(&path).await,
        };
        let spare = match removed {
            Ok(()) => spare,
            // Somebody else has removed it; it was not needed any more.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Before anything younger is removed, see the order in which segments go, and before the file
        // is used again.
        self.env.sync_dir(&self.dir).await?;
        self.state.borrow_mut().spares.extend(spare);
        self.shared.archive.went(&path);
        if !ours {
            self.shared.removed(&path);
        }
        Ok(())
    }

    /// Removes all files of this shard, the oldest first.
    pub(super) async fn remove_all(&self) -> std::io::Result<()> {
        let mut names: Vec<(u64, String)> = Vec::new();
        for entry in self.env.read_dir(&self.dir).await? {
            let spare = format!(".{SPARE_EXTENSION}");
            let name = entry.name.strip_suffix(&spare).unwrap_or(&entry.name);
            let ours = SegmentName::parse(name)
                .filter(|n| (n.shard, n.shards) == (self.shard, self.sharder.shards()));
            if let Some(name) = ours {
                names.push((name.segment, entry.name));
            }
        }
        names.sort();
        for (_, name) in names {
            // The task that removes segments may not have been through yet.
            let path = self.dir.join(name);
            self.env.remove_file_if_there(&path).await?;
            self.env.sync_dir(&self.dir).await?;
        }
        Ok(())
    }

    fn spare_path(&self, name: SegmentName) -> PathBuf {
        self.dir
            .join(format!("{}.{SPARE_EXTENSION}", name.file_name()))
    }
}

/// The extension of files that are kept to be used again, and removed at the next start.
pub(crate) const SPARE_EXTENSION: &str = "spare";
