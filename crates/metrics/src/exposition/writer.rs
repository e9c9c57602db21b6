//! Writes families and samples in OpenMetrics 1.0 and Prometheus 0.0.4.

use std::fmt::Write;

use super::format::Exposition;
use super::highest::{HighestValues, Number};
use crate::Histogram;

/// Bounds of exposed histograms: `2^k - 1` ns, from 1 us to 18 min. Buckets end there, so every count is exact.
const BOUND_SHIFTS: std::ops::RangeInclusive<u32> = 10..=40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The unit at the end of a family's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    None,
    Seconds,
    Bytes,
}

type Labels<'a> = [(&'a str, &'a str)];

pub(super) struct Writer<'a> {
    exposition: Exposition,
    text: String,
    highest: &'a mut HighestValues,
}

impl<'a> Writer<'a> {
    pub fn new(exposition: Exposition, highest: &'a mut HighestValues) -> Self {
        Self { exposition, text: String::new(), highest }
    }

    /// A family. `name` lacks the suffix of its samples. A family without samples is left out.
    pub fn family(
        &mut self,
        name: &str,
        kind: Kind,
        unit: Unit,
        help: &str,
        fill: impl FnOnce(&mut Samples<'_>),
    ) {
        let suffix = if kind == Kind::Counter { "_total" } else { "" };
        let highest = (kind != Kind::Gauge).then_some(&mut *self.highest);
        let mut samples = Samples { name, suffix, text: String::new(), highest };
        fill(&mut samples);
        let body = samples.text;
        if body.is_empty() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        match self.exposition {
            Exposition::OpenMetrics => self.declare(name, kind, unit, help),
            Exposition::Prometheus => self.declare(&format!("{name}{suffix}"), kind, unit, help),
        }
        self.text.push_str(&body);
    }

    /// A family of one sample that contains only labels. `name` lacks `_info`.
    pub fn info(&mut self, name: &str, help: &str, labels: &Labels<'_>) {
        let on_the_wire = format!("{name}_info");
        match self.exposition {
            Exposition::OpenMetrics => self.declare(name, "info", Unit::None, help),
            Exposition::Prometheus => self.declare(&on_the_wire, "gauge", Unit::None, help),
        }
        sample(&mut self.text, None, &on_the_wire, "", labels, None, Number::Whole(1));
    }

    fn declare(&mut self, name: &str, kind: &str, unit: Unit, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        let unit = match unit {
            Unit::None => None,
            Unit::Seconds => Some("seconds"),
            Unit::Bytes => Some("bytes"),
        };
        if let Some(unit) = unit.filter(|_| self.exposition == Exposition::OpenMetrics) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    pub fn finish(mut self) -> String {
        if self.exposition == Exposition::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

pub(super) struct Samples<'a> {
    name: &'a str,
    suffix: &'static str,
    text: String,
    /// None for values that may fall.
    highest: Option<&'a mut HighestValues>,
}

impl Samples<'_> {
    pub fn put(&mut self, labels: &Labels<'_>, value: impl Into<Number>) {
        self.sample(self.suffix, labels, None, value);
    }

    fn sample(&mut self, suffix: &str, labels: &Labels<'_>, bound: Option<&str>, value: impl Into<Number>) {
        let highest = self.highest.as_deref_mut();
        sample(&mut self.text, highest, self.name, suffix, labels, bound, value.into());
    }

    pub fn histogram(&mut self, labels: &Labels<'_>, histogram: &Histogram) {
        // A histogram that was copied while it grew may have more values in its buckets than in its count.
        let count = histogram.count().max(histogram.count_up_to(u64::MAX));
        for shift in BOUND_SHIFTS {
            let bound_ns = (1u64 << shift) - 1;
            let bound = seconds(bound_ns).to_string();
            let count = histogram.count_up_to(bound_ns);
            self.sample("_bucket", labels, Some(&bound), count);
        }
        self.sample("_bucket", labels, Some("+Inf"), count);
        self.sample("_sum", labels, None, seconds(histogram.sum_ns()));
        self.sample("_count", labels, None, count);
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn sample(
    text: &mut String,
    highest: Option<&mut HighestValues>,
    name: &str,
    suffix: &str,
    labels: &Labels<'_>,
    bound: Option<&str>,
    value: Number,
) {
    let start = text.len();
    text.push_str(name);
    text.push_str(suffix);
    let bound = bound.map(|bound| ("le", bound));
    let mut separator = '{';
    for (label, value) in labels.iter().copied().chain(bound) {
        text.push(separator);
        separator = ',';
        text.push_str(label);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    if separator == ',' {
        text.push('}');
    }
    let value = highest.map_or(value, |highest| highest.at_least(&text[start..], value));
    // Writing to a string cannot fail.
    let _ = writeln!(text, " {value}");
}
