//! The statistics of counts.
//!
//! With a of A samples before and b of B after: by shares, the pooled share is p = (a + b)/(A + B) and z = (b/B - a/A) / sqrt(p(1 - p)(1/A + 1/B)). By time or
//! runs, of n = a + b samples b has a binomial distribution with q = T_B/(T_A + T_B), and z = (b - nq) / sqrt(nq(1 - q)). Few samples (n below
//! 100) are judged by the binomial distribution itself, with q = B/(A + B) by shares. Between several profiles of a side counts may scatter more than
//! chance alone; then z is divided by the root of that factor and judged by Student's t.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::counts::Counts;
use super::question::Against;

/// Of what is called a discovery, this part is expected to be false.
const FALSE_DISCOVERIES: f64 = 0.01;
/// Fewer samples of a function are judged by the exact distribution.
const FEW: u64 = 100;
/// Quantile of the standard normal distribution for an interval of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;
/// The same for a change that is found in 80 of 100 comparisons.
const Z_80: f64 = 0.841_621_233_572_914_4;

/// A function on one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// Samples of the function.
    pub(super) count: u64,
    /// Samples of the side.
    pub(super) whole: u64,
    /// What samples are measured against.
    pub(super) exposure: f64,
}

/// What a comparison says of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) percent: f64,
    pub(super) interval: (f64, f64),
    pub(super) p_value: f64,
}

/// How counts scatter between the profiles of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispersion {
    /// The variance as a multiple of what chance alone gives, at least 1.
    pub(super) factor: f64,
    /// Degrees of freedom behind it.
    freedom: f64,
}

/// Measures the scatter; none unless both sides have several profiles.
pub(super) fn dispersion(sides: [&Counts; 2]) -> Option<Dispersion> {
    if sides.iter().any(|side| side.wholes.len() < 2) {
        return None;
    }
    let (mut squares, mut terms) = (0.0, 0usize);
    for side in sides {
        for function in side.functions().filter(|function| function.sum() >= FEW) {
            let share = function.sum() as f64 / side.whole().max(1) as f64;
            for (count, whole) in function.0.iter().zip(&side.wholes) {
                let expected = *whole as f64 * share;
                if expected > 0.0 {
                    squares += (*count as f64 - expected).powi(2) / (expected * (1.0 - share).max(1e-9));
                }
            }
            terms += function.0.len() - 1;
        }
    }
    let freedom = (sides[0].wholes.len() + sides[1].wholes.len() - 2) as f64;
    let factor = if terms == 0 { 1.0 } else { (squares / terms as f64).max(1.0) };
    Some(Dispersion { factor, freedom })
}

/// Judges the change of a function.
pub(super) fn judge(a: Side, b: Side, against: Against, dispersion: Option<Dispersion>) -> Verdict {
    let factor = dispersion.map_or(1.0, |of| of.factor);
    let (percent, interval) = growth(a, b, against, factor);
    let n = a.count + b.count;
    let q = b.exposure / (a.exposure + b.exposure);
    let p_value = if n < FEW && factor <= 1.0 {
        binomial(b.count, n, q)
    } else {
        let z = match against {
            Against::Samples => z_of_shares(a, b),
            Against::Time | Against::Runs => {
                let n = n as f64;
                (b.count as f64 - n * q) / (n * q * (1.0 - q)).sqrt()
            }
        };
        two_sided(z / factor.sqrt(), dispersion.map(|of| of.freedom))
    };
    Verdict { percent, interval, p_value: if p_value.is_finite() { p_value.clamp(0.0, 1.0) } else { 1.0 } }
}

fn z_of_shares(a: Side, b: Side) -> f64 {
    let (whole_a, whole_b) = (a.whole as f64, b.whole as f64);
    let pooled = (a.count + b.count) as f64 / (whole_a + whole_b);
    let difference = b.count as f64 / whole_b - a.count as f64 / whole_a;
    difference / (pooled * (1.0 - pooled) * (1.0 / whole_a + 1.0 / whole_b)).sqrt()
}

/// The growth in percent, with its interval of 95 %: by the logarithm of the ratio, whose variance is 1/a + 1/b, and by shares less 1/A and 1/B.
fn growth(a: Side, b: Side, against: Against, factor: f64) -> (f64, (f64, f64)) {
    let rate = |side: Side, count: f64| count / side.exposure;
    let percent = match a.count {
        0 => f64::INFINITY,
        count => 100.0 * (rate(b, b.count as f64) / rate(a, count as f64) - 1.0),
    };
    // Half a sample more on each side keeps the interval finite where a side has none.
    let (count_a, count_b) = (a.count as f64 + 0.5, b.count as f64 + 0.5);
    let shared = match against {
        Against::Samples => 1.0 / (a.whole as f64 + 1.0) + 1.0 / (b.whole as f64 + 1.0),
        Against::Time | Against::Runs => 0.0,
    };
    let deviation = ((1.0 / count_a + 1.0 / count_b - shared).max(0.0) * factor).sqrt();
    let middle = (rate(b, count_b) / rate(a, count_a)).ln();
    let end = |sign: f64| 100.0 * ((middle + sign * Z_95 * deviation).exp() - 1.0);
    (percent, (end(-1.0), end(1.0)))
}

/// How likely `b` of `n` or something as unlikely is.
fn binomial(b: u64, n: u64, q: f64) -> f64 {
    let Ok(distribution) = Binomial::new(q, n) else { return 1.0 };
    let at_most = distribution.cdf(b);
    let at_least = if b == 0 { 1.0 } else { distribution.sf(b - 1) };
    (2.0 * at_most.min(at_least)).min(1.0)
}

