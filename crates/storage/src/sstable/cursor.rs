//! Reading a chunked file from a place on, as if it were one piece.
//!
//! The cursor holds a window: normally one chunk, and where a thing spans chunks, a copy of what
//! is left of one joined with the next. Reading ahead doubles with each chunk up to a limit and
//! goes on in the background, so that a scan reads in large pieces and a look-up only what it
//! needs.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use io::{Env, Task, TaskGroup};

use super::chunked_file::ChunkedFile;
use super::error::{DecodeError, SSTableError};
use super::input::Input;

/// How much is reserved for a thing before it is there, in bytes: its length may be wrong.
const MOST_RESERVED: usize = 1 << 20;

/// How many chunks a read through the cache has at most: the first three have one, two and four.
const MOST_CACHED: u64 = 4;

/// Reads a chunked file forward.
pub(crate) struct Cursor {
    source: Rc<ChunkedFile>,
    window: Bytes,
    /// Where in the content the window starts.
    start: u64,
    /// How much of the window has been read.
    at: usize,
    /// Does the cache have any of it?
    is_cached: bool,
    ahead: Option<ReadAhead>,
}

type Chunks = Result<Vec<Bytes>, SSTableError>;

/// Chunks that were read before they are needed.
struct ReadAhead {
    env: Env,
    group: TaskGroup,
    /// The most chunks of one read.
    most: u64,
    /// The chunks of the next read.
    next: u64,
    /// The number of the first chunk in the queue.
    first: u64,
    queue: VecDeque<Bytes>,
    /// The read under way, and the number of its first chunk.
    pending: Option<(u64, Task<Chunks>)>,
}

impl Cursor {
    /// A cursor that reads chunk by chunk, through the cache.
    pub(crate) fn new(source: Rc<ChunkedFile>, position: u64) -> Cursor {
        Cursor {
            source,
            window: Bytes::new(),
            start: position,
            at: 0,
            is_cached: false,
            ahead: None,
        }
    }

    /// A cursor that reads up to `bytes` ahead.
    pub(crate) fn with_read_ahead(
        source: Rc<ChunkedFile>,
        position: u64,
        bytes: u64,
        env: &Env,
        group: TaskGroup,
    ) -> Cursor {
        let most = (bytes / source.chunk_length()).max(1);
        Cursor {
            ahead: Some(ReadAhead {
                env: env.clone(),
                group,
                most,
                next: 1,
                first: 0,
                queue: VecDeque::new(),
                pending: None,
            }),
            ..Cursor::new(source, position)
        }
    }

