//! The nodes of a trie on disk (`org.apache.cassandra.io.tries.TrieNode`).
//!
//! The upper four bits of a node's first byte say its form, the lower four are the flags of its
//! payload, which follows the node; 0: it has none. Children lie before their parents and are
//! found by how far before.
//!
//! | form | after the first byte |
//! |---|---|
//! | leaf | nothing |
//! | single | the byte that leads to the child, the distance |
//! | single of 4 or 12 bits | the distance, its high bits in place of the flags, and the byte; no payload |
//! | sparse | the number of children, their bytes, their distances |
//! | dense | the first byte, the last one as difference to it, a distance each; 0 is no child |
//!
//! Distances take from 8 to 64 bits, or 12, which reach everything within a page.

use crate::sstable::error::DecodeError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Leaf,
    Single,
    /// With the distance in the place of the flags.
    Tight,
    Sparse,
    Dense,
}

/// A form of node: its shape, and the bits of a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    code: u8,
    shape: Shape,
    bits: u8,
}

const fn form(code: u8, shape: Shape, bits: u8) -> Form {
    Form { code, shape, bits }
}

/// By their codes.
const FORMS: [Form; 16] = [
    form(0, Shape::Leaf, 0),
    form(1, Shape::Tight, 4),
    form(2, Shape::Single, 8),
    form(3, Shape::Tight, 12),
    form(4, Shape::Single, 16),
    form(5, Shape::Sparse, 8),
    form(6, Shape::Sparse, 12),
    form(7, Shape::Sparse, 16),
    form(8, Shape::Sparse, 24),
    form(9, Shape::Sparse, 40),
    form(10, Shape::Dense, 12),
    form(11, Shape::Dense, 16),
    form(12, Shape::Dense, 24),
    form(13, Shape::Dense, 32),
    form(14, Shape::Dense, 40),
    form(15, Shape::Dense, 64),
];

/// For each width of a distance the codes of the forms with one child, with few and with many.
/// Where there is none of the width, a wider one.
const CHOICES: [(u8, [u8; 3]); 8] = [
    (4, [1, 5, 10]),
    (8, [2, 5, 10]),
    (12, [3, 6, 10]),
    (16, [4, 7, 11]),
    (24, [12, 8, 12]),
    (32, [13, 9, 13]),
    (40, [14, 9, 14]),
    (64, [15, 15, 15]),
];

impl Form {
    /// The form of a node with these bytes leading to its children, the farthest of which lies so
    /// far before it (`TrieNode.typeFor`).
    pub(super) fn choose(bytes: &[u8], farthest: u64, has_payload: bool) -> Form {
        if bytes.is_empty() {
            return FORMS[0];
        }
        let fits = |(bits, _): &(u8, [u8; 3])| *bits == 64 || farthest < 1 << bits;
        let at = CHOICES.iter().position(fits).unwrap_or(CHOICES.len() - 1);
        let [single, sparse, dense] = CHOICES[at].1.map(|code| FORMS[usize::from(code)]);
        if bytes.len() == 1 {
            // The next wider one can have a payload.
            let tight = single.shape == Shape::Tight && has_payload;
            let code = if tight {
                CHOICES[at + 1].1[0]
            } else {
                single.code
            };
            return FORMS[usize::from(code)];
        }
        if sparse.size(bytes) < dense.size(bytes) {
            sparse
        } else {
            dense
        }
    }

    /// The bytes of a node of this form with these bytes leading to its children.
    pub(super) fn size(self, bytes: &[u8]) -> usize {
        let bits = usize::from(self.bits);
        match self.shape {
            Shape::Leaf => 1,
            Shape::Tight => 1 + bits.div_ceil(8),
            Shape::Single => 2 + bits / 8,
            Shape::Sparse => 2 + (bytes.len() * (8 + bits)).div_ceil(8),
            Shape::Dense => 3 + (slots(bytes) * bits).div_ceil(8),
        }
    }

    /// Appends a node. `children` are the bytes and the distances.
    pub(super) fn write(self, out: &mut Vec<u8>, children: &[(u8, u64)], flags: u8) {
        debug_assert!(flags < 16);
        let first = self.code << 4;
        match (self.shape, children) {
            (Shape::Tight, [(byte, distance)]) => {
                debug_assert_eq!(flags, 0);
                if self.bits == 4 {
                    out.push(first | *distance as u8);
                } else {
                    out.extend((u16::from(first) << 8 | *distance as u16).to_be_bytes());
                }
                out.push(*byte);
            }
            (Shape::Leaf, _) => out.push(first | flags),
            (Shape::Single | Shape::Tight, _) => {
                out.push(first | flags);
                out.extend(children.iter().map(|(byte, _)| byte));
                self.write_distances(out, children.iter().map(|(_, distance)| *distance));
            }
            (Shape::Sparse, _) => {
                out.extend([first | flags, children.len() as u8]);
                out.extend(children.iter().map(|(byte, _)| byte));
                self.write_distances(out, children.iter().map(|(_, distance)| *distance));
            }
            (Shape::Dense, _) => {
                let (low, high) = (children[0].0, children[children.len() - 1].0);
                out.extend([first | flags, low, high - low]);
                let mut left = children.iter().peekable();
                let distances = (low..=high)
                    .map(|byte| left.next_if(|(b, _)| *b == byte).map_or(0, |(_, d)| *d));
                self.write_distances(out, distances);
            }
        }
    }

