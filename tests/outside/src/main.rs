//! Profiles a command through the library `perfagent`, keeps the profile in memory, and prints what the ledger says of it.
//!
//! It stands outside of the workspace, so it is built as the program of any user of the library is: without the workspace's
//! settings.

use std::error::Error;
use std::process::Command;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    // A second of CPU time, however busy the machine is.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t 1; exec sha256sum /dev/zero"]);
    let pprof = perfagent::MemorySink::new();
    let agent = perfagent::Agent::builder()
        .command(command)
        .sample_rate(199)
        .cpu_profile_to(pprof.clone())
        .build()?;
    agent.start()?;
    agent.wait(Duration::from_secs(120));
    let report = agent.stop()?;
    let ledger = report.ledgers.first().ok_or("there is no ledger")?;
    println!(
        "{} samples, {:.0} % rooted, {} bytes of pprof, ended by {:?}",
        ledger.samples,
        ledger.rooted_pct().unwrap_or_default(),
        pprof.take().len(),
        report.ended_by,
    );
    Ok(())
}
