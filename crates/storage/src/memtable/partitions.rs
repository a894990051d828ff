//! The partitions of a memtable in the order of the ring.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use model::{PartitionBound, Token};
use smallvec::SmallVec;

use super::TOGETHER;
use super::partition::MemPartition;
use super::token_map::{Guess, LeafPlace, TokenMap};

/// Bytes of a place in the map, in leaves that are two thirds full, and of what is above them.
const PLACE: usize = 28;
/// The same of those whose token another one has: they have their key there once more.
const SHARED_PLACE: usize = 96;

/// Partitions by token, as nearly every token has one only. Those that come later to a token that
/// has one are kept apart.
#[derive(Default)]
pub(super) struct Partitions {
    by_token: TokenMap<Rc<MemPartition>>,
    others: BTreeMap<(Token, Box<[u8]>), Rc<MemPartition>>,
}

impl Partitions {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.by_token.len() + self.others.len()
    }

    /// Drops some of them; `false` if there were none.
    pub(super) fn drop_some(&mut self) -> bool {
        match self.by_token.pop_leaf() {
            Some(dropped) => !dropped.is_empty(),
            None => self.others.pop_first().is_some(),
        }
    }

    /// The partition of a key, whose token this is.
    pub(super) fn get(&self, token: Token, key: &[u8]) -> Option<&Rc<MemPartition>> {
        let found = self.by_token.get(token)?;
        self.of_key(found, token, key)
    }

    /// The partitions of keys, looked up side by side.
    pub(super) fn get_together<'k>(
        &self,
        places: impl Iterator<Item = Place<'k>> + Clone,
    ) -> SmallVec<[Option<&MemPartition>; TOGETHER]> {
        let found = self.bring_near(places.clone().map(|(token, _)| token));
        let of_key = |(found, (token, key)): (Option<_>, Place<'k>)| {
            let partition = self.of_key(found?, token, key)?;
            Some(&**partition)
        };
        found.into_iter().zip(places).map(of_key).collect()
    }

    /// The first partition of each of some tokens. Each look-up waits for memory four times, one after the other:
    /// for where the leaf of the token lies, for the place in it, for the partition, for its row. So each of these is
    /// asked for for all tokens before the next is for the first one.
    pub(super) fn bring_near(
        &self,
        tokens: impl Iterator<Item = Token> + Clone,
    ) -> SmallVec<[Option<&Rc<MemPartition>>; TOGETHER]> {
        let mut leaves = SmallVec::<[Option<LeafPlace<'_, _>>; TOGETHER]>::new();
        for token in tokens.clone() {
            let place = self.by_token.place(token);
            place.iter().for_each(LeafPlace::prefetch);
            leaves.push(place);
        }
        let mut guesses = SmallVec::<[Option<Guess<'_, _>>; TOGETHER]>::new();
        for (place, token) in leaves.iter().zip(tokens.clone()) {
            let guess = place.as_ref().map(|place| place.guess(token));
            guess.iter().for_each(Guess::prefetch);
            guesses.push(guess);
        }
        let mut found = SmallVec::<[Option<&Rc<MemPartition>>; TOGETHER]>::new();
        for (guess, token) in guesses.iter().zip(tokens) {
            let partition = guess.as_ref().and_then(|guess| guess.get(token));
            if let Some(partition) = partition {
                io::prefetch(&**partition);
            }
            found.push(partition);
        }
        for partition in found.iter().flatten() {
            partition.prefetch();
        }
        found
    }

    /// The partition of a key, of whose token this one was found.
    fn of_key<'p>(
        &'p self,
        found: &'p Rc<MemPartition>,
        token: Token,
        key: &[u8],
    ) -> Option<&'p Rc<MemPartition>> {
        if found.key_bytes() == key {
            Some(found)
        } else if self.others.is_empty() {
            None
        } else {
            self.others.get(&(token, key.into()))
        }
    }

    /// The partition of a key, whose token this is, to add to; made if there is none. What all of
    /// them take grows by `grown` bytes.
    pub(super) fn get_or_insert(
        &mut self,
        token: Token,
        key: &[u8],
        grown: &mut isize,
    ) -> &mut MemPartition {
        let mut new = |place: usize| {
            let partition = MemPartition::new(key);
            *grown += (partition.empty_bytes() + place) as isize;
            Rc::new(partition)
        };
        let mut found = self.by_token.get_or_insert_with(token, || new(PLACE));
        if found.key_bytes() != key {
            let other = self.others.entry((token, key.into()));
            found = other.or_insert_with(|| new(SHARED_PLACE + key.len()));
        }
        Rc::make_mut(found)
    }

    /// The first partition from a place on that is not behind `end`.
    pub(super) fn next(
        &self,
        from: Bound<Place<'_>>,
        end: &PartitionBound,
    ) -> Option<&Rc<MemPartition>> {
        let (Bound::Included(place) | Bound::Excluded(place)) = from else {
            return None;
        };
        let here = |(token, found): (Token, &'_ Rc<MemPartition>)| {
            let place = (token, found.key_bytes());
            match from {
                Bound::Excluded(from) => place > from,
                Bound::Included(from) => place >= from,
                Bound::Unbounded => true,
            }
        };
        let near = self.by_token.next_in_leaf(place.0);
        let next = near.iter().position(|(token, found)| here((*token, found)));
        let mut found = match next {
            Some(next) => {
                prefetch_ahead(&near[next + 1..]);
                Some((near[next].0, &near[next].1))
            }
            None => self.by_token.from(place.0).find(|found| here(*found)),
        };
        if !self.others.is_empty() {
            let from = from.map(|(token, key)| (token, key.into()));
            let mut others = self.others.range((from, Bound::Unbounded));
            let other = others.next().map(|((token, _), other)| (*token, other));
            found = found.into_iter().chain(other).min_by(order);
        }
        let (token, found) = found?;
        within(end, token, found.key_bytes()).then_some(found)
    }
}

