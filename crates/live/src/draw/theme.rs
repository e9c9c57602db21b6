//! Colours: those of the kinds of code as flame graphs have them, in the terminal's own palette, so that they fit dark and light screens.

use formats::FrameKind;
use ratatui_core::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Colours.
    #[default]
    Colours,
    /// Bold and reversed text only, for `NO_COLOR`.
    Plain,
}

impl Theme {
    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        match self {
            Self::Colours => Style::new().fg(Color::DarkGray),
            Self::Plain => Style::new(),
        }
    }

    /// A bar across the screen, as the heading of a list.
    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn good(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    pub(super) fn found(self) -> Style {
        self.colour(Color::Magenta).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// The hue of a kind is that of flame graphs.
    pub(super) fn kind(self, kind: FrameKind) -> Style {
        self.colour(match kind {
            FrameKind::Native => Color::LightRed,
            FrameKind::Inlined => Color::Yellow,
            FrameKind::Interpreted => Color::Green,
            FrameKind::Jit => Color::Cyan,
            FrameKind::Kernel => Color::Blue,
            FrameKind::Owner => Color::Magenta,
            FrameKind::Fact => Color::DarkGray,
        })
    }

    fn colour(self, colour: Color) -> Style {
        match self {
            Self::Colours => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }
}

/// The kind in a word of at most six letters.
pub(super) fn word(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Native => "native",
        FrameKind::Inlined => "inline",
        FrameKind::Interpreted => "script",
        FrameKind::Jit => "JIT",
        FrameKind::Kernel => "kernel",
        FrameKind::Owner => "",
        FrameKind::Fact => "-",
    }
}
