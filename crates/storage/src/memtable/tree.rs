//! Sorted items that readers share and a writer goes on changing: a B+tree whose nodes are
//! counted references.
//!
//! A reader takes the root, and has the items as they are however long it reads. A writer that
//! meets a shared node copies it, and so a path from the root: O(log n), whoever reads. Nodes know
//! how many items are below each child, so that a place among the items is a number. What an item
//! is sorted by is left to the caller, who gives with it a rank: a number that never falls along
//! the items. Ranks lie side by side in the nodes; only where they are equal are items looked at.

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use smallvec::SmallVec;

use super::allocated::{COUNTS, allocated};

/// How many items or children a node has at most: what fills a size of the allocator.
const FANOUT: usize = 32;

/// Bytes that nodes take at most for each of many items that were put into an empty tree, in any
/// order: one that was cut has room for half as much again, and there are few above it.
pub(super) const fn most_bytes_a_place<T>() -> usize {
    2 * size_of::<Item<T>>()
}

/// Sorted items; a clone shares them.
#[derive(Clone, Debug)]
pub(crate) struct Tree<T>(Root<T>);

/// Most partitions have one row: it needs no node.
#[derive(Clone, Debug)]
enum Root<T> {
    Empty,
    One(T),
    Many { len: usize, node: Rc<Node<T>> },
}

/// Never empty.
#[derive(Clone, Debug)]
enum Node<T> {
    Leaf(Vec<Item<T>>),
    Inner(Vec<Child<T>>),
}

#[derive(Clone, Debug)]
struct Item<T> {
    rank: u64,
    item: T,
}

#[derive(Clone, Debug)]
struct Child<T> {
    /// Of the first item below.
    rank: u64,
    /// Items below.
    len: usize,
    node: Rc<Node<T>>,
}

impl<T> Default for Tree<T> {
    fn default() -> Tree<T> {
        Tree(Root::Empty)
    }
}

