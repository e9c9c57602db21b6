//! The statistics of counts.
//!
//! With a of A samples before and b of B after: by shares, the pooled share is p = (a + b)/(A + B) and z = (b/B - a/A) / sqrt(p(1 - p)(1/A + 1/B)). By time or
//! runs, of n = a + b samples b has a binomial distribution with q = T_B/(T_A + T_B), and z = (b - nq) / sqrt(nq(1 - q)). Few samples (n below
//! 100) are judged by the binomial distribution itself, with q = B/(A + B) by shares.
//!
//! Between several profiles of a side, as runs or intervals of a rotated capture, counts may scatter more than chance alone: a function that works in bursts
//! does. Profile i has x_i of m_i samples of its side, whose share is p; then phi = sum (x_i - m_i p)^2 / (m_i p (1 - p)) over the profiles of both sides,
//! divided by their number less 2, is the variance as a multiple of that of chance, of each function by itself. By time or runs, m_i p is the rate of the side
//! times the exposure of the profile, and 1 - p is 1. Where phi is above 1, z is divided by its root; and all are judged by Student's t with as many degrees of
//! freedom. The page of HTML reports has the same formulae (`formats`, `page/chance.js`).

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::question::Against;

/// Of what is called a discovery, this part is expected to be false.
const FALSE_DISCOVERIES: f64 = 0.01;
/// Fewer samples of a function are judged by the exact distribution.
const FEW: u64 = 100;
/// Quantile of the standard normal distribution for an interval of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;
/// The same for a change that is found in 80 of 100 comparisons.
const Z_80: f64 = 0.841_621_233_572_914_4;
/// The same for one that is found in 20 of 20 comparisons, in 95 of 100 such series.
const Z_ALWAYS: f64 = 2.799_2;

/// A function on one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    /// Samples of the function.
    pub(super) count: u64,
    /// The sum over the profiles of the side of the square of these samples, divided by the profile's exposure.
    pub(super) squares: f64,
    /// Samples of the side.
    pub(super) whole: u64,
    /// What samples are measured against.
    pub(super) exposure: f64,
    /// Profiles of the side.
    pub(super) profiles: usize,
}

/// What a comparison says of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) percent: f64,
    pub(super) interval: (f64, f64),
    pub(super) p_value: f64,
    pub(super) dispersion: Option<Dispersion>,
}

/// How the counts of a function scatter between the profiles of the sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispersion {
    /// The variance as a multiple of what chance alone gives.
    pub(super) phi: f64,
    /// Degrees of freedom behind it.
    pub(super) freedom: usize,
}

impl Dispersion {
    /// By what the variance of chance is multiplied: counts that scatter less than by chance do so by chance.
    pub(super) fn factor(self) -> f64 {
        self.phi.max(1.0)
    }
}

/// Measures the scatter; none if no side has several profiles.
pub(super) fn dispersion(a: Side, b: Side, against: Against) -> Option<Dispersion> {
    let freedom = (a.profiles + b.profiles).saturating_sub(2);
    let phi = (scatter(a, against) + scatter(b, against)) / freedom as f64;
    (freedom > 0).then_some(Dispersion { phi, freedom })
}

/// The sum over the profiles of a side of (x - m p)^2 / (m p (1 - p)), which is (sum x^2 / m - X p) / (p (1 - p)) with X samples of the side.
fn scatter(side: Side, against: Against) -> f64 {
    let rate = side.count as f64 / side.exposure;
    let spread = match against {
        Against::Samples => rate * (1.0 - rate),
        Against::Time | Against::Runs => rate,
    };
    if spread > 0.0 { (side.squares - side.count as f64 * rate).max(0.0) / spread } else { 0.0 }
}

/// The scatter of all functions with enough samples together, for what is told of the comparison as a whole.
pub(super) fn common_dispersion(functions: &[(Side, Side)], against: Against) -> Option<Dispersion> {
    let first = functions.first().and_then(|(a, b)| dispersion(*a, *b, against))?;
    let of = |(a, b): &(Side, Side)| dispersion(*a, *b, against).map(|of| of.phi);
    let known = functions.iter().filter(|(a, b)| a.count + b.count >= FEW);
    let all: Vec<f64> = known.filter_map(of).collect();
    let phi = if all.is_empty() { 1.0 } else { all.iter().sum::<f64>() / all.len() as f64 };
    Some(Dispersion { phi, ..first })
}

