//! Values as text for people.

use profile::ValueType;

/// A value with its unit. Times are told in the unit that suits them.
#[must_use]
pub fn amount(value: u64, unit: &ValueType) -> String {
    let ns = value as f64;
    match unit.unit.as_str() {
        "nanoseconds" if value >= 100_000_000 => format!("{:.3} s", ns / 1e9),
        "nanoseconds" if value >= 100_000 => format!("{:.3} ms", ns / 1e6),
        "nanoseconds" => format!("{:.3} µs", ns / 1e3),
        "count" => format!("{value} {}", unit.kind),
        unit => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_suits_them() {
        let time = ValueType::new("cpu", "nanoseconds");
        let told = [1_234_567_890, 45_600_000, 1_500].map(|ns| amount(ns, &time));
        assert_eq!(told, ["1.235 s", "45.600 ms", "1.500 µs"]);
        assert_eq!(amount(7, &ValueType::new("samples", "count")), "7 samples");
        assert_eq!(amount(7, &ValueType::new("space", "bytes")), "7 bytes");
    }
}
