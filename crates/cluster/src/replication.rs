//! Replication strategies: how many replicas a keyspace has, and where.
//!
//! Read from the map `replication` of a keyspace as `system_schema.keyspaces` holds it, with the
//! full class name; errors are Cassandra's (`AbstractReplicationStrategy`, `ReplicationFactor`).

use std::collections::BTreeMap;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";

/// How a keyspace is replicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicationStrategy {
    /// `LocalStrategy`: each node has data of its own (system keyspaces).
    Local,
    /// `SimpleStrategy`: so many nodes, wherever they are.
    Simple {
        /// How many.
        factor: u32,
    },
    /// `NetworkTopologyStrategy`: so many nodes in each data centre, in different racks as far
    /// as there are racks.
    NetworkTopology {
        /// How many in each; none is zero.
        datacenters: BTreeMap<String, u32>,
    },
}

/// Why a map is no replication: the text of the Configuration error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationError {
    /// There is no `class`.
    #[error("Missing replication strategy class")]
    NoClass,
    /// Nothing of this name.
    #[error("Unable to find replication strategy class '{0}'")]
    UnknownClass(String),
    /// Gone since Cassandra 4.
    #[error(
        "The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. The \
         keyspace strategy should be switch to NetworkTopologyStrategy"
    )]
    OldNetworkTopology,
    /// SimpleStrategy without its option.
    #[error("SimpleStrategy requires a replication_factor strategy option.")]
    NoFactor,
    /// Not a number of 32 bits.
    #[error("For input string: \"{0}\"")]
    NoNumber(String),
    /// More than one slash.
    #[error("Replication factor format is <replicas> or <replicas>/<transient>")]
    Format,
    /// As `3/1`.
    #[error("Transient replication is not enabled on this node")]
    Transient,
    /// Below zero.
    #[error("Replication factor must be non-negative, found {0}")]
    Negative(i32),
    /// NetworkTopologyStrategy with no replicas at all.
    #[error("Configuration for at least one datacenter must be present")]
    NoDatacenter,
    /// An option the strategy does not have.
    #[error(
        "Unrecognized strategy option {{{option}}} passed to {strategy} for keyspace {keyspace}"
    )]
    UnknownOption {
        /// The option.
        option: String,
        /// The strategy, without its package.
        strategy: &'static str,
        /// The keyspace.
        keyspace: String,
    },
}

impl ReplicationStrategy {
    /// `NetworkTopologyStrategy` with so many replicas in each of these data centres.
    pub fn network_topology<'d>(
        factors: impl IntoIterator<Item = (&'d str, u32)>,
    ) -> ReplicationStrategy {
        let factors = factors.into_iter();
        ReplicationStrategy::NetworkTopology {
            datacenters: factors
                .map(|(name, factor)| (name.to_owned(), factor))
                .collect(),
        }
    }

    /// Of the map `replication` of `keyspace`.
    pub fn from_options(
        keyspace: &str,
        options: &BTreeMap<String, String>,
    ) -> Result<ReplicationStrategy, ReplicationError> {
        let class = options.get("class").ok_or(ReplicationError::NoClass)?;
        let others = || options.iter().filter(|(name, _)| *name != "class");
        let full = if class.contains('.') {
            class.clone()
        } else {
            format!("{PACKAGE}{class}")
        };
        match full.strip_prefix(PACKAGE).unwrap_or(&full) {
            "LocalStrategy" => Ok(ReplicationStrategy::Local),
            strategy @ "SimpleStrategy" => {
                let factor = options.get(FACTOR).ok_or(ReplicationError::NoFactor)?;
                let factor = parse_factor(factor)?;
                match others().find(|(name, _)| *name != FACTOR) {
                    Some((option, _)) => Err(unknown_option(option, strategy, keyspace)),
                    None => Ok(ReplicationStrategy::Simple { factor }),
                }
            }
            strategy @ "NetworkTopologyStrategy" => {
                let mut datacenters = BTreeMap::new();
                for (datacenter, factor) in others() {
                    if datacenter == FACTOR {
                        // It was replaced by data centres when the keyspace was made.
                        return Err(unknown_option(datacenter, strategy, keyspace));
                    }
                    let factor = parse_factor(factor)?;
                    if factor > 0 {
                        datacenters.insert(datacenter.clone(), factor);
                    }
                }
                if datacenters.is_empty() {
                    return Err(ReplicationError::NoDatacenter);
                }
                Ok(ReplicationStrategy::NetworkTopology { datacenters })
            }
            "OldNetworkTopologyStrategy" => Err(ReplicationError::OldNetworkTopology),
            _ => Err(ReplicationError::UnknownClass(full)),
        }
    }

