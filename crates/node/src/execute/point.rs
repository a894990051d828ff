//! Answering at once, where the request was read: a prepared SELECT of one row, or of a partition of few rows, that lies
//! in this shard's memory as it is to be shown.
//!
//! These are the most frequent requests, and their answer is a look-up and a copy: no task, no command, no page is made for
//! it. Look-ups wait for memory, so requests for the same statement that were read together are looked up together.
//! Whatever is unusual about a request, be it that something is wrong with it, goes the way of all others
//! ([`super::Call`]), which gives the same answer where both can.

use std::rc::Rc;

use cql::{Plan, SelectPlan};
use io::Instant;
use model::{Clustering, DecoratedKey};
use smallvec::SmallVec;
use storage::{PlainRow, PlainRows};
use wire::{
    Consistency, Envelope, Execute, Flags, Header, Opcode, RowsHead, RowsWriter, ServerConnection,
};

use super::result::put_row;
use super::{ResultColumns, page_size, point_write, rows_head};
use crate::clients::Client;
use crate::coordinator;
use crate::metrics::RequestKind;
use crate::shard::Shard;
use crate::statements::Statement;

/// How many requests are answered together at most, without memory of their own for it.
pub(crate) const TOGETHER: usize = 16;

/// How many bytes an answer of several rows may have; larger ones are made in pieces, between which others are served.
const MOST_BYTES: usize = 64 << 10;

/// An execution of a statement, and where its rows are.
struct PointRead<'e> {
    header: &'e Header,
    head: RowsHead<'e>,
    consistency: Consistency,
    page_size: Option<u32>,
    key: DecoratedKey,
    /// Of the row, where one is asked for, not a partition.
    clustering: Option<Clustering>,
}

/// Answers requests of a client, which began then, from the first on as long as that can be done at once and they are
/// for the same statement. Says how many, and when that was done; `None`: nothing has happened.
pub(crate) fn answer_at_once(
    shard: &Rc<Shard>,
    client: &Rc<Client>,
    envelopes: &[Envelope],
    began: Instant,
) -> Option<(usize, Instant)> {
    let config = &shard.state.config;
    if shard.trace_probability.get() > 0.0 || config.guardrails.is_some() {
        return None;
    }
    let id = statement_of(envelopes.first()?)?;
    // Lent, not shared: all shards have the same statement, and would count their references in one place.
    let mut statements = shard.statements.borrow_mut();
    let statement = statements.lend(id)?;
    let same = envelopes
        .iter()
        .take_while(|envelope| statement_of(envelope) == Some(id));
    let select = match &statement.prepared.plan {
        Plan::Select(select) => select,
        Plan::Modify(modify) => {
            return point_write::begin(shard, client, (statement, modify), same, began);
        }
        _ => return None,
    };
    if select.point().is_none() && select.partition().is_none() {
        return None;
    }
    let reads = same.map_while(|envelope| PointRead::of(statement, select, envelope));
    let reads = reads.collect::<SmallVec<[PointRead<'_>; TOGETHER]>>();
    let asked = reads
        .iter()
        .map(|read| (read.key.token(), read.consistency));
    let here = coordinator::are_answered_here(shard, &select.table().keyspace, asked);
    let reads = &reads[..here];
    let (count, now) = show(shard, client, select, reads, began)?;
    let shown = count as u64;
    shard.metrics.prepared_executed.add(shown);
    client.requests.set(client.requests.get() + shown);
    let latency = now.saturating_duration_since(began);
    let latencies = shard.metrics.latency(RequestKind::Read);
    latencies.record_many(latency, shown);
    Some((count, now))
}

/// The id of the statement that is executed, if that is all that is asked for.
fn statement_of(envelope: &Envelope) -> Option<&[u8]> {
    let header = &envelope.header;
    let is_usual = header.opcode == Opcode::Execute && header.flags == Flags::default();
    is_usual.then(|| Execute::statement_of(envelope)).flatten()
}

impl<'e> PointRead<'e> {
    /// `None` if anything is unusual about it.
    fn of(
        statement: &'e Statement,
        select: &SelectPlan,
        envelope: &'e Envelope,
    ) -> Option<PointRead<'e>> {
        let execute = Execute::decode(envelope).ok()?;
        let parameters = &execute.parameters;
        let consistency = parameters.consistency;
        let is_usual = parameters.names.is_empty()
            && parameters.values.len() == statement.prepared.bind_variables.len()
            && parameters.paging_state.is_none()
            && !consistency.is_serial()
            && consistency.check().is_ok()
            && consistency.check_read().is_ok();
        if !is_usual {
            return None;
        }
        let share = |bytes: &[u8]| envelope.body.slice_ref(bytes);
        let (key, clustering) = match (select.point(), select.partition()) {
            (Some(point), _) => {
                let (key, clustering) = point.place(&parameters.values, share)?;
                (key, Some(clustering))
            }
            (None, partition) => (partition?.key(&parameters.values, share)?, None),
        };
        let columns = ResultColumns::of(statement, &execute, envelope.header.version)?;
        Some(PointRead {
            header: &envelope.header,
            head: rows_head(&columns, parameters),
            consistency,
            page_size: page_size(parameters),
            key,
            clustering,
        })
    }

    /// Do so many rows leave room on the page? Where it is full there is another one, if an empty one.
    fn has_room(&self, rows: usize) -> bool {
        self.page_size.is_none_or(|size| rows < size as usize)
    }
}

