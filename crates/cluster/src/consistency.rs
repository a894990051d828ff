//! Consistency levels (`ConsistencyLevel`), with their codes of the native protocol.

use std::fmt;
use std::str::FromStr;

use crate::replication::ReplicationStrategy;

/// How many replicas must take part in a request before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    /// One replica, or a hint for it. Only writes.
    Any,
    /// One replica.
    One,
    /// Two replicas.
    Two,
    /// Three replicas.
    Three,
    /// More than half of the replicas.
    Quorum,
    /// All replicas.
    All,
    /// More than half of the replicas in the coordinator's data centre.
    LocalQuorum,
    /// More than half of the replicas in each data centre.
    EachQuorum,
    /// Linearizable, over all data centres: only for conditional updates, and for reads.
    Serial,
    /// Linearizable, within the coordinator's data centre.
    LocalSerial,
    /// One replica in the coordinator's data centre.
    LocalOne,
    /// The coordinator alone; Cassandra refuses it unless a system property allows it.
    NodeLocal,
}

/// Why a consistency level does not fit a statement: the text of the Invalid error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsistencyError {
    /// A read with [`Consistency::Any`].
    #[error("ANY ConsistencyLevel is only supported for writes")]
    AnyForRead,
    /// A write without conditions at a serial level.
    #[error("You must use conditional updates for serializable writes")]
    SerialForWrite,
    /// The serial level of a conditional update is none.
    #[error("Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL")]
    NotSerial,
    /// The commit level of a conditional update is a serial one.
    #[error(
        "{0} is not supported as conditional update commit consistency. Use ANY if you mean \
         \"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL \
         reads\""
    )]
    SerialForCommit(Consistency),
    /// A conditional update committed in each data centre, where the strategy knows none.
    #[error(
        "consistency level EACH_QUORUM not compatible with replication strategy \
         (org.apache.cassandra.locator.{0})"
    )]
    EachQuorumForCommit(&'static str),
    /// The nearest rows at a serial level.
    #[error(
        "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level {0} \
         was used."
    )]
    SerialForNearest(Consistency),
    /// A counter written at a serial level.
    #[error("Counter operations are inherently non-serializable")]
    SerialForCounter,
    /// A level that only debugging uses.
    #[error(
        "NODE_LOCAL consistency level is highly dangerous and should be used only for debugging \
         purposes"
    )]
    NodeLocal,
}

/// By code.
const NAMES: [(Consistency, &str); 12] = [
    (Consistency::Any, "ANY"),
    (Consistency::One, "ONE"),
    (Consistency::Two, "TWO"),
    (Consistency::Three, "THREE"),
    (Consistency::Quorum, "QUORUM"),
    (Consistency::All, "ALL"),
    (Consistency::LocalQuorum, "LOCAL_QUORUM"),
    (Consistency::EachQuorum, "EACH_QUORUM"),
    (Consistency::Serial, "SERIAL"),
    (Consistency::LocalSerial, "LOCAL_SERIAL"),
    (Consistency::LocalOne, "LOCAL_ONE"),
    (Consistency::NodeLocal, "NODE_LOCAL"),
];

impl Consistency {
    /// The level of a code of the native protocol.
    pub fn from_code(code: u16) -> Option<Consistency> {
        NAMES.get(usize::from(code)).map(|(level, _)| *level)
    }

