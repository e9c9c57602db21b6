//! Text that a subcommand prints on standard output: its lines, and functions with their files.

use std::io::{self, Write as _};

/// Prints lines. A reader that has seen enough, as `head`, is no failure.
pub fn print(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let printed = lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
    printed.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// A function with its file.
pub fn function(name: &str, file: &str) -> String {
    let name = perfagent::visible(if name.is_empty() { "(no names)" } else { name });
    if file.is_empty() { name.to_string() } else { format!("{name} [{}]", perfagent::visible(file)) }
}
