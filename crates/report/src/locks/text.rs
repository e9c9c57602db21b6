//! The report as text: the locks that cost most first, on one screen.

use std::fmt::Write as _;

use profile::{grouped, visible};

use super::frames::chain;
use super::model::{HeldBy, LockReport, LockRow, StackShare};
use crate::figures::{percent, sum};

/// Locks, and places of other waits, that are shown.
const ROWS: usize = 10;
/// Stacks of each kind that are shown of a lock.
const STACKS: usize = 3;
/// Characters of a stack that are shown, and of each function.
const LINE: usize = 80;
const LONGEST_NAME: usize = 60;

/// A report as text. Names come from files of the target, so what could control a terminal is escaped.
#[must_use]
pub fn lock_text(report: &LockReport) -> String {
    let mut text = String::new();
    write_all(report, &mut text).expect("writing into a string does not fail");
    text
}

fn write_all(report: &LockReport, out: &mut String) -> std::fmt::Result {
    let all = || report.held.iter().chain(&report.others);
    let waits = sum(all().map(|row| row.waits));
    let of_held = |figure: fn(&LockRow) -> u64| sum(report.held.iter().map(figure));
    let (held_waits, held_ns) = (of_held(|row| row.waits), of_held(|row| row.time_ns));
    writeln!(out, "=== Locks: {}, {} ===", visible(&report.target), seconds(report.duration.as_secs_f64()))?;
    if waits == 0 && all().next().is_none() {
        writeln!(out, "\nNo thread waited for a lock.")?;
    } else {
        // Of locks of the kernel that spin, nobody wakes the waiter.
        let of_programs = of_held(|row| if row.class.is_of_kernel() { 0 } else { row.waits });
        let released = of_held(|row| if row.class.is_of_kernel() { 0 } else { row.released });
        let ended = percent(released, of_programs);
        let ended =
            ended.map(|share| format!("; {share:.1} % ended by the thread that let go")).unwrap_or_default();
        writeln!(
            out,
            "\n{} for locks that another thread held, {} in all{ended}",
            waits_of(held_waits),
            length(held_ns)
        )?;
    }
    for row in report.held.iter().take(ROWS) {
        write_held(out, row, held_ns)?;
    }
    write_rest(out, report.held.get(ROWS..).unwrap_or_default(), "locks")?;
    if !report.others.is_empty() {
        writeln!(out, "\n=== Waits for other threads: work, signals, ends of threads ===\n")?;
        writeln!(
            out,
            "{:>9} {:>9} {:>9} {:>9}  {:9}  where, and who ends the waits",
            "time", "waits", "longest", "p99", "class"
        )?;
    }
    for row in report.others.iter().take(ROWS) {
        write_other(out, row)?;
    }
    write_rest(out, report.others.get(ROWS..).unwrap_or_default(), "places")?;
    if report.lost > 0 {
        writeln!(out, "\n{} waits are missing here: they did not fit into memory", grouped(report.lost))?;
    }
    Ok(())
}

fn write_held(out: &mut String, row: &LockRow, all_ns: u64) -> std::fmt::Result {
    let of_all = percent(row.time_ns, all_ns).map(|share| format!(" ({share:.0} %)")).unwrap_or_default();
    let file = row.file.as_ref().map(|file| format!(" in {}", visible(file))).unwrap_or_default();
    let whose = match row.pid {
        Some(pid) => format!("{} (pid {pid})", visible(&row.process)),
        None => format!("{} ({} processes)", visible(&row.process), row.processes),
    };
    writeln!(out, "\n{} {}{file}, {whose}", row.class.name(), shortened(&row.name))?;
    writeln!(
        out,
        "  {}, {} in all{of_all}, longest {}, p99 {}",
        waits_of(row.waits),
        length(row.time_ns),
        longest(row),
        p99(row)
    )?;
    write_stacks(out, "waits in", &row.waiters)?;
    // Where no owner is ever known, the lock does not tell it.
    let is_told = row.owners.iter().any(|(held_by, _)| *held_by != HeldBy::Unknown);
    for (number, (held_by, waits)) in row.owners.iter().take(STACKS).enumerate().filter(|_| is_told) {
        let head = if number == 0 { "held by" } else { "" };
        let what = match held_by {
            HeldBy::Waiting(functions) => format!("a thread off its CPU in {}", line(functions)),
            HeldBy::Running => "a thread on a CPU".to_owned(),
            HeldBy::Runnable => "a thread that waits for a CPU".to_owned(),
            HeldBy::Unknown => "not seen: it had let go again".to_owned(),
        };
        writeln!(out, "  {head:9} {:>8} {:>9}  {what}", grouped(*waits), "")?;
    }
    write_stacks(out, "let go by", &row.wakers)?;
    Ok(())
}