impl<T: Clone> Tree<T> {
    /// How many items.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Root::Empty => 0,
            Root::One(_) => 1,
            Root::Many { len, .. } => *len,
        }
    }

    /// No items?
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item, if there is no other one.
    pub(crate) fn only(&self) -> Option<&T> {
        match &self.0 {
            Root::One(item) => Some(item),
            Root::Empty | Root::Many { .. } => None,
        }
    }

    /// How many items come before what is sought, which has this rank, and whether the next one is
    /// it. `order` compares an item with what is sought.
    pub(crate) fn search(&self, rank: u64, order: impl Fn(&T) -> Ordering) -> (usize, bool) {
        let root = match &self.0 {
            Root::Empty => return (0, false),
            Root::One(item) => {
                let order = order(item);
                return (usize::from(order == Ordering::Less), order.is_eq());
            }
            Root::Many { node, .. } => node,
        };
        let compare = |known: u64, item: &dyn Fn() -> Ordering| known.cmp(&rank).then_with(item);
        let (mut node, mut before) = (root, 0);
        loop {
            match &**node {
                Node::Inner(children) => {
                    // The last whose first item is not behind what is sought.
                    let behind = children.partition_point(|child| {
                        compare(child.rank, &|| order(child.node.first())).is_le()
                    });
                    let at = behind.saturating_sub(1);
                    before += children[..at].iter().map(|child| child.len).sum::<usize>();
                    node = &children[at].node;
                }
                Node::Leaf(items) => {
                    let compare = |item: &Item<T>| compare(item.rank, &|| order(&item.item));
                    let at = items.partition_point(|item| compare(item).is_lt());
                    let found = items.get(at).is_some_and(|item| compare(item).is_eq());
                    return (before + at, found);
                }
            }
        }
    }

    /// The item of a number.
    pub(crate) fn get(&self, mut index: usize) -> Option<&T> {
        match &self.0 {
            Root::Empty => None,
            Root::One(item) => (index == 0).then_some(item),
            Root::Many { node, .. } => {
                let items = leaf_with(node, &mut index)?;
                items.get(index).map(|item| &item.item)
            }
        }
    }

    /// Items that lie side by side, from the first of a range on, or from its last on and backwards; none of an empty
    /// range.
    pub(crate) fn side_by_side(
        &self,
        range: Range<usize>,
        backwards: bool,
    ) -> SmallVec<[&T; FANOUT]> {
        let most = range.len();
        let mut at = match backwards {
            false => range.start,
            true => range.end.saturating_sub(1),
        };
        if most == 0 || at >= self.len() {
            return SmallVec::new();
        }
        let node = match &self.0 {
            Root::Empty => return SmallVec::new(),
            Root::One(item) => return SmallVec::from_iter([item]),
            Root::Many { node, .. } => node,
        };
        let items = leaf_with(node, &mut at).unwrap_or_default();
        match backwards {
            false => {
                let items = items.iter().skip(at).take(most);
                items.map(|item| &item.item).collect()
            }
            true => {
                let items = items.iter().take(at + 1).rev().take(most);
                items.map(|item| &item.item).collect()
            }
        }
    }

    /// Changes the item of a number, where there is one, and gives what `change` does. What nodes
    /// take grows by `grown` bytes.
    pub(crate) fn change<R>(
        &mut self,
        index: usize,
        grown: &mut isize,
        change: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        match &mut self.0 {
            Root::Empty => None,
            Root::One(item) => (index == 0).then(|| change(item)),
            Root::Many { node, .. } => item_mut(node, index, grown).map(change),
        }
    }

    /// Puts an item before the one of number `index`; `rank` gives the ranks of items. What nodes
    /// take grows by `grown` bytes.
    pub(crate) fn insert(
        &mut self,
        index: usize,
        item: T,
        rank: impl Fn(&T) -> u64,
        grown: &mut isize,
    ) {
        let new = Item {
            rank: rank(&item),
            item,
        };
        match &mut self.0 {
            Root::Empty => self.0 = Root::One(new.item),
            Root::One(first) => {
                let first = Item {
                    rank: rank(first),
                    item: first.clone(),
                };
                let mut items = Vec::with_capacity(4);
                items.push(first);
                items.insert(index, new);
                let node = Node::Leaf(items);
                *grown += node.bytes();
                self.0 = Root::Many {
                    len: 2,
                    node: Rc::new(node),
                };
            }
            Root::Many { len, node } => {
                *len += 1;
                if let Some(behind) = insert(node, index, new, grown) {
                    let mut before = Child::of(node.clone());
                    before.len = *len - behind.len;
                    let root = Node::Inner(vec![before, behind]);
                    *grown += root.bytes();
                    *node = Rc::new(root);
                }
            }
        }
    }

    /// Removes the item of a number, where there is one.
    pub(crate) fn remove(&mut self, index: usize, grown: &mut isize) {
        match &mut self.0 {
            Root::One(_) if index == 0 => self.0 = Root::Empty,
            Root::Many { len, node } if index < *len => {
                remove(node, index, grown);
                *len -= 1;
                while let Node::Inner(children) = &**node
                    && let [only] = &children[..]
                {
                    *grown -= node.bytes();
                    *node = only.node.clone();
                }
                if *len == 0 {
                    *grown -= node.bytes();
                    self.0 = Root::Empty;
                }
            }
            _ => {}
        }
    }
}

impl<T> Node<T> {
    /// Bytes that the node takes, without what its items hold.
    fn bytes(&self) -> isize {
        let list = match self {
            Node::Leaf(items) => items.capacity() * size_of::<Item<T>>(),
            Node::Inner(children) => children.capacity() * size_of::<Child<T>>(),
        };
        (allocated(COUNTS + size_of::<Node<T>>()) + allocated(list)) as isize
    }

    fn first(&self) -> &T {
        match self {
            Node::Leaf(items) => &items[0].item,
            Node::Inner(children) => children[0].node.first(),
        }
    }

    fn first_rank(&self) -> u64 {
        match self {
            Node::Leaf(items) => items[0].rank,
            Node::Inner(children) => children[0].rank,
        }
    }
}

impl<T> Child<T> {
    fn of(node: Rc<Node<T>>) -> Child<T> {
        let len = match &*node {
            Node::Leaf(items) => items.len(),
            Node::Inner(children) => children.iter().map(|child| child.len).sum(),
        };
        Child {
            rank: node.first_rank(),
            len,
            node,
        }
    }
}

