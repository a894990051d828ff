//! A file that records are appended to, and that begins anew when most of it is obsolete.
//!
//! One task writes: it takes all records that wait, writes and syncs them as one group, and takes the
//! next. So records that come together share a sync, and a group is written only when the drive has
//! all before it ([`super::records`] rests on that). Beginning anew writes what is live beside the
//! file, syncs it, gives it the file's name and syncs the folder. An opening ends with that too: what
//! a killed process left may be in the kernel and not on the drive, and nobody sees it before it is.
//!
//! After an error nothing is known of the file's end, so the journal is over: no record is reported
//! as written any more. Opening it again finds out.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use io::{Env, File, Notify, OpenOptions, TaskGroup};

use super::records::{self, FILE_HEAD, MAX_BODY, NoJournal, Record};

/// Bytes of records that wait for the drive, beyond which those who append wait too.
const MAX_WAITING: u64 = MAX_BODY as u64;

/// Why a journal does not open, or takes no more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// The drive, or the file system, does not do what it should.
    #[error("cannot {what} {path}: {message}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file or folder.
        path: String,
        /// What the system says.
        message: String,
        /// The same as a kind.
        kind: ErrorKind,
    },
    /// The file is something else.
    #[error(
        "{path} is no journal that this version knows: if a newer version wrote it, start that one; \
         otherwise restore the folder `metadata` of this node from a backup"
    )]
    Foreign {
        /// Its path.
        path: String,
    },
    /// Something that the drive had is gone.
    #[error(
        "{path} is damaged at offset {offset}, in front of records that are intact: check the drive; \
         restore the folder `metadata` from a backup that was taken while this node was stopped last, \
         or remove the node from the cluster and let it join anew"
    )]
    Damaged {
        /// Its path.
        path: String,
        /// Where, in bytes.
        offset: u64,
    },
    /// A record that no journal holds.
    #[error("a record of {bytes} bytes for {path} is larger than {MAX_BODY} bytes")]
    TooLarge {
        /// The file's path.
        path: String,
        /// How large it is.
        bytes: usize,
    },
    /// Its owner closed it.
    #[error("{path} is closed")]
    Closed {
        /// Its path.
        path: String,
    },
}

