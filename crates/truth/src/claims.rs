//! Pass or fail: the claims about time off the CPU.

use anyhow::{Result, bail};
use truth::blocking::{CASES, Lab};
use truth::tries::until_it_holds;

/// Each claim of [`CASES`], tried up to `tries` times: pass or fail.
pub fn check(lab: &Lab, tries: usize) -> Result<()> {
    let mut failed = 0;
    for (name, case) in CASES {
        let tried = until_it_holds(tries, || case(lab));
        tried.lines(&format!("off-CPU: {name}")).for_each(|line| println!("{line}"));
        match tried.last {
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
