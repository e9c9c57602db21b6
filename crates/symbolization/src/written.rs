//! Names for a profile that was written to a file, by the addresses and build-ids in it.
//!
//! Its locations become frames of a recording, which is named as every recording is: so the names are those of a live run that had the same
//! files. Named are places in files that have no name, or only the start of their function, and kernel addresses without a name. All others
//! keep what they have.

use std::collections::HashMap;

use profile::{Builder, KERNEL_MAPPING, Line, Location, LocationId, Mapping, MappingId, Moment, Profile};
use recording::{
    CodeMapping, CodeMappingId, FileIdentity, Frame, FrameId, KernelImage, KernelNaming, Module, ModuleId,
    ModuleKind, Names, Recording, kernel_comments,
};

use crate::offline::Symbolizer;

/// A profile with new names.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamedProfile {
    /// The profile.
    pub profile: Profile,
    /// Locations that got a name.
    pub named: u64,
    /// Locations in files and in the kernel that have none still.
    pub unnamed: u64,
    /// Of these, locations in the kernel.
    pub unnamed_in_kernel: u64,
    /// Locations that were not looked up, because symbolization was abandoned.
    pub abandoned: u64,
    /// What else is to be said about the names.
    pub told: Vec<String>,
}

/// Names the places of a profile that have no name. Files are found as for recordings, and must have the build-id of their mapping.
#[must_use]
pub fn symbolize_profile(symbolizer: &mut Symbolizer, profile: Profile) -> NamedProfile {
    symbolize_profile_of(symbolizer, profile, &[])
}

/// As [`symbolize_profile`]. `identities`: by number of the mapping, the size and the time of modification that prove that a file without a
/// build-id is the right one. `None` among them: the file was not found when the profile was made, so that its addresses are none of it.
#[must_use]
pub fn symbolize_profile_of(
    symbolizer: &mut Symbolizer,
    profile: Profile,
    identities: &[Option<FileIdentity>],
) -> NamedProfile {
    let (mut recording, frames) = recording_of(&profile);
    for (module, identity) in recording.modules.iter_mut().zip(identities) {
        match identity {
            Some(identity) => module.identity = *identity,
            None => module.kind = ModuleKind::NotElf,
        }
    }
    let symbolized = symbolizer.symbolize(recording);
    let names = &symbolized.names;
    let nameless = || frames.values().filter(|frame| !names.has(**frame));
    let in_kernel =
        |frame: &&FrameId| matches!(symbolized.recording.frame(**frame), Some(Frame::Kernel { .. }));
    let (unnamed, unnamed_in_kernel) =
        (nameless().count() as u64, nameless().filter(in_kernel).count() as u64);
    let mut told = names.outcome.shortfalls.clone();
    told.extend(match &names.outcome.kernel {
        KernelNaming::NotAsked | KernelNaming::Known => None,
        KernelNaming::Hidden => {
            Some("kernel frames stay addresses: the kernel hides its addresses here".to_owned())
        }
        KernelNaming::Unreadable(reason) => Some(format!("kernel frames stay addresses: {reason}")),
    });
    NamedProfile {
        named: frames.len() as u64 - unnamed,
        unnamed,
        unnamed_in_kernel,
        abandoned: names.outcome.abandoned,
        told,
        profile: with_names(profile, &frames, names),
    }
}

/// Whether a location has no name, or none but the start of its function.
fn is_nameless(profile: &Profile, location: &Location) -> bool {
    location.lines.iter().all(|line| {
        let function = profile.functions.get(line.function.0 as usize);
        function.is_none_or(|function| function.name.is_empty() || function.start_in_name().is_some())
    })
}

