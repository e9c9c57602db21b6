//! By what the samples of a report can be selected: program, process, thread, state and other labels.

use indexmap::IndexSet;
use profile::{LabelValue, Profile, Sample, visible};

/// The labels that the first facets are made of.
const OWNERS: [&str; 4] = ["comm", "pid", "thread", "tid"];

/// A property of samples with its values.
#[derive(Debug)]
pub(super) struct Facet<'a> {
    pub(super) name: &'a str,
    pub(super) values: IndexSet<String>,
    of: Of,
}

/// Where a facet takes the value of a sample from.
#[derive(Debug)]
enum Of {
    /// The profile that the sample is from. All values are known from the beginning.
    Profile,
    /// Its labels.
    Labels(fn(&Sample) -> Option<String>),
    /// The label with the name of the facet.
    Label,
}

/// All properties, and the distinct combinations of their values.
#[derive(Debug)]
pub(super) struct Facets<'a> {
    pub(super) all: Vec<Facet<'a>>,
    /// For each facet the number of the value from 1 on; 0 is none.
    pub(super) groups: IndexSet<Vec<u32>>,
}

impl<'a> Facets<'a> {
    /// The properties of the samples of a profile, without values so far.
    pub(super) fn of_report(profile: &'a Profile) -> Self {
        let mut all = vec![
            facet("program", Of::Labels(|sample| label(sample, "comm"))),
            facet("process", Of::Labels(|sample| numbered(sample, "comm", "pid"))),
            facet("thread", Of::Labels(|sample| numbered(sample, "thread", "tid"))),
        ];
        all.extend(others(&[profile]));
        Self { all, groups: IndexSet::new() }
    }

    /// The properties that samples of several profiles have in common: numbers of processes and threads are none. The first one is the profile
    /// itself, whose values are these names.
    pub(super) fn of_profiles(names: IndexSet<String>, profiles: &[&'a Profile]) -> Self {
        let mut all = vec![
            Facet { name: "profile", values: names, of: Of::Profile },
            facet("program", Of::Labels(|sample| label(sample, "comm"))),
            facet("thread", Of::Label),
        ];
        all.extend(others(profiles));
        Self { all, groups: IndexSet::new() }
    }

    /// The number of the group that a sample of profile number `profile` belongs to.
    pub(super) fn group(&mut self, profile: usize, sample: &Sample) -> u32 {
        let value = |facet: &mut Facet<'_>| {
            let value = match facet.of {
                Of::Profile => return number(profile + 1),
                Of::Labels(of) => of(sample),
                Of::Label => label(sample, facet.name),
            };
            value.map_or(0, |value| number(facet.values.insert_full(value).0 + 1))
        };
        let group = self.all.iter_mut().map(value).collect();
        number(self.groups.insert_full(group).0)
    }
}

fn facet(name: &str, of: Of) -> Facet<'_> {
    Facet { name, values: IndexSet::new(), of }
}

/// The labels that are no owners, as facets.
fn others<'a>(profiles: &[&'a Profile]) -> impl Iterator<Item = Facet<'a>> {
    let samples = profiles.iter().flat_map(|profile| &profile.samples);
    let labels = samples.flat_map(|sample| &sample.labels);
    let keys: IndexSet<&str> = labels.map(|label| label.key.as_str()).collect();
    keys.into_iter().filter(|key| !OWNERS.contains(key)).map(|key| facet(key, Of::Label))
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The value of a label as text.
fn label(sample: &Sample, key: &str) -> Option<String> {
    Some(match &sample.labels.iter().find(|label| label.key == key)?.value {
        LabelValue::Str(text) => visible(text).into_owned(),
        LabelValue::Num(number) => number.to_string(),
    })
}

/// `NAME (NUMBER)`; none without a number.
fn numbered(sample: &Sample, name: &str, id: &str) -> Option<String> {
    let id = label(sample, id)?;
    Some(label(sample, name).map_or_else(|| format!("({id})"), |name| format!("{name} ({id})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Builder, Label, ValueType};

    #[test]
    fn samples_with_equal_values_are_one_group() {
        let mut builder = Builder::new(&[ValueType::new("samples", "count")], ValueType::default(), 1);
        let labels = |pid, state: &str| {
            vec![Label::num("pid", pid), Label::str("comm", "a\nb"), Label::str("state", state)]
        };
        let [first, second] = ["f", "g"].map(|name| vec![builder.synthetic(name)]);
        builder.add(labels(1, "blocked"), first.clone(), &[1]);
        builder.add(labels(1, "blocked"), second.clone(), &[1]);
        builder.add(labels(2, "blocked"), second, &[1]);
        builder.add(Vec::new(), first, &[1]);
        let profile = builder.finish(0, 0, Vec::new());
        let mut facets = Facets::of_report(&profile);
        let groups: Vec<u32> = profile.samples.iter().map(|sample| facets.group(0, sample)).collect();
        assert_eq!(groups, [0, 0, 1, 2]);
        let all: Vec<_> = facets.all.iter().map(|facet| (facet.name, facet.values.len())).collect();
        assert_eq!(all, [("program", 1), ("process", 2), ("thread", 0), ("state", 1)]);
        assert_eq!(facets.all[1].values[0], "a\\nb (1)");
        assert_eq!(facets.groups[2], [0, 0, 0, 0]);
    }
}
