//! Draws cells of ratatui on the terminal, as control sequences of ECMA-48 that every terminal knows.

use std::io;

use perfagent::CancelToken;
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

use crate::screen::Screen;

/// What was drawn and not written yet.
pub struct ScreenBackend<'a> {
    screen: &'a Screen,
    stop: &'a CancelToken,
    bytes: Vec<u8>,
}

impl<'a> ScreenBackend<'a> {
    pub fn new(screen: &'a Screen, stop: &'a CancelToken) -> Self {
        Self { screen, stop, bytes: Vec::new() }
    }

    fn put(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

impl Backend for ScreenBackend<'_> {
    type Error = io::Error;

    fn draw<'b, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'b Cell)>,
    {
        let mut style = None;
        let mut next = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.put(&format!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1));
            }
            next = Some((x.saturating_add(1), y));
            let own = (cell.fg, cell.bg, cell.modifier);
            if style != Some(own) {
                self.put(&rendition(own.0, own.1, own.2));
                style = Some(own);
            }
            self.put(cell.symbol());
        }
        self.put("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.put("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.put("\x1b[?25h");
        Ok(())
    }

    /// The cursor is hidden; where it is does not matter.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.put(&format!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.put(match clear_type {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.screen.size().into())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        self.screen.write(&bytes, self.stop)
    }
}

/// The sequence that sets colours and attributes.
fn rendition(foreground: Color, background: Color, modifier: Modifier) -> String {
    let mut codes = vec!["0".to_owned()];
    let attributes =
        [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::UNDERLINED, "4"), (Modifier::REVERSED, "7")];
    codes.extend(
        attributes.iter().filter(|(own, _)| modifier.contains(*own)).map(|(_, code)| (*code).to_owned()),
    );
    codes.extend(colour(foreground, 30));
    codes.extend(colour(background, 40));
    format!("\x1b[{}m", codes.join(";"))
}

/// The code of a colour. `base`: 30 for text, 40 for what is behind it.
fn colour(colour: Color, base: u8) -> Option<String> {
    let number = match colour {
        Color::Reset => return None,
        Color::Rgb(red, green, blue) => return Some(format!("{};2;{red};{green};{blue}", base + 8)),
        Color::Indexed(index) => return Some(format!("{};5;{index}", base + 8)),
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
    };
    Some((base + number).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_become_control_sequences() {
        assert_eq!(rendition(Color::Reset, Color::Reset, Modifier::empty()), "\x1b[0m");
        let bold = Modifier::BOLD | Modifier::REVERSED;
        assert_eq!(rendition(Color::LightRed, Color::Blue, bold), "\x1b[0;1;7;91;44m");
        assert_eq!(
            rendition(Color::Rgb(1, 2, 3), Color::Indexed(9), Modifier::DIM),
            "\x1b[0;2;38;2;1;2;3;48;5;9m"
        );
    }
}
