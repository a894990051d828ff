//! Going through a trie on disk, from payload to payload in the order of the keys
//! (`org.apache.cassandra.io.tries.Walker`, `ValueIterator`, `ReverseValueIterator`).
//!
//! The way from the root is kept, so that a walk can go on in either direction. A page is read
//! when a node of it is needed, through the cache.

use std::rc::Rc;

use bytes::Bytes;

use super::node::Node;
use crate::sstable::chunked_file::ChunkedFile;
use crate::sstable::error::{DecodeError, SSTableError};

/// Keys that are longer are not believed: a partition key with its escapes may be 128 KiB.
const MOST_STEPS: usize = 1 << 20;

/// A node on the way, and the slot of the child that the way takes from it; the last one has none.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: u64,
    slot: usize,
}

/// A walk through a trie.
pub(super) struct Walk {
    file: Rc<ChunkedFile>,
    root: u64,
    steps: Vec<Step>,
    /// The bytes of the way: one for each step but the last.
    key: Vec<u8>,
    chunk: Option<(u64, Bytes)>,
}

/// What is at the end of a way: the flags of the payload, and what follows the node in its page.
pub(super) type Found = (u8, Bytes);

impl Walk {
    pub(super) fn new(file: Rc<ChunkedFile>, root: u64) -> Walk {
        Walk {
            file,
            root,
            steps: Vec::new(),
            key: Vec::new(),
            chunk: None,
        }
    }

    /// The bytes that lead to where the walk is.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// An error about what is where the walk is.
    pub(super) fn corrupt(&self, what: &str) -> SSTableError {
        let position = self.steps.last().map_or(self.root, |step| step.node);
        self.file.corrupt(position, what)
    }

    /// The payload of the only key that can be `key`: the one at the end of the way, if the way
    /// ends with a leaf or with the key.
    pub(super) async fn candidate(&mut self, key: &[u8]) -> Result<Option<Found>, SSTableError> {
        let matched = self.follow(key).await?;
        let node = self.last()?;
        if node.flags() == 0 || (node.has_children() && matched < key.len()) {
            return Ok(None);
        }
        self.found().map(Some)
    }

    /// Goes to the last key that is not behind `key`.
    pub(super) async fn floor(&mut self, key: &[u8]) -> Result<Option<Found>, SSTableError> {
        let matched = self.follow(key).await?;
        let slot = match key.get(matched) {
            None => 0,
            Some(byte) => self.slot_behind(*byte)?,
        };
        self.before(slot).await
    }

    /// Goes to the first key that is behind `key` or is its beginning.
    pub(super) async fn ceiling(&mut self, key: &[u8]) -> Result<Option<Found>, SSTableError> {
        let matched = self.follow(key).await?;
        let node = self.last()?;
        if node.flags() != 0 && (!node.has_children() || matched == key.len()) {
            return self.found().map(Some);
        }
        let slot = match key.get(matched) {
            None => 0,
            Some(byte) => self.slot_behind(*byte)?,
        };
        self.from(slot).await
    }

    /// Goes to the next key.
    pub(super) async fn next(&mut self) -> Result<Option<Found>, SSTableError> {
        self.from(0).await
    }

    /// Goes to the key before.
    pub(super) async fn previous(&mut self) -> Result<Option<Found>, SSTableError> {
        self.up_and_before().await
    }

    /// Goes from the root as far as the key leads; says how many of its bytes that are.
    async fn follow(&mut self, key: &[u8]) -> Result<usize, SSTableError> {
        self.steps.clear();
        self.key.clear();
        self.step(self.root).await?;
        for (i, byte) in key.iter().enumerate() {
            let found = self.last()?.search(*byte);
            match found.map_err(|e| self.failed(e))? {
                Ok(slot) => self.descend(slot).await?,
                Err(_) => return Ok(i),
            }
        }
        Ok(key.len())
    }

    fn slot_behind(&self, byte: u8) -> Result<usize, SSTableError> {
        let found = self.last()?.search(byte).map_err(|e| self.failed(e))?;
        Ok(found.unwrap_or_else(|slot| slot))
    }

