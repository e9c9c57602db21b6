//! Start-up of perf-agent's library over a synthetic fleet, with the time that each binary's unwind table takes.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use perfagent::{Agent, Mode, Unwind};
use rustix::time::{ClockId, clock_gettime};

use crate::fleet::Fleet;
use crate::record::{Cache, Machine, Run, Scope, Setting, TableTime};

/// The preparation of runs: a fleet, and the folder that keeps tables between runs.
#[derive(Debug)]
pub struct Scenario {
    setting: Setting,
    fleet: Fleet,
    cache: tempfile::TempDir,
}

impl Scenario {
    /// Starts the fleet. With a warm cache, fills it by one capture that is not measured.
    ///
    /// # Errors
    /// If a process of the fleet or the capture cannot be started.
    pub fn prepare(setting: Setting, out: &Path) -> Result<Self> {
        let fleet = Fleet::start(out, setting.processes, setting.binaries).context("start a fleet")?;
        let cache = tempfile::tempdir().context("create a folder for unwind tables")?;
        let scenario = Self { setting, fleet, cache };
        if scenario.setting.cache == Cache::Warm {
            scenario.run(Duration::from_millis(500))?;
        }
        Ok(scenario)
    }

    /// Measures one capture of the given length.
    ///
    /// # Errors
    /// If the capture fails, for example for lack of privileges.
    pub fn run(&self, length: Duration) -> Result<Run> {
        let cache = self.cache.path().join("tables");
        if self.setting.cache == Cache::Empty && cache.exists() {
            std::fs::remove_dir_all(&cache).context("empty the cache of unwind tables")?;
        }
        let tables = Arc::new(Mutex::new(Vec::new()));
        let (told, cpu_before, begun) = (Arc::clone(&tables), cpu_time(), Instant::now());
        let builder = match self.setting.scope {
            Scope::Machine => Agent::builder().system_wide(),
            Scope::Fleet => Agent::builder().pids(self.fleet.pids()),
        };
        let unwind = if self.setting.all_tables { Unwind::Dwarf } else { Unwind::Auto };
        let builder = builder.with_cpu_profile().sample_rate(999).unwind(unwind).table_cache_dir(cache);
        let builder = builder.on_table_compiled(move |table| {
            let time = TableTime {
                path: table.path.clone(),
                rows: table.rows,
                compile_ms: milliseconds(table.compile_time),
                cached: table.cached,
                ready_ms: milliseconds(begun.elapsed()),
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).push(time);
        });
        let agent = builder.build().context("configure a capture")?;
        agent.start().context("start a capture")?;
        let (start, cpu) = (begun.elapsed(), cpu_time().saturating_sub(cpu_before));
        agent.wait(length);
        let report = agent.stop().context("stop a capture")?;
        let ledger = report.ledger(Mode::OnCpu).context("the capture has no ledger")?;
        let tables = std::mem::take(&mut *tables.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Run {
            setting: self.setting.clone(),
            machine: Machine::here(),
            start_ms: milliseconds(start),
            start_cpu_ms: milliseconds(cpu),
            samples: ledger.samples as f64,
            rooted_pct: ledger.rooted_pct().unwrap_or(0.0),
            lost: ledger.lost() as f64,
            tables,
        })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
