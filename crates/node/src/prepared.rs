//! Keeps `system.prepared_statements`: what was prepared can be executed after a restart, too
//! (`QueryProcessor.preloadPreparedStatements`).

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use cql::{Context, MAX_TOKENS};
use io::TaskGroup;
use model::Mutation;

use crate::message::ShardRequest;
use crate::own_tables::{own_table, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::statements::{Statement, StatementId};
use crate::system::{SavedStatement, prepared_mutation, saved_statement, unprepared_mutation};

/// All shards know a statement when this returns, as a client may execute it on any of its connections.
///
/// # Errors
/// The node is about to end; in words.
pub(crate) async fn keep_everywhere(
    shard: &Rc<Shard>,
    statement: &Arc<Statement>,
) -> Result<(), String> {
    let here = async {
        keep(shard, statement.clone());
        Ok(())
    };
    let request = || ShardRequest::Keep(statement.clone());
    shard.on_all(request, here).await
}

/// Keeps a statement on this shard.
pub(crate) fn keep(shard: &Rc<Shard>, statement: Arc<Statement>) {
    let evicted = shard.statements.borrow_mut().insert(statement);
    shard.metrics.prepared_evicted.add(evicted.len() as u64);
    shard.count_statements();
    forget(shard, evicted);
}

/// Writes down a statement of this text.
pub(crate) async fn save(shard: &Rc<Shard>, statement: &Statement, keyspace: Option<&str>) {
    let saved = SavedStatement {
        id: Bytes::copy_from_slice(&statement.id),
        keyspace: keyspace.map(str::to_owned),
        text: statement.text.to_string(),
    };
    let now = shard.timestamps.next(&shard.env);
    let mutation = prepared_mutation(&shard.metadata().schema, &saved, now);
    write(shard, mutation).await;
}

/// Statements are gone from this shard: they are not to come back after a restart. All shards lose the same in
/// about the same order, so one of them takes them out.
pub(crate) fn forget(shard: &Rc<Shard>, ids: Vec<StatementId>) {
    if shard.index() != 0 || ids.is_empty() {
        return;
    }
    // What is prepared again from now on stays.
    let now = shard.timestamps.next(&shard.env);
    let forgetting = {
        let shard = shard.clone();
        async move {
            for id in ids {
                let id = Bytes::copy_from_slice(&id);
                let mutation = unprepared_mutation(&shard.metadata().schema, id, now);
                write(&shard, mutation).await;
            }
        }
    };
    shard.env.spawn(TaskGroup::Foreground, forgetting).detach();
}

/// Nothing depends on it: clients prepare again what a node does not know.
async fn write(shard: &Rc<Shard>, mutation: Option<Mutation>) {
    if let Some(mutation) = mutation
        && let Err(error) = replica::apply(shard, mutation).await
    {
        tracing::debug!("a prepared statement is not written down: {error}");
    }
}

/// Prepares all that is written down. What cannot be prepared any more is forgotten.
///
/// # Errors
/// It cannot be read, or the node is about to end; in words.
pub(crate) async fn load(shard: &Rc<Shard>) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let table = own_table(&schema, "system", "prepared_statements");
    let table = table.map_err(|error| error.to_string())?;
    let partitions = read_whole(shard, table.clone(), None).await;
    let partitions = partitions.map_err(|error| error.to_string())?;
    let mut stale = Vec::new();
    for saved in partitions.iter().filter_map(|p| saved_statement(&table, p)) {
        let keyspace = saved.keyspace.as_deref();
        let context = Context {
            schema: &schema,
            keyspace,
        };
        let prepared = cql::prepare_within(&saved.text, &context, &mut { MAX_TOKENS });
        let statement = prepared.map(|prepared| Statement::new(&saved.text, keyspace, prepared));
        match statement {
            Ok(statement) if saved.id == statement.id[..] => {
                keep_everywhere(shard, &Arc::new(statement)).await?;
            }
            _ => stale.extend(StatementId::try_from(&saved.id[..])),
        }
        shard.env.maybe_yield().await;
    }
    forget(shard, stale);
    Ok(())
}
