//! `system_traces`: what was done for a request whose client wanted to know (`TraceKeyspace`).

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use model::{Clustering, DecoratedKey, Mutation, PartitionUpdate, Schema};
use uuid::Uuid;

use super::batches::time_uuid;
use super::rows::{RowWriter, WriteTime, bigint, inet, int, text, uuid};

/// How long a trace is kept, in seconds (`trace_type_query_ttl`).
const KEEP: u32 = 24 * 60 * 60;

/// What was done for a traced request by one node.
pub(crate) struct TracedEvents {
    /// The id of the session, a timeuuid.
    pub(crate) session: Uuid,
    /// The node: its address and the port of other nodes.
    pub(crate) source: (IpAddr, u16),
    /// When the node began, in microseconds since 1970.
    pub(crate) started_at: i64,
    /// What tells its events from those of other nodes.
    pub(crate) random: u64,
    /// What was done: after how many microseconds, what, by which thread.
    pub(crate) events: Vec<(u64, String, String)>,
}

/// A traced request.
pub(crate) struct TracedSession {
    /// Its id, a timeuuid.
    pub(crate) id: Uuid,
    /// Who asked.
    pub(crate) client: SocketAddr,
    /// The node that was asked: its address and the port of other nodes.
    pub(crate) coordinator: (IpAddr, u16),
    /// When it began, in microseconds since 1970.
    pub(crate) started_at: i64,
    /// How long it took, in microseconds.
    pub(crate) duration: u64,
    /// What was asked, in Cassandra's words.
    pub(crate) request: &'static str,
    /// The statement, its level, its values.
    pub(crate) parameters: Vec<(String, String)>,
}

impl TracedEvents {
    /// Writes them down. `None` if there are none, or the schema has no such table.
    pub(crate) fn mutation(&self, schema: &Schema) -> Option<Mutation> {
        if self.events.is_empty() {
            return None;
        }
        let table = schema.table("system_traces", "events")?;
        let time = WriteTime::at(self.started_at);
        let (source, port) = self.source;
        let key = DecoratedKey::new(uuid(self.session));
        let mut update = PartitionUpdate::new(table.clone(), key);
        for (index, (elapsed, activity, thread)) in self.events.iter().enumerate() {
            let at = self.started_at + *elapsed as i64;
            let id = time_uuid(at, index as u16, self.random);
            let row = update.row_mut(&Clustering([uuid(id)].into_iter().collect()));
            RowWriter::insert(table, row, time)
                .for_seconds(KEEP)
                .set("activity", text(activity))
                .set("source", inet(source))
                .set("source_port", int(i32::from(port)))
                .set("source_elapsed", micros(*elapsed))
                .set("thread", text(thread));
        }
        Some(Mutation {
            updates: vec![update],
        })
    }
}

impl TracedSession {
    /// Writes it down, which clients wait for: its events come before it. `None` if the schema has no such table.
    pub(crate) fn mutation(&self, schema: &Schema) -> Option<Mutation> {
        let table = schema.table("system_traces", "sessions")?;
        let (coordinator, port) = self.coordinator;
        let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(uuid(self.id)));
        let row = update.row_mut(&Clustering::EMPTY);
        let parameters = self.parameters.iter();
        RowWriter::insert(table, row, WriteTime::at(self.started_at))
            .for_seconds(KEEP)
            .set("client", inet(self.client.ip()))
            .set("command", text("QUERY"))
            .set("coordinator", inet(coordinator))
            .set("coordinator_port", int(i32::from(port)))
            .set("duration", micros(self.duration))
            .set("request", text(self.request))
            .set("started_at", bigint(self.started_at / 1000))
            .add(
                "parameters",
                parameters.map(|(name, value)| (text(name), text(value))),
            );
        Some(Mutation {
            updates: vec![update],
        })
    }
}

fn micros(micros: u64) -> Bytes {
    int(i32::try_from(micros).unwrap_or(i32::MAX))
}
