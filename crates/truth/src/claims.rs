//! Pass or fail: the claims about time off the CPU.

use anyhow::{Result, bail};
use truth::blocking::{CASES, Lab};

/// Each claim of [`CASES`]: pass or fail.
pub fn check(lab: &Lab) -> Result<()> {
    let mut failed = 0;
    for (name, case) in CASES {
        match case(lab) {
            Ok(()) => println!("ok       off-CPU: {name}"),
            Err(error) => {
                println!("FAILED   off-CPU: {name}: {error:#}");
                failed += 1;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} claims about time off the CPU failed", CASES.len());
    }
    Ok(())
}
