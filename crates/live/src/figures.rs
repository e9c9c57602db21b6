//! What the ledgers of the intervals say, added up.

/// Figures of a ledger that add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Samples, or waits.
    pub samples: u64,
    /// Of these, how many were lost.
    pub lost: u64,
    /// Walks that reached the outermost frame.
    pub rooted: u64,
    /// All walks.
    pub walks: u64,
    /// The share of frames with names, in percent, times the samples.
    named: f64,
    /// The samples for which that share is known.
    with_names: u64,
}

impl Figures {
    /// The figures of a ledger, by its keys and values.
    #[must_use]
    pub fn of(ledger: &[(String, String)]) -> Self {
        let mut figures = Self::default();
        let mut named = None;
        for (key, value) in ledger {
            let number = || value.parse::<u64>().unwrap_or(0);
            match key.as_str() {
                "samples" => figures.samples = number(),
                "lost" => figures.lost = number(),
                "walks.root" => figures.rooted = number(),
                "symbolized_pct" => named = value.parse::<f64>().ok(),
                _ => {}
            }
            if key.starts_with("walks.") {
                figures.walks = figures.walks.saturating_add(number());
            }
        }
        if let Some(share) = named.filter(|share| share.is_finite()) {
            figures.with_names = figures.samples;
            figures.named = share * figures.samples as f64;
        }
        figures
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            lost: self.lost.saturating_add(other.lost),
            rooted: self.rooted.saturating_add(other.rooted),
            walks: self.walks.saturating_add(other.walks),
            named: self.named + other.named,
            with_names: self.with_names.saturating_add(other.with_names),
        }
    }

    /// Walks that reached the outermost frame, in percent; none without walks.
    #[must_use]
    pub fn rooted_pct(&self) -> Option<f64> {
        (self.walks > 0).then(|| self.rooted as f64 * 100.0 / self.walks as f64)
    }

    /// Frames with a name, in percent; none without frames.
    #[must_use]
    pub fn named_pct(&self) -> Option<f64> {
        (self.with_names > 0).then(|| self.named / self.with_names as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_intervals_add_up() {
        let of = |entries: &[(&str, &str)]| {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Figures::of(&entries)
        };
        let first = of(&[
            ("samples", "30"),
            ("lost", "1"),
            ("walks.root", "9"),
            ("walks.fault", "1"),
            ("symbolized_pct", "90.00"),
        ]);
        let second = of(&[("samples", "10"), ("walks.root", "10"), ("symbolized_pct", "50.00")]);
        let both = first.plus(second).plus(of(&[]));
        assert_eq!((both.samples, both.lost), (40, 1));
        assert_eq!(both.rooted_pct(), Some(95.0));
        assert_eq!(both.named_pct(), Some(80.0));
        assert_eq!((of(&[]).rooted_pct(), of(&[]).named_pct()), (None, None));
    }
}