    /// Where the next byte is.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    pub(crate) fn length(&self) -> u64 {
        self.source.length()
    }

    /// The window: what values are slices of.
    pub(crate) fn window(&self) -> &Bytes {
        &self.window
    }

    /// Does the cache have what is read, as others ask for it? Only known of who reads it past the cache in the background.
    pub(crate) fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// What is left of the window.
    pub(crate) fn input(&self) -> Input<'_> {
        Input::new(&self.window[self.at..])
    }

    /// Goes on by `count` bytes of the window.
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(self.at + count <= self.window.len());
        self.at += count;
    }

    /// Goes to another place, reads nothing yet.
    pub(crate) fn seek(&mut self, position: u64) {
        let end = self.start + self.window.len() as u64;
        if (self.start..=end).contains(&position) {
            self.at = (position - self.start) as usize;
        } else {
            self.window = Bytes::new();
            self.start = position;
            self.at = 0;
        }
    }

    /// Makes the window at least one chunk longer.
    pub(crate) async fn extend(&mut self) -> Result<(), SSTableError> {
        let rest = self.window.slice(self.at..);
        let position = self.start + self.window.len() as u64;
        if position >= self.source.length() {
            return Err(self
                .source
                .corrupt(self.source.length(), "it ends too early"));
        }
        let length = self.source.chunk_length();
        let chunk = position / length;
        self.is_cached &= !rest.is_empty();
        let bytes = self.next_chunk(chunk).await?;
        let skipped = (position - chunk * length) as usize;
        if rest.is_empty() {
            self.window = bytes;
            self.start = chunk * length;
            self.at = skipped;
        } else {
            let joined = [&rest, &bytes[skipped..]].concat();
            self.start += self.at as u64;
            self.at = 0;
            self.window = Bytes::from(joined);
        }
        Ok(())
    }

    /// Makes sure that `count` bytes are in the window.
    pub(crate) async fn require(&mut self, count: usize) -> Result<(), SSTableError> {
        if self.window.len() - self.at >= count {
            return Ok(());
        }
        if self.position().saturating_add(count as u64) > self.source.length() {
            return Err(self.corrupt("a length exceeds the file"));
        }
        // A thing of many chunks is joined once, not chunk by chunk.
        let length = self.source.chunk_length();
        let mut joined = Vec::with_capacity(count.min(MOST_RESERVED) + length as usize);
        joined.extend_from_slice(&self.window[self.at..]);
        let start = self.position();
        let mut position = self.start + self.window.len() as u64;
        while joined.len() < count {
            let chunk = position / length;
            let bytes = self.next_chunk(chunk).await?;
            joined.extend_from_slice(&bytes[(position - chunk * length) as usize..]);
            position = start + joined.len() as u64;
        }
        self.window = Bytes::from(joined);
        self.start = start;
        self.at = 0;
        Ok(())
    }

    /// An error about what is at the cursor.
    pub(crate) fn corrupt(&self, what: &str) -> SSTableError {
        self.source.corrupt(self.position(), what)
    }

    /// Makes an error of the decoder one about this file; more input is not to be had.
    pub(crate) fn failed(&self, error: DecodeError) -> SSTableError {
        self.corrupt(&error.to_string())
    }

    async fn next_chunk(&mut self, chunk: u64) -> Result<Bytes, SSTableError> {
        match &mut self.ahead {
            None => self.source.chunk(chunk).await,
            Some(ahead) => {
                if ahead.group != TaskGroup::Foreground {
                    self.is_cached |= self.source.is_cached(chunk);
                }
                ahead.take(&self.source, chunk).await
            }
        }
    }
}

impl ReadAhead {
    async fn take(&mut self, source: &Rc<ChunkedFile>, chunk: u64) -> Result<Bytes, SSTableError> {
        loop {
            while self.first < chunk && self.queue.pop_front().is_some() {
                self.first += 1;
            }
            if self.first == chunk
                && let Some(bytes) = self.queue.pop_front()
            {
                self.first += 1;
                self.prefetch(source);
                return Ok(bytes);
            }
            self.queue.clear();
            match self.pending.take() {
                Some((first, task)) if (first..first + self.most).contains(&chunk) => {
                    self.queue = task.await?.into();
                    self.first = first;
                }
                _ if self.is_short() => {
                    self.first = chunk;
                    if let Some(known) = source.cached(chunk) {
                        self.queue.push_back(known);
                        continue;
                    }
                    self.queue = source.read_into_cache(chunk, self.next).await?.into();
                    self.next = (self.next * 2).min(self.most);
                }
                _ => {
                    self.queue = source.read(chunk, self.next).await?.into();
                    self.next = (self.next * 2).min(self.most);
                    self.first = chunk;
                }
            }
        }
    }

    /// Short reads go through the cache: the next one may want the same. Long ones would only drive out what
    /// others want, and what compactions read is read once.
    fn is_short(&self) -> bool {
        let most = match self.group {
            TaskGroup::Foreground => MOST_CACHED,
            _ => 1,
        };
        self.next <= most
    }

    /// Once reads are as large as they get, the next one is made while this one is used.
    fn prefetch(&mut self, source: &Rc<ChunkedFile>) {
        let next = self.first + self.queue.len() as u64;
        if self.pending.is_some() || self.next < self.most || next >= source.chunk_count() {
            return;
        }
        let (source, most) = (source.clone(), self.most);
        let task = self
            .env
            .spawn(self.group, async move { source.read(next, most).await });
        self.pending = Some((next, task));
    }
}
