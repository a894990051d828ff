//! Ballots: the numbers that rounds of Paxos bear (`Ballot`, `BallotGenerator`).

use std::cmp::Ordering;
use std::fmt;

use uuid::Uuid;

use crate::Consistency;

/// From 1582-10-15, where time UUIDs begin, to 1970-01-01, in microseconds.
const UUID_EPOCH: i64 = 12_219_292_800_000_000;
/// A time UUID counts in tenths of microseconds; which one of the ten tells the [`Scope`].
const TENTHS: u64 = 10;
/// Its timestamp has 60 bits.
const TIMESTAMP: u64 = (1 << 60) - 1;

/// Among whom a ballot is agreed upon (`Ballot.Flag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The ballot does not say: [`Ballot::NONE`], and those of before Cassandra 4.1.
    Unknown,
    /// The replicas of one data centre: LOCAL_SERIAL.
    Local,
    /// All replicas: SERIAL.
    Global,
}

impl Scope {
    /// Of a serial consistency level.
    pub fn of(consistency: Consistency) -> Scope {
        match consistency.is_local() {
            true => Scope::Local,
            false => Scope::Global,
        }
    }
}

/// What tells UUIDs of RFC 9562 from others.
const VARIANT_BITS: u64 = 0b11 << 62;
const VARIANT: u64 = 0b10 << 62;

/// The number of a round: a time UUID, whose time is also the timestamp of what the round writes.
///
/// Ballots are ordered by their times only, and two different ones of the same time by nothing: then
/// neither is above the other, and who has promised one refuses the other. Were they ordered by
/// their other bits, two rounds could write with the same timestamp, and cells would not know which
/// came last.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// In tenths of microseconds since 1582-10-15; at most [`TIMESTAMP`].
    timestamp: u64,
    /// Random, so that no two rounds have the same ballot.
    unique: u64,
}

impl Ballot {
    /// Below every ballot of a round (`Ballot.none`): 1970-01-01.
    pub const NONE: Ballot = Ballot {
        timestamp: UUID_EPOCH as u64 * TENTHS,
        unique: 0,
    };

    /// Of a time in microseconds since 1970; one that no UUID can have becomes the nearest it can.
    pub fn at(micros: i64, scope: Scope, unique: u64) -> Ballot {
        let since = micros.saturating_add(UUID_EPOCH).max(0).cast_unsigned();
        Ballot {
            timestamp: since.min(TIMESTAMP / TENTHS - 1) * TENTHS + scope as u64,
            unique,
        }
    }

    /// For a new round: later than the ballots known, or it would only be refused
    /// (`Paxos.newBallot`, `ClientState.getTimestampForPaxos`).
    ///
    /// `micros` is the coordinator's clock, later than every timestamp that it gave before: so what it
    /// writes is in order. `above` is the highest ballot known, which may be far ahead of that
    /// clock. The clock must not follow it: one node in the future would take all others along, and
    /// all their writes (CASSANDRA-11991). `unique` is a random number that nobody can foresee.
    pub fn next(micros: i64, above: Option<Ballot>, scope: Scope, unique: u64) -> Ballot {
        let least = above.map_or(i64::MIN, |above| above.micros().saturating_add(1));
        let unique = unique & !VARIANT_BITS | VARIANT;
        Ballot::at(micros.max(least), scope, unique)
    }

    /// Its time, in microseconds since 1970.
    pub fn micros(self) -> i64 {
        (self.timestamp / TENTHS).cast_signed() - UUID_EPOCH
    }

