//! Comparisons of made-up captures whose truth is known.

use std::slice;

use profile::{Builder, Profile, ValueType};

use super::*;

/// A generator of equal numbers in each run of the tests (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with Poisson's distribution; above 100 with the normal one of the same mean and variance.
    fn poisson(&mut self, mean: f64) -> i64 {
        if mean > 100.0 {
            let normal = (0..12).map(|_| self.next()).sum::<f64>() - 6.0;
            return (mean + mean.sqrt() * normal).round() as i64;
        }
        let (mut count, mut left) = (-1, (-mean).exp().recip());
        while left > 1.0 {
            left *= self.next();
            count += 1;
        }
        count
    }

    /// A capture of `samples` samples, each in one of the functions with these weights.
    fn capture(&mut self, weights: &[f64], samples: u64) -> (String, Profile) {
        let whole: f64 = weights.iter().sum();
        let mut counts = vec![0i64; weights.len()];
        for _ in 0..samples {
            let mut at = self.next() * whole;
            let function = weights.iter().position(|weight| {
                at -= weight;
                at < 0.0
            });
            counts[function.unwrap_or(0)] += 1;
        }
        ("capture".to_owned(), profile_of(&counts))
    }
}

fn profile_of(counts: &[i64]) -> Profile {
    let types = [ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")];
    let mut builder = Builder::new(&types, types[1].clone(), 10);
    let main = builder.synthetic("main");
    for (number, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let function = builder.synthetic(&format!("f{number}"));
        builder.add(Vec::new(), vec![function, main], &[*count, count * 10]);
    }
    builder.finish(0, 1_000_000_000, Vec::new())
}

/// Counts of sides of one profile.
fn tallies(pairs: impl IntoIterator<Item = (u64, u64)>) -> Vec<(Tally, Tally)> {
    let tally = |count| Tally { count, squares: 0.0 };
    pairs.into_iter().map(|(a, b)| (tally(a), tally(b))).collect()
}

fn weights() -> Vec<f64> {
    (1..=100).map(|number| 1.0 / f64::from(number)).collect()
}

/// Of 200 comparisons without a change, at a rate of 1 % about two have a discovery. Six or more come in one of 60 cases; the seed is fixed.
#[test]
fn without_a_change_there_is_hardly_a_discovery() {
    let (mut random, weights) = (Random(1), weights());
    let with_discovery = (0..200).filter(|_| {
        let before = random.capture(&weights, 4_000);
        let after = random.capture(&weights, 4_000);
        let found = compare(&[before], &[after], Against::Samples, Part::Own).unwrap();
        found.discoveries().next().is_some()
    });
    let count = with_discovery.count();
    assert!(count <= 4, "{count} of 200");
}

/// By time, so that the change of one function is one in its rate: the number that the program tells is enough each time.
#[test]
fn a_change_of_five_percent_is_found_in_20_of_20_with_the_samples_that_the_formula_asks_for() {
    let mut random = Random(2);
    let weights = vec![1.0; 100];
    let probe = random.capture(&weights, 5_000);
    let probe = compare(slice::from_ref(&probe), slice::from_ref(&probe), Against::Time, Part::Own).unwrap();
    let needed = probe.samples_needed(5.0) as f64;
    assert!((35_000.0..37_000.0).contains(&needed), "{needed}");
    let found = (0..20).filter(|_| {
        let mut side = |first: f64| {
            let counts: Vec<i64> =
                (0..100).map(|of| random.poisson(if of == 0 { first } else { needed / 10.0 })).collect();
            [("capture".to_owned(), profile_of(&counts))]
        };
        let (before, after) = (side(needed), side(needed * 1.05));
        let found = compare(&before, &after, Against::Time, Part::Own).unwrap();
        found.discoveries().any(|change| change.name == "f0" && change.percent > 0.0)
    });
    assert_eq!(found.count(), 20);
}

/// One function works in bursts: in some intervals of a rotated capture it has five times its samples. Judged by its sum alone, it would change all the time.
#[test]
fn bursts_between_intervals_are_no_change_and_hide_no_change_of_others() {
    let mut random = Random(4);
    let mut side = |steady: f64| -> Vec<(String, Profile)> {
        let mut interval = |_| {
            let bursts = if random.next() < 0.2 { 500.0 } else { 20.0 };
            let counts: Vec<i64> =
                [bursts, steady, 500.0, 300.0, 80.0].map(|mean| random.poisson(mean)).to_vec();
            ("interval".to_owned(), profile_of(&counts))
        };
        (0..30).map(&mut interval).collect()
    };
    let (mut false_movers, mut false_by_sums, mut found) = (0, 0, 0);
    for _ in 0..20 {
        let (before, after) = (side(200.0), side(240.0));
        let changes = |before: &[(String, Profile)], after: &[(String, Profile)]| {
            let found = compare(before, after, Against::Time, Part::Own).unwrap();
            found.discoveries().map(|change| change.name.clone()).collect::<Vec<_>>()
        };
        let pooled = |side: &[(String, Profile)]| [("all".to_owned(), crate::merge(side).unwrap())];
        let by_intervals = changes(&before, &after);
        let by_sums = changes(&pooled(&before), &pooled(&after));
        false_movers += usize::from(by_intervals.iter().any(|name| name == "f0"));
        false_by_sums += usize::from(by_sums.iter().any(|name| name == "f0"));
        found += usize::from(by_intervals.iter().any(|name| name == "f1"));
    }
    assert!(false_by_sums >= 12, "the bursts are no bursts: {false_by_sums}");
    assert!(false_movers <= 1, "{false_movers} of 20");
    assert_eq!(found, 20);
    let comparison = compare(&side(200.0), &side(200.0), Against::Time, Part::Own).unwrap();
    let of = |name: &str| comparison.functions.iter().find(|of| of.name == name).unwrap();
    assert!(of("f0").dispersion.unwrap() > 50.0 && of("f1").dispersion.unwrap() < 2.0, "{comparison:?}");
    assert!(of("f0").visible_percent > 5.0 * of("f1").visible_percent, "{comparison:?}");
}

#[test]
fn several_runs_tell_how_much_they_scatter() {
    let mut random = Random(3);
    // Each run has its own weight of f0, so that runs differ more than samples do.
    let mut side = |middle: f64| -> Vec<(String, Profile)> {
        let shift = [-0.3, 0.2, 0.0, 0.3, -0.2];
        shift.iter().map(|shift| random.capture(&[middle * (1.0 + shift), 100.0], 5_000)).collect()
    };
    let (before, after) = (side(50.0), side(54.0));
    let runs = compare(&before, &after, Against::Samples, Part::Own).unwrap();
    assert!(runs.dispersion.unwrap() > 5.0, "{:?}", runs.dispersion);
    assert_eq!(runs.discoveries().count(), 0, "the runs differ among themselves by more");
    let pooled = |side: Vec<(String, Profile)>| vec![("all".to_owned(), crate::merge(&side).unwrap())];
    let one = compare(&pooled(before), &pooled(after), Against::Samples, Part::Own).unwrap();
    assert!(one.dispersion.is_none());
    assert!(one.discoveries().count() > 0, "the counts alone would call it a change");
}

#[test]
fn discoveries_come_first_and_both_sides_have_all_functions() {
    let before = [("a".to_owned(), profile_of(&[700, 300, 10, 0]))];
    let after = [("b".to_owned(), profile_of(&[300, 290, 11, 400]))];
    let found = compare(&before, &after, Against::Samples, Part::Own).unwrap();
    assert_eq!(found.samples, (1010, 1001));
    let told: Vec<_> = found.functions.iter().map(|of| (of.name.as_str(), of.is_significant)).collect();
    assert_eq!(told, [("f3", true), ("f0", true), ("f1", false), ("f2", false)]);
    let total = compare(&before, &after, Against::Samples, Part::Total).unwrap();
    let main = total.functions.iter().find(|of| of.name == "main").unwrap();
    assert_eq!((main.before, main.after, main.is_significant), (1010, 1001, false));
}

#[test]
fn rates_are_of_what_samples_are_measured_against() {
    let before = [("a".to_owned(), profile_of(&[100, 300]))];
    let mut long = profile_of(&[300, 300]);
    long.duration_ns = 2_000_000_000;
    let after = [("b".to_owned(), profile_of(&[100, 100])), ("c".to_owned(), long)];
    let rates = |against| {
        let found = compare(&before, &after, against, Part::Own).unwrap();
        assert_eq!(found.against, against);
        found.functions.iter().find(|of| of.name == "f0").map(|of| of.rates).unwrap()
    };
    assert_eq!(rates(Against::Samples), (0.25, 0.5));
    assert_eq!(rates(Against::Runs), (100.0, 200.0));
    let (per_second, after) = rates(Against::Time);
    assert!((per_second - 100.0).abs() < 1e-9 && (after - 400.0 / 3.0).abs() < 1e-9, "{per_second} {after}");
}

#[test]
fn profiles_that_cannot_be_compared_are_told() {
    let good = || vec![("good".to_owned(), profile_of(&[1]))];
    let told = |profile: Profile, against| {
        compare(&good(), &[("bad".to_owned(), profile)], against, Part::Own).unwrap_err().to_string()
    };
    assert_eq!(told(profile_of(&[]), Against::Samples), "bad has no samples");
    let mut bytes = profile_of(&[1]);
    bytes.sample_types[0].unit = "bytes".to_owned();
    assert_eq!(
        told(bytes, Against::Samples),
        "bad has no value in `count`; it has samples/bytes, cpu/nanoseconds"
    );
    let mut timeless = profile_of(&[1]);
    timeless.duration_ns = 0;
    assert_eq!(told(timeless, Against::Time), "bad does not tell how long its capture was");
}

#[test]
fn counts_of_frames_are_judged_as_those_of_functions() {
    let side = |counts: &[i64]| [("capture".to_owned(), profile_of(counts))];
    let (before, after) = (side(&[500, 300, 200]), side(&[500, 520, 80]));
    let functions = compare(&before, &after, Against::Samples, Part::Own).unwrap().functions;
    let pairs = tallies(functions.iter().map(|of| (of.before, of.after)));
    let judged = Judge::new(&before, &after, Against::Samples).unwrap().judge(&pairs);
    for (function, frame) in functions.iter().zip(&judged) {
        let (name, file) = (String::new(), String::new());
        let unnamed = Change { name, file, visible_percent: f64::INFINITY, ..function.clone() };
        assert_eq!(*frame, unnamed, "{}", function.name);
    }
    assert_eq!(judged.iter().filter(|of| of.is_significant).count(), 2);
}

#[test]
fn frames_of_few_samples_hide_no_change() {
    let side = |counts: &[i64]| [("capture".to_owned(), profile_of(counts))];
    let judge = Judge::new(&side(&[1000]), &side(&[1000]), Against::Samples).unwrap();
    let mut pairs = vec![(1, 1); 100_000];
    pairs.extend([(0, 9), (100, 160)]);
    let judged = judge.judge(&tallies(pairs));
    let found: Vec<_> = judged.iter().filter(|of| of.is_significant).map(|of| of.after).collect();
    assert_eq!(found, [160]);
}

/// Frames that stand on each other are not independent; still few graphs of 200 without a change may have a colour.
#[test]
fn graphs_without_a_change_stay_grey() {
    let mut random = Random(7);
    let weights = weights();
    let colored = (0..200).filter(|_| {
        let (before, after) = ([random.capture(&weights, 2000)], [random.capture(&weights, 2000)]);
        let counts = compare(&before, &after, Against::Samples, Part::Own).unwrap().functions;
        let own: Vec<_> = counts.iter().map(|of| (of.before, of.after)).collect();
        let sums = own.iter().scan((0, 0), |sum, of| {
            *sum = (sum.0 + of.0, sum.1 + of.1);
            Some(*sum)
        });
        let pairs = tallies(own.iter().copied().chain(sums));
        Judge::new(&before, &after, Against::Samples)
            .unwrap()
            .judge(&pairs)
            .iter()
            .any(|of| of.is_significant)
    });
    let colored = colored.count();
    assert!(colored <= 5, "{colored} of 200");
}
