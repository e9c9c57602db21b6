//! A list of functions, of nodes of the tree, of processes or threads.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Modifier;

use super::text::{cut, percent, put, put_right, time};
use super::theme::{self, Theme};
use crate::app::{App, List};
use crate::query::has_text;
use crate::rows::{Mark, Row};

/// Columns of a share.
const SHARE: u16 = 7;
/// Columns of the bar of a share.
const BAR: u16 = 10;
/// From this width on there is a bar and a file, and from this one on the kind in a word.
const WITH_BAR: u16 = 60;
const WITH_KIND: u16 = 90;
/// Columns of that word with a blank before it.
const KIND: u16 = 7;

/// Draws the list with the cursor.
pub(super) fn draw_main(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let at = app.position();
    let height = usize::from(area.height.saturating_sub(1));
    // The cursor is in the middle, unless the list begins or ends there.
    let last = app.shown.rows.len().saturating_sub(height);
    let first = at.saturating_sub(height / 2).min(last);
    let picture = Picture { app, list: app.list, rows: &app.shown.rows, first, cursor: Some(at) };
    picture.draw(theme, area, buffer);
}

/// Draws the list beside it.
pub(super) fn draw_beside(app: &App, list: List, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let picture = Picture { app, list, rows: &app.shown.beside, first: 0, cursor: None };
    picture.draw(theme, area, buffer);
}

struct Picture<'a> {
    app: &'a App,
    list: List,
    rows: &'a [Row],
    first: usize,
    cursor: Option<usize>,
}

