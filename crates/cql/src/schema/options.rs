//! The options of tables (`TableAttributes`, `TableParams`).

use std::collections::BTreeMap;

use model::{Schema, TableId, TableOptions};

use super::properties::Properties;
use super::{compaction, compression, retry};
use crate::CqlError;
use crate::functions::double_text;

const NAMES: &[&str] = &[
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];

/// The configurations of the `cassandra.yaml` that Cassandra comes with.
/// Is this the name of an option of tables?
pub fn is_table_option(name: &str) -> bool {
    NAMES.contains(&name)
}

const MEMTABLES: [&str; 3] = ["default", "skiplist", "trie"];

/// Twenty years: longer ones overflow in files of old formats (`Attributes.MAX_TTL`).
const MAX_TTL: i32 = 20 * 365 * 24 * 60 * 60;

/// The lowest false positive chance a bloom filter of Cassandra can have
/// (`BloomCalculations.minSupportedBloomFilterFpChance`).
const MIN_FP_CHANCE: f64 = 6.71e-5;

/// What stands for the chance that goes with the compaction (`TableParams`).
const UNSET_FP_CHANCE: f64 = -1.0;

fn refuse<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Config(message))
}

/// The false positive chance of bloom filters that goes with the compaction.
fn default_fp_chance(options: &TableOptions) -> f64 {
    if compaction::is_leveled(&options.compaction) {
        0.1
    } else {
        TableOptions::default().bloom_filter_fp_chance
    }
}

/// The options of a new table.
pub(super) fn create(properties: &Properties) -> Result<TableOptions, CqlError> {
    properties.check_names(NAMES)?;
    let mut options = TableOptions::default();
    apply(&mut options, properties)?;
    if !properties.has("bloom_filter_fp_chance") {
        options.bloom_filter_fp_chance = default_fp_chance(&options);
    }
    validate(&options)?;
    Ok(options)
}

/// The options of a table that had `previous` ones.
pub(super) fn alter(
    previous: &TableOptions,
    properties: &Properties,
) -> Result<TableOptions, CqlError> {
    create(properties)?;
    if properties.has("id") {
        id(properties)?;
        return refuse("Cannot alter table id.".to_owned());
    }
    let mut options = previous.clone();
    apply(&mut options, properties)?;
    validate(&options)?;
    Ok(options)
}

/// Have they possible values? Whether there are such options, and whether they fit together, is
/// looked at together with the table; what is within `compaction`, too, but for its class.
pub(super) fn check_form(properties: &Properties) -> Result<(), CqlError> {
    apply_with(
        &mut TableOptions::default(),
        properties,
        compaction::class_of,
    )
}

/// Refuses memtable configurations that nobody knows. They mean nothing here, but a schema that
/// Cassandra made names them, and what is copied from it must be taken.
pub(super) fn check_memtable(schema: &Schema, properties: &Properties) -> Result<(), CqlError> {
    let Some(name) = properties.text("memtable")? else {
        return Ok(());
    };
    let mut tables = schema.keyspaces.values().flat_map(|k| k.tables.values());
    if MEMTABLES.contains(&name) || tables.any(|table| table.options.memtable == name) {
        return Ok(());
    }
    refuse(format!("Memtable configuration \"{name}\" not found."))
}

/// The id that `WITH id = …` gives a new table.
pub(super) fn id(properties: &Properties) -> Result<Option<TableId>, CqlError> {
    properties
        .text("id")?
        .map(|text| {
            TableId::try_parse(text).map_err(|_| CqlError::Config("Invalid table id".to_owned()))
        })
        .transpose()
}

fn set<T>(target: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *target = value;
    }
}

fn apply(options: &mut TableOptions, given: &Properties) -> Result<(), CqlError> {
    apply_with(options, given, compaction::normalize)
}

/// What a map of options comes to.
type Normalize = fn(&BTreeMap<String, String>) -> Result<BTreeMap<String, String>, CqlError>;

fn apply_with(
    options: &mut TableOptions,
    given: &Properties,
    compaction: Normalize,
) -> Result<(), CqlError> {
    let o = options;
    set(
        &mut o.allow_auto_snapshot,
        given.boolean("allow_auto_snapshot")?,
    );
    set(
        &mut o.bloom_filter_fp_chance,
        given.double("bloom_filter_fp_chance")?,
    );
    if let Some(map) = given.map("caching")? {
        o.caching = caching(map)?;
    }
    set(&mut o.comment, given.text("comment")?.map(str::to_owned));
    if let Some(map) = given.map("compaction")? {
        o.compaction = compaction(map)?;
    }
    if let Some(map) = given.map("compression")? {
        o.compression = compression::normalize(map)?;
    }
    set(&mut o.memtable, given.text("memtable")?.map(str::to_owned));
    set(
        &mut o.default_time_to_live,
        given.int("default_time_to_live")?,
    );
    set(&mut o.gc_grace_seconds, given.int("gc_grace_seconds")?);
    set(
        &mut o.incremental_backups,
        given.boolean("incremental_backups")?,
    );
    set(&mut o.max_index_interval, given.int("max_index_interval")?);
    set(
        &mut o.memtable_flush_period_in_ms,
        given.int("memtable_flush_period_in_ms")?,
    );
    set(&mut o.min_index_interval, given.int("min_index_interval")?);
    if let Some(text) = given.text("speculative_retry")? {
        o.speculative_retry = retry::normalize(text)?;
    }
    if let Some(text) = given.text("additional_write_policy")? {
        o.additional_write_policy = retry::normalize(text)?;
    }
    set(&mut o.crc_check_chance, given.double("crc_check_chance")?);
    set(&mut o.cdc, given.boolean("cdc")?);
    if let Some(text) = given.text("read_repair")? {
        o.read_repair = read_repair(text)?;
    }
    if o.bloom_filter_fp_chance == UNSET_FP_CHANCE {
        o.bloom_filter_fp_chance = default_fp_chance(o);
    }
    Ok(())
}

