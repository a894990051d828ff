//! The times of markers that are as late as they are written: each is later than all before it, whatever the clock
//! says, also those of an earlier life of the node, whose clock may have been ahead.
//!
//! Shard 0 sees to it that `system.local` is written as of a time that no marker has reached: the next life begins
//! behind that, as all that the node says of itself does. Some seconds are taken at a time.

use std::cell::Cell;
use std::rc::Rc;

use storage::WriteError;

use crate::message::{ShardReply, ShardRequest};
use crate::peers::LEADING_SHARD;
use crate::replica;
use crate::shard::Shard;
use crate::start::local_row;
use crate::timestamps::Timestamps;

/// How many microseconds are taken at a time.
const SPAN: i64 = 10_000_000;
/// How far ahead a time may be that is passed, in microseconds: a day. Clocks differ by less; what a client makes up,
/// as nanoseconds, is no reason to live in the future.
const FARTHEST: i64 = 24 * 60 * 60 * 1_000_000;

/// From when on, and until when, markers may be written, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    from: i64,
    until: i64,
}

/// What a shard may use, and has used.
#[derive(Default)]
pub(super) struct MarkerTime {
    span: Cell<Span>,
    used: Timestamps,
}

/// The time of a marker that is written now.
///
/// # Errors
/// More time cannot be taken: the drive does not have it.
pub(super) async fn next(shard: &Rc<Shard>) -> Result<i64, WriteError> {
    loop {
        let time = &shard.views.time;
        let now = time.used.next(&shard.env);
        if now < time.span.get().until {
            return Ok(now);
        }
        let span = take(shard, now).await?;
        time.used.pass(span.from);
        time.span.set(span);
    }
}

/// A marker has been given this time: those that are written from now on are later, also in the next life.
///
/// # Errors
/// As of [`next`].
pub(super) async fn pass(shard: &Rc<Shard>, marker: Option<i64>) -> Result<(), WriteError> {
    let farthest = shard.env.wall_micros().saturating_add(FARTHEST);
    let Some(marker) = marker.filter(|marker| *marker < farthest) else {
        return Ok(());
    };
    let time = &shard.views.time;
    time.used.pass(marker);
    while marker >= time.span.get().until {
        let span = take(shard, marker).await?;
        time.span.set(span);
    }
    Ok(())
}

/// A time that is earlier than that of any marker which this life writes: not the clock's, which may be set back.
///
/// # Errors
/// As of [`next`].
pub(super) async fn before(shard: &Rc<Shard>) -> Result<i64, WriteError> {
    next(shard).await?;
    Ok(shard.views.time.span.get().from)
}

async fn take(shard: &Rc<Shard>, past: i64) -> Result<Span, WriteError> {
    if shard.index() == LEADING_SHARD {
        return lead(shard, past).await;
    }
    match shard.ask(LEADING_SHARD, ShardRequest::TakeTime(past)).await {
        Ok(ShardReply::Time(span)) => span,
        _ => Err(WriteError::Closed),
    }
}

/// Takes time that reaches beyond `past`. On shard 0.
///
/// # Errors
/// The drive does not have it.
pub(crate) async fn lead(shard: &Rc<Shard>, past: i64) -> Result<Span, WriteError> {
    let taken = &shard.views.taken;
    let known = taken.get();
    if past < known.until {
        return Ok(known);
    }
    // All that earlier lives have taken is behind this.
    let from = match known.from {
        0 => shard.local_timestamps.next(&shard.env),
        from => from,
    };
    // It is the same for all shards, also for one that asks meanwhile.
    taken.set(Span { from, ..known });
    let until = past.max(from) + SPAN;
    shard.local_timestamps.pass(until);
    if let Some(mutation) = local_row(shard) {
        replica::apply_to_drive(shard, mutation).await?;
    }
    // Another one may have taken more meanwhile.
    let until = until.max(taken.get().until);
    taken.set(Span { from, until });
    Ok(taken.get())
}
