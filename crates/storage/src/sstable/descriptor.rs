//! The files of an sstable and their names.
//!
//! An sstable is a set of files, its *components*, in the folder of its table:
//! `<version>-<generation>-<format>-<component>`. It exists when its `Data.db` exists: the writer gives
//! that file its name last, so whatever else lies in the folder without one was left behind by a
//! crash.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::DecodeError;
use super::version::{Format, Version};

/// What distinguishes the sstables of a table: a number, or what Cassandra makes if
/// `uuid_sstable_identifiers_enabled` is set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// A number.
    Number(u64),
    /// A time-based id in Cassandra's base-36 form, such as `3gzg_0ewx_2wts02h8m1zp4qcm1d`.
    Time(Arc<str>),
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Generation::Number(number) => write!(f, "{number}"),
            Generation::Time(text) => f.write_str(text),
        }
    }
}

/// One of the files of an sstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Partitions, in ring order.
    Data,
    /// For each partition its place in the data, and for wide ones the places of their blocks.
    Index,
    /// In the BTI format, for each partition its place in the data or in `Rows.db`.
    Partitions,
    /// In the BTI format, for each wide partition the places of its blocks.
    Rows,
    /// For every 128th partition its place in the index.
    Summary,
    /// Bloom filter of the keys.
    Filter,
    /// What the sstable holds and how it is encoded.
    Statistics,
    /// Where the compressed chunks of the data are.
    CompressionInfo,
    /// Checksums of the chunks of data that is not compressed.
    Crc,
    /// Checksum of the whole data file.
    Digest,
    /// The list of the components.
    Toc,
    /// Our own: which shard of how many wrote it, and checksums of what has none.
    Helenus,
}

impl Component {
    /// All of them.
    pub const ALL: [Component; 12] = [
        Component::Data,
        Component::Index,
        Component::Partitions,
        Component::Rows,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::CompressionInfo,
        Component::Crc,
        Component::Digest,
        Component::Toc,
        Component::Helenus,
    ];

    /// The end of the file name.
    pub fn name(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Partitions => "Partitions.db",
            Component::Rows => "Rows.db",
            Component::Summary => "Summary.db",
            Component::Filter => "Filter.db",
            Component::Statistics => "Statistics.db",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Crc => "CRC.db",
            Component::Digest => "Digest.crc32",
            Component::Toc => "TOC.txt",
            Component::Helenus => "Helenus.db",
        }
    }
}

/// Where an sstable lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor {
    /// The folder of its table.
    pub dir: PathBuf,
    /// The version of its format.
    pub version: Version,
    /// What distinguishes it in its folder.
    pub generation: Generation,
}

/// The end of the name of a file that is being written.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

impl Descriptor {
    /// A new sstable, of the version of a format that is written.
    pub fn new(dir: impl Into<PathBuf>, format: Format, generation: u64) -> Descriptor {
        Descriptor {
            dir: dir.into(),
            version: format.written(),
            generation: Generation::Number(generation),
        }
    }

    /// The part of the file names that all components share.
    pub fn prefix(&self) -> String {
        let format = self.version.format().name();
        format!("{}-{}-{format}", self.version, self.generation)
    }

    /// The file of a component.
    pub fn path(&self, component: Component) -> PathBuf {
        self.path_named(component.name())
    }

    /// The file of a component of any name.
    pub fn path_named(&self, component: &str) -> PathBuf {
        self.dir.join(format!("{}-{component}", self.prefix()))
    }

    /// The name under which a component is written before the sstable exists.
    pub(crate) fn temporary_path(&self, component: Component) -> PathBuf {
        self.path_named(&format!("{}{TEMPORARY_SUFFIX}", component.name()))
    }

    /// Takes a file name apart: the sstable and the component's name. `None` for names that are
    /// not of an sstable of a version that can be read.
    pub fn parse<'a>(dir: &Path, file_name: &'a str) -> Option<(Descriptor, &'a str)> {
        let (version, rest) = file_name.split_once('-')?;
        let version = Version::from_letters(version)?;
        let (generation, rest) = rest.split_once('-')?;
        let component = rest.strip_prefix(version.format().name())?;
        let component = component.strip_prefix('-')?;
        let generation = match generation.parse::<u64>() {
            // What is not written as a number is would not be found again under its name.
            Ok(number) if number.to_string() == generation => Generation::Number(number),
            Err(_) if is_time_id(generation) => Generation::Time(generation.into()),
            _ => return None,
        };
        let descriptor = Descriptor {
            dir: dir.to_owned(),
            version,
            generation,
        };
        Some((descriptor, component))
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path(Component::Data).display())
    }
}

/// `TimeUUID.toSequentialString`-like ids: `3gzg_0ewx_2wts02h8m1zp4qcm1d`.
fn is_time_id(text: &str) -> bool {
    text.contains('_')
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The content of `TOC.txt`: one component's name a line.
pub(crate) fn encode_toc(components: &[Component]) -> Vec<u8> {
    let mut out = Vec::new();
    for component in components {
        out.extend(component.name().as_bytes());
        out.push(b'\n');
    }
    out
}

/// The names of the components in `TOC.txt`.
pub(crate) fn decode_toc(bytes: &[u8]) -> Result<Vec<String>, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Invalid("it is not text"))?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect())
}

/// Which shard of how many wrote an sstable: all its partitions are of that shard's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardOrigin {
    /// The shard.
    pub shard: u16,
    /// How many shards the node had.
    pub shards: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart_as_they_were_put_together() {
        let dir = Path::new("/data/ks/t-1");
        let descriptor = Descriptor::new(dir, Format::Big, 12);
        let path = descriptor.path(Component::CompressionInfo);
        assert_eq!(path, Path::new("/data/ks/t-1/nb-12-big-CompressionInfo.db"));
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        assert_eq!(
            Descriptor::parse(dir, name),
            Some((descriptor, "CompressionInfo.db"))
        );
        let timed = Descriptor::parse(dir, "oa-3gzg_0ewx_2wts02h8m1zp4qcm1d-big-Data.db");
        assert!(matches!(
            timed,
            Some((
                Descriptor {
                    generation: Generation::Time(_),
                    ..
                },
                "Data.db"
            ))
        ));
        let trie = Descriptor::new(dir, Format::Bti, 3);
        let name = "da-3-bti-Partitions.db";
        assert_eq!(Descriptor::parse(dir, name), Some((trie, "Partitions.db")));
        for other in [
            "nb-1-bti-Data.db",
            "da-1-big-Data.db",
            "zz-1-big-Data.db",
            "nb-01-big-Data.db",
            "nb-+1-big-Data.db",
            "manifest.json",
            "",
        ] {
            assert_eq!(Descriptor::parse(dir, other), None, "{other}");
        }
    }
}
