//! Pass or fail: what an off-CPU profile must show of each program.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};

use super::compare::{Comparison, compare};
use super::lab::{EACH_STATE, Lab, hardly_lost, nothing_lost};
use super::meter::{Meter, read_meters, read_number};
use super::short_lives;
use crate::frame::{Capture, Stack};
use crate::roots::Roots;
use crate::session::{Finished, Session, Subject};

/// Below this a share of time proves nothing.
const LEAST_NS: u64 = 50_000_000;

/// Time that a hypervisor has taken from the CPU of the program `hogs` while a thread wanted to run.
fn stolen_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat
        .lines()
        .find(|line| line.starts_with("cpu0 "))
        .and_then(|cpu| cpu.split_whitespace().nth(8)?.parse::<u64>().ok());
    // In hundredths of a second.
    ticks.unwrap_or(0) * 10_000_000
}

/// A claim with a name.
pub type Case = (&'static str, fn(&Lab) -> Result<()>);

/// All of them.
pub const CASES: &[Case] = &[
    ("each function's time and blocks", each_site),
    ("preemption is not blocking", preemption),
    ("threads that live for milliseconds", mayflies),
    ("a process that ends while blocked", leaver),
    ("asleep since before the start", asleep_before),
    ("asleep since before the start, woken once", woken_once),
    ("short intervals left out", min_block),
    ("the whole machine", machine),
    ("on-CPU and off-CPU together", together),
    ("all time of threads that live for milliseconds", short_lives::threads),
    ("all time of processes that live for milliseconds", short_lives::processes),
    ("all time of threads that end after their process", short_lives::stragglers),
    ("more sleeping threads than --max-stacks", short_lives::crowd_in_small_tables),
];

fn near_count(what: &str, measured: u64, truth: u64, allowed: u64) -> Result<()> {
    ensure!(measured.abs_diff(truth) <= allowed, "{what}: {measured}, but {truth} are true");
    Ok(())
}

/// The share of blocks whose stacks reach the start of their thread.
///
/// # Errors
/// If it is below 99.9 %.
fn rooted(capture: &Capture, wanted: impl Fn(&Stack) -> bool) -> Result<()> {
    let roots = Roots::default();
    let (all, _) = capture.sums(&wanted);
    let (complete, _) = capture.sums(|s| wanted(s) && roots.is_rooted(s));
    let example = capture.stacks.iter().find(|s| wanted(s) && !roots.is_rooted(s)).map(Stack::display);
    ensure!(
        all > 0 && complete as f64 >= all as f64 * 0.999,
        "{complete} of {all} stacks are complete; not: {example:?}"
    );
    Ok(())
}

/// Stretches outside of the metered functions, which the program may have counted as those of a function.
#[derive(Clone, Copy, Default)]
struct Elsewhere {
    blocks: u64,
    ns: u64,
}

/// Judges the time and the blocks of a function.
fn judge_site(lab: &Lab, measured: &Comparison, lost: u64, elsewhere: Elsewhere) -> Result<()> {
    let Meter { name, voluntary, .. } = &measured.truth;
    // A microsecond or two lie between the tracepoint and the moment at which a thread's task clock stops or starts; more
    // if others trace there.
    let (true_ns, apart_ns) = (measured.truth.off_cpu_ns(), voluntary * lab.per_block_ns);
    // In an emulated guest a block may differ by much, so a short time proves nothing.
    let proves = true_ns >= LEAST_NS || !lab.is_emulated();
    if proves && measured.ns.abs_diff(true_ns) > apart_ns {
        let counted_too = elsewhere.ns.min(true_ns.saturating_sub(measured.ns));
        lab.near(name, measured.ns + counted_too, true_ns)?;
    }
    near_count(&format!("blocks in {name}"), measured.blocks, *voluntary, lost + elsewhere.blocks)
}

fn each_site(lab: &Lab) -> Result<()> {
    let (ms, folder) = (lab.milliseconds(), lab.programs.out.display().to_string());
    let finished = lab.command(&["--offcpu", EACH_STATE], "blocking", &[&ms, &folder])?;
    let capture = finished.off_cpu()?;
    let lost = hardly_lost(&capture)?;
    let mut truth = read_meters(&finished.lines)?;
    truth.retain(|m| m.kind == "site");
    ensure!(truth.len() == 12, "{} functions", truth.len());
    let metered = |s: &Stack| truth.iter().any(|m| s.has(&m.name));
    // The first touch of a clock's page, between a count and the call, may wait for the lock of the address space.
    let (blocks, _) = capture.sums(|s| s.has("worker") && !metered(s) && s.state != "preempted");
    for measured in compare(&capture, &truth) {
        // A thread may be preempted after it has read the wall clock and before the call. Threads have names of their own.
        let threads: HashSet<&str> =
            capture.stacks.iter().filter(|s| s.has(&measured.truth.name)).map(|s| s.comm.as_str()).collect();
        let (_, ns) = capture.sums(|s| threads.contains(s.comm.as_str()) && !metered(s));
        let elsewhere = Elsewhere { blocks, ns };
        judge_site(lab, &measured, lost, elsewhere)?;
        // Many a preemption comes as a clock or a count is read, in front of the call or behind it.
        let (most, name) = (measured.truth.involuntary + lost + 3, &measured.truth.name);
        ensure!(
            measured.preemptions <= most,
            "{} preemptions in {name}, at most {most} are true",
            measured.preemptions
        );
        let disk = matches!(measured.truth.name.as_str(), "site_fsync" | "site_fault");
        // On a file system in memory neither blocks.
        if disk && measured.ns > LEAST_NS && measured.blocks > 100 {
            ensure!(measured.iowait_ns * 2 > measured.ns, "{measured:?} waits for the disk");
        } else if !disk {
            ensure!(measured.iowait_ns * 10 <= measured.ns, "{measured:?} waits for no disk");
        }
    }
    rooted(&capture, metered)
}

/// The meters of the lives of a program's threads.
fn lives(finished: &Finished) -> Result<Vec<Meter>> {
    let mut meters = read_meters(&finished.lines)?;
    meters.retain(|m| m.kind == "life");
    Ok(meters)
}

fn preemption(lab: &Lab) -> Result<()> {
    let ms = lab.milliseconds();
    let arguments = [ms.as_str()];
    let finished = lab.command(&["--offcpu", EACH_STATE], "hogs", &arguments)?;
    let capture = finished.off_cpu()?;
    hardly_lost(&capture)?;
    for measured in compare(&capture, &lives(&finished)?) {
        let (life, preempted) =
            (&measured.truth, |s: &Stack| s.has(&measured.truth.name) && s.state == "preempted");
        let (_, ns) = capture.sums(preempted);
        let allowed = (life.off_cpu_ns() as f64 * lab.tolerance_pct.max(3.0) / 100.0).max(10e6);
        let error = ns as f64 - life.off_cpu_ns() as f64;
        ensure!(life.off_cpu_ns() > life.wall_ns / 4, "{life:?} was hardly preempted");
        ensure!(error.abs() <= allowed, "{ns} ns preempted, but {life:?}");
        near_count(&life.name, measured.preemptions, life.involuntary, 2 + life.involuntary / 50)?;
        rooted(&capture, preempted)?;
    }
    let capture = lab.command(&["--offcpu"], "hogs", &arguments)?.off_cpu()?;
    ensure!(capture.stacks.iter().all(|s| s.state != "preempted"), "preempted was not asked for");
    let (blocks, ns) = capture.sums(|s| s.has("hog_one") || s.has("hog_two"));
    ensure!(ns < LEAST_NS, "threads that never sleep: {blocks} blocks, {ns} ns");
    Ok(())
}

fn mayflies(lab: &Lab) -> Result<()> {
    let finished = lab.command(&["--offcpu", EACH_STATE], "mayflies", &[&lab.milliseconds()])?;
    let capture = finished.off_cpu()?;
    let lost = hardly_lost(&capture)?;
    let threads = read_number(&finished.lines, "threads")?;
    // In an emulated guest on a busy machine few come about.
    let least = if lab.tolerance_pct > 5.0 { 10 } else { 100 };
    ensure!(threads > least, "hardly any threads: {threads}");
    for measured in compare(&capture, &read_meters(&finished.lines)?) {
        judge_site(lab, &measured, lost, Elsewhere::default())?;
    }
    rooted(&capture, |s| s.has("site_nap"))
}

fn leaver(lab: &Lab) -> Result<()> {
    let finished = lab.command(&["--offcpu"], "leaver", &["1000"])?;
    let capture = finished.off_cpu()?;
    nothing_lost(&capture)?;
    let (blocks, ns) = capture.sums(|s| s.has("site_forever"));
    ensure!(blocks == 1, "{blocks} blocks, but one is true");
    let truth = read_number(&finished.lines, "blocked")?;
    // Ending takes its time, and longer on a busy machine; so may the way from the clock into the block.
    let late = 1e6 + truth as f64 * lab.tolerance_pct / 100.0;
    ensure!(ns as f64 + late >= truth as f64 && ns < truth + 300_000_000, "{ns} ns, but {truth} are true");
    rooted(&capture, |s| s.has("site_forever"))
}

fn asleep_before(lab: &Lab) -> Result<()> {
    let target = lab.start("sleepers", &[&lab.crowd.to_string()])?;
    let duration = format!("{}ms", lab.ms);
    let options = ["--offcpu", "--duration", &duration];
    let capture =
        Session::start(&lab.agent, &options, Subject::Process(target.pid()))?.finish()?.off_cpu()?;
    nothing_lost(&capture)?;
    let threads = lab.crowd + 1;
    let (blocks, ns) = capture.sums(|_| true);
    ensure!(blocks == threads, "{blocks} intervals of {threads} sleeping threads");
    lab.near("all threads", ns / threads, capture.duration_ns)?;
    let (blocks, ns) = capture.sums(|s| s.has("doze"));
    ensure!(blocks * 100 >= lab.crowd * 99, "{blocks} of {} threads have a stack", lab.crowd);
    lab.near("threads in doze", ns / blocks, capture.duration_ns)?;
    rooted(&capture, |s| s.has("doze"))
}

/// Voluntary and involuntary switches of all threads of a process since they began, and the number of threads.
fn switches_of(pid: u32) -> Result<[u64; 3]> {
    let mut sums = [0; 3];
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).context("list threads")?.flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).context("read a thread's status")?;
        let value = |key: &str| {
            status.lines().find_map(|l| l.strip_prefix(key)).and_then(|v| v.trim().parse::<u64>().ok())
        };
        sums[0] += value("voluntary_ctxt_switches:").context("no voluntary switches")?;
        sums[1] += value("nonvoluntary_ctxt_switches:").context("no involuntary switches")?;
        sums[2] += 1;
    }
    Ok(sums)
}

