//! What people ask of the cache of rows.

use super::Store;

/// How many rows are dropped between two looks at the time.
const ROWS_A_LOOK: usize = 128;

impl Store {
    /// Forgets all rows in the cache of rows (`nodetool invalidaterowcache`). What it did stays
    /// counted.
    pub async fn invalidate_row_cache(&self) {
        let mut forgotten = self.inner.rows.forget_all();
        let mut drops = forgotten.drops();
        while drops.by_ref().take(ROWS_A_LOOK).count() == ROWS_A_LOOK {
            self.inner.env.maybe_yield().await;
        }
    }
}
