//! What decides, before drives that are made of arithmetic.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::pace::{Pace, Period};
use super::verdict::{Seen, Tally, Usual, Verdict, is_stalled, score};
use super::window::{PIECE, Window};
use super::{Core, Request};
use crate::group::TaskGroup;
use crate::instant::Instant;

const READ: u64 = 16 << 10;

/// A drive that serves one request after the other, and tells of each a while later.
#[derive(Clone, Copy, Debug)]
struct Model {
    bytes_a_second: u64,
    operations_a_second: u64,
    latency: Duration,
    /// It does what it may in a tenth of a second at once and then stands still until that is over,
    /// as limits that are kept by a hypervisor or the kernel do.
    in_bursts: bool,
    /// For how much longer than until then.
    stall: Duration,
}

/// The clouds' usual one, after its burst.
const CLOUD: Model = Model {
    bytes_a_second: 125_000_000,
    operations_a_second: 3_000,
    latency: Duration::from_micros(800),
    in_bursts: false,
    stall: Duration::ZERO,
};
const FLASH: Model = Model {
    bytes_a_second: 2_000_000_000,
    operations_a_second: 300_000,
    latency: Duration::from_micros(90),
    in_bursts: false,
    stall: Duration::ZERO,
};
const DISK: Model = Model {
    bytes_a_second: 150_000_000,
    operations_a_second: 120,
    latency: Duration::ZERO,
    in_bursts: false,
    stall: Duration::ZERO,
};
const BURSTS: Model = Model {
    in_bursts: true,
    ..CLOUD
};
/// A drive before which the kernel keeps the limit.
const KEPT: Model = Model {
    stall: Duration::from_millis(60),
    ..BURSTS
};
const BURST: Duration = Duration::from_millis(100);

const SETTLES: u64 = 10;

/// Who uses the drive.
#[derive(Clone, Copy)]
struct Load {
    /// Reads of clients a second, each when it is due.
    rate: u64,
    /// Reads that are under way always.
    closed: u64,
    /// Requests that compaction would have under way.
    wanted: u64,
    shares: u64,
}

/// What came of it, after the first [`SETTLES`].
#[derive(Debug, Default)]
struct Outcome {
    reads: u64,
    mean: Duration,
    /// Those that took more than 20 ms.
    slow: u64,
    longest: Duration,
    /// Bytes a second of the background.
    background: u64,
    /// The longest that a request of it took, of those that began.
    own_longest: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Read(Instant),
    Background(u64, Instant),
}

struct World {
    model: Model,
    core: Core,
    now: Instant,
    free_at: Instant,
    /// What it may still do of a burst, in nanoseconds of its time, and when that ends.
    burst: (u64, Instant),
    done: BTreeMap<(Instant, u64), Done>,
    numbers: u64,
    reads: u64,
    tally: Tally,
}

impl World {
    /// Puts a request into the drive's queue.
    fn submit(&mut self, bytes: u64, done: Done) {
        let nanos = (bytes * 1_000_000_000 / self.model.bytes_a_second)
            .max(1_000_000_000 / self.model.operations_a_second);
        self.free_at = self.free_at.max(self.now);
        if self.model.in_bursts {
            let (left, ends) = self.burst;
            if self.free_at >= ends || left < nanos {
                if self.free_at < ends {
                    self.free_at = ends + self.model.stall;
                }
                self.burst = (BURST.as_nanos() as u64, self.free_at + BURST);
            }
            self.burst.0 -= nanos;
            self.free_at += Duration::from_nanos(nanos / 20);
        } else {
            self.free_at += Duration::from_nanos(nanos);
        }
        self.numbers += 1;
        let at = self.free_at + self.model.latency;
        self.done.insert((at, self.numbers), done);
    }

    fn read(&mut self) {
        self.reads += 1;
        self.submit(READ, Done::Read(self.now));
    }

