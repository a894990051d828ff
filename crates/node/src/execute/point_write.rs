//! Beginning at once, where the request was read, what is written to one row: prepared INSERTs and UPDATEs of a
//! partition of which no other node has a replica.
//!
//! Executions of one statement that were read together are in the commit log before any of them waits, and one task
//! waits for the drive and answers all of them, in their order. Where another shard of the node has the partition, it
//! does all that, and gives back the answers. As with reads at once ([`super::point`]), whatever is unusual goes the
//! way of all others: a table with views or indexes, a value that is wrong, memory that is short.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use cql::{ModifyPlan, PointUpdate};
use io::{Elapsed, Instant, Permit, TaskGroup};
use model::{DecoratedKey, Mutation, Token};
use storage::{BegunWrites, WriteError};
use wire::{Consistency, Envelope, Execute, Header, ResponseWriter, WriteType};

use super::point::{self, Answered, AtOnce, Owners, Route};
use crate::clients::Client;
use crate::coordinator;
use crate::error::RequestError;
use crate::metrics::RequestKind;
use crate::request_memory::memory_of;
use crate::shard::Shard;
use crate::statements::Statement;
use crate::views;

/// An execution of a statement, and where it writes.
struct Asked<'e> {
    envelope: &'e Envelope,
    execute: Execute<'e>,
    key: DecoratedKey,
}

/// One that has no answer yet.
struct Unanswered {
    header: Header,
    token: Token,
    consistency: Consistency,
}

/// Executions that were read together.
type Writes<'e> = Vec<Asked<'e>>;

/// Begins executions of a statement of a client, from the first on as long as that can be done at once. `None`:
/// nothing has happened.
pub(super) fn begin<'e>(
    shard: &Rc<Shard>,
    client: &Rc<Client>,
    (statement, modify): (&Statement, &ModifyPlan),
    envelopes: impl Iterator<Item = &'e Envelope>,
    began: Instant,
) -> Option<AtOnce> {
    let mut asked = asked_of(shard, (statement, modify), envelopes)?;
    let owners = owners_of(shard, modify, &asked);
    match point::route(shard, owners, RequestKind::Write)? {
        Route::Here(count) => asked.truncate(count),
        Route::Other(other) => return Some(other),
    }
    let answers = ToClient::new(shard, client, began);
    let writing = Writing::begin(shard, modify, asked, (began, answers))?;
    let count = writing.unanswered.len();
    shard.metrics.prepared_executed.add(count as u64);
    client.requests.set(client.requests.get() + count as u64);
    let env = &shard.env;
    let finish = async move { drop(writing.finish().await) };
    env.spawn(TaskGroup::Foreground, finish).detach();
    Some(AtOnce::Done(count, env.now()))
}

/// The same for requests of another shard's client: [`Writing::finish`] gives the answers.
pub(super) fn begin_for_another<'e>(
    shard: &Rc<Shard>,
    (statement, modify): (&Statement, &ModifyPlan),
    envelopes: impl Iterator<Item = &'e Envelope>,
    began: Instant,
) -> Option<Writing<Answered>> {
    let mut asked = asked_of(shard, (statement, modify), envelopes)?;
    let owners = owners_of(shard, modify, &asked);
    let Some(Route::Here(count)) = point::route(shard, owners, RequestKind::Write) else {
        return None;
    };
    asked.truncate(count);
    Writing::begin(shard, modify, asked, (began, Answered::default()))
}

/// The executions of a statement, from the first on as long as nothing is unusual about them; `None` if the statement
/// or the node is not one for this.
fn asked_of<'e>(
    shard: &Shard,
    (statement, modify): (&Statement, &ModifyPlan),
    envelopes: impl Iterator<Item = &'e Envelope>,
) -> Option<Writes<'e>> {
    let table = modify.table();
    let has_views = || shard.with_metadata(|metadata, _| metadata.views_of(table.id).is_some());
    let is_usual = modify.is_point()
        && shard.disk_usages.are_spacious()
        && !shard.timeouts.write().is_zero()
        && !has_views();
    let asked = envelopes.map_while(|envelope| Asked::of(statement, modify, envelope));
    is_usual.then(|| asked.collect())
}

