//! Where goroutines of a program begin to wait, and where they are made ready again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use events::monitor::FunctionPlace;
use kernel::GoProgram;
use probes::{Binary, Location};

/// Where probes go, by program.
pub(super) type Sites = BTreeMap<GoProgram, Vec<FunctionPlace>>;

/// The functions that park the current goroutine, and make one ready.
const PARK: &str = "runtime.gopark";
const READY: &str = "runtime.ready";
/// Where it is not inlined, it stands between.
const PARK_AND_UNLOCK: &str = "runtime.goparkunlock";

/// The functions that call `PARK` for a lock or a channel, by what they wait for. Waits for the network, timers and the garbage collector are
/// not among them.
const WAITS: [(&str, GoProgram); 7] = [
    // Mutexes, read-write locks, wait groups.
    ("runtime.semacquire1", GoProgram::ParkForFirst),
    // Conditions. Older versions call it by the second name.
    ("sync.runtime_notifyListWait", GoProgram::ParkForFirst),
    ("runtime.notifyListWait", GoProgram::ParkForFirst),
    ("runtime.chansend", GoProgram::ParkForFirst),
    ("runtime.chanrecv", GoProgram::ParkForFirst),
    ("runtime.selectgo", GoProgram::ParkForAny),
    ("runtime.block", GoProgram::ParkForAny),
];

/// The places in a program, if Go's compiler made it.
pub(super) enum Found {
    /// It did not.
    NotGo,
    /// It did, and they are these.
    Sites(Sites),
    /// It did, and the runtime is not laid out as any version that is known.
    Unknown,
}

/// Looks into a program.
pub(super) fn of_file(path: &Path) -> Found {
    let Ok(binary) = Binary::open(path) else { return Found::NotGo };
    if !binary.is_go() {
        return Found::NotGo;
    }
    let names: Vec<&str> =
        WAITS.iter().map(|(name, _)| *name).chain([PARK, READY, PARK_AND_UNLOCK]).collect();
    let functions = binary.go_functions(&names);
    let named = |name: &str| {
        let number = names.iter().position(|known| *known == name)?;
        functions.iter().find(|(of, _)| *of == number).map(|(_, location)| location)
    };
    let (Some(park), Some(ready)) = (named(PARK), named(READY)) else { return Found::Unknown };
    let mut sites = Sites::new();
    let place = |offset: u64| FunctionPlace { path: path.to_owned(), offset, counter: None };
    for (name, program) in WAITS {
        let calls = named(name).map(|of| calls(&binary, of, park, named(PARK_AND_UNLOCK)));
        sites.entry(program).or_default().extend(calls.into_iter().flatten().map(place));
    }
    sites.retain(|_, places| !places.is_empty());
    if !sites.contains_key(&GoProgram::ParkForFirst) {
        return Found::Unknown;
    }
    sites.insert(GoProgram::Ready, vec![place(binary.place(ready).offset)]);
    Found::Sites(sites)
}

/// Where a function parks its goroutine.
fn calls(binary: &Binary, of: &Location, park: &Location, unlock: Option<&Location>) -> Vec<u64> {
    let targets = std::iter::once(park).chain(unlock);
    targets.flat_map(|callee| binary.calls(of, callee)).map(|placement| placement.offset).collect()
}

/// The programs of processes, and one that will run, without those that are there twice.
pub(super) fn candidates(pids: &[u32], program: Option<&PathBuf>) -> Vec<PathBuf> {
    let mut known = std::collections::BTreeSet::new();
    let of_processes = pids.iter().map(|pid| PathBuf::from(format!("/proc/{pid}/exe")));
    let paths = program.cloned().into_iter().chain(of_processes);
    paths
        .filter(|path| rustix::fs::stat(path).is_ok_and(|stat| known.insert((stat.st_dev, stat.st_ino))))
        .collect()
}