    /// Begins what may of what compaction wants; says when the next may.
    fn background(&mut self, waiting: &mut VecDeque<u64>, shares: u64) -> Option<Instant> {
        let (tally, under_way) = (&mut self.tally, self.reads);
        self.core.look(self.now, || Seen {
            reads: std::mem::take(tally),
            under_way,
            ..Seen::default()
        });
        while let Some(bytes) = waiting.front().copied() {
            let request = Request {
                group: TaskGroup::Compaction,
                bytes,
                shares,
                hurried: false,
            };
            if !self.core.fits(&request, self.reads * READ) {
                return None;
            }
            let ready = self.core.ready_at(&request);
            if ready > self.now {
                self.core.pace.holds(&request);
                return Some(ready);
            }
            waiting.pop_front();
            self.core.begin(&request, self.now);
            self.submit(bytes, Done::Background(bytes, self.now));
        }
        None
    }
}

/// So long on such a drive.
fn run(model: Model, load: Load, seconds: u64) -> Outcome {
    let beginning = Instant::from_nanos(10_000_000_000);
    let mut world = World {
        model,
        core: Core::new(),
        now: beginning,
        free_at: beginning,
        burst: (0, beginning),
        done: BTreeMap::new(),
        numbers: 0,
        reads: 0,
        tally: Tally::default(),
    };
    let (settled, end) = (
        beginning + Duration::from_secs(SETTLES),
        beginning + Duration::from_secs(seconds),
    );
    let mut outcome = Outcome::default();
    let mut waiting: VecDeque<u64> = (0..load.wanted).map(|_| PIECE).collect();
    let every = Duration::from_nanos(1_000_000_000_u64.checked_div(load.rate).unwrap_or(u64::MAX));
    let mut due = beginning + every;
    let (mut background, mut total) = (0, Duration::ZERO);
    (0..load.closed).for_each(|_| world.read());
    while world.now < end {
        let ready = world.background(&mut waiting, load.shares);
        let next = world.done.first_key_value().map(|((at, _), _)| *at);
        if let Some(ready) = ready.filter(|ready| *ready < due)
            && next.is_none_or(|next| ready < next)
        {
            world.now = ready;
            continue;
        }
        if next.is_none_or(|next| due <= next) {
            world.now = due;
            due += every;
            world.read();
            continue;
        }
        let Some(((at, _), done)) = world.done.pop_first() else {
            break;
        };
        world.now = at;
        match done {
            Done::Read(began) => {
                let took = at - began;
                world.reads -= 1;
                world.tally.count += 1;
                let score = score(READ, took);
                world.tally.score += score;
                world.tally.stalled += u64::from(is_stalled(score));
                if began >= settled {
                    outcome.reads += 1;
                    total += took;
                    outcome.slow += u64::from(took > Duration::from_millis(20));
                    outcome.longest = outcome.longest.max(took);
                }
                if load.closed > 0 {
                    world.read();
                }
            }
            Done::Background(bytes, began) => {
                let took = at - began;
                let window = &mut world.core.window;
                window.end(TaskGroup::Compaction, bytes, Some(took), at);
                waiting.push_back(window.piece());
                if began >= settled {
                    background += bytes;
                    outcome.own_longest = outcome.own_longest.max(took);
                }
            }
        }
    }
    outcome.mean = total / u32::try_from(outcome.reads.max(1)).unwrap_or(u32::MAX);
    outcome.background = background / (seconds - SETTLES);
    outcome
}

/// What a drive has left for requests of one piece beside so many reads a second.
fn left(model: Model, rate: u64) -> u64 {
    let read =
        (READ as f64 / model.bytes_a_second as f64).max(1.0 / model.operations_a_second as f64);
    let piece =
        (PIECE as f64 / model.bytes_a_second as f64).max(1.0 / model.operations_a_second as f64);
    ((1.0 - rate as f64 * read) / piece * PIECE as f64) as u64
}

#[test]
fn reads_do_not_wait_behind_compaction_which_has_what_they_leave() {
    for (model, rate, shares, most_millis) in [
        (CLOUD, 1_000, 50, 6),
        (CLOUD, 1_000, 500, 6),
        (CLOUD, 100, 500, 6),
        (FLASH, 20_000, 50, 3),
        (FLASH, 20_000, 500, 3),
    ] {
        let load = Load {
            rate,
            closed: 0,
            wanted: 64,
            shares,
        };
        let outcome = run(model, load, 30);
        assert!(outcome.reads > rate * 19, "{outcome:?}");
        let most = Duration::from_millis(most_millis);
        assert!(outcome.mean < most, "{model:?} {outcome:?}");
        assert!(outcome.longest < most * 8, "{model:?} {outcome:?}");
        let least = left(model, rate) / 10 * part_of(shares);
        assert!(outcome.background > least, "{model:?} {least} {outcome:?}");
    }
}