/// The leaf that has the item of a number; of the number is left what it is in that leaf.
fn leaf_with<'n, T>(mut node: &'n Rc<Node<T>>, index: &mut usize) -> Option<&'n [Item<T>]> {
    loop {
        match &**node {
            Node::Leaf(items) => return Some(items),
            Node::Inner(children) => node = &children[child_with(children, index)?].node,
        }
    }
}

/// Which child has the item of a number; of the number is left what it is in that child.
fn child_with<T>(children: &[Child<T>], index: &mut usize) -> Option<usize> {
    children.iter().position(|child| {
        let here = *index < child.len;
        if !here {
            *index -= child.len;
        }
        here
    })
}

/// The node for changing: a copy of its own, if readers have it.
fn own<'n, T: Clone>(node: &'n mut Rc<Node<T>>, grown: &mut isize) -> &'n mut Node<T> {
    if Rc::strong_count(node) > 1 {
        // The copy has no room to spare.
        let before = node.bytes();
        *grown += Rc::make_mut(node).bytes() - before;
    }
    Rc::make_mut(node)
}

fn item_mut<'n, T: Clone>(
    node: &'n mut Rc<Node<T>>,
    mut index: usize,
    grown: &mut isize,
) -> Option<&'n mut T> {
    match own(node, grown) {
        Node::Leaf(items) => items.get_mut(index).map(|item| &mut item.item),
        Node::Inner(children) => {
            let at = child_with(children, &mut index)?;
            item_mut(&mut children[at].node, index, grown)
        }
    }
}

/// Gives the node that has to stand behind this one, if it became two.
fn insert<T: Clone>(
    node: &mut Rc<Node<T>>,
    mut index: usize,
    new: Item<T>,
    grown: &mut isize,
) -> Option<Child<T>> {
    let node = own(node, grown);
    let before = node.bytes();
    let behind = match node {
        Node::Leaf(items) => put(items, index, new).map(Node::Leaf),
        Node::Inner(children) => {
            // What belongs between two children joins the end of the first of them.
            let at = index.checked_sub(1).map_or(Some(0), |mut last| {
                let at = child_with(children, &mut last);
                index = last + 1;
                at
            })?;
            let behind = insert(&mut children[at].node, index, new, grown);
            let child = &mut children[at];
            child.len += 1;
            child.rank = child.node.first_rank();
            match behind {
                Some(behind) => {
                    child.len -= behind.len;
                    put(children, at + 1, behind).map(Node::Inner)
                }
                None => None,
            }
        }
    };
    *grown += node.bytes() - before;
    behind.map(|behind| {
        *grown += behind.bytes();
        Child::of(Rc::new(behind))
    })
}

/// Puts something into a list, which may have to be cut; gives what is behind the cut.
fn put<E>(list: &mut Vec<E>, index: usize, new: E) -> Option<Vec<E>> {
    if list.len() < FANOUT {
        if list.len() == list.capacity() {
            // Few at a time, as most lists never get full.
            list.reserve_exact(list.len().clamp(4, FANOUT / 4).min(FANOUT - list.len()));
        }
        list.insert(index, new);
        return None;
    }
    // Items often arrive in order, or in the opposite one: then full lists stay behind.
    let mut behind = match index {
        0 => std::mem::take(list),
        FANOUT => Vec::new(),
        _ => list.split_off(FANOUT / 2),
    };
    list.shrink_to_fit();
    let half = list.len();
    if index == 0 || index < half {
        put(list, index, new);
    } else {
        put(&mut behind, index - half, new);
    }
    Some(behind)
}

