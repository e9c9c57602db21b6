use recording::{FrameId, Mode, PythonCounter, State, TargetKind, WalkEnd};

use super::*;
use crate::ledger::complete;
use crate::test_recording::TestRecording;

fn lines(capture: TestRecording, packages: &Packages) -> Vec<String> {
    let symbolized = capture.finish();
    let ledgers = complete(&symbolized);
    advice(&symbolized, &ledgers, packages).iter().map(Advice::line).collect()
}

fn on_cpu() -> TestRecording {
    let mut capture = TestRecording::new();
    (capture.settings.off_cpu_profile, capture.settings.wall_profile) = (false, false);
    capture
}

fn add(capture: &mut TestRecording, user: &[FrameId], end: WalkEnd, count: u64) {
    let stack = capture.stack(&[], user, end, State::Sampled);
    capture.add_samples(stack, count);
    capture.accounting.sampler.samples += count;
}

fn package(name: &str, archive: Option<&str>) -> DebugPackage {
    DebugPackage {
        install: "apt-get install".into(),
        package: name.into(),
        archive: archive.map(str::to_owned),
        server: None,
    }
}

#[test]
fn a_good_result_needs_no_advice() {
    let mut capture = on_cpu();
    let (named, nameless, jit) = (capture.frame("main"), capture.nameless("/lib/x", 1), capture.jit_frame(1));
    add(&mut capture, &[named], WalkEnd::Root, 9_900);
    add(&mut capture, &[named], WalkEnd::FpChain, 100);
    add(&mut capture, &[nameless], WalkEnd::Root, 500);
    add(&mut capture, &[jit], WalkEnd::Root, 100);
    capture.accounting.sampler.lost_map_full = 10;
    assert_eq!(lines(capture, &Packages::new()), [""; 0]);
}

#[test]
fn files_without_names_are_told_with_their_package() {
    let nameless = |counts: [u64; 3]| {
        let mut capture = on_cpu();
        let named = capture.frame("main");
        let [x, y] = [("/lib/x", 1), ("/lib/y", 2)].map(|(path, svma)| capture.nameless(path, svma));
        for (frame, count) in [named, x, y].into_iter().zip(counts) {
            add(&mut capture, &[frame], WalkEnd::Root, count);
        }
        capture
    };
    let archive = Some("deb http://archive main");
    let both = [
        ("/lib/x".to_owned(), package("x-dbgsym", archive)),
        ("/lib/y".to_owned(), package("y-dbg", archive)),
    ];
    assert_eq!(
        lines(nameless([60, 30, 10]), &Packages::from(both)),
        [
            "40 % of the frames have no names, in /lib/x (30 %), /lib/y (10 %): apt-get install x-dbgsym y-dbg \
          (archive: deb http://archive main)"
        ]
    );
    let main = [("/lib/x".to_owned(), package("x-dbg", None))];
    let said = lines(nameless([60, 30, 10]), &Packages::from(main));
    assert!(said[0].ends_with(": apt-get install x-dbg"), "{said:?}");
    assert_eq!(
        lines(nameless([90, 10, 0]), &Packages::new()),
        ["10 % of the frames have no names, in /lib/x (10 %): do not strip /lib/x"]
    );
    let symbolized = nameless([90, 1, 9]).finish();
    let files: Vec<_> = nameless_files(&symbolized).iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["/lib/y", "/lib/x"]);
}

#[test]
fn functions_known_by_their_start_are_told_as_such() {
    let of = |started: u64, bare: u64| {
        let mut capture = on_cpu();
        let [x, y] = [1, 2].map(|svma| capture.nameless("/lib/x", svma));
        capture.names.enter_start(x, profile::Svma(1));
        add(&mut capture, &[x], WalkEnd::Root, started);
        add(&mut capture, &[y], WalkEnd::Root, bare);
        lines(capture, &Packages::new()).remove(0)
    };
    let but = "100 % of the frames have no names but the start of their function (fn_0x…), in /lib/x (100 %): do not strip \
               /lib/x";
    assert_eq!(of(60, 40), but);
    assert!(of(40, 60).starts_with("100 % of the frames have no names, in /lib/x"));
}

