//! Two agents at once.

use std::time::Duration;

use truth::profiler::Scope;
use truth::programs::{all, sources};
use truth::roots::Roots;
use truth::target::Target;
use truth::verdict::Verdict;

use crate::Setup;

#[test]
fn two_agents_do_not_disturb_each_other() {
    let Some(setup) = Setup::beside_others() else { return };
    let program = all().into_iter().find(|p| p.name == "recurse-gcc-O2-dynamic-36").unwrap();
    program.build(&sources(), &setup.out).unwrap();
    let target = Target::start(&program, &setup.out).unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut agents: Vec<_> = folders
        .iter()
        .zip([Scope::Process(target.pid()), Scope::Machine])
        .map(|(folder, scope)| setup.profiler().start(scope, 3.0, 4999, folder.path()).unwrap())
        .collect();
    for agent in &mut agents {
        agent.wait(Duration::from_secs(60)).unwrap();
    }
    let mut counts = Vec::new();
    for agent in agents {
        let mut capture = agent.finish().unwrap();
        capture.stacks.retain(|s| s.pid == target.pid());
        counts.push(capture.samples() as f64);
        // With -a the first samples come before their tables; they are marked.
        let verdict = Verdict::of(&capture, &program, &Roots::default()).unwrap();
        assert!(verdict.exact > 0 && verdict.exact_pct_once_ready() >= 99.0, "{verdict:?}");
    }
    // They do not begin at the same moment, and a busy machine gives the program now more, now less.
    let ratio = counts[0] / counts[1];
    assert!(counts[0] > 150.0 && (0.6..1.7).contains(&ratio), "{counts:?}");
}
