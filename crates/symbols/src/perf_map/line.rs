//! Lines of perf maps.

/// Reads `START SIZE NAME` as the first address, the end, and the name. A name may hold blanks.
pub(super) fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let (start, size) = (hex(start)?, hex(size)?);
    let end = start.checked_add(size)?;
    (size != 0 && !name.is_empty()).then_some((start, end, name))
}

fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // `from_str_radix` would take a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}