#[test]
fn a_file_that_could_not_be_opened_needs_the_right_to_read_it_and_no_other_build() {
    let mut capture = on_cpu();
    let frame = capture.unread("/srv/app", 1);
    add(&mut capture, &[frame], WalkEnd::FpChain, 40);
    add(&mut capture, &[frame], WalkEnd::Root, 60);
    assert_eq!(
        lines(capture, &Packages::new()),
        [
            "100 % of the frames have no names, in /srv/app (100 %): let perf-agent read /srv/app; the warning above says why \
             it could not",
            "on-cpu: 40 % of the stacks are cut, most in /srv/app (broken frame pointers): let perf-agent read /srv/app; the \
             warning above says why it could not",
        ]
    );
}

#[test]
fn code_of_runtimes_is_told_with_the_remedy_of_the_runtime() {
    let mut capture = on_cpu();
    let (main, jit) = (capture.nameless("/usr/lib/jvm/lib/server/libjvm.so", 1), capture.jit_frame(1));
    capture.name(main, "JavaMain");
    add(&mut capture, &[jit, main], WalkEnd::Root, 80);
    add(&mut capture, &[jit], WalkEnd::FpChain, 20);
    let said = lines(capture, &Packages::new());
    assert_eq!(
        said,
        [
            "100 % of the stacks go through code without names that java (pid 7) made at run time: run `jcmd 7 Compiler.perfmap` \
             while it is profiled (JDK 17 and later)",
            "on-cpu: 20 % of the stacks are cut, most in code that target made at run time (broken frame pointers)",
        ]
    );
}

#[test]
fn cut_stacks_are_told_with_cause_place_and_remedy() {
    let cut = |end, unwind: &str, path| {
        let mut capture = on_cpu();
        capture.settings.unwind = unwind.to_owned();
        let frame = capture.nameless(path, 1);
        capture.name(frame, "f");
        add(&mut capture, &[frame], end, 2);
        add(&mut capture, &[frame], WalkEnd::Root, 98);
        lines(capture, &Packages::new()).remove(0)
    };
    assert_eq!(
        cut(WalkEnd::NoRow, "auto", "/srv/app"),
        "on-cpu: 2 % of the stacks are cut, most in /srv/app (no unwind information): build /srv/app with \
         -fasynchronous-unwind-tables or -fno-omit-frame-pointer"
    );
    assert!(
        cut(WalkEnd::FpChain, "fp", "/srv/app").ends_with(": walk with unwind information: --unwind auto")
    );
    assert!(
        cut(WalkEnd::FpChain, "auto", "/jvm/libjvm.so")
            .ends_with(": start it with `-XX:+PreserveFramePointer`")
    );
    for module in ["/greenlet/_greenlet.cpython-311.so", "/greenlet.cpython-38.so"] {
        let said = cut(WalkEnd::NoMapping, "auto", module);
        assert!(said.ends_with(": that is where a greenlet begins, and its functions are all shown"));
    }
    assert!(cut(WalkEnd::NoRow, "auto", "/greenlet/tool.so").contains(": build /greenlet/tool.so with"));
    assert!(cut(WalkEnd::TableNotReady, "auto", "/srv/app").contains("--unwind dwarf"));
    assert!(cut(WalkEnd::Fault, "auto", "/srv/app").ends_with("(unreadable stack)"));
}

#[test]
fn no_remedy_is_named_that_cannot_help() {
    let java = |whole: u64| {
        let mut capture = on_cpu();
        let (main, jit) = (capture.nameless("/usr/lib/jvm/lib/server/libjvm.so", 1), capture.jit_frame(1));
        capture.name(main, "JavaMain");
        capture.name(jit, "Lapp;::run");
        add(&mut capture, &[jit, main], WalkEnd::Root, whole);
        add(&mut capture, &[jit, main, jit], WalkEnd::FpChain, 20);
        lines(capture, &Packages::new()).remove(0)
    };
    assert!(java(19).contains("PreserveFramePointer"), "{}", java(19));
    assert!(!java(80).contains("PreserveFramePointer"), "it keeps them already: {}", java(80));
    let mut capture = on_cpu();
    let frame = capture.nameless("/srv/haskell", 1);
    capture.name(frame, "base_GHCziBase_map_info");
    add(&mut capture, &[frame], WalkEnd::FpChain, 10);
    let said = lines(capture, &Packages::new()).remove(0);
    assert!(said.ends_with("most in /srv/haskell (broken frame pointers)"), "{said}");
}

