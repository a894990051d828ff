//! A connection to the servers: how statements are made, run and counted. Which ones they are, is a table's.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::serialize::batch::BatchValues;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::Batch;
use scylla::statement::prepared::PreparedStatement;

use crate::options::{ClientName, Common};
use crate::plain::Channels;
use crate::routing;
use crate::table::Table;

/// How long an operation may take before it counts as an error.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("cannot connect to {hosts}: {reason}")]
    Connect { hosts: String, reason: String },
    #[error("{statement}: {reason}")]
    Statement { statement: String, reason: String },
}

/// The connections of a client thread.
pub(crate) struct Connection {
    session: Session,
    /// What executes statements instead of the session, if anything does.
    channels: Option<Channels>,
}

/// Makes keyspace and table if they are not there.
pub(crate) async fn create(
    options: &Common,
    replication_factor: u32,
    with: Option<&str>,
    drop: bool,
) -> Result<(), DatabaseError> {
    let session = connect(options).await?;
    let keyspace = &options.keyspace;
    let mut statements = vec![
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': {replication_factor}}}"
        ),
        Table::definition(options) + &with.map(|with| format!(" WITH {with}")).unwrap_or_default(),
    ];
    if drop {
        statements.insert(0, format!("DROP KEYSPACE IF EXISTS {keyspace}"));
    }
    for statement in statements {
        let done = session.query_unpaged(&*statement, ()).await;
        done.map_err(|error| DatabaseError::Statement {
            statement,
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

async fn connect(options: &Common) -> Result<Session, DatabaseError> {
    let profile = ExecutionProfile::builder()
        .consistency(options.consistency)
        .request_timeout(Some(TIMEOUT))
        // An error is an error: it is counted, not hidden.
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .load_balancing_policy(routing::policy(options.routing))
        .build();
    let connections = NonZeroUsize::new(options.connections).unwrap_or(NonZeroUsize::MIN);
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes.hosts)
        .pool_size(PoolSize::PerShard(connections))
        .default_execution_profile_handle(profile.into_handle());
    if let (Some(user), Some(password)) = (&options.user, &options.password) {
        builder = builder.user(user, password);
    }
    let session = builder.build().await;
    session.map_err(|error| unreachable(options, error))
}

fn unreachable(options: &Common, reason: impl ToString) -> DatabaseError {
    DatabaseError::Connect {
        hosts: options.nodes.hosts.join(", "),
        reason: reason.to_string(),
    }
}

impl Connection {
    /// Connects. Where that has tasks of its own, they run on the `LocalSet` of who calls.
    pub(crate) async fn open(options: &Common) -> Result<Connection, DatabaseError> {
        let session = connect(options).await?;
        let channels = match options.client {
            ClientName::Driver => None,
            ClientName::Plain => {
                let channels = Channels::open(&session, options).await;
                Some(channels.map_err(|error| unreachable(options, error))?)
            }
        };
        Ok(Connection { session, channels })
    }

    /// Prepares a statement.
    pub(crate) async fn prepare(
        &self,
        statement: String,
    ) -> Result<PreparedStatement, DatabaseError> {
        let prepared = self.session.prepare(&*statement).await;
        prepared.map_err(|error| DatabaseError::Statement {
            statement,
            reason: error.to_string(),
        })
    }

    /// Runs a statement. The number of rows of its result, which are received, but not taken apart.
    pub(crate) async fn run(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<usize, String> {
        if let Some(channels) = &self.channels {
            return channels.execute(statement, &values).await;
        }
        let done = self.session.execute_unpaged(statement, values).await;
        let result = done.map_err(|error| error.to_string())?;
        if !result.is_rows() {
            return Ok(0);
        }
        let rows = result.into_rows_result();
        Ok(rows.map_err(|error| error.to_string())?.rows_num())
    }

    /// Runs a batch.
    pub(crate) async fn run_batch(
        &self,
        batch: &Batch,
        values: impl BatchValues,
    ) -> Result<(), String> {
        let done = self.session.batch(batch, values).await;
        done.map(|_| ()).map_err(|error| error.to_string())
    }
}
