//! Claims that other work on the machine may spoil: each is tried several times, and every failure is reported.
//!
//! A wrong claim fails each time; other work spoils one measurement, not all. The caller prints the failures
//! before a success, because a claim that holds only at times hides a defect.

use std::fmt::Display;

/// The results of all tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tries<T, E> {
    /// The result of the last one.
    pub last: Result<T, E>,
    /// Why the others failed, in order.
    pub before: Vec<E>,
}

impl<T, E: Display> Tries<T, E> {
    /// A line for each failure that was followed by another try.
    pub fn lines(&self, name: &str) -> impl Iterator<Item = String> {
        self.before.iter().zip(1..).map(move |(error, n)| format!("unsteady {name}: try {n}: {error:#}"))
    }
}

/// Tries `claim` until it holds, at least once and at most `most` times.
pub fn until_it_holds<T, E>(most: usize, mut claim: impl FnMut() -> Result<T, E>) -> Tries<T, E> {
    let mut before = Vec::new();
    loop {
        match claim() {
            Err(error) if before.len() + 1 < most => before.push(error),
            last => return Tries { last, before },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_tried_until_it_holds_and_no_longer() {
        let mut calls = 0;
        let tries = until_it_holds(5, || {
            calls += 1;
            if calls < 3 { Err(calls) } else { Ok("it holds") }
        });
        assert_eq!(tries, Tries { last: Ok("it holds"), before: vec![1, 2] });
        assert_eq!(
            tries.lines("waits").collect::<Vec<_>>(),
            ["unsteady waits: try 1: 1", "unsteady waits: try 2: 2"]
        );
        assert_eq!(calls, 3);
    }

    #[test]
    fn a_wrong_claim_fails_each_time() {
        for most in [0, 1, 3] {
            let mut calls = 0;
            let tries = until_it_holds(most, || -> Result<(), usize> {
                calls += 1;
                Err(calls)
            });
            assert_eq!(tries.last, Err(most.max(1)));
            assert_eq!(tries.before.len(), calls - 1);
        }
    }
}
