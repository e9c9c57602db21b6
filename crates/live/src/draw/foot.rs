//! The last line: a line that is being typed, a message, or what keys do.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::text::put;
use super::theme::Theme;
use crate::app::App;
use crate::interval::Mode;

pub(super) fn draw(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(prompt) = &app.prompt {
        let x = put(buffer, area, area.x, area.y, prompt.question(), theme.strong());
        // The end of a long line stays in view.
        let room = usize::from(area.right().saturating_sub(x + 1));
        let skipped = prompt.text.chars().count().saturating_sub(room);
        let text: String = prompt.text.chars().skip(skipped).collect();
        let x = put(buffer, area, x, area.y, &text, theme.plain());
        put(buffer, area, x, area.y, " ", theme.bar());
        return;
    }
    if !app.message.is_empty() {
        put(buffer, area, area.x, area.y, &profile::visible(&app.message), theme.strong());
        return;
    }
    if let Some(ended) = &app.status.ended {
        let x = put(buffer, area, area.x, area.y, &profile::visible(ended), theme.alarm());
        put(buffer, area, x, area.y, "  q quit  w write  ? help", theme.plain());
        return;
    }
    if !app.query.filter.is_empty() || !app.search.is_empty() {
        let mut text = String::new();
        if !app.query.filter.is_empty() {
            text += &format!("only stacks with \"{}\" (f, Esc)  ", app.query.filter);
        }
        if !app.search.is_empty() {
            text += &format!("search \"{}\" (n, N, Esc)  ", app.search);
        }
        let x = put(buffer, area, area.x, area.y, &text, theme.found());
        put(buffer, area, x, area.y, "? help", theme.plain());
        return;
    }
    let mode = match app.mode {
        _ if !app.has_other_mode() => "",
        Mode::OnCpu => "Tab off-CPU  ",
        Mode::OffCpu => "Tab on-CPU  ",
    };
    let pause = if app.is_paused() { "space go on" } else { "space pause" };
    let keys = format!(
        "q quit  ? help  {mode}2 tree  t threads  r range  {pause}  / search  w write  Enter callers  s sort  f filter"
    );
    put(buffer, area, area.x, area.y, &keys, theme.faint());
}
