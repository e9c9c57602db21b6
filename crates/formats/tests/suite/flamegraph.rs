use crate::example;
use formats::{EncodeOptions, Merge, flamegraph};
use profile::{Builder, Function, Line, Mapping, Profile, ValueType};

fn drawn(profile: &Profile, options: EncodeOptions) -> String {
    let mut out = Vec::new();
    flamegraph::write(profile, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn svg(profile: &Profile) -> String {
    drawn(profile, EncodeOptions { title: "CPU of <app>".to_owned(), ..EncodeOptions::default() })
}

/// The rectangle of the first frame with this name: x, y and width.
fn place(graph: &str, name: &str) -> [f64; 3] {
    let frame = graph.split("<title>").find(|frame| frame.starts_with(&format!("{name}\n"))).unwrap();
    let number = |key: &str| frame.split(&format!(" {key}=\"")).nth(1)?.split('"').next()?.parse().ok();
    ["x", "y", "width"].map(|key| number(key).unwrap_or_else(|| panic!("{key} of {frame}")))
}

#[test]
fn shows_frames_with_seconds_and_shares_and_is_deterministic() {
    let mut p = example();
    p.samples.iter_mut().for_each(|s| s.values[1] *= 10_000_000);
    let graph = svg(&p);
    assert_eq!(graph, svg(&p));
    assert!(graph.contains("<title>middle\n0.300 s, 50.00 %</title>"), "{graph}");
    assert!(graph.contains("<title>all\n0.600 s, 100.00 %</title>"));
    assert!(graph.contains("CPU of &lt;app&gt;"));
}

#[test]
fn callers_stand_below_and_above_if_the_picture_is_inverted() {
    let [upright, inverted] = [false, true].map(|inverted| {
        drawn(&example(), EncodeOptions { inverted, merge: Merge::All, ..EncodeOptions::default() })
    });
    let y = |graph: &str, name: &str| place(graph, name)[1];
    assert!(y(&upright, "all") > y(&upright, "main") && y(&upright, "main") > y(&upright, "inner"));
    assert!(y(&inverted, "all") < y(&inverted, "main") && y(&inverted, "main") < y(&inverted, "inner"));
    let [x, _, width] = place(&upright, "inner");
    assert_eq!((x, width), (place(&inverted, "inner")[0], place(&inverted, "inner")[2]));
    assert!((width - 590.0).abs() < 0.01, "{width}");
}

#[test]
fn each_kind_has_its_colour_and_the_legend_those_that_are_shown() {
    let graph = drawn(&example(), EncodeOptions::default());
    let hue = |name: &str| {
        let frame = graph.split("<title>").find(|frame| frame.starts_with(&format!("{name}\n"))).unwrap();
        let hue = frame.split("hsl(").nth(1).unwrap().split(',').next().unwrap();
        hue.parse::<u32>().unwrap() / 40
    };
    let hues = ["outer(int: char)", "inner", "vfs_read", "[truncated: frame limit]"].map(hue);
    assert_eq!(hues[1], hue("middle"));
    assert!(hues.windows(2).all(|pair| pair[0] != pair[1]), "{hues:?}");
    for name in ["native", "inlined", "kernel", "cut or marked", "process, thread"] {
        assert!(graph.contains(&format!(">{name}</text>")), "{name}");
    }
    assert!(!graph.contains(">interpreted</text>") && !graph.contains(">JIT</text>"));
}

#[test]
fn interpreted_functions_have_a_kind_of_their_own_and_their_place() {
    let count = ValueType::new("samples", "count");
    let mut b = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
    let mut function = |name: &str, filename: &str| {
        let function = b.function(Function {
            name: name.into(),
            filename: filename.into(),
            start_line: 3,
            ..Function::default()
        });
        vec![Line { function, line: 7, column: 0 }]
    };
    let (run, loaded) = (function("run", "/srv/app.py"), function("JS:*load", "/srv/app.js"));
    let jit = b.mapping(Mapping { filename: "[jit]".into(), ..Mapping::default() });
    let stack = vec![b.location(None, 0, run), b.location(Some(jit), 0, loaded), b.synthetic("[unknown]")];
    b.add(Vec::new(), stack, &[1]);
    let graph = svg(&b.finish(0, 0, Vec::new()));
    for shown in ["<title>run /srv/app.py:3\n", "<title>JS:*load /srv/app.js:3\n"] {
        assert!(graph.contains(shown), "{shown}");
    }
    for kind in ["interpreted", "JIT", "cut or marked"] {
        assert!(graph.contains(&format!(">{kind}</text>")), "{kind}");
    }
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
    assert_eq!(graph.matches("<title>f1\n").count(), 1, "{graph}");
    assert!(graph.contains("<title>f1\n2 samples, 66.67 %; self 1 samples, 33.33 %</title>"), "{graph}");
}

#[test]
fn names_that_look_like_markup_stay_names() {
    let graph = svg(&with_stacks(&[&["# comment", "a 1"], &["]]></script><script>x"], &["f\u{ffff}\u{1b}"]]));
    for name in ["# comment", "a 1", "]]&gt;&lt;/script&gt;&lt;script&gt;x", "f\\u{ffff}\\u{1b}"] {
        assert!(graph.contains(&format!("<title>{name}\n1 samples, 33.33 %</title>")), "{name}: {graph}");
    }
    assert_eq!(graph.matches("<script>").count(), 1);
}

#[test]
fn a_profile_without_samples_says_so() {
    let graph = svg(&with_stacks(&[]));
    assert!(
        graph.contains("<title>[no samples]\n</title>") && graph.contains(">[no samples]</text>"),
        "{graph}"
    );
}
