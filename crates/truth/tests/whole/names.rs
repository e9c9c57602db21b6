//! Names of what has ended, and of what has no names here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use profile::Profile;
use testkit::Process;
use truth::compile::{Build, Compiler};
use truth::frame::Frame;
use truth::programs::sources;
use truth::session::{Session, Subject};

use crate::Setup;

/// Children of some milliseconds each, those of `fork` in the program of their parent, those of `exec` in a program of their own.
#[test]
fn children_of_five_milliseconds_have_the_names_of_their_functions() {
    let Some(setup) = Setup::beside_others() else { return };
    let flags = "-O2 -fomit-frame-pointer";
    let program = Build::new("brief-children", Compiler::Gcc, "spawner.c", flags);
    let program = program.run(&sources(), &setup.out).unwrap();
    for way in ["fork", "exec"] {
        let options = ["--profile", "--duration", "4s", "--sample-rate", "499"];
        let mut session = Session::start(&setup.agent, &options, Subject::Machine).unwrap();
        session.until_attached().unwrap();
        let mut command = Command::new(&program);
        let command = command.args([way, "5"]).stdin(Stdio::null()).stdout(Stdio::null());
        let parent = Process::start(command).unwrap();
        let capture = session.finish().unwrap().on_cpu().unwrap();
        let own = parent.pid();
        drop(parent);
        let comms = ["brief-children", "exe"];
        let stacks = || capture.stacks.iter().filter(|stack| comms.contains(&&*stack.comm));
        let children: BTreeSet<u32> = stacks().map(|stack| stack.pid).filter(|pid| *pid != own).collect();
        let (mut frames, mut named, mut samples, mut on_names) = (0, 0, 0, 0);
        for stack in stacks() {
            // Where the kernel replaces a program, the address is of the one that was there.
            let is_named = |frame: &Frame| frame.name.is_some();
            frames += stack.count * stack.frames.len() as u64;
            named += stack.count * stack.frames.iter().filter(|frame| is_named(frame)).count() as u64;
            samples += stack.count;
            on_names += stack.count * u64::from(stack.frames.last().is_some_and(is_named));
        }
        let texts: Vec<String> = stacks().map(|stack| stack.display()).take(20).collect();
        assert!(children.len() > 20 && samples > 50, "{way}: {} children, {samples} samples", children.len());
        assert!(on_names * 100 >= samples * 98, "{way}: {on_names} of {samples} samples: {texts:#?}");
        assert!(named * 100 >= frames * 98, "{way}: {named} of {frames} frames: {texts:#?}");
        assert!(
            capture.sums(|stack| stack.has("short_life") && stack.has("main")).0 * 2 > samples,
            "{texts:#?}"
        );
    }
}

const PROGRAM: &str = "#include <algorithm>
#include <numeric>
#include <vector>
namespace shop {
template <class T> struct Cart {
  std::vector<T> items;
  void add(T item) { items.push_back(item); }
  __attribute__((noinline)) T sum() const { return std::accumulate(items.begin(), items.end(), T{}); }
  __attribute__((noinline)) void sort() { std::sort(items.begin(), items.end()); }
};
}
volatile long sink;
int main() {
  for (unsigned long seed = 1;;) {
    shop::Cart<long> cart;
    for (int i = 0; i < 4000; i++) cart.add(long((seed = seed * 6364136223846793005ul + 1) >> 40));
    cart.sort();
    sink = cart.sum();
  }
}
";

