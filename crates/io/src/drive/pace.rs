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
/// Up to here it grows of what was moved when the foreground was slow the last time: with the least and
/// with many shares,
const AFAR: f64 = 0.6;
const NEARLY: f64 = 0.9;
/// until so long after that, and for twice as long each time that the same is met again: there is a limit.
const FIRST_CALM: Duration = Duration::from_secs(20);
const LONGEST_CALM: Duration = Duration::from_secs(160);
/// What is as much faster or slower is not the same.
const SAME: f64 = 1.3;
/// A foreground that does less than this part of what it did leaves more.
const LESS: f64 = 0.85;
/// What it does is a mean of about so many periods.
const LOADS: f64 = 32.0;
/// How long a drive that has stood still may need to be itself again, until it is judged anew.
const RECOVERS: Duration = Duration::from_millis(300);
/// A rate, in bytes a second, that says nothing any more.
const ENOUGH: u64 = 8 << 30;
/// With so many shares or fewer the background has time, with so many or more it has to find out what
/// the drive can do. (Compaction has 100 with nothing waiting, and 50 more for each that waits.)
const FEW_SHARES: u64 = 100;
const MANY_SHARES: u64 = 300;
/// Beyond what was met it grows as much slower with few shares.
const NO_HASTE: f64 = 0.1;
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
    /// What the foreground did, and the most that it has done since, in operations a second.
    at: f64,
    beside: f64,
}

impl Met {
    /// It is met now; again, if it has been, of which a part is kept whatever was moved.
    fn again(before: Option<Met>, moved: u64, kept: f64, beside: f64, now: Instant) -> Met {
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
        let least = before.map_or(0, |met| (met.moved as f64 * kept) as u64);
        Met {
            moved: moved.max(least),
            until: now + calm,
            calm,
            at: beside,
            beside,
        }
    }

    /// Does it tell something of a foreground that does so much?
    fn tells(&self, load: f64) -> bool {
        load > self.beside * LESS
    }

    /// Does it still, now that it does so much?
    fn holds(&mut self, load: f64) -> bool {
        self.beside = self.beside.max(load);
        self.tells(load)
    }

