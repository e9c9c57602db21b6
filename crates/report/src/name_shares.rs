//! The figures about names in the comments of a profile that was named anew: those of its ledger are of the live run.

use profile::{KERNEL_MAPPING, Location, MappingId, Profile};

use crate::figures::{add, percent};

/// Comments that the ledger of a live run makes, by their beginnings.
const NAMED: &str = "perf-agent.symbolized_pct=";
const BY_START: &str = "perf-agent.function_start_pct=";
const NO_START: &str = "perf-agent.no_function_start=";
const OTHER_FILE: &str = "perf-agent.nameless.other_file=";
const KERNEL: &str = "perf-agent.nameless.kernel=";

/// Values that weight the shares of a profile of time.
const TIMES: [&str; 2] = ["offcpu", "delay"];

/// Frames of the samples of a profile, weighted by one of their values.
#[derive(Default)]
struct FrameCounts {
    named: u64,
    by_start: u64,
    /// Of neither of which is known, in files.
    in_files: u64,
    in_kernel: u64,
    all: u64,
}

/// Corrects the comments of a profile that tell how many frames have names, where it has them and its first value counts samples.
pub fn correct_name_shares(profile: &mut Profile) {
    let is_in_samples = profile.sample_types.first().is_some_and(|first| first.unit == "count");
    if !is_in_samples || !profile.comments.iter().any(|comment| comment.starts_with(NAMED)) {
        return;
    }
    let counts = FrameCounts::of(profile, 0);
    let time = profile.sample_types.iter().position(|value| TIMES.contains(&&*value.kind));
    let weighted = time.map(|column| FrameCounts::of(profile, column)).filter(|weighted| weighted.all > 0);
    let weighted = weighted.as_ref().unwrap_or(&counts);
    // Which files were none with functions is not in the profile: the live run told it.
    let other_files =
        profile.comments.iter().find_map(|comment| comment.strip_prefix(OTHER_FILE)?.parse().ok());
    let in_other_files = counts.in_files.min(other_files.unwrap_or(0));
    let counted_anew = [BY_START, NO_START, OTHER_FILE, KERNEL];
    profile.comments.retain(|comment| !counted_anew.iter().any(|key| comment.starts_with(key)));
    let Some(at) = profile.comments.iter().position(|comment| comment.starts_with(NAMED)) else { return };
    let pct = |part| percent(part, weighted.all).map(|share| format!("{share:.2}"));
    let mut told = Vec::new();
    told.extend(pct(weighted.named).map(|share| format!("{NAMED}{share}")));
    told.extend(pct(weighted.by_start).map(|share| format!("{BY_START}{share}")));
    let causes = [
        (NO_START, counts.in_files - in_other_files),
        (OTHER_FILE, in_other_files),
        (KERNEL, counts.in_kernel),
    ];
    let causes = causes.into_iter().filter(|(_, count)| *count > 0);
    told.extend(causes.map(|(key, count)| format!("{key}{count}")));
    profile.comments.splice(at..=at, told);
}

impl FrameCounts {
    fn of(profile: &Profile, column: usize) -> Self {
        let mut counts = Self::default();
        for sample in &profile.samples {
            let count = sample.values.get(column).and_then(|count| u64::try_from(*count).ok()).unwrap_or(0);
            for id in &sample.locations {
                if let Some(location) = profile.locations.get(id.0 as usize) {
                    counts.add(profile, location, count);
                }
            }
        }
        counts
    }

    fn add(&mut self, profile: &Profile, location: &Location, count: u64) {
        let functions = || {
            let numbers = location.lines.iter().map(|line| line.function.0 as usize);
            numbers.filter_map(|number| profile.functions.get(number))
        };
        let mapping = location.mapping.and_then(|MappingId(number)| profile.mappings.get(number as usize));
        // A line that states a fact stands for no code.
        let is_bare = |name: &str| functions().next().is_some_and(|function| function.name == name);
        let is_code = mapping.is_some()
            || location.address != 0
            || is_bare("[interpreted]")
            || functions().any(|function| !function.filename.is_empty());
        if !is_code {
            return;
        }
        add(&mut self.all, count);
        let is_nameless = location.lines.is_empty()
            || is_bare("[unknown]")
            || is_bare("[vsyscall]")
            || is_bare("[jit]")
            || is_bare("[interpreted]");
        if functions().any(|function| function.start_in_name().is_some()) {
            add(&mut self.by_start, count);
        } else if !is_nameless {
            add(&mut self.named, count);
        } else if mapping.is_some_and(|mapping| mapping.filename.starts_with('/')) {
            add(&mut self.in_files, count);
        } else if mapping.is_some_and(|mapping| mapping.filename == KERNEL_MAPPING) {
            add(&mut self.in_kernel, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Function, Line, Mapping, Svma, ValueType};

    use super::*;

    #[test]
    fn the_shares_of_a_profile_that_was_named_anew_replace_those_of_the_live_run() {
        let cpu = ValueType::new("cpu", "nanoseconds");
        let mut builder = Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 1);
        let mapping = builder.mapping(Mapping { filename: "/bin/app".into(), ..Mapping::default() });
        let kernel = builder.mapping(Mapping { filename: KERNEL_MAPPING.into(), ..Mapping::default() });
        let mut place = |mapping, address, function: Option<Function>| {
            let line =
                function.map(|function| Line { function: builder.function(function), line: 0, column: 0 });
            builder.location(Some(mapping), address, line.into_iter().collect())
        };
        let named = place(mapping, 1, Some(Function { name: "main".into(), ..Function::default() }));
        let by_start = place(mapping, 2, Some(Function::by_start("/bin/app", Svma(2))));
        let nothing = place(mapping, 3, None);
        let in_kernel = place(kernel, 4, None);
        let fact = builder.synthetic("[truncated: unreadable stack]");
        builder.add(Vec::new(), vec![by_start, named, fact], &[3, 1]);
        builder.add(Vec::new(), vec![nothing, named], &[1, 1]);
        builder.add(Vec::new(), vec![in_kernel, nothing], &[2, 1]);
        let comments = [
            "k=v",
            "perf-agent.symbolized_pct=1.00",
            "perf-agent.function_start_pct=99.00",
            "perf-agent.no_function_start=7",
            "perf-agent.nameless.other_file=2",
            "perf-agent.nameless.kernel=9",
            "perf-agent.nameless.jit=5",
            "perf-agent.frames=8",
        ];
        let mut profile = builder.finish(0, 0, comments.map(str::to_owned).to_vec());
        correct_name_shares(&mut profile);
        let expected = [
            "k=v",
            "perf-agent.symbolized_pct=33.33",
            "perf-agent.function_start_pct=25.00",
            "perf-agent.no_function_start=1",
            "perf-agent.nameless.other_file=2",
            "perf-agent.nameless.kernel=2",
            "perf-agent.nameless.jit=5",
            "perf-agent.frames=8",
        ];
        assert_eq!(profile.comments, expected);
        profile.comments = vec!["k=v".to_owned()];
        correct_name_shares(&mut profile);
        assert_eq!(profile.comments, ["k=v"], "a profile of another tool");
    }
}
