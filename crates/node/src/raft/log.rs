//! The log of the metadata on the drive: entries, the vote, and what goes with them.
//!
//! All of it is records of one journal (`metadata/log`), in the order in which it happened. Entries
//! are in memory as well: the log of metadata is small, and what a snapshot has is purged from it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::ops::RangeBounds;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use io::{Env, TaskGroup};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};

use super::encoding::{
    EncodingError, Input, decode_entry, decode_vote, encode_entry, encode_vote, put_log_id,
    put_optional_log_id,
};
use super::journal::{Journal, JournalError, Ticket};
use super::records::Record;
use super::types::{Entry, LogId, Metadata, Vote};

/// A vote.
const VOTE: u8 = 1;
/// The last entry that is known to be decided, if there is one.
const COMMITTED: u8 = 2;
/// An entry.
const ENTRY: u8 = 3;
/// The last entry that stays, if one does: those behind it are gone.
const TRUNCATE: u8 = 4;
/// The last entry that goes: a snapshot has all up to it.
const PURGE: u8 = 5;

/// A journal that is at most this long, in bytes, does not begin anew whatever is in it.
const KEPT: u64 = 1 << 20;

/// Why a log does not open.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its journal does not.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A record of it cannot be read, though it is what was written.
    #[error(
        "record {number} of the journal {path} cannot be read ({source}): if a newer version wrote \
         it, start that one; otherwise remove the node from the cluster and let it join anew"
    )]
    Unreadable {
        /// The journal's path.
        path: String,
        /// The first record is 0.
        number: usize,
        /// What is wrong with it.
        source: EncodingError,
    },
    /// A record of it says what cannot be.
    #[error(
        "record {number} of the journal {path} {what}: this is a defect of Helenus; remove the node \
         from the cluster and let it join anew, and report this with the file"
    )]
    Unsound {
        /// The journal's path.
        path: String,
        /// The first record is 0.
        number: usize,
        /// What cannot be.
        what: &'static str,
    },
}

/// The log of a member of Raft. Clones are the same log.
#[derive(Clone)]
pub struct Log {
    env: Env,
    journal: Journal,
    content: Rc<RefCell<Content>>,
}

/// What the records of the journal come to.
#[derive(Default)]
struct Content {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    entries: BTreeMap<u64, Kept>,
    /// What the entries take of a journal, in bytes.
    entry_bytes: u64,
}

/// An entry of the log.
struct Kept {
    entry: Entry,
    /// What it takes of a journal, in bytes.
    bytes: u64,
}

impl Log {
    /// Opens the log whose journal is at `path`, or begins one.
    ///
    /// # Errors
    /// It is damaged, or the drive fails.
    pub async fn open(env: &Env, path: &Path) -> Result<Log, LogError> {
        let mut content = Content::default();
        let live = |records: Vec<Record>| {
            for (number, record) in records.iter().enumerate() {
                let path = || path.display().to_string();
                match content.replay(record) {
                    Ok(()) => {}
                    Err(Wrong::Unreadable(source)) => {
                        let path = path();
                        return Err(LogError::Unreadable {
                            path,
                            number,
                            source,
                        });
                    }
                    Err(Wrong::Unsound(what)) => {
                        let path = path();
                        return Err(LogError::Unsound { path, number, what });
                    }
                }
            }
            Ok(content.records())
        };
        let journal = Journal::open(env, path, live).await?;
        Ok(Log {
            env: env.clone(),
            journal,
            content: Rc::new(RefCell::new(content)),
        })
    }

    /// The last entry that is not in the log any more, as a snapshot has it.
    pub fn purged(&self) -> Option<LogId> {
        self.content.borrow().purged
    }

    /// Waits until nothing is on its way to the drive and takes nothing more; to be called once Raft
    /// has stopped, before the same process opens the log again.
    pub async fn close(&self) {
        self.journal.close().await;
    }

