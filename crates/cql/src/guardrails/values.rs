//! Guardrails that name values (`Values`).

use super::{Guardrails, violated, violation};
use crate::CqlError;

/// What is done about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Clients are warned of it.
    Warned,
    /// It is left out, and clients are told.
    Ignored,
    /// It is refused.
    Disallowed,
}

impl Level {
    /// With which the name of the option ends.
    pub fn name(self) -> &'static str {
        match self {
            Level::Warned => "warned",
            Level::Ignored => "ignored",
            Level::Disallowed => "disallowed",
        }
    }
}

/// What the values are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Values {
    /// The options of tables and views, by name.
    TableProperties,
    /// The consistency levels of reads.
    ReadConsistencyLevels,
    /// The consistency levels of writes.
    WriteConsistencyLevels,
}

impl Values {
    /// All there are.
    pub const ALL: [Values; 3] = [
        Values::TableProperties,
        Values::ReadConsistencyLevels,
        Values::WriteConsistencyLevels,
    ];

    /// Its name, with which its options begin.
    pub fn name(self) -> &'static str {
        match self {
            Values::TableProperties => "table_properties",
            Values::ReadConsistencyLevels => "read_consistency_levels",
            Values::WriteConsistencyLevels => "write_consistency_levels",
        }
    }

    /// What can be done about its values.
    pub fn levels(self) -> &'static [Level] {
        match self {
            Values::TableProperties => &[Level::Warned, Level::Ignored, Level::Disallowed],
            Values::ReadConsistencyLevels | Values::WriteConsistencyLevels => {
                &[Level::Warned, Level::Disallowed]
            }
        }
    }

    fn what(self) -> &'static str {
        match self {
            Values::TableProperties => "Table Properties",
            Values::ReadConsistencyLevels => "read consistency levels",
            Values::WriteConsistencyLevels => "write consistency levels",
        }
    }
}

impl Guardrails {
    /// Warns of values or refuses them. Those that are to be left out.
    pub(super) fn guard_values(
        &self,
        values: Values,
        given: &[&str],
        warnings: &mut Vec<String>,
    ) -> Result<Vec<String>, CqlError> {
        let what = values.what();
        let found = |level: Level| {
            let listed = self.values(values, level);
            let mut found: Vec<String> = listed.to_vec();
            found.retain(|value| given.contains(&value.as_str()));
            found.sort_unstable();
            (!found.is_empty()).then(|| {
                let (found_list, listed) = (found.join(", "), listed.join(", "));
                (found, found_list, listed)
            })
        };
        let name = values.name();
        if let Some((_, found, listed)) = found(Level::Disallowed) {
            let message = format!(
                "Provided values [{found}] are not allowed for {what} (disallowed values are: [{listed}])"
            );
            violated(violation(name, &message, None), warnings)?;
        }
        let mut ignored = Vec::new();
        if let Some((values, found, listed)) = found(Level::Ignored) {
            let message = format!(
                "Ignoring provided values [{found}] as they are not supported for {what} (ignored \
                 values are: [{listed}])"
            );
            warnings.push(violation(name, &message, None));
            ignored = values;
        }
        if let Some((_, found, listed)) = found(Level::Warned) {
            let message = format!(
                "Provided values [{found}] are not recommended for {what} (warned values are: [{listed}])"
            );
            warnings.push(violation(name, &message, None));
        }
        Ok(ignored)
    }
}
