//! What each value of a label has of a profile: each process, thread, state.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use profile::{LabelValue, Profile};

use crate::hottest::spent;

/// What each value of the label `key` has of the value number `value`: the largest first. Samples without that label come under the empty
/// text. None: no sample has the label.
#[must_use]
pub fn label_shares(profile: &Profile, value: usize, key: &str) -> Option<Vec<(String, u64)>> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut is_known = false;
    for sample in &profile.samples {
        let label = sample.labels.iter().find(|label| label.key == key);
        is_known |= label.is_some();
        let text = match label.map(|label| &label.value) {
            Some(LabelValue::Str(text)) => text.clone(),
            Some(LabelValue::Num(number)) => number.to_string(),
            None => String::new(),
        };
        let sum = sums.entry(text).or_default();
        *sum = sum.saturating_add(spent(sample, value));
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by_key(|(_, sum)| Reverse(*sum));
    is_known.then_some(all)
}

/// The keys of the labels of a profile, sorted.
#[must_use]
pub fn label_keys(profile: &Profile) -> Vec<String> {
    let labels = profile.samples.iter().flat_map(|sample| &sample.labels);
    let keys: std::collections::BTreeSet<&str> = labels.map(|label| label.key.as_str()).collect();
    keys.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Label, ValueType};

    use super::*;

    #[test]
    fn each_value_of_a_label_has_its_share() {
        let count = ValueType::new("samples", "count");
        let mut builder = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
        let leaf = builder.synthetic("f");
        builder.add(vec![Label::num("pid", 7), Label::str("comm", "a")], vec![leaf], &[3]);
        builder.add(vec![Label::num("pid", 8), Label::str("comm", "a")], vec![leaf], &[4]);
        builder.add(Vec::new(), vec![leaf], &[2]);
        let profile = builder.finish(0, 0, Vec::new());
        let shares = |key| label_shares(&profile, 0, key);
        let text = |text: &str| text.to_owned();
        assert_eq!(shares("pid"), Some(vec![(text("8"), 4), (text("7"), 3), (text(""), 2)]));
        assert_eq!(shares("comm"), Some(vec![(text("a"), 7), (text(""), 2)]));
        assert_eq!(shares("tid"), None);
        assert_eq!(label_keys(&profile), ["comm", "pid"]);
    }
}
