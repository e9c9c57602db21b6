//! Collects rows: one layer for each source of unwind information, merged at the end.

use std::collections::HashMap;
use std::ops::Range;

use crate::abi::Rule;
use crate::abi::cfa;

/// The distinct rules of a file.
#[derive(Debug)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    index: HashMap<Rule, u16>,
    /// A direct-mapped cache in front of the map: few rules make up almost all rows.
    cache: Box<[(Rule, u16); 256]>,
}

/// Index of [`Rule::UNSUPPORTED`] in every set.
pub(crate) const UNSUPPORTED: u16 = 1;

impl RuleSet {
    pub(crate) fn new() -> Self {
        let mut set = Self {
            rules: vec![Rule::NONE, Rule::UNSUPPORTED],
            index: HashMap::new(),
            cache: Box::new([(Rule::NONE, 0); 256]),
        };
        set.index.insert(Rule::NONE, 0);
        set.index.insert(Rule::UNSUPPORTED, UNSUPPORTED);
        set
    }

    /// The index of a rule; that of [`Rule::UNSUPPORTED`] if there are too many rules.
    #[inline]
    pub(crate) fn intern(&mut self, rule: Rule) -> u16 {
        let mixed = (rule.cfa_off as u32 ^ (rule.fp_off as u32).rotate_left(13)).wrapping_mul(0x9e37_79b9)
            ^ u32::from_le_bytes([rule.cfa, rule.ra, rule.fp, rule.flags]).wrapping_mul(0x85eb_ca6b);
        let slot = &mut self.cache[(mixed >> 24) as usize];
        if slot.0 == rule {
            return slot.1;
        }
        let index = *self.index.entry(rule).or_insert_with(|| match u16::try_from(self.rules.len()) {
            Ok(index) => {
                self.rules.push(rule);
                index
            }
            Err(_) => UNSUPPORTED,
        });
        *slot = (rule, index);
        index
    }

    /// The used rules, and the new index for each old index.
    pub(crate) fn compact(self, used: &[bool]) -> (Vec<Rule>, Vec<u16>) {
        let mut kept = Vec::new();
        let mut renumbered = vec![0; self.rules.len()];
        for (old, rule) in self.rules.iter().enumerate() {
            if old == 0 || used.get(old).copied().unwrap_or(false) {
                renumbered[old] = kept.len() as u16;
                kept.push(*rule);
            }
        }
        (kept, renumbered)
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether another rule has a number.
    pub(crate) fn has_space(&self) -> bool {
        self.rules.len() < usize::from(u16::MAX)
    }

    pub(crate) fn rule(&self, index: u16) -> Rule {
        self.rules[usize::from(index)]
    }

    pub(crate) fn is_unsupported(&self, index: u16) -> bool {
        self.rules[usize::from(index)].cfa == cfa::UNSUPPORTED
    }
}

/// A row of a span: the rule from `start + delta` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanRow {
    pub delta: u32,
    pub rule: u16,
}

/// A covered range of addresses, usually a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
    /// Only padding separates it from the next span, if that is near.
    pub padded: bool,
    first_row: u32,
    rows: u32,
}

/// Above the number of rows that the table pool in the kernel holds.
const MAX_ROWS: usize = 32 << 20;

/// The spans of one source, sorted and disjoint.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub spans: Vec<Span>,
    rows: Vec<SpanRow>,
    open: Option<u64>,
    /// Spans that were dropped because there are too many rows.
    pub refused: u32,
}

impl Layer {
    /// Starts a span after all others.
    pub(crate) fn begin(&mut self, start: u64) {
        self.open = Some(start);
        let first_row = self.rows.len() as u32;
        self.spans.push(Span { start, end: start, padded: true, first_row, rows: 0 });
    }

    /// `rule` holds from `address` on. Addresses must not decrease. Of two rules for one address the later one wins.
    #[inline]
    pub(crate) fn row(&mut self, address: u64, rule: u16) {
        let (Some(start), Some(span)) = (self.open, self.spans.last_mut()) else { return };
        let Ok(delta) = u32::try_from(address.saturating_sub(start)) else { return };
        if span.rows > 0 {
            let last = self.rows.len() - 1;
            if self.rows[last].delta == delta {
                self.rows[last].rule = rule;
                return;
            }
            if self.rows[last].rule == rule {
                return;
            }
        }
        if self.rows.len() < MAX_ROWS {
            self.rows.push(SpanRow { delta, rule });
            span.rows += 1;
        }
    }

