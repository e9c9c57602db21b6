//! A short real capture: loads the programs, samples a chain of functions in this process, and checks the stacks.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check::{Check, Status, read};
use crate::error::Error;
use crate::{Agent, Ledger, MemorySink, Mode, Report};

/// How long the chain is sampled.
const LENGTH: Duration = Duration::from_millis(300);
/// Samples per second; the kernel's limit may lower it.
const RATE_HZ: u32 = 499;
/// Number of calls between the start of the thread and the leaf.
const DEPTH: u32 = 24;

/// Checks that programs load and samples arrive, and how many stacks are complete.
pub(super) fn checks() -> [Check; 2] {
    let max = read("/proc/sys/kernel/perf_event_max_sample_rate").and_then(|text| text.parse().ok());
    match capture(RATE_HZ.min(max.unwrap_or(RATE_HZ))) {
        Err(error) => [load_failed(&error), untested()],
        Ok(report) => {
            let ledger = report.ledger(Mode::OnCpu);
            judge(ledger.map_or(0, |ledger| ledger.samples), ledger.and_then(Ledger::rooted_pct))
        }
    }
}

fn load_failed(error: &Error) -> Check {
    let fix = match error {
        Error::Privilege { setcap_line, .. } => setcap_line.clone(),
        Error::Load { source, .. } if source.raw_os_error() == Some(12) => {
            "free memory, or lower --max-stacks and --ring-size".to_owned()
        }
        other => {
            other.hint().unwrap_or_else(|| "see the message; PERF_AGENT_LOG=debug shows more".to_owned())
        }
    };
    Check::new("bpf load", "every mode", Status::Fail, error.to_string()).fixed_by(fix)
}

fn untested() -> Check {
    Check::new("self-test", "complete stacks", Status::Warn, "not run: the programs could not be loaded")
        .fixed_by("fix `bpf load` first")
}

fn judge(samples: u64, rooted: Option<f64>) -> [Check; 2] {
    let load = |status, value: String| Check::new("bpf load", "every mode", status, value);
    let test = |status, value: String| Check::new("self-test", "complete stacks", status, value);
    if samples == 0 {
        return [
            load(Status::Warn, "programs load and attach, but no sample arrived".into())
                .fixed_by("try again on a machine that is less busy"),
            test(Status::Warn, "no samples".into()).fixed_by("try again on a machine that is less busy"),
        ];
    }
    let value = format!("{:.2} % of {samples} stacks rooted", rooted.unwrap_or(0.0));
    [
        load(Status::Ok, format!("programs load and attach; {samples} samples of this process")),
        match rooted {
            Some(rooted) if rooted >= 99.0 => test(Status::Ok, value),
            _ => test(Status::Warn, value).fixed_by("please report it, with the kernel's release"),
        },
    ]
}

fn capture(rate_hz: u32) -> Result<Report, Error> {
    let agent = Agent::builder()
        .pid(std::process::id())
        .cpu_profile_to(MemorySink::new())
        .sample_rate(rate_hz)
        .build()?;
    agent.start()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| link(DEPTH, &stop));
        let start = Instant::now();
        while start.elapsed() < LENGTH {
            agent.wait(LENGTH.saturating_sub(start.elapsed()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    agent.stop()
}

/// One call of the chain. It uses the result after the call, so that the compiler cannot make it a tail call.
#[inline(never)]
fn link(depth: u32, stop: &AtomicBool) -> u64 {
    if black_box(depth) == 0 { burn(stop) } else { black_box(link(depth - 1, stop)).wrapping_add(1) }
}

/// The leaf of the chain: computes until `stop` is set.
#[inline(never)]
fn burn(stop: &AtomicBool) -> u64 {
    let mut state = 1u64;
    while !stop.load(Ordering::Relaxed) {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_runs_to_its_leaf_and_back() {
        let stopped = AtomicBool::new(true);
        assert_eq!(link(DEPTH, &stopped), 1 + u64::from(DEPTH));
    }

    #[test]
    fn verdicts() {
        let status = |samples, rooted| judge(samples, rooted).map(|check| check.status);
        assert_eq!(status(100, Some(99.5)), [Status::Ok, Status::Ok]);
        assert_eq!(status(100, Some(50.0)), [Status::Ok, Status::Warn]);
        assert_eq!(status(100, None), [Status::Ok, Status::Warn]);
        assert_eq!(status(0, None), [Status::Warn, Status::Warn]);
    }

    #[test]
    fn a_missing_capability_is_not_reported_as_a_memory_limit() {
        let error = Error::Privilege { missing: vec!["cap_bpf".into()], setcap_line: "sudo setcap x".into() };
        let check = load_failed(&error);
        assert_eq!((check.status, check.fix.as_deref()), (Status::Fail, Some("sudo setcap x")));
        assert!(check.value.contains("cap_bpf"));
    }
}
