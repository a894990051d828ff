//! How many bytes a second the background may move. No I/O, no clock.

use std::time::Duration;

use super::verdict::{HARDLY_ANYTHING, Verdict};
use super::{Request, TaskGroup};
use crate::instant::Instant;

/// What is left of the rate when the foreground is slow, of what was moved.
const CUT: f64 = 0.75;
/// It grows by this part of itself in a period,
const STEP: u64 = 512;
/// and by twice as much after so many of them.
const PATIENCE: u32 = 50;
/// Up to here it grows of what was moved when the foreground was slow the last time,
const NEARLY: f64 = 0.9;
/// until so long after that, and for twice as long each time that the same is met again: there is a limit.
const FIRST_CALM: Duration = Duration::from_secs(20);
const LONGEST_CALM: Duration = Duration::from_secs(160);
/// What is as much faster or slower is not the same.
const SAME: f64 = 1.3;
/// How long a drive that has stood still may need to be itself again, until it is judged anew.
const RECOVERS: Duration = Duration::from_millis(300);
/// A rate, in bytes a second, that says nothing any more.
const ENOUGH: u64 = 8 << 30;
/// What each share is promised, in bytes a second.
const A_SHARE: u64 = 100_000;
/// What flushes are promised at least, in bytes a second. Where the foreground writes more they are
/// promised as much, as that is what will be flushed; and they come before compaction in what the
/// rate leaves.
const LEAST_FLUSH: u64 = 10_000_000;
/// For how long somebody may be in advance.
const MOST_DEBT: Duration = Duration::from_millis(500);

/// Bytes over time, of which the last second counts most.
#[derive(Default)]
struct Flow {
    bytes: f64,
    seconds: f64,
}

impl Flow {
    fn add(&mut self, bytes: u64, time: Duration) {
        let seconds = time.as_secs_f64().min(1.0);
        let kept = (1.0 - seconds).min(0.95);
        self.bytes = self.bytes * kept + bytes as f64;
        self.seconds = self.seconds * kept + seconds;
    }

    fn a_second(&self) -> u64 {
        match self.seconds > 0.0 {
            true => (self.bytes / self.seconds) as u64,
            false => 0,
        }
    }
}

/// Where the foreground was slow.
#[derive(Clone, Copy)]
struct Met {
    /// What was moved, in bytes a second.
    moved: u64,
    /// Until when that is kept away from, and for how long that is.
    until: Instant,
    calm: Duration,
}

impl Met {
    /// It is met now; again, if it has been.
    fn again(before: Option<Met>, moved: u64, now: Instant) -> Met {
        let is_same = |met: &Met| {
            let times = moved as f64 / met.moved.max(1) as f64;
            (1.0 / SAME..SAME).contains(&times)
        };
        let calm = match before.filter(is_same) {
            // What comes at once is the same event.
            Some(met) if now < met.until => met.calm,
            Some(met) => (met.calm * 2).min(LONGEST_CALM),
            None => FIRST_CALM,
        };
        Met {
            moved,
            until: now + calm,
            calm,
        }
    }

    /// A rate above which it would soon be met, if that is to be kept away from.
    fn limit(&self, now: Instant) -> Option<u64> {
        (now < self.until).then_some((self.moved as f64 * NEARLY) as u64)
    }
}

/// The rate of the background, and what of it is used.
pub(super) struct Pace {
    /// `None`: no slow foreground was ever seen.
    rate: Option<u64>,
    step: u64,
    /// Periods since the step was set.
    well: u32,
    cut_at: Instant,
    /// Where it was cut.
    met: Option<Met>,
    /// The foreground is away.
    alone: bool,
    /// Did somebody wait for it in this period?
    held: bool,
    /// When the next one may begin,
    next: Instant,
    /// or, by what it is promised, the next one of a group.
    lanes: [Instant; TaskGroup::ALL.len()],
    moved: u64,
    background: Flow,
    written: Flow,
}

