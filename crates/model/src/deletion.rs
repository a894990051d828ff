//! When things were written, until when they live, and when they were deleted.

/// The timestamp of what was never written.
pub const NO_TIMESTAMP: i64 = i64::MIN;
/// The ttl of what does not expire.
pub const NO_TTL: i32 = 0;
/// The ttl of a row marker that is expired whatever the time (`LivenessInfo.EXPIRED_LIVENESS_TTL`;
/// materialized views write such).
pub const EXPIRED_TTL: i32 = i32::MAX;
/// The local deletion time of what is neither deleted nor expires.
pub const NO_DELETION_TIME: u32 = u32::MAX;

/// A deletion: all that was written at or before `timestamp` is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionTime {
    /// Microseconds since 1970, in the clock of clients; [`NO_TIMESTAMP`] deletes nothing.
    pub timestamp: i64,
    /// Seconds since 1970 by the server's clock: from here `gc_grace_seconds` count.
    pub local_deletion_time: u32,
}

impl DeletionTime {
    /// No deletion.
    pub const LIVE: DeletionTime = DeletionTime {
        timestamp: NO_TIMESTAMP,
        local_deletion_time: NO_DELETION_TIME,
    };

    /// Deletes nothing?
    pub fn is_live(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Does this deletion cover something written at `timestamp`?
    pub fn deletes(&self, timestamp: i64) -> bool {
        !self.is_live() && timestamp <= self.timestamp
    }

    /// Does this deletion win over `other` (`DeletionTime.supersedes`)?
    pub fn supersedes(&self, other: &DeletionTime) -> bool {
        self.timestamp > other.timestamp
            || (self.timestamp == other.timestamp
                && !self.is_live()
                && self.local_deletion_time > other.local_deletion_time)
    }

    /// The stronger of two deletions.
    pub fn merge(self, other: DeletionTime) -> DeletionTime {
        if other.supersedes(&self) { other } else { self }
    }
}

/// The row marker that INSERT writes: a row with a live marker exists even without cells
/// (`LivenessInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Microseconds since 1970; [`NO_TIMESTAMP`] where there is no marker.
    pub timestamp: i64,
    /// Seconds to live; [`NO_TTL`] for ever.
    pub ttl: i32,
    /// Seconds since 1970 at which the marker expires; [`NO_DELETION_TIME`] if never.
    pub expires_at: u32,
}

impl Liveness {
    /// No marker.
    pub const NONE: Liveness = Liveness {
        timestamp: NO_TIMESTAMP,
        ttl: NO_TTL,
        expires_at: NO_DELETION_TIME,
    };

    /// No marker at all?
    pub fn is_empty(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Is there a marker that has not expired?
    pub fn is_live(&self, now_seconds: u32) -> bool {
        match self.ttl {
            NO_TTL => !self.is_empty(),
            EXPIRED_TTL => false,
            _ => !self.is_empty() && now_seconds < self.expires_at,
        }
    }

    /// Does this marker win over `other` (`LivenessInfo.supersedes`)? For equal timestamps: an
    /// expired one over others, one that expires over one that does not, then the one that
    /// expires later, then the one with the shorter time to live (it was written later).
    pub fn supersedes(&self, other: &Liveness) -> bool {
        let rank = |marker: &Liveness| {
            (
                marker.timestamp,
                marker.ttl == EXPIRED_TTL,
                marker.ttl != NO_TTL,
                marker.expires_at,
                std::cmp::Reverse(marker.ttl),
            )
        };
        rank(self) > rank(other)
    }
}
