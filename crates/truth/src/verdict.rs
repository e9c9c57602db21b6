//! How good a capture is: how many samples reach the start of their thread, how many show the true call chain, and how many show
//! another one without saying that something is missing.

use crate::frame::{Capture, Stack};
use crate::pattern::{Pattern, PatternError};
use crate::programs::Program;
use crate::roots::Roots;

/// The words by which perf-agent marks a stack that was sampled before its tables were ready.
const NOT_READY: &str = "unwind table not ready";

/// Whether a stack is marked as sampled before its tables were ready.
#[must_use]
pub fn is_early(stack: &Stack) -> bool {
    stack.truncated.as_ref().is_some_and(|cause| cause.contains(NOT_READY))
}

/// How many samples of a capture are right.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Samples judged.
    pub samples: u64,
    /// Samples that reach the start of their thread.
    pub rooted: u64,
    /// Samples that are rooted and follow the program's true chain in every frame.
    pub exact: u64,
    /// Samples that do not reach the start of their thread and are not marked as truncated.
    pub silent: u64,
    /// Samples that were taken before their unwind tables were ready.
    pub early: u64,
    /// Samples that are not marked as truncated and do not follow the program's true chain in every frame.
    pub wrong: u64,
    /// The stacks that are not exact, most frequent first, at most ten.
    pub inexact: Vec<(u64, String)>,
}

impl Verdict {
    /// Judges all samples of a capture of a program.
    ///
    /// # Errors
    /// If a pattern of the program is malformed.
    pub fn of(capture: &Capture, program: &Program, roots: &Roots) -> Result<Self, PatternError> {
        let chains = program.chains.iter().map(|c| Pattern::read(c)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::judge(capture, roots, |stack| chains.iter().any(|chain| chain.matches(stack))))
    }

    /// Judges a capture of a program whose chains are not known: each rooted sample counts as exact.
    #[must_use]
    pub fn rooted_only(capture: &Capture, roots: &Roots) -> Self {
        Self::judge(capture, roots, |_| true)
    }

    fn judge(capture: &Capture, roots: &Roots, is_exact: impl Fn(&Stack) -> bool) -> Self {
        let mut verdict = Self::default();
        for stack in &capture.stacks {
            verdict.samples += stack.count;
            let rooted = roots.is_rooted(stack);
            let exact = rooted && is_exact(stack);
            if rooted {
                verdict.rooted += stack.count;
            } else if stack.truncated.is_some() {
                verdict.early += if is_early(stack) { stack.count } else { 0 };
            } else {
                verdict.silent += stack.count;
            }
            if exact {
                verdict.exact += stack.count;
            } else {
                verdict.wrong += if stack.truncated.is_none() { stack.count } else { 0 };
                verdict.inexact.push((stack.count, stack.display()));
            }
        }
        verdict.inexact.sort_by(|a, b| b.cmp(a));
        verdict.inexact.truncate(10);
        verdict
    }

    /// Rooted samples in per cent of all; 0 without samples.
    #[must_use]
    pub fn rooted_pct(&self) -> f64 {
        percent(self.rooted, self.samples)
    }

    /// Exact samples in per cent of those that did not come too early: how soon tables come is another question. 0 without
    /// such samples.
    #[must_use]
    pub fn exact_pct_once_ready(&self) -> f64 {
        percent(self.exact, self.samples - self.early)
    }

    /// Exact samples in per cent of all; 0 without samples.
    #[must_use]
    pub fn exact_pct(&self) -> f64 {
        percent(self.exact, self.samples)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    fn stack(names: &str, count: u64, truncated: bool) -> Stack {
        let frames = names.split(' ').map(|n| Frame { name: Some(n.into()), ..Frame::default() }).collect();
        let truncated = truncated.then(|| "[truncated: unreadable stack]".to_owned());
        Stack { frames, count, truncated, ..Stack::default() }
    }

    #[test]
    fn each_kind_of_wrong_is_counted_apart() {
        let stacks = vec![
            stack("_start main a b", 90, false),
            stack("_start main b", 5, false),
            stack("a b", 2, true),
            Stack { truncated: Some(format!("[truncated: {NOT_READY}]")), ..stack("b", 1, true) },
            stack("main a b", 2, false),
        ];
        let capture = Capture { stacks, ..Capture::default() };
        let program = Program { chains: vec!["_start main a b".into()], ..Program::default() };
        let verdict = Verdict::of(&capture, &program, &Roots::default()).unwrap();
        assert_eq!((verdict.samples, verdict.rooted, verdict.exact), (100, 95, 90));
        assert_eq!((verdict.silent, verdict.early, verdict.wrong), (2, 1, 7));
        assert_eq!(verdict.inexact[0], (5, "_start > main > b".into()));
        assert!((verdict.rooted_pct() - 95.0).abs() < 1e-9 && (verdict.exact_pct() - 90.0).abs() < 1e-9);
        assert!((verdict.exact_pct_once_ready() - 9000.0 / 99.0).abs() < 1e-9);
    }
}