fn woken_once(lab: &Lab) -> Result<()> {
    let count = (lab.crowd / 10).max(10);
    let mut target = lab.start("sleepers", &[&count.to_string(), "once"])?;
    let before = switches_of(target.pid())?;
    let options = ["--offcpu", EACH_STATE, "--duration", "1h"];
    let mut session = Session::start(&lab.agent, &options, Subject::Process(target.pid()))?;
    session.until_attached()?;
    target.go()?;
    let word = format!("woken {count}");
    let begun = std::time::Instant::now();
    while !target.pending_lines().contains(&word) {
        ensure!(begun.elapsed().as_secs() < 60, "the threads do not sleep again");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    session.stop()?;
    let capture = session.finish()?.off_cpu()?;
    let after = switches_of(target.pid())?;
    let lost = hardly_lost(&capture)?;
    let (preemptions, _) = capture.sums(|s| s.state == "preempted");
    let (all, ns) = capture.sums(|_| true);
    // One interval per thread is open at the start, and each switch begins one.
    near_count("intervals", all - preemptions, after[2] + after[0] - before[0], lost + 1)?;
    near_count("preemptions", preemptions, after[1] - before[1], lost + 1)?;
    lab.near("all threads", ns / after[2], capture.duration_ns)
}

fn min_block(lab: &Lab) -> Result<()> {
    let (ms, folder) = (lab.milliseconds(), lab.programs.out.display().to_string());
    let mut target = lab.start("blocking", &[&ms, &folder, "wait"])?;
    let options = ["--offcpu", "--min-block", "6ms", "--duration", "1h"];
    let mut session = Session::start(&lab.agent, &options, Subject::Process(target.pid()))?;
    session.until_attached()?;
    target.go()?;
    let lines = target.lines_to_end();
    let capture = session.finish()?.off_cpu()?;
    let lost = hardly_lost(&capture)?;
    let truth = read_meters(&lines)?;
    let short = capture.stacks.iter().find(|s| s.ns < 6_000_000 * s.count);
    ensure!(short.is_none(), "shorter than asked for: {short:?}");
    let naps = truth.iter().find(|m| m.name == "site_nanosleep").context("no site_nanosleep")?;
    let (blocks, _) = capture.sums(|s| s.has("site_nanosleep"));
    // A thread that is preempted on its way to sleep sleeps for less.
    near_count("blocks of 7 ms", blocks, naps.voluntary, lost + 1 + naps.voluntary / 50)?;
    let skipped: u64 =
        capture.ledger("skipped.min_block").context("the ledger has no skipped.min_block")?.parse()?;
    let skipped_ns: u64 =
        capture.ledger("skipped.min_block_ns").context("the ledger has no skipped.min_block_ns")?.parse()?;
    ensure!(skipped > 0 && skipped_ns < skipped * 6_000_000, "{skipped} skipped, {skipped_ns} ns");
    let process = truth.iter().find(|m| m.kind == "process").context("no account of the process")?;
    // One more: the wait for the line from the runner, which began before the capture. A process that ends closes files,
    // which may take some waits that it cannot count itself.
    near_count("recorded and skipped", capture.sums(|_| true).0 + skipped, process.voluntary + 1, lost + 25)
}

fn machine(lab: &Lab) -> Result<()> {
    let target = lab.start("sleepers", &["8"])?;
    let duration = format!("{}ms", lab.ms);
    let options = ["--offcpu", "--kernel-stacks", "--duration", &duration];
    let capture = Session::start(&lab.agent, &options, Subject::Machine)?.finish()?.off_cpu()?;
    hardly_lost(&capture)?;
    let (threads, ns) = capture.sums(|s| s.pid == target.pid());
    ensure!(threads == 9, "{threads} intervals of 9 sleeping threads");
    lab.near("a sleeping process", ns / 9, capture.duration_ns)?;
    let kernel = capture.sums(|s| s.comm == "kthreadd");
    ensure!(kernel.0 > 0, "a kernel thread that sleeps is not seen");
    lab.near("kthreadd", kernel.1, capture.duration_ns)?;
    ensure!(capture.stacks.iter().all(|s| s.pid != 0), "the idle task is in the profile");
    Ok(())
}

/// What a profile has of some stacks and of the others, with the longest of those.
fn parts(capture: &Capture, wanted: impl Fn(&Stack) -> bool) -> String {
    let ((count, ns), (others, others_ns)) = (capture.sums(&wanted), capture.sums(|s| !wanted(s)));
    let longest = capture.stacks.iter().filter(|s| !wanted(s)).max_by_key(|s| s.ns);
    let longest = longest.map(Stack::display).unwrap_or_default();
    format!("{count} in {ns} ns, others {others} in {others_ns} ns, most of them {longest}")
}

fn together(lab: &Lab) -> Result<()> {
    let rate = if lab.is_emulated() { "97" } else { "997" };
    let options = ["--profile", "--offcpu", EACH_STATE, "--sample-rate", rate, "--wall-output"];
    let stolen_before = stolen_ns();
    let finished = lab.command(&options, "hogs", &[&lab.milliseconds()])?;
    let (on_cpu, off_cpu) = (finished.on_cpu()?, finished.off_cpu()?);
    nothing_lost(&on_cpu)?;
    hardly_lost(&off_cpu)?;
    let lives = lives(&finished)?;
    let true_ns: u64 = lives.iter().map(|m| m.wall_ns).sum();
    let hog = |s: &Stack| lives.iter().any(|m| s.has(&m.name));
    // Sampling has an error of its own: that of half a period at each switch. And no sample is taken while a hypervisor has
    // the CPU, though the thread is on it.
    let stolen = stolen_ns() - stolen_before;
    let mut lab = lab.clone();
    lab.tolerance_pct = lab.tolerance_pct.max(3.0);
    let measured = on_cpu.sums(hog).1 + off_cpu.sums(hog).1;
    lab.near("on and off CPU", measured + stolen.min(true_ns.saturating_sub(measured)), true_ns)
        .with_context(|| format!("on CPU: {}; off CPU: {}", parts(&on_cpu, hog), parts(&off_cpu, hog)))?;
    let wall = finished.wall()?;
    lab.near("wall profile", wall.stacks.iter().filter(|s| hog(s)).map(|s| s.ns.max(s.count)).sum(), true_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Scheduling;

    #[test]
    fn only_time_beside_a_function_may_be_missing_from_it() {
        let lab = Lab {
            agent: "perf-agent".into(),
            programs: Scheduling::new("programs".as_ref()),
            tolerance_pct: 1.0,
            per_block_ns: 3000,
            ms: 2000,
            crowd: 1,
        };
        let truth = Meter { name: "site".into(), wall_ns: 100_000_000, ..Meter::default() };
        let judged = |ns, elsewhere_ns| {
            let measured = Comparison { truth: truth.clone(), ns, blocks: 0, preemptions: 0, iowait_ns: 0 };
            judge_site(&lab, &measured, 0, Elsewhere { blocks: 0, ns: elsewhere_ns }).is_ok()
        };
        assert!(judged(100_000_000, 0) && judged(99_000_000, 0) && !judged(90_000_000, 0));
        assert!(judged(90_000_000, 10_000_000) && !judged(80_000_000, 10_000_000));
        assert!(judged(100_000_000, 50_000_000) && !judged(110_000_000, 50_000_000));
    }
}
