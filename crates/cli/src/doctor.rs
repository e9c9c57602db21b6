//! `perf-agent doctor`: prints the checks of the library.

use std::io::Write;
use std::process::ExitCode;

use perfagent::doctor::{self, Check, Status};

/// Runs the checks and prints them on standard output.
pub fn run(json: bool) -> anyhow::Result<ExitCode> {
    let checks = doctor::run();
    let text = if json { as_json(&checks)? } else { as_text(&checks) };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let failed = checks.iter().any(|check| check.status == Status::Fail);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn as_json(checks: &[Check]) -> serde_json::Result<String> {
    let array: Vec<_> = checks
        .iter()
        .map(|check| {
            serde_json::json!({
                "check": check.check,
                "status": check.status.name(),
                "value": check.value,
                "affects": check.affects,
                "fix": check.fix,
            })
        })
        .collect();
    serde_json::to_string_pretty(&array).map(|text| text + "\n")
}

fn as_text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
    let line = |check: &Check| {
        let Check { check: name, status, value, affects, .. } = check;
        let fix = check.fix.as_ref().map(|fix| format!("; fix: {fix}")).unwrap_or_default();
        format!("{:<4}  {name:<width$}  {value} [{affects}]{fix}\n", status.name())
    };
    checks.iter().map(line).collect()
}
