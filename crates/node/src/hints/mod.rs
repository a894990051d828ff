//! Hinted hand-off: what a replica missed is kept here and delivered when it is up again
//! (`HintsService`, `HintsDispatcher`).
//!
//! Each shard keeps the hints of the writes that it coordinates, in files in the folder `hints`: one
//! after the other for each node, of a few megabytes ([`records`]). A node that has been down for longer
//! than three hours (`max_hint_window`) gets no more of them: it has to be repaired. A hint that is as old
//! as the shortest `gc_grace_seconds` of its tables is not delivered: what it says may have been deleted,
//! and the deletion forgotten.
//!
//! What waits for the drive has a bound, beyond which hints are dropped and counted. A hint is on the
//! drive a moment after it was made; who relies on it, as a write at ANY, waits for that.

mod deliver;
mod operate;
mod records;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use io::{File, Notify, OpenOptions, Semaphore, TaskGroup};
use model::Mutation;
use model::record::message::encode_mutation;
use uuid::Uuid;

use self::operate::Wishes;
use self::records::Hint;
use crate::shard::Shard;

pub use operate::PendingHints;
pub(crate) use operate::{pending, truncate};

/// After how long nothing more is kept for a node that is down (`max_hint_window`).
pub(crate) const WINDOW: Duration = Duration::from_secs(3 * 60 * 60);
/// Bytes of hints that may wait for the drive.
const WAITING_BYTES: usize = 16 << 20;
/// Bytes after which the next file is begun.
const FILE_BYTES: u64 = 4 << 20;
/// How long the drive rests after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// How long writes that are under way may take when the node stops, and how often to look.
const LAST_WRITES: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// How long the drive may take for what waits, before a stop or an operator goes on without it.
const LAST_HINTS: Duration = Duration::from_secs(10);

/// The hints that a shard keeps.
#[derive(Default)]
pub(crate) struct Hints {
    /// Those that the drive has not, by the node that they are for.
    waiting: RefCell<BTreeMap<Uuid, Vec<Hint>>>,
    waiting_bytes: Cell<usize>,
    /// How many were handed in, and how many of them the drive has or never will.
    taken: Cell<u64>,
    written: Cell<u64>,
    wake: Notify,
    progress: Notify,
    /// The file that is written to for each node, and its length.
    open: RefCell<BTreeMap<Uuid, OpenFile>>,
    /// All files that are there, by node, the oldest first.
    files: RefCell<BTreeMap<Uuid, BTreeSet<PathBuf>>>,
    /// One permit: whoever delivers takes no file that is being written to.
    turn: Turn,
    /// The nodes that are being delivered to.
    delivering: RefCell<BTreeSet<Uuid>>,
    next_file: Cell<u64>,
    /// Held by each write that may leave hints.
    writes: Rc<()>,
    /// The node is about to stop: none are taken any more, and none delivered.
    closed: Cell<bool>,
    wishes: Wishes,
}

impl Hints {
    /// To be held by a write as long as it may leave hints: a node that stops waits for them.
    pub(crate) fn held_by_write(&self) -> Rc<()> {
        self.writes.clone()
    }
}

/// Held by who writes, or takes files to deliver them.
struct Turn(Semaphore);

impl Default for Turn {
    fn default() -> Turn {
        Turn(Semaphore::new(1))
    }
}

#[derive(Clone)]
struct OpenFile {
    path: PathBuf,
    file: File,
    length: u64,
}

/// A hint that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept(u64);

/// Keeps a write for a node that missed it; `None` where that node has been down for too long, is no
/// member any more, or too much waits for the drive. `written_at`: since when others have it, in
/// microseconds since 1970.
pub(crate) fn keep(
    shard: &Shard,
    node: NodeId,
    mutation: &Mutation,
    written_at: i64,
) -> Option<Kept> {
    let metadata = shard.metadata();
    let host_id = metadata.node(node)?.host_id;
    let hints = &shard.hints;
    if hints.closed.get() {
        shard.metrics.hints_dropped.add(1);
        return None;
    }
    if !hints.is_enabled() {
        return None;
    }
    let down_for = shard.peers.down_for(node, shard.env.now());
    if down_for.is_some_and(|down_for| down_for > hints.window()) {
        shard.metrics.hints_dropped.add(1);
        return None;
    }
    let hint = Hint {
        made_at: written_at.div_euclid(1000),
        mutation: Bytes::from(encode_mutation(mutation, true)),
    };
    let bytes = hints.waiting_bytes.get() + hint.bytes();
    if bytes > WAITING_BYTES {
        shard.metrics.hints_dropped.add(1);
        return None;
    }
    hints.waiting_bytes.set(bytes);
    hints
        .waiting
        .borrow_mut()
        .entry(host_id)
        .or_default()
        .push(hint);
    hints.taken.set(hints.taken.get() + 1);
    shard.metrics.hints_kept.add(1);
    hints.wake.notify_one();
    Some(Kept(hints.taken.get()))
}

/// Waits until the drive has a hint. Has it?
pub(crate) async fn written(shard: &Shard, kept: Kept) {
    while shard.hints.written.get() < kept.0 {
        shard.hints.progress.notified().await;
    }
}