    /// Hands a record to the journal; with it the content that is in memory changes at once, so that
    /// beginning anew at any time finds all that was handed in.
    fn push(&self, kind: u8, body: Vec<u8>) -> Result<Ticket, JournalError> {
        let body = Bytes::from(body);
        self.journal.push(Record { kind, body })
    }

    /// Lets the journal begin anew if most of it is of no use any more.
    fn tidy(&self) -> Result<(), JournalError> {
        let bytes = self.journal.bytes();
        let content = self.content.borrow();
        if bytes > KEPT && content.bytes() * 2 < bytes {
            self.journal.begin_anew(content.records())?;
        }
        Ok(())
    }

    /// Hands in a record, changes the content and waits for the drive.
    async fn write(
        &self,
        kind: u8,
        body: Vec<u8>,
        change: impl FnOnce(&mut Content),
    ) -> IoResult<()> {
        self.journal.has_room().await;
        let ticket = self.push(kind, body)?;
        change(&mut self.content.borrow_mut());
        self.tidy()?;
        Ok(self.journal.wait(ticket).await?)
    }
}

/// What is wrong with a record.
enum Wrong {
    /// It cannot be read.
    Unreadable(EncodingError),
    /// It says what cannot be.
    Unsound(&'static str),
}

impl From<EncodingError> for Wrong {
    fn from(error: EncodingError) -> Wrong {
        Wrong::Unreadable(error)
    }
}

impl Content {
    fn replay(&mut self, record: &Record) -> Result<(), Wrong> {
        let mut input = Input(&record.body);
        match record.kind {
            VOTE => self.vote = Some(decode_vote(&record.body)?),
            COMMITTED => {
                self.committed = input.optional_log_id()?;
                input.end()?;
            }
            ENTRY => {
                let entry = decode_entry(&record.body)?;
                if !self.may_follow(entry.log_id.index) {
                    return Err(Wrong::Unsound("is an entry that does not follow the last"));
                }
                self.append(entry, record.bytes());
            }
            TRUNCATE => {
                let last = input.optional_log_id()?;
                input.end()?;
                self.truncate(last);
            }
            PURGE => {
                let upto = input.log_id()?;
                input.end()?;
                self.purge(upto);
            }
            _ => return Err(EncodingError::Unknown("a kind that is unknown here").into()),
        }
        Ok(())
    }

    /// Is this the number of the next entry? An empty log may begin anywhere.
    fn may_follow(&self, index: u64) -> bool {
        let last = self.entries.last_key_value().map(|(index, _)| *index);
        let last = last.or(self.purged.map(|purged| purged.index));
        last.is_none_or(|last| last + 1 == index)
    }

    fn append(&mut self, entry: Entry, bytes: u64) {
        self.entry_bytes += bytes;
        let kept = Kept { entry, bytes };
        self.entries.insert(kept.entry.log_id.index, kept);
    }

    fn truncate(&mut self, last: Option<LogId>) {
        let gone = match last {
            Some(last) => self.entries.split_off(&(last.index + 1)),
            None => std::mem::take(&mut self.entries),
        };
        self.entry_bytes -= gone.values().map(|kept| kept.bytes).sum::<u64>();
    }

    fn purge(&mut self, upto: LogId) {
        let left = self.entries.split_off(&(upto.index + 1));
        let gone = std::mem::replace(&mut self.entries, left);
        self.entry_bytes -= gone.values().map(|kept| kept.bytes).sum::<u64>();
        self.purged = self.purged.max(Some(upto));
    }

    /// What a journal with nothing else takes, in bytes, but for less than a hundred.
    fn bytes(&self) -> u64 {
        self.entry_bytes
    }

