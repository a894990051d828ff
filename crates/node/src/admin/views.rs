//! What operators do with materialized views.

use std::rc::Rc;
use std::sync::Arc;

use model::Table;

use super::{Admin, AdminError};
use crate::shard::Shard;
use crate::views::{ViewCheck, build, check};

impl Admin {
    /// Compares a view with its table, all replicas of both; `mend`: makes it right. As long as there are rows.
    ///
    /// # Errors
    /// There is no such view, or not all replicas answer.
    pub fn check_view(
        &self,
        keyspace: &str,
        view: &str,
        mend: bool,
    ) -> Result<ViewCheck, AdminError> {
        let view = self.view(keyspace, view)?;
        let checked =
            self.lead(async move |shard: Rc<Shard>| check::check(&shard, view.id, mend).await)?;
        checked.map_err(AdminError::Failed)
    }

    /// Builds a view anew, from what this node has of its table. Returns when that has begun.
    ///
    /// # Errors
    /// There is no such view, or it cannot be noted.
    pub fn rebuild_view(&self, keyspace: &str, view: &str) -> Result<(), AdminError> {
        let view = self.view(keyspace, view)?;
        let begun = self.lead(async move |shard: Rc<Shard>| build::again(&shard, &view).await)?;
        begun.map_err(AdminError::Failed)
    }

    fn view(&self, keyspace: &str, view: &str) -> Result<Arc<Table>, AdminError> {
        let found = self.tables(Some(keyspace), &[view.to_owned()])?.pop();
        let unknown = || AdminError::Refused(format!("{keyspace}.{view} is not a view"));
        found
            .filter(|table| table.view.is_some())
            .ok_or_else(unknown)
    }
}