/// Waits for the writes that are under way and until the drive has all hints, then takes none any more
/// and delivers none.
///
/// # Errors
/// Some are not on the drive; in words.
pub(crate) async fn close(shard: &Shard) -> Result<(), String> {
    let hints = &shard.hints;
    let finishing = async {
        while Rc::strong_count(&hints.writes) > 1 {
            shard.env.sleep(LOOK).await;
        }
    };
    // Those that take longer have no answer, either.
    let _ = shard.env.timeout(LAST_WRITES, finishing).await;
    hints.closed.set(true);
    let last = Kept(hints.taken.get());
    let written = shard.env.timeout(LAST_HINTS, written(shard, last)).await;
    written.map_err(|_| {
        let count = last.0 - hints.written.get();
        format!("{count} hints could not be written: repair the nodes that were down")
    })
}

fn folder(shard: &Shard) -> PathBuf {
    shard.state.config.data.join("hints")
}

/// Keeps and delivers hints for as long as the shard lives.
pub(crate) async fn run(shard: Rc<Shard>) {
    if let Err(error) = find_files(&shard).await {
        tracing::error!("hints of before are not delivered: {error}");
    }
    let delivering = deliver::run(shard.clone());
    shard.env.spawn(TaskGroup::Maintenance, delivering).detach();
    loop {
        let waiting = shard.hints.waiting.take();
        if waiting.is_empty() {
            shard.hints.wake.notified().await;
            continue;
        }
        let upto = shard.hints.taken.get();
        shard.hints.waiting_bytes.set(0);
        for (host_id, hints) in waiting {
            while let Err(error) = append(&shard, host_id, &hints).await {
                tracing::error!("hints cannot be written: {error}");
                // Into another file, once the drive works again.
                shard.hints.open.borrow_mut().remove(&host_id);
                shard.env.sleep(PAUSE).await;
            }
        }
        shard.hints.written.set(upto);
        shard.hints.progress.notify_all();
    }
}

/// The files that an earlier run left, of all shards there were then.
async fn find_files(shard: &Shard) -> std::io::Result<()> {
    let folder = folder(shard);
    shard.env.create_dir_all(&folder).await?;
    shard.env.sync_dir(&shard.state.config.data).await?;
    for entry in shard.env.read_dir(&folder).await? {
        let name = entry.name;
        let Some((host_id, number)) = parse_name(&name) else {
            continue;
        };
        let next = shard.hints.next_file.get().max(number + 1);
        shard.hints.next_file.set(next);
        // Each is one shard's, however many there are now.
        if number % u64::from(shard.env.shards()) == u64::from(shard.index()) {
            let mut files = shard.hints.files.borrow_mut();
            files.entry(host_id).or_default().insert(folder.join(name));
        }
    }
    Ok(())
}

/// `<host id>-<number>.hints`; the number rises, and says whose it is.
fn file_name(host_id: Uuid, number: u64) -> String {
    format!("{host_id}-{number:020}.hints")
}

fn parse_name(name: &str) -> Option<(Uuid, u64)> {
    let (host_id, number) = name.strip_suffix(".hints")?.rsplit_once('-')?;
    Some((host_id.parse().ok()?, number.parse().ok()?))
}

/// Appends hints for a node to its file; the drive has them then.
async fn append(shard: &Shard, host_id: Uuid, hints: &[Hint]) -> std::io::Result<()> {
    let _turn = shard.hints.turn.0.acquire(1).await;
    let known = shard.hints.open.borrow().get(&host_id).cloned();
    let mut open = match known {
        Some(open) if open.length < FILE_BYTES => open,
        _ => begin_file(shard, host_id).await?,
    };
    let mut bytes = Vec::with_capacity(hints.iter().map(Hint::bytes).sum());
    hints.iter().for_each(|hint| hint.encode(&mut bytes));
    let length = bytes.len() as u64;
    open.file.write_all_at(bytes, open.length).await.0?;
    open.file.sync_data().await?;
    open.length += length;
    let path = open.path.clone();
    shard.hints.open.borrow_mut().insert(host_id, open);
    let mut files = shard.hints.files.borrow_mut();
    files.entry(host_id).or_default().insert(path);
    Ok(())
}

async fn begin_file(shard: &Shard, host_id: Uuid) -> std::io::Result<OpenFile> {
    let shards = u64::from(shard.env.shards());
    // The next number that is this shard's.
    let next = shard.hints.next_file.get();
    let own = u64::from(shard.index());
    let number = next + (own + shards - next % shards) % shards;
    shard.hints.next_file.set(number + 1);
    let folder = folder(shard);
    let path = folder.join(file_name(host_id, number));
    let options = OpenOptions {
        write: true,
        create_new: true,
        ..OpenOptions::default()
    };
    let file = shard.env.open(&path, options).await?;
    let head = records::head(host_id);
    let length = head.len() as u64;
    file.write_all_at(head, 0).await.0?;
    shard.env.sync_dir(&folder).await?;
    let open = OpenFile { path, file, length };
    shard.hints.open.borrow_mut().insert(host_id, open.clone());
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_for_whom_it_is_and_whose() {
        let host_id = Uuid::from_u128(0x1234);
        let name = file_name(host_id, 7);
        assert_eq!(parse_name(&name), Some((host_id, 7)));
        for other in ["x.hints", "manifest", "1-2.hints", &name[1..]] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
