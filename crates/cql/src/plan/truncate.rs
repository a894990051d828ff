//! TRUNCATE.

use std::sync::Arc;
use std::time::Duration;

use model::Table;

use crate::CqlError;
use crate::ast::Truncate;
use crate::error::invalid;
use crate::term::{Analysis, Request};

use super::attributes::Timeout;

/// Empties a table.
#[derive(Clone, Debug)]
pub struct TruncatePlan {
    table: Arc<Table>,
    timeout: Option<Timeout>,
}

impl TruncatePlan {
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        truncate: &Truncate,
    ) -> Result<TruncatePlan, CqlError> {
        if table.view.is_some() {
            return invalid!(
                "Cannot TRUNCATE materialized view directly; must truncate base table instead"
            );
        }
        let timeout = Timeout::new(analysis, truncate.timeout.as_ref())?;
        Ok(TruncatePlan { table, timeout })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// How long it may take, if it says so.
    ///
    /// # Errors
    /// The value is none.
    pub fn timeout(&self, request: &Request<'_>) -> Result<Option<Duration>, CqlError> {
        Timeout::of(self.timeout.as_ref(), request)
    }
}