impl JournalError {
    pub(super) fn io(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> JournalError {
        let path = path.display().to_string();
        move |error| JournalError::Io {
            what,
            path,
            message: error.to_string(),
            kind: error.kind(),
        }
    }
}

impl From<JournalError> for std::io::Error {
    fn from(error: JournalError) -> std::io::Error {
        let kind = match &error {
            JournalError::Io { kind, .. } => *kind,
            JournalError::Foreign { .. } | JournalError::Damaged { .. } => ErrorKind::InvalidData,
            JournalError::TooLarge { .. } => ErrorKind::InvalidInput,
            JournalError::Closed { .. } => ErrorKind::BrokenPipe,
        };
        std::io::Error::new(kind, error)
    }
}

/// A record that was handed in: [`Journal::wait`] says when the drive has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An open journal. Clones are the same one.
#[derive(Clone)]
pub struct Journal {
    shared: Rc<Shared>,
}

struct Shared {
    env: Env,
    path: PathBuf,
    state: RefCell<State>,
    /// Records are on the drive, or never will be.
    news: Notify,
}

struct State {
    file: File,
    /// Bytes of the file when what is under way is written.
    end: u64,
    /// Records for the next group.
    waiting: Vec<Record>,
    /// Bytes that they will take.
    waiting_bytes: u64,
    /// The file begins anew with these records, before the next group.
    anew: Option<Vec<Record>>,
    /// How many records were handed in, beginnings counted among them.
    taken: u64,
    /// How many of them the drive has.
    written: u64,
    /// Is the task there that writes?
    writing: bool,
    /// Why nothing is written any more.
    failed: Option<JournalError>,
}

/// What the task does next.
enum Work {
    /// Begin anew with this content.
    Anew(Vec<u8>),
    /// Write a group at this offset.
    Group(Vec<u8>, u64),
}

impl Journal {
    /// Opens the file at `path`, or makes it, in a folder that is there. `live` is told all records
    /// and says with which the file is to begin; when this returns they are on the drive.
    ///
    /// # Errors
    /// The file is damaged or something else, the drive fails, or what `live` says.
    pub async fn open<E: From<JournalError>>(
        env: &Env,
        path: &Path,
        live: impl FnOnce(Vec<Record>) -> Result<Vec<Record>, E>,
    ) -> Result<Journal, E> {
        let found = match env.read_file(path).await {
            Ok(bytes) => parse(path, bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(JournalError::io("read", path)(error).into()),
        };
        let content = records::file(&live(found)?);
        let end = content.len() as u64;
        let state = State {
            file: begin(env, path, content).await?,
            end,
            waiting: Vec::new(),
            waiting_bytes: 0,
            anew: None,
            taken: 0,
            written: 0,
            writing: false,
            failed: None,
        };
        let shared = Shared {
            env: env.clone(),
            path: path.to_owned(),
            state: RefCell::new(state),
            news: Notify::new(),
        };
        Ok(Journal {
            shared: Rc::new(shared),
        })
    }

    /// How long the file is when all that was handed in is written, in bytes.
    pub fn bytes(&self) -> u64 {
        let state = self.shared.state.borrow();
        let end = match &state.anew {
            Some(records) => FILE_HEAD as u64 + records.iter().map(Record::bytes).sum::<u64>(),
            None => state.end,
        };
        end + state.waiting_bytes
    }

    /// Waits until less is on its way to the drive than a journal keeps in memory.
    pub async fn has_room(&self) {
        loop {
            {
                let state = self.shared.state.borrow();
                if state.failed.is_some() || state.waiting_bytes < MAX_WAITING {
                    return;
                }
            }
            self.shared.news.notified().await;
        }
    }

    /// Hands in a record. Those that are handed in first are written first.
    ///
    /// # Errors
    /// The record is too large, or the journal is over.
    pub fn push(&self, record: Record) -> Result<Ticket, JournalError> {
        let bytes = record.body.len();
        if bytes > MAX_BODY {
            let path = self.shared.path.display().to_string();
            return Err(JournalError::TooLarge { path, bytes });
        }
        self.hand_in(|state| {
            state.waiting_bytes += record.bytes();
            state.waiting.push(record);
        })
    }

    /// Lets the file begin anew with these records, which say all that those say which were handed
    /// in before: of them, what is not written yet is not written any more.
    ///
    /// # Errors
    /// The journal is over.
    pub fn begin_anew(&self, live: Vec<Record>) -> Result<Ticket, JournalError> {
        self.hand_in(|state| {
            state.waiting.clear();
            state.waiting_bytes = 0;
            state.anew = Some(live);
        })
    }

    fn hand_in(&self, put: impl FnOnce(&mut State)) -> Result<Ticket, JournalError> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        put(state);
        state.taken += 1;
        if !state.writing {
            state.writing = true;
            let writing = write(self.shared.clone());
            let env = &self.shared.env;
            env.spawn(TaskGroup::Foreground, writing).detach();
        }
        Ok(Ticket(state.taken))
    }

    /// Waits until the drive has a record and all before it.
    ///
    /// # Errors
    /// It never will, as far as anybody knows.
    pub async fn wait(&self, ticket: Ticket) -> Result<(), JournalError> {
        loop {
            {
                let state = self.shared.state.borrow();
                if state.written >= ticket.0 {
                    return Ok(());
                }
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
            }
            self.shared.news.notified().await;
        }
    }

    /// Appends a record; the drive has it when this returns.
    ///
    /// # Errors
    /// As [`Journal::push`] and [`Journal::wait`].
    pub async fn append(&self, record: Record) -> Result<(), JournalError> {
        self.has_room().await;
        let ticket = self.push(record)?;
        self.wait(ticket).await
    }