/// Asks for the memory of partitions that a scan comes to next: each is near when its row is asked for, and that is
/// when it is read.
fn prefetch_ahead(next: &[(Token, Rc<MemPartition>)]) {
    if let Some((_, partition)) = next.get(1) {
        partition.prefetch();
    }
    if let Some((_, partition)) = next.get(3) {
        io::prefetch(&**partition);
    }
}

fn order(a: &(Token, &Rc<MemPartition>), b: &(Token, &Rc<MemPartition>)) -> Ordering {
    (a.0, a.1.key_bytes()).cmp(&(b.0, b.1.key_bytes()))
}

/// A place on the ring: a token, and of the keys that have it the first one from this one on.
pub(super) type Place<'k> = (Token, &'k [u8]);

/// Where partitions begin that are not before this lower end; `None` if there is no such place.
pub(super) fn beginning(start: &PartitionBound) -> Option<Bound<Place<'_>>> {
    Some(match start {
        PartitionBound::Unbounded => Bound::Included((Token::MIN, &[])),
        PartitionBound::TokenInclusive(token) => Bound::Included((*token, &[])),
        PartitionBound::TokenExclusive(token) => {
            Bound::Included((Token(token.0.checked_add(1)?), &[]))
        }
        PartitionBound::KeyInclusive(key) => Bound::Included((key.token(), key.key())),
        PartitionBound::KeyExclusive(key) => Bound::Excluded((key.token(), key.key())),
    })
}

/// Is a partition at or before this upper end?
fn within(end: &PartitionBound, token: Token, key: &[u8]) -> bool {
    match end {
        PartitionBound::Unbounded => true,
        PartitionBound::TokenInclusive(end) => token <= *end,
        PartitionBound::TokenExclusive(end) => token < *end,
        PartitionBound::KeyInclusive(end) => (token, key) <= (end.token(), &end.key()[..]),
        PartitionBound::KeyExclusive(end) => (token, key) < (end.token(), &end.key()[..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys of one letter, of tokens that many of them share.
    fn place() -> impl Strategy<Value = (Token, Vec<u8>)> {
        (-1i64..3, 0u8..6).prop_map(|(token, key)| (Token(token), vec![key]))
    }

    proptest! {
        #[test]
        fn partitions_that_share_a_token_are_told_apart(
            places in proptest::collection::vec(place(), 0..30),
            from in place(),
            end in -1i64..4,
            excluded: bool,
        ) {
            let (mut partitions, mut grown) = (Partitions::default(), 0);
            let mut expected = std::collections::BTreeSet::new();
            for (token, key) in &places {
                let found = partitions.get_or_insert(*token, key, &mut grown);
                prop_assert_eq!(found.key_bytes(), &key[..]);
                expected.insert((*token, key.clone()));
            }
            prop_assert_eq!(partitions.len(), expected.len());
            for token in -1..3 {
                for key in 0..6 {
                    let (token, key) = (Token(token), vec![key]);
                    let found = partitions.get(token, &key).map(|found| found.key_bytes().to_vec());
                    prop_assert_eq!(found.is_some(), expected.contains(&(token, key.clone())));
                    prop_assert!(found.is_none_or(|found| found == key));
                }
            }
            let asked: Vec<(Token, Vec<u8>)> = places.iter().cloned().chain([from.clone()]).collect();
            let together = partitions.get_together(asked.iter().map(|(token, key)| (*token, &key[..])));
            for ((token, key), found) in asked.iter().zip(together) {
                let alone = partitions.get(*token, key).map(|found| &**found);
                prop_assert_eq!(found.map(std::ptr::from_ref), alone.map(std::ptr::from_ref));
            }
            let start = match excluded {
                true => Bound::Excluded(from.clone()),
                false => Bound::Included(from.clone()),
            };
            let upper = PartitionBound::TokenExclusive(Token(end));
            let mut wanted = expected.range((start.clone(), Bound::Unbounded));
            let mut at = start;
            loop {
                let place = at.as_ref().map(|(token, key)| (*token, &key[..]));
                let found = partitions.next(place, &upper).map(|found| found.key_bytes().to_vec());
                let next = wanted.next().filter(|(token, _)| token.0 < end).cloned();
                prop_assert_eq!(found.as_ref(), next.as_ref().map(|(_, key)| key));
                match next {
                    Some(next) => at = Bound::Excluded(next),
                    None => break,
                }
            }
        }
    }
}