    /// A rate above which it would soon be met, for so many shares.
    fn near(&self, shares: u64) -> u64 {
        (self.moved as f64 * nearness(shares)) as u64
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
    /// Where it was cut, and the highest of these places: what the drive can do beside little.
    met: Option<Met>,
    highest: Option<Met>,
    /// What the foreground does, in operations a second.
    load: f64,
    /// The foreground is away.
    alone: bool,
    /// The most shares of those who waited for it in this period, and of those who began.
    held: Option<u64>,
    shares: u64,
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
    /// Does nothing help but to move less, if it is slow?
    pub(super) cuts: bool,
    /// Did a few operations take very long?
    pub(super) stalls: bool,
    /// Is something of the background under way?
    pub(super) is_busy: bool,
    /// Operations that the foreground has done, and bytes that it has written.
    pub(super) done: u64,
    pub(super) written: u64,
}

/// How much haste so many shares are: from 0 to 1.
fn haste(shares: u64) -> f64 {
    let more = shares.clamp(FEW_SHARES, MANY_SHARES) - FEW_SHARES;
    more as f64 / (MANY_SHARES - FEW_SHARES) as f64
}

/// How near so many shares come to where the foreground was slow.
fn nearness(shares: u64) -> f64 {
    AFAR + (NEARLY - AFAR) * haste(shares)
}

/// The shares that tell how much haste there is: flushes have what they are promised.
fn shares_of(request: &Request) -> u64 {
    match request.group {
        TaskGroup::Flush => FEW_SHARES,
        _ => request.shares,
    }
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
            highest: None,
            load: 0.0,
            alone: true,
            held: None,
            shares: 0,
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
    pub(super) fn holds(&mut self, request: &Request) {
        self.held = self.held.max(Some(shares_of(request)));
    }

    /// A request begins.
    pub(super) fn begin(&mut self, request: &Request, now: Instant) {
        self.moved += request.bytes;
        self.shares = self.shares.max(shares_of(request));
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
        let load = period.done as f64 / period.time.as_secs_f64().max(0.001);
        self.load = match self.alone {
            // It has only just come.
            true => load,
            false => self.load + (load - self.load) / LOADS,
        };
        if !self.met.as_mut().is_some_and(|met| met.holds(self.load)) {
            let known = self.highest.filter(|highest| highest.tells(self.load));
            self.met = known.map(|met| Met {
                until: met.until.max(now + met.calm),
                ..met
            });
        }
        let moved = std::mem::take(&mut self.moved);
        if moved > 0 || period.is_busy {
            self.background.add(moved, period.time);
        }
        self.alone = verdict == Verdict::Away;
        let held = std::mem::take(&mut self.held);
        let shares = std::mem::take(&mut self.shares).max(held.unwrap_or(0));
        match (verdict, self.rate) {
            (Verdict::Takes(slowness), _) if slowness > 1.0 && period.cuts => {
                // What is kept away from already is not found to be much less at once.
                self.cut(shares, CUT, now);
            }
            (Verdict::Takes(_), _) if period.stalls => {
                if let Some(kept) = self.news() {
                    self.cut(shares, kept, now);
                }
            }
            (Verdict::Takes(slowness), Some(rate)) if slowness <= 1.0 && held.is_some() => {
                self.grow(rate, shares, now);
            }
            _ => {}
        }
    }

    /// That the drive stood still for a moment is news where more was moved, or beside more, than is
    /// known to be well: drives do it by themselves, too, and do not do less for that. Says how much of
    /// what was met before is kept, whatever was moved.
    fn news(&self) -> Option<f64> {
        let moved = self.background.a_second() as f64;
        match self.met {
            None => Some(0.0),
            Some(met) if met.at < self.load * LESS => Some(0.0),
            Some(met) if moved > met.moved as f64 * NEARLY => Some(1.0),
            Some(_) => None,
        }
    }

    /// The foreground suffers; of what was met before so much is kept.
    fn cut(&mut self, shares: u64, kept: f64, now: Instant) {
        let moved = self.background.a_second();
        if moved < HARDLY_ANYTHING || now < self.cut_at + RECOVERS {
            return;
        }
        let met = Met::again(self.met, moved, kept, self.load, now);
        let rate = ((moved as f64 * CUT) as u64).min(met.near(shares));
        let rate = self.rate.map_or(rate, |before| before.min(rate));
        (self.rate, self.met) = (Some(rate), Some(met));
        // Beside no more than then it was found to be less.
        let is_highest = |highest: Met| met.moved >= highest.moved || met.beside <= highest.beside;
        if self.highest.is_none_or(is_highest) {
            self.highest = Some(met);
        }
        (self.step, self.well, self.cut_at) = (rate / STEP, 0, now);
    }

    /// There is room, and somebody with so many shares waits for it.
    fn grow(&mut self, rate: u64, shares: u64, now: Instant) {
        let (step, most) = match self.met {
            Some(met) if rate < met.near(shares) => (self.step, met.near(shares)),
            Some(met) if now < met.until => {
                // Once that is over it grows slowly.
                (self.step, self.well) = (rate / STEP, 0);
                return;
            }
            _ => {
                let part = haste(shares).max(NO_HASTE);
                ((self.step as f64 * part) as u64, u64::MAX)
            }
        };
        self.well += 1;
        if self.well.is_multiple_of(PATIENCE) {
            self.step *= 2;
        }
        let rate = rate.saturating_add(step).min(most);
        // What is only allowed and not moved tells nothing of the drive.
        let moved = self.background.a_second() as f64;
        for known in [&mut self.met, &mut self.highest] {
            known.take_if(|met| moved > met.moved as f64 * SAME);
        }
        self.rate = (rate < ENOUGH).then_some(rate);
    }
}