    /// The name of its class, without the package.
    pub fn class(&self) -> &'static str {
        match self {
            ReplicationStrategy::Local => "LocalStrategy",
            ReplicationStrategy::Simple { .. } => "SimpleStrategy",
            ReplicationStrategy::NetworkTopology { .. } => "NetworkTopologyStrategy",
        }
    }

    /// The replicas of each token, over all data centres.
    pub fn factor(&self) -> u32 {
        match self {
            ReplicationStrategy::Local => 1,
            ReplicationStrategy::Simple { factor } => *factor,
            ReplicationStrategy::NetworkTopology { datacenters } => datacenters
                .values()
                .fold(0, |sum, factor| sum.saturating_add(*factor)),
        }
    }

    /// The replicas of each token in one data centre; `None` where the strategy does not know
    /// data centres.
    pub fn factor_in(&self, datacenter: &str) -> Option<u32> {
        match self {
            ReplicationStrategy::NetworkTopology { datacenters } => {
                Some(datacenters.get(datacenter).copied().unwrap_or(0))
            }
            ReplicationStrategy::Local | ReplicationStrategy::Simple { .. } => None,
        }
    }
}

fn unknown_option(option: &str, strategy: &str, keyspace: &str) -> ReplicationError {
    ReplicationError::UnknownOption {
        option: option.to_owned(),
        strategy: match strategy {
            "SimpleStrategy" => "SimpleStrategy",
            _ => "NetworkTopologyStrategy",
        },
        keyspace: keyspace.to_owned(),
    }
}

/// `3`; `3/1` (of which one transient) is refused, as by a Cassandra with its defaults.
fn parse_factor(text: &str) -> Result<u32, ReplicationError> {
    match text.split('/').count() {
        1 => {}
        2 => return Err(ReplicationError::Transient),
        _ => return Err(ReplicationError::Format),
    }
    let factor: i32 = text
        .parse()
        .map_err(|_| ReplicationError::NoNumber(text.to_owned()))?;
    u32::try_from(factor).map_err(|_| ReplicationError::Negative(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<ReplicationStrategy, String> {
        let options = options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        ReplicationStrategy::from_options("kk", &options).map_err(|error| error.to_string())
    }

    fn refused(options: &[(&str, &str)]) -> String {
        read(options).unwrap_err()
    }

    /// The answers of Cassandra 5.0.6.
    #[test]
    fn maps_are_read_as_cassandra_does() {
        let simple = |factor| read(&[("class", "SimpleStrategy"), (FACTOR, factor)]);
        assert_eq!(simple("3"), Ok(ReplicationStrategy::Simple { factor: 3 }));
        assert_eq!(simple("+3"), Ok(ReplicationStrategy::Simple { factor: 3 }));
        assert_eq!(simple("0"), Ok(ReplicationStrategy::Simple { factor: 0 }));
        for (factor, error) in [
            ("x", "For input string: \"x\""),
            ("", "For input string: \"\""),
            (" 3", "For input string: \" 3\""),
            ("99999999999", "For input string: \"99999999999\""),
            ("-1", "Replication factor must be non-negative, found -1"),
            ("3/1", "Transient replication is not enabled on this node"),
            (
                "1/2/3",
                "Replication factor format is <replicas> or <replicas>/<transient>",
            ),
        ] {
            assert_eq!(simple(factor), Err(error.to_owned()));
        }
        assert_eq!(
            refused(&[("class", "SimpleStrategy"), (FACTOR, "3"), ("foo", "1")]),
            "Unrecognized strategy option {foo} passed to SimpleStrategy for keyspace kk"
        );
        assert_eq!(
            refused(&[("class", "NetworkTopologyStrategy"), ("dc1", "0")]),
            "Configuration for at least one datacenter must be present"
        );
        assert_eq!(
            refused(&[("class", "EverywhereStrategy")]),
            "Unable to find replication strategy class \
             'org.apache.cassandra.locator.EverywhereStrategy'"
        );
        assert_eq!(
            refused(&[("class", "foo.Bar")]),
            "Unable to find replication strategy class 'foo.Bar'"
        );
        assert_eq!(refused(&[]), "Missing replication strategy class");
    }

    #[test]
    fn datacenters_count_apart() {
        let strategy = read(&[
            (
                "class",
                "org.apache.cassandra.locator.NetworkTopologyStrategy",
            ),
            ("dc1", "3"),
            ("dc2", "2"),
            ("dc3", "0"),
        ])
        .unwrap();
        assert_eq!(strategy.factor(), 5);
        assert_eq!(strategy.factor_in("dc2"), Some(2));
        assert_eq!(strategy.factor_in("dc3"), Some(0));
        let local = read(&[("class", "org.apache.cassandra.locator.LocalStrategy")]);
        assert_eq!(local, Ok(ReplicationStrategy::Local));
    }
}
