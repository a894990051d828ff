//! Values by token, in the order of the ring: a B+tree of three levels that only grows.
//!
//! A look-up of a partition waits for memory, not for instructions. In a `BTreeMap` of a million tokens it goes through
//! six nodes, of which the last three are in no cache. Here two lists of some hundred tokens say which leaf has a token,
//! and from which to which its tokens go; as they are spread evenly, that tells about where in the leaf it is: so it is the
//! leaf's place and a line or two of it that are waited for.

use model::Token;

/// How many tokens a leaf has at most, and how many leaves a branch.
const LEAF: usize = 64;
const BRANCH: usize = 128;

/// Values by token.
#[derive(Debug)]
pub(super) struct TokenMap<V> {
    /// Where each branch begins; the first one at the beginning of the ring.
    starts: Vec<Token>,
    branches: Vec<Branch<V>>,
    len: usize,
}

#[derive(Debug)]
struct Branch<V> {
    /// Where each leaf begins.
    starts: Vec<Token>,
    leaves: Vec<Leaf<V>>,
}

/// Tokens with their values, in order.
#[derive(Debug)]
struct Leaf<V>(Vec<(Token, V)>);

impl<V> Default for TokenMap<V> {
    fn default() -> TokenMap<V> {
        TokenMap {
            starts: Vec::new(),
            branches: Vec::new(),
            len: 0,
        }
    }
}

/// The leaf of a token: nothing of it was read yet.
#[derive(Debug)]
pub(super) struct LeafPlace<'m, V> {
    leaf: &'m Leaf<V>,
    /// Where it begins, and where the next one does.
    start: Token,
    end: Option<Token>,
}

impl<'m, V> LeafPlace<'m, V> {
    /// Asks for the memory that says where the leaf has its tokens.
    pub(super) fn prefetch(&self) {
        io::prefetch(self.leaf);
    }

    /// Where in it a token is guessed to be, which lies between its start and that of the next one.
    pub(super) fn guess(&self, token: Token) -> Guess<'m, V> {
        let list = &self.leaf.0;
        let offset = |token: Token| token.0.wrapping_sub(self.start.0) as u64;
        let last = offset(self.end.unwrap_or(Token(i64::MAX)));
        // Thirty-two bits of both: to divide all of them takes longer than to be wrong by one.
        let shift = 32u32.saturating_sub(last.leading_zeros());
        let guess = (offset(token) >> shift) * list.len() as u64 / ((last >> shift) + 1);
        let at = list.len().min(guess as usize);
        Guess { list, at }
    }
}

/// Where a token is guessed to be: no token of its leaf was read for that.
#[derive(Debug)]
pub(super) struct Guess<'m, V> {
    list: &'m [(Token, V)],
    at: usize,
}

impl<'m, V> Guess<'m, V> {
    /// Asks for the memory of what lies there.
    pub(super) fn prefetch(&self) {
        if let Some(item) = self.list.get(self.at).or(self.list.last()) {
            io::prefetch(item);
        }
    }

    /// The value of that token.
    pub(super) fn get(&self, token: Token) -> Option<&'m V> {
        let (found, value) = self.list.get(self.before(token))?;
        (*found == token).then_some(value)
    }

    /// How many tokens of the leaf are before that one.
    fn before(&self, token: Token) -> usize {
        let Guess { list, mut at } = *self;
        while list.get(at).is_some_and(|(known, _)| *known < token) {
            at += 1;
        }
        while at > 0 && list[at - 1].0 >= token {
            at -= 1;
        }
        at
    }
}

/// Which of the parts that begin at these tokens, the first at or before all that are sought, has a token.
fn part_of(starts: &[Token], token: Token) -> usize {
    let behind = starts.partition_point(|start| *start <= token);
    behind.saturating_sub(1)
}

impl<V> TokenMap<V> {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The value of a token.
    pub(super) fn get(&self, token: Token) -> Option<&V> {
        self.place(token)?.guess(token).get(token)
    }