/// The places to be named as frames of a recording, by location.
fn recording_of(profile: &Profile) -> (Recording, HashMap<LocationId, FrameId>) {
    let mut recording = Recording { kernel: kernel_of(profile), ..Recording::default() };
    for mapping in &profile.mappings {
        let module = Module {
            path: mapping.filename.clone(),
            build_id: mapping.build_id.clone(),
            kind: if is_file(mapping) { ModuleKind::Elf } else { ModuleKind::NotElf },
            identity: FileIdentity::default(),
        };
        let number = ModuleId(u32::try_from(recording.modules.len()).unwrap_or(u32::MAX));
        recording.modules.push(module);
        let Mapping { start, limit, file_offset, .. } = *mapping;
        recording.mappings.push(CodeMapping { module: number, start, limit, file_offset });
    }
    let mut frames = HashMap::new();
    for (position, location) in (0u32..).zip(&profile.locations) {
        let Some(MappingId(mapping)) = location.mapping else { continue };
        let Some(of) = profile.mappings.get(mapping as usize) else { continue };
        if !is_nameless(profile, location) {
            continue;
        }
        // A profile has the address by which a name is looked up.
        let frame = if is_file(of) {
            let (mapping, svma) = (CodeMappingId(mapping), profile::Svma(location.address));
            Frame::Native { mapping, svma, exact: true }
        } else if of.filename == KERNEL_MAPPING && of.build_id == recording.kernel.build_id {
            Frame::Kernel { address: location.address, exact: true }
        } else {
            continue;
        };
        let number = FrameId(u32::try_from(recording.frames.len()).unwrap_or(u32::MAX));
        recording.frames.push(frame);
        frames.insert(LocationId(position), number);
    }
    (recording, frames)
}

/// The kernel of a profile. Of a profile with several, the first one.
fn kernel_of(profile: &Profile) -> KernelImage {
    let mapping = profile.mappings.iter().find(|mapping| mapping.filename == KERNEL_MAPPING);
    kernel_comments::read(&profile.comments, mapping.and_then(|mapping| mapping.build_id.clone()))
}

/// Whether a mapping is of a file, of which symbols can be found.
fn is_file(mapping: &Mapping) -> bool {
    mapping.filename.starts_with('/')
}

/// The same profile with the names that were found.
fn with_names(profile: Profile, frames: &HashMap<LocationId, FrameId>, names: &Names) -> Profile {
    let mut builder = Builder::new(&profile.sample_types, profile.period_type.clone(), profile.period);
    let mappings: Vec<MappingId> =
        profile.mappings.iter().map(|mapping| builder.mapping(mapping.clone())).collect();
    let mut locations = Vec::with_capacity(profile.locations.len());
    for (position, location) in (0u32..).zip(&profile.locations) {
        let found = frames.get(&LocationId(position)).filter(|frame| names.has(**frame));
        let lines = match found {
            Some(frame) => names
                .of(*frame)
                .map(|line| Line {
                    line: line.line,
                    column: line.column,
                    function: builder.function(line.into()),
                })
                .collect(),
            None => kept_lines(&profile, location, &mut builder),
        };
        let mapping = location.mapping.and_then(|MappingId(mapping)| mappings.get(mapping as usize).copied());
        locations.push(builder.location(mapping, location.address, lines));
    }
    let Profile {
        sample_types, default_sample_type, time_ns, duration_ns, comments, samples, moments, ..
    } = profile;
    let mut numbers = Vec::with_capacity(samples.len());
    for sample in samples {
        let has_all = sample.values.len() == sample_types.len();
        let stack = sample.locations.iter().filter_map(|id| locations.get(id.0 as usize).copied()).collect();
        numbers.push(has_all.then(|| builder.add(sample.labels, stack, &sample.values)));
    }
    for moment in moments {
        if let Some(Some(sample)) = numbers.get(moment.sample as usize).copied() {
            builder.add_moment(Moment { sample, ..moment });
        }
    }
    let named = builder.finish(time_ns, duration_ns, comments);
    Profile { default_sample_type, ..named }
}

