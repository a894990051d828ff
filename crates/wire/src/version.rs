//! Versions of the native protocol.

use std::fmt;

/// A version of the native protocol that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `3/v3`
    V3,
    /// `4/v4`
    V4,
    /// `5/v5`: checksummed segments around the envelopes.
    V5,
    /// `6/v6-beta`: as 5, to clients that say that they take what is not finished.
    V6,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Version; 4] = [Version::V3, Version::V4, Version::V5, Version::V6];
    /// The newest that is no beta.
    pub const NEWEST: Version = Version::V5;

    /// The version of this number (the low seven bits of the first byte of an envelope).
    pub fn from_number(number: u8) -> Option<Version> {
        Version::ALL.into_iter().find(|v| v.number() == number)
    }

    /// 3 to 6.
    pub fn number(self) -> u8 {
        match self {
            Version::V3 => 3,
            Version::V4 => 4,
            Version::V5 => 5,
            Version::V6 => 6,
        }
    }

    /// As PROTOCOL_VERSIONS of SUPPORTED lists it.
    pub fn description(self) -> &'static str {
        match self {
            Version::V3 => "3/v3",
            Version::V4 => "4/v4",
            Version::V5 => "5/v5",
            Version::V6 => "6/v6-beta",
        }
    }

    /// Is it not finished? Then each envelope says so ([`Flags::USE_BETA`](crate::Flags::USE_BETA)).
    pub fn is_beta(self) -> bool {
        self == Version::V6
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}
