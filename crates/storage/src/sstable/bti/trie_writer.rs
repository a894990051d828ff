//! Writing a trie in pages, bottom up, while its keys come in order
//! (`org.apache.cassandra.io.tries.IncrementalTrieWriterPageAware`).
//!
//! What may still grow is on a stack: the nodes from the root to the last key. A node that is left
//! behind is complete. As long as it and all below it fit a page they wait; when they do not, the
//! branches below it are written, the largest that fits what is left of the page first, and what
//! remains is the node itself, with children that have their places. So a look-up touches few
//! pages, and no node crosses from one page into the next.
//!
//! The sizes of nodes depend on how far their children are, and so on where they will be written.
//! Where that is not known yet they are estimates, made again when the place is known.

use std::collections::BTreeSet;

use super::PAGE;
use super::node::Form;

/// What a key of the trie stands for.
pub(super) trait Payload {
    /// Its flags, not 0, and how many bytes follow the node.
    fn measure(&self) -> (u8, usize);

    /// Appends those bytes.
    fn write(&self, out: &mut Vec<u8>);
}

/// The bytes of a file that are written and not taken yet, and where its end is.
#[derive(Debug, Default)]
pub(super) struct Paged {
    /// Written, and not taken yet.
    pub(super) bytes: Vec<u8>,
    /// Bytes taken before.
    taken: u64,
}

impl Paged {
    /// Where the next byte will be.
    pub(super) fn position(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    /// Takes what is written.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.taken = self.position();
        std::mem::take(&mut self.bytes)
    }

    fn left_in_page(&self) -> u64 {
        PAGE - self.position() % PAGE
    }

    fn pad(&mut self) {
        let position = self.position();
        let padding = position.next_multiple_of(PAGE) - position;
        self.bytes.resize(self.bytes.len() + padding as usize, 0);
    }
}

/// Builds a trie.
pub(super) struct TrieWriter<P> {
    /// From the root to the last key.
    stack: Vec<Node<P>>,
    last: Vec<u8>,
    count: u64,
    /// For the children of the node that is written.
    children: Vec<(u8, u64)>,
}

struct Node<P> {
    byte: u8,
    payload: Option<P>,
    children: Vec<Node<P>>,
    /// Where it was written, if it was; all that was below it is gone from memory then.
    position: Option<u64>,
    /// The bytes of what is below it and not written.
    branch: u64,
    /// Its own bytes.
    size: u64,
    /// Is a child of it written already?
    far_children: bool,
    /// Is something below its children written already?
    far_branch: bool,
}

impl<P: Payload> Node<P> {
    fn new(byte: u8) -> Node<P> {
        Node {
            byte,
            payload: None,
            children: Vec::new(),
            position: None,
            branch: 0,
            size: 0,
            far_children: true,
            far_branch: false,
        }
    }

    fn total(&self) -> u64 {
        self.branch + self.size
    }

    /// How far before the node, if that will be at `position`, its farthest child will be: the
    /// first of those that wait to be written with it, or one that is written.
    fn farthest(&self, position: u64) -> u64 {
        let waits = |child: &&Node<P>| !self.far_children || child.position.is_none();
        let first = self.children.iter().find(waits);
        let waiting = first.map_or(0, |child| self.branch - child.branch);
        if !self.far_children {
            return waiting;
        }
        let written = self.children.iter().filter_map(|c| c.position);
        let nearest = written.map(|at| position.saturating_sub(at)).max();
        nearest.unwrap_or(0).max(waiting)
    }

    fn form(&self, position: u64) -> (Form, u64) {
        let mut bytes = [0; 256];
        for (slot, child) in bytes.iter_mut().zip(&self.children) {
            *slot = child.byte;
        }
        let bytes = &bytes[..self.children.len()];
        let form = Form::choose(bytes, self.farthest(position), self.payload.is_some());
        let payload = self.payload.as_ref().map_or(0, |p| p.measure().1);
        (form, (form.size(bytes) + payload) as u64)
    }

    fn size_at(&self, position: u64) -> u64 {
        self.form(position).1
    }

    /// Measures the branch anew, if it will be written at `position`.
    fn measure_at(&mut self, position: u64) -> u64 {
        if self.far_branch {
            let mut size = 0;
            for child in self.children.iter_mut().filter(|c| c.position.is_none()) {
                size += child.measure_at(position + size);
            }
            self.branch = size;
        }
        if self.far_children || self.far_branch {
            self.size = self.size_at(position + self.branch);
        }
        self.total()
    }

