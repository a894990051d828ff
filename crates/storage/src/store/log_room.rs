//! What a shard does when the drive of the commit logs is full.

use std::rc::Rc;

use super::Inner;

impl Inner {
    /// Flushes what holds segments of the log whenever the drive has no room for it, or for that of
    /// another shard, until the log is closed: writes are refused then, and would not do it. sstables
    /// may lie on another drive, and take less room than the log in any case.
    pub(super) async fn run_log_room(self: Rc<Inner>) {
        while self.log.needs_room().await {
            for id in self.log.holders() {
                let table = self.table(id).filter(|table| !table.is_blocked());
                if let Some(table) = table {
                    self.begin_flush(&table);
                }
            }
        }
    }
}