impl Picture<'_> {
    fn draw(&self, theme: Theme, area: Rect, buffer: &mut Buffer) {
        self.heading(theme, area, buffer);
        if self.rows.is_empty() {
            put(buffer, area, area.x + 1, area.y + 1, self.nothing(), theme.faint());
        }
        let rows = self.rows.iter().enumerate().skip(self.first);
        for (y, (number, row)) in (area.y + 1..area.bottom()).zip(rows) {
            self.row(row, Some(number) == self.cursor, theme, Rect { y, height: 1, ..area }, buffer);
        }
    }

    fn are_owners(&self) -> bool {
        matches!(self.list, List::Processes | List::Threads)
    }

    fn nothing(&self) -> &'static str {
        match (self.app.query.filter.is_empty(), self.list) {
            (false, _) => "no stack has a function of this name",
            (true, List::Callers(_)) => "this function is in no stack of this time",
            (true, _) if self.app.shown.figures.samples == 0 => {
                "no samples so far: the target sleeps, or names are looked for"
            }
            (true, _) => "no samples in this time: Tab shows off-CPU time, r a longer time",
        }
    }

    fn heading(&self, theme: Theme, area: Rect, buffer: &mut Buffer) {
        let Rect { x, y, width, .. } = area;
        put(buffer, area, x, y, &" ".repeat(usize::from(width)), theme.bar());
        let by_total = self.app.query.by_total && self.list == List::Functions;
        let (own, total) = if by_total { ("self", "TOTAL") } else { ("SELF", "total") };
        let what = match self.list {
            List::Functions => "function",
            List::Tree => "call tree",
            List::Processes => "process",
            List::Threads => "thread",
            List::Callers(_) => "callers, function, callees",
        };
        let shares = if self.are_owners() {
            format!("{:>7}{:>9} ", "SHARE", "time")
        } else {
            format!("{own:>7}{total:>8} ")
        };
        put(buffer, area, x, y, &shares, theme.bar());
        put(buffer, area, self.names_at(area), y, what, theme.bar());
        let right = if self.are_owners() { "hottest function" } else { "file" };
        let kind_width = if self.has_kinds(width) { KIND } else { 0 };
        if width >= WITH_BAR {
            let file_at = area.right().saturating_sub(self.file_width(width) + kind_width);
            put(buffer, area, file_at, y, right, theme.bar());
        }
        if kind_width > 0 {
            put_right(buffer, area, y, "kind", theme.bar());
        }
    }

    fn has_kinds(&self, width: u16) -> bool {
        width >= WITH_KIND && !self.are_owners()
    }

    fn file_width(&self, width: u16) -> u16 {
        match self.are_owners() {
            _ if width < WITH_BAR => 0,
            true => width / 3,
            false => width / 5,
        }
    }

    /// The column where names begin.
    fn names_at(&self, area: Rect) -> u16 {
        area.x + SHARE * 2 + 3 + if area.width >= WITH_BAR { BAR + 1 } else { 0 }
    }

    fn row(&self, row: &Row, is_cursor: bool, theme: Theme, area: Rect, buffer: &mut Buffer) {
        let Rect { x, y, width, .. } = area;
        let whole = self.app.shown.whole;
        let columns = if self.are_owners() {
            format!("{:>7}{:>9} ", percent(row.total, whole), time(row.total as f64))
        } else {
            let own = if matches!(row.mark, Mark::Caller | Mark::Callee) || row.own == 0 {
                String::new()
            } else {
                percent(row.own, whole)
            };
            format!("{own:>7}{:>8} ", percent(row.total, whole))
        };
        let columns_end = put(buffer, area, x, y, &columns, theme.plain());
        let by_total = self.app.query.by_total || self.list != List::Functions;
        if width >= WITH_BAR {
            let value = if by_total { row.total } else { row.own };
            put(buffer, area, columns_end, y, &bar(value, whole), theme.kind(row.kind));
        }
        let names_at = self.names_at(area);
        let file_width = self.file_width(width);
        let kind_width = if file_width > 0 && self.has_kinds(width) { KIND } else { 0 };
        let after_name = file_width + kind_width + u16::from(file_width > 0);
        let room = usize::from(area.right().saturating_sub(names_at).saturating_sub(after_name));
        let mark = match row.mark {
            Mark::Nothing if self.list == List::Tree => "  ",
            Mark::Nothing => "",
            Mark::Folded => "▸ ",
            Mark::Open => "▾ ",
            Mark::Caller => "← ",
            Mark::Middle => "● ",
            Mark::Callee => "  → ",
        };
        let indent = if self.list == List::Tree { row.depth.min(room / 2) } else { 0 };
        let name = format!("{}{mark}{}", " ".repeat(indent), row.name);
        let mut style = match theme {
            _ if row.mark == Mark::Middle => theme.strong(),
            _ => theme.plain(),
        };
        if !self.app.search.is_empty() && has_text(&row.name, &self.app.search) {
            style = theme.found();
        }
        put(buffer, area, names_at, y, &cut(&name, room), style);
        let file_at = area.right().saturating_sub(file_width + kind_width);
        put(buffer, area, file_at, y, &cut(&row.file, usize::from(file_width)), theme.faint());
        if kind_width > 0 {
            put_right(buffer, area, y, theme::word(row.kind), theme.kind(row.kind));
        }
        if is_cursor {
            for column in area.x..area.right() {
                if let Some(cell) = buffer.cell_mut((column, y)) {
                    cell.modifier.insert(Modifier::REVERSED);
                }
            }
        }
    }
}

/// A bar of at most ten columns, with eighths.
fn bar(value: u64, whole: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let full = u128::from(BAR) * 8;
    let length = (u128::from(value) * full).checked_div(u128::from(whole)).unwrap_or(0).min(full);
    let (blocks, eighths) =
        (usize::try_from(length / 8).unwrap_or(0), usize::try_from(length % 8).unwrap_or(0));
    "█".repeat(blocks) + EIGHTHS.get(eighths).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_eighths_and_an_end() {
        assert_eq!(bar(1, 2), "█████");
        assert_eq!(bar(1, 80), "▏");
        assert_eq!([bar(0, 5), bar(5, 0)], ["", ""]);
        assert_eq!(bar(9, 1).chars().count(), 10);
    }
}
