//! Guardrails in the configuration file, under their names in `cassandra.yaml`.

use std::time::Duration;

use cluster::Consistency;
use cql::guardrails::{Guardrails, Limit, Setting, Unit, Values};

use crate::config_file::Value;
use crate::options::values::{duration, truth};
use crate::size;

/// Sets what an option of a guardrail says.
///
/// # Errors
/// The value is none of the option's, and how one looks.
pub(crate) fn set(
    guardrails: &mut Guardrails,
    setting: Setting,
    value: &Value,
) -> Result<(), String> {
    match setting {
        Setting::Warn(limit) => guardrails.set_warn(limit, threshold(limit, &value.text()?)?),
        Setting::Fail(limit) => guardrails.set_fail(limit, threshold(limit, &value.text()?)?),
        Setting::Enabled(switch) => guardrails.set_enabled(switch, truth(&value.text()?)?),
        Setting::Warned(switch) => guardrails.set_warned(switch, truth(&value.text()?)?),
        Setting::Listed(values, level) => {
            guardrails.set_values(values, level, names(values, value)?);
        }
        Setting::MaxDiskSize => guardrails.set_max_disk_size(bytes(&value.text()?)?),
    }
    Ok(())
}

fn is_nothing(text: &str) -> bool {
    text.is_empty() || text == "null"
}

/// Bytes; none where it is switched off.
fn bytes(text: &str) -> Result<Option<u64>, String> {
    match is_nothing(text) {
        true => Ok(None),
        false => size::parse(text).map(Some),
    }
}

/// Bytes, microseconds, a share of a hundred, or how many; none where it is switched off.
fn threshold(limit: Limit, text: &str) -> Result<Option<u64>, String> {
    if is_nothing(text) {
        return Ok(None);
    }
    match limit.unit() {
        Unit::Percentage if text.parse().is_ok_and(|share: i64| share > 100) => {
            Err(format!("`{text}` is more than 100"))
        }
        Unit::Count | Unit::Percentage => match text.parse() {
            Ok(-1) => Ok(None),
            Ok(0) => Err("0 is not allowed; -1 switches it off".to_owned()),
            Ok(count) => {
                let count = u64::try_from(count).ok();
                count
                    .map(Some)
                    .ok_or_else(|| format!("`{text}` is too few"))
            }
            Err::<i64, _>(_) => Err(format!("`{text}` is no number")),
        },
        Unit::Size => bytes(text),
        Unit::Time => {
            let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            duration(text).map(|time| Some(micros(time)))
        }
    }
}

/// A list, or text with commas.
fn names(values: Values, value: &Value) -> Result<Vec<String>, String> {
    let texts = match value {
        Value::List(list) => list
            .iter()
            .map(Value::text)
            .collect::<Result<Vec<_>, _>>()?,
        single => single
            .text()?
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
    };
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    let mut names: Vec<String> = texts
        .map(|text| name(values, &text))
        .collect::<Result<_, _>>()?;
    if values != Values::TableProperties {
        // As messages list them, whatever the order they were given in.
        names.sort_by_key(|name| name.parse().map(Consistency::code).unwrap_or(u16::MAX));
    }
    Ok(names)
}

fn name(values: Values, text: &str) -> Result<String, String> {
    match values {
        Values::TableProperties => {
            let name = text.to_ascii_lowercase();
            match cql::schema::is_table_option(&name) {
                true => Ok(name),
                false => Err(format!("`{text}` is no property of a table")),
            }
        }
        Values::ReadConsistencyLevels | Values::WriteConsistencyLevels => {
            let level: Consistency = text.parse().map_err(|_| {
                format!("`{text}` is no consistency level; one looks like LOCAL_QUORUM")
            })?;
            Ok(level.name().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cql::guardrails::{Level, Switch};

    use super::*;
    use crate::config_file::parse;

    fn read(text: &str) -> Result<Guardrails, String> {
        let options = parse(Path::new("h.yaml"), text).map_err(|error| error.to_string())?;
        Ok(options.guardrails)
    }

    #[test]
    fn guardrails_are_read_as_cassandra_writes_them() {
        let read = read(
            "tables_warn_threshold: 150\ntables_fail_threshold: -1\n\
             column_value_size_fail_threshold: 10MiB\nmaximum_timestamp_warn_threshold: 1d\n\
             group_by_enabled: false\nzero_ttl_on_twcs_warned: true\n\
             table_properties_disallowed: [cdc, comment, cdc]\n\
             write_consistency_levels_warned: any, All\ncollection_size_warn_threshold:\n\
             partition_size_warn_threshold: 100MiB\npartition_tombstones_fail_threshold: 100000\n\
             sai_sstable_indexes_per_query_warn_threshold: -1\n\
             data_disk_usage_percentage_fail_threshold: 90\ndata_disk_usage_max_disk_size: 1TiB\n",
        )
        .expect("it is good");
        let mut expected = Guardrails::default();
        expected.set_warn(Limit::Tables, Some(150));
        expected.set_fail(Limit::Tables, None);
        expected.set_fail(Limit::ColumnValueSize, Some(10 << 20));
        expected.set_warn(Limit::MaximumTimestamp, Some(86_400_000_000));
        expected.set_warn(Limit::CollectionSize, None);
        expected.set_warn(Limit::PartitionSize, Some(100 << 20));
        expected.set_fail(Limit::PartitionTombstones, Some(100_000));
        expected.set_warn(Limit::SaiSstableIndexesPerQuery, None);
        expected.set_fail(Limit::DataDiskUsagePercentage, Some(90));
        expected.set_max_disk_size(Some(1 << 40));
        expected.set_enabled(Switch::GroupBy, false);
        expected.set_warned(Switch::ZeroTtlOnTwcs, true);
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let properties = Values::TableProperties;
        expected.set_values(properties, Level::Disallowed, list(&["cdc", "comment"]));
        let levels = Values::WriteConsistencyLevels;
        expected.set_values(levels, Level::Warned, list(&["ANY", "ALL"]));
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, message) in [
            (
                "tables_warn_threshold: 0",
                "h.yaml: tables_warn_threshold: 0 is not allowed; -1 switches it off",
            ),
            (
                "data_disk_usage_percentage_warn_threshold: 101",
                "h.yaml: data_disk_usage_percentage_warn_threshold: `101` is more than 100",
            ),
            (
                "tables_warn_treshold: 1",
                "h.yaml: unknown option `tables_warn_treshold`; did you mean `tables_warn_threshold`?",
            ),
            (
                "table_properties_warned: [x]",
                "h.yaml: table_properties_warned: `x` is no property of a table",
            ),
            (
                "read_consistency_levels_warned: most",
                "h.yaml: read_consistency_levels_warned: `most` is no consistency level; one looks like \
                 LOCAL_QUORUM",
            ),
            (
                "group_by_enabled: perhaps",
                "h.yaml: group_by_enabled: `perhaps` is neither true nor false",
            ),
        ] {
            assert_eq!(read(text), Err(message.to_owned()));
        }
    }
}