    /// Writes what is below the node, then the node; says where that is.
    fn write(&mut self, out: &mut Paged, scratch: &mut Vec<(u8, u64)>) -> u64 {
        for child in self.children.iter_mut().filter(|c| c.position.is_none()) {
            child.position = Some(child.write(out, scratch));
        }
        let position = out.position();
        let (form, _) = self.form(position);
        scratch.clear();
        scratch.extend(self.children.iter().map(|child| {
            let at = child
                .position
                .expect("children are written before their parents");
            (child.byte, position - at)
        }));
        let (flags, _) = self.payload.as_ref().map_or((0, 0), Payload::measure);
        form.write(&mut out.bytes, scratch, flags);
        if let Some(payload) = &self.payload {
            payload.write(&mut out.bytes);
        }
        debug_assert_eq!(
            position / PAGE,
            (out.position() - 1) / PAGE,
            "a node crosses pages"
        );
        position
    }

    /// It is written: nothing but its place is needed any more.
    fn written_at(&mut self, position: u64) {
        self.position = Some(position);
        self.branch = 0;
        self.size = 0;
        self.far_branch = false;
        self.far_children = false;
        self.children = Vec::new();
        self.payload = None;
    }
}

impl<P: Payload> TrieWriter<P> {
    pub(super) fn new() -> TrieWriter<P> {
        TrieWriter {
            stack: vec![Node::new(0)],
            last: Vec::new(),
            count: 0,
            children: Vec::new(),
        }
    }

    /// How many keys there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a key, which must be behind the one before.
    pub(super) fn add(&mut self, out: &mut Paged, key: &[u8], payload: P) {
        let common = self
            .last
            .iter()
            .zip(key)
            .take_while(|(a, b)| a == b)
            .count();
        debug_assert!(self.count == 0 || *self.last < *key, "keys come in order");
        self.count += 1;
        while self.stack.len() > common + 1 {
            self.complete_last(out);
        }
        self.stack
            .extend(key[common..].iter().map(|byte| Node::new(*byte)));
        let node = self.stack.last_mut().expect("the root stays");
        node.payload = Some(payload);
        self.last.clear();
        self.last.extend(key);
    }

    /// Takes the last node off the stack to its parent.
    fn complete_last(&mut self, out: &mut Paged) {
        if let Some(mut node) = self.stack.pop() {
            self.complete(&mut node, out);
            match self.stack.last_mut() {
                Some(parent) => parent.children.push(node),
                None => self.stack.push(node),
            }
        }
    }

    /// No more children will come: writes some of them if they do not fit a page with it.
    fn complete(&mut self, node: &mut Node<P>, out: &mut Paged) {
        node.branch = node.children.iter().map(Node::total).sum();
        node.far_children = node.children.iter().any(|c| c.position.is_some());
        let size = node.size_at(out.position());
        if size + node.branch < PAGE {
            node.size = size;
            node.far_branch = node
                .children
                .iter()
                .any(|c| c.position.is_none() && (c.far_children || c.far_branch));
            return;
        }
        self.write_children(node, out);
    }

    /// Writes what is below a node, page by page.
    fn write_children(&mut self, node: &mut Node<P>, out: &mut Paged) {
        // Of equal ones the one with the higher byte: it is likely nearer to what comes next.
        let unwritten = node.children.iter().enumerate();
        let unwritten = unwritten.filter(|(_, child)| child.position.is_none());
        let mut left: BTreeSet<(u64, usize)> =
            unwritten.map(|(i, child)| (child.total(), i)).collect();
        let mut room = out.left_in_page();
        while !left.is_empty() {
            let fitting = left.range(..(room + 1, 0)).next_back().copied();
            let chosen = fitting.or_else(|| {
                out.pad();
                room = PAGE;
                left.last().copied()
            });
            let Some(chosen) = chosen else { break };
            left.remove(&chosen);
            let child = &mut node.children[chosen.1];
            if child.far_children || child.far_branch {
                let size = child.measure_at(out.position());
                if size > room {
                    if room == PAGE {
                        self.write_children(child, out);
                        room = out.left_in_page();
                    }
                    left.insert((node.children[chosen.1].total(), chosen.1));
                    continue;
                }
            }
            let position = child.write(out, &mut self.children);
            child.written_at(position);
            room = out.left_in_page();
        }
        node.branch = 0;
        node.far_children = true;
        node.far_branch = false;
        node.size = node.size_at(out.position());
    }

    /// Writes what is left; says where the root is. The writer is empty then and can be used for
    /// another trie.
    pub(super) fn finish(&mut self, out: &mut Paged) -> u64 {
        while self.stack.len() > 1 {
            self.complete_last(out);
        }
        let mut root = self.stack.pop().expect("the root stays");
        self.complete(&mut root, out);
        let mut size = root.measure_at(out.position());
        let mut room = out.left_in_page();
        if size > room && size <= PAGE {
            out.pad();
            room = PAGE;
            size = root.measure_at(out.position());
        }
        if size > room {
            self.write_children(&mut root, out);
            if root.size > out.left_in_page() {
                out.pad();
                root.measure_at(out.position());
            }
        }
        let position = root.write(out, &mut self.children);
        self.reset();
        position
    }

    /// Forgets all keys.
    pub(super) fn reset(&mut self) {
        self.stack.clear();
        self.stack.push(Node::new(0));
        self.last.clear();
        self.count = 0;
    }
}