    /// Its code in the native protocol.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// Its name, in capitals.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.code())].1
    }

    /// Linearizable?
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }

    /// Do only replicas in the coordinator's data centre count?
    pub fn is_local(self) -> bool {
        matches!(
            self,
            Consistency::LocalOne | Consistency::LocalQuorum | Consistency::LocalSerial
        )
    }

    /// May a request use it, whatever it is?
    pub fn check(self) -> Result<(), ConsistencyError> {
        match self {
            Consistency::NodeLocal => Err(ConsistencyError::NodeLocal),
            _ => Ok(()),
        }
    }

    /// May a SELECT use it?
    pub fn check_read(self) -> Result<(), ConsistencyError> {
        match self {
            Consistency::Any => Err(ConsistencyError::AnyForRead),
            _ => Ok(()),
        }
    }

    /// The level at which the nearest rows are read where this one is asked for: one replica's.
    pub fn of_nearest(self) -> Result<Consistency, ConsistencyError> {
        match self {
            Consistency::One | Consistency::LocalOne | Consistency::NodeLocal => Ok(self),
            _ if self.is_serial() => Err(ConsistencyError::SerialForNearest(self)),
            _ if self.is_local() => Ok(Consistency::LocalOne),
            _ => Ok(Consistency::One),
        }
    }

    /// May a write without conditions use it? Batches are not asked (`BatchStatement`).
    pub fn check_write(self) -> Result<(), ConsistencyError> {
        match self.is_serial() {
            true => Err(ConsistencyError::SerialForWrite),
            false => Ok(()),
        }
    }

    /// May an addition to a counter use it? (ANY is refused there too, with the table's name.)
    pub fn check_counter_write(self) -> Result<(), ConsistencyError> {
        match self.is_serial() {
            true => Err(ConsistencyError::SerialForCounter),
            false => Ok(()),
        }
    }

    /// May a conditional update be agreed upon at this serial level?
    pub fn check_serial(self) -> Result<(), ConsistencyError> {
        if self.is_serial() {
            Ok(())
        } else {
            Err(ConsistencyError::NotSerial)
        }
    }

    /// May a conditional update be committed at this level, in a keyspace with this strategy?
    pub fn check_commit(self, strategy: &ReplicationStrategy) -> Result<(), ConsistencyError> {
        match (self, strategy) {
            (Consistency::EachQuorum, ReplicationStrategy::NetworkTopology { .. }) => Ok(()),
            (Consistency::EachQuorum, other) => {
                Err(ConsistencyError::EachQuorumForCommit(other.class()))
            }
            _ if self.is_serial() => Err(ConsistencyError::SerialForCommit(self)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Consistency {
    type Err = UnknownConsistency;

    /// By name, in any case.
    fn from_str(text: &str) -> Result<Consistency, UnknownConsistency> {
        NAMES
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
            .map(|(level, _)| *level)
            .ok_or_else(|| UnknownConsistency(text.to_owned()))
    }
}

/// A text that names no consistency level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no consistency level: use one of ANY, ONE, TWO, THREE, QUORUM, ALL, \
         LOCAL_QUORUM, EACH_QUORUM, SERIAL, LOCAL_SERIAL, LOCAL_ONE"
)]
pub struct UnknownConsistency(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_protocol() {
        for (code, (level, name)) in NAMES.iter().enumerate() {
            assert_eq!(usize::from(level.code()), code);
            assert_eq!(Consistency::from_code(level.code()), Some(*level));
            assert_eq!(name.to_lowercase().parse(), Ok(*level));
        }
        assert_eq!(Consistency::LocalOne.code(), 0xa);
        assert_eq!(Consistency::from_code(12), None);
        assert!("MOST".parse::<Consistency>().is_err());
    }

    #[test]
    fn levels_fit_statements_or_not() {
        assert!(Consistency::Any.check_read().is_err());
        assert!(Consistency::Any.check_write().is_ok());
        assert!(Consistency::Serial.check_read().is_ok());
        assert!(Consistency::Serial.check_write().is_err());
        assert!(Consistency::LocalSerial.check_serial().is_ok());
        assert!(Consistency::Quorum.check_serial().is_err());
    }

    #[test]
    fn commits_fit_levels_and_strategies() {
        let simple = ReplicationStrategy::Simple { factor: 1 };
        let network = ReplicationStrategy::network_topology([("a", 1)]);
        let error = Consistency::Serial.check_commit(&simple).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("SERIAL is not supported as conditional")
        );
        assert!(Consistency::Any.check_commit(&simple).is_ok());
        assert!(Consistency::EachQuorum.check_commit(&network).is_ok());
        let error = Consistency::EachQuorum.check_commit(&simple).unwrap_err();
        assert_eq!(
            error.to_string(),
            "consistency level EACH_QUORUM not compatible with replication strategy \
             (org.apache.cassandra.locator.SimpleStrategy)"
        );
    }
}
