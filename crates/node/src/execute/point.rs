//! Answering at once, where the request was read: a prepared SELECT of one row, or of a partition of few rows, that lies
//! in this shard's memory as it is to be shown.
//!
//! These are the most frequent requests, and their answer is a look-up and a copy: no task, no command, no page is made for
//! it. Look-ups wait for memory, so requests for the same statement that were read together are looked up together.
//! Where another shard of the node has the row, that one is asked for the answer, and not for what it is made of
//! ([`answer_for_another`]): most drivers know of nodes and not of shards. Whatever is unusual about a request, be it that
//! something is wrong with it, goes the way of all others ([`super::Call`]), which gives the same answer where both can.

use std::rc::Rc;

use cql::{Plan, SelectPlan};
use io::Instant;
use model::{Clustering, DecoratedKey};
use smallvec::SmallVec;
use storage::{PlainRow, PlainRows};
use wire::{
    Consistency, Envelope, Execute, Flags, Header, Opcode, ResponseWriter, RowsHead, RowsWriter,
    ServerConnection,
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

/// Executions that were read together.
type Reads<'e> = SmallVec<[PointRead<'e>; TOGETHER]>;

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

/// What became of requests that were read together.
pub(crate) enum AtOnce {
    /// So many are answered, or will be, from the first on: that was done then.
    Done(usize, Instant),
    /// Nothing has happened. Another shard, this one, may answer so many of them, which are of this kind.
    Elsewhere(u16, usize, RequestKind),
    /// Nothing has happened. These shards have the rows, of each from the first on: what belongs to the same one is to
    /// be brought together.
    Spread(Owners),
}

/// The shard of each of some requests.
pub(crate) type Owners = SmallVec<[u16; TOGETHER]>;

/// Where requests go that were read together.
pub(super) enum Route {
    /// So many are for this shard, from the first on.
    Here(usize),
    /// This is to become of them first.
    Other(AtOnce),
}

/// Answers to requests of another shard's client.
#[derive(Default)]
pub(crate) struct Answered {
    /// How many were answered, from the first on.
    pub(crate) count: usize,
    /// The answers.
    pub(crate) out: Vec<u8>,
}

/// Where answers are written.
trait Answers {
    /// Begins the answer to a request; `None` where there is no room.
    fn begin(&mut self, header: &Header) -> Option<ResponseWriter<'_>>;

    /// It is written, and has so many bytes.
    fn end(&mut self, bytes: usize);
}

/// To a client of this shard.
struct ToClient<'c> {
    client: &'c Client,
    connection: &'c mut ServerConnection,
    room: usize,
}

impl Answers for ToClient<'_> {
    fn begin(&mut self, header: &Header) -> Option<ResponseWriter<'_>> {
        (self.room > 0).then(|| self.connection.respond(header))
    }

    fn end(&mut self, bytes: usize) {
        self.client.window.answered(bytes);
        self.room = self.room.saturating_sub(bytes);
    }
}

impl Answers for Answered {
    fn begin(&mut self, header: &Header) -> Option<ResponseWriter<'_>> {
        let has_room = self.out.len() < TOGETHER * MOST_BYTES;
        has_room.then(|| ResponseWriter::new(&mut self.out, header.version, header.stream))
    }

    fn end(&mut self, _: usize) {
        self.count += 1;
    }
}

/// Answers requests of a client, which began then, from the first on as long as that can be done at once and they are
/// for the same statement. `None`: nothing has happened.
pub(crate) fn answer_at_once(
    shard: &Rc<Shard>,
    client: &Rc<Client>,
    envelopes: &[Envelope],
    began: Instant,
) -> Option<AtOnce> {
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
    let reads = reads_of(statement, select, same)?;
    let owners = owners_of(shard, select, &reads);
    let count = match route(shard, owners, RequestKind::Read)? {
        Route::Here(count) => count,
        Route::Other(other) => return Some(other),
    };
    let room = client.output.room();
    let (count, now) = client.output.with(|connection| {
        let mut answers = ToClient {
            client,
            connection,
            room,
        };
        show(shard, select, &reads[..count], began, &mut answers)
    })?;
    let shown = count as u64;
    client.requests.set(client.requests.get() + shown);
    have_answered(shard, (RequestKind::Read, shown), began, now);
    Some(AtOnce::Done(count, now))
}

/// What becomes of requests of another shard's client.
pub(crate) enum ForAnother {
    /// That was all.
    Answered(Answered),
    /// They are answered when they are in the commit log.
    Writing(point_write::Writing<Answered>),
}

/// Answers requests of a client of another shard, as [`answer_at_once`]: executions of one statement.
pub(crate) fn answer_for_another(shard: &Rc<Shard>, envelopes: &[Envelope]) -> ForAnother {
    let begun = begin_for_another(shard, envelopes);
    begun.unwrap_or_else(|| ForAnother::Answered(Answered::default()))
}