/// What is not named is not cached (`CachingParams.fromMap`).
fn caching(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, CqlError> {
    let mut full = TableOptions::default().caching;
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|name| !full.contains_key(*name))
        .collect();
    if !unknown.is_empty() {
        return refuse(format!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            unknown.join(", ")
        ));
    }
    if let Some(text) = given.get("keys") {
        let upper = text.to_uppercase();
        if upper != "ALL" && upper != "NONE" {
            return refuse(format!(
                "Invalid value '{text}' for caching sub-option 'keys': only 'ALL' and 'NONE' are \
                 allowed"
            ));
        }
        full.insert("keys".to_owned(), upper);
    } else {
        full.insert("keys".to_owned(), "NONE".to_owned());
    }
    if let Some(text) = given.get("rows_per_partition") {
        let upper = text.to_uppercase();
        let is_number =
            text.parse::<i32>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit());
        if upper != "ALL" && upper != "NONE" && !is_number {
            return refuse(format!(
                "Invalid value '{text}' for caching sub-option 'rows_per_partition': only 'ALL', \
                 'NONE', and integer values are allowed"
            ));
        }
        full.insert("rows_per_partition".to_owned(), upper);
    }
    Ok(full)
}

fn read_repair(text: &str) -> Result<String, CqlError> {
    let upper = text.to_uppercase();
    if upper == "NONE" || upper == "BLOCKING" {
        return Ok(upper);
    }
    // Cassandra fails with a server error here.
    refuse(format!(
        "Invalid value {text} for option 'read_repair': only 'NONE' and 'BLOCKING' are allowed"
    ))
}

fn validate(options: &TableOptions) -> Result<(), CqlError> {
    let chance = options.bloom_filter_fp_chance;
    if !(chance > MIN_FP_CHANCE && chance <= 1.0) {
        return refuse(format!(
            "bloom_filter_fp_chance must be larger than {} and less than or equal to 1.0 (got {})",
            double_text(MIN_FP_CHANCE),
            double_text(chance)
        ));
    }
    let chance = options.crc_check_chance;
    if !(0.0..=1.0).contains(&chance) {
        return refuse(format!(
            "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 \
             (got {})",
            double_text(chance)
        ));
    }
    at_least("default_time_to_live", options.default_time_to_live, 0)?;
    if options.default_time_to_live > MAX_TTL {
        return refuse(format!(
            "default_time_to_live must be less than or equal to {MAX_TTL} (got {})",
            options.default_time_to_live
        ));
    }
    at_least("gc_grace_seconds", options.gc_grace_seconds, 0)?;
    at_least("min_index_interval", options.min_index_interval, 1)?;
    if options.max_index_interval < options.min_index_interval {
        return refuse(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({}) (got {})",
            options.min_index_interval, options.max_index_interval
        ));
    }
    at_least(
        "memtable_flush_period_in_ms",
        options.memtable_flush_period_in_ms,
        0,
    )
}

fn at_least(name: &str, value: i32, least: i32) -> Result<(), CqlError> {
    if value < least {
        return refuse(format!(
            "{name} must be greater than or equal to {least} (got {value})"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::super::SchemaPlan;
    use super::*;

    fn apply(schema: &Schema, text: &str) -> Result<Schema, CqlError> {
        let plan = SchemaPlan::new(&crate::parse(text)?, Some("k"))?;
        let ids = || Uuid::from_u128(schema.keyspaces["k"].tables.len() as u128);
        let change = plan
            .expect("it changes the schema")
            .apply(schema, ids, 1, &["dc"])?;
        Ok(change.schema)
    }

    #[test]
    fn memtable_configurations_of_cassandra_are_taken() {
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy'}";
        let mut schema = apply(&Schema::default(), keyspace).unwrap();
        for (table, memtable) in [("a", "trie"), ("b", "skiplist"), ("c", "default")] {
            let create =
                format!("CREATE TABLE {table} (k int PRIMARY KEY) WITH memtable = '{memtable}'");
            schema = apply(&schema, &create).unwrap();
            assert_eq!(schema.table("k", table).unwrap().options.memtable, memtable);
        }
        let alter = "ALTER TABLE a WITH memtable = 'sharded'";
        let unknown = CqlError::Config("Memtable configuration \"sharded\" not found.".to_owned());
        assert_eq!(apply(&schema, alter), Err(unknown));

        // As it was read of a folder whose Cassandra has one of this name.
        let keyspace = Arc::make_mut(schema.keyspaces.get_mut("k").unwrap());
        let table = Arc::make_mut(keyspace.tables.get_mut("b").unwrap());
        table.options.memtable = "sharded".to_owned();
        let schema = apply(&schema, alter).unwrap();
        assert_eq!(schema.table("k", "a").unwrap().options.memtable, "sharded");
    }
}