/// Tenths of what is left that compaction has in any case.
fn part_of(shares: u64) -> u64 {
    if shares < 300 { 5 } else { 8 }
}

#[test]
fn reads_hardly_ever_meet_a_drive_that_stands_still() {
    for (model, rate, shares) in [
        (KEPT, 100, 50),
        (KEPT, 1_000, 50),
        (BURSTS, 2_000, 50),
        (KEPT, 100, 350),
        (KEPT, 1_000, 350),
        (BURSTS, 2_000, 350),
    ] {
        let load = Load {
            rate,
            closed: 0,
            wanted: 64,
            shares,
        };
        let outcome = run(model, load, 330);
        // With much to do it is tried more often what the drive can do.
        let (most, tenths) = if shares < 300 { (700, 5) } else { (150, 6) };
        assert!(outcome.slow * most < outcome.reads, "{rate} {outcome:?}");
        let least = left(model, rate) / 10 * tenths;
        assert!(outcome.background > least, "{rate} {least} {outcome:?}");
    }
}

#[test]
fn without_a_window_they_do() {
    // The law above would hold of a drive that nothing disturbs: this one is disturbed.
    let mut world_without = Load {
        rate: 1_000,
        closed: 0,
        wanted: 64,
        shares: 1_000_000_000,
    };
    let outcome = run(CLOUD, world_without, 20);
    world_without.shares = 50;
    let with = run(CLOUD, world_without, 20);
    assert!(outcome.mean > with.mean * 10, "{outcome:?} {with:?}");
}

#[test]
fn alone_compaction_has_the_drive_but_no_long_queue_before_it() {
    for model in [CLOUD, FLASH, DISK, BURSTS] {
        let load = Load {
            rate: 0,
            closed: 0,
            wanted: 256,
            shares: 50,
        };
        let outcome = run(model, load, 30);
        let least = left(model, 0) / 10 * 9;
        assert!(outcome.background > least, "{model:?} {least} {outcome:?}");
        let most = Duration::from_millis(200);
        assert!(outcome.own_longest < most, "{model:?} {outcome:?}");
    }
}

#[test]
fn a_busy_foreground_leaves_compaction_its_part() {
    // In flight all the time: 128 reads, which keep the drive busy whatever it is.
    for model in [CLOUD, FLASH, DISK] {
        let busy = |shares| Load {
            rate: 0,
            closed: 128,
            wanted: 64,
            shares,
        };
        let (little, much) = (run(model, busy(50), 30), run(model, busy(1000), 30));
        for (shares, outcome) in [(50, &little), (1000, &much)] {
            let reads = outcome.reads * READ / 20;
            let part = outcome.background as f64 / (outcome.background + reads) as f64;
            let least = 0.5 * shares as f64 / (1000 + shares) as f64;
            assert!(part > least, "{model:?} {shares} {outcome:?}");
        }
        assert!(little.reads * 20 > much.reads * 19, "{little:?} {much:?}");
        assert!(much.reads * 5 > little.reads, "{little:?} {much:?}");
    }
}

#[test]
fn a_drive_that_answers_nobody_is_slow() {
    let mut window = Window::new();
    let mut now = Instant::from_nanos(1_000_000_000);
    for _ in 0..6 {
        window.begin(TaskGroup::Flush, window.limit(), now);
        now += Duration::from_millis(50);
        window.end(TaskGroup::Flush, window.limit(), None, now);
        window.look(Verdict::Takes(0.1), 1 << 40);
    }
    assert_eq!(window.limit(), PIECE << 6);
    assert_eq!(window.piece(), 1 << 20);
    let stuck = Seen {
        under_way: 3,
        ..Seen::default()
    };
    let slow = Usual::new().judge(&stuck, 0, now);
    let limit = window.limit();
    window.begin(TaskGroup::Flush, limit, now);
    window.look(slow, 0);
    assert_eq!(window.limit(), limit / 2);
    for _ in 0..20 {
        window.look(slow, 0);
    }
    assert_eq!((window.limit(), window.piece()), (PIECE, PIECE));
}