/// How likely a deviation of `z` or more is. One that is not defined, as that of a function in all samples of both sides, is no deviation.
fn two_sided(z: f64, freedom: Option<f64>) -> f64 {
    if z.is_nan() {
        return 1.0;
    }
    let beyond = match freedom.map(|freedom| StudentsT::new(0.0, 1.0, freedom)) {
        Some(Ok(student)) => student.sf(z.abs()),
        _ => Normal::standard().sf(z.abs()),
    };
    2.0 * beyond
}

/// Which of these are discoveries, by Benjamini and Hochberg's procedure: the largest k is sought for which the k-th smallest value is at most
/// k/m times the rate.
pub(super) fn discoveries(p_values: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let limit = |rank: usize| (rank + 1) as f64 / p_values.len() as f64 * FALSE_DISCOVERIES;
    let kept = order.iter().enumerate().rposition(|(rank, at)| p_values[*at] <= limit(rank));
    let mut found = vec![false; p_values.len()];
    order.iter().take(kept.map_or(0, |last| last + 1)).for_each(|at| found[*at] = true);
    found
}

/// Both quantiles of the formula below: for one discovery among `functions`, and for 80 of 100 comparisons.
fn quantiles(functions: usize) -> f64 {
    let alpha = FALSE_DISCOVERIES / functions.max(1) as f64;
    Normal::standard().inverse_cdf(1.0 - alpha / 2.0) + Z_80
}

/// n = 2 factor ((z_alpha + z_beta) / delta)^2 samples in a function on each side show a change of delta.
pub(super) fn samples_needed(percent: f64, functions: usize, factor: f64) -> u64 {
    let n = 2.0 * factor * (quantiles(functions) / (percent / 100.0)).powi(2);
    if n.is_finite() { n.ceil() as u64 } else { u64::MAX }
}

/// The change in percent that `n` samples in a function on each side show.
pub(super) fn smallest_visible(n: f64, functions: usize, factor: f64) -> f64 {
    100.0 * quantiles(functions) * (2.0 * factor / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(count: u64, whole: u64) -> Side {
        Side { count, whole, exposure: whole as f64 }
    }

    #[test]
    fn equal_shares_are_no_change_and_large_differences_are_certain() {
        let same = judge(side(500, 1000), side(1000, 2000), Against::Samples, None);
        assert!(same.percent.abs() < 1e-9 && same.p_value > 0.99, "{same:?}");
        assert!(same.interval.0 < 0.0 && same.interval.1 > 0.0, "{same:?}");
        let more = judge(side(100, 1000), side(300, 1000), Against::Samples, None);
        assert!((more.percent - 200.0).abs() < 1e-9 && more.p_value < 1e-20, "{more:?}");
        assert!(more.interval.0 > 100.0 && more.interval.1 < 300.0, "{more:?}");
    }

    /// R: binom.test(8, 10, 0.5)$p.value = 0.109375; 2 * pnorm(-2) = 0.0455.
    #[test]
    fn p_values_are_those_of_the_distributions() {
        assert!((binomial(8, 10, 0.5) - 0.109_375).abs() < 1e-9);
        assert!((binomial(0, 10, 0.5) - 2.0 / 1024.0).abs() < 1e-12);
        assert!((two_sided(2.0, None) - 0.045_500_26).abs() < 1e-6);
        assert!((two_sided(2.0, Some(10.0)) - 0.073_388_0).abs() < 1e-5);
        for freedom in [None, Some(2.0)] {
            assert_eq!(two_sided(f64::NAN, freedom), 1.0);
            assert!(two_sided(f64::INFINITY, freedom) < 1e-9);
        }
    }

    #[test]
    fn a_new_function_has_an_infinite_growth_and_a_finite_interval() {
        let new = judge(side(0, 1000), side(40, 1000), Against::Samples, None);
        assert!(new.percent.is_infinite() && new.interval.0.is_finite() && new.interval.1.is_finite());
        assert!(new.p_value < 1e-9, "{new:?}");
    }

    #[test]
    fn runs_of_the_same_work_are_compared_by_their_number() {
        let run = |count, runs| Side { count, whole: 10_000, exposure: runs };
        let same = judge(run(1000, 1.0), run(2000, 2.0), Against::Runs, None);
        assert!(same.p_value > 0.99, "{same:?}");
        let slower = judge(run(1000, 1.0), run(1200, 1.0), Against::Runs, None);
        assert!((slower.percent - 20.0).abs() < 1e-9 && slower.p_value < 1e-4, "{slower:?}");
    }

    #[test]
    fn discoveries_follow_the_procedure() {
        // Limits of five values: 0.002, 0.004, 0.006, 0.008, 0.010.
        assert_eq!(discoveries(&[0.001, 0.005, 0.0055, 0.9, 0.5]), [true, true, true, false, false]);
        assert_eq!(discoveries(&[0.003, 0.0045, 0.9, 0.9, 0.9]), [false; 5]);
        assert!(discoveries(&[]).is_empty());
    }

    #[test]
    fn the_size_that_is_needed_and_the_change_that_is_seen_agree() {
        let needed = samples_needed(5.0, 100, 1.0);
        assert!((smallest_visible(needed as f64, 100, 1.0) - 5.0).abs() < 0.01);
        assert!(samples_needed(5.0, 1, 1.0) < needed && samples_needed(5.0, 100, 4.0) > 3 * needed);
    }
}
