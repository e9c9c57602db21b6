//! The stacks of a profile as a prefix tree, and what was counted at its nodes.

use std::collections::{BTreeMap, HashMap};

use super::frames::FrameId;

/// A node in preorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// How many levels up from the node before, until going down to this one.
    pub(super) up: u32,
    pub(super) frame: FrameId,
}

/// The values of the stacks that end at a node, of one group of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The position of the node in preorder; the root, which is no node, is 0, and the first node is 1.
    pub(super) node: u32,
    pub(super) group: u32,
    /// One for each sample type.
    pub(super) values: Vec<u64>,
    /// The samples of the profile whose values these are.
    pub(super) samples: Vec<u32>,
}

/// The tree while stacks are added.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// By parent and frame. Node 0 is the root.
    children: HashMap<(u32, FrameId), u32>,
    /// Parent and frame of the nodes from 1 on.
    nodes: Vec<(u32, FrameId)>,
    rows: BTreeMap<(u32, u32), (Vec<u64>, Vec<u32>)>,
}

impl Tree {
    /// Adds the values of a sample with this stack, outermost frame first.
    pub(super) fn add(&mut self, stack: &[FrameId], group: u32, values: &[u64], sample: u32) {
        let mut at = 0;
        for frame in stack {
            let next = u32::try_from(self.nodes.len() + 1).unwrap_or(u32::MAX);
            let nodes = &mut self.nodes;
            at = *self.children.entry((at, *frame)).or_insert_with(|| {
                nodes.push((at, *frame));
                next
            });
        }
        let (sums, samples) =
            self.rows.entry((at, group)).or_insert_with(|| (vec![0; values.len()], Vec::new()));
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
        samples.push(sample);
    }

    /// The nodes in preorder, siblings by the `rank` of their frames, and the rows in the order of their nodes.
    pub(super) fn finish(self, rank: &[u32]) -> (Vec<Node>, Vec<Row>) {
        let rank_of = |frame: FrameId| rank.get(frame as usize).copied().unwrap_or(u32::MAX);
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len() + 1];
        for (number, (parent, _)) in (1..).zip(&self.nodes) {
            children[*parent as usize].push(number);
        }
        let frame_of = |number: u32| self.nodes[number as usize - 1].1;
        let mut position = vec![0; self.nodes.len() + 1];
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut waiting = vec![(0, 0)];
        let mut last_depth = 0_u32;
        while let Some((number, depth)) = waiting.pop() {
            if number > 0 {
                position[number as usize] = u32::try_from(nodes.len() + 1).unwrap_or(u32::MAX);
                nodes.push(Node { up: last_depth + 1 - depth, frame: frame_of(number) });
                last_depth = depth;
            }
            let below = &mut children[number as usize];
            below.sort_unstable_by_key(|child| std::cmp::Reverse(rank_of(frame_of(*child))));
            waiting.extend(below.drain(..).map(|child| (child, depth + 1)));
        }
        let row = |((node, group), (values, samples)): ((u32, u32), _)| Row {
            node: position[node as usize],
            group,
            values,
            samples,
        };
        let mut rows: Vec<Row> = self.rows.into_iter().map(row).collect();
        rows.sort_unstable_by_key(|row| (row.node, row.group));
        (nodes, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_preorder_by_name_and_rows_by_node() {
        let mut tree = Tree::default();
        tree.add(&[2, 0], 1, &[1, 10], 0);
        tree.add(&[2], 0, &[2, 20], 1);
        tree.add(&[1, 0, 2], 0, &[3, 30], 2);
        tree.add(&[2, 0], 1, &[4, u64::MAX], 3);
        let (nodes, rows) = tree.finish(&[5, 6, 7]);
        let shown: Vec<_> = nodes.iter().map(|node| (node.up, node.frame)).collect();
        assert_eq!(shown, [(0, 1), (0, 0), (0, 2), (3, 2), (0, 0)]);
        let row = |node, group, values: [u64; 2], samples: &[u32]| Row {
            node,
            group,
            values: values.to_vec(),
            samples: samples.to_vec(),
        };
        let expected =
            [row(3, 0, [3, 30], &[2]), row(4, 0, [2, 20], &[1]), row(5, 1, [5, u64::MAX], &[0, 3])];
        assert_eq!(rows, expected);
    }
}