#[test]
fn what_is_slow_anyway_is_not_compactions_fault() {
    let seen = |millis, under_way| Seen {
        writes: Tally {
            count: 10,
            score: 10 * score(4096, Duration::from_millis(millis)),
            stalled: 0,
        },
        under_way,
        ..Seen::default()
    };
    let (mut usual, mut now) = (Usual::new(), Instant::from_nanos(0));
    let mut judge = |seen: &Seen, background: u64| {
        now += Duration::from_millis(100);
        usual.judge(seen, background, now)
    };
    let is_slow = |verdict| matches!(verdict, Verdict::Takes(slowness) if slowness > 1.0);
    assert!(!is_slow(judge(&seen(1, 0), 100 << 20)));
    for _ in 0..20 {
        assert!(is_slow(judge(&seen(8, 0), 100 << 20)), "it may be");
    }
    (0..40).for_each(|_| _ = judge(&seen(8, 0), 0));
    assert!(!is_slow(judge(&seen(8, 0), 100 << 20)), "it is always so");
    assert!(is_slow(judge(&seen(16, 0), 100 << 20)));
    (0..40).for_each(|_| _ = judge(&seen(1, 0), 100 << 20));
    assert!(
        is_slow(judge(&seen(8, 0), 100 << 20)),
        "it is another drive"
    );
    assert_eq!(judge(&Seen::default(), 0), Verdict::Rests);
    (0..10).for_each(|_| _ = judge(&Seen::default(), 0));
    assert_eq!(judge(&Seen::default(), 0), Verdict::Away);
}

#[test]
fn the_rate_holds_nobody_who_cannot_wait_and_nobody_alone() {
    let (mut pace, mut now) = (Pace::new(), Instant::from_nanos(10_000_000_000));
    let request = |group, hurried| Request {
        group,
        bytes: PIECE,
        shares: 50,
        hurried,
    };
    let compaction = request(TaskGroup::Compaction, false);
    let mut pass = |pace: &mut Pace, verdict, pieces, written| {
        (0..pieces).for_each(|_| pace.begin(&compaction, now));
        now += Duration::from_millis(100);
        let period = Period {
            time: Duration::from_millis(100),
            verdict,
            cuts: true,
            stalls: false,
            is_busy: true,
            done: 1,
            written,
        };
        pace.look(&period, now);
        now
    };
    // 100 pieces a second, 26 MB, and then the foreground is slow.
    for _ in 0..10 {
        let now = pass(&mut pace, Verdict::Takes(0.5), 10, 0);
        assert!(pace.ready_at(&compaction) <= now, "nobody was slow yet");
    }
    let now = pass(&mut pace, Verdict::Takes(2.0), 10, 0);
    for _ in 0..4 {
        pace.begin(&compaction, now);
    }
    let waits = |pace: &Pace, request: &Request| pace.ready_at(request) - now;
    let least = Duration::from_secs_f64(4.0 * PIECE as f64 / (100.0 * PIECE as f64));
    let longest = least.mul_f64(2.0);
    let waited = waits(&pace, &compaction);
    assert!(waited > least && waited < longest, "{waited:?}");
    let flush = request(TaskGroup::Flush, false);
    assert_eq!(waits(&pace, &flush), Duration::ZERO, "it is promised some");
    (0..20).for_each(|_| pace.begin(&flush, now));
    assert!(waits(&pace, &flush) > longest, "but not all");
    let hurried = request(TaskGroup::Flush, true);
    assert_eq!(waits(&pace, &hurried), Duration::ZERO);
    pass(&mut pace, Verdict::Rests, 0, 0);
    assert!(waits(&pace, &compaction) > Duration::ZERO);
    pass(&mut pace, Verdict::Away, 0, 0);
    assert_eq!(waits(&pace, &compaction), Duration::ZERO);
}

/// Compaction with nothing waiting, on a drive of which only the rate is looked at.
struct Paced {
    pace: Pace,
    now: Instant,
}

impl Paced {
    fn new() -> Paced {
        Paced {
            pace: Pace::new(),
            now: Instant::from_nanos(10_000_000_000),
        }
    }

