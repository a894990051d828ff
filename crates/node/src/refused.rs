//! Statements that are understood but cannot be carried out yet.

use crate::error::RequestError;

/// Conditional writes have to be agreed upon.
pub(crate) fn conditional(is_conditional: bool) -> Result<(), RequestError> {
    if is_conditional {
        return Err(RequestError::invalid(
            "Conditional updates (IF) are not supported yet",
        ));
    }
    Ok(())
}
