//! Follows a capture: cuts an interval each second, waits for its names, and tells what the agent uses.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use live::{Figures, Interval, Mode, Part};
use perfagent::{Agent, CancelToken, Config, Ended, Error, Recording, Report};

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An interval waits so long for its names, and so many intervals wait.
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_WAITING: usize = 20;

/// What the view is told.
pub enum Update {
    /// An interval with names.
    Interval(Interval),
    /// How the capture stands.
    Status(live::Status),
    /// A line for the foot.
    Said(String),
    /// The capture failed; its thread returns the error.
    Failed,
}

/// Follows the capture until `end`, or until it ends. Then the capture is stopped, and nothing stays attached.
pub fn follow(
    agent: &Agent,
    config: &Config,
    target: &str,
    end: &CancelToken,
    updates: SyncSender<Update>,
) -> Result<Report, Error> {
    let mut follower = Follower {
        agent,
        updates,
        waiting: VecDeque::new(),
        status: live::Status { target: target.to_owned(), ..live::Status::default() },
        cost: (Instant::now(), cpu_time()),
    };
    let followed = follower.until_end(config.duration(), end);
    let abandon = CancelToken::new();
    if end.is_cancelled() || followed.is_err() {
        abandon.cancel();
    }
    let stopped = agent.stop_with(&abandon);
    match (followed, stopped) {
        (Ok(why), Ok(report)) => {
            follower.finish(report.recording().clone(), why);
            Ok(report)
        }
        (Err(error), _) | (_, Err(error)) => {
            let _gone_is_fine = follower.updates.send(Update::Failed);
            Err(error)
        }
    }
}

struct Follower<'a> {
    agent: &'a Agent,
    updates: SyncSender<Update>,
    /// Intervals that wait for names, with the time of their cut.
    waiting: VecDeque<(Recording, Instant)>,
    status: live::Status,
    /// When the CPU time of the agent was read last, and what it was.
    cost: (Instant, Duration),
}

impl Follower<'_> {
    /// Returns why the capture ends.
    fn until_end(&mut self, length: Option<Duration>, end: &CancelToken) -> Result<&'static str, Error> {
        let start = Instant::now();
        let mut due = start + INTERVAL;
        self.tell(start);
        while !end.is_cancelled() {
            if self.agent.wait(LOOK_EVERY) != Ended::Duration {
                return Ok("all targets have exited");
            }
            if length.is_some_and(|length| start.elapsed() >= length) {
                return Ok("its time is over");
            }
            self.hand_out();
            if Instant::now() >= due {
                // A cut that took longer than an interval is not made up for.
                due = (due + INTERVAL).max(Instant::now());
                match self.agent.cut() {
                    Ok(recording) => self.waiting.push_back((recording, Instant::now())),
                    Err(Error::NotRunning) => return Ok("all targets have exited"),
                    Err(error) => return Err(error),
                }
                self.hand_out();
                self.tell(start);
            }
        }
        Ok("stopped")
    }

    /// Hands out the intervals that have their names, or waited long enough, in order.
    fn hand_out(&mut self) {
        while let Some((recording, cut)) = self.waiting.front() {
            let is_late = cut.elapsed() > PATIENCE || self.waiting.len() > MAX_WAITING;
            if recording.names_left() > 0 {
                if !is_late {
                    return;
                }
                recording.abandon_symbolization();
            }
            let interval = interval(recording);
            self.waiting.pop_front();
            self.send(Update::Interval(interval));
        }
    }

    /// Tells how the capture stands.
    fn tell(&mut self, start: Instant) {
        let (now, used) = (Instant::now(), cpu_time());
        let (before, used_before) = std::mem::replace(&mut self.cost, (now, used));
        let elapsed = now.saturating_duration_since(before).as_secs_f64();
        if elapsed > 0.5 {
            self.status.agent_pct = used.saturating_sub(used_before).as_secs_f64() * 100.0 / elapsed;
        }
        self.status.agent_mib = resident_mib();
        self.status.seconds = start.elapsed().as_secs();
        self.status.names_left = self.waiting.iter().map(|(recording, _)| recording.names_left()).sum();
        self.send(Update::Status(self.status.clone()));
    }

    /// Hands out the rest. The view stays.
    fn finish(&mut self, last: Recording, why: &str) {
        if why == "stopped" {
            return;
        }
        self.waiting.push_back((last, Instant::now()));
        while let Some((recording, _)) = self.waiting.pop_front() {
            self.send(Update::Interval(interval(&recording)));
        }
        self.status.names_left = 0;
        self.status.ended = Some(why.to_owned());
        self.send(Update::Status(self.status.clone()));
    }

    fn send(&self, update: Update) {
        // Without a receiver, the view has ended.
        let _gone_is_fine = self.updates.send(update);
    }
}

/// The profiles of an interval.
fn interval(recording: &Recording) -> Interval {
    let modes = [(Mode::OnCpu, perfagent::Mode::OnCpu), (Mode::OffCpu, perfagent::Mode::OffCpu)];
    let part = |(mode, of): (Mode, perfagent::Mode)| {
        let profile = recording.profile(of)?;
        Some(Part { mode, profile, figures: Figures::of(recording.ledger(of)) })
    };
    Interval { parts: modes.into_iter().filter_map(part).collect() }
}

/// The CPU time of this process, the screen included.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The memory of this process; 0 if it is not known.
fn resident_mib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    (pages * rustix::param::page_size() as u64) >> 20
}