/// What there is to say of a period that is over.
pub(super) struct Period {
    pub(super) time: Duration,
    pub(super) verdict: Verdict,
    /// Does nothing help but to move less?
    pub(super) cuts: bool,
    /// Is something of the background under way?
    pub(super) is_busy: bool,
    /// Bytes that the foreground has written.
    pub(super) written: u64,
}

fn time_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1))
}

impl Pace {
    pub(super) fn new() -> Pace {
        let beginning = Instant::from_nanos(0);
        Pace {
            rate: None,
            step: 0,
            well: 0,
            cut_at: beginning,
            met: None,
            alone: true,
            held: false,
            next: beginning,
            lanes: [beginning; TaskGroup::ALL.len()],
            moved: 0,
            background: Flow::default(),
            written: Flow::default(),
        }
    }

    /// What a group is promised whatever the foreground takes, in bytes a second.
    fn promised(&self, request: &Request) -> u64 {
        match request.group {
            TaskGroup::Flush => LEAST_FLUSH.max(self.written.a_second()),
            _ => request.shares * A_SHARE,
        }
    }

    /// When a request may begin.
    pub(super) fn ready_at(&self, request: &Request) -> Instant {
        match self.rate {
            Some(_) if !self.alone && !request.hurried => {
                self.next.min(self.lanes[request.group.index()])
            }
            _ => Instant::from_nanos(0),
        }
    }

    /// Somebody waits for it.
    pub(super) fn holds(&mut self) {
        self.held = true;
    }

    /// A request begins.
    pub(super) fn begin(&mut self, request: &Request, now: Instant) {
        self.moved += request.bytes;
        let Some(rate) = self.rate else { return };
        let later =
            |at: Instant, rate| (at.max(now) + time_of(request.bytes, rate)).min(now + MOST_DEBT);
        let lane = self.lanes[request.group.index()];
        self.lanes[request.group.index()] = later(lane, self.promised(request));
        self.next = later(self.next, rate);
    }

    /// Bytes a second that the background has moved since it was looked last.
    pub(super) fn moved(&self, time: Duration) -> u64 {
        (self.moved as f64 / time.as_secs_f64().max(0.001)) as u64
    }

    /// Sets the rate by what is to be said of the period that is over.
    pub(super) fn look(&mut self, period: &Period, now: Instant) {
        let verdict = period.verdict;
        self.written.add(period.written, period.time);
        let moved = std::mem::take(&mut self.moved);
        if moved > 0 || period.is_busy {
            self.background.add(moved, period.time);
        }
        self.alone = verdict == Verdict::Away;
        let held = std::mem::take(&mut self.held);
        match (verdict, self.rate) {
            (Verdict::Takes(slowness), _) if slowness > 1.0 => {
                let moved = self.background.a_second();
                let disturbs = moved >= HARDLY_ANYTHING;
                if disturbs && period.cuts && now >= self.cut_at + RECOVERS {
                    let most = self.rate.unwrap_or(u64::MAX);
                    let rate = ((moved as f64 * CUT) as u64).min(most);
                    self.rate = Some(rate);
                    self.met = Some(Met::again(self.met, moved, now));
                    (self.step, self.well, self.cut_at) = (rate / STEP, 0, now);
                }
            }
            (Verdict::Takes(_), Some(rate)) if held => self.grow(rate, now),
            _ => {}
        }
    }

    /// There is room, and somebody waits for it.
    fn grow(&mut self, rate: u64, now: Instant) {
        if let Some(limit) = self.met.and_then(|met| met.limit(now))
            && rate + self.step > limit
        {
            // Once that is over it grows slowly.
            (self.step, self.well) = (rate / STEP, 0);
            return;
        }
        self.well += 1;
        if self.well.is_multiple_of(PATIENCE) {
            self.step *= 2;
        }
        let rate = rate + self.step;
        // What is only allowed and not moved tells nothing of the drive.
        let moved = self.background.a_second() as f64;
        self.met.take_if(|met| moved > met.moved as f64 * SAME);
        self.rate = (rate < ENOUGH).then_some(rate);
    }
}
