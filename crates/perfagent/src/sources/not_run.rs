//! Periods of the sampling event in which the kernel ran no program: of the clock an estimate.
//!
//! While a thread changes a BPF map, the kernel runs no BPF program of events on its CPU and counts nothing. The event itself goes on, and
//! its program counts its runs: what is missing between the two was not run. Time that the hypervisor took, in which no timer fires, and
//! throttled time have other causes; where they are coarse, the estimate is low.

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
    /// Of the periods, those that the hypervisor took.
    pub(super) stolen: u64,
}

impl Ran {
    /// Of a clock: the event ran for `event_ns`, of which the hypervisor took `stolen_ns`.
    pub(super) fn of_clock(event_ns: u64, times: u64, stolen_ns: u64, rate_hz: u32) -> Self {
        // Time of the hypervisor is told in ticks: the last one may have begun only.
        let stolen = if stolen_ns == 0 { 0 } else { periods(stolen_ns, rate_hz) + 1 };
        Self { due: periods(event_ns, rate_hz), times, stolen }
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
        let missing = ran.due.saturating_sub(ran.times).saturating_sub(ran.stolen);
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

/// The time that the hypervisor took from each CPU, from the text of `/proc/stat` (proc_stat(5)). `tick_ns`: its unit.
pub(super) fn stolen_ns(stat: &str, tick_ns: u64) -> BTreeMap<u32, u64> {
    let of_line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: u64 = words.nth(7)?.parse().ok()?;
        Some((cpu, ticks.saturating_mul(tick_ns)))
    };
    // The line of all CPUs together has no number.
    stat.lines().filter(|line| !line.starts_with("cpu ")).filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn of(cpus: [(u64, u64, u64); 2], throttled_ns: u64) -> NotRun {
        let ran = cpus.map(|(event_ns, times, stolen_ns)| Ran::of_clock(event_ns, times, stolen_ns, 100));
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
    fn time_of_the_hypervisor_is_the_eighth_figure() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 30 9 10\ncpu12 1 2 3 4 5 6 7 50 9 10\ncpux 1\ncpu3 1 2\nintr 5 0\n";
        assert_eq!(stolen_ns(stat, 10), BTreeMap::from([(0, 300), (12, 500)]));
    }
}
