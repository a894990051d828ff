//! The options of `compaction = {…}`, as the strategies read them. The statement that sets them has
//! checked them; one that cannot be read has its default.

use std::collections::BTreeMap;

use model::TableOptions;

/// Options by name.
pub(crate) type Map = BTreeMap<String, String>;

/// The value of an option.
pub(crate) fn option<T: std::str::FromStr>(map: &Map, name: &str, default: T) -> T {
    map.get(name)
        .and_then(|text| text.trim().to_ascii_lowercase().parse().ok())
        .unwrap_or(default)
}

/// A size such as `1.5 GiB`, in bytes.
pub(crate) fn bytes(map: &Map, name: &str, default: u64) -> u64 {
    let size = map.get(name).and_then(|text| model::parse_size(text).ok());
    size.map_or(default, |size| size as u64)
}

/// What all strategies understand (`AbstractCompactionStrategy`), and the thresholds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommonOptions {
    /// `enabled`: may the table be compacted by itself?
    pub(crate) enabled: bool,
    /// `min_threshold`: how many files make a bucket worth compacting.
    pub(crate) min_threshold: usize,
    /// `max_threshold`: how many files are compacted at once at most.
    pub(crate) max_threshold: usize,
    /// `tombstone_threshold`: from this share of droppable tombstones a file is rewritten alone.
    pub(crate) tombstone_threshold: f64,
    /// `tombstone_compaction_interval`, in seconds: a file must be this old for that.
    pub(crate) tombstone_compaction_interval: u64,
    /// `unchecked_tombstone_compaction`: also if overlapping files may keep them from going?
    pub(crate) unchecked_tombstone_compaction: bool,
    /// `only_purge_repaired_tombstones`: it forbids purging unless all that is compacted is
    /// repaired.
    pub(crate) only_purge_repaired_tombstones: bool,
    /// `provide_overlapping_tombstones`: what do compactions drop that is covered by what other
    /// sstables hold?
    pub(crate) provide_overlapping_tombstones: Option<Granularity>,
}

/// What is dropped because of what other sstables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// What deletions of partitions, ranges and rows cover.
    Row,
    /// That, and cells that were overwritten or deleted.
    Cell,
}

impl CommonOptions {
    pub(crate) fn of(options: &TableOptions) -> CommonOptions {
        let map = &options.compaction;
        CommonOptions {
            enabled: option(map, "enabled", true),
            min_threshold: option::<usize>(map, "min_threshold", 4).max(2),
            max_threshold: option::<usize>(map, "max_threshold", 32).max(2),
            tombstone_threshold: option(map, "tombstone_threshold", 0.2),
            tombstone_compaction_interval: option(map, "tombstone_compaction_interval", 86_400),
            unchecked_tombstone_compaction: option(map, "unchecked_tombstone_compaction", false),
            only_purge_repaired_tombstones: option(map, "only_purge_repaired_tombstones", false),
            provide_overlapping_tombstones: match map
                .get("provide_overlapping_tombstones")
                .map(|text| text.to_uppercase())
                .as_deref()
            {
                Some("ROW") => Some(Granularity::Row),
                Some("CELL") => Some(Granularity::Cell),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Options for the tests of the strategies.

    use super::*;

    /// The options of a table with this strategy (its class without the package).
    pub(crate) fn options(class: &str, pairs: &[(&str, &str)]) -> TableOptions {
        let mut table = TableOptions::default();
        let class = format!("org.apache.cassandra.db.compaction.{class}");
        table.compaction.insert("class".to_owned(), class);
        let given = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        table.compaction.extend(given);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("1GiB", 1 << 30),
            ("1.5 MiB", 3 << 19),
            ("100MB", 99_999_999),
            ("7B", 7),
            (" 7B", 9),
            ("nonsense", 9),
        ] {
            let map = Map::from([("size".to_owned(), text.to_owned())]);
            assert_eq!(bytes(&map, "size", 9), expected, "{text}");
        }
    }
}
