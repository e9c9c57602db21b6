//! Builds a [`Profile`]: equal items are stored once and named by an id.

use indexmap::IndexMap;

use crate::interner::Interner;
use crate::model::{
    Function, FunctionId, Label, Line, Location, LocationId, Mapping, MappingId, Moment, Profile, Sample,
    ValueType,
};

/// Collects mappings, functions, locations and samples into a [`Profile`].
#[derive(Debug)]
pub struct Builder {
    /// Everything but the four tables below.
    profile: Profile,
    mappings: Interner<Mapping>,
    functions: Interner<Function>,
    locations: Interner<Location>,
    /// Sums of values by labels and locations.
    samples: IndexMap<(Vec<Label>, Vec<LocationId>), Vec<i64>>,
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
            mappings: Interner::with_limit(u32::MAX),
            functions: Interner::with_limit(u32::MAX),
            locations: Interner::with_limit(u32::MAX),
            samples: IndexMap::new(),
        }
    }

    /// The id of a mapping. A new mapping is added.
    pub fn mapping(&mut self, mapping: Mapping) -> MappingId {
        MappingId(self.mappings.number(mapping).unwrap_or(u32::MAX))
    }

    /// The id of a function. A new function is added.
    pub fn function(&mut self, function: Function) -> FunctionId {
        FunctionId(self.functions.number(function).unwrap_or(u32::MAX))
    }

    /// The id of a location. A new location is added. Locations are equal only if their lines are, too: two files may
    /// show the same path, build-id and addresses and hold different code, and neither may give its names to the other.
    pub fn location(&mut self, mapping: Option<MappingId>, address: u64, lines: Vec<Line>) -> LocationId {
        LocationId(self.locations.number(Location { mapping, address, lines }).unwrap_or(u32::MAX))
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

    /// Adds values to the sample with these labels and locations. Gives its number.
    ///
    /// # Panics
    /// If the number of values differs from the number of sample types: a defect of the caller.
    pub fn add(&mut self, labels: Vec<Label>, locations: Vec<LocationId>, values: &[i64]) -> u32 {
        assert_eq!(values.len(), self.profile.sample_types.len(), "one value per sample type");
        let entry = self.samples.entry((labels, locations));
        let number = u32::try_from(entry.index()).unwrap_or(u32::MAX);
        let sums = entry.or_insert_with(|| vec![0; values.len()]);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
        number
    }

    /// Adds the time of one of the samples with a number. Times are added in their order.
    pub fn add_moment(&mut self, moment: Moment) {
        self.profile.moments.push(moment);
    }

    /// The finished profile with its times (see [`Profile`]) and comments.
    #[must_use]
    pub fn finish(self, time_ns: i64, duration_ns: i64, comments: Vec<String>) -> Profile {
        let sample = |((labels, locations), values)| Sample { locations, values, labels };
        Profile {
            time_ns,
            duration_ns,
            comments,
            mappings: self.mappings.into_items(),
            functions: self.functions.into_items(),
            locations: self.locations.into_items(),
            samples: self.samples.into_iter().map(sample).collect(),
            ..self.profile
        }
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
    fn equal_samples_are_summed_and_others_stay_apart() {
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