    /// The leaf of a token; `None` if there are no branches.
    pub(super) fn place(&self, token: Token) -> Option<LeafPlace<'_, V>> {
        Some(self.part(token)?.2)
    }

    /// In which branch and leaf a token is, or belongs.
    fn part(&self, token: Token) -> Option<(usize, usize, LeafPlace<'_, V>)> {
        let branch = part_of(&self.starts, token);
        let end = self.starts.get(branch + 1).copied();
        let (leaf, place) = self.branches.get(branch)?.place(token, end);
        Some((branch, leaf, place))
    }

    /// In which branch and leaf a token is, or belongs, and behind how many others; `None` if there are no branches.
    fn find(&self, token: Token) -> Option<(usize, usize, usize)> {
        let (branch, leaf, place) = self.part(token)?;
        Some((branch, leaf, place.guess(token).before(token)))
    }

    /// The value of a token, made if there is none.
    pub(super) fn get_or_insert_with(&mut self, token: Token, new: impl FnOnce() -> V) -> &mut V {
        if self.branches.is_empty() {
            self.starts.push(Token::MIN);
            self.branches.push(Branch {
                starts: vec![Token::MIN],
                leaves: vec![Leaf(Vec::new())],
            });
        }
        let (mut branch, mut leaf, mut at) = self.find(token).unwrap_or_default();
        let known = self.branches[branch].leaves[leaf].0.get(at);
        if known.is_none_or(|(found, _)| *found != token) {
            if self.branches[branch].leaves[leaf].is_full() {
                self.cut(branch, leaf);
                (branch, leaf, at) = self.find(token).unwrap_or_default();
            }
            self.len += 1;
            self.branches[branch].leaves[leaf].insert(at, (token, new()));
        }
        &mut self.branches[branch].leaves[leaf].0[at].1
    }

    /// Makes two leaves of one, and two branches of its own if that has too many.
    fn cut(&mut self, number: usize, leaf: usize) {
        let branch = &mut self.branches[number];
        branch.cut(leaf);
        if branch.is_full() {
            let behind = branch.split_off();
            self.starts.insert(number + 1, behind.starts[0]);
            self.branches.insert(number + 1, behind);
        }
    }

    /// Takes out some that lie side by side, at most [`LEAF`]; `None` if there are no more.
    pub(super) fn pop_leaf(&mut self) -> Option<Vec<(Token, V)>> {
        loop {
            let branch = self.branches.last_mut()?;
            branch.starts.pop();
            match branch.leaves.pop() {
                Some(Leaf(list)) if list.is_empty() => {}
                Some(Leaf(list)) => {
                    self.len -= list.len();
                    return Some(list);
                }
                None => {
                    self.starts.pop();
                    self.branches.pop();
                }
            }
        }
    }

    /// What the leaf of a token has from it on: the next ones, unless there are none in that leaf.
    pub(super) fn next_in_leaf(&self, token: Token) -> &[(Token, V)] {
        let guess = self.place(token).map(|place| place.guess(token));
        guess.map_or(&[], |guess| &guess.list[guess.before(token)..])
    }

    /// All from a token on, in order.
    pub(super) fn from(&self, token: Token) -> impl Iterator<Item = (Token, &V)> {
        let (number, leaf, at) = self.find(token).unwrap_or_default();
        let branch = self.branches.get(number);
        let leaves = branch.map_or(&[][..], |branch| &branch.leaves[..]);
        let first = leaves.get(leaf).into_iter();
        let first = first.flat_map(move |leaf| &leaf.0[at..]);
        let others = self.branches.get(number + 1..).unwrap_or_default().iter();
        let others = others.flat_map(|branch| &branch.leaves);
        let rest = leaves.iter().skip(leaf + 1).chain(others);
        let all = first.chain(rest.flat_map(|leaf| &leaf.0));
        all.map(|(token, value)| (*token, value))
    }
}