/// Which shard has the partition of each, from the first on.
fn owners_of(shard: &Shard, modify: &ModifyPlan, asked: &[Asked<'_>]) -> Owners {
    let places = asked.iter();
    let places = places.map(|asked| (asked.key.token(), asked.execute.parameters.consistency));
    coordinator::answering_shards(shard, &modify.table().keyspace, places)
}

impl<'e> Asked<'e> {
    /// `None` if anything is unusual about it.
    fn of(statement: &Statement, modify: &ModifyPlan, envelope: &'e Envelope) -> Option<Asked<'e>> {
        let execute = Execute::decode(envelope).ok()?;
        let parameters = &execute.parameters;
        let consistency = parameters.consistency;
        let is_usual = parameters.names.is_empty()
            && parameters.values.len() == statement.prepared.bind_variables.len()
            && consistency.check().is_ok()
            && consistency.check_write().is_ok();
        if !is_usual {
            return None;
        }
        let share = |bytes: &[u8]| envelope.body.slice_ref(bytes);
        let key = modify.point_key(&parameters.values, share)?;
        Some(Asked {
            envelope,
            execute,
            key,
        })
    }

    /// What it writes; `None` if anything is unusual about that.
    fn update(
        self,
        shard: &Shard,
        modify: &ModifyPlan,
        scratch: &mut Vec<u8>,
    ) -> Option<PointUpdate> {
        let parameters = &self.execute.parameters;
        let now = shard.timestamps.next(&shard.env);
        let seconds = || u32::try_from(now / 1_000_000).unwrap_or(0);
        let times = (
            parameters.timestamp.unwrap_or(now),
            parameters.now_in_seconds.unwrap_or_else(seconds),
        );
        let share = |bytes: &[u8]| self.envelope.body.slice_ref(bytes);
        modify.point_update(self.key, &parameters.values, share, times, scratch)
    }
}

/// Where answers are written.
pub(crate) trait Answers {
    /// Is there room for one more?
    fn has_room(&self) -> bool;

    /// One more is to be answered.
    fn begin(&mut self);

    /// The answer to the first that has none.
    fn answer(&mut self, shard: &Shard, header: &Header, result: Result<(), RequestError>);
}

/// To a client of this shard. Those that have no answer are ended when this is dropped.
struct ToClient {
    shard: Rc<Shard>,
    client: Rc<Client>,
    began: Instant,
    under_way: usize,
}

impl ToClient {
    /// Of requests that were read then.
    fn new(shard: &Rc<Shard>, client: &Rc<Client>, began: Instant) -> ToClient {
        ToClient {
            shard: shard.clone(),
            client: client.clone(),
            began,
            under_way: 0,
        }
    }

    /// So many have ended.
    fn end(&mut self, count: usize) {
        self.under_way -= count;
        self.shard.metrics.in_flight.sub(count as u64);
        (0..count).for_each(|_| self.client.window.end());
        self.client.progress.notify_all();
    }
}

impl Answers for ToClient {
    fn has_room(&self) -> bool {
        self.client.window.has_room()
    }

    fn begin(&mut self) {
        self.client.window.begin();
        self.shard.metrics.in_flight.add(1);
        self.under_way += 1;
    }

    fn answer(&mut self, shard: &Shard, header: &Header, result: Result<(), RequestError>) {
        let bytes = self.client.output.with(|connection| {
            let before = connection.pending();
            put(shard, connection.respond(header), result);
            connection.pending() - before
        });
        self.client.window.answered(bytes);
        let latency = shard.env.now().saturating_duration_since(self.began);
        shard.metrics.latency(RequestKind::Write).record(latency);
        self.end(1);
    }
}

impl Drop for ToClient {
    fn drop(&mut self) {
        self.end(self.under_way);
    }
}

impl Answers for Answered {
    fn has_room(&self) -> bool {
        true
    }

    fn begin(&mut self) {}

    fn answer(&mut self, shard: &Shard, header: &Header, result: Result<(), RequestError>) {
        let response = ResponseWriter::new(&mut self.out, header.version, header.stream);
        put(shard, response, result);
        self.count += 1;
    }
}

/// Writes an answer.
fn put(shard: &Shard, response: ResponseWriter<'_>, result: Result<(), RequestError>) {
    match result {
        Ok(()) => response.void(),
        Err(error) => {
            let reply = error.into_reply();
            shard.metrics.count_error(reply.kind.code() as u32);
            response.error(&reply);
        }
    }
}

/// Executions that are in the commit log.
pub(crate) struct Writing<A> {
    writes: BegunWrites,
    unanswered: VecDeque<Unanswered>,
    keyspace: Arc<str>,
    answers: A,
    _under_way: views::UnderWay<Rc<Shard>>,
    _memory: Permit,
    shard: Rc<Shard>,
}

impl<A: Answers> Writing<A> {
    /// Begins executions of a statement, from the first on as long as that can be done at once; `None` if that is none
    /// of them.
    fn begin(
        shard: &Rc<Shard>,
        modify: &ModifyPlan,
        asked: Writes<'_>,
        (began, answers): (Instant, A),
    ) -> Option<Writing<A>> {
        let envelopes = asked.iter().map(|asked| asked.envelope);
        let needed = envelopes.map(|envelope| memory_of(envelope, shard.most_memory_of_request));
        let memory = shard.request_memory.try_acquire(needed.sum())?;
        let mut writing = Writing {
            writes: shard.store.begin_writes(asked.len(), began),
            unanswered: VecDeque::with_capacity(asked.len()),
            keyspace: modify.table().keyspace.clone(),
            answers,
            _under_way: views::UnderWay::begin(shard.clone()),
            _memory: memory,
            shard: shard.clone(),
        };
        let mut scratch = Vec::new();
        for asked in asked {
            if !writing.answers.has_room() {
                break;
            }
            let unanswered = Unanswered {
                header: asked.envelope.header,
                token: asked.key.token(),
                consistency: asked.execute.parameters.consistency,
            };
            let Some(update) = asked.update(shard, modify, &mut scratch) else {
                break;
            };
            if !writing.begin_one(update) {
                break;
            }
            writing.answers.begin();
            writing.unanswered.push_back(unanswered);
        }
        (!writing.unanswered.is_empty()).then_some(writing)
    }

    /// Begins a write; `false` if it has to wait for anything but the log.
    fn begin_one(&mut self, update: PointUpdate) -> bool {
        match update {
            PointUpdate::Row(update) => self.writes.begin_row(update).is_ok(),
            PointUpdate::Long(update) => {
                let updates = vec![update];
                self.writes.begin(Mutation { updates }).is_ok()
            }
        }
    }

    /// Answers each when it is written, or when the time of all is up.
    pub(crate) async fn finish(mut self) -> A {
        let shard = self.shard.clone();
        let written = async {
            while let Some(written) = self.writes.next().await {
                self.answer(Ok(written));
            }
        };
        if let Err(elapsed) = shard.env.timeout(shard.timeouts.write(), written).await {
            while !self.unanswered.is_empty() {
                self.answer(Err(elapsed));
            }
        }
        self.answers
    }

    /// Answers the first that has none.
    fn answer(&mut self, written: Result<Result<(), WriteError>, Elapsed>) {
        let Some(asked) = self.unanswered.pop_front() else {
            return;
        };
        let shard = &*self.shard;
        let result = match written {
            Ok(Ok(())) => Ok(()),
            refused => {
                let level = (asked.consistency, WriteType::Simple);
                coordinator::written_here(shard, (&self.keyspace, asked.token), level, refused)
            }
        };
        self.answers.answer(shard, &asked.header, result);
    }
}
