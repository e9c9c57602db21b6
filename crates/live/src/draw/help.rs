//! What all keys do.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::text::put;
use super::theme::Theme;

const KEYS: [(&str, &str); 19] = [
    ("1 2 3 4", "functions, call tree, processes, threads"),
    ("t", "processes; again: threads"),
    ("Tab", "on-CPU or off-CPU time"),
    ("r", "the last 10 s, the last 60 s, all since the start"),
    ("s", "sort by self (the function alone) or total (with what it calls)"),
    ("arrows, hjkl", "move; in the tree right opens, left folds"),
    ("PgUp PgDn g G", "a page, the first, the last"),
    ("Enter", "callers and callees; of a process or thread: only it; tree: open, fold"),
    ("Esc", "back"),
    ("0", "back to everything"),
    ("space", "stop the picture; the capture goes on"),
    ("/  n  N", "search; next, previous"),
    ("f", "only stacks with a function of this name"),
    ("w", "write what is seen; the extension is the format"),
    ("?", "these keys"),
    ("q, Ctrl+C", "quit"),
    ("", ""),
    ("rooted", "stacks that are complete; named: frames with a function's name"),
    ("agent", "what perf-agent itself uses, this screen included"),
];

pub(super) fn draw(theme: Theme, area: Rect, buffer: &mut Buffer) {
    for (y, (key, text)) in (area.y..area.bottom()).zip(KEYS) {
        put(buffer, area, area.x + 1, y, key, theme.strong());
        put(buffer, area, area.x + 16, y, text, theme.plain());
    }
}
