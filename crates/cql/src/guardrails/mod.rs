//! Guardrails: what operators let clients do, under the names and with the words of Cassandra
//! (`org.apache.cassandra.db.guardrails`).
//!
//! A guardrail is a limit with a threshold from which clients are warned and one from which they are
//! refused, a switch, or a list of values. One is set of itself: how many sstables of an index a query looks into
//! before clients are warned. What a statement violates is checked
//! where it is executed; all checks are pure: they are given the guardrails, what is to be done and where
//! warnings go. Some are looked at elsewhere, where what they limit is known: by whoever writes sstables, and by
//! replicas.

mod disk_usage;
mod limit;
mod reads;
mod schema;
mod switch;
mod terms;
mod values;
mod writes;

use std::collections::BTreeMap;

use crate::CqlError;

pub use disk_usage::{DiskUsage, DiskUsageNotices, LocalDiskUsage, check_replica};
pub use limit::{Limit, Unit};
pub use reads::ReadRequest;
pub use switch::Switch;
pub use values::{Level, Values};

/// The name of an option that sets a part of a guardrail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// From where on clients are warned: `…_warn_threshold`.
    Warn(Limit),
    /// From where on they are refused: `…_fail_threshold`.
    Fail(Limit),
    /// Is it allowed?
    Enabled(Switch),
    /// Are clients warned although it is allowed: `…_warned`?
    Warned(Switch),
    /// Which values are warned of, ignored or refused: `…_warned`, `…_ignored`, `…_disallowed`.
    Listed(Values, Level),
    /// As how large the drive of the data is taken at most.
    MaxDiskSize,
}

/// From how many on clients are warned, if nothing else is set (`Config`).
const INDEX_SSTABLES: u64 = 32;

impl Setting {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Setting> {
        let limits = Limit::ALL.into_iter();
        let limits = limits.flat_map(|limit| [Setting::Warn(limit), Setting::Fail(limit)]);
        let switches = Switch::ALL.into_iter();
        let switches = switches.flat_map(|switch| {
            let warned = switch.warns().then_some(Setting::Warned(switch));
            [Some(Setting::Enabled(switch)), warned]
                .into_iter()
                .flatten()
        });
        let values = Values::ALL.into_iter();
        let values = values.flat_map(|values| {
            let levels = values.levels().iter();
            levels.map(move |level| Setting::Listed(values, *level))
        });
        let all = limits.chain(switches).chain(values);
        all.chain([Setting::MaxDiskSize])
    }

    /// The option of this name, if it is one of a guardrail.
    pub fn named(name: &str) -> Option<Setting> {
        Setting::all().find(|setting| setting.name() == name)
    }

    /// Its name in `cassandra.yaml`.
    pub fn name(self) -> String {
        match self {
            Setting::Warn(limit) => format!("{}_warn_threshold", limit.name()),
            Setting::Fail(limit) => format!("{}_fail_threshold", limit.name()),
            Setting::Enabled(switch) => switch.option().to_owned(),
            Setting::Warned(switch) => format!("{}_warned", switch.name()),
            Setting::Listed(values, level) => format!("{}_{}", values.name(), level.name()),
            Setting::MaxDiskSize => "data_disk_usage_max_disk_size".to_owned(),
        }
    }
}

/// Where a limit warns and refuses: bytes, microseconds, or how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Threshold {
    warn: Option<u64>,
    fail: Option<u64>,
}

/// The guardrails that are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guardrails {
    limits: BTreeMap<Limit, Threshold>,
    disabled: Vec<Switch>,
    warned: Vec<Switch>,
    /// In the order in which they were given, which is how messages list them.
    lists: BTreeMap<(Values, Level), Vec<String>>,
    /// Bytes.
    max_disk_size: Option<u64>,
}