/// The program stripped in `here`, with a link to a debug file that is in `kept`. `None`: a tool is missing.
fn build(folder: &Path) -> Option<()> {
    fs::write(folder.join("app.cc"), PROGRAM).unwrap();
    for name in ["here", "kept"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    for command in [
        "g++ -g -O2 -fno-plt -Wl,--build-id -o whole app.cc",
        "objcopy --only-keep-debug whole kept/app.debug",
        "strip -o here/app whole",
        "objcopy --add-gnu-debuglink=kept/app.debug here/app",
    ] {
        testkit::run_tool(folder, command.split(' '))?;
    }
    Some(())
}

/// All that is told of one function at a place.
type Told = (String, String, String, u32, u32, u32);

/// What a profile tells of each place in files.
fn told(profile: &Profile) -> BTreeMap<(String, u64), Vec<Told>> {
    let of = |location: &profile::Location| {
        let mapping = &profile.mappings[location.mapping?.0 as usize];
        let lines = location.lines.iter().map(|line| {
            let function = profile.functions[line.function.0 as usize].clone();
            let names = (function.name, function.system_name, function.filename);
            (names.0, names.1, names.2, function.start_line, line.line, line.column)
        });
        Some(((mapping.filename.clone(), location.address), lines.collect()))
    };
    profile.locations.iter().filter_map(of).collect()
}

fn read(path: &Path) -> Profile {
    formats::pprof::decode(&fs::read(path).unwrap()).unwrap()
}

/// Names a profile with these words.
fn symbolize(agent: &Path, from: &Path, to: &Path, words: &[&str]) -> Profile {
    let output =
        Command::new(agent).arg("symbolize").arg(from).arg("-o").arg(to).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read(to)
}

#[test]
fn a_profile_without_names_gets_those_of_a_live_run_from_a_directory_or_from_debuginfod_alone() {
    let Some(setup) = Setup::beside_others() else { return };
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let path = |name: &str| folder.join(name);
    let debuginfod = testkit::need!("debuginfod");
    if build(folder).is_none() {
        return;
    }
    let app = path("here/app");
    let capture = || {
        let mut command = Command::new(&app);
        let target = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
        let options = ["--profile", "--duration", "2s", "--sample-rate", "999"];
        let session = Session::start(&setup.agent, &options, Subject::Process(target.pid())).unwrap();
        fs::read(&session.finish().unwrap().on_cpu().unwrap().file).unwrap()
    };
    fs::copy(path("kept/app.debug"), path("here/app.debug")).unwrap();
    let live = told(&formats::pprof::decode(&capture()).unwrap());
    fs::remove_file(path("here/app.debug")).unwrap();
    fs::write(path("hidden.pb.gz"), capture()).unwrap();
    let of_app = |told: BTreeMap<(String, u64), Vec<Told>>| -> BTreeMap<u64, Vec<Told>> {
        let own = told.into_iter().filter(|((file, _), _)| Path::new(file) == app);
        own.map(|((_, address), lines)| (address, lines)).collect()
    };
    let (live, hidden) = (of_app(live), of_app(told(&read(&path("hidden.pb.gz")))));
    let is_start = |lines: &Vec<Told>| lines.iter().all(|line| line.0.starts_with("app!fn_0x"));
    assert!(hidden.len() > 20 && hidden.values().all(is_start), "{hidden:#?}");

    let kept = path("kept").display().to_string();
    let named =
        symbolize(&setup.agent, &path("hidden.pb.gz"), &path("named.pb.gz"), &["--symbol-dir", &kept]);
    let found = of_app(told(&named));
    let both: Vec<_> = found.iter().filter_map(|(at, lines)| Some((lines, live.get(at)?))).collect();
    assert!(both.len() > 20, "{} places of {} and {}", both.len(), found.len(), live.len());
    for (found, live) in &both {
        assert_eq!(found, live);
    }
    let inlined = found.values().filter(|lines| lines.len() > 1).count();
    assert!(inlined > 10 && found.values().flatten().any(|line| line.4 > 0), "{found:#?}");

    // A machine without the program.
    fs::remove_file(&app).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new(debuginfod);
    server.args(["-F", "-t", "0", "-c", "2", "-p", &port.to_string(), "-d"]).arg(path("index.sqlite"));
    server.arg(path("kept")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Process::start(&mut server).unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let mut tries = 0;
    let mut fetched = Profile::default();
    testkit::until("the server has read its files", || {
        tries += 1;
        // What is missing is remembered.
        let cache = path(&format!("cache-{tries}")).display().to_string();
        let words = ["--debuginfod-url", &url, "--symbol-cache-dir", &cache];
        fetched = symbolize(&setup.agent, &path("hidden.pb.gz"), &path("fetched.pb.gz"), &words);
        !of_app(told(&fetched)).values().all(is_start)
    });
    assert_eq!(fetched.functions, named.functions);
    assert_eq!(fetched.locations, named.locations);
    assert_eq!(fetched.samples, named.samples);
}
