//! The option `replication` of keyspaces (`ReplicationParams`, `AbstractReplicationStrategy`).

use std::collections::BTreeMap;

use super::Surroundings;
use crate::CqlError;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";
const DEFAULT_FACTOR: &str = "1";

type Options = BTreeMap<String, String>;

fn refuse<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Config(message))
}

/// The full form of the option as `system_schema.keyspaces` keeps it: full class name, and for
/// `NetworkTopologyStrategy` the factor of each data centre. `previous` is what the keyspace had
/// before, and `with` knows the data centres that exist.
pub(super) fn normalize(
    keyspace: &str,
    given: &Options,
    previous: &Options,
    with: &Surroundings<'_>,
) -> Result<Options, CqlError> {
    let mut options = given.clone();
    let Some(name) = options.remove("class") else {
        return refuse("Missing replication strategy class".to_owned());
    };
    let class = if name.contains('.') {
        name
    } else {
        format!("{PACKAGE}{name}")
    };
    match class.strip_prefix(PACKAGE) {
        Some("SimpleStrategy") => simple(keyspace, &mut options, previous)?,
        Some("NetworkTopologyStrategy") => {
            let previous = if previous.get("class") == Some(&class) {
                previous.clone()
            } else {
                Options::new()
            };
            network_topology(keyspace, &mut options, &previous, with.datacenters)?;
        }
        Some("LocalStrategy") if with.trusted => {}
        Some("LocalStrategy") => {
            return Err(CqlError::Invalid(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use."
                    .to_owned(),
            ));
        }
        _ => return refuse(unknown_class(&class)),
    }
    options.insert("class".to_owned(), class);
    Ok(options)
}

/// What Cassandra says of a class that is no strategy of its own (`AbstractReplicationStrategy.getClass`).
fn unknown_class(class: &str) -> String {
    match class.strip_prefix(PACKAGE) {
        Some("OldNetworkTopologyStrategy") => {
            "The support for the OldNetworkTopologyStrategy has been removed in C* \
             version 4.0. The keyspace strategy should be switch to NetworkTopologyStrategy"
                .to_owned()
        }
        Some("AbstractReplicationStrategy") => {
            "Error constructing replication strategy class".to_owned()
        }
        Some(
            "SimpleSnitch" | "GossipingPropertyFileSnitch" | "PropertyFileSnitch" | "TokenMetadata",
        ) => format!(
            "Specified replication strategy class ({class}) is not derived from AbstractReplicationStrategy"
        ),
        _ => format!("Unable to find replication strategy class '{class}'"),
    }
}

fn simple(keyspace: &str, options: &mut Options, previous: &Options) -> Result<(), CqlError> {
    let inherited = previous
        .get(FACTOR)
        .map_or(DEFAULT_FACTOR, String::as_str)
        .to_owned();
    let factor = options.entry(FACTOR.to_owned()).or_insert(inherited);
    parse_factor(factor)?;
    let unknown = names_except(options, |name| name == FACTOR);
    check_unknown("SimpleStrategy", keyspace, &unknown)
}

/// `replication_factor` stands for each data centre that is not named and had none before
/// (`NetworkTopologyStrategy.prepareOptions`).
fn network_topology(
    keyspace: &str,
    options: &mut Options,
    previous: &Options,
    datacenters: &[&str],
) -> Result<(), CqlError> {
    if options
        .keys()
        .any(|name| name != FACTOR && name.eq_ignore_ascii_case(FACTOR))
    {
        return refuse(format!(
            "{FACTOR} should not appear as an option at construction time for \
             NetworkTopologyStrategy"
        ));
    }
    let mut factor = options.remove(FACTOR);
    if factor.is_none() && options.is_empty() {
        factor = previous
            .get(FACTOR)
            .cloned()
            .or_else(|| Some(DEFAULT_FACTOR.to_owned()));
    }
    if let Some(factor) = factor {
        if parse_factor(&factor).is_ok() {
            for datacenter in datacenters {
                let value = previous.get(*datacenter).unwrap_or(&factor).clone();
                options.entry((*datacenter).to_owned()).or_insert(value);
            }
        }
        for (name, value) in previous {
            if name != "class" && name != FACTOR {
                options.entry(name.clone()).or_insert(value.clone());
            }
        }
    }
    let mut empty = Vec::new();
    for (name, value) in options.iter() {
        if parse_factor(value)? == 0 {
            empty.push(name.clone());
        }
    }
    for name in empty {
        options.remove(&name);
    }
    if options.is_empty() {
        return refuse("Configuration for at least one datacenter must be present".to_owned());
    }
    let unknown = names_except(options, |name| datacenters.contains(&name));
    check_unknown("NetworkTopologyStrategy", keyspace, &unknown)
}

/// The replication factor of each data centre, or of the cluster (`None`), in a normalized option.
pub(super) fn factors(options: &Options) -> impl Iterator<Item = (Option<&str>, u32)> {
    options.iter().filter_map(|(name, value)| {
        let factor = value.parse().ok()?;
        Some(((name != FACTOR).then_some(name.as_str()), factor))
    })
}

fn parse_factor(text: &str) -> Result<u32, CqlError> {
    if text.contains('/') {
        return refuse("Transient replication is not enabled on this node".to_owned());
    }
    match text.parse::<i32>() {
        Ok(factor) => u32::try_from(factor).map_err(|_| {
            CqlError::Config(format!(
                "Replication factor must be non-negative, found {factor}"
            ))
        }),
        Err(_) => refuse(format!("For input string: \"{text}\"")),
    }
}

fn names_except(options: &Options, known: impl Fn(&str) -> bool) -> Vec<&str> {
    options
        .keys()
        .map(String::as_str)
        .filter(|name| !known(name))
        .collect()
}

fn check_unknown(strategy: &str, keyspace: &str, unknown: &[&str]) -> Result<(), CqlError> {
    if unknown.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "Unrecognized strategy option {{{}}} passed to {strategy} for keyspace {keyspace}",
        unknown.join(", ")
    ))
}