#[test]
fn stacks_that_did_not_fit_into_the_ring_are_cut_because_of_the_ring() {
    let cut_of = |end, unsent, beyond_limits, targets| {
        let mut capture = on_cpu();
        capture.settings.targets = targets;
        capture.accounting.sampler.unsent_of_process = beyond_limits;
        let frame = capture.frame("f");
        add(&mut capture, &[frame], end, 20);
        add(&mut capture, &[frame], WalkEnd::Root, 80);
        capture.accounting.sampler.unsent_ring_full = unsent;
        lines(capture, &Packages::new()).remove(0)
    };
    let cut = |end, unsent| cut_of(end, unsent, 0, TargetKind::Processes);
    assert_eq!(
        cut(WalkEnd::TableNotReady, 19),
        "on-cpu: 20 % of the stacks are cut, most because they came before their unwind tables and did not fit into the ring: \
         raise --ring-size"
    );
    assert!(cut(WalkEnd::TableNotReady, 9).contains("--unwind dwarf"), "the others had another cause");
    assert!(!cut(WalkEnd::FpChain, 20).contains("ring"), "such a stack is not sent");
    let command = cut_of(WalkEnd::TableNotReady, 5, 15, TargetKind::Command);
    assert!(command.ends_with("more than are kept until then: profile the program once it runs, and wait for its tables: --pid PID --unwind dwarf"), "{command}");
    let running = cut_of(WalkEnd::TableNotReady, 5, 15, TargetKind::Processes);
    assert!(
        running.ends_with("more than are kept until then: wait for all tables: --unwind dwarf"),
        "{running}"
    );
}

#[test]
fn lost_samples_are_told_with_the_main_cause() {
    let mut capture = on_cpu();
    let main = capture.frame("main");
    add(&mut capture, &[main], WalkEnd::Root, 990);
    (capture.accounting.sampler.lost_map_full, capture.accounting.sampler.lost_ring_full) = (2, 8);
    assert_eq!(
        lines(capture, &Packages::new()),
        [
            "on-cpu: 1.0 % of the samples are lost (10), most because more new stacks came at once than fit into the ring: \
          raise --ring-size"
        ]
    );
}

#[test]
fn at_most_three_lines_the_largest_share_first_each_kind_once() {
    let mut capture = TestRecording::new();
    let (nameless, jit) = (capture.nameless("/lib/x", 1), capture.jit_frame(1));
    for (frame, count) in [(nameless, 20), (jit, 30)] {
        add(&mut capture, &[frame], WalkEnd::FpChain, count);
        let blocked = capture.stack(&[], &[frame], WalkEnd::FpChain, State::Blocked);
        capture.add_intervals(blocked, count, count, 0);
    }
    capture.accounting.sampler.lost_busy = 1;
    let symbolized = capture.finish();
    let all = advice(&symbolized, &complete(&symbolized), &Packages::new());
    let kinds: Vec<_> = all.iter().map(|advice| advice.kind).collect();
    assert_eq!(kinds, [AdviceKind::CutStacks, AdviceKind::NamelessCode, AdviceKind::NamelessFiles]);
    assert_eq!(all[0].message.split(':').next(), Some(Mode::OnCpu.name()));
}

#[test]
fn functions_in_python_that_are_missing_are_told_with_the_cause() {
    let capture = |set: fn(&mut TestRecording), shown: u64| {
        let mut capture = on_cpu();
        let evaluator = capture.frame("_PyEval_EvalFrameDefault");
        let function = capture.interpreted_frame("work");
        add(&mut capture, &[evaluator], WalkEnd::Root, 100 - shown);
        add(&mut capture, &[function, evaluator], WalkEnd::Root, shown);
        set(&mut capture);
        lines(capture, &Packages::new())
    };
    let unsupported = capture(|capture| capture.accounting.python_unsupported = 1, 40);
    let message = "60 % of the stacks run Python and do not show its functions: ";
    assert!(unsupported.len() == 1 && unsupported[0].starts_with(message), "{unsupported:?}");
    assert!(unsupported[0].contains("CPython 3.8 to 3.15"), "{unsupported:?}");
    let faults = capture(|capture| capture.accounting.sampler.python[PythonCounter::Fault as usize] = 60, 40);
    assert!(faults.len() == 1 && faults[0].contains("--verbose"), "{faults:?}");
    // Few calls that are just beginning; and functions that were not asked for.
    assert_eq!(capture(|capture| capture.accounting.python_unsupported = 1, 95), [""; 0]);
    assert_eq!(capture(|_| {}, 0), [""; 0]);
}