fn kept_lines(profile: &Profile, location: &Location, builder: &mut Builder) -> Vec<Line> {
    let kept = |line: &Line| {
        let function = profile.functions.get(line.function.0 as usize)?;
        Some(Line { function: builder.function(function.clone()), ..*line })
    };
    location.lines.iter().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use profile::{BuildId, Function, Label, Svma, ValueType};

    use crate::options::Options;
    use crate::path_file::build_id_of;

    use super::*;

    const PROGRAM: &str = "#include <stdlib.h>\n\
        static __attribute__((noinline)) int secret(int x) { return x * 7 + rand(); }\n\
        static inline int inlined(int x) { return secret(x) + secret(x + 1); }\n\
        int main(int argc, char **argv) { return inlined(argc) + inlined(argc * 2); }\n";

    /// A program with debug information, its build-id, and addresses in it. `None`: no compiler is installed.
    fn program(folder: &Path) -> Option<(BuildId, Vec<u64>)> {
        std::fs::write(folder.join("app.c"), PROGRAM).unwrap();
        run(folder, "gcc -g -O2 -Wl,--build-id -o app app.c")?;
        let symbols = run(folder, "nm app")?;
        let address = |name: &str| {
            let line = symbols.lines().find(|line| line.ends_with(name)).unwrap();
            u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
        };
        let (main, secret) = (address(" T main"), address(" t secret"));
        let addresses = (main..main + 24).chain(secret..secret + 8).chain([0, 1 << 40]).collect();
        Some((build_id_of(&std::fs::File::open(folder.join("app")).unwrap()).unwrap(), addresses))
    }

    fn run(folder: &Path, command: &str) -> Option<String> {
        testkit::run_tool(folder, command.split(' '))
    }

    /// A profile of one stack, as a capture writes it that knows nothing but the starts of some functions.
    fn profile_of(path: &Path, build_id: &BuildId, addresses: &[u64]) -> Profile {
        let samples = ValueType::new("samples", "count");
        let mut builder = Builder::new(&[samples.clone(), ValueType::new("cpu", "nanoseconds")], samples, 1);
        let filename = path.to_str().unwrap().to_owned();
        let mapping = Mapping {
            start: Svma(0),
            limit: Svma(0x10000),
            filename,
            build_id: Some(build_id.clone()),
            ..Mapping::default()
        };
        let by_start = builder.function(Function::by_start(&mapping.filename, Svma(0x1040)));
        let mapping = builder.mapping(mapping);
        let lines = |address: u64| {
            (address.is_multiple_of(2)).then_some(Line { function: by_start, line: 0, column: 0 })
        };
        let stack: Vec<_> = addresses
            .iter()
            .map(|address| builder.location(Some(mapping), *address, lines(*address).into_iter().collect()))
            .collect();
        let fact = builder.synthetic("[truncated: unreadable stack]");
        let sample =
            builder.add(vec![Label::num("pid", 7)], stack.into_iter().chain([fact]).collect(), &[3, 30]);
        builder.add_moment(Moment { at_ns: 5, lasted_ns: 3, sample });
        let mut profile = builder.finish(1, 2, vec!["k=v".to_owned()]);
        profile.default_sample_type = "samples".to_owned();
        profile
    }

    type Told = Vec<(Function, u32, u32)>;

    fn lines_of(profile: &Profile) -> Vec<Told> {
        let line =
            |line: &Line| (profile.functions[line.function.0 as usize].clone(), line.line, line.column);
        let stack = profile.samples[0].locations.iter().map(|id| &profile.locations[id.0 as usize]);
        stack.map(|location| location.lines.iter().map(line).collect()).collect()
    }

    /// The lines that a live run has, which knows the program with its symbols.
    fn live(path: &Path, build_id: &BuildId, addresses: &[u64]) -> Vec<Told> {
        let (recording, frames) = recording_of(&profile_of(path, build_id, addresses));
        let named = Symbolizer::new(Options::default()).symbolize(recording);
        let line = |line: recording::NameLine<'_>| (line.into(), line.line, line.column);
        let lines_of = |place| named.names.of(frames[&LocationId(place)]).map(line).collect();
        (0..addresses.len() as u32).map(lines_of).collect()
    }

    fn options(symbol_dirs: &[&Path]) -> Options {
        let symbol_dirs: Vec<_> = symbol_dirs.iter().map(|dir| dir.to_path_buf()).collect();
        let mut options = Options { symbol_dirs: symbol_dirs.clone(), ..Options::default() };
        options.symbols.debug_dirs.clone_from(&symbol_dirs);
        options.symbols.named_dirs = symbol_dirs;
        options
    }

    #[test]
    fn a_profile_that_is_named_later_has_the_names_of_a_live_run() {
        let folder = tempfile::tempdir().unwrap();
        let Some((build_id, addresses)) = program(folder.path()) else { return };
        let expected = live(&folder.path().join("app"), &build_id, &addresses);
        let names: Vec<_> = expected.iter().flatten().map(|(function, ..)| function.name.as_str()).collect();
        assert!(
            names.contains(&"secret") && names.contains(&"inlined") && names.contains(&"main"),
            "{names:?}"
        );

        let (debug, hex) = (folder.path().join("debug"), build_id.to_string());
        let by_id = debug.join(".build-id").join(&hex[..2]);
        std::fs::create_dir_all(&by_id).unwrap();
        run(folder.path(), "objcopy --only-keep-debug app app.debug").unwrap();
        let by_name = folder.path().join("named");
        std::fs::create_dir(&by_name).unwrap();
        std::fs::copy(folder.path().join("app.debug"), by_name.join("app.debug")).unwrap();
        std::fs::rename(folder.path().join("app.debug"), by_id.join(format!("{}.debug", &hex[2..]))).unwrap();
        std::fs::create_dir(folder.path().join("bare")).unwrap();
        run(folder.path(), "strip -o bare/app app").unwrap();
        let missing = Path::new("/nonexistent/app");
        let (stripped, whole) = (folder.path().join("bare/app"), folder.path());
        let (debug, by_name) = (&*debug, &*by_name);
        // The stripped program with a directory of debug files; nothing but the debug file; nothing but the program, elsewhere; the same beside the stripped one.
        for (path, dir) in [
            (&*stripped, debug),
            (&*stripped, by_name),
            (missing, debug),
            (missing, by_name),
            (missing, whole),
            (&*stripped, whole),
        ] {
            let profile = profile_of(path, &build_id, &addresses);
            let mut symbolizer = Symbolizer::new(options(&[dir]));
            let named = symbolize_profile(&mut symbolizer, profile.clone());
            let found = lines_of(&named.profile);
            assert_eq!(found[..addresses.len() - 2], expected[..addresses.len() - 2], "{path:?} {dir:?}");
            assert_eq!((named.named, named.unnamed, named.abandoned), (addresses.len() as u64 - 2, 2, 0));
            // What is not known keeps what it had, and so does everything else.
            assert_eq!(found[addresses.len() - 2..], lines_of(&profile)[addresses.len() - 2..]);
            let Profile { functions: _, locations: _, samples: _, ref mappings, ref comments, .. } =
                named.profile;
            assert_eq!((mappings, comments), (&profile.mappings, &profile.comments));
            assert_eq!(named.profile.default_sample_type, "samples");
            assert_eq!(named.profile.samples[0].values, [3, 30]);
            assert_eq!(named.profile.moments, [Moment { at_ns: 5, lasted_ns: 3, sample: 0 }]);
            let again = symbolize_profile(&mut symbolizer, named.profile.clone());
            assert_eq!((again.named, &again.profile), (0, &named.profile));
        }
        let other: BuildId = "0102030405".parse().unwrap();
        let named = symbolize_profile(
            &mut Symbolizer::new(options(&[whole])),
            profile_of(missing, &other, &addresses),
        );
        assert_eq!(named.named, 0, "a file with another build-id is not believed");
    }

    /// Functions of the kernel that runs here: address and name. `None`: it hides its addresses.
    fn kernel_functions(list: &str) -> Option<Vec<(u64, String)>> {
        let mut symbols: std::collections::BTreeMap<u64, Vec<&str>> = std::collections::BTreeMap::new();
        for line in list.lines().filter(|line| !line.contains('[')) {
            let mut words = line.split(' ');
            let address = words.next().and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
            if let (Some("t" | "T"), Some(name)) = (words.next(), words.next()) {
                symbols.entry(address).or_default().push(name);
            }
        }
        let unique = symbols.into_iter().filter(|(_, names)| names.len() == 1);
        let all: Vec<_> = unique.map(|(address, names)| (address, names[0].to_owned())).collect();
        (all.len() > 1000).then_some(all)
    }

    /// A profile of one stack in a kernel that was loaded `shift` farther than the one here.
    fn kernel_profile(addresses: &[u64], shift: u64, told: &[String]) -> Profile {
        let samples = ValueType::new("samples", "count");
        let mut builder = Builder::new(std::slice::from_ref(&samples), samples.clone(), 1);
        let mapping = builder.mapping(Mapping {
            limit: Svma(u64::MAX),
            filename: KERNEL_MAPPING.to_owned(),
            build_id: Some("01020304".parse().unwrap()),
            ..Mapping::default()
        });
        let place = |address: &u64| builder.location(Some(mapping), address + shift, Vec::new());
        let stack = addresses.iter().map(place).collect();
        builder.add(Vec::new(), stack, &[1]);
        builder.finish(1, 2, told.to_vec())
    }

    #[test]
    fn kernel_addresses_of_another_start_are_named_from_a_list_of_this_kernel() {
        let list = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let Some(functions) = kernel_functions(&list) else {
            testkit::skipped(format_args!("the kernel hides its addresses from this test"));
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("System.map");
        // As the build of a kernel writes it: without modules.
        let own: String = list.lines().filter(|line| !line.contains('[')).flat_map(|l| [l, "\n"]).collect();
        std::fs::write(&map, own).unwrap();
        let mark = |name: &str| {
            let line = list.lines().find(|line| line.ends_with(name)).unwrap();
            u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
        };
        let (stext, etext) = (mark(" T _stext"), mark(" T _etext"));
        let in_text = functions.iter().filter(|(address, _)| (stext..etext).contains(address));
        let some: Vec<_> = in_text.step_by(97).collect();
        let addresses: Vec<u64> = some.iter().map(|(address, _)| *address).collect();
        let expected: Vec<&str> = some.iter().map(|(_, name)| name.as_str()).collect();
        let mut options = Options::default();
        options.kernel_files.system_map = Some(map);
        let name = |shift: u64, told: &[String]| {
            let profile = kernel_profile(&addresses, shift, told);
            let named = symbolize_profile(&mut Symbolizer::new(options.clone()), profile);
            let names: Vec<String> = lines_of(&named.profile)
                .into_iter()
                .map(|lines| lines.first().map_or(String::new(), |(function, ..)| function.name.clone()))
                .collect();
            (names, named.unnamed_in_kernel, named.told)
        };
        let shift = 0x1c00_0000;
        let loaded = format!("perf-agent.kernel.stext={:#x}", stext + shift);
        assert_eq!(name(shift, &[loaded]), (expected.iter().map(|&n| n.to_owned()).collect(), 0, Vec::new()));
        // Where the kernel was is not known, and it was not where the list has it.
        let (names, unnamed, told) = name(shift, &[]);
        assert!(names.iter().all(String::is_empty), "nothing is guessed");
        assert_eq!(unnamed, addresses.len() as u64);
        assert!(told[0].contains("does not tell where its kernel was loaded"), "{told:?}");
        let (names, unnamed, told) = name(0, &[]);
        assert_eq!((names.len(), unnamed), (expected.len(), 0));
        assert!(names == expected && told[0].contains("as if it had been where"), "{told:?}");
    }

    #[test]
    fn references_to_nothing_do_no_harm() {
        let location = Location {
            mapping: Some(MappingId(9)),
            address: 1,
            lines: vec![Line { function: profile::FunctionId(9), line: 1, column: 1 }],
        };
        let sample = profile::Sample {
            locations: vec![LocationId(0), LocationId(9)],
            values: vec![1],
            labels: Vec::new(),
        };
        let profile = Profile { locations: vec![location], samples: vec![sample], ..Profile::default() };
        let named = symbolize_profile(&mut Symbolizer::new(Options::default()), profile);
        assert_eq!((named.named, named.profile.samples.len()), (0, 0));
    }
}
