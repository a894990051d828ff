//! Is the foreground slow? No I/O, no clock.

use std::time::Duration;

use crate::instant::Instant;

/// After how long without I/O of the foreground the background has the drive for itself.
const QUIET: Duration = Duration::from_secs(1);
/// What an operation may take, whatever its size, and how much more for each [`PER`] bytes: a drive is
/// believed to move 64 MB/s at least.
const ALLOWED: Duration = Duration::from_millis(2);
const ALLOWED_MORE: Duration = Duration::from_millis(1);
const PER: u64 = 64 << 10;
/// How much slower than usual it may be, where it is slow anyway.
const SLOWER: f64 = 1.5;
/// What takes so many times what it may is stalled, and so many of a period tell,
const STALLED: u64 = 10;
const TELL: u64 = 2;
/// as does this part of all.
const PART: u64 = 100;
/// With less than this in a second, in bytes, the background disturbs nobody.
pub(super) const HARDLY_ANYTHING: u64 = 8 << 20;

/// What an operation took, in thousandths of what it might.
pub(super) fn score(bytes: u64, took: Duration) -> u64 {
    let more = ALLOWED_MORE.as_nanos() as u64 / 1024 * (bytes / (PER / 1024));
    let allowed = ALLOWED.as_nanos() as u64 + more;
    (took.as_nanos() as u64).saturating_mul(1000) / allowed
}

/// Is that far more than what it might?
pub(super) fn is_stalled(score: u64) -> bool {
    score > STALLED * 1000
}

/// Operations that are done, and their scores together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) score: u64,
    /// Those of a score that [`is_stalled`].
    pub(super) stalled: u64,
}

impl Tally {
    /// Of what is allowed, so much was taken on average.
    pub(super) fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.score as f64 / 1000.0 / self.count as f64)
    }
}

/// What became of the foreground's I/O in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) reads: Tally,
    pub(super) writes: Tally,
    /// Bytes that were written.
    pub(super) written: u64,
    /// How many operations are under way.
    pub(super) under_way: u64,
}

impl Seen {
    /// Did the drive stand still for a moment? Not said of one that always takes long.
    pub(super) fn stalls(&self, usual: &Usual) -> bool {
        let stalled = self.reads.stalled + self.writes.stalled;
        let count = self.reads.count + self.writes.count;
        stalled >= TELL.max(count / PART) && usual.reads.max(usual.writes) < 1.0
    }
}

/// How it is with the foreground.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It takes so much of what it may; above 1 it is slow.
    Takes(f64),
    /// Nobody is there at the moment.
    Rests,
    /// Nobody has been there for a while.
    Away,
}

/// What it is like without the background, in parts of what is allowed.
pub(super) struct Usual {
    reads: f64,
    writes: f64,
    seen_at: Instant,
}

impl Usual {
    pub(super) fn new() -> Usual {
        Usual {
            reads: 0.0,
            writes: 0.0,
            seen_at: Instant::from_nanos(0),
        }
    }

    /// What is to be said of a period in which the background has moved so many bytes a second.
    pub(super) fn judge(&mut self, seen: &Seen, background: u64, now: Instant) -> Verdict {
        let undisturbed = background < HARDLY_ANYTHING;
        let reads = judge_way(&mut self.reads, seen.reads, undisturbed);
        let writes = judge_way(&mut self.writes, seen.writes, undisturbed);
        let slower = reads.into_iter().chain(writes).reduce(f64::max);
        // What is under way all the time and not done is slow.
        match slower.or((seen.under_way > 0).then_some(2.0)) {
            Some(slowness) => {
                self.seen_at = now;
                Verdict::Takes(slowness)
            }
            None if now < self.seen_at + QUIET => Verdict::Rests,
            None => Verdict::Away,
        }
    }
}

/// How slow it is one way, and what is usual from now on: less whenever it is less, more only if the
/// background has nothing to do with it.
fn judge_way(usual: &mut f64, tally: Tally, undisturbed: bool) -> Option<f64> {
    let mean = tally.mean()?;
    let slowness = mean / (*usual * SLOWER).max(1.0);
    if mean < *usual || undisturbed {
        *usual += (mean - *usual) / 8.0;
    }
    Some(slowness)
}
