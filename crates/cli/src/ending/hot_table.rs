//! The hottest functions as a table.

use perfagent::{HotFunction, Hottest};

use super::long_name;
use crate::console::{Console, Tone};

/// Columns of both shares with the blanks behind them.
const SHARES: usize = 18;
/// The column of functions is at most this wide if all names are shorter.
const MIN_NAME: usize = 12;
/// The column of files takes at most this part of the line.
const FILE_PART: usize = 4;

/// The lines of the table: a heading, then one line for each function. No line if there is no function.
pub fn lines(hottest: &Hottest, console: Console) -> Vec<String> {
    if hottest.functions.is_empty() {
        return Vec::new();
    }
    let files = hottest.functions.iter().map(|of| of.file.chars().count()).max().unwrap_or(0);
    let files = files.min(console.width() / FILE_PART);
    let room = console.width().saturating_sub(SHARES + files + 2).max(MIN_NAME);
    let names: Vec<String> =
        hottest.functions.iter().map(|of| long_name::fit(&perfagent::visible(&name(of)), room)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let heading = format!("{:>7}  {:>7}  {:width$}  in", "self", "total", "function");
    let row = |(of, name): (&HotFunction, &String)| {
        let shares = format!("{:>6.1}%  {:>6.1}%", hottest.percent(of.own), hottest.percent(of.total));
        let file = console.paint(Tone::Faint, &long_name::fit(&perfagent::visible(file(of, files)), files));
        format!("{shares}  {name:width$}  {file}").trim_end().to_owned()
    };
    let rows = hottest.functions.iter().zip(&names).map(row);
    std::iter::once(console.paint(Tone::Faint, &heading)).chain(rows).collect()
}

/// The file; a source file without its folder if there is no room for both.
fn file(of: &HotFunction, width: usize) -> &str {
    let base = of.file.rsplit('/').next().unwrap_or(&of.file);
    if of.file.chars().count() <= width { &of.file } else { base }
}

fn name(of: &HotFunction) -> String {
    if of.name.is_empty() { "(no names)".to_owned() } else { of.name.clone() }
}