    fn write_distances(self, out: &mut Vec<u8>, distances: impl Iterator<Item = u64>) {
        if self.bits != 12 {
            let length = usize::from(self.bits / 8);
            for distance in distances {
                out.extend(&distance.to_be_bytes()[8 - length..]);
            }
            return;
        }
        let mut carry = None;
        for distance in distances {
            match carry.take() {
                None => {
                    out.push((distance >> 4) as u8);
                    carry = Some((distance << 4) as u8);
                }
                Some(carry) => out.extend([carry | (distance >> 8) as u8, distance as u8]),
            }
        }
        out.extend(carry);
    }
}

/// How many distances a dense node has for these bytes.
fn slots(bytes: &[u8]) -> usize {
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => usize::from(last - first) + 1,
        _ => 0,
    }
}

const TOO_LONG: DecodeError = DecodeError::Invalid("a node of the index exceeds its page");
const NO_CHILD: DecodeError = DecodeError::Invalid("a node of the index points nowhere");

/// A node as it lies in a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'b> {
    form: Form,
    /// From its first byte to the end of the page.
    bytes: &'b [u8],
    /// Where it is in the file.
    position: u64,
    /// How many children it may have: the slots of a dense one may be empty.
    slots: usize,
    size: usize,
}

impl<'b> Node<'b> {
    /// The node at `position`, whose first byte is the first of `bytes`.
    pub(super) fn decode(bytes: &'b [u8], position: u64) -> Result<Node<'b>, DecodeError> {
        let at = |i: usize| bytes.get(i).copied().ok_or(TOO_LONG);
        let form = FORMS[usize::from(at(0)? >> 4)];
        let bits = usize::from(form.bits);
        let (slots, size) = match form.shape {
            Shape::Leaf => (0, 1),
            Shape::Tight => (1, 1 + bits.div_ceil(8)),
            Shape::Single => (1, 2 + bits / 8),
            Shape::Sparse => {
                let count = usize::from(at(1)?);
                (count, 2 + (count * (8 + bits)).div_ceil(8))
            }
            Shape::Dense => {
                let count = usize::from(at(2)?) + 1;
                (count, 3 + (count * bits).div_ceil(8))
            }
        };
        if size > bytes.len() {
            return Err(TOO_LONG);
        }
        Ok(Node {
            form,
            bytes,
            position,
            slots,
            size,
        })
    }

    /// The flags of the payload; 0: it has none.
    pub(super) fn flags(&self) -> u8 {
        match self.form.shape {
            Shape::Tight => 0,
            _ => self.bytes[0] & 0xf,
        }
    }

    /// What follows the node in its page.
    pub(super) fn payload(&self) -> &'b [u8] {
        &self.bytes[self.size..]
    }

    pub(super) fn has_children(&self) -> bool {
        self.slots > 0
    }

    /// The byte that leads to the child in a slot.
    pub(super) fn byte(&self, slot: usize) -> u8 {
        match self.form.shape {
            Shape::Leaf => 0,
            Shape::Tight => self.bytes[self.size - 1],
            Shape::Single => self.bytes[1],
            Shape::Sparse => self.bytes[2 + slot],
            Shape::Dense => self.bytes[1].wrapping_add(slot as u8),
        }
    }

    /// Where the child in a slot lies, if one is there. Always before this node, so that going
    /// from child to child ends.
    pub(super) fn child(&self, slot: usize) -> Result<Option<u64>, DecodeError> {
        let distance = match self.form.shape {
            Shape::Leaf => 0,
            Shape::Tight if self.form.bits == 4 => u64::from(self.bytes[0] & 0xf),
            Shape::Tight => u64::from(self.bytes[0] & 0xf) << 8 | u64::from(self.bytes[1]),
            Shape::Single => self.distance(2, 0),
            Shape::Sparse => self.distance(2 + self.slots, slot),
            Shape::Dense => self.distance(3, slot),
        };
        if distance == 0 {
            return match self.form.shape {
                Shape::Dense => Ok(None),
                _ => Err(NO_CHILD),
            };
        }
        let child = self.position.checked_sub(distance);
        child.map(Some).ok_or(NO_CHILD)
    }