fn remove<T: Clone>(node: &mut Rc<Node<T>>, mut index: usize, grown: &mut isize) {
    match own(node, grown) {
        Node::Leaf(items) => {
            items.remove(index);
        }
        Node::Inner(children) => {
            let Some(at) = child_with(children, &mut index) else {
                return;
            };
            let child = &mut children[at];
            remove(&mut child.node, index, grown);
            child.len -= 1;
            if child.len > 0 {
                child.rank = child.node.first_rank();
            } else {
                *grown -= child.node.bytes();
                children.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Only every fourth number can be told from the next one by its rank.
    fn rank(n: &u16) -> u64 {
        u64::from(n / 4)
    }

    fn search(tree: &Tree<u16>, n: u16) -> (usize, bool) {
        tree.search(rank(&n), |known| known.cmp(&n))
    }

    fn put(tree: &mut Tree<u16>, n: u16, grown: &mut isize) {
        let (index, found) = search(tree, n);
        if found {
            tree.change(index, grown, |known| *known = n);
        } else {
            tree.insert(index, n, rank, grown);
        }
    }

    fn all(tree: &Tree<u16>) -> Vec<u16> {
        (0..tree.len())
            .map(|i| *tree.get(i).expect("an item"))
            .collect()
    }

    /// Bytes of all nodes.
    fn bytes(tree: &Tree<u16>) -> isize {
        fn below(node: &Node<u16>) -> isize {
            let inner = match node {
                Node::Leaf(_) => 0,
                Node::Inner(children) => children.iter().map(|c| below(&c.node)).sum(),
            };
            node.bytes() + inner
        }
        match &tree.0 {
            Root::Many { node, .. } => below(node),
            _ => 0,
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(u16),
        Remove(u16),
        Read,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u16..1500).prop_map(Step::Put),
            2 => (0u16..1500).prop_map(Step::Remove),
            1 => Just(Step::Read),
        ]
    }

    /// The items of a range, as they are given side by side.
    fn walk(tree: &Tree<u16>, mut range: Range<usize>, backwards: bool) -> Vec<u16> {
        let mut items = Vec::new();
        loop {
            let found = tree.side_by_side(range.clone(), backwards);
            if found.is_empty() {
                assert!(range.is_empty(), "{range:?} is left");
                return items;
            }
            items.extend(found.iter().copied());
            match backwards {
                false => range.start += found.len(),
                true => range.end -= found.len(),
            }
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_set(steps in proptest::collection::vec(step(), 0..1200)) {
            let (mut tree, mut grown) = (Tree::default(), 0);
            let mut expected = std::collections::BTreeSet::new();
            let mut reader = (tree.clone(), Vec::new());
            for step in steps {
                match step {
                    Step::Put(n) => {
                        put(&mut tree, n, &mut grown);
                        expected.insert(n);
                    }
                    Step::Remove(n) => {
                        if let (index, true) = search(&tree, n) {
                            tree.remove(index, &mut grown);
                        }
                        expected.remove(&n);
                    }
                    Step::Read => {
                        prop_assert_eq!(all(&reader.0), reader.1, "what a reader saw");
                        reader = (tree.clone(), expected.iter().copied().collect());
                    }
                }
                prop_assert_eq!(tree.len(), expected.len());
            }
            prop_assert_eq!(all(&tree), expected.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(tree.get(tree.len()), None);
            prop_assert_eq!(grown, bytes(&tree));
            for n in (0..1500).step_by(7) {
                let (index, found) = search(&tree, n);
                prop_assert_eq!(found, expected.contains(&n));
                prop_assert_eq!(index, expected.range(..n).count());
            }
            let items: Vec<u16> = expected.iter().copied().collect();
            for from in (0..=items.len()).step_by(13) {
                let range = from..from.max(items.len() - from / 2);
                let (forward, mut backward) = (walk(&tree, range.clone(), false), walk(&tree, range.clone(), true));
                backward.reverse();
                prop_assert_eq!(&forward, &items[range.clone()]);
                prop_assert_eq!(&backward, &items[range]);
            }
            for n in &expected {
                let (index, found) = search(&tree, *n);
                prop_assert!(found);
                tree.remove(index, &mut grown);
            }
            prop_assert!(tree.is_empty() && grown == 0);
        }
    }

    #[test]
    fn what_arrives_in_order_fills_its_nodes() {
        for numbers in [
            (0..20_000).collect::<Vec<u16>>(),
            (0..20_000).rev().collect(),
        ] {
            let (mut tree, mut grown) = (Tree::default(), 0);
            for n in &numbers {
                put(&mut tree, *n, &mut grown);
            }
            let least = numbers.len() * size_of::<Item<u16>>();
            let most = least + least / 5;
            assert!((grown as usize) < most, "{grown} of {least} bytes");
        }
    }
}
