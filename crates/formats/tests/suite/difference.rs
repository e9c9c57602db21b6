use formats::flamegraph::{self, Judgement, Tally};
use formats::{Counted, Difference, EncodeOptions, Measured, Widths, folded};
use profile::Profile;
use serde_json::json;

use testkit::Browser;

const ORANGE: &str = "hsl(28,";
const BLUE: &str = "hsl(212,";
const GREY: &str = "hsl(0,0%,";

fn stacks(text: &str) -> Profile {
    folded::decode(text.as_bytes()).unwrap()
}

/// More than 10 samples of difference are significant here.
fn judge(pairs: &[(Tally, Tally)]) -> Vec<Judgement> {
    let judged = |(Tally { count: a, .. }, Tally { count: b, .. }): &(Tally, Tally)| {
        let percent = if *a == 0 { f64::INFINITY } else { 100.0 * (*b as f64 / *a as f64 - 1.0) };
        Judgement { percent, interval: (percent - 1.0, percent + 1.0), is_significant: a.abs_diff(*b) > 10 }
    };
    pairs.iter().map(judged).collect()
}

/// Profiles of 100 samples each, as far as their exposure tells.
fn side<'a>(profiles: &[&'a Profile]) -> Vec<Counted<'a>> {
    let counted = |profile: &&'a Profile| Counted { name: "folded", profile, value: 0, exposure: 100.0 };
    profiles.iter().map(counted).collect()
}

fn drawn(before: &[&Profile], after: &[&Profile], widths: Widths) -> String {
    let (before, after) = (side(before), side(after));
    let difference = Difference { before: &before, after: &after, measured: Measured::Share, widths };
    let mut out = Vec::new();
    let options = EncodeOptions { title: "a<b>".to_owned(), ..EncodeOptions::default() };
    flamegraph::write_difference(&difference, judge, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The title and the rest of the frame with this name.
fn frame<'a>(graph: &'a str, name: &str) -> Option<&'a str> {
    graph.split("<g data-x").find(|frame| frame.contains(&format!("<title>{name}\n")))
}

#[test]
fn a_known_pair_has_its_colours_widths_and_figures() {
    let before = stacks("main;f 100\nmain;g 100\nmain;h 50\nmain;gone 50\n");
    let after = stacks("main;f 150\nmain;g 40\nmain;h 55\nmain;new 55\n");
    let graph = drawn(&[&before], &[&after], Widths::After);
    for (name, color, width) in [
        ("f", ORANGE, "data-w=\"150\""),
        ("g", BLUE, "data-w=\"40\""),
        ("h", GREY, "data-w=\"55\""),
        ("new", ORANGE, "data-w=\"55\""),
        ("main", GREY, "data-w=\"300\""),
    ] {
        let frame = frame(&graph, name).unwrap();
        assert!(frame.contains(color) && frame.contains(width), "{name}: {frame}");
    }
    assert!(frame(&graph, "gone").is_none());
    let told =
        "before 33.33 % (100 samples), after 50.00 % (150 samples): +50.0 % (95 %: +49.0 … +51.0 %)</title>";
    assert!(graph.contains(told), "{graph}");
    let h = "before 16.67 % (50 samples), after 18.33 % (55 samples): +10.0 % (95 %: +9.0 … +11.0 %), not significant";
    assert!(graph.contains(h), "{graph}");
    assert!(graph.contains("before 0.00 % (0 samples), after 18.33 % (55 samples): new"), "{graph}");
    for meaning in ["twice or more", "more", "not significant", "less", "half or less"] {
        assert!(graph.contains(&format!(">{meaning}</text>")), "{meaning}");
    }
}

#[test]
fn the_side_before_draws_what_vanished() {
    let (before, after) = (stacks("main;f 50\nmain;gone 50\n"), stacks("main;f 50\nmain;new 50\n"));
    let graph = drawn(&[&before], &[&after], Widths::Before);
    let gone = frame(&graph, "gone").unwrap();
    assert!(gone.contains("data-w=\"50\"") && gone.contains(BLUE) && gone.contains("-100.0 %"), "{gone}");
    assert!(frame(&graph, "new").is_none());
}

