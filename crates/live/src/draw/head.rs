//! The head: what is watched, the facts, the load of the last minute, the heaviest processes.

use profile::grouped;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::text::{cut, length, percent, put, put_right};
use super::theme::Theme;
use crate::app::App;
use crate::interval::Mode;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the head. Gives the number of lines that it takes.
pub(super) fn draw(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer) -> u16 {
    title(app, theme, area, buffer);
    facts(app, theme, area, buffer);
    load(app, theme, area, buffer);
    let mut used = 3;
    if app.shown.processes.len() > 1 && area.height > 8 {
        processes(app, theme, area, area.y + used, buffer);
        used += 1;
    }
    used
}

fn title(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let (state, style) = match (&app.status.ended, app.is_paused()) {
        (Some(_), _) => ("ENDED", theme.alarm()),
        (None, true) => ("PAUSED", theme.alarm()),
        (None, false) => ("LIVE", theme.good()),
    };
    let range = format!(" {} {}", app.mode.name(), app.query.range.name());
    let right = format!("{state}{range}  {}", length(app.status.seconds));
    let from = put_right(buffer, area, area.y, &right, theme.strong());
    put(buffer, area, from, area.y, state, style);
    let left = Rect { width: from.saturating_sub(area.x + 1), ..area };
    let x = put(buffer, left, area.x, area.y, "perf-agent live  ", theme.strong());
    let mut target = app.status.target.clone();
    if let Some(scope) = &app.query.scope {
        target = format!("only {} in {target}", scope.name());
    }
    let target = cut(&profile::visible(&target), usize::from(left.right().saturating_sub(x)));
    put(buffer, left, x, area.y, &target, theme.plain());
}

fn facts(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let figures = &app.shown.figures;
    let what = if app.mode == Mode::OnCpu { "samples" } else { "waits" };
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.1}%"));
    let y = area.y + 1;
    let start = format!(
        "{} {what}  {} rooted  {} named  ",
        grouped(figures.samples),
        share(figures.rooted_pct()),
        share(figures.named_pct())
    );
    let x = put(buffer, area, area.x, y, &start, theme.plain());
    let style = if figures.lost > 0 { theme.alarm() } else { theme.plain() };
    let x = put(buffer, area, x, y, &format!("{} lost", grouped(figures.lost)), style);
    let cost = format!("  agent {:.1}% CPU {} MiB", app.status.agent_pct, app.status.agent_mib);
    let x = put(buffer, area, x, y, &cost, theme.plain());
    if app.status.names_left > 0 {
        let room = usize::from(area.right().saturating_sub(x));
        let names = format!("  {} names to come", grouped(app.status.names_left));
        let told = [names.as_str(), "  naming"].into_iter().find(|text| text.len() <= room);
        put(buffer, area, x, y, told.unwrap_or_default(), theme.faint());
    }
}

/// The time of the last minute, second by second, right-aligned: the newest is at the right.
fn load(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let y = area.y + 2;
    let now = app.shown.history.last().copied().unwrap_or(0.0);
    let most = app.shown.history.iter().copied().fold(0.0, f64::max);
    let head = match app.mode {
        Mode::OnCpu => format!("CPU {:.0}% (most {:.0}%) ", now * 100.0, most * 100.0),
        Mode::OffCpu => format!("{now:.1} threads wait (most {most:.1}) "),
    };
    let x = put(buffer, area, area.x, y, &head, theme.plain());
    let room = usize::from(area.right().saturating_sub(x));
    let shown = &app.shown.history[app.shown.history.len().saturating_sub(room)..];
    let block = |share: &f64| {
        let level = if most > 0.0 { (share / most * 7.0).round() } else { 0.0 };
        // 0 to 7, whatever the share is.
        BLOCKS[(level.clamp(0.0, 7.0) as usize).min(7)]
    };
    let line: String = shown.iter().map(block).collect();
    put(buffer, area, x, y, &line, theme.kind(formats::FrameKind::Native));
}

fn processes(app: &App, theme: Theme, area: Rect, y: u16, buffer: &mut Buffer) {
    let mut x = area.x;
    for (position, row) in app.shown.processes.iter().enumerate() {
        let share = percent(row.total, app.shown.whole);
        let text = format!("{} {share}", cut(&row.name, 28));
        let left = app.shown.processes.len() - position;
        let more = format!("+{left} more (t)");
        let needed = text.chars().count() + if left > 1 { more.chars().count() + 3 } else { 0 };
        if usize::from(area.right().saturating_sub(x)) < needed {
            put(buffer, area, x, y, &more, theme.faint());
            return;
        }
        x = put(buffer, area, x, y, &text, theme.kind(formats::FrameKind::Owner)) + 3;
    }
}
