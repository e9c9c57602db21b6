//! One function of a program: its own measurement beside that of a profile.

use super::meter::Meter;
use crate::frame::{Capture, Stack};

/// The measurements of one function: by the program itself, and in a profile.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// By the program itself.
    pub truth: Meter,
    /// Time in all states.
    pub ns: u64,
    /// Blocks that were no preemption.
    pub blocks: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Time in state `iowait`.
    pub iowait_ns: u64,
}

impl Comparison {
    /// By how much the profile's time differs, in per cent of the truth; 0 where there was nothing.
    #[must_use]
    pub fn error_pct(&self) -> f64 {
        let truth = self.truth.off_cpu_ns() as f64;
        if truth > 0.0 { (self.ns as f64 - truth) * 100.0 / truth } else { 0.0 }
    }
}

/// Compares each function that a program metered with the stacks that it is in.
#[must_use]
pub fn compare(capture: &Capture, truth: &[Meter]) -> Vec<Comparison> {
    let one = |truth: &Meter| {
        let in_it = |stack: &Stack| stack.has(&truth.name);
        Comparison {
            truth: truth.clone(),
            ns: capture.sums(in_it).1,
            blocks: capture.sums(|s| in_it(s) && s.state != "preempted").0,
            preemptions: capture.sums(|s| in_it(s) && s.state == "preempted").0,
            iowait_ns: capture.sums(|s| in_it(s) && s.state == "iowait").1,
        }
    };
    truth.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    #[test]
    fn states_are_told_apart() {
        let stack = |name: &str, state: &str, count, ns| Stack {
            frames: vec![Frame { name: Some(name.into()), ..Frame::default() }],
            state: state.into(),
            count,
            ns,
            ..Stack::default()
        };
        let stacks = vec![
            stack("site_a", "blocked", 3, 60),
            stack("site_a", "preempted", 2, 20),
            stack("site_a", "iowait", 1, 10),
            stack("site_b", "blocked", 9, 900),
        ];
        let capture = Capture { stacks, ..Capture::default() };
        let truth = Meter { name: "site_a".into(), wall_ns: 150, cpu_ns: 50, ..Meter::default() };
        let [measured] = &compare(&capture, &[truth])[..] else { panic!("one function") };
        assert_eq!((measured.ns, measured.blocks, measured.preemptions, measured.iowait_ns), (90, 4, 2, 10));
        assert!((measured.error_pct() + 10.0).abs() < 1e-9);
    }
}
