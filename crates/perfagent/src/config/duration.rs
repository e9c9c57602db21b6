//! The syntax of durations: one or more `NUMBER UNIT` pairs without blanks (`500ms`, `1m30s`, `1.5h`), or one number, which is
//! seconds.

use std::time::Duration;

/// Examples for messages.
pub(crate) const EXAMPLES: &str = "10 (seconds), 500ms, 1m30s, 1.5h; units ns us µs ms s m h";

/// The units with their length in ns.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Number of digits after the point that are read. Further digits are below a nanosecond in every unit.
const MAX_FRACTION_DIGITS: usize = 15;

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// It starts with a minus sign.
    #[error("it is negative")]
    Negative,
    /// One of several numbers has no unit.
    #[error("each of several numbers needs a unit")]
    NoUnit,
    /// An unknown unit.
    #[error("the unit is unknown")]
    UnknownUnit,
    /// A number is missing.
    #[error("a number is expected")]
    NoNumber,
    /// More than 584 years.
    #[error("it is too long")]
    TooLong,
}

/// Reads a duration.
///
/// # Errors
/// [`DurationError`] if the text does not follow the grammar.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(perfagent::parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(perfagent::parse_duration("90"), Ok(Duration::from_secs(90)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text.starts_with('-') {
        return Err(DurationError::Negative);
    }
    let mut rest = text;
    let mut total_ns: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, after) = split_at_first(after, |c| c.is_ascii_digit() || c == '.');
        let is_alone = number.len() == text.len();
        let number = Number::parse(number)?;
        let unit = match unit {
            "" if is_alone => "s",
            "" => return Err(DurationError::NoUnit),
            unit => unit,
        };
        let unit_ns = UNITS.iter().find(|(name, _)| *name == unit).ok_or(DurationError::UnknownUnit)?.1;
        let ns = number.times(unit_ns).ok_or(DurationError::TooLong)?;
        total_ns = total_ns.checked_add(ns).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    Ok(Duration::from_nanos(total_ns))
}

fn split_at_first(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// An exact decimal number.
struct Number {
    whole: u64,
    fraction: u64,
    fraction_scale: u64,
}

impl Number {
    fn parse(text: &str) -> Result<Self, DurationError> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(DurationError::NoNumber),
            Some(parts) => parts,
            None => (text, "0"),
        };
        if whole.is_empty() || fraction.contains('.') {
            return Err(DurationError::NoNumber);
        }
        let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
        Ok(Self {
            whole: whole.parse().map_err(|_| DurationError::TooLong)?,
            fraction: fraction.parse().map_err(|_| DurationError::NoNumber)?,
            fraction_scale: (0..fraction.len()).fold(1, |scale, _| scale * 10),
        })
    }

    /// The number times a unit, rounded down to whole ns.
    fn times(&self, unit_ns: u64) -> Option<u64> {
        let fraction_ns = u128::from(self.fraction) * u128::from(unit_ns) / u128::from(self.fraction_scale);
        let ns = u128::from(self.whole) * u128::from(unit_ns) + fraction_ns;
        u64::try_from(ns).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_valid_durations() {
        for (text, ns) in [
            ("500ms", 500_000_000),
            ("10s", 10_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("0.1s", 100_000_000),
            ("7us", 7_000),
            ("7\u{b5}s", 7_000),
            ("7\u{3bc}s", 7_000),
            ("7ns", 7),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("0s", 0),
            ("0.5ns", 0),
            ("0.12345678901234567890s", 123_456_789),
            ("010s", 10_000_000_000),
            ("10", 10_000_000_000),
            ("1.5", 1_500_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn refuses_other_texts_with_the_reason() {
        use DurationError::*;
        for (text, error) in [
            ("", Empty),
            ("1m30", NoUnit),
            ("-5s", Negative),
            ("s", NoNumber),
            (".5s", NoNumber),
            ("5.s", NoNumber),
            ("1.2.3s", NoNumber),
            ("..s", NoNumber),
            ("5 s", UnknownUnit),
            ("5d", UnknownUnit),
            ("5S", UnknownUnit),
            ("+5s", NoNumber),
            ("soon", NoNumber),
            ("99999999999999999999s", TooLong),
            ("18446744073709551615h", TooLong),
            ("18446744073709551615ns1ns", TooLong),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn never_panics_on_unusual_characters() {
        for text in ["é", "1é", "1.\u{b5}", "\u{3bc}s", "1\u{0}s", "٣s"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }
}