impl Default for Guardrails {
    /// Those of a Cassandra that was told nothing of them.
    fn default() -> Guardrails {
        let indexes = Threshold {
            warn: Some(INDEX_SSTABLES),
            fail: None,
        };
        Guardrails {
            limits: BTreeMap::from([(Limit::SaiSstableIndexesPerQuery, indexes)]),
            disabled: Vec::new(),
            warned: Vec::new(),
            lists: BTreeMap::new(),
            max_disk_size: None,
        }
    }
}

/// A limit refuses before it warns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the warn threshold {warn} for {name}_warn_threshold should be {should} than the fail threshold {fail}"
)]
pub struct ThresholdsCross {
    name: &'static str,
    warn: u64,
    fail: u64,
    should: &'static str,
}

impl Guardrails {
    /// Sets the threshold of a limit (bytes, microseconds, or how many).
    pub fn set_warn(&mut self, limit: Limit, threshold: Option<u64>) {
        self.limits.entry(limit).or_default().warn = threshold;
    }

    /// As [`Guardrails::set_warn`], where the limit refuses.
    pub fn set_fail(&mut self, limit: Limit, threshold: Option<u64>) {
        self.limits.entry(limit).or_default().fail = threshold;
    }

    /// Allows something or not.
    pub fn set_enabled(&mut self, switch: Switch, enabled: bool) {
        set_member(&mut self.disabled, switch, !enabled);
    }

    /// Warns of something that is allowed, or not.
    pub fn set_warned(&mut self, switch: Switch, warned: bool) {
        set_member(&mut self.warned, switch, warned);
    }

    /// Says which values are warned of, ignored or refused, each once.
    pub fn set_values(&mut self, values: Values, level: Level, mut names: Vec<String>) {
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        self.lists.insert((values, level), names);
    }

    /// As how many bytes the drive of the data is taken at most.
    pub fn set_max_disk_size(&mut self, bytes: Option<u64>) {
        self.max_disk_size = bytes;
    }

    /// As how many bytes the drive of the data is taken at most, if that is set.
    pub fn max_disk_size(&self) -> Option<u64> {
        self.max_disk_size
    }

    /// Is anything set but what is set of itself?
    pub fn is_set(&self) -> bool {
        *self != Guardrails::default()
    }

    /// Refuses thresholds of which that of the warning comes after that of the error; where they are the same
    /// there are errors alone.
    pub fn check(&self) -> Result<(), ThresholdsCross> {
        for (limit, threshold) in &self.limits {
            let (Some(warn), Some(fail)) = (threshold.warn, threshold.fail) else {
                continue;
            };
            let crossed = match limit.is_minimum() {
                true => fail > warn,
                false => warn > fail,
            };
            if crossed && limit.is_checked() {
                let should = if limit.is_minimum() {
                    "greater"
                } else {
                    "lower"
                };
                let name = limit.name();
                return Err(ThresholdsCross {
                    name,
                    warn,
                    fail,
                    should,
                });
            }
        }
        Ok(())
    }

    /// The threshold of a limit at a setting, if there is one.
    pub fn threshold(&self, setting: Setting) -> Option<u64> {
        match setting {
            Setting::Warn(limit) => self.limits.get(&limit)?.warn,
            Setting::Fail(limit) => self.limits.get(&limit)?.fail,
            _ => None,
        }
    }

    /// Is it allowed?
    pub fn enabled(&self, switch: Switch) -> bool {
        !self.disabled.contains(&switch)
    }

    /// Are clients warned of it?
    pub fn warned(&self, switch: Switch) -> bool {
        self.warned.contains(&switch)
    }

    /// The values that are warned of, ignored or refused.
    pub fn values(&self, values: Values, level: Level) -> &[String] {
        self.lists.get(&(values, level)).map_or(&[], Vec::as_slice)
    }

    /// Is either threshold of a limit set?
    fn limits(&self, limit: Limit) -> bool {
        let threshold = self.limits.get(&limit).copied().unwrap_or_default();
        threshold != Threshold::default()
    }

