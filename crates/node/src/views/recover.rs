//! What a crash leaves between a write of a table and its views.

use std::rc::Rc;

use model::Mutation;

use crate::error::RequestError;
use crate::replica;
use crate::shard::Shard;

/// Applies writes of tables with views that were in the batch log, without deriving anything: what follows from them
/// is in the log beside them, and was derived from what there was before. Before this node takes any
/// other write: those derive from what these leave.
///
/// # Errors
/// This node does not have one of them.
pub(crate) async fn apply_tables(
    shard: &Rc<Shard>,
    written: Vec<Mutation>,
) -> Result<(), RequestError> {
    for mutation in written {
        let applied = replica::apply_to_drive(shard, mutation).await;
        applied.map_err(|error| RequestError::Server(format!("not applied here: {error}")))?;
    }
    Ok(())
}
