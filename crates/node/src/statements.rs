//! The prepared statements of a shard.

use std::sync::{Arc, OnceLock};

use cql::Prepared;
use lru::LruCache;
use md5::{Digest, Md5};
use model::Schema;
use wire::{ColumnSpec, EncodedColumns, Version};

/// The id of a prepared statement, or of the metadata of its result.
pub(crate) type StatementId = [u8; 16];

/// A prepared statement. Made by the shard that was asked to PREPARE and shared by all, since
/// drivers execute on any connection.
#[derive(Debug)]
pub(crate) struct Statement {
    /// `MD5(keyspace + text)`, as `QueryProcessor.computeId`: the same on every node, so that a
    /// driver may execute on one what another prepared.
    pub id: StatementId,
    /// Which columns the result has: changes when they do (protocol v5).
    pub result_metadata_id: StatementId,
    /// The plan and the metadata.
    pub prepared: Prepared,
    /// The text.
    pub text: Box<str>,
    variables: [OnceLock<EncodedColumns>; Version::ALL.len()],
    columns: [OnceLock<EncodedColumns>; Version::ALL.len()],
}

impl Statement {
    /// A statement of `text`, prepared with the session's or the request's keyspace.
    pub(crate) fn new(text: &str, keyspace: Option<&str>, prepared: Prepared) -> Statement {
        Statement {
            id: statement_id(text, keyspace),
            result_metadata_id: result_metadata_id(&prepared),
            prepared,
            text: text.into(),
            variables: Default::default(),
            columns: Default::default(),
        }
    }

    /// Its bind variables as clients of this version are told of them.
    pub(crate) fn variables(&self, version: Version) -> &EncodedColumns {
        self.variables[place(version)]
            .get_or_init(|| encode_columns(&self.prepared.bind_variables, version))
    }

    /// The columns of its result as clients of this version are told of them; `None` if it has
    /// none.
    pub(crate) fn columns(&self, version: Version) -> Option<&EncodedColumns> {
        let columns = self.prepared.result_columns.as_ref()?;
        Some(self.columns[place(version)].get_or_init(|| encode_columns(columns, version)))
    }

    /// About how much memory it takes: plans grow with their text.
    fn bytes(&self) -> usize {
        1024 + 32 * self.text.len()
    }
}

fn place(version: Version) -> usize {
    usize::from(version.number() - Version::V3.number())
}

/// The columns as clients of this version are told of them.
pub(crate) fn encode_columns(columns: &[cql::ColumnSpec], version: Version) -> EncodedColumns {
    let specs = columns.iter().map(|column| ColumnSpec {
        keyspace: &column.keyspace,
        table: &column.table,
        name: &column.name,
        ty: &column.ty,
    });
    EncodedColumns::new(specs, version)
}

/// The id under which `text` is or will be prepared.
pub(crate) fn statement_id(text: &str, keyspace: Option<&str>) -> StatementId {
    let mut hash = Md5::new();
    hash.update(keyspace.unwrap_or_default());
    hash.update(text);
    hash.finalize().into()
}

/// A digest of names and types of the result's columns.
pub(crate) fn result_metadata_id(prepared: &Prepared) -> StatementId {
    let mut hash = Md5::new();
    for column in prepared.result_columns.iter().flatten() {
        for part in [&column.keyspace, &column.table, &column.name] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        hash.update(column.ty.to_string());
        hash.update([0]);
    }
    hash.finalize().into()
}

/// The statements a shard can execute, the least recently used making room for new ones.
pub(crate) struct StatementCache {
    statements: LruCache<StatementId, Arc<Statement>, hashbrown::DefaultHashBuilder>,
    bytes: usize,
    budget: usize,
}

impl StatementCache {
    /// A cache of at most `budget` bytes.
    pub(crate) fn new(budget: usize) -> StatementCache {
        StatementCache {
            statements: LruCache::unbounded_with_hasher(hashbrown::DefaultHashBuilder::default()),
            bytes: 0,
            budget,
        }
    }

    /// The statement of this id, which counts as a use.
    pub(crate) fn get(&mut self, id: &[u8]) -> Option<Arc<Statement>> {
        self.find(id).cloned()
    }

    /// The same, for as long as nothing else is done with the others.
    pub(crate) fn lend(&mut self, id: &[u8]) -> Option<&Statement> {
        self.find(id).map(|statement| &**statement)
    }

    fn find(&mut self, id: &[u8]) -> Option<&Arc<Statement>> {
        let id: &StatementId = id.try_into().ok()?;
        self.statements.get(id)
    }

    /// Is a statement of this id there? That is no use of it.
    pub(crate) fn contains(&self, id: &StatementId) -> bool {
        self.statements.contains(id)
    }

    /// Keeps a statement; says which had to go for it.
    pub(crate) fn insert(&mut self, statement: Arc<Statement>) -> Vec<StatementId> {
        self.bytes += statement.bytes();
        if let Some(old) = self.statements.put(statement.id, statement) {
            self.bytes -= old.bytes();
        }
        let mut evicted = Vec::new();
        while self.bytes > self.budget && self.statements.len() > 1 {
            if let Some((id, old)) = self.statements.pop_lru() {
                self.bytes -= old.bytes();
                evicted.push(id);
            }
        }
        evicted
    }

    /// Forgets the statements whose tables or functions are not in `schema` as they were when the statement
    /// was prepared: clients get UNPREPARED and prepare again, as with Cassandra. Says which.
    pub(crate) fn retain_valid(&mut self, schema: &Schema) -> Vec<StatementId> {
        let stale: Vec<StatementId> = self
            .statements
            .iter()
            .filter(|(_, statement)| !statement.prepared.is_valid_in(schema))
            .map(|(id, _)| *id)
            .collect();
        for id in &stale {
            if let Some(old) = self.statements.pop(id) {
                self.bytes -= old.bytes();
            }
        }
        stale
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.statements.len()
    }
}
