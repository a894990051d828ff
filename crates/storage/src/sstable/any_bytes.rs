//! Any bytes taken as a component, for fuzzing. The tries of the BTI format, rows and blocks of
//! indexes are read through files only, so they are not here: whole sstables are fuzzed as well.

use std::path::Path;

use bytes::Bytes;

use super::big::index::IndexEntry;
use super::big::summary::Summary;
use super::chunked_file::Checksums;
use super::compression::{Algorithm, CompressionInfo, Decompressor};
use super::descriptor::{Component, Descriptor, decode_toc};
use super::filter::BloomFilter;
use super::input::Input;
use super::seal::Seal;
use super::statistics::{Statistics, mutate};
use super::version::Version;

/// The longest chunk that is asked for, in bytes: longer ones are slow and show nothing new.
const CHUNK: usize = 16 << 10;

/// Reads bytes as the component of this number, of the version of that one. Was it one?
pub(crate) fn decode_component(kind: u8, version: u8, bytes: &Bytes) -> bool {
    let version = Version::ALL[usize::from(version) % Version::ALL.len()];
    match kind {
        0 => statistics(bytes, version),
        1 => index(bytes),
        2 => summary(bytes),
        3 => filter(bytes, version),
        4 => {
            let mut input = Input::new(bytes);
            CompressionInfo::decode(&mut input, version).is_ok_and(|info| info.is_ok())
        }
        5 => Checksums::decode(bytes).is_ok(),
        6 => decode_toc(bytes).is_ok(),
        7 => seal(bytes),
        8 => name(bytes),
        9 => chunk(Algorithm::Lz4, bytes),
        10 => chunk(Algorithm::Snappy, bytes),
        11 => chunk(Algorithm::Deflate, bytes),
        12 => chunk(Algorithm::Zstd { level: 3 }, bytes),
        _ => chunk(Algorithm::Noop, bytes),
    }
}

fn statistics(bytes: &Bytes, version: Version) -> bool {
    let mutated = mutate(bytes, version, (true, true));
    let Ok(statistics) = Statistics::decode(bytes, version) else {
        return false;
    };
    statistics.estimated_keys();
    statistics.stats.droppable_tombstone_ratio(i64::MAX);
    statistics.stats.partition_sizes.count();
    if let Ok(mutated) = mutated {
        let again = Statistics::decode(&mutated.into(), version);
        assert!(again.is_ok_and(|again| again.header == statistics.header));
    }
    true
}

fn index(bytes: &Bytes) -> bool {
    let mut input = Input::new(bytes);
    while input.remaining() > 0 {
        let Ok(entry) = IndexEntry::decode(&mut input) else {
            return false;
        };
        if input.take(entry.promoted_length).is_err() {
            return false;
        }
    }
    true
}

fn summary(bytes: &Bytes) -> bool {
    let Ok(summary) = Summary::decode(bytes, 1 << 20) else {
        return false;
    };
    for key in [&summary.first, &summary.last] {
        summary.range_of(key);
        summary.position_before(key.token());
    }
    true
}

fn filter(bytes: &Bytes, version: Version) -> bool {
    let Ok(filter) = BloomFilter::decode(bytes.clone(), version) else {
        return false;
    };
    for hash in [[0, 0], [i64::MIN, i64::MIN], [-1, i64::MAX]] {
        filter.may_contain(hash);
    }
    true
}

fn seal(bytes: &Bytes) -> bool {
    let Some(seal) = Seal::decode(bytes) else {
        return false;
    };
    for component in Component::ALL {
        seal.fits(component, bytes);
        seal.pieces(component);
    }
    true
}

fn name(bytes: &Bytes) -> bool {
    let Ok(name) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Some((descriptor, component)) = Descriptor::parse(Path::new(""), name) else {
        return false;
    };
    // Files are found again by the name that is made of what was read.
    assert_eq!(descriptor.path_named(component), Path::new(name));
    true
}

/// The first two bytes are the length of the chunk.
fn chunk(algorithm: Algorithm, bytes: &Bytes) -> bool {
    let [high, low, compressed @ ..] = &bytes[..] else {
        return false;
    };
    let length = usize::from(u16::from_be_bytes([*high, *low])) % (CHUNK + 1);
    let chunk = Decompressor::new(algorithm).decompress(compressed, length);
    chunk.is_ok_and(|chunk| {
        assert_eq!(chunk.len(), length);
        true
    })
}