/// `None`: nothing has happened.
fn begin_for_another(shard: &Rc<Shard>, envelopes: &[Envelope]) -> Option<ForAnother> {
    let began = shard.env.now();
    let mut statements = shard.statements.borrow_mut();
    let statement = statements.lend(statement_of(envelopes.first()?)?)?;
    let select = match &statement.prepared.plan {
        Plan::Select(select) => select,
        Plan::Modify(modify) => {
            let envelopes = envelopes.iter();
            let write = (statement, &**modify);
            let begun = point_write::begin_for_another(shard, write, envelopes, began);
            return begun.map(ForAnother::Writing);
        }
        _ => return None,
    };
    let reads = reads_of(statement, select, envelopes.iter())?;
    let owners = owners_of(shard, select, &reads);
    let Some(Route::Here(count)) = route(shard, owners, RequestKind::Read) else {
        return None;
    };
    let mut answered = Answered::default();
    let _ = show(shard, select, &reads[..count], began, &mut answered);
    Some(ForAnother::Answered(answered))
}

/// Counts requests of a kind that were answered at once.
pub(crate) fn have_answered(
    shard: &Shard,
    (kind, count): (RequestKind, u64),
    began: Instant,
    now: Instant,
) {
    shard.metrics.prepared_executed.add(count);
    let latency = now.saturating_duration_since(began);
    shard.metrics.latency(kind).record_many(latency, count);
}

/// Where requests of a kind go whose rows these shards have; `None` if there are none.
pub(super) fn route(shard: &Shard, owners: Owners, kind: RequestKind) -> Option<Route> {
    let (owner, count) = first_run(&owners)?;
    Some(if !are_together(&owners) {
        Route::Other(AtOnce::Spread(owners))
    } else if owner != shard.index() {
        Route::Other(AtOnce::Elsewhere(owner, count, kind))
    } else {
        Route::Here(count)
    })
}

/// The executions of a statement, from the first on as long as nothing is unusual about them; `None` if the statement
/// is none that is answered at once.
fn reads_of<'e>(
    statement: &'e Statement,
    select: &SelectPlan,
    envelopes: impl Iterator<Item = &'e Envelope>,
) -> Option<Reads<'e>> {
    if select.point().is_none() && select.partition().is_none() {
        return None;
    }
    let reads = envelopes.map_while(|envelope| PointRead::of(statement, select, envelope));
    Some(reads.collect())
}

/// Which shard has the rows of each read, from the first on.
fn owners_of(shard: &Shard, select: &SelectPlan, reads: &[PointRead<'_>]) -> Owners {
    let asked = reads.iter();
    let asked = asked.map(|read| (read.key.token(), read.consistency));
    coordinator::answering_shards(shard, &select.table().keyspace, asked)
}

/// The shard of the first ones, and how many these are.
fn first_run(owners: &[u16]) -> Option<(u16, usize)> {
    let first = owners.first()?;
    Some((
        *first,
        owners.iter().take_while(|owner| *owner == first).count(),
    ))
}

/// Does none come again behind another one?
fn are_together(owners: &[u16]) -> bool {
    let mut rest = owners;
    while let Some((first, count)) = first_run(rest) {
        rest = &rest[count..];
        if rest.contains(&first) {
            return false;
        }
    }
    true
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
            // What expires is to be seen as it is now.
            && parameters.now_in_seconds.is_none()
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
    select: &SelectPlan,
    reads: &[PointRead<'_>],
    began: Instant,
    answers: &mut impl Answers,
) -> Option<(usize, Instant)> {
    let mut left = reads.iter();
    // Writes what `write` does of the next answer, unless that says no.
    let mut answer = |write: &mut dyn FnMut(&PointRead<'_>, &mut RowsWriter<'_>) -> bool| {
        let Some(read) = left.next() else {
            return false;
        };
        let Some(response) = answers.begin(read.header) else {
            return false;
        };
        let mut rows = response.rows(&read.head);
        if !write(read, &mut rows) {
            return false;
        }
        let bytes = rows.len();
        rows.finish(None);
        answers.end(bytes);
        true
    };
    let (table, store) = (select.table().id, &shard.store);
    let now_seconds = || shard.env.wall_seconds();
    if select.partition().is_some() {
        let keys = reads.iter().map(|read| &read.key);
        let keys = keys.collect::<SmallVec<[_; TOGETHER]>>();
        let when = (began, now_seconds());
        return store.with_plain_partitions(table, &keys, when, |found| {
            answer(&mut |read, rows| put_partition(select, read, found, rows))
        });
    }
    let places = reads
        .iter()
        .filter_map(|read| Some((&read.key, read.clustering.as_ref()?)));
    let places = places.collect::<SmallVec<[_; TOGETHER]>>();
    let columns = select.read_columns();
    store.with_plain_rows(table, &places, columns, (began, now_seconds), |row| {
        answer(&mut |read, rows| put_one(select, read, row, rows))
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