    /// The first key from a slot of the last node on, or behind that node.
    async fn from(&mut self, mut slot: usize) -> Result<Option<Found>, SSTableError> {
        loop {
            let Some(step) = self.steps.last() else {
                return Ok(None);
            };
            let node = step.node;
            self.load(node).await?;
            let child = self.last()?.at_or_after(slot);
            match child.map_err(|e| self.failed(e))? {
                Some((slot, _)) => {
                    self.descend(slot).await?;
                    break;
                }
                None => match self.ascend() {
                    Some(taken) => slot = taken + 1,
                    None => return Ok(None),
                },
            }
        }
        while self.last()?.flags() == 0 {
            let child = self.last()?.at_or_after(0).map_err(|e| self.failed(e))?;
            let (slot, _) = child.ok_or_else(|| self.corrupt(NOTHING))?;
            self.descend(slot).await?;
        }
        self.found().map(Some)
    }

    /// The last key before a slot of the last node, its own payload included.
    async fn before(&mut self, slot: usize) -> Result<Option<Found>, SSTableError> {
        let child = self.last()?.before(slot).map_err(|e| self.failed(e))?;
        if let Some((slot, _)) = child {
            self.descend(slot).await?;
            while self.last()?.has_children() {
                let child = self.last()?.before(usize::MAX);
                let child = child.map_err(|e| self.failed(e))?;
                let (slot, _) = child.ok_or_else(|| self.corrupt(NOTHING))?;
                self.descend(slot).await?;
            }
            return match self.last()?.flags() {
                0 => Err(self.corrupt(NOTHING)),
                _ => self.found().map(Some),
            };
        }
        if self.last()?.flags() != 0 {
            return self.found().map(Some);
        }
        Box::pin(self.up_and_before()).await
    }

    async fn up_and_before(&mut self) -> Result<Option<Found>, SSTableError> {
        loop {
            let Some(slot) = self.ascend() else {
                return Ok(None);
            };
            self.load(self.steps.last().map_or(self.root, |step| step.node))
                .await?;
            let child = self.last()?.before(slot).map_err(|e| self.failed(e))?;
            if child.is_some() || self.last()?.flags() != 0 {
                return Box::pin(self.before(slot)).await;
            }
        }
    }

    /// Leaves the last node; gives the slot that led to it.
    fn ascend(&mut self) -> Option<usize> {
        self.steps.pop();
        self.key.pop();
        self.steps.last().map(|step| step.slot)
    }

    /// Goes to the child in a slot of the last node.
    async fn descend(&mut self, slot: usize) -> Result<(), SSTableError> {
        let node = self.last()?;
        let byte = node.byte(slot);
        let child = node.child(slot).map_err(|e| self.failed(e))?;
        let child = child.ok_or_else(|| self.corrupt(NOTHING))?;
        if self.steps.len() >= MOST_STEPS {
            return Err(self.corrupt("a key of the index is too long"));
        }
        if let Some(step) = self.steps.last_mut() {
            step.slot = slot;
        }
        self.key.push(byte);
        self.step(child).await
    }

    async fn step(&mut self, node: u64) -> Result<(), SSTableError> {
        self.load(node).await?;
        self.steps.push(Step { node, slot: 0 });
        Ok(())
    }

    async fn load(&mut self, position: u64) -> Result<(), SSTableError> {
        if position >= self.file.length() {
            let what = "a node of the index lies behind its end";
            return Err(self.file.corrupt(position, what));
        }
        let chunk = position / self.file.chunk_length();
        if self
            .chunk
            .as_ref()
            .is_none_or(|(loaded, _)| *loaded != chunk)
        {
            self.chunk = Some((chunk, self.file.chunk(chunk).await?));
        }
        Ok(())
    }

    /// The last node. Its chunk was loaded.
    fn last(&self) -> Result<Node<'_>, SSTableError> {
        let position = self.steps.last().map_or(self.root, |step| step.node);
        let at = (position % self.file.chunk_length()) as usize;
        let bytes = self.chunk.as_ref().and_then(|(_, bytes)| bytes.get(at..));
        Node::decode(bytes.unwrap_or_default(), position).map_err(|e| self.failed(e))
    }

    fn found(&self) -> Result<Found, SSTableError> {
        let node = self.last()?;
        let payload = match &self.chunk {
            Some((_, chunk)) => chunk.slice_ref(node.payload()),
            None => Bytes::new(),
        };
        Ok((node.flags(), payload))
    }

    fn failed(&self, error: DecodeError) -> SSTableError {
        self.corrupt(&error.to_string())
    }
}