    /// A period in which the drive would take so long for each piece, beside so many operations. Says
    /// how many bytes were moved; `stalls` of that many tells whether the drive stood still.
    fn period(&mut self, piece: Duration, done: u64, stalls: impl Fn(u64) -> bool) -> u64 {
        let request = Request {
            group: TaskGroup::Compaction,
            bytes: PIECE,
            shares: 100,
            hurried: false,
        };
        let time = Duration::from_millis(100);
        let (end, mut moved) = (self.now + time, 0);
        while self.now < end {
            let ready = self.pace.ready_at(&request);
            if ready > self.now {
                self.pace.holds(&request);
                self.now = ready.min(end);
            } else {
                self.pace.begin(&request, self.now);
                moved += PIECE;
                self.now += piece;
            }
        }
        let period = Period {
            time,
            verdict: Verdict::Takes(0.5),
            cuts: false,
            stalls: stalls(moved),
            is_busy: true,
            done,
            written: 0,
        };
        self.pace.look(&period, end);
        moved
    }
}

#[test]
fn a_drive_that_stands_still_by_itself_does_not_stop_compaction() {
    let mut paced = Paced::new();
    // It would do 100 MB in a second, of which each has a moment in which it does nothing.
    let piece = Duration::from_micros(2_600);
    let mut least = u64::MAX;
    for _ in 0..100 {
        let period = |period| paced.period(piece, 100, |_| period % 10 == 9);
        let moved: u64 = (0..100_u64).map(period).sum();
        least = least.min(moved / 10);
    }
    assert!(least > 45_000_000, "{least}");
}

#[test]
fn what_a_drive_does_beside_little_is_known_after_much() {
    let mut paced = Paced::new();
    let piece = Duration::from_millis(1);
    // Beside 1,000 operations a second the drive stands still from 200 MB/s on, beside 5,000 from 40.
    let mut run = |operations: u64, most: u64, seconds: u64| {
        let stalls = |moved: u64| moved * 10 > most;
        let period = |_| paced.period(piece, operations / 10, stalls);
        let periods: Vec<u64> = (0..seconds * 10).map(period).collect();
        let met = periods.iter().filter(|moved| stalls(**moved)).count();
        (met, periods.iter().sum::<u64>() / seconds)
    };
    let (met, _) = run(1_000, 200_000_000, 15);
    assert!(met > 0, "it is met once");
    run(5_000, 40_000_000, 30);
    let (met, moved) = run(1_000, 200_000_000, 40);
    assert_eq!(met, 0, "{moved}");
    assert!(moved > 70_000_000, "{moved}");
}

proptest::proptest! {
    /// Whatever happens: a group that has nothing under way may begin, and all together never have
    /// more than the window and what each is promised.
    #[test]
    fn nobody_starves_and_nobody_has_more_than_allowed(
        steps in proptest::collection::vec((0..4u8, 0..3usize, 1..5u64, 0..9u64, 0..100u64), 1..400)
    ) {
        let groups = [TaskGroup::Flush, TaskGroup::Compaction, TaskGroup::Maintenance];
        let (mut window, mut now) = (Window::new(), Instant::from_nanos(1));
        let mut lanes: [Vec<u64>; 3] = Default::default();
        for (step, lane, pieces, foreground, millis) in steps {
            now += Duration::from_millis(millis);
            let (group, bytes) = (groups[lane], (pieces * PIECE).min(window.piece()));
            let (shares, foreground) = (500, foreground * PIECE);
            match step {
                0 | 1 => {
                    let fits = window.fits(group, bytes, shares, foreground);
                    proptest::prop_assert!(fits || !lanes[lane].is_empty());
                    if fits {
                        window.begin(group, bytes, now);
                        lanes[lane].push(bytes);
                        let own: u64 = lanes[lane].iter().sum();
                        let all: u64 = lanes.iter().flatten().sum();
                        let least = bytes.max(PIECE).max(foreground / 2);
                        proptest::prop_assert!(own <= least || all <= window.limit());
                    }
                }
                2 => if let Some(bytes) = lanes[lane].pop() {
                    window.end(group, bytes, Some(Duration::from_millis(millis)), now);
                },
                _ => {
                    window.look(Verdict::Takes(millis as f64 / 20.0), pieces << 24);
                }
            }
            proptest::prop_assert!((PIECE..=64 << 20).contains(&window.limit()));
            proptest::prop_assert!((PIECE..=1 << 20).contains(&window.piece()));
        }
    }
}
