//! Converts merged spans into the pages of the table.

use crate::abi::MAX_ROWS_PER_PAGE;
use crate::abi::PAGE_SHIFT;
use crate::abi::PageSpan;
use crate::abi::Row;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::layer::Span;
use crate::table::Stats;
use crate::table::Table;

/// Limit of pages of a table, 16 GiB of addresses. Bounds the memory for files with distant segments.
const MAX_PAGES: u64 = 1 << 18;
/// Functions are padded to 16 bytes with code that never runs. A gap of at most this size keeps the rule before it.
pub(crate) const MAX_PADDING: u64 = 15;

/// Splits the rows into pages.
pub(crate) fn build(layer: &Layer, rules: RuleSet, mut stats: Stats) -> Table {
    let mut pages = Pages { table: Table::default(), state: 0, used: vec![false; rules.len()] };
    let mut previous: Option<&Span> = None;
    for span in &layer.spans {
        if let Some(before) = previous.filter(|b| span.start - b.end > MAX_PADDING || !b.padded) {
            pages.set(before.end, 0);
        }
        for row in layer.rows_of(span) {
            if rules.is_unsupported(row.rule) {
                stats.unsupported_rows = stats.unsupported_rows.saturating_add(1);
            }
            pages.set(span.start + u64::from(row.delta), row.rule);
        }
        previous = Some(span);
    }
    if let Some(last) = previous {
        pages.set(last.end, 0);
    }
    pages.finish(rules, stats)
}

struct Pages {
    table: Table,
    /// The rule at the last address.
    state: u16,
    used: Vec<bool>,
}

impl Pages {
    /// `rule` holds from `address` on. Addresses must not decrease.
    fn set(&mut self, address: u64, rule: u16) {
        if rule == self.state {
            return;
        }
        let number = address >> PAGE_SHIFT;
        if self.table.pages.is_empty() {
            self.table.first_page = number;
            self.table.pages.push(PageSpan::default());
        }
        let relative = number - self.table.first_page;
        if relative >= MAX_PAGES {
            self.close_until(MAX_PAGES - 1);
            if rule != 0 {
                self.table.stats.dropped_pages = self.table.stats.dropped_pages.saturating_add(1);
            }
            self.state = 0;
            return;
        }
        self.close_until(relative);
        self.push((address & 0xffff) as u16, rule);
        self.state = rule;
    }

    /// Advances to a page. This page and those skipped start with the current rule.
    fn close_until(&mut self, relative: u64) {
        while (self.table.pages.len() as u64) <= relative {
            self.close();
            self.table.pages.push(PageSpan { first_row: self.table.rows.len() as u32, count: 0 });
            if self.state != 0 {
                self.push(0, self.state);
            }
        }
    }

    fn push(&mut self, offset: u16, rule: u16) {
        let Some(page) = self.table.pages.last_mut() else { return };
        let rows = &mut self.table.rows;
        if page.count == 0 && offset > 0 {
            rows.push(Row { offset: 0, rule: 0 });
            page.count = 1;
        }
        if page.count > 0 && rows.last().is_some_and(|last| last.offset == offset) {
            rows.pop();
            page.count -= 1;
            let repeats = page.count > 0 && rows.last().is_some_and(|last| last.rule == rule);
            if repeats || (page.count == 0 && rule == 0) {
                return;
            }
        }
        rows.push(Row { offset, rule });
        page.count += 1;
    }

    fn close(&mut self) {
        let Some(page) = self.table.pages.last_mut() else { return };
        if page.count as usize > MAX_ROWS_PER_PAGE {
            self.table.rows.truncate(page.first_row as usize);
            *page = PageSpan::default();
            self.table.stats.dropped_pages = self.table.stats.dropped_pages.saturating_add(1);
        }
        if page.count == 0 {
            *page = PageSpan::default();
        }
        for row in &self.table.rows[page.first_row as usize..][..page.count as usize] {
            self.used[usize::from(row.rule)] = true;
        }
    }

    fn finish(mut self, rules: RuleSet, stats: Stats) -> Table {
        self.close();
        let (rules, renumbered) = rules.compact(&self.used);
        let mut table = self.table;
        for row in &mut table.rows {
            row.rule = renumbered[usize::from(row.rule)];
        }
        while table.pages.pop_if(|page| page.count == 0).is_some() {}
        table.stats = Stats { dropped_pages: table.stats.dropped_pages, ..stats };
        table.rules = rules;
        table.rows.shrink_to_fit();
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64::sp_rule;

    /// Start, end, and rows of address and CFA offset.
    type Flat<'a> = (u64, u64, &'a [(u64, i32)]);

    fn table(spans: &[Flat<'_>]) -> Table {
        let (mut layer, mut rules) = (Layer::default(), RuleSet::new());
        for (start, end, rows) in spans {
            layer.begin(*start);
            rows.iter().for_each(|(address, off)| layer.row(*address, rules.intern(sp_rule(*off, None))));
            layer.end(*end);
        }
        let table = build(&layer, rules, Stats::default());
        assert_eq!(table.validate(), Ok(()));
        table
    }

    fn offset_at(table: &Table, svma: u64) -> Option<i32> {
        table.lookup(svma).map(|rule| rule.cfa_off)
    }

    #[test]
    fn rules_continue_across_pages_and_gaps_have_none() {
        let table = table(&[
            (0x1_fff0, 0x4_0010, &[(0x1_fff0, 8), (0x2_0000, 16)]),
            (0x4_0018, 0x4_0020, &[(0x4_0018, 8)]),
            (0x4_0100, 0x4_0200, &[(0x4_0100, 24)]),
            (0x6_1000, 0x6_1001, &[(0x6_1000, 32)]),
        ]);
        assert_eq!(table.first_page, 1);
        for (svma, expected) in [
            (0x1_ffef, None),
            (0x1_fff0, Some(8)),
            (0x2_0000, Some(16)),
            (0x3_1234, Some(16)),
            (0x4_000f, Some(16)),
            (0x4_0018, Some(8)),
            (0x4_0020, None),
            (0x4_0100, Some(24)),
            (0x4_0200, None),
            (0x5_0000, None),
            (0x6_0fff, None),
            (0x6_1000, Some(32)),
            (0x6_1001, None),
            (0x9_0000, None),
            (0, None),
            (u64::MAX, None),
        ] {
            assert_eq!(offset_at(&table, svma), expected, "{svma:#x}");
        }
        assert_eq!(table.pages[4].count, 0);
    }

    #[test]
    fn a_page_with_too_many_rows_is_dropped_alone() {
        let many: Vec<_> =
            (0..20_000u64).map(|i| (0x1_0000 + i * 2, if i % 2 == 0 { 8 } else { 16 })).collect();
        let table = table(&[(0x1_0000, 0x2_0000, &many), (0x2_0000, 0x2_0010, &[(0x2_0000, 8)])]);
        assert_eq!(table.stats.dropped_pages, 1);
        assert_eq!(offset_at(&table, 0x1_0000), None);
        assert_eq!(offset_at(&table, 0x2_0000), Some(8));
    }

    #[test]
    fn distant_segments_take_no_memory() {
        let table = table(&[(0x1000, 0x1010, &[(0x1000, 8)]), (1 << 60, (1 << 60) + 16, &[(1 << 60, 8)])]);
        assert!(table.pages.len() < 2);
        assert_eq!(table.stats.dropped_pages, 1);
        assert_eq!(offset_at(&table, 0x1000), Some(8));
    }
}
