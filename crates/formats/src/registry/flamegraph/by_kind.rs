//! The picture of one profile: colours by the kind of code, figures in the unit of the value.

use profile::ValueType;

use super::svg::Paint;
use super::tree::Tree;
use crate::amount;
use crate::kind_colors::{self, KINDS};

/// The look of a profile's tree.
pub(super) struct ByKind<'a> {
    pub(super) tree: &'a Tree,
    pub(super) unit: &'a ValueType,
}

impl Paint for ByKind<'_> {
    fn fill(&self, node: usize) -> String {
        let frame = &self.tree.node(node).frame;
        kind_colors::of(frame.kind).shaded(&frame.name)
    }

    /// `1.234 s, 12.34 %; self 0.1 s, 1 %`.
    fn figures(&self, node: usize) -> String {
        let node = self.tree.node(node);
        let whole = self.tree.root().total.max(1) as f64;
        let of = |value: u64| format!("{}, {:.2} %", amount(value, self.unit), 100.0 * value as f64 / whole);
        if node.own == 0 || node.own == node.total {
            return of(node.total);
        }
        format!("{}; self {}", of(node.total), of(node.own))
    }

    fn legend(&self, nodes: &[usize]) -> Vec<(String, &'static str)> {
        let is_shown = |kind| nodes.iter().any(|node| self.tree.node(*node).frame.kind == kind);
        KINDS.into_iter().filter(|of| is_shown(of.kind)).map(|of| (of.plain(), of.name)).collect()
    }
}
