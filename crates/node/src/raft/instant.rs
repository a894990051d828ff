//! Points of the shard's clock, as openraft calculates with them.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use super::current::current;

/// A point of the current shard's monotonic clock, which is virtual in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub(super) io::Instant);

impl openraft::Instant for Instant {
    fn now() -> Instant {
        Instant(current().now())
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 = self.0 - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.0 - earlier.0
    }
}
