//! The clocks of the machine. The only place of the house that reads them.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::instant::Instant;

/// The machine's monotonic and wall clocks. Instants of one clock and its copies are comparable.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

#[allow(clippy::disallowed_methods)] // Env's own reading of the clock.
impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            origin: std::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let since = std::time::Instant::now().duration_since(self.origin);
        Instant::from_nanos(since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        }
    }
}