    /// The distance in a slot of the table that starts at byte `start` of the node.
    fn distance(&self, start: usize, slot: usize) -> u64 {
        let bits = usize::from(self.form.bits);
        if bits == 12 {
            let at = start + slot * 3 / 2;
            let pair = u64::from(self.bytes[at]) << 8 | u64::from(self.bytes[at + 1]);
            return if slot.is_multiple_of(2) {
                pair >> 4
            } else {
                pair & 0xfff
            };
        }
        let length = bits / 8;
        let at = start + slot * length;
        self.bytes[at..at + length]
            .iter()
            .fold(0, |distance, byte| distance << 8 | u64::from(*byte))
    }

    /// The slot that `byte` leads to, or else the first one behind it. A slot of a dense node may
    /// be empty: that is not found either.
    pub(super) fn search(&self, byte: u8) -> Result<Result<usize, usize>, DecodeError> {
        let slot = match self.form.shape {
            Shape::Dense => match byte.checked_sub(self.bytes[1]) {
                None => return Ok(Err(0)),
                Some(slot) => usize::from(slot),
            },
            Shape::Sparse => match self.bytes[2..2 + self.slots].binary_search(&byte) {
                Ok(slot) => slot,
                Err(slot) => return Ok(Err(slot)),
            },
            _ if self.slots == 0 || self.byte(0) > byte => return Ok(Err(0)),
            _ => usize::from(self.byte(0) < byte),
        };
        if slot >= self.slots {
            return Ok(Err(self.slots));
        }
        Ok(match self.child(slot)? {
            Some(_) => Ok(slot),
            None => Err(slot),
        })
    }

    /// The first slot with a child from `from` on.
    pub(super) fn at_or_after(&self, from: usize) -> Result<Option<(usize, u64)>, DecodeError> {
        self.first_child(from..self.slots)
    }

    /// The last slot with a child before `before`.
    pub(super) fn before(&self, before: usize) -> Result<Option<(usize, u64)>, DecodeError> {
        self.first_child((0..before.min(self.slots)).rev())
    }

    fn first_child(
        &self,
        slots: impl Iterator<Item = usize>,
    ) -> Result<Option<(usize, u64)>, DecodeError> {
        for slot in slots {
            if let Some(child) = self.child(slot)? {
                return Ok(Some((slot, child)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn children() -> impl Strategy<Value = Vec<(u8, u64)>> {
        let bits = 0..42u32;
        let distances = bits.prop_flat_map(|bits| 1..=(1u64 << bits));
        proptest::collection::btree_map(any::<u8>(), distances, 0..40)
            .prop_map(|children| children.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nodes_read_as_written(children in children(), flags in 0u8..16) {
            let bytes: Vec<u8> = children.iter().map(|(byte, _)| *byte).collect();
            let farthest = children.iter().map(|(_, distance)| *distance).max().unwrap_or(0);
            let form = Form::choose(&bytes, farthest, flags != 0);
            let mut out = Vec::new();
            form.write(&mut out, &children, flags);
            prop_assert_eq!(out.len(), form.size(&bytes));
            out.push(0xaa);
            let position = 1 << 42;
            let node = Node::decode(&out, position).expect("decodes");
            prop_assert_eq!(node.payload(), &[0xaa]);
            prop_assert_eq!(node.flags(), flags);
            prop_assert_eq!(node.has_children(), !children.is_empty());
            for byte in 0..=255 {
                let found = node.search(byte).expect("searches");
                let expected = children.iter().find(|(b, _)| *b == byte);
                match (found, expected) {
                    (Ok(slot), Some((_, distance))) => {
                        prop_assert_eq!(node.byte(slot), byte);
                        prop_assert_eq!(node.child(slot), Ok(Some(position - distance)));
                    }
                    (Err(slot), None) => {
                        let after = node.at_or_after(slot).expect("reads");
                        let expected = children.iter().find(|(b, _)| *b > byte);
                        let found = after.map(|(slot, child)| (node.byte(slot), position - child));
                        prop_assert_eq!(found, expected.copied());
                        let before = node.before(slot).expect("reads");
                        let expected = children.iter().rfind(|(b, _)| *b < byte);
                        let found = before.map(|(slot, child)| (node.byte(slot), position - child));
                        prop_assert_eq!(found, expected.copied());
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            position in 0u64..10_000,
            byte: u8,
        ) {
            if let Ok(node) = Node::decode(&bytes, position) {
                let _ = (node.flags(), node.payload(), node.at_or_after(0), node.before(256));
                if let Ok(Ok(slot)) = node.search(byte) {
                    let child = node.child(slot).expect("was found").expect("was found");
                    prop_assert!(child < position);
                }
            }
        }
    }
}