const NOTHING: &str = "a branch of the index leads to nothing";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use io::Env;
    use proptest::prelude::*;

    use super::*;
    use crate::sstable::ChunkCache;
    use crate::sstable::bti::trie_writer::{Paged, Payload, TrieWriter};
    use crate::sstable::chunked_file::{self, Encoding};
    use crate::testing::{TempDir, run};

    /// A number, and as many bytes as it says.
    struct Number(u8);

    impl Payload for Number {
        fn measure(&self) -> (u8, usize) {
            (1, 1 + usize::from(self.0))
        }

        fn write(&self, out: &mut Vec<u8>) {
            out.push(self.0);
            out.resize(out.len() + usize::from(self.0), 0xee);
        }
    }

    type Keys = BTreeMap<Vec<u8>, u8>;

    fn keys() -> impl Strategy<Value = Keys> {
        let byte = prop_oneof![3 => 0..4u8, 1 => any::<u8>()];
        let long = (0..3u8, 0..3000usize).prop_map(|(byte, length)| vec![byte; length]);
        let key = prop_oneof![20 => proptest::collection::vec(byte, 0..7), 1 => long];
        proptest::collection::btree_map(key, any::<u8>(), 1..400)
    }

    async fn written(env: &Env, dir: &TempDir, keys: &Keys) -> (Rc<ChunkedFile>, u64) {
        let mut out = Paged::default();
        let mut writer = TrieWriter::new();
        for (key, number) in keys {
            writer.add(&mut out, key, Number(*number));
        }
        assert_eq!(writer.count(), keys.len() as u64);
        let root = writer.finish(&mut out);
        let path = dir.0.join("trie");
        std::fs::write(&path, out.take()).expect("writes");
        let opened = chunked_file::open(env, &path).await.expect("opens");
        let file = ChunkedFile::new(opened, path, Encoding::Plain, ChunkCache::new(0));
        (Rc::new(file.expect("opens")), root)
    }

    /// Where a walk is, after it went somewhere.
    fn at(walk: &Walk, found: Result<Option<Found>, SSTableError>) -> Option<(Vec<u8>, u8)> {
        let (flags, payload) = found.expect("walks")?;
        assert_eq!(flags, 1);
        Some((walk.key().to_vec(), payload[0]))
    }

    async fn check(keys: &Keys, probe: &[u8], walk: &mut Walk) {
        let owned = |found: Option<(&Vec<u8>, &u8)>| found.map(|(k, n)| (k.clone(), *n));
        let found = walk.floor(probe).await;
        let floor = owned(keys.range(..=probe.to_vec()).next_back());
        assert_eq!(at(walk, found), floor, "floor of {probe:?}");
        if let Some((key, _)) = floor {
            let found = walk.previous().await;
            let before = owned(keys.range(..key).next_back());
            assert_eq!(at(walk, found), before, "before the floor of {probe:?}");
        }
        let found = walk.floor(probe).await;
        if at(walk, found).is_some() {
            let found = walk.next().await;
            let behind = (Bound::Excluded(probe.to_vec()), Bound::Unbounded);
            let behind = owned(keys.range(behind).next());
            assert_eq!(at(walk, found), behind, "behind the floor of {probe:?}");
        }
        let found = walk.candidate(probe).await;
        if let Some(number) = keys.get(probe) {
            assert_eq!(at(walk, found), Some((probe.to_vec(), *number)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn a_walk_finds_what_a_map_does(
            keys in keys(),
            probes in proptest::collection::vec(proptest::collection::vec(0..5u8, 0..7), 20),
        ) {
            run(move |env| async move {
                let dir = TempDir::new();
                let (file, root) = written(&env, &dir, &keys).await;
                let mut walk = Walk::new(file, root);
                let mut all = Vec::new();
                let mut found = walk.ceiling(&[]).await;
                while let Some(entry) = at(&walk, found) {
                    all.push(entry);
                    found = walk.next().await;
                }
                assert!(all.into_iter().eq(keys.clone()));
                for probe in probes.iter().chain(keys.keys().step_by(7)) {
                    check(&keys, probe, &mut walk).await;
                }
            });
        }
    }
}