impl<V> Branch<V> {
    /// In which leaf a token is, or belongs; `end` is where the next branch begins.
    fn place(&self, token: Token, end: Option<Token>) -> (usize, LeafPlace<'_, V>) {
        let leaf = part_of(&self.starts, token);
        let place = LeafPlace {
            leaf: &self.leaves[leaf],
            start: self.starts[leaf],
            end: self.starts.get(leaf + 1).copied().or(end),
        };
        (leaf, place)
    }

    fn is_full(&self) -> bool {
        self.leaves.len() >= BRANCH
    }

    /// Makes two leaves of one.
    fn cut(&mut self, leaf: usize) {
        let list = &mut self.leaves[leaf].0;
        let behind = list.split_off(LEAF / 2);
        list.shrink_to_fit();
        self.starts.insert(leaf + 1, behind[0].0);
        self.leaves.insert(leaf + 1, Leaf(behind));
    }

    fn split_off(&mut self) -> Branch<V> {
        Branch {
            starts: self.starts.split_off(BRANCH / 2),
            leaves: self.leaves.split_off(BRANCH / 2),
        }
    }
}

impl<V> Leaf<V> {
    fn is_full(&self) -> bool {
        self.0.len() >= LEAF
    }

    fn insert(&mut self, at: usize, item: (Token, V)) {
        let list = &mut self.0;
        if list.len() == list.capacity() {
            // Few at a time, as leaves are two thirds full in the mean.
            list.reserve_exact(list.len().clamp(4, LEAF / 4));
        }
        list.insert(at, item);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// Evenly spread, or side by side at either end of the ring or in its midst.
    fn token() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => any::<i64>(),
            1 => 0i64..300,
            1 => (0i64..300).prop_map(|n| i64::MIN + n),
            1 => (0i64..300).prop_map(|n| i64::MAX - n),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_map(
            tokens in prop::collection::vec(token(), 0..3000),
            asked in prop::collection::vec(token(), 1..20),
        ) {
            let (mut map, mut expected) = (TokenMap::default(), BTreeMap::new());
            for (number, token) in tokens.iter().enumerate() {
                let found = *map.get_or_insert_with(Token(*token), || number);
                prop_assert_eq!(found, *expected.entry(*token).or_insert(number));
            }
            prop_assert_eq!(map.len(), expected.len());
            for token in asked.into_iter().chain(tokens.into_iter().take(50)) {
                prop_assert_eq!(map.get(Token(token)), expected.get(&token));
                let found = map.from(Token(token)).map(|(token, number)| (token.0, *number));
                let from = expected.range(token..).map(|(token, number)| (*token, *number));
                prop_assert!(found.eq(from));
                let near = map.next_in_leaf(Token(token)).iter().map(|(token, number)| (token.0, *number));
                let next = expected.range(token..).take(near.len());
                prop_assert!(near.eq(next.map(|(token, number)| (*token, *number))));
            }
            while let Some(leaf) = map.pop_leaf() {
                prop_assert!(leaf.len() <= LEAF && !leaf.is_empty());
                for (token, number) in leaf {
                    prop_assert_eq!(expected.remove(&token.0), Some(number));
                }
                prop_assert_eq!(map.len(), expected.len());
            }
            prop_assert!(expected.is_empty());
            prop_assert_eq!(*map.get_or_insert_with(Token(1), || 1), 1);
        }
    }

    #[test]
    fn it_has_room_for_more_than_a_branch() {
        let mut map = TokenMap::default();
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            Token((state ^ (state >> 29)) as i64)
        };
        let tokens: Vec<Token> = (0..50_000).map(|_| next()).collect();
        for token in &tokens {
            *map.get_or_insert_with(*token, || 0) += 1;
        }
        assert!(map.branches.len() > 4, "{}", map.branches.len());
        assert!(tokens.iter().all(|token| map.get(*token) == Some(&1)));
        let all: Vec<Token> = map.from(Token::MIN).map(|(token, _)| token).collect();
        assert!(all.is_sorted() && all.len() == map.len());
    }
}
