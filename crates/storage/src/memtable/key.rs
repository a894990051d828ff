//! The key of a partition in memory.

use std::num::NonZeroU8;
use std::ops::Deref;

use super::allocated::allocated;

/// Keys of up to so many bytes lie within their partition: a key is 24 bytes then, with which a partition is 80, one of the
/// allocator's sizes.
const SHORT: usize = 23;

// No byte says which kind a key is: see `beyond`.
const _: () = assert!(size_of::<MemKey>() == 24);

/// A serialized key. Most are short: numbers, UUIDs, names. Then it takes no look elsewhere to compare one, which would be
/// one more line of memory to wait for in each look-up.
#[derive(Clone, Debug)]
pub(super) struct MemKey(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Short {
        /// One more than the length, so that it is never 0: that is what the compiler tells long ones by.
        beyond: NonZeroU8,
        bytes: [u8; SHORT],
    },
    Long(Box<[u8]>),
}

impl MemKey {
    /// A copy of the key.
    pub(super) fn new(key: &[u8]) -> MemKey {
        if key.len() > SHORT {
            return MemKey(Kept::Long(key.into()));
        }
        let mut bytes = [0; SHORT];
        bytes[..key.len()].copy_from_slice(key);
        let beyond = NonZeroU8::MIN.saturating_add(key.len() as u8);
        MemKey(Kept::Short { beyond, bytes })
    }

    /// Bytes of memory it takes elsewhere.
    pub(super) fn bytes_elsewhere(&self) -> usize {
        match &self.0 {
            Kept::Short { .. } => 0,
            Kept::Long(key) => allocated(key.len()),
        }
    }

    /// Asks for the memory it takes elsewhere.
    pub(super) fn prefetch(&self) {
        if let Kept::Long(key) = &self.0 {
            io::prefetch(&**key);
        }
    }
}

impl Deref for MemKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Short { beyond, bytes } => &bytes[..usize::from(beyond.get()) - 1],
            Kept::Long(key) => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_are_what_they_are_made_of() {
        let bytes: Vec<u8> = (1..=64).collect();
        for length in 0..=bytes.len() {
            let key = MemKey::new(&bytes[..length]);
            assert_eq!(key[..], bytes[..length]);
            assert_eq!(key.clone()[..], bytes[..length]);
            key.prefetch();
        }
    }

    #[test]
    fn short_ones_lie_nowhere_else() {
        assert_eq!(MemKey::new(&[7; 23]).bytes_elsewhere(), 0);
        assert_eq!(MemKey::new(&[7; 24]).bytes_elsewhere(), 32);
    }
}
