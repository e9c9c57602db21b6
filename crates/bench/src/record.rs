//! The result of one run of a scenario: a JSON file, which `report` reads again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Identifies the format of the file. The number changes with the format.
const SCHEMA: &str = "perf-agent.bench.scenario/1";

/// Whether unwind tables are on disk when the capture starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// No table is on disk: each is compiled.
    Empty,
    /// All tables are on disk: each is read.
    Warm,
}

/// What is profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The processes of the fleet, as targets.
    Fleet,
    /// The whole machine.
    Machine,
}

/// What is measured. Runs of equal settings are comparable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::Args)]
pub struct Setting {
    /// Number of processes.
    #[arg(long, default_value_t = 100)]
    pub processes: usize,
    /// Number of distinct binaries.
    #[arg(long, default_value_t = 100)]
    pub binaries: usize,
    /// What is profiled.
    #[arg(long, value_enum, default_value = "fleet")]
    pub scope: Scope,
    /// Compile all tables before the first sample (`--unwind dwarf`).
    #[arg(long)]
    pub all_tables: bool,
    /// Whether unwind tables are on disk already.
    #[arg(long, value_enum, default_value = "empty")]
    pub cache: Cache,
    /// A word that distinguishes runs, such as the version that is measured.
    #[arg(long, default_value = "")]
    pub label: String,
}

/// Where it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Number of CPUs.
    pub cpus: usize,
}

/// The unwind table of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableTime {
    /// The file.
    pub path: String,
    /// Rows of the table.
    pub rows: usize,
    /// Time that a worker thread took for it.
    pub compile_ms: f64,
    /// It was read from the cache.
    pub cached: bool,
    /// From the start to the moment at which the table was known to be ready.
    pub ready_ms: f64,
}

/// One measured capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was measured.
    pub setting: Setting,
    /// Where.
    pub machine: Machine,
    /// From the call of `start` to its return; samples are taken from then on.
    pub start_ms: f64,
    /// CPU time of the process until then.
    pub start_cpu_ms: f64,
    /// Samples.
    pub samples: f64,
    /// Complete stacks in per cent.
    pub rooted_pct: f64,
    /// Lost samples.
    pub lost: f64,
    /// The unwind tables, in the order in which they were ready.
    pub tables: Vec<TableTime>,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    #[serde(flatten)]
    run: Run,
}

impl Setting {
    /// The setting in words.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { processes, binaries, scope, all_tables, cache, label } = self;
        let scope = match scope {
            Scope::Fleet => "the fleet",
            Scope::Machine => "the machine",
        };
        let tables = if *all_tables { "all tables first" } else { "tables as needed" };
        let cache = match cache {
            Cache::Empty => "cache empty",
            Cache::Warm => "cache warm",
        };
        let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
        format!("{label}{processes} processes, {binaries} binaries, {scope}, {tables}, {cache}")
    }
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Self { kernel, cpus: std::thread::available_parallelism().map_or(0, usize::from) }
    }
}

impl Run {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(self, path: &Path) -> Result<()> {
        let file = File { schema: SCHEMA.to_owned(), run: self };
        let text = serde_json::to_string_pretty(&file).context("write a run as JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
    }

    /// Reads what [`Run::write`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or has another format.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let file: File = serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
        ensure!(file.schema == SCHEMA, "{}: its schema is {}, not {SCHEMA}", path.display(), file.schema);
        Ok(file.run)
    }
}
