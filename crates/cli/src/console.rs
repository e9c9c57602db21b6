//! How the program talks on standard error: how much it says, in which colours, and how wide.
//!
//! The options are read once, at the start. Before that, messages are plain.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::{Args, ValueEnum};

/// Width of lines that do not go to a terminal.
const WIDTH_ELSEWHERE: usize = 120;
/// A narrower terminal gets lines of this width.
const MIN_WIDTH: usize = 40;

static CONSOLE: OnceLock<Console> = OnceLock::new();

/// Options for messages. A capture and `render` have the same ones.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Messages")]
pub struct ConsoleArgs {
    /// Print the whole ledger at the end: what was recorded and lost, and what it cost
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub verbose: Option<bool>,

    /// Print errors and warnings only
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub quiet: Option<bool>,

    /// Colours in messages: auto (on a terminal, unless the environment variable NO_COLOR is set), always, never
    /// [default: auto]
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub color: Option<When>,
}

/// When messages have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How the program talks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Console {
    /// The ledger is printed.
    pub verbose: bool,
    /// Only errors and warnings are printed.
    pub quiet: bool,
    colours: bool,
    /// Whether a screen that fills the terminal has colours.
    pub screen_colours: bool,
    /// Columns of a line; none if the console was not set up.
    width: Option<usize>,
}

/// What a piece of text is, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// `error:`
    Error,
    /// `warning:`
    Warning,
    /// `hint:` and `advice:`
    Hint,
    /// Facts in the first line of a block.
    Strong,
    /// What matters less.
    Faint,
}

/// Takes over the options. Only the first call has an effect.
pub fn set_up(args: ConsoleArgs) {
    let is_terminal = std::io::stderr().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let columns = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    let _first_call_counts = CONSOLE.set(Console::of(args, is_terminal, no_color, columns));
}

/// The console as it was set up.
pub fn console() -> Console {
    CONSOLE.get().copied().unwrap_or_default()
}

impl Console {
    fn of(args: ConsoleArgs, is_terminal: bool, no_color: bool, columns: Option<usize>) -> Self {
        let (colours, screen_colours) = match args.color.unwrap_or_default() {
            When::Auto => (is_terminal && !no_color, !no_color),
            When::Always => (true, true),
            When::Never => (false, false),
        };
        let width = columns.filter(|_| is_terminal).map_or(WIDTH_ELSEWHERE, |columns| columns.max(MIN_WIDTH));
        let is = |flag: Option<bool>| flag == Some(true);
        Self { verbose: is(args.verbose), quiet: is(args.quiet), colours, screen_colours, width: Some(width) }
    }

    /// Columns of a line.
    pub fn width(self) -> usize {
        self.width.unwrap_or(WIDTH_ELSEWHERE)
    }

    /// The text in the colour of its tone, if messages have colours.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colours || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Error => "1;31",
            Tone::Warning => "1;33",
            Tone::Hint => "1;36",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_color(color: Option<When>) -> ConsoleArgs {
        ConsoleArgs { color, ..ConsoleArgs::default() }
    }

    #[test]
    fn colours_follow_terminal_environment_and_option() {
        let coloured = |color, is_terminal, no_color| {
            Console::of(with_color(color), is_terminal, no_color, None).paint(Tone::Error, "x") != "x"
        };
        assert!(coloured(None, true, false));
        assert!(!coloured(None, true, true) && !coloured(None, false, false));
        assert!(coloured(Some(When::Always), false, true));
        assert!(!coloured(Some(When::Never), true, false));
    }

    #[test]
    fn the_width_is_that_of_the_terminal() {
        let width = |is_terminal, columns| Console::of(with_color(None), is_terminal, false, columns).width();
        assert_eq!(width(true, Some(80)), 80);
        assert_eq!(width(true, Some(7)), MIN_WIDTH);
        assert_eq!([width(false, Some(80)), width(true, None)], [WIDTH_ELSEWHERE; 2]);
    }
}
