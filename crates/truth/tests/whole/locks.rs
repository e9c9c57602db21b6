//! Waits for locks: their number and time, the locks by name, who held them and who let go.

use std::collections::HashMap;
use std::fs;
use std::process::{Command, Output};

use profile::LabelValue;
use truth::profiler::BpfStats;
use truth::programs::Scheduling;

use crate::Setup;

/// What the program knows of the waits for a lock.
#[derive(Clone, Copy, Debug)]
struct Truth {
    off_cpu_ns: u64,
    blocks: u64,
    /// Of the time off the CPU, that in which a thread could have run: after a preemption, or after its wait.
    delay_ns: u64,
}

fn truths(lines: &str) -> HashMap<String, Truth> {
    let read = |line: &str| {
        let mut words = line.strip_prefix("lock ")?.split(' ');
        let name = words.next()?.to_owned();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        let [wall, cpu, blocks, _, delay_ns] = numbers[..] else { panic!("{line}") };
        Some((name, Truth { off_cpu_ns: wall.saturating_sub(cpu), blocks, delay_ns }))
    };
    lines.lines().filter_map(read).collect()
}

/// Waits and their time by the label `lock`.
fn by_lock(file: &std::path::Path) -> HashMap<String, (u64, u64)> {
    let profile = formats::pprof::decode(&fs::read(file).unwrap()).unwrap();
    let kinds: Vec<_> = profile.sample_types.iter().map(|of| format!("{}/{}", of.kind, of.unit)).collect();
    assert_eq!(kinds, ["contentions/count", "delay/nanoseconds"]);
    let mut sums: HashMap<String, (u64, u64)> = HashMap::new();
    for sample in &profile.samples {
        let lock = sample.labels.iter().find_map(|label| match &label.value {
            LabelValue::Str(lock) if label.key == "lock" => Some(lock.clone()),
            _ => None,
        });
        let sum = sums.entry(lock.unwrap()).or_default();
        sum.0 += sample.values[0] as u64;
        sum.1 += sample.values[1] as u64;
    }
    sums
}

/// A number of the ledger that `--verbose` prints.
fn of_ledger(messages: &str, key: &str) -> Option<f64> {
    let line = messages.lines().find(|line| line.trim_start().starts_with(&format!("{key} ")))?;
    line.split_whitespace().last()?.parse().ok()
}

/// The part of a report that is about a lock, line by line.
fn part<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let at = text.find(head).unwrap_or_else(|| panic!("no {head} in\n{text}"));
    text[at..].lines().take_while(|line| !line.is_empty()).collect()
}

