//! The stacks of a profile as a tree: equal beginnings of stacks are one node.

use std::collections::BTreeMap;

use profile::Profile;

use crate::Merge;
use crate::named_frames::{FrameKind, NamedFrame, NamedFrames};

/// A node: a frame with its callers.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) frame: NamedFrame,
    /// The value of all stacks through this node.
    pub(super) total: u64,
    /// Of these, the value of the stacks that end here.
    pub(super) own: u64,
    /// In the order of their frames.
    children: BTreeMap<NamedFrame, usize>,
}

/// The nodes. The first is the root, which stands for all stacks.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree of one value of a profile. Negative values count as nothing.
    pub(super) fn of(profile: &Profile, value: usize, merge: Merge) -> Self {
        let frames = NamedFrames::new(profile, merge);
        let mut tree = Self::empty();
        for sample in &profile.samples {
            let value =
                sample.values.get(value).copied().and_then(|value| u64::try_from(value).ok()).unwrap_or(0);
            if value > 0 {
                let owners = frames.owners(sample);
                let path = tree.path(owners.iter().chain(frames.stack(sample)));
                tree.add(&path, value);
            }
        }
        if tree.root().total == 0 {
            tree.nodes[0].frame = NamedFrame { name: "[no samples]".to_owned(), kind: FrameKind::Fact };
        }
        tree
    }

    /// A tree of the root alone.
    pub(super) fn empty() -> Self {
        Self { nodes: vec![Node::new(NamedFrame { name: "all".to_owned(), kind: FrameKind::Owner })] }
    }

    /// The nodes of a stack, outermost first, the root before them. Those that are missing come in without a value.
    pub(super) fn path<'a>(&mut self, stack: impl Iterator<Item = &'a NamedFrame>) -> Vec<usize> {
        let mut path = vec![0];
        let mut at = 0;
        for frame in stack {
            let next = self.nodes.len();
            at = match self.nodes[at].children.get(frame) {
                Some(child) => *child,
                None => {
                    self.nodes[at].children.insert(frame.clone(), next);
                    self.nodes.push(Node::new(frame.clone()));
                    next
                }
            };
            path.push(at);
        }
        path
    }

    /// Adds a value to the nodes of a stack.
    pub(super) fn add(&mut self, path: &[usize], value: u64) {
        for at in path {
            let node = &mut self.nodes[*at];
            node.total = node.total.saturating_add(value);
        }
        if let Some(innermost) = path.last() {
            let node = &mut self.nodes[*innermost];
            node.own = node.own.saturating_add(value);
        }
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node that stands for all stacks.
    pub(super) fn root(&self) -> &Node {
        &self.nodes[0]
    }

    /// The node with this number.
    pub(super) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }
}

impl Node {
    fn new(frame: NamedFrame) -> Self {
        Self { frame, total: 0, own: 0, children: BTreeMap::new() }
    }

    /// The numbers of the frames that this one called, in the order of their names.
    pub(super) fn children(&self) -> impl Iterator<Item = usize> {
        self.children.values().copied()
    }
}
