//! Consistency levels.

use std::fmt;

/// How many replicas must have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// One replica or a hint (writes only).
    Any = 0x0000,
    /// One replica.
    One = 0x0001,
    /// Two replicas.
    Two = 0x0002,
    /// Three replicas.
    Three = 0x0003,
    /// More than half of all replicas.
    Quorum = 0x0004,
    /// All replicas.
    All = 0x0005,
    /// More than half of the replicas in the data centre of the coordinator.
    LocalQuorum = 0x0006,
    /// More than half of the replicas in each data centre (writes only).
    EachQuorum = 0x0007,
    /// Linearizable.
    Serial = 0x0008,
    /// Linearizable within the data centre of the coordinator.
    LocalSerial = 0x0009,
    /// One replica in the data centre of the coordinator.
    LocalOne = 0x000A,
}

impl Consistency {
    /// All levels, by their code.
    pub const ALL: [Consistency; 11] = [
        Consistency::Any,
        Consistency::One,
        Consistency::Two,
        Consistency::Three,
        Consistency::Quorum,
        Consistency::All,
        Consistency::LocalQuorum,
        Consistency::EachQuorum,
        Consistency::Serial,
        Consistency::LocalSerial,
        Consistency::LocalOne,
    ];

    /// The level of this code.
    pub fn from_code(code: u16) -> Option<Consistency> {
        Consistency::ALL.get(usize::from(code)).copied()
    }

    /// Is it one of the levels for the serial phase of conditional updates?
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Consistency::Any => "ANY",
            Consistency::One => "ONE",
            Consistency::Two => "TWO",
            Consistency::Three => "THREE",
            Consistency::Quorum => "QUORUM",
            Consistency::All => "ALL",
            Consistency::LocalQuorum => "LOCAL_QUORUM",
            Consistency::EachQuorum => "EACH_QUORUM",
            Consistency::Serial => "SERIAL",
            Consistency::LocalSerial => "LOCAL_SERIAL",
            Consistency::LocalOne => "LOCAL_ONE",
        })
    }
}