/// Writes the answers to reads of a statement, from the first on as long as there is room for them and they are to be
/// had. Says how many, and when they were found.
fn show(
    shard: &Shard,
    client: &Client,
    select: &SelectPlan,
    reads: &[PointRead<'_>],
    began: Instant,
) -> Option<(usize, Instant)> {
    let mut room = client.output.room();
    client.output.with(|connection: &mut ServerConnection| {
        let mut left = reads.iter();
        // Writes what `write` does of the next answer, unless that says no.
        let mut answer = |write: &mut dyn FnMut(&PointRead<'_>, &mut RowsWriter<'_>) -> bool| {
            let Some(read) = left.next().filter(|_| room > 0) else {
                return false;
            };
            let mut rows = connection.respond(read.header).rows(&read.head);
            if !write(read, &mut rows) {
                return false;
            }
            let bytes = rows.len();
            rows.finish(None);
            client.window.answered(bytes);
            room = room.saturating_sub(bytes);
            true
        };
        let (table, store) = (select.table().id, &shard.store);
        if select.partition().is_some() {
            let keys = reads.iter().map(|read| &read.key);
            let keys = keys.collect::<SmallVec<[_; TOGETHER]>>();
            return store.with_plain_partitions(table, &keys, began, |found| {
                answer(&mut |read, rows| put_partition(select, read, found, rows))
            });
        }
        let places = reads
            .iter()
            .filter_map(|read| Some((&read.key, read.clustering.as_ref()?)));
        let places = places.collect::<SmallVec<[_; TOGETHER]>>();
        store.with_plain_rows(table, &places, select.read_columns(), began, |row| {
            answer(&mut |read, rows| put_one(select, read, row, rows))
        })
    })
}

/// Writes the row of a read, if there is one. `false` if there is more to be said.
fn put_one(
    select: &SelectPlan,
    read: &PointRead<'_>,
    row: Option<PlainRow<'_>>,
    rows: &mut RowsWriter<'_>,
) -> bool {
    if !read.has_room(1) {
        return false;
    }
    if let Some(row) = row {
        let (clustering, values) = (row.clustering(), row.values());
        let mut put = |cells: &[Option<&[u8]>]| put_row(rows, cells);
        select.show(read.key.key(), clustering, values, &mut put);
    }
    true
}

/// Writes the rows of the partition of a read. `false` if there is more to be said, or too much.
fn put_partition(
    select: &SelectPlan,
    read: &PointRead<'_>,
    found: PlainRows<'_>,
    rows: &mut RowsWriter<'_>,
) -> bool {
    let mut shown = select.show_rows(read.key.key());
    read.has_room(found.count())
        && found.all(|row| {
            shown.row(row, &mut |cells| put_row(rows, cells));
            rows.len() <= MOST_BYTES
        })
}