/// Judges the change of a function.
pub(super) fn judge(a: Side, b: Side, against: Against) -> Verdict {
    let dispersion = dispersion(a, b, against);
    let factor = dispersion.map_or(1.0, Dispersion::factor);
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
        two_sided(z / factor.sqrt(), dispersion)
    };
    let p_value = if p_value.is_finite() { p_value.clamp(0.0, 1.0) } else { 1.0 };
    Verdict { percent, interval, p_value, dispersion }
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
fn two_sided(z: f64, dispersion: Option<Dispersion>) -> f64 {
    if z.is_nan() {
        return 1.0;
    }
    let beyond = match dispersion.and_then(student) {
        Some(student) => student.sf(z.abs()),
        None => Normal::standard().sf(z.abs()),
    };
    2.0 * beyond
}

fn student(dispersion: Dispersion) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, dispersion.freedom as f64).ok()
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

/// The quantile for one discovery among `functions`.
fn discovery_quantile(functions: usize, dispersion: Option<Dispersion>) -> f64 {
    let at = 1.0 - FALSE_DISCOVERIES / functions.max(1) as f64 / 2.0;
    dispersion.and_then(student).map_or_else(|| Normal::standard().inverse_cdf(at), |of| of.inverse_cdf(at))
}

/// n = 2 phi ((z_alpha + z_beta) / delta)^2 samples in a function on each side show a change of delta in 20 of 20 comparisons.
pub(super) fn samples_needed(percent: f64, functions: usize, dispersion: Option<Dispersion>) -> u64 {
    let quantiles = discovery_quantile(functions, dispersion) + Z_ALWAYS;
    let n = 2.0 * dispersion.map_or(1.0, Dispersion::factor) * (quantiles / (percent / 100.0)).powi(2);
    if n.is_finite() { n.ceil() as u64 } else { u64::MAX }
}

