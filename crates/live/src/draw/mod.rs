//! Draws the view into a buffer of any size.

mod foot;
mod head;
mod help;
mod list;
mod text;
mod theme;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::app::{App, List};
pub use text::length;
pub use theme::Theme;

/// From this many columns on, a second list stands beside the first.
const WIDE: u16 = 120;
/// Fewer columns or lines have room for nothing.
const SMALLEST: (u16, u16) = (20, 5);

/// Draws everything.
pub fn draw(app: &mut App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        text::put(buffer, area, area.x, area.y, "too small", theme.plain());
        return;
    }
    let foot = Rect { y: area.bottom() - 1, height: 1, ..area };
    let above = Rect { height: area.height - 1, ..area };
    foot::draw(app, theme, foot, buffer);
    if app.is_help {
        help::draw(theme, above, buffer);
        return;
    }
    let used = head::draw(app, theme, above, buffer);
    let rest = Rect { y: above.y + used, height: above.height - used, ..above };
    app.page = usize::from(rest.height.saturating_sub(1));
    if area.width < WIDE {
        list::draw_main(app, theme, rest, buffer);
        return;
    }
    let left = Rect { width: area.width / 2 - 2, ..rest };
    let right = Rect { x: rest.x + area.width / 2 + 1, width: area.width - area.width / 2 - 1, ..rest };
    for y in rest.y..rest.bottom() {
        text::put(buffer, rest, left.right() + 1, y, "│", theme.faint());
    }
    list::draw_main(app, theme, left, buffer);
    let beside = if app.list == List::Tree { List::Functions } else { List::Tree };
    list::draw_beside(app, beside, theme, right, buffer);
}

#[cfg(test)]
mod tests;