    /// The records that say all of it.
    fn records(&self) -> Vec<Record> {
        let record = |kind, body: Vec<u8>| Record {
            kind,
            body: Bytes::from(body),
        };
        let vote = self.vote.map(|vote| record(VOTE, encode_vote(&vote)));
        let purged = self.purged.map(|upto| record(PURGE, log_id_body(upto)));
        let committed = self.committed;
        let committed = committed.map(|id| record(COMMITTED, optional_log_id_body(Some(id))));
        let entries = self.entries.values();
        let entries = entries.map(|kept| record(ENTRY, encode_entry(&kept.entry)));
        let others = vote.into_iter().chain(committed).chain(purged);
        others.chain(entries).collect()
    }
}

fn log_id_body(id: LogId) -> Vec<u8> {
    let mut body = Vec::new();
    put_log_id(&mut body, id);
    body
}

fn optional_log_id_body(id: Option<LogId>) -> Vec<u8> {
    let mut body = Vec::new();
    put_optional_log_id(&mut body, id);
    body
}

impl RaftLogReader<Metadata> for Log {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> IoResult<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let content = self.content.borrow();
        let entries = content.entries.range(range);
        Ok(entries.map(|(_, kept)| kept.entry.clone()).collect())
    }

    /// The vote that was handed in last. It is in memory a moment before the drive has it; who reads
    /// it there asks only whether another leader came (`leader_bounded_stream`).
    async fn read_vote(&mut self) -> IoResult<Option<Vote>> {
        Ok(self.content.borrow().vote)
    }
}

impl RaftLogStorage<Metadata> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> IoResult<LogState<Metadata>> {
        let content = self.content.borrow();
        let last = content.entries.last_key_value();
        let last = last.map(|(_, kept)| kept.entry.log_id);
        Ok(LogState {
            last_purged_log_id: content.purged,
            last_log_id: last.or(content.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> IoResult<()> {
        let keep = |content: &mut Content| content.vote = Some(*vote);
        self.write(VOTE, encode_vote(vote), keep).await
    }

    /// Does not wait for the drive: what is decided follows from what the members have. It only lets
    /// a start apply without asking them, and is in the journal behind the entries it speaks of.
    async fn save_committed(&mut self, committed: Option<LogId>) -> IoResult<()> {
        self.journal.has_room().await;
        self.push(COMMITTED, optional_log_id_body(committed))?;
        self.content.borrow_mut().committed = committed;
        Ok(self.tidy()?)
    }

    async fn read_committed(&mut self) -> IoResult<Option<LogId>> {
        Ok(self.content.borrow().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Metadata>) -> IoResult<()>
    where
        I: IntoIterator<Item = Entry>,
    {
        let mut last = None;
        for entry in entries {
            self.journal.has_room().await;
            let index = entry.log_id.index;
            if !self.content.borrow().may_follow(index) {
                let error = format!("entry {index} does not follow the last of the log");
                return Err(Error::new(ErrorKind::InvalidInput, error));
            }
            let record = Record {
                kind: ENTRY,
                body: encode_entry(&entry).into(),
            };
            let bytes = record.bytes();
            last = Some(self.journal.push(record)?);
            self.content.borrow_mut().append(entry, bytes);
        }
        self.tidy()?;
        let Some(last) = last else {
            callback.io_completed(Ok(()));
            return Ok(());
        };
        let journal = self.journal.clone();
        let telling = async move {
            let written = journal.wait(last).await;
            callback.io_completed(written.map_err(Error::from));
        };
        self.env.spawn(TaskGroup::Foreground, telling).detach();
        Ok(())
    }

    /// Waits for the drive: a snapshot that is installed next must not be there before entries that
    /// contradict it are gone, or no start would know which of both to believe.
    async fn truncate_after(&mut self, last: Option<LogId>) -> IoResult<()> {
        let truncate = |content: &mut Content| content.truncate(last);
        let body = optional_log_id_body(last);
        self.write(TRUNCATE, body, truncate).await
    }

    async fn purge(&mut self, upto: LogId) -> IoResult<()> {
        let purge = |content: &mut Content| content.purge(upto);
        self.write(PURGE, log_id_body(upto), purge).await
    }
}
