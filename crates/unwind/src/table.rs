//! The compiled table of one file.

use crate::Error;
use crate::abi::MAX_ROWS_PER_PAGE;
use crate::abi::PAGE_SHIFT;
use crate::abi::PageSpan;
use crate::abi::Row;
use crate::abi::Rule;

/// Unwind rows of one ELF file, keyed by link-time address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Page number of `pages[0]`: `svma >> 16`.
    pub first_page: u64,
    /// One span per page, in the order of addresses.
    pub pages: Vec<PageSpan>,
    /// The rows of all pages.
    pub rows: Vec<Row>,
    /// The rules that rows refer to; index 0 is [`Rule::NONE`].
    pub rules: Vec<Rule>,
    /// Counts of the sources, and of the losses.
    pub stats: Stats,
}

/// The sources of the rows, and the losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Functions whose rows come from `.eh_frame`.
    pub eh_frame_functions: u32,
    /// Functions whose rows come from `.debug_frame`.
    pub debug_frame_functions: u32,
    /// Functions whose rows come from Go's `.gopclntab`.
    pub go_functions: u32,
    /// Functions whose rows come from the analysis of their code.
    pub analysed_functions: u32,
    /// Functions without unwind information and without rows, because their code was not understood.
    pub refused_functions: u32,
    /// Malformed descriptions of functions. Each affects only its function.
    pub bad_fdes: u32,
    /// Descriptions of addresses outside the executable segments, or of no address.
    pub outside_fdes: u32,
    /// Descriptions that start inside another one.
    pub overlapping_fdes: u32,
    /// Rows whose rule cannot be expressed ([`Rule::UNSUPPORTED`]).
    pub unsupported_rows: u32,
    /// Pages that were dropped because they have too many rows or are too far from the others.
    pub dropped_pages: u32,
}

impl Stats {
    /// All counters in the order of their declaration, for encoding.
    pub(crate) fn to_array(self) -> [u32; 10] {
        [
            self.eh_frame_functions,
            self.debug_frame_functions,
            self.go_functions,
            self.analysed_functions,
            self.refused_functions,
            self.bad_fdes,
            self.outside_fdes,
            self.overlapping_fdes,
            self.unsupported_rows,
            self.dropped_pages,
        ]
    }

    pub(crate) fn from_array(counters: [u32; 10]) -> Self {
        let [
            eh_frame_functions,
            debug_frame_functions,
            go_functions,
            analysed_functions,
            refused_functions,
            bad_fdes,
            outside_fdes,
            overlapping_fdes,
            unsupported_rows,
            dropped_pages,
        ] = counters;
        Self {
            eh_frame_functions,
            debug_frame_functions,
            go_functions,
            analysed_functions,
            refused_functions,
            bad_fdes,
            outside_fdes,
            overlapping_fdes,
            unsupported_rows,
            dropped_pages,
        }
    }
}

impl Table {
    /// The rule at a link-time address; `None`: not covered.
    ///
    /// Look up return addresses at pc − 1.
    #[must_use]
    pub fn lookup(&self, svma: u64) -> Option<&Rule> {
        let page = (svma >> PAGE_SHIFT).checked_sub(self.first_page)?;
        let span = self.pages.get(usize::try_from(page).ok()?)?;
        let first = span.first_row as usize;
        let rows = self.rows.get(first..first.checked_add(span.count as usize)?)?;
        let offset = (svma & 0xffff) as u16;
        let after = rows.partition_point(|row| row.offset <= offset);
        let rule = rows.get(after.checked_sub(1)?)?.rule;
        if rule == 0 { None } else { self.rules.get(usize::from(rule)) }
    }

    /// Whether no address is covered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The size of the walker's copy in bytes.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.pages) + size_of_val(&*self.rules)
    }

    /// Checks every invariant of a table.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the first broken invariant.
    pub fn validate(&self) -> Result<(), Error> {
        let ok = |holds: bool, what| if holds { Ok(()) } else { Err(Error::Invalid(what)) };
        ok(self.rules.first() == Some(&Rule::NONE), "rule 0")?;
        ok(self.rules.len() <= 1 << 16, "number of rules")?;
        ok(self.rules.iter().all(Rule::is_valid), "rule")?;
        ok(self.rules[1..].iter().all(|rule| rule.cfa != crate::abi::cfa::NONE), "rule")?;
        let end_page = self.first_page.checked_add(self.pages.len() as u64);
        ok(end_page.is_some_and(|end| end <= 1 << (64 - PAGE_SHIFT)), "page number")?;
        let rule_count = self.rules.len();
        ok(self.rows.iter().all(|row| usize::from(row.rule) < rule_count), "rule index")?;
        let mut next = 0;
        for page in &self.pages {
            let (first, count) = (page.first_row as usize, page.count as usize);
            if count == 0 {
                continue;
            }
            ok(count <= MAX_ROWS_PER_PAGE && first == next, "page span")?;
            next += count;
            let rows = self.rows.get(first..next).ok_or(Error::Invalid("page span"))?;
            ok(rows[0].offset == 0, "first row of a page")?;
            ok(rows.windows(2).all(|pair| pair[0].offset < pair[1].offset), "order of rows")?;
        }
        ok(next == self.rows.len(), "rows outside of all pages")
    }
}
