//! Beginning at once, where the request was read, what is written to one row: prepared INSERTs and UPDATEs of a
//! partition of this shard, of which no other node has a replica.
//!
//! Executions of one statement that were read together are in the commit log before any of them waits, and one task
//! waits for the drive and answers all of them, in their order. As with reads at once ([`super::point`]), whatever is
//! unusual goes the way of all others: a table with views or indexes, a value that is wrong, memory that is short.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use cql::ModifyPlan;
use io::{Elapsed, Instant, Permit, TaskGroup};
use model::{Mutation, PartitionUpdate, Token};
use storage::{BegunWrites, WriteError};
use wire::{Consistency, Envelope, Execute, Header, ResponseExtras, WriteType};

use crate::clients::Client;
use crate::coordinator;
use crate::metrics::RequestKind;
use crate::shard::Shard;
use crate::statements::Statement;
use crate::views;

/// An execution of a statement, and where it writes.
struct Asked {
    header: Header,
    token: Token,
    consistency: Consistency,
}

/// Begins executions of a statement, from the first on as long as that can be done at once. Says how many, and when
/// that was done; `None`: nothing has happened.
pub(super) fn begin<'e>(
    shard: &Rc<Shard>,
    client: &Rc<Client>,
    (statement, modify): (&Statement, &ModifyPlan),
    envelopes: impl Iterator<Item = &'e Envelope> + Clone,
    began: Instant,
) -> Option<(usize, Instant)> {
    let table = modify.table();
    let has_views = || shard.with_metadata(|metadata, _| metadata.views_of(table.id).is_some());
    let is_usual = modify.is_point()
        && shard.disk_usages.are_spacious()
        && !shard.timeouts.write().is_zero()
        && !has_views();
    if !is_usual {
        return None;
    }
    let bytes = envelopes.clone().map(|envelope| envelope.body.len()).sum();
    let memory = shard.request_memory.try_acquire(bytes)?;
    let planned = envelopes.map_while(|envelope| planned(shard, (statement, modify), envelope));
    let planned: Vec<(Asked, PartitionUpdate)> = planned.collect();
    let places = planned
        .iter()
        .map(|(asked, _)| (asked.token, asked.consistency));
    let owners = coordinator::answering_shards(shard, &table.keyspace, places);
    let is_here = |owner: &&u16| **owner == shard.index();
    let here = owners.iter().take_while(is_here).count();
    let mut writing = Writing {
        writes: shard.store.begin_writes(here, began),
        asked: VecDeque::with_capacity(here),
        keyspace: table.keyspace.clone(),
        began,
        _under_way: views::UnderWay::begin(shard.clone()),
        _memory: memory,
        shard: shard.clone(),
        client: client.clone(),
    };
    for (asked, update) in planned.into_iter().take(here) {
        let updates = vec![update];
        if !client.window.has_room() || writing.writes.begin(Mutation { updates }).is_err() {
            break;
        }
        client.window.begin();
        writing.asked.push_back(asked);
    }
    let count = writing.asked.len();
    if count == 0 {
        return None;
    }
    shard.metrics.in_flight.add(count as u64);
    shard.metrics.prepared_executed.add(count as u64);
    client.requests.set(client.requests.get() + count as u64);
    let env = &shard.env;
    env.spawn(TaskGroup::Foreground, writing.finish()).detach();
    Some((count, env.now()))
}

/// What an execution writes; `None` if anything is unusual about it.
fn planned(
    shard: &Shard,
    (statement, modify): (&Statement, &ModifyPlan),
    envelope: &Envelope,
) -> Option<(Asked, PartitionUpdate)> {
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
    let now = shard.timestamps.next(&shard.env);
    let seconds = || u32::try_from(now / 1_000_000).unwrap_or(0);
    let times = (
        parameters.timestamp.unwrap_or(now),
        parameters.now_in_seconds.unwrap_or_else(seconds),
    );
    let share = |bytes: &[u8]| envelope.body.slice_ref(bytes);
    let update = modify.point_update(&parameters.values, share, times)?;
    let asked = Asked {
        header: envelope.header,
        token: update.key.token(),
        consistency,
    };
    Some((asked, update))
}

/// Executions that are in the commit log.
struct Writing {
    writes: BegunWrites,
    asked: VecDeque<Asked>,
    keyspace: Arc<str>,
    began: Instant,
    _under_way: views::UnderWay<Rc<Shard>>,
    _memory: Permit,
    shard: Rc<Shard>,
    client: Rc<Client>,
}

impl Writing {
    /// Answers each when it is written, or when the time of all is up.
    async fn finish(mut self) {
        let shard = self.shard.clone();
        let written = async {
            while let Some(written) = self.writes.next().await {
                self.answer(Ok(written));
            }
        };
        if let Err(elapsed) = shard.env.timeout(shard.timeouts.write(), written).await {
            while !self.asked.is_empty() {
                self.answer(Err(elapsed));
            }
        }
    }

    /// Answers the first that has none.
    fn answer(&mut self, written: Result<Result<(), WriteError>, Elapsed>) {
        let Some(asked) = self.asked.pop_front() else {
            return;
        };
        let (shard, client) = (&*self.shard, &*self.client);
        let result = match written {
            Ok(Ok(())) => Ok(()),
            refused => {
                let level = (asked.consistency, WriteType::Simple);
                coordinator::written_here(shard, (&self.keyspace, asked.token), level, refused)
            }
        };
        let bytes = client.output.with(|connection| {
            let before = connection.pending();
            let response = connection.respond(&asked.header);
            match result {
                Ok(()) => response.void(),
                Err(error) => {
                    let reply = error.into_reply();
                    shard.metrics.count_error(reply.kind.code() as u32);
                    response
                        .with_extras(ResponseExtras::default())
                        .error(&reply);
                }
            }
            connection.pending() - before
        });
        client.window.answered(bytes);
        let latency = shard.env.now().saturating_duration_since(self.began);
        shard.metrics.latency(RequestKind::Write).record(latency);
        self.end(1);
    }

    /// So many have ended.
    fn end(&self, count: usize) {
        self.shard.metrics.in_flight.sub(count as u64);
        (0..count).for_each(|_| self.client.window.end());
        self.client.progress.notify_all();
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.end(self.asked.len());
    }
}
