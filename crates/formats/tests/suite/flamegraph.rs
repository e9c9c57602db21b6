use crate::example;
use formats::flamegraph;
use profile::{Builder, Profile, ValueType};

fn svg(profile: &Profile) -> String {
    let mut out = Vec::new();
    flamegraph::write(profile, profile.sample_types.len() - 1, "CPU of <app>", &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn shows_frames_with_their_sums_and_is_deterministic() {
    let mut p = example();
    p.samples.iter_mut().for_each(|s| s.values[1] *= 1_000_000);
    let graph = svg(&p);
    assert_eq!(graph, svg(&p));
    assert!(graph.contains("<title>middle (30,000,000 ns, 50.00%)</title>"), "{graph}");
    assert!(graph.contains("<title>all (60,000,000 ns, 100%)</title>"));
    assert!(graph.contains("CPU of &lt;app&gt;"));
}

#[test]
fn shares_of_times_below_a_millisecond_are_exact() {
    let mut p = example();
    p.samples.iter_mut().for_each(|s| s.values[1] *= 7_777);
    let graph = svg(&p);
    assert!(graph.contains("<title>all (466,620 ns, 100%)</title>"), "{graph}");
    assert!(graph.contains("<title>middle (233,310 ns, 50.00%)</title>"));
    assert!(!graph.contains("(0 ns"));
}

fn with_stacks(stacks: &[&[&str]]) -> Profile {
    let count = ValueType::new("samples", "count");
    let mut b = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
    for stack in stacks {
        let locations = stack.iter().rev().map(|name| b.synthetic(name)).collect();
        b.add(Vec::new(), locations, &[1]);
    }
    b.finish(0, 0, Vec::new())
}

#[test]
fn a_function_is_one_rectangle_beside_names_that_extend_its_own() {
    let graph = svg(&with_stacks(&[&["f1"], &["f10", "x"], &["f1", "x"]]));
    assert_eq!(graph.matches("<title>f1 (").count(), 1, "{graph}");
    assert!(graph.contains("<title>f1 (2 samples, 66.67%)</title>"));
}

#[test]
fn names_that_look_like_numbers_or_comments_stay_names() {
    let graph = svg(&with_stacks(&[&["# comment", "a"], &["f 12"], &["g 1 2"], &["# g 7"]]));
    assert!(graph.contains("<title>all (4 samples, 100%)</title>"), "{graph}");
    for name in ["#\u{a0}comment", "f\u{a0}12", "g 1\u{a0}2", "#\u{a0}g\u{a0}7"] {
        assert!(graph.contains(&format!("<title>{name} (1 samples, 25.00%)</title>")), "{name}");
    }
}

#[test]
fn a_profile_without_samples_says_so() {
    let graph = svg(&with_stacks(&[]));
    assert!(graph.contains("<title>[no samples] (0 samples, 0.00%)</title>"), "{graph}");
    assert!(!graph.contains("ERROR"));
}
