//! `Summary.db`: a sample of the index that is kept in memory.
//!
//! Every 128th key (or, after down-sampling, fewer) with its place in `Index.db`, and the first
//! and last key. The numbers inside the sample are little-endian, as Cassandra writes them on the
//! machines it runs on (`org.apache.cassandra.io.sstable.indexsummary.IndexSummary`).

use bytes::Bytes;
use model::{DecoratedKey, Token};

use crate::sstable::error::DecodeError;
use crate::sstable::input::Input;

/// The interval at full sampling (`min_index_interval`'s default, `BASE_SAMPLING_LEVEL`).
pub(crate) const BASE_SAMPLING_LEVEL: u32 = 128;

/// A sample of the index.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// The tokens of the sampled keys: what a search compares first, packed closely.
    tokens: Vec<i64>,
    /// The keys and their places in the index.
    entries: Vec<(Bytes, u64)>,
    /// The first key of the sstable.
    pub(crate) first: DecoratedKey,
    /// The last key of the sstable.
    pub(crate) last: DecoratedKey,
}

impl Summary {
    /// From samples in order; the first one must be the first key of the index.
    pub(crate) fn new(
        samples: Vec<(DecoratedKey, u64)>,
        first: DecoratedKey,
        last: DecoratedKey,
    ) -> Summary {
        Summary {
            tokens: samples.iter().map(|(key, _)| key.token().0).collect(),
            entries: samples
                .into_iter()
                .map(|(key, position)| (key.key().clone(), position))
                .collect(),
            first,
            last,
        }
    }

    /// Between which places of the index `key` must be, if it is there at all: that of the last
    /// sample not after it, and that of the next sample. `None` if it is before all.
    pub(crate) fn range_of(&self, key: &DecoratedKey) -> Option<(u64, Option<u64>)> {
        let token = key.token().0;
        // Tokens collide practically never; keys decide where they do.
        let mut after = self.tokens.partition_point(|t| *t < token);
        while after < self.tokens.len()
            && self.tokens[after] == token
            && self.entries[after].0 <= *key.key()
        {
            after += 1;
        }
        let at = after.checked_sub(1)?;
        Some((self.entries[at].1, self.entries.get(after).map(|e| e.1)))
    }

    /// The place of the last sample before all keys of `token`, or the beginning.
    pub(crate) fn position_before(&self, token: Token) -> u64 {
        let after = self.tokens.partition_point(|t| *t < token.0);
        after.checked_sub(1).map_or(0, |at| self.entries[at].1)
    }

    /// How much memory it takes, roughly, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.entries
            .iter()
            .map(|(key, _)| key.len() + 48)
            .sum::<usize>()
    }

    /// The component's bytes, sampled at `min_index_interval`.
    pub(crate) fn encode(&self, min_index_interval: u32) -> Vec<u8> {
        let count = self.entries.len();
        let offsets_len = 4 * count;
        let entries_len: usize = self.entries.iter().map(|(key, _)| key.len() + 8).sum();
        let mut out = Vec::with_capacity(offsets_len + entries_len + 64);
        out.extend(min_index_interval.to_be_bytes());
        out.extend((count as u32).to_be_bytes());
        out.extend(((offsets_len + entries_len) as u64).to_be_bytes());
        out.extend(BASE_SAMPLING_LEVEL.to_be_bytes());
        out.extend((count as u32).to_be_bytes());
        let mut offset = offsets_len as u32;
        for (key, _) in &self.entries {
            out.extend(offset.to_le_bytes());
            offset += key.len() as u32 + 8;
        }
        for (key, position) in &self.entries {
            out.extend(key);
            out.extend(position.to_le_bytes());
        }
        for key in [&self.first, &self.last] {
            out.extend((key.key().len() as u32).to_be_bytes());
            out.extend(key.key());
        }
        out
    }

    /// Reads the component. `index_length` is that of `Index.db`, in which all places must lie.
    pub(crate) fn decode(bytes: &Bytes, index_length: u64) -> Result<Summary, DecodeError> {
        let mut input = Input::new(bytes);
        let _min_index_interval = input.u32()?;
        let count = input.u32()? as usize;
        let size = usize::try_from(input.u64()?)
            .map_err(|_| DecodeError::Invalid("the sample is too large"))?;
        let _sampling_level = input.u32()?;
        let _size_at_full_sampling = input.u32()?;
        let start = input.position();
        let sample = input.take(size)?;
        if count > size / 12 {
            return Err(DecodeError::Invalid("a count exceeds the file"));
        }
        if count == 0 {
            return Err(DecodeError::Invalid("there is no sample"));
        }
        let mut offsets = Vec::with_capacity(count + 1);
        let mut offset_input = Input::new(sample);
        for _ in 0..count {
            offsets.push(offset_input.u32_le()? as usize);
        }
        offsets.push(size);
        let mut samples: Vec<(DecoratedKey, u64)> = Vec::with_capacity(count);
        for window in offsets.windows(2) {
            let (from, to) = (window[0], window[1]);
            if from < 4 * count || to > size || from + 8 > to {
                return Err(DecodeError::Invalid("a sample lies outside of its bounds"));
            }
            let key = DecoratedKey::new(bytes.slice(start + from..start + to - 8));
            let position = Input::new(&sample[to - 8..to]).u64_le()?;
            let in_order = samples
                .last()
                .is_none_or(|(k, p)| *k < key && *p < position);
            if !in_order || position >= index_length {
                return Err(DecodeError::Invalid("the samples are not in order"));
            }
            samples.push((key, position));
        }
        let first = DecoratedKey::new(Bytes::copy_from_slice(input.int_bytes()?));
        let last = DecoratedKey::new(Bytes::copy_from_slice(input.int_bytes()?));
        if first > last || samples[0].0 != first || samples[0].1 != 0 {
            return Err(DecodeError::Invalid("first and last key do not fit"));
        }
        Ok(Summary::new(samples, first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summary() -> Summary {
        let mut keys: Vec<DecoratedKey> = (0u32..50)
            .map(|i| DecoratedKey::new(Bytes::copy_from_slice(&i.to_be_bytes())))
            .collect();
        keys.sort();
        let samples = keys.iter().cloned().zip((0..).map(|i| i * 100)).collect();
        Summary::new(samples, keys[0].clone(), keys[49].clone())
    }

    #[test]
    fn finds_the_range_of_a_key() {
        let summary = summary();
        let read = Summary::decode(&Bytes::from(summary.encode(128)), 10_000).expect("decodes");
        for (i, (key, position)) in summary.entries.iter().enumerate() {
            let (from, to) = read
                .range_of(&DecoratedKey::new(key.clone()))
                .expect("in range");
            assert_eq!(from, *position);
            assert_eq!(to, summary.entries.get(i + 1).map(|e| e.1));
        }
        assert_eq!((read.first, read.last), (summary.first, summary.last));
    }

    proptest! {
        #[test]
        fn damage_is_noticed_or_harmless(at in 0usize..900, flip in 1u8..) {
            let mut bytes = summary().encode(128);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            if let Ok(read) = Summary::decode(&Bytes::from(bytes), 10_000) {
                for (key, _) in summary().entries {
                    let _ = read.range_of(&DecoratedKey::new(key));
                }
            }
        }
    }
}
