//! Builds a [`Profile`] by interning: equal things get one id.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::{
    Function, FunctionId, Label, Line, Location, LocationId, Mapping, MappingId, Profile, Sample, ValueType,
};

/// Interns mappings, functions, locations and samples into a [`Profile`].
#[derive(Debug)]
pub struct Builder {
    profile: Profile,
    mappings: HashMap<Mapping, u32>,
    functions: HashMap<Function, u32>,
    locations: HashMap<LocationKey, u32>,
    samples: HashMap<(Vec<Label>, Vec<LocationId>), usize>,
}

type LocationKey = (Option<MappingId>, u64, Vec<Line>);

fn intern<K: Eq + Hash, V>(ids: &mut HashMap<K, u32>, values: &mut Vec<V>, key: K, value: V) -> u32 {
    match ids.entry(key) {
        Entry::Occupied(entry) => *entry.get(),
        Entry::Vacant(entry) => {
            values.push(value);
            *entry.insert(u32::try_from(values.len() - 1).unwrap_or(u32::MAX))
        }
    }
}

impl Builder {
    /// An empty profile whose samples have these value types. The last one is the default.
    #[must_use]
    pub fn new(sample_types: &[ValueType], period_type: ValueType, period: i64) -> Self {
        let profile = Profile {
            sample_types: sample_types.to_vec(),
            default_sample_type: sample_types.last().map(|t| t.kind.clone()).unwrap_or_default(),
            period_type,
            period,
            ..Profile::default()
        };
        Self {
            profile,
            mappings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            samples: HashMap::new(),
        }
    }

    /// The id of a mapping, added at its first sight.
    pub fn mapping(&mut self, mapping: Mapping) -> MappingId {
        MappingId(intern(&mut self.mappings, &mut self.profile.mappings, mapping.clone(), mapping))
    }

    /// The id of a function, added at its first sight.
    pub fn function(&mut self, function: Function) -> FunctionId {
        FunctionId(intern(&mut self.functions, &mut self.profile.functions, function.clone(), function))
    }

    /// The id of a location. Interned by all that is said of it: two files may show the same path, build-id and addresses, and
    /// hold different code; none must give its names to the other.
    pub fn location(&mut self, mapping: Option<MappingId>, address: u64, lines: Vec<Line>) -> LocationId {
        let location = Location { mapping, address, lines: lines.clone() };
        let key = (mapping, address, lines);
        LocationId(intern(&mut self.locations, &mut self.profile.locations, key, location))
    }

    /// A location that stands for a fact rather than for code: `[truncated: …]`, `[kernel thread]`.
    pub fn synthetic(&mut self, name: &str) -> LocationId {
        let function = self.function(Function {
            name: name.to_owned(),
            system_name: name.to_owned(),
            ..Function::default()
        });
        self.location(None, 0, vec![Line { function, line: 0, column: 0 }])
    }

    /// Adds values to the sample with these labels and locations.
    ///
    /// # Panics
    /// If the number of values differs from the number of sample types: a defect of the caller.
    pub fn add(&mut self, labels: Vec<Label>, locations: Vec<LocationId>, values: &[i64]) {
        assert_eq!(values.len(), self.profile.sample_types.len(), "one value per sample type");
        match self.samples.entry((labels, locations)) {
            Entry::Occupied(entry) => {
                for (sum, value) in self.profile.samples[*entry.get()].values.iter_mut().zip(values) {
                    *sum = sum.saturating_add(*value);
                }
            }
            Entry::Vacant(entry) => {
                let (labels, locations) = entry.key().clone();
                self.profile.samples.push(Sample { locations, values: values.to_vec(), labels });
                entry.insert(self.profile.samples.len() - 1);
            }
        }
    }

    /// The finished profile with its times (see [`Profile`]) and comments.
    #[must_use]
    pub fn finish(mut self, time_ns: i64, duration_ns: i64, comments: Vec<String>) -> Profile {
        self.profile.time_ns = time_ns;
        self.profile.duration_ns = duration_ns;
        self.profile.comments = comments;
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> Builder {
        let cpu = ValueType::new("cpu", "nanoseconds");
        Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 10)
    }

    #[test]
    fn equal_samples_are_summed_and_others_kept_apart() {
        let mut b = builder();
        let leaf = b.location(None, 0x10, Vec::new());
        let root = b.location(None, 0x20, Vec::new());
        b.add(vec![Label::num("pid", 1)], vec![leaf, root], &[1, 10]);
        b.add(vec![Label::num("pid", 1)], vec![leaf, root], &[2, 20]);
        b.add(vec![Label::num("pid", 2)], vec![leaf, root], &[1, 10]);
        b.add(vec![Label::num("pid", 1)], vec![leaf], &[1, 10]);
        let p = b.finish(1, 2, vec!["k=v".into()]);
        let sums: Vec<_> = p.samples.iter().map(|s| s.values.clone()).collect();
        assert_eq!(sums, [vec![3, 30], vec![1, 10], vec![1, 10]]);
        assert_eq!(p.default_sample_type, "cpu");
    }

    #[test]
    fn files_that_look_alike_keep_their_names() {
        let mut b = builder();
        let m = b.mapping(Mapping { filename: "/lib/libc.so.6".into(), ..Mapping::default() });
        let mut named = |name: &str| {
            let function = b.function(Function { name: name.to_owned(), ..Function::default() });
            b.location(Some(m), 0x10, vec![Line { function, line: 0, column: 0 }])
        };
        let (forged, genuine) = (named("nothing_to_see"), named("malloc"));
        assert_ne!(forged, genuine);
        assert_eq!(named("malloc"), genuine);
    }

    #[test]
    fn locations_are_interned_by_address_and_synthetic_ones_by_name() {
        let mut b = builder();
        let m = b.mapping(Mapping { filename: "/bin/x".into(), ..Mapping::default() });
        assert_eq!(b.location(Some(m), 0x10, Vec::new()), b.location(Some(m), 0x10, Vec::new()));
        assert_ne!(b.location(Some(m), 0x10, Vec::new()), b.location(None, 0x10, Vec::new()));
        assert_eq!(b.synthetic("[jit]"), b.synthetic("[jit]"));
        assert_ne!(b.synthetic("[jit]"), b.synthetic("[unknown]"));
    }
}
