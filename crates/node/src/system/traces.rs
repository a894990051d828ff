//! `system_traces`: what was done for a request whose client wanted to know (`TraceKeyspace`).

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use model::{Clustering, DecoratedKey, Mutation, PartitionUpdate, Schema};
use uuid::Uuid;

use super::batches::time_uuid;
use super::rows::{RowWriter, WriteTime, bigint, inet, int, text, uuid};

/// How long a trace is kept, in seconds (`trace_type_query_ttl`).
const KEEP: u32 = 24 * 60 * 60;

/// A traced request.
pub(crate) struct TracedRequest {
    /// The session's id, a timeuuid.
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
    /// What was done: after how many microseconds, what, by which thread.
    pub(crate) events: Vec<(u64, String, String)>,
}

/// Writes a trace: its events and then its session, which clients wait for. `None` if the schema
/// has no such tables.
pub(crate) fn trace_mutations(schema: &Schema, trace: &TracedRequest) -> Option<[Mutation; 2]> {
    let time = WriteTime::at(trace.started_at);
    let key = DecoratedKey::new(uuid(trace.id));
    let (source, port) = trace.coordinator;
    let table = schema.table("system_traces", "events")?;
    let mut events = PartitionUpdate::new(table.clone(), key.clone());
    for (index, (elapsed, activity, thread)) in trace.events.iter().enumerate() {
        let id = time_uuid(
            trace.started_at + *elapsed as i64,
            index as u16,
            index as u64,
        );
        let row = events.row_mut(&Clustering([uuid(id)].into_iter().collect()));
        RowWriter::insert(table, row, time)
            .for_seconds(KEEP)
            .set("activity", text(activity))
            .set("source", inet(source))
            .set("source_port", int(i32::from(port)))
            .set("source_elapsed", micros(*elapsed))
            .set("thread", text(thread));
    }
    let table = schema.table("system_traces", "sessions")?;
    let mut session = PartitionUpdate::new(table.clone(), key);
    let row = session.row_mut(&Clustering::EMPTY);
    let parameters = trace.parameters.iter();
    RowWriter::insert(table, row, time)
        .for_seconds(KEEP)
        .set("client", inet(trace.client.ip()))
        .set("command", text("QUERY"))
        .set("coordinator", inet(source))
        .set("coordinator_port", int(i32::from(port)))
        .set("duration", micros(trace.duration))
        .set("request", text(trace.request))
        .set("started_at", bigint(trace.started_at / 1000))
        .add(
            "parameters",
            parameters.map(|(name, value)| (text(name), text(value))),
        );
    let mutation = |update| Mutation {
        updates: vec![update],
    };
    Some([mutation(events), mutation(session)])
}

fn micros(micros: u64) -> Bytes {
    int(i32::try_from(micros).unwrap_or(i32::MAX))
}
