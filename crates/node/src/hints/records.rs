//! The files of hints, as bytes.
//!
//! ```text
//! file   = "HLNH", version u16, host id of the node that it is for [16], hint*
//! hint   = length of the rest u32, CRC32 of the rest u32, made at i64 (milliseconds since 1970), mutation
//! ```
//!
//! All numbers are big-endian; a mutation is as between nodes, with the names of its columns. A file whose
//! node was killed ends anywhere: what is behind the last whole hint was not acknowledged by anybody who
//! relied on it.

use bytes::{Buf, Bytes};
use uuid::Uuid;

const MAGIC: [u8; 4] = *b"HLNH";
const VERSION: u16 = 1;
/// Bytes of a file's head.
pub(super) const HEAD: usize = 22;
/// Bytes of a hint before its mutation.
const HINT_HEAD: usize = 16;

/// A write that a node missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    /// Since when others have it, in milliseconds since 1970.
    pub(super) made_at: i64,
    /// The write, encoded.
    pub(super) mutation: Bytes,
}

/// The head of a file of hints for a node.
pub(super) fn head(host_id: Uuid) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&VERSION.to_be_bytes());
    head.extend_from_slice(host_id.as_bytes());
    head
}

impl Hint {
    /// Bytes that it takes in a file.
    pub(super) fn bytes(&self) -> usize {
        HINT_HEAD + self.mutation.len()
    }

    /// Appends it.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let mut checked = crc32fast::Hasher::new();
        checked.update(&self.made_at.to_be_bytes());
        checked.update(&self.mutation);
        let length = (8 + self.mutation.len()) as u32;
        into.extend_from_slice(&length.to_be_bytes());
        into.extend_from_slice(&checked.finalize().to_be_bytes());
        into.extend_from_slice(&self.made_at.to_be_bytes());
        into.extend_from_slice(&self.mutation);
    }
}

/// For which node a file is; `None` if it is no file of hints that this version knows.
pub(super) fn read_head(file: &mut Bytes) -> Option<Uuid> {
    let head = file.first_chunk::<HEAD>()?;
    if head[..4] != MAGIC || head[4..6] != VERSION.to_be_bytes() {
        return None;
    }
    let host_id = Uuid::from_slice(&head[6..]).ok()?;
    file.advance(HEAD);
    Some(host_id)
}

/// The next hint; `None` where the file ends, or is damaged: `file` has what is left then.
pub(super) fn next_hint(file: &mut Bytes) -> Option<Hint> {
    let head = file.first_chunk::<8>()?;
    let number =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (length, check) = (number(0) as usize, number(4));
    if length < 8 || file.len() - 8 < length {
        return None;
    }
    let mut hint = file.slice(8..8 + length);
    if crc32fast::hash(&hint) != check {
        return None;
    }
    file.advance(8 + length);
    let made_at = hint.get_i64();
    Some(Hint {
        made_at,
        mutation: hint,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hints() -> impl Strategy<Value = Vec<Hint>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..40);
        let hint = (any::<i64>(), bytes).prop_map(|(made_at, mutation)| Hint {
            made_at,
            mutation: mutation.into(),
        });
        prop::collection::vec(hint, 0..6)
    }

    fn file(hints: &[Hint]) -> Vec<u8> {
        let mut file = head(Uuid::from_u128(7));
        for hint in hints {
            let before = file.len();
            hint.encode(&mut file);
            assert_eq!(file.len() - before, hint.bytes());
        }
        file
    }

    fn read(file: Vec<u8>) -> Option<Vec<Hint>> {
        let mut file = Bytes::from(file);
        assert_eq!(read_head(&mut file)?, Uuid::from_u128(7));
        Some(std::iter::from_fn(|| next_hint(&mut file)).collect())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(hints in hints()) {
            prop_assert_eq!(read(file(&hints)), Some(hints));
        }

        #[test]
        fn a_file_that_was_cut_off_has_the_hints_before(hints in hints(), cut: prop::sample::Index) {
            let whole = file(&hints);
            let cut = cut.index(whole.len() + 1);
            match read(whole[..cut].to_vec()) {
                None => prop_assert!(cut < HEAD),
                Some(read) => prop_assert_eq!(&read[..], &hints[..read.len()]),
            }
        }

        #[test]
        fn no_bit_makes_another_hint(
            hints in hints(),
            at: prop::sample::Index,
            bit in 0..8u8,
        ) {
            let mut damaged = file(&hints);
            let at = HEAD + at.index((damaged.len() - HEAD).max(1));
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= 1 << bit;
            }
            let read = read(damaged).unwrap_or_default();
            prop_assert!(hints.starts_with(&read));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut file = Bytes::from(bytes);
            let _ = read_head(&mut file);
            while next_hint(&mut file).is_some() {}
        }
    }
}
