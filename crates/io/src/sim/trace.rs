//! The fingerprint of a run.

use std::hash::Hasher;

use crate::random::mix;

/// A hash of everything that happened, in order. Equal traces mean equal runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
}

impl Trace {
    pub(crate) fn number(&mut self, number: u64) {
        self.hash = mix(self.hash ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last));
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Hasher for Trace {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }
}