#[test]
fn profiles_of_a_side_add_up() {
    let (one, two) = (stacks("main;f 50\n"), stacks("main;f 20\nmain;g 30\n"));
    let graph = drawn(&[&one, &two], &[&one, &one, &one], Widths::After);
    let f = frame(&graph, "f").unwrap();
    assert!(f.contains("data-w=\"150\"") && f.contains("(70 samples), after 100.00 % (150 samples)"), "{f}");
}

#[test]
fn tallies_have_the_squares_of_each_profile() {
    let (one, two) = (stacks("main;f 50\n"), stacks("main;f 20\nmain;f;g 10\nmain;h 7\n"));
    let (before, after) = (side(&[&one, &two]), side(&[&two]));
    let difference =
        Difference { before: &before, after: &after, measured: Measured::Share, widths: Widths::After };
    let check = |pairs: &[(Tally, Tally)]| {
        let expected = [
            (87, 2500.0 + 37.0 * 37.0),
            (87, 2500.0 + 37.0 * 37.0),
            (80, 2500.0 + 900.0),
            (10, 100.0),
            (7, 49.0),
        ];
        let told: Vec<_> = pairs.iter().map(|(of, _)| (of.count, (of.squares * 100.0).round())).collect();
        assert_eq!(told, expected);
        assert_eq!(pairs[2].1, Tally { count: 30, squares: 9.0 });
        judge(pairs)
    };
    flamegraph::write_difference(&difference, check, &EncodeOptions::default(), &mut Vec::new()).unwrap();
}

#[test]
fn names_are_only_text() {
    let hostile = "</title><script>alert(1)</script>\"&]]>";
    let before = stacks(&format!("main;{hostile} 5\n"));
    let graph = drawn(&[&before], &[&before], Widths::After);
    assert_eq!(graph.matches("<script>").count(), 1, "{graph}");
    assert!(
        graph.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;]]&gt;"),
        "{graph}"
    );
    assert!(graph.contains("a&lt;b&gt;</text>"), "{graph}");
}

#[test]
fn too_few_judgements_are_an_error() {
    let profile = stacks("main 5\n");
    let side = side(&[&profile]);
    let difference =
        Difference { before: &side, after: &side, measured: Measured::Share, widths: Widths::After };
    let none = |_: &[(Tally, Tally)]| Vec::new();
    let drawn = flamegraph::write_difference(&difference, none, &EncodeOptions::default(), &mut Vec::new());
    assert_eq!(drawn.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_browser_shows_the_picture_zooms_and_runs_no_name() {
    let Some(mut browser) = Browser::start() else { return };
    let hostile = "</title><script>window.ran=1</script>";
    let before = stacks(&format!("main;f 100\nmain;g;{hostile} 100\n"));
    let after = stacks(&format!("main;f 150\nmain;g;{hostile} 50\n"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("difference.svg");
    std::fs::write(&file, drawn(&[&before], &[&after], Widths::After)).unwrap();
    // The script shows the word when it has drawn.
    browser.open_until(&file, "document.getElementById('search')?.getAttribute('display') === 'inline'");
    let find = "[...document.querySelectorAll('#frames g')].find((g) => g.textContent.startsWith('g\\n'))";
    let width = format!("Number({find}.querySelector('rect').getAttribute('width'))");
    let narrow = browser.value(&width).as_f64().unwrap();
    browser.value(&format!("{find}.dispatchEvent(new MouseEvent('click'))"));
    let wide = browser.value(&width).as_f64().unwrap();
    assert!((wide / narrow - 4.0).abs() < 0.01, "{narrow} to {wide}");
    let parts = format!("getComputedStyle({find}.querySelector('rect')).fill.match(/\\d+/g).map(Number)");
    assert_eq!(browser.value(&format!("(([red, _, blue]) => blue > red + 100)({parts})")), true, "blue");
    let mut back = |scheme: &str| {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.tell("Emulation.setEmulatedMedia", features);
        browser.value("getComputedStyle(document.querySelector('.back')).fill")
    };
    assert_eq!(back("dark"), "rgb(27, 27, 29)");
    assert_eq!(back("light"), "rgb(253, 253, 252)");
    assert_eq!(browser.value("window.ran === undefined && document.querySelectorAll('script').length"), 1);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
