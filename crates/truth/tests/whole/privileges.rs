//! perf-agent for users who are not root, by file capabilities.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use profile::Mapping;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::{Process, skipped};
use truth::profiler::read_pprof;
use truth::programs::{all, sources};
use truth::roots::Roots;
use truth::target::Target;
use truth::verdict::Verdict;

use crate::Setup;

const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore,cap_ipc_lock+ep";

/// Where the agent lies with file capabilities, to be run by another user.
struct Capable {
    folder: TempDir,
    setpriv: PathBuf,
}

impl Capable {
    /// Says why not.
    fn new(setup: &Setup, capabilities: &str) -> Option<Self> {
        let (setcap, setpriv) = (testkit::needed("setcap")?, testkit::needed("setpriv")?);
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let agent = folder.path().join("perf-agent");
        fs::copy(&setup.agent, &agent).unwrap();
        let set = Command::new(setcap).arg(capabilities).arg(&agent).output().unwrap();
        if !set.status.success() {
            skipped(format_args!("setcap failed: {}", String::from_utf8_lossy(&set.stderr)));
            return None;
        }
        Some(Self { folder, setpriv })
    }

    fn profile(&self) -> PathBuf {
        self.folder.path().join("p.pb.gz")
    }

    /// Profiles a process until it had half a second of CPU time. The exit status and the messages.
    fn run(&self, target: &Target) -> (ExitStatus, String) {
        let mut command = Command::new(&self.setpriv);
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
            .arg(self.folder.path().join("perf-agent"))
            .args([
                "--profile",
                "--pid",
                &target.pid().to_string(),
                "--duration",
                "1h",
                "--sample-rate",
                "499",
            ])
            .arg("--profile-output")
            .arg(self.profile())
            .env("HOME", self.folder.path())
            .env_remove("XDG_CACHE_HOME")
            .current_dir(self.folder.path());
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut agent = Process::start(command).unwrap();
        let pid = agent.pid();
        let mut until = |what: &str, holds: &dyn Fn() -> bool| {
            testkit::until(what, || holds() || agent.try_wait().unwrap().is_some());
        };
        until("it samples", &|| testkit::has_sampler(pid));
        let before = target.cpu_ns().unwrap();
        until("the target has run", &|| target.cpu_ns().unwrap() > before + 500_000_000);
        let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        // It may have ended with an error.
        let _ = kill_process(number, Signal::TERM);
        let mut messages = String::new();
        agent.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        (agent.wait().unwrap(), messages)
    }
}

#[test]
fn what_may_not_be_read_is_counted_and_keeps_its_place() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let Some(capable) = Capable::new(&setup, "cap_bpf,cap_perfmon+ep") else { return };
    let program = all().into_iter().find(|p| p.name == "recurse-gcc-O2-dynamic-36").unwrap();
    let built = tempfile::tempdir().unwrap();
    program.build(&sources(), built.path()).unwrap();
    // Nobody but root reads the program.
    fs::set_permissions(built.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let target = Target::start(&program, built.path()).unwrap();
    let (status, text) = capable.run(&target);
    if status.code() == Some(1) && text.contains("not permitted to inspect it") {
        // Before 6.15 these capabilities do not show the mappings of others' processes.
        assert!(text.contains("cap_sys_ptrace"), "{text}");
        return;
    }
    assert!(status.success(), "{text}");
    assert!(
        text.contains(
            "permission denied without cap_sys_ptrace, cap_dac_read_search, cap_checkpoint_restore"
        ),
        "{text}"
    );
    let profile = formats::pprof::decode(&fs::read(capable.profile()).unwrap()).unwrap();
    let is_unread = |comment: &String| comment == "perf-agent.unreadable_processes=1";
    assert!(profile.comments.iter().any(is_unread), "{:?}", profile.comments);
    let path = fs::read_link(format!("/proc/{}/exe", target.pid())).unwrap();
    let is_program = |mapping: &Mapping| Path::new(&mapping.filename) == path;
    assert_eq!(profile.mappings.iter().filter(|mapping| is_program(mapping)).count(), 1, "{profile:?}");
    let leaves = profile.samples.iter().map(|sample| &profile.locations[sample.locations[0].0 as usize]);
    let mut inside = 0;
    for leaf in leaves {
        let mapping = &profile.mappings[leaf.mapping.expect("all code is in mappings").0 as usize];
        if is_program(mapping) {
            inside += 1;
            assert!(
                mapping.start.0 <= leaf.address && leaf.address < mapping.limit.0,
                "{leaf:?} {mapping:?}"
            );
            assert!(leaf.lines.is_empty(), "a later tool may still name it: {leaf:?}");
        }
    }
    assert!(inside > 0, "{profile:?}");
}

#[test]
fn file_capabilities_are_enough() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let Some(capable) = Capable::new(&setup, CAPABILITIES) else { return };
    let program = all().into_iter().find(|p| p.name == "recurse-gcc-O2-dynamic-36").unwrap();
    program.build(&sources(), &setup.out).unwrap();
    // A root's process: other users' maps and files need the capabilities.
    let target = Target::start(&program, &setup.out).unwrap();
    let (status, text) = capable.run(&target);
    assert!(status.success(), "{text}");
    let verdict = Verdict::of(&read_pprof(&capable.profile()).unwrap(), &program, &Roots::default()).unwrap();
    assert!(verdict.exact > 100 && verdict.exact_pct_once_ready() >= 99.9, "{verdict:?}");
}
