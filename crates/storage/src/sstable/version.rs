//! What each version of the formats has.

use std::fmt;

/// A version of Cassandra's sstable formats that can be read: all are of the BIG format but `da`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 3.0.8, 3.9
    Mc,
    /// 3.0.18, 3.11.4
    Md,
    /// 3.0.25, 3.11.11
    Me,
    /// 4.0-rc1
    Na,
    /// 4.0
    Nb,
    /// 5.0
    Oa,
    /// 5.0, BTI: what `oa` has, with tries for indexes.
    Da,
}

/// The two formats, as file names and `sstable_format` call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An index of all keys, and a sample of it in memory.
    Big,
    /// Tries.
    Bti,
}

impl Format {
    /// Its name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Format::Big => "big",
            Format::Bti => "bti",
        }
    }

    /// The version of it that is written.
    pub fn written(self) -> Version {
        match self {
            Format::Big => Version::Nb,
            Format::Bti => Version::Da,
        }
    }
}

/// What distinguishes the versions, as in Cassandra's `BigFormat.BigVersion` and `BtiFormat.BtiVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    /// The minimum and maximum of the clusterings can be relied upon.
    pub accurate_min_max: bool,
    /// The statistics name the node that wrote the sstable.
    pub originating_host: bool,
    /// Chunks that do not compress well are kept as they are.
    pub max_compressed_length: bool,
    /// The statistics say in which repair session it is, and whether it is transient.
    pub repair_session: bool,
    /// The statistics have checksums.
    pub metadata_checksum: bool,
    /// The words of the bloom filter are big-endian.
    pub big_endian_filter: bool,
    /// The statistics hold a slice and types instead of two lists of values; they know about
    /// partition deletions, the key range and the coverage of the token space; deletion times
    /// are unsigned.
    pub v5_statistics: bool,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Version; 7] = [
        Version::Mc,
        Version::Md,
        Version::Me,
        Version::Na,
        Version::Nb,
        Version::Oa,
        Version::Da,
    ];

    /// The letters in file names.
    pub fn letters(self) -> &'static str {
        match self {
            Version::Mc => "mc",
            Version::Md => "md",
            Version::Me => "me",
            Version::Na => "na",
            Version::Nb => "nb",
            Version::Oa => "oa",
            Version::Da => "da",
        }
    }

    /// The version of these letters.
    pub fn from_letters(letters: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|v| v.letters() == letters)
    }

    /// The format that it is a version of.
    pub fn format(self) -> Format {
        match self {
            Version::Da => Format::Bti,
            _ => Format::Big,
        }
    }

    pub(crate) fn features(self) -> Features {
        Features {
            accurate_min_max: self >= Version::Md,
            originating_host: self == Version::Me || self >= Version::Nb,
            max_compressed_length: self >= Version::Na,
            repair_session: self >= Version::Na,
            metadata_checksum: self >= Version::Na,
            big_endian_filter: self < Version::Na,
            v5_statistics: self >= Version::Oa,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letters())
    }
}
