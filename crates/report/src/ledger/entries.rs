//! Keys and values of a ledger while they are collected.

use crate::figures::percent;

/// Keys and values in their order.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<(String, String)>);

impl Entries {
    pub(super) fn put(&mut self, key: &str, value: impl ToString) {
        self.0.push((key.to_owned(), value.to_string()));
    }

    pub(super) fn put_unless_zero<'a>(&mut self, counts: impl IntoIterator<Item = (&'a str, u64)>) {
        for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.put(key, count);
        }
    }

    /// A share of a whole; nothing if there is no whole.
    pub(super) fn put_share(&mut self, key: &str, part: u64, whole: u64) {
        self.put_percent(key, percent(part, whole));
    }

    pub(super) fn put_percent(&mut self, key: &str, percent: Option<f64>) {
        if let Some(percent) = percent {
            self.put(key, format!("{percent:.2}"));
        }
    }

    pub(super) fn into_vec(self) -> Vec<(String, String)> {
        self.0
    }
}
