//! Several profiles as one.

use profile::{Builder, Function, Line, Location, LocationId, MappingId, Profile, ValueType};

/// Why profiles cannot be added up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// They count different things.
    #[error("{name} has the values {found}, {first} has {expected}")]
    #[non_exhaustive]
    Values {
        /// The first profile.
        first: String,
        /// Its values, as `samples/count, cpu/nanoseconds`.
        expected: String,
        /// The profile that differs.
        name: String,
        /// Its values.
        found: String,
    },
    /// There is no profile.
    #[error("there is no profile to merge")]
    Nothing,
}

/// Adds up profiles, each with a name. Samples with equal stacks and labels become one.
///
/// As in `go tool pprof`, the time is that of the earliest, the duration is the sum, and the period is the longest. A comment that all have
/// stays; the others, as the figures of their ledgers, follow the name of their profile: `a.pb.gz: perf-agent.samples=198`.
///
/// # Errors
/// [`MergeError`]: their values are not the same, or there are none.
pub fn merge(profiles: &[(String, Profile)]) -> Result<Profile, MergeError> {
    let Some(((first_name, first), others)) = profiles.split_first() else {
        return Err(MergeError::Nothing);
    };
    for (name, profile) in others {
        if profile.sample_types != first.sample_types {
            return Err(MergeError::Values {
                first: first_name.clone(),
                expected: words(&first.sample_types),
                name: name.clone(),
                found: words(&profile.sample_types),
            });
        }
    }
    let all = || profiles.iter().map(|(_, profile)| profile);
    let period = all().map(|profile| profile.period).max().unwrap_or(0);
    let mut builder = Builder::new(&first.sample_types, first.period_type.clone(), period);
    all().for_each(|profile| add(&mut builder, profile));
    let time = all().map(|profile| profile.time_ns).filter(|time| *time != 0).min().unwrap_or(0);
    let duration = all().fold(0i64, |sum, profile| sum.saturating_add(profile.duration_ns));
    let mut merged = builder.finish(time, duration, comments(profiles));
    merged.default_sample_type.clone_from(&first.default_sample_type);
    Ok(merged)
}

fn words(types: &[ValueType]) -> String {
    types.iter().map(|of| format!("{}/{}", of.kind, of.unit)).collect::<Vec<_>>().join(", ")
}

/// Adds the samples of a profile, with all that they name.
fn add(builder: &mut Builder, profile: &Profile) {
    let mappings: Vec<MappingId> =
        profile.mappings.iter().map(|mapping| builder.mapping(mapping.clone())).collect();
    let functions: Vec<_> =
        profile.functions.iter().map(|function| builder.function(Function::clone(function))).collect();
    let mut location = |of: &Location| {
        let mapping = of.mapping.and_then(|id| mappings.get(id.0 as usize)).copied();
        let line = |line: &Line| {
            functions.get(line.function.0 as usize).map(|function| Line { function: *function, ..*line })
        };
        builder.location(mapping, of.address, of.lines.iter().filter_map(line).collect())
    };
    let locations: Vec<LocationId> = profile.locations.iter().map(&mut location).collect();
    for sample in &profile.samples {
        let stack = sample.locations.iter().filter_map(|id| locations.get(id.0 as usize)).copied().collect();
        if sample.values.len() == profile.sample_types.len() {
            builder.add(sample.labels.clone(), stack, &sample.values);
        }
    }
}

fn comments(profiles: &[(String, Profile)]) -> Vec<String> {
    let is_common = |comment: &String| profiles.iter().all(|(_, profile)| profile.comments.contains(comment));
    let mut comments: Vec<String> = Vec::new();
    let common = profiles.first().into_iter().flat_map(|(_, profile)| &profile.comments);
    comments.extend(common.filter(|comment| is_common(comment)).cloned());
    for (name, profile) in profiles {
        let own = profile.comments.iter().filter(|comment| !is_common(comment));
        comments.extend(own.map(|comment| format!("{name}: {comment}")));
    }
    comments
}

#[cfg(test)]
mod tests {
    use profile::{Label, Mapping, Svma};

    use super::*;

    fn profile_of(files: &[(&str, &str, i64)], comments: &[&str]) -> Profile {
        let cpu = ValueType::new("cpu", "nanoseconds");
        let types = [cpu.clone(), ValueType::new("samples", "count")];
        let mut b = Builder::new(&types, cpu, 10);
        for (file, name, value) in files {
            let mapping = Mapping { filename: (*file).to_owned(), start: Svma(0x1000), ..Mapping::default() };
            let mapping = b.mapping(mapping);
            let function = b.function(Function { name: (*name).to_owned(), ..Function::default() });
            let location = b.location(Some(mapping), 0x1010, vec![Line { function, line: 3, column: 0 }]);
            b.add(vec![Label::num("pid", 7)], vec![location], &[*value, 1]);
        }
        let mut profile = b.finish(100, 10, comments.iter().map(|&c| c.to_owned()).collect());
        profile.default_sample_type = "cpu".to_owned();
        profile
    }

    #[test]
    fn equal_stacks_become_one_and_everything_adds_up() {
        let a = profile_of(&[("/bin/a", "f", 5), ("/bin/b", "g", 1)], &["build=1", "perf-agent.samples=2"]);
        let mut b =
            profile_of(&[("/bin/b", "g", 7), ("/bin/c", "h", 2)], &["build=1", "perf-agent.samples=9"]);
        (b.time_ns, b.period) = (90, 20);
        let merged = merge(&[("a".to_owned(), a), ("b".to_owned(), b)]).unwrap();
        let values: Vec<_> = merged.samples.iter().map(|sample| sample.values.clone()).collect();
        assert_eq!(values, [vec![5, 1], vec![8, 2], vec![2, 1]]);
        assert_eq!((merged.time_ns, merged.duration_ns, merged.period), (90, 20, 20));
        assert_eq!(merged.default_sample_type, "cpu");
        assert_eq!(merged.mappings.len(), 3);
        assert_eq!(merged.comments, ["build=1", "a: perf-agent.samples=2", "b: perf-agent.samples=9"]);
    }

    #[test]
    fn one_profile_stays_as_it_is() {
        let one = profile_of(&[("/bin/a", "f", 5), ("/bin/b", "g", 1)], &["x=y", "x=y"]);
        let merged = merge(&[("one".to_owned(), one.clone())]).unwrap();
        assert_eq!(merged, one);
    }

    #[test]
    fn other_values_are_refused() {
        let one = profile_of(&[], &[]);
        let mut other = one.clone();
        other.sample_types.pop();
        let error = merge(&[("a".to_owned(), one), ("b".to_owned(), other)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "b has the values cpu/nanoseconds, a has cpu/nanoseconds, samples/count"
        );
        assert_eq!(merge(&[]).unwrap_err(), MergeError::Nothing);
    }
}
