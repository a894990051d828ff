//! How far a compaction is.

use std::cell::Cell;

use model::Token;

use super::super::Inner;
use super::super::table::TableStore;
use super::running::Running;
use crate::error::CompactionError;
use crate::sstable::{SSTable, Writer};

/// How far it is. What the scanners have read is not known, so it is taken from where on the ring
/// it is, as if all partitions were of one size, or from what was written, if that is more.
pub(super) struct Progress<'r> {
    inner: &'r Inner,
    table: &'r TableStore,
    running: &'r Running,
    first: i128,
    length: i128,
    /// Bytes written to outputs before the present one.
    before: Cell<u64>,
}

impl<'r> Progress<'r> {
    /// Of a compaction of these inputs.
    pub(super) fn new(
        inner: &'r Inner,
        table: &'r TableStore,
        inputs: &[SSTable],
        running: &'r Running,
    ) -> Progress<'r> {
        let first = inputs.iter().map(|i| i.first_key().token()).min();
        let last = inputs.iter().map(|i| i.last_key().token()).max();
        let (first, last) = (first.unwrap_or(Token::MIN), last.unwrap_or(Token::MAX));
        Progress {
            inner,
            table,
            running,
            first: first.0.into(),
            length: i128::from(last.0) - i128::from(first.0) + 1,
            before: Cell::new(0),
        }
    }

    /// Seconds since 1970, now.
    pub(super) fn wall_seconds(&self) -> u32 {
        self.inner.env.wall_seconds()
    }

    /// May it go on?
    pub(super) fn go_on(&self) -> Result<(), CompactionError> {
        let gone = self.inner.closed.get() || self.table.is_blocked();
        match gone || self.running.is_stopped() {
            true => Err(CompactionError::Cancelled),
            false => Ok(()),
        }
    }

    /// The partition of this token is next, and all outputs have so many bytes.
    pub(super) fn at(&self, token: Token, written: u64) {
        let behind = i128::from(token.0) - self.first;
        let share = i128::from(self.running.total()) * behind / self.length;
        let done = u64::try_from(share).unwrap_or(0);
        self.running.proceed(done.max(written));
    }

    /// Outputs before the present one have so many bytes.
    pub(super) fn behind_outputs(&self, bytes: u64) {
        self.before.set(bytes);
    }

    /// Within a partition, which may be large.
    pub(super) async fn within(&self, writer: &Writer) -> Result<(), CompactionError> {
        self.running
            .proceed(self.before.get() + writer.data_length());
        self.inner.env.maybe_yield().await;
        self.go_on()
    }
}
