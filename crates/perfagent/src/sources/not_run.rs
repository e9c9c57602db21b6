//! Periods of the sampling event in which the kernel ran no program: of the clock an estimate.
//!
//! While a thread changes a BPF map, the kernel runs no BPF program of events on its CPU and counts nothing. The event itself goes on, and
//! its program counts its runs: what is missing between the two was not run. Time that the hypervisor took, in which no timer fires,
//! throttled time, and idle time, which some CPUs report to no program, have other causes; where they are coarse, the estimate is low.

use std::collections::BTreeMap;

use recording::NotRun;

/// Differences up to this number of periods mean nothing: the two figures are not read at the same moment, and the first period has no begin.
const SLACK: u64 = 2;

/// A CPU that lacks fewer periods is not told as the worst one.
const MIN_TOLD: u64 = 10;

/// What one CPU has done since the capture began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    /// Periods of the event.
    pub(super) due: u64,
    /// Its program ran this number of times.
    pub(super) times: u64,
    /// Periods that may be missing for another reason: the hypervisor took them, or the CPU was idle.
    pub(super) excused: u64,
}

/// Of the time of a CPU, what has no run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTimes {
    idle_ns: u64,
    /// That the hypervisor took.
    stolen_ns: u64,
}

impl CpuTimes {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            stolen_ns: self.stolen_ns.saturating_sub(before.stolen_ns),
        }
    }
}

impl Ran {
    /// Of a clock: the event ran for `event_ns`, its program `times`, of which `idle_times` on the idle CPU, which meanwhile did this.
    pub(super) fn of_clock(
        event_ns: u64,
        times: u64,
        idle_times: u64,
        meanwhile: CpuTimes,
        rate_hz: u32,
    ) -> Self {
        // These times are told in ticks: the last one may have begun only.
        let most = |ns| if ns == 0 { 0 } else { periods(ns, rate_hz) + 1 };
        let idle = most(meanwhile.idle_ns).saturating_sub(idle_times);
        Self { due: periods(event_ns, rate_hz), times, excused: most(meanwhile.stolen_ns) + idle }
    }
}

/// The periods of a clock in some time.
pub(super) fn periods(ns: u64, rate_hz: u32) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(rate_hz) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// The periods that are missing on the CPUs of an event. `throttled`: of all of them together.
pub(super) fn estimate(cpus: &BTreeMap<u32, Ran>, throttled: u64) -> NotRun {
    let mut not_run = NotRun::default();
    let mut largest = 0;
    for (cpu, ran) in cpus {
        let missing = ran.due.saturating_sub(ran.times).saturating_sub(ran.excused);
        if missing <= SLACK {
            continue;
        }
        not_run.periods += missing;
        let thousandths =
            u32::try_from(u128::from(missing) * 1000 / u128::from(ran.due.max(1))).unwrap_or(1000);
        if missing >= MIN_TOLD && thousandths > largest {
            largest = thousandths;
            not_run.worst = Some((*cpu, thousandths));
        }
    }
    // It is not known which CPUs were throttled, as no CPU lacks more than its own periods.
    not_run.periods = not_run.periods.saturating_sub(throttled);
    if not_run.periods == 0 || throttled > 0 {
        not_run.worst = None;
    }
    not_run
}

/// What each CPU has done since the system began, from the text of `/proc/stat` (proc_stat(5)). `tick_ns`: its unit.
pub(super) fn cpu_times(stat: &str, tick_ns: u64) -> BTreeMap<u32, CpuTimes> {
    let of_line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal
        let mut ns = [0_u64; 8];
        for ns in &mut ns {
            *ns = words.next()?.parse::<u64>().ok()?.saturating_mul(tick_ns);
        }
        Some((cpu, CpuTimes { idle_ns: ns[3].saturating_add(ns[4]), stolen_ns: ns[7] }))
    };
    // The line of all CPUs together has no number.
    stat.lines().filter(|line| !line.starts_with("cpu ")).filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn of(cpus: [(u64, u64, u64); 2], throttled_ns: u64) -> NotRun {
        let ran = cpus.map(|(event_ns, times, stolen_ns)| {
            Ran::of_clock(event_ns, times, 0, CpuTimes { idle_ns: 0, stolen_ns }, 100)
        });
        estimate(&(0..).zip(ran).collect(), periods(throttled_ns, 100))
    }

    #[test]
    fn what_is_missing_without_another_cause_was_not_run() {
        let none = NotRun::default();
        assert_eq!(of([(10 * SECOND, 1000, 0), (10 * SECOND, 998, 0)], 0), none, "the edges of a capture");
        assert_eq!(
            of([(10 * SECOND, 800, 0), (10 * SECOND, 1010, 0)], 0),
            NotRun { periods: 200, worst: Some((0, 200)) }
        );
        assert_eq!(of([(10 * SECOND, 500, 5 * SECOND), (10 * SECOND, 1000, 0)], 0), none, "stolen");
        let both = of([(10 * SECOND, 900, 0), (10 * SECOND, 500, 0)], 0);
        assert_eq!(both, NotRun { periods: 600, worst: Some((1, 500)) });
        assert_eq!(of([(10 * SECOND, 900, 0), (10 * SECOND, 500, 0)], 2 * SECOND).periods, 400, "throttled");
        assert_eq!(
            of([(10 * SECOND, 994, 0), (0, 0, 0)], 0),
            NotRun { periods: 6, worst: None },
            "too few to tell"
        );
        assert_eq!(of([(u64::MAX, 0, u64::MAX), (u64::MAX, 0, 0)], u64::MAX).worst, None);
    }

    #[test]
    fn idle_time_needs_no_runs() {
        let missing = |times, idle_times, idle_ns| {
            let ran = Ran::of_clock(10 * SECOND, times, idle_times, CpuTimes { idle_ns, stolen_ns: 0 }, 100);
            estimate(&BTreeMap::from([(0, ran)]), 0).periods
        };
        assert_eq!(missing(1000, 900, 9 * SECOND), 0, "a CPU that reports its idle time");
        assert_eq!(missing(100, 0, 9 * SECOND), 0, "one that does not");
        assert_eq!(missing(600, 500, 9 * SECOND), 0, "one that does at times");
        assert_eq!(missing(960, 900, 9 * SECOND), 39, "missing ones of a busy time, without the last tick");
        assert_eq!(missing(60, 0, 9 * SECOND), 39, "the same on a CPU that does not");
        assert_eq!(missing(960, 910, 9 * SECOND), 40, "idle time is coarse");
    }

    #[test]
    fn times_are_the_fourth_fifth_and_eighth_figures() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 30 9 10\ncpu12 1 2 3 4 5 6 7 50 9 10\ncpux 1\ncpu3 1 2\nintr 5 0\n";
        let told = |stolen_ns| CpuTimes { idle_ns: 90, stolen_ns };
        assert_eq!(cpu_times(stat, 10), BTreeMap::from([(0, told(300)), (12, told(500))]));
        let large = format!("cpu0 1 2 3 {0} {0} 6 7 8", u64::MAX);
        assert_eq!(cpu_times(&large, 10)[&0].idle_ns, u64::MAX);
    }
}
