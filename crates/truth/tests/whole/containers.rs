//! Containers: namespaces and control groups of their own, and files that only they see.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use profile::{LabelValue, Profile, Sample};
use testkit::{ControlGroup, Process};
use truth::compile::{Build, Compiler};
use truth::programs::sources;
use truth::session::{Session, Subject};
use truth::target::cpu_ns;

use crate::Setup;

const IDS: [&str; 2] = [
    "abe10000000000000000000000000000000000000000000000000000000000ab",
    "ca100000000000000000000000000000000000000000000000000000000000ca",
];
const POD: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

/// The options of `unshare` for a container.
const NAMESPACES: [&str; 6] = ["--mount", "--pid", "--cgroup", "--fork", "--kill-child", "--mount-proc"];

/// CPU time of the processes in a control group.
fn cpu_ns_of(group: &ControlGroup) -> u64 {
    group.processes().into_iter().filter_map(|pid| cpu_ns(pid).ok()).sum()
}

/// The hierarchies of version 2 and of systemd in version 1, as far as they are mounted.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let find = |is_it: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let [_, at, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
            is_it(kind, options).then(|| PathBuf::from(at))
        })
    };
    let v2 = find(&|kind, _| kind == "cgroup2");
    let systemd = find(&|kind, options| kind == "cgroup" && options.contains("name=systemd"));
    v2.into_iter().chain(systemd).collect()
}

/// A program that only this container has at `path`.
fn container(group: &ControlGroup, program: &Path, path: &Path) -> Process {
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec unshare {} sh -c 'mount --bind {} {path} && exec {path}'",
        group.path().display(),
        NAMESPACES.join(" "),
        program.display(),
        path = path.display(),
    );
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
    Process::start(command).unwrap()
}

fn text<'s>(sample: &'s Sample, key: &str) -> &'s str {
    let label = sample.labels.iter().find(|label| label.key == key);
    label.map_or("", |label| if let LabelValue::Str(text) = &label.value { text } else { "" })
}

/// The names of the functions of a sample that lie in the file at `path`, and whether all of them are of one mapping.
fn functions<'p>(profile: &'p Profile, sample: &Sample, path: &Path) -> (Vec<&'p str>, Option<u32>) {
    let (mut names, mut mappings) = (Vec::new(), Vec::new());
    for location in sample.locations.iter().map(|id| &profile.locations[id.0 as usize]) {
        let Some(mapping) = location.mapping else { continue };
        if Path::new(&profile.mappings[mapping.0 as usize].filename) == path {
            mappings.push(mapping.0);
            names
                .extend(location.lines.iter().map(|line| &*profile.functions[line.function.0 as usize].name));
        }
    }
    mappings.dedup();
    (names, <[u32; 1]>::try_from(mappings).ok().map(|[one]| one))
}

#[test]
fn different_programs_at_one_path_of_two_containers_keep_their_names_and_labels() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    if testkit::unshare(&NAMESPACES).is_none() {
        return;
    }
    let names = ["box_abel", "box_cain"];
    let build = |name: &str, room: u32| {
        let flags = format!("-O2 -fomit-frame-pointer -Wl,--build-id -DNAME={name} -DROOM={room}");
        Build::new(name, Compiler::Gcc, "twin.c", &flags).run(&sources(), &setup.out).unwrap()
    };
    let programs = [build(names[0], 1024), build(names[1], 4096)];
    let hierarchies = hierarchies();
    let (Some(first), Some(last)) = (hierarchies.first(), hierarchies.last()) else {
        testkit::skip!("no control groups");
    };
    let groups = [
        ControlGroup::make(first, &format!("docker/{}", IDS[0])),
        ControlGroup::make(last, &format!("kubepods/burstable/pod{POD}/{}", IDS[1])),
    ];
    let [Some(one), Some(two)] = groups else {
        testkit::skip!("no control group can be made");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app");
    fs::write(&path, "").unwrap();
    let options = ["--profile", "--duration", "1h", "--sample-rate", "499"];
    let mut session = Session::start(&setup.agent, &options, Subject::Machine).unwrap();
    session.until_attached().unwrap();
    let containers = [container(&one, &programs[0], &path), container(&two, &programs[1], &path)];
    testkit::until("half a second of CPU time in each container", || {
        [&one, &two].iter().all(|group| cpu_ns_of(group) > 500_000_000)
    });
    session.stop().unwrap();
    let finished = session.finish().unwrap();
    drop(containers);
    let capture = finished.on_cpu().unwrap();
    let profile = formats::pprof::decode(&fs::read(&capture.file).unwrap()).unwrap();
    let mut build_ids = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let (mut all, mut whole) = (0, 0);
        for sample in &profile.samples {
            let (functions, mapping) = functions(&profile, sample, &path);
            if !functions.contains(name) {
                continue;
            }
            let count = sample.values[0];
            assert!(!functions.contains(&names[1 - number]), "{functions:?}");
            assert_eq!(text(sample, "container_id"), IDS[number], "{:?}", sample.labels);
            assert_eq!(text(sample, "pod_uid"), ["", POD][number], "{:?}", sample.labels);
            assert_eq!(text(sample, "comm"), "app");
            build_ids.push((number, mapping.and_then(|of| profile.mappings[of as usize].build_id.clone())));
            all += count;
            whole += if functions.contains(&"main") && functions.contains(&"spin") { count } else { 0 };
        }
        assert!(all > 50, "{name}: {all} samples: {}", finished.messages);
        // A few are in the function itself, or early.
        assert!(whole * 100 >= all * 90, "{name}: {whole} of {all}");
    }
    build_ids.sort();
    build_ids.dedup();
    assert!(
        build_ids.len() == 2 && build_ids[0].1.is_some() && build_ids[0].1 != build_ids[1].1,
        "{build_ids:?}"
    );
    // What only these containers see is no name of theirs: the path is shown as it is there.
    let foreign = profile.samples.iter().filter(|sample| {
        text(sample, "container_id") == IDS[0] && functions(&profile, sample, &path).0.contains(&names[1])
    });
    assert_eq!(foreign.count(), 0);
}
