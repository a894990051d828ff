//! The database as YCSB's `cassandra-cql` binding sees it: one table, five prepared statements.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;

use crate::generator::Random;
use crate::options::Common;
use crate::workload::{Kind, Operation, key_of};

/// How long an operation may take before it counts as an error.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("cannot connect to {hosts}: {reason}")]
    Connect { hosts: String, reason: String },
    #[error("{statement}: {reason}")]
    Statement { statement: String, reason: String },
}

/// A session, with the statements prepared.
pub(crate) struct Database {
    session: Session,
    read: PreparedStatement,
    /// One for each field.
    updates: Vec<PreparedStatement>,
    insert: PreparedStatement,
    scan: PreparedStatement,
    field_length: usize,
}

/// What a worker keeps from one operation to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    key: String,
    fields: Vec<String>,
}

/// Connects.
async fn connect(options: &Common) -> Result<Session, DatabaseError> {
    let profile = ExecutionProfile::builder()
        .consistency(options.consistency)
        .request_timeout(Some(TIMEOUT))
        // An error is an error: it is counted, not hidden.
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build();
    let connections = NonZeroUsize::new(options.connections).unwrap_or(NonZeroUsize::MIN);
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.hosts)
        .pool_size(PoolSize::PerShard(connections))
        .default_execution_profile_handle(profile.into_handle());
    if let (Some(user), Some(password)) = (&options.user, &options.password) {
        builder = builder.user(user, password);
    }
    builder
        .build()
        .await
        .map_err(|error| DatabaseError::Connect {
            hosts: options.hosts.join(", "),
            reason: error.to_string(),
        })
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
    let fields: Vec<String> = (0..options.fields)
        .map(|i| format!("field{i} varchar"))
        .collect();
    let mut statements = vec![
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': {replication_factor}}}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.usertable \
             (y_id varchar PRIMARY KEY, {}){}",
            fields.join(", "),
            with.map(|with| format!(" WITH {with}")).unwrap_or_default()
        ),
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

impl Database {
    /// Connects, and prepares the statements.
    pub(crate) async fn open(options: &Common) -> Result<Database, DatabaseError> {
        let session = connect(options).await?;
        let table = format!("{}.usertable", options.keyspace);
        let names: Vec<String> = (0..options.fields).map(|i| format!("field{i}")).collect();
        let prepare = async |statement: String| {
            let prepared = session.prepare(&*statement).await;
            prepared.map_err(|error| DatabaseError::Statement {
                statement,
                reason: error.to_string(),
            })
        };
        let mut updates = Vec::new();
        for name in &names {
            updates.push(prepare(format!("UPDATE {table} SET {name} = ? WHERE y_id = ?")).await?);
        }
        let insert = format!(
            "INSERT INTO {table} (y_id, {}) VALUES (?{})",
            names.join(", "),
            ", ?".repeat(names.len())
        );
        let scan = format!("SELECT * FROM {table} WHERE token(y_id) >= token(?) LIMIT ?");
        Ok(Database {
            read: prepare(format!("SELECT * FROM {table} WHERE y_id = ?")).await?,
            updates,
            insert: prepare(insert).await?,
            scan: prepare(scan).await?,
            session,
            field_length: options.field_length,
        })
    }

    /// Does an operation. Says whether the record it read was there.
    pub(crate) async fn execute(
        &self,
        operation: &Operation,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        key_of(operation.record, &mut buffers.key);
        match operation.kind {
            Kind::Read => self.read(buffers).await,
            Kind::Update => self.update(random, buffers).await,
            Kind::Insert => self.insert(random, buffers).await,
            Kind::Scan => {
                let rows = self
                    .rows(&self.scan, (&buffers.key, operation.length))
                    .await?;
                Ok(rows > 0)
            }
            Kind::ReadModifyWrite => {
                let found = self.read(buffers).await?;
                self.update(random, buffers).await?;
                Ok(found)
            }
        }
    }

    async fn read(&self, buffers: &Buffers) -> Result<bool, String> {
        Ok(self.rows(&self.read, (&buffers.key,)).await? > 0)
    }

    async fn update(&self, random: &mut Random, buffers: &mut Buffers) -> Result<bool, String> {
        let statement = &self.updates[random.below(self.updates.len() as u64) as usize];
        buffers.fields.resize(self.updates.len(), String::new());
        random.text(&mut buffers.fields[0], self.field_length);
        self.run(statement, (&buffers.fields[0], &buffers.key))
            .await?;
        Ok(true)
    }

    async fn insert(&self, random: &mut Random, buffers: &mut Buffers) -> Result<bool, String> {
        buffers.fields.resize(self.updates.len(), String::new());
        for field in &mut buffers.fields {
            random.text(field, self.field_length);
        }
        let values: Vec<&str> = std::iter::once(&*buffers.key)
            .chain(buffers.fields.iter().map(String::as_str))
            .collect();
        self.run(&self.insert, values).await?;
        Ok(true)
    }

    async fn run(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<scylla::response::query_result::QueryResult, String> {
        let done = self.session.execute_unpaged(statement, values).await;
        done.map_err(|error| error.to_string())
    }

    /// The number of rows a read gives. They are received, but not taken apart.
    async fn rows(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<usize, String> {
        let rows = self.run(statement, values).await?.into_rows_result();
        Ok(rows.map_err(|error| error.to_string())?.rows_num())
    }
}
