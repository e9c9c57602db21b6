//! Where the frames of a tree stand.

use super::tree::Tree;

/// A frame that is narrower than this is left out, with all that it called.
const NARROWEST: f64 = 0.1;

/// A frame in the picture.
#[derive(Debug, PartialEq)]
pub(super) struct Rectangle {
    /// Number of the node.
    pub(super) node: usize,
    /// 0 for the root.
    pub(super) depth: usize,
    /// Where it begins, in the unit of the profile's value.
    pub(super) start: u64,
}

/// The frames that are wide enough in a picture of this width, callers before those that they call.
pub(super) fn rectangles(tree: &Tree, width: f64) -> Vec<Rectangle> {
    let narrowest = tree.root().total as f64 * NARROWEST / width;
    let mut waiting = vec![Rectangle { node: 0, depth: 0, start: 0 }];
    let mut placed = Vec::new();
    while let Some(rectangle) = waiting.pop() {
        let mut start = rectangle.start;
        for child in tree.node(rectangle.node).children() {
            let total = tree.node(child).total;
            if total as f64 >= narrowest {
                waiting.push(Rectangle { node: child, depth: rectangle.depth + 1, start });
            }
            start = start.saturating_add(total);
        }
        placed.push(rectangle);
    }
    placed
}
