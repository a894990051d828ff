//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte chooses the component and the version it is of, as
//! `storage::decode_component` says.

use bytes::Bytes;

use super::sstable_checksums as checksums;

/// Reads the input as the component that its first byte says.
pub(super) fn run(data: &[u8]) {
    const STATISTICS: u8 = 0;
    let [choice, data @ ..] = data else {
        return;
    };
    storage::decode_component(*choice, &Bytes::copy_from_slice(data));
    if choice & 15 == STATISTICS {
        let mut data = data.to_vec();
        checksums::statistics(&mut data);
        storage::decode_component(*choice, &data.into());
    }
}
