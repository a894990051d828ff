//! Any bytes taken as a component of an sstable: what its fuzz target does.

use bytes::Bytes;

use crate::compaction::transaction::{OnDisk, resolve};
use crate::sstable::decode_component as decode_sstable_component;

/// Reads any bytes as a component of an sstable, a chunk of its data, or the log of a compaction,
/// whichever the low four bits of `choice` name; the others name the version. Was it one? For
/// fuzzing.
#[doc(hidden)]
pub fn decode_component(choice: u8, bytes: &Bytes) -> bool {
    let (kind, version) = (choice & 15, choice >> 4);
    match kind {
        15 => {
            let on_disk = |prefix: &str| OnDisk {
                files: prefix.len() as i32,
                ..OnDisk::default()
            };
            resolve(bytes, on_disk).is_ok()
        }
        _ => decode_sstable_component(kind, version, bytes),
    }
}