    /// Extends the last span up to `start`, where a function begins; `rule` holds for the byte before.
    pub(crate) fn extend(&mut self, start: u64, rule: u16) {
        let Some(span) = self.spans.last_mut().filter(|_| self.open.is_none()) else { return };
        let delta = start.checked_sub(span.start + 1).and_then(|delta| u32::try_from(delta).ok());
        let Some(delta) = delta.filter(|_| span.rows > 0 && self.rows.len() < MAX_ROWS) else { return };
        span.end = start;
        match self.rows.last_mut() {
            Some(last) if last.delta == delta => last.rule = rule,
            _ => {
                self.rows.push(SpanRow { delta, rule });
                span.rows += 1;
            }
        }
    }

    /// The rule at the end of the last span; 0: there is none.
    pub(crate) fn last_rule(&self) -> u16 {
        self.rows.last().map_or(0, |row| row.rule)
    }

    /// Replaces the rules of a span.
    pub(crate) fn change(&mut self, span: usize, mut change: impl FnMut(u16) -> u16) {
        let Some(span) = self.spans.get(span) else { return };
        let first = span.first_row as usize;
        let rows = &mut self.rows[first..first + span.rows as usize];
        rows.iter_mut().for_each(|row| row.rule = change(row.rule));
    }

    /// Whether the limit of rows is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MAX_ROWS
    }

    /// Ends the open span.
    pub(crate) fn end(&mut self, end: u64) {
        if self.is_full() {
            self.refused = self.refused.saturating_add(1);
            return self.abandon();
        }
        self.open = None;
        if let Some(span) = self.spans.last_mut() {
            span.end = end;
        }
    }

    /// Ends the open span. Uncovered code may follow immediately.
    pub(crate) fn end_before_code(&mut self, end: u64) {
        if let Some(span) = self.spans.last_mut() {
            span.padded = false;
        }
        self.end(end);
    }

    /// Drops the open span.
    pub(crate) fn abandon(&mut self) {
        self.open = None;
        if let Some(span) = self.spans.pop() {
            self.rows.truncate(span.first_row as usize);
        }
    }

    pub(crate) fn rows_of(&self, span: &Span) -> &[SpanRow] {
        let first = span.first_row as usize;
        &self.rows[first..first + span.rows as usize]
    }

    /// Adds the spans of `lower` that this layer does not cover. Partly covered spans are cut.
    pub(crate) fn fill_from(&mut self, lower: Layer) {
        self.refused = self.refused.saturating_add(lower.refused);
        if lower.spans.is_empty() {
            return;
        }
        let base = self.rows.len() as u32;
        self.rows.extend_from_slice(&lower.rows);
        let mut merged = Vec::with_capacity(self.spans.len() + lower.spans.len());
        let mut own = std::mem::take(&mut self.spans).into_iter().peekable();
        for span in lower.spans {
            let mut at = span.start;
            while at < span.end {
                while let Some(done) = own.next_if(|mine| mine.end <= at) {
                    merged.push(done);
                }
                let (free_to, next) = match own.peek() {
                    Some(mine) if mine.start < span.end => (mine.start.max(at), mine.end),
                    _ => (span.end, span.end),
                };
                if free_to > at {
                    merged.extend(self.piece(&span, base, at, free_to));
                }
                at = next;
            }
        }
        merged.extend(own);
        merged.sort_by_key(|span| span.start);
        self.spans = merged;
    }

    /// The part `start..end` of a span. Its rows were appended at `base`.
    fn piece(&mut self, span: &Span, base: u32, start: u64, end: u64) -> Option<Span> {
        let first = (base + span.first_row) as usize;
        if (start, end) == (span.start, span.end) {
            return Some(Span { first_row: first as u32, ..*span });
        }
        let shift = u32::try_from(start - span.start).ok()?;
        // A span can be cut into as many pieces as it has rows.
        let rows = &self.rows[first..first + span.rows as usize];
        let carried = rows.partition_point(|row| row.delta <= shift).saturating_sub(1);
        let behind = rows.partition_point(|row| u64::from(row.delta) < end - span.start);
        let new_first = self.rows.len() as u32;
        for at in first + carried..first + behind {
            let SpanRow { delta, rule } = self.rows[at];
            self.rows.push(SpanRow { delta: delta.saturating_sub(shift), rule });
        }
        Some(Span {
            start,
            end,
            padded: span.padded,
            first_row: new_first,
            rows: self.rows.len() as u32 - new_first,
        })
    }

    /// The parts of `within` without a span.
    pub(crate) fn gaps(&self, within: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = within.start;
        let first = self.spans.partition_point(|span| span.end <= within.start);
        for span in &self.spans[first..] {
            if span.start >= within.end {
                break;
            }
            if span.start > at {
                gaps.push(at..span.start);
            }
            at = at.max(span.end);
        }
        if at < within.end {
            gaps.push(at..within.end);
        }
        gaps
    }

    /// Whether a span covers an address.
    pub(crate) fn covers(&self, address: u64) -> bool {
        let after = self.spans.partition_point(|span| span.start <= address);
        after > 0 && address < self.spans[after - 1].end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start, end, and rows of address and rule.
    type Flat<R> = (u64, u64, R);

    fn layer(spans: &[Flat<&[(u64, u16)]>]) -> Layer {
        let mut layer = Layer::default();
        for (start, end, rows) in spans {
            layer.begin(*start);
            rows.iter().for_each(|(address, rule)| layer.row(*address, *rule));
            layer.end(*end);
        }
        layer
    }

    fn flat(layer: &Layer) -> Vec<Flat<Vec<(u64, u16)>>> {
        let rows =
            |s: &Span| layer.rows_of(s).iter().map(|r| (s.start + u64::from(r.delta), r.rule)).collect();
        layer.spans.iter().map(|s| (s.start, s.end, rows(s))).collect()
    }

    #[test]
    fn lower_layers_fill_gaps_only() {
        let mut upper = layer(&[(10, 20, &[(10, 1)]), (30, 40, &[(30, 1)])]);
        let lower = layer(&[(0, 15, &[(0, 2), (5, 3)]), (18, 50, &[(18, 4), (25, 5), (45, 6)])]);
        upper.fill_from(lower);
        let expected = vec![
            (0, 10, vec![(0, 2), (5, 3)]),
            (10, 20, vec![(10, 1)]),
            (20, 30, vec![(20, 4), (25, 5)]),
            (30, 40, vec![(30, 1)]),
            (40, 50, vec![(40, 5), (45, 6)]),
        ];
        assert_eq!(flat(&upper), expected);
        assert_eq!(upper.gaps(&(0..60)), vec![50..60]);
        assert!(upper.covers(49) && !upper.covers(50));
    }

    #[test]
    fn rows_merge_and_later_ones_win() {
        let mut one = layer(&[(0, 9, &[(0, 1), (0, 2), (4, 2), (5, 3)])]);
        assert_eq!(flat(&one), vec![(0, 9, vec![(0, 2), (5, 3)])]);
        one.begin(9);
        one.row(9, 7);
        one.abandon();
        assert_eq!(flat(&one).len(), 1);
    }

    #[test]
    fn a_span_in_many_pieces_is_processed_once() {
        const PIECES: u64 = 150_000;
        let (mut upper, mut lower) = (Layer::default(), Layer::default());
        lower.begin(0);
        for i in 0..PIECES {
            lower.row(i * 8, (2 + i % 2) as u16);
            upper.begin(i * 8 + 4);
            upper.row(i * 8 + 4, 1);
            upper.end(i * 8 + 6);
        }
        lower.end(PIECES * 8);
        upper.fill_from(lower);
        // The first four bytes of each eight. The upper layer has two of these, and so on: pieces join across a
        // boundary.
        assert_eq!(upper.spans.len() as u64, 2 * PIECES + 1);
        let rows = flat(&upper);
        assert_eq!(rows[0], (0, 4, vec![(0, 2)]));
        assert_eq!(rows[2], (6, 12, vec![(6, 2), (8, 3)]));
        assert_eq!(rows[4], (14, 20, vec![(14, 3), (16, 2)]));
        assert_eq!(rows.last().unwrap().0, PIECES * 8 - 2);
    }
}