    /// Its time, in whole seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.micros().div_euclid(1_000_000)
    }

    /// Among whom it is agreed upon.
    pub fn scope(self) -> Scope {
        match self.timestamp % TENTHS {
            1 => Scope::Local,
            2 => Scope::Global,
            _ => Scope::Unknown,
        }
    }

    /// As columns of `system.paxos` have it.
    pub fn to_uuid(self) -> Uuid {
        let time = self.timestamp;
        let (low, middle, high) = (time & 0xffff_ffff, time >> 32 & 0xffff, time >> 48);
        Uuid::from_u64_pair(low << 32 | middle << 16 | 1 << 12 | high, self.unique)
    }

    /// The ballot of a time UUID; `None` if it is another kind of UUID.
    pub fn from_uuid(uuid: Uuid) -> Option<Ballot> {
        let (time, unique) = uuid.as_u64_pair();
        let (low, middle, high) = (time >> 32, time >> 16 & 0xffff, time & 0xfff);
        (time >> 12 & 0xf == 1).then_some(Ballot {
            timestamp: high << 48 | middle << 32 | low,
            unique,
        })
    }

    /// The later of both; the first if neither is above the other (`Commit.latest`).
    pub(super) fn latest(self, other: Ballot) -> Ballot {
        if other > self { other } else { self }
    }
}

impl PartialOrd for Ballot {
    fn partial_cmp(&self, other: &Ballot) -> Option<Ordering> {
        match self.timestamp.cmp(&other.timestamp) {
            Ordering::Equal if self.unique != other.unique => None,
            order => Some(order),
        }
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_uuid().fmt(f)
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:x}", self.micros(), self.unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_cassandras_time_uuid() {
        // What `Ballot.atUnixMicrosWithLsb(0, 0, NONE)` is: the first moment of 1970.
        let none = "13814000-1dd2-11b2-0000-000000000000";
        assert_eq!(Ballot::NONE.to_string(), none);
        assert_eq!(Ballot::at(0, Scope::Unknown, 0), Ballot::NONE);
        let ballot = Ballot::at(1_700_000_000_123_456, Scope::Global, 0x8123_4567_89ab_cdef);
        assert_eq!(ballot.to_uuid().get_version_num(), 1);
        let (seconds, nanos) = ballot.to_uuid().get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos), (1_700_000_000, 123_456_200));
        assert_eq!(ballot.seconds(), 1_700_000_000);
        assert_eq!(Ballot::from_uuid(Uuid::from_u128(4 << 76)), None);
    }

    #[test]
    fn two_of_the_same_time_are_in_no_order() {
        let at = |micros, unique| Ballot::at(micros, Scope::Global, unique);
        assert!(at(2, 1) > at(1, 9));
        assert_eq!(at(2, 1).partial_cmp(&at(2, 9)), None);
        assert!(at(2, 1) >= at(2, 1));
        assert_eq!(at(2, 1).latest(at(2, 9)), at(2, 1));
        assert!(at(2, 1) > Ballot::at(2, Scope::Local, 1));
    }

    proptest! {
        #[test]
        fn uuids_come_back(micros in any::<i64>(), unique in any::<u64>(), bits in any::<u128>()) {
            for scope in [Scope::Unknown, Scope::Local, Scope::Global] {
                let ballot = Ballot::at(micros, scope, unique);
                prop_assert_eq!(ballot.scope(), scope);
                prop_assert_eq!(Ballot::from_uuid(ballot.to_uuid()), Some(ballot));
            }
            let uuid = Uuid::from_u128(bits);
            if let Some(ballot) = Ballot::from_uuid(uuid) {
                prop_assert_eq!(ballot.to_uuid(), uuid);
                let _ = (ballot.micros(), ballot.seconds(), ballot.scope());
                let next = Ballot::next(micros, Some(ballot), Scope::Global, unique);
                prop_assert!(next > ballot || ballot.timestamp > TIMESTAMP - 2 * TENTHS);
            }
        }

        #[test]
        fn a_new_one_is_above_those_known_and_follows_the_clock(
            clock in 0i64..10_000_000_000_000_000,
            known in 0i64..10_000_000_000_000_000,
        ) {
            let known = Ballot::at(known, Scope::Global, 7);
            let next = Ballot::next(clock, Some(known), Scope::Global, 8);
            prop_assert!(next > known);
            prop_assert_eq!(next.micros(), clock.max(known.micros() + 1));
            prop_assert_eq!(Ballot::next(clock, None, Scope::Local, 8).micros(), clock);
        }
    }
}
