//! How it goes: what is measured is collected at intervals, each of which is told in a line.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::cpu::MachineTime;
use crate::measurement::{Counts, Recorder};
use crate::report::{self, Interval};

/// Lines that say how it goes: one after the other, or one that changes on a terminal.
pub(crate) struct Progress {
    every: Duration,
    terminal: bool,
    begun: Instant,
    /// What the lines say, of what is measured.
    pub(crate) intervals: Vec<Interval>,
    measured_since: Instant,
}

impl Progress {
    /// With a line `every` so often.
    pub(crate) fn new(every: Duration) -> Progress {
        let begun = Instant::now();
        Progress {
            every: every.max(Duration::from_millis(100)),
            terminal: std::io::stderr().is_terminal(),
            begun,
            intervals: Vec::new(),
            measured_since: begun,
        }
    }

    /// What came before is forgotten: it is measured from `moment` on.
    pub(crate) fn measure_from(&mut self, moment: Instant) {
        self.intervals.clear();
        self.measured_since = moment;
    }

    /// Collects into `counts` until time is up or all who record have ended.
    pub(crate) fn follow(
        &mut self,
        recorders: &[Recorder],
        have_ended: impl Fn() -> bool,
        phase: &str,
        duration: Option<Duration>,
        counts: &mut Counts,
    ) {
        let start = Instant::now();
        let mut last = start;
        let mut machine = MachineTime::take();
        loop {
            let end = duration.map(|duration| start + duration);
            let next = end.map_or(last + self.every, |end| end.min(last + self.every));
            while Instant::now() < next && !have_ended() {
                let left = next.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(Duration::from_millis(20)));
            }
            let finished = have_ended() || end.is_some_and(|end| Instant::now() >= end);
            let mut interval = Counts::new();
            for recorder in recorders {
                recorder.drain(&mut interval);
            }
            let now = Instant::now();
            self.line(phase, &interval, now - last);
            let at = now.saturating_duration_since(self.measured_since);
            let before = std::mem::replace(&mut machine, MachineTime::take());
            let stolen = before.stolen_until(machine);
            self.intervals
                .push(Interval::new(at, now - last, &interval, stolen));
            counts.add(&interval);
            last = now;
            if finished {
                return;
            }
        }
    }

    fn line(&self, phase: &str, interval: &Counts, elapsed: Duration) {
        let latency = interval.all();
        let rate = interval.operations() as f64 / elapsed.as_secs_f64().max(1e-9);
        let text = format!(
            "{:>6.1} s  {phase:<8} {:>9} ops/s   p50 {:>8}  p99 {:>8}  p99.9 {:>8}  max {:>8} ms   \
             errors {}",
            self.begun.elapsed().as_secs_f64(),
            report::grouped(rate as u64),
            report::millis(latency.p50),
            report::millis(latency.p99),
            report::millis(latency.p999),
            report::millis(latency.max),
            interval.failed(),
        );
        let mut out = std::io::stderr();
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{text}")
        } else {
            writeln!(out, "{text}")
        };
    }

    /// No more lines.
    pub(crate) fn end(&self) {
        if self.terminal {
            eprintln!();
        }
    }
}
