//! What the entries of a unit are in: namespaces, types and functions.
//!
//! Entries do not refer to those around them. A unit is read once, without the insides of functions; those are read when an entry in one
//! of them is asked for.

use crate::abbreviations::{Abbreviations, Kind};
use crate::bytes::uleb;
use crate::limits::{MAX_SCOPES, MAX_SCOPES_OF_UNIT, Work};
use crate::view::View;

/// A namespace, a type or a function with entries inside.
#[derive(Clone, Copy, Debug)]
struct Scope {
    /// Position of the entry.
    start: usize,
    end: usize,
    /// The number of the one that it is in.
    parent: Option<u32>,
    /// Its inside was not read.
    is_closed: bool,
}

/// The scopes of one unit, by start.
#[derive(Debug, Default)]
pub(crate) struct Scopes(Vec<Scope>);

impl Scopes {
    /// Reads the scopes of a unit, up to the first damaged entry.
    pub fn read(view: &View<'_>, work: &mut Work) -> Self {
        let mut this = Self::default();
        let _ = this.scan(view, view.head.entries, None, work);
        this
    }

    /// The entries around one, innermost first.
    pub fn around(&self, view: &View<'_>, entry: usize, work: &mut Work) -> Vec<usize> {
        let mut found = Vec::new();
        let innermost = self.innermost(entry);
        if let Some(scope) = innermost.and_then(|number| self.0.get(number as usize))
            && scope.is_closed
        {
            let mut inside = Self::default();
            let _ = inside.scan(view, scope.start, Some(entry), work);
            let first = inside.innermost(entry);
            inside.climb(first, &mut found);
            // The function itself is the outermost one.
            found.pop();
        }
        self.climb(innermost, &mut found);
        found
    }

    fn innermost(&self, entry: usize) -> Option<u32> {
        let behind = self.0.partition_point(|scope| scope.start < entry);
        let mut number = u32::try_from(behind.checked_sub(1)?).ok()?;
        loop {
            let scope = self.0.get(number as usize)?;
            if entry < scope.end {
                return Some(number);
            }
            number = scope.parent?;
        }
    }

    fn climb(&self, mut number: Option<u32>, found: &mut Vec<usize>) {
        while let Some(scope) = number.and_then(|number| self.0.get(number as usize))
            && found.len() < MAX_SCOPES
        {
            found.push(scope.start);
            number = scope.parent;
        }
    }

    /// Reads the entry at a position and the entries inside it. `until`: the last entry that is of interest, also inside of functions; without
    /// it the insides of functions are left out.
    fn scan(&mut self, view: &View<'_>, from: usize, until: Option<usize>, work: &mut Work) -> Option<()> {
        let data = view.data();
        // For each entry whose children are being read: its own number, and that of the scope around the children.
        let mut open: Vec<(Option<u32>, Option<u32>)> = Vec::new();
        let mut at = from;
        while work.take(1) && until.is_none_or(|until| at <= until) {
            let entry = at;
            let number = uleb(data, &mut at)?;
            if number == 0 {
                if let (Some(own), _) = open.pop()?
                    && let Some(scope) = self.0.get_mut(own as usize)
                {
                    scope.end = at;
                }
                if open.is_empty() {
                    return Some(());
                }
                continue;
            }
            let shape = view.abbreviations.get(number)?;
            let attributes = at;
            view.abbreviations.skip(shape, data, &mut at, view.head.encoding)?;
            if shape.has_children {
                let around = open.last().and_then(|(_, around)| *around);
                let is_function = view.abbreviations.is_function(shape);
                let is_scope = is_function || matches!(shape.kind, Kind::Namespace | Kind::Type);
                let own = if is_scope { self.enter(entry, around) } else { None };
                let sibling = Abbreviations::sibling(shape, data, attributes);
                let sibling = sibling.and_then(|sibling| view.head.start.checked_add(sibling));
                let is_skipped = until.is_none() && (is_function || !is_scope && !shape.kind.is_scope());
                if let Some(sibling) = sibling.filter(|sibling| is_skipped && *sibling >= at) {
                    if let Some(scope) = own.and_then(|own| self.0.get_mut(own as usize)) {
                        (scope.end, scope.is_closed) = (sibling, true);
                    }
                    at = sibling;
                } else {
                    open.push((own, own.or(around)));
                }
            }
            if open.is_empty() {
                return Some(());
            }
        }
        None
    }

    fn enter(&mut self, start: usize, parent: Option<u32>) -> Option<u32> {
        let number = u32::try_from(self.0.len()).ok().filter(|_| self.0.len() < MAX_SCOPES_OF_UNIT)?;
        self.0.push(Scope { start, end: usize::MAX, parent, is_closed: false });
        Some(number)
    }
}
