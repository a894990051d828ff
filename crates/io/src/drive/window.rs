//! How much of the background's I/O may be under way. No I/O, no clock: a core with laws.

use std::time::Duration;

use super::verdict::{Tally, Verdict};
use crate::group::TaskGroup;
use crate::instant::Instant;

/// The least that a request of the background is cut into, in bytes: 2.6 ms of a drive of 100 MB/s,
/// and what clouds count as one operation at most.
pub(super) const PIECE: u64 = 256 << 10;
/// The most that one request has, in bytes.
const MOST_PIECE: u64 = 1 << 20;
/// The most that the limit grows to, in bytes.
const MOST: u64 = 64 << 20;
/// What a drive does in this time is enough under way, beside a foreground: more only waits in its queue when it
/// stands still, and reads of the foreground behind it.
const IN_ADVANCE: Duration = Duration::from_millis(10);
/// So much always is, in bytes.
const ENOUGH: u64 = 2 << 20;
/// After how long without requests the background begins anew.
const QUIET: Duration = Duration::from_secs(1);
/// What a request may take while there is no foreground, and how much more for each [`PER`] bytes: what
/// is more only waits in the drive's queue, where the next request of a client finds it.
const ALONE: Duration = Duration::from_millis(20);
const ALONE_MORE: Duration = Duration::from_millis(2);
const PER: u64 = 64 << 10;
/// Of what is allowed: from here on the limit is not halved but falls to the least.
const FAR_TOO_SLOW: f64 = 4.0;

/// What a request of the background took, in thousandths of what it might with nobody else there.
fn score(bytes: u64, took: Duration) -> u64 {
    let more = ALONE_MORE.as_nanos() as u64 / 1024 * (bytes / (PER / 1024));
    (took.as_nanos() as u64).saturating_mul(1000) / (ALONE.as_nanos() as u64 + more)
}

/// The background's I/O that is under way, and how much of it may be.
pub(super) struct Window {
    /// How many bytes may be under way.
    limit: u64,
    /// Up to here the limit doubles, from here on it grows in pieces.
    doubles_to: u64,
    /// How many are, by group.
    lanes: [u64; TaskGroup::ALL.len()],
    /// The most there were in this period.
    most: u64,
    /// What became of those that are done.
    own: Tally,
    /// When one of the background was last done.
    own_at: Instant,
}

impl Window {
    pub(super) fn new() -> Window {
        let beginning = Instant::from_nanos(0);
        Window {
            limit: PIECE,
            doubles_to: MOST,
            lanes: [0; TaskGroup::ALL.len()],
            most: 0,
            own: Tally::default(),
            own_at: beginning,
        }
    }

    /// How many bytes are.
    pub(super) fn under_way(&self) -> u64 {
        self.lanes.iter().sum()
    }

    /// How many bytes may be under way.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a request should be at most.
    pub(super) fn piece(&self) -> u64 {
        (self.limit / 4 / PIECE * PIECE).clamp(PIECE, MOST_PIECE)
    }

    /// May a request of a group begin, where the foreground has so many bytes under way?
    ///
    /// Each group always has one request there, and as many bytes as `shares` thousandths of what
    /// the foreground has: so it gets that part of what the drive does, however slow that is.
    pub(super) fn fits(&self, group: TaskGroup, bytes: u64, shares: u64, foreground: u64) -> bool {
        let own = self.lanes[group.index()];
        let least = (foreground.saturating_mul(shares) / 1000).max(PIECE);
        own == 0 || own + bytes <= least || self.under_way() + bytes <= self.limit
    }

    /// A request begins.
    pub(super) fn begin(&mut self, group: TaskGroup, bytes: u64, now: Instant) {
        let pause = now.saturating_duration_since(self.own_at);
        if self.under_way() == 0 && pause > QUIET && self.own_at.as_nanos() > 0 {
            // The drive may be another one by now.
            self.doubles_to = self.limit.max(self.doubles_to);
            self.limit = PIECE;
        }
        self.lanes[group.index()] += bytes;
        self.most = self.most.max(self.under_way());
        self.own_at = now;
    }

    /// A request is done, after so long if it came that far.
    pub(super) fn end(
        &mut self,
        group: TaskGroup,
        bytes: u64,
        took: Option<Duration>,
        now: Instant,
    ) {
        let lane = &mut self.lanes[group.index()];
        *lane = lane.saturating_sub(bytes);
        self.own_at = now;
        if let Some(took) = took {
            self.own.count += 1;
            self.own.score += score(bytes, took);
        }
    }

    /// Was so little under way that no queue of a drive is long with it?
    pub(super) fn is_short(&self) -> bool {
        self.most <= ENOUGH
    }

    /// Is it as small as it gets?
    pub(super) fn is_least(&self) -> bool {
        self.limit == PIECE
    }

    /// Sets the limit by what is to be said of the foreground, and by the bytes that the background has moved a
    /// second.
    pub(super) fn look(&mut self, verdict: Verdict, moved: u64) {
        let enough = (moved as f64 * IN_ADVANCE.as_secs_f64()) as u64;
        let most = match verdict {
            Verdict::Takes(_) => enough.clamp(ENOUGH, MOST),
            Verdict::Rests | Verdict::Away => MOST,
        };
        let own = std::mem::take(&mut self.own);
        let slowness = match verdict {
            Verdict::Takes(slowness) => Some(slowness),
            // It may only have a moment's rest.
            Verdict::Rests => None,
            Verdict::Away => {
                self.doubles_to = MOST;
                own.mean()
            }
        };
        let used = self.limit.min(self.most);
        match slowness {
            None => {}
            Some(slowness) if slowness > FAR_TOO_SLOW => {
                self.limit = PIECE;
                self.doubles_to = (used / 4).max(PIECE);
            }
            Some(slowness) if slowness > 1.0 => {
                self.limit = (used / 2).max(PIECE);
                self.doubles_to = self.limit;
            }
            // What is not used tells nothing.
            Some(_) if self.most * 2 < self.limit => self.limit = self.limit.min(most),
            Some(_) if self.limit < self.doubles_to => {
                self.limit = (self.limit * 2).min(self.doubles_to).min(most);
            }
            Some(_) => {
                self.limit = (self.limit + PIECE).min(most);
                self.doubles_to = self.limit;
            }
        }
        self.most = self.under_way();
    }
}