    /// Warns or refuses if `value` of `what` is beyond the limit.
    fn guard(
        &self,
        limit: Limit,
        what: &str,
        value: u64,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let Some(threshold) = self.limits.get(&limit) else {
            return Ok(());
        };
        let beyond = |threshold: u64| match limit.is_minimum() {
            true => value < threshold,
            false => value > threshold,
        };
        if let Some(fail) = threshold.fail.filter(|fail| beyond(*fail)) {
            return violated(limit.violation(false, what, value, fail), warnings);
        }
        if let Some(warn) = threshold.warn.filter(|warn| beyond(*warn)) {
            warnings.push(limit.violation(true, what, value, warn));
        }
        Ok(())
    }

    /// Refuses something that is not allowed, or warns of it. `feature` in place of the switch's own.
    fn ensure(
        &self,
        switch: Switch,
        feature: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        if !self.enabled(switch) {
            return violated(switch.violation(feature, "is not allowed"), warnings);
        }
        if self.warned(switch) {
            warnings.push(switch.violation(feature, "is not recommended"));
        }
        Ok(())
    }
}

fn set_member(set: &mut Vec<Switch>, switch: Switch, member: bool) {
    set.retain(|other| *other != switch);
    if member {
        set.push(switch);
    }
}

/// What is refused is also among the warnings.
fn violated(message: String, warnings: &mut Vec<String>) -> Result<(), CqlError> {
    warnings.push(message.clone());
    Err(CqlError::Invalid(message))
}

/// `Guardrail.decorateMessage`
fn violation(name: &str, message: &str, reason: Option<&str>) -> String {
    let end = match reason {
        None => String::new(),
        Some(reason) if message.ends_with('.') => format!(" {reason}"),
        Some(reason) => format!(". {reason}"),
    };
    format!("Guardrail {name} violated: {message}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_names_of_their_own() {
        let names: Vec<String> = Setting::all().map(Setting::name).collect();
        for (setting, name) in Setting::all().zip(&names) {
            assert_eq!(Setting::named(name), Some(setting));
        }
        for name in [
            "keyspaces_warn_threshold",
            "column_value_size_fail_threshold",
            "group_by_enabled",
            "simplestrategy_enabled",
            "zero_ttl_on_twcs_warned",
            "table_properties_ignored",
            "read_consistency_levels_disallowed",
            "partition_size_warn_threshold",
            "partition_tombstones_fail_threshold",
            "sai_sstable_indexes_per_query_warn_threshold",
            "data_disk_usage_percentage_fail_threshold",
            "data_disk_usage_max_disk_size",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        assert_eq!(Setting::named("read_consistency_levels_ignored"), None);
        assert_eq!(Setting::named("group_by_warned"), None);
    }

    #[test]
    fn thresholds_must_not_cross() {
        let mut guardrails = Guardrails::default();
        assert!(!guardrails.is_set());
        guardrails.set_warn(Limit::Tables, Some(10));
        guardrails.set_fail(Limit::Tables, Some(11));
        assert_eq!(guardrails.check(), Ok(()));
        guardrails.set_warn(Limit::Tables, Some(11));
        guardrails.set_warn(Limit::SaiStringTermSize, Some(3));
        guardrails.set_fail(Limit::SaiStringTermSize, Some(2));
        assert_eq!(guardrails.check(), Ok(()), "Cassandra takes them, too");
        guardrails.set_warn(Limit::MinimumReplicationFactor, Some(3));
        guardrails.set_fail(Limit::MinimumReplicationFactor, Some(3));
        assert_eq!(guardrails.check(), Ok(()));
        guardrails.set_warn(Limit::MinimumReplicationFactor, Some(2));
        guardrails.set_fail(Limit::MinimumReplicationFactor, Some(3));
        let crossed = guardrails.check().expect_err("a warning that never comes");
        assert_eq!(
            crossed.to_string(),
            "the warn threshold 2 for minimum_replication_factor_warn_threshold should be greater than \
             the fail threshold 3"
        );
        assert!(guardrails.is_set());
    }
}