fn write_other(out: &mut String, row: &LockRow) -> std::fmt::Result {
    writeln!(
        out,
        "{:>9} {:>9} {:>9} {:>9}  {:9}  {}",
        length(row.time_ns),
        grouped(row.waits),
        longest(row),
        p99(row),
        row.class.name(),
        row.waiters.first().map_or_else(String::new, |share| line(&share.functions)),
    )?;
    match row.wakers.first() {
        Some(share) => writeln!(out, "{:52}ended by {}", "", shown(share)),
        None => Ok(()),
    }
}

fn write_rest(out: &mut String, rest: &[LockRow], what: &str) -> std::fmt::Result {
    if rest.is_empty() {
        return Ok(());
    }
    let (waits, time) = (sum(rest.iter().map(|row| row.waits)), sum(rest.iter().map(|row| row.time_ns)));
    writeln!(
        out,
        "\n{} more {what}: {}, {} in all",
        grouped(rest.len() as u64),
        waits_of(waits),
        length(time)
    )
}

fn longest(row: &LockRow) -> String {
    if row.longest_ns == 0 { "-".to_owned() } else { length(row.longest_ns) }
}

fn p99(row: &LockRow) -> String {
    row.p99_ns.map_or_else(|| "-".to_owned(), length)
}

/// Some stacks with their waits and times, under one heading.
fn write_stacks(out: &mut String, heading: &str, shares: &[StackShare]) -> std::fmt::Result {
    for (number, share) in shares.iter().take(STACKS).enumerate() {
        let head = if number == 0 { heading } else { "" };
        writeln!(
            out,
            "  {head:9} {:>8} {:>9}  {}",
            grouped(share.waits),
            length(share.time_ns),
            shown(share)
        )?;
    }
    Ok(())
}

fn shown(share: &StackShare) -> String {
    match share.thread.as_ref().filter(|thread| !thread.is_empty()) {
        Some(thread) => format!("{} (thread {})", line(&share.functions), visible(thread)),
        None => line(&share.functions),
    }
}

/// A stack on one line, the innermost function first, as far as it fits.
fn line(functions: &[String]) -> String {
    let mut left = LINE;
    let fits = |name: &String| {
        let is_first = left == LINE;
        left = left.saturating_sub(name.chars().count() + 3);
        is_first || left > 0
    };
    let short: Vec<String> = functions.iter().map(|name| shortened(name)).take_while(fits).collect();
    let more = if short.len() < functions.len() { " < …" } else { "" };
    chain(&short, short.len()) + more
}

fn shortened(name: &str) -> String {
    let name = visible(name);
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.into_owned(),
    }
}

fn waits_of(number: u64) -> String {
    if number == 1 { "1 wait".to_owned() } else { format!("{} waits", grouped(number)) }
}

/// A length of time with three digits: 1.25 ms.
fn length(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", digits(value / 1e6)),
        _ => seconds(value / 1e9),
    }
}

fn seconds(seconds: f64) -> String {
    format!("{} s", digits(seconds))
}

fn digits(value: f64) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let lengths =
            [0, 999, 1_000, 12_345, 999_499, 1_250_000, 100_000_000, 2_000_000_000, 190_000_000_000];
        let expected =
            ["0 ns", "999 ns", "1.00 us", "12.3 us", "999 us", "1.25 ms", "100 ms", "2.00 s", "190 s"];
        assert_eq!(lengths.map(length), expected);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn hostile_names_are_cut_and_escaped() {
        assert_eq!(shortened("a\u{1b}[2J"), "a\\u{1b}[2J");
        assert_eq!(shortened(&"é".repeat(100)).chars().count(), LONGEST_NAME + 1);
    }
}