/// The change in percent that is found in 80 of 100 comparisons if a function has `n.0` and `n.1` samples: the same formula, in which 2/n is the sum of both 1/n.
pub(super) fn smallest_visible(n: (f64, f64), functions: usize, dispersion: Option<Dispersion>) -> f64 {
    let quantiles = discovery_quantile(functions, dispersion) + Z_80;
    let factor = dispersion.map_or(1.0, Dispersion::factor);
    100.0 * quantiles * (factor * (1.0 / n.0 + 1.0 / n.1)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(count: u64, whole: u64) -> Side {
        Side { count, whole, exposure: whole as f64, profiles: 1, ..Side::default() }
    }

    #[test]
    fn equal_shares_are_no_change_and_large_differences_are_certain() {
        let same = judge(side(500, 1000), side(1000, 2000), Against::Samples);
        assert!(same.percent.abs() < 1e-9 && same.p_value > 0.99, "{same:?}");
        assert!(same.interval.0 < 0.0 && same.interval.1 > 0.0, "{same:?}");
        let more = judge(side(100, 1000), side(300, 1000), Against::Samples);
        assert!((more.percent - 200.0).abs() < 1e-9 && more.p_value < 1e-20, "{more:?}");
        assert!(more.interval.0 > 100.0 && more.interval.1 < 300.0, "{more:?}");
    }

    /// R: binom.test(8, 10, 0.5)$p.value = 0.109375; 2 * pnorm(-2) = 0.0455.
    #[test]
    fn p_values_are_those_of_the_distributions() {
        assert!((binomial(8, 10, 0.5) - 0.109_375).abs() < 1e-9);
        assert!((binomial(0, 10, 0.5) - 2.0 / 1024.0).abs() < 1e-12);
        assert!((two_sided(2.0, None) - 0.045_500_26).abs() < 1e-6);
        let student = |freedom| Some(Dispersion { phi: 1.0, freedom });
        assert!((two_sided(2.0, student(10)) - 0.073_388_0).abs() < 1e-5);
        for dispersion in [None, student(2)] {
            assert_eq!(two_sided(f64::NAN, dispersion), 1.0);
            assert!(two_sided(f64::INFINITY, dispersion) < 1e-9);
        }
    }

    #[test]
    fn a_new_function_has_an_infinite_growth_and_a_finite_interval() {
        let new = judge(side(0, 1000), side(40, 1000), Against::Samples);
        assert!(new.percent.is_infinite() && new.interval.0.is_finite() && new.interval.1.is_finite());
        assert!(new.p_value < 1e-9, "{new:?}");
    }

    #[test]
    fn runs_of_the_same_work_are_compared_by_their_number() {
        let run = |count, exposure| Side { exposure, ..side(count, 10_000) };
        let same = judge(run(1000, 1.0), run(2000, 2.0), Against::Runs);
        assert!(same.p_value > 0.99, "{same:?}");
        let slower = judge(run(1000, 1.0), run(1200, 1.0), Against::Runs);
        assert!((slower.percent - 20.0).abs() < 1e-9 && slower.p_value < 1e-4, "{slower:?}");
    }

    #[test]
    fn discoveries_follow_the_procedure() {
        // Limits of five values: 0.002, 0.004, 0.006, 0.008, 0.010.
        assert_eq!(discoveries(&[0.001, 0.005, 0.0055, 0.9, 0.5]), [true, true, true, false, false]);
        assert_eq!(discoveries(&[0.003, 0.0045, 0.9, 0.9, 0.9]), [false; 5]);
        assert!(discoveries(&[]).is_empty());
    }

    /// The design's figures: 35,800 samples for 5 % among 100 functions, and with bursts of variance x4 four times as many.
    #[test]
    fn the_size_that_is_needed_and_the_change_that_is_seen_follow_the_formula() {
        let needed = samples_needed(5.0, 100, None);
        assert!(needed.abs_diff(35_800) < 200, "{needed}");
        let bursts = Some(Dispersion { phi: 4.0, freedom: 1_000_000 });
        assert!(samples_needed(5.0, 100, bursts).abs_diff(4 * needed) < needed / 100);
        assert!(samples_needed(5.0, 1, None) < needed);
        let seen = smallest_visible((20_000.0, 20_000.0), 100, None);
        assert!((seen - 4.73).abs() < 0.01, "{seen}");
        let few_runs = Some(Dispersion { phi: 0.3, freedom: 10 });
        assert!(smallest_visible((20_000.0, 20_000.0), 100, few_runs) > 1.3 * seen);
        assert!(smallest_visible((20_000.0, 200.0), 100, None) > 6.0 * seen, "the smaller side decides");
    }

    /// Counts of four profiles of 1,000 samples each: 90, 110, 90, 110 of 1,000 scatter 400 / (100 * 0.9) in all, and a side that does not scatter adds
    /// freedom alone.
    #[test]
    fn the_scatter_of_a_function_is_that_of_its_counts() {
        let of = |counts: &[u64], exposures: f64| Side {
            count: counts.iter().sum(),
            squares: counts.iter().map(|count| (*count as f64).powi(2) / exposures).sum(),
            whole: 1000 * counts.len() as u64,
            exposure: exposures * counts.len() as f64,
            profiles: counts.len(),
        };
        let (bursts, even) = (of(&[90, 110, 90, 110], 1000.0), of(&[100, 100], 1000.0));
        let found = dispersion(bursts, even, Against::Samples).unwrap();
        assert!((found.phi - 400.0 / 90.0 / 4.0).abs() < 1e-9 && found.freedom == 4, "{found:?}");
        let by_run = dispersion(of(&[90, 110, 90, 110], 1.0), of(&[100], 1.0), Against::Runs).unwrap();
        assert!((by_run.phi - 400.0 / 100.0 / 3.0).abs() < 1e-9 && by_run.freedom == 3, "{by_run:?}");
        assert_eq!(dispersion(of(&[90], 1000.0), of(&[80], 1000.0), Against::Samples), None);
        assert_eq!(
            dispersion(of(&[0, 0], 1000.0), of(&[1000, 1000], 1000.0), Against::Samples).unwrap().phi,
            0.0
        );
    }
}
