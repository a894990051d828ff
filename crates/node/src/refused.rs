//! Statements that are understood but cannot be carried out yet.

use model::{CounterMutation, Mutation};

use crate::error::RequestError;

/// Of writes to counters those that only delete: they need no leader. Increments are refused.
pub(crate) fn deletions(counters: Vec<CounterMutation>) -> Result<Vec<Mutation>, RequestError> {
    let deletions = counters.into_iter().map(CounterMutation::into_deletions);
    let refused = |_| RequestError::invalid("Counter updates are not supported yet");
    deletions.map(|result| result.map_err(refused)).collect()
}

/// Conditional writes have to be agreed upon.
pub(crate) fn conditional(is_conditional: bool) -> Result<(), RequestError> {
    if is_conditional {
        return Err(RequestError::invalid(
            "Conditional updates (IF) are not supported yet",
        ));
    }
    Ok(())
}