    /// Waits until nothing is on its way to the drive and takes nothing more. Only then may the same
    /// process open the file again: two would write beside it under one name.
    pub async fn close(&self) {
        loop {
            {
                let state = &mut *self.shared.state.borrow_mut();
                if !state.writing {
                    let path = self.shared.path.display().to_string();
                    state.failed.get_or_insert(JournalError::Closed { path });
                    return;
                }
            }
            self.shared.news.notified().await;
        }
    }
}

fn parse(path: &Path, bytes: Vec<u8>) -> Result<Vec<Record>, JournalError> {
    let parsed = records::parse(&Bytes::from(bytes));
    parsed.map_err(|no_journal| {
        let path = path.display().to_string();
        match no_journal {
            NoJournal::Foreign => JournalError::Foreign { path },
            NoJournal::DamagedAt(offset) => JournalError::Damaged { path, offset },
        }
    })
}

/// Makes a file with this content and gives it the name.
async fn begin(env: &Env, path: &Path, content: Vec<u8>) -> Result<File, JournalError> {
    replace_file(env, path, content).await?;
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let file = env.open(path, options).await;
    file.map_err(JournalError::io("open", path))
}

/// Writes `content` beside `path` and renames it there, each step on the drive before the next.
pub(crate) async fn replace_file(
    env: &Env,
    path: &Path,
    content: Vec<u8>,
) -> Result<(), JournalError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let written = env.write_file(&beside, content).await;
    written.map_err(JournalError::io("write", &beside))?;
    let renamed = env.rename(&beside, path).await;
    renamed.map_err(JournalError::io("rename a file to", path))?;
    if let Some(folder) = path.parent() {
        let synced = env.sync_dir(folder).await;
        synced.map_err(JournalError::io("sync", folder))?;
    }
    Ok(())
}

/// The task that writes, until nothing is left to write or the drive fails.
async fn write(shared: Rc<Shared>) {
    loop {
        let (work, upto) = {
            let state = &mut *shared.state.borrow_mut();
            let Some(work) = state.next_work() else {
                state.writing = false;
                shared.news.notify_all();
                return;
            };
            (work, state.taken_without_waiting())
        };
        let done = shared.perform(work).await;
        let state = &mut *shared.state.borrow_mut();
        match done {
            Ok(()) => state.written = upto,
            Err(error) => state.fail(error),
        }
        shared.news.notify_all();
    }
}

impl State {
    fn next_work(&mut self) -> Option<Work> {
        if self.failed.is_some() {
            return None;
        }
        if let Some(records) = self.anew.take() {
            let content = records::file(&records);
            self.end = content.len() as u64;
            return Some(Work::Anew(content));
        }
        if self.waiting.is_empty() {
            return None;
        }
        let records = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let offset = self.end;
        let bytes = records::group(&records, offset);
        self.end += bytes.len() as u64;
        Some(Work::Group(bytes, offset))
    }

    /// How many of the records that were handed in are written, or about to be.
    fn taken_without_waiting(&self) -> u64 {
        self.taken - self.waiting.len() as u64
    }

    fn fail(&mut self, error: JournalError) {
        self.failed = Some(error);
        self.waiting = Vec::new();
        self.waiting_bytes = 0;
        self.anew = None;
    }
}

impl Shared {
    async fn perform(&self, work: Work) -> Result<(), JournalError> {
        match work {
            Work::Anew(content) => {
                let file = begin(&self.env, &self.path, content).await?;
                let old = std::mem::replace(&mut self.state.borrow_mut().file, file);
                drop(old);
            }
            Work::Group(bytes, offset) => {
                let file = self.state.borrow().file.clone();
                let (written, _) = file.write_all_synced_at(bytes, offset).await;
                written.map_err(JournalError::io("write to", &self.path))?;
            }
        }
        Ok(())
    }
}
