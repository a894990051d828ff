//! Answering at once, where the request was read: a prepared SELECT of one row that lies in this shard's memory as it
//! is to be shown.
//!
//! It is the most frequent request, and its answer is a look-up and a copy: no task, no command, no page is made for
//! it. Whatever is unusual about a request, be it that something is wrong with it, goes the way of all others
//! ([`super::Call`]), which gives the same answer where both can.

use cql::{Plan, SelectPlan};
use io::Instant;
use wire::{Envelope, Execute, Flags, Opcode, ServerConnection};

use super::result::put_row;
use super::{ResultColumns, page_size, rows_head};
use crate::clients::Client;
use crate::coordinator;
use crate::metrics::RequestKind;
use crate::shard::Shard;
use crate::statements::Statement;

/// Answers a request that began then, if it can be done at once, and says when it was done. `None`: nothing has
/// happened.
pub(crate) fn answer_at_once(
    shard: &Shard,
    client: &Client,
    envelope: &Envelope,
    began: Instant,
) -> Option<Instant> {
    let config = &shard.state.config;
    let is_usual = envelope.header.opcode == Opcode::Execute
        && envelope.header.flags == Flags::default()
        && shard.trace_probability.get() <= 0.0
        && config.guardrails.is_none();
    if !is_usual {
        return None;
    }
    let id = Execute::statement_of(envelope)?;
    // Lent, not shared: all shards have the same statement, and would count their references in one place.
    let mut statements = shard.statements.borrow_mut();
    let statement = statements.lend(id)?;
    let Plan::Select(select) = &statement.prepared.plan else {
        return None;
    };
    select.point()?;
    let execute = Execute::decode(envelope).ok()?;
    let (bytes, now) = show(
        shard,
        client,
        envelope,
        (statement, select, &execute),
        began,
    )?;
    shard.metrics.prepared_executed.add(1);
    client.requests.set(client.requests.get() + 1);
    client.window.answered(bytes);
    let kind = RequestKind::of_read(false, execute.parameters.consistency);
    let latency = now.saturating_duration_since(began);
    shard.metrics.latency(kind).record(latency);
    Some(now)
}

/// Writes the answer. Gives its bytes and when it was found.
fn show(
    shard: &Shard,
    client: &Client,
    envelope: &Envelope,
    (statement, select, execute): (&Statement, &SelectPlan, &Execute<'_>),
    began: Instant,
) -> Option<(usize, Instant)> {
    let parameters = &execute.parameters;
    let consistency = parameters.consistency;
    let is_usual = parameters.names.is_empty()
        && parameters.values.len() == statement.prepared.bind_variables.len()
        && parameters.paging_state.is_none()
        // Behind the first row there is another page then, if an empty one.
        && page_size(parameters) != Some(1)
        && !consistency.is_serial()
        && consistency.check().is_ok()
        && consistency.check_read().is_ok();
    if !is_usual {
        return None;
    }
    let share = |bytes: &[u8]| envelope.body.slice_ref(bytes);
    let (key, clustering) = select.point()?.place(&parameters.values, share)?;
    let table = select.table();
    if !coordinator::is_here(shard, &table.keyspace, key.token(), consistency) {
        return None;
    }
    let version = envelope.header.version;
    let columns = ResultColumns::of(statement, execute, version)?;
    let head = rows_head(&columns, parameters);
    let write = |connection: &mut ServerConnection| {
        let (place, columns) = ((&key, &clustering), select.read_columns());
        let store = &shard.store;
        store.with_plain_row(table.id, place, columns, began, |row| {
            let mut rows = connection.respond(&envelope.header).rows(&head);
            if let Some(row) = row {
                let (clustering, values) = (row.clustering(), row.values());
                let mut put = |cells: &[Option<&[u8]>]| put_row(&mut rows, cells);
                select.show(key.key(), clustering, values, &mut put);
            }
            let bytes = rows.len();
            rows.finish(None);
            bytes
        })
    };
    client.output.with(write)
}