/// The number of waits on the lines from a head on, as far as `of` chooses them.
fn waits(part: &[&str], head: &str, of: impl Fn(&str) -> bool) -> u64 {
    let begin = part.iter().position(|line| line.trim_start().starts_with(head));
    let Some(begin) = begin else { return 0 };
    let lines = part[begin..].iter().enumerate();
    let own = lines.take_while(|(number, line)| *number == 0 || line.starts_with("            "));
    let chosen = own.filter(|(_, line)| of(line));
    chosen
        .map(|(_, line)| {
            line[11..].split_whitespace().next().unwrap().replace(',', "").parse::<u64>().unwrap()
        })
        .sum()
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn waits_for_locks_are_those_that_the_program_knows_with_owner_and_waker() {
    let Some(setup) = Setup::alone() else { return };
    let program = Scheduling::new(&setup.out).path("locks").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (profile, recording) = (folder.path().join("locks.pb.gz"), folder.path().join("c.perf-agent"));
    let mut command = Command::new(&setup.agent);
    command.args(["--locks", "--verbose", "--locks-output"]).arg(&profile);
    command.arg("--recording-output").arg(&recording).arg("--").arg(&program).arg("1500");
    let counted = BpfStats::enable().unwrap();
    let captured = output(&mut command);
    drop(counted);
    let messages = String::from_utf8_lossy(&captured.stderr).into_owned();
    assert!(messages.contains("lost                  0") || messages.contains(" 0 lost"), "{messages}");
    let truths = truths(&String::from_utf8_lossy(&captured.stdout));
    let measured = by_lock(&profile);
    assert_eq!(truths.len(), 3, "{truths:?}");
    // A wait begins where the kernel tells of the switch. perf-agent's program then runs on the CPU time of the thread, which
    // the truth takes for none of the wait.
    let own_ns = of_ledger(&messages, "bpf_cpu_ms").unwrap() * 1e6;
    let all: u64 = measured.values().map(|(count, _)| count).sum();
    for (lock, truth) in &truths {
        let (count, time_ns) = measured.get(lock).copied().unwrap_or_default();
        let off = count.abs_diff(truth.blocks);
        assert!(off <= 2 + truth.blocks / 50, "{lock}: {count} waits, {truth:?}");
        let (least, most) = (truth.off_cpu_ns.saturating_sub(truth.delay_ns), truth.off_cpu_ns);
        let slack = 2_000_000 + most / 50;
        let own_ns = (own_ns * count as f64 / all as f64) as u64;
        assert!(
            time_ns + slack >= least && time_ns <= most + own_ns + slack,
            "{lock}: {time_ns} ns, {own_ns} of them perf-agent's own at most, {truth:?}"
        );
    }

    let mut render = Command::new(&setup.agent);
    let text = output(render.arg("render").arg(&recording).args(["--locks-output", "-"])).stdout;
    let text = String::from_utf8(text).unwrap();
    let mutex = |name: &str| part(&text, &format!("mutex {name} in locks, locks (pid "));
    for name in ["lock_2us", "lock_20us", "lock_1ms", "lock_asleep"] {
        let part = mutex(name);
        let all = part[1].trim_start().split(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap();
        let released = waits(&part, "let go by", |line| !line.contains("interrupt"));
        assert!(released * 100 >= all * 99, "{name}: {released} of {all}\n{text}");
    }
    // Who holds a lock for long is seen: on a CPU, or asleep itself.
    let long = mutex("lock_1ms");
    let (all, unseen) =
        (waits(&long, "held by", |_| true), waits(&long, "held by", |line| line.contains("not seen")));
    assert!(all > 0 && unseen * 10 <= all, "{unseen} of {all}\n{text}");
    let asleep = mutex("lock_asleep");
    let by_sleeper =
        waits(&asleep, "held by", |line| line.contains("off its CPU") && line.contains("sleep_with_lock"));
    assert!(by_sleeper * 10 >= waits(&asleep, "held by", |_| true) * 9 && by_sleeper > 0, "{text}");
    assert!(asleep.iter().any(|line| line.contains("take_asleep < thread_of_sleeper")), "{text}");
    for wanted in [
        "condition  await_condition < thread_taker",
        "semaphore  await_semaphore < thread_taker",
        "join       await_end < main",
        // The first thread of the program's begin may take longer to its barrier than the second.
        "barrier    contend < thread_lock_1ms",
        "(thread giver)",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn locks_beside_other_profiles_change_none_of_them() {
    let Some(setup) = Setup::alone() else { return };
    let program = Scheduling::new(&setup.out).path("locks").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut command = Command::new(&setup.agent);
    command.args(["--profile", "--offcpu", "--locks", "--verbose"]);
    command.arg("--profile-output").arg(at("on.pb.gz")).arg("--offcpu-output").arg(at("off.pb.gz"));
    command.arg("--wall-output").arg(at("wall.pb.gz")).arg("--locks-output").arg(at("locks.pb.gz"));
    let captured = output(command.arg("--").arg(&program).arg("300"));
    let messages = String::from_utf8_lossy(&captured.stderr).into_owned();
    let identity = of_ledger(&messages, "wall.identity_pct");
    assert!(identity.is_some_and(|share| (98.0..102.0).contains(&share)), "{messages}");
    // Each wait for a lock is an interval of the off-CPU profile too.
    let off = formats::pprof::decode(&fs::read(at("off.pb.gz")).unwrap()).unwrap();
    let functions = |sample: &profile::Sample| {
        let names = sample.locations.iter().flat_map(|id| &off.locations[id.0 as usize].lines);
        names.map(|line| off.functions[line.function.0 as usize].name.clone()).collect::<Vec<_>>()
    };
    let taken: i64 = off
        .samples
        .iter()
        .filter(|sample| functions(sample).iter().any(|name| name == "take_lock_1ms"))
        .map(|sample| sample.values[0])
        .sum();
    let waits = by_lock(&at("locks.pb.gz")).get("lock_1ms").copied().unwrap_or_default().0;
    assert!(waits > 0 && taken >= waits as i64, "{taken} intervals, {waits} waits");
}
