//! The page of HTML reports in a browser: every click and key, against figures that are counted here.

use std::fs;
use std::path::PathBuf;

use formats::{EncodeOptions, Merge, registry};
use profile::{Builder, Label, LocationId, Moment, Profile, ValueType};
use serde_json::json;
use tempfile::TempDir;

use testkit::Browser;

/// The names of a stack, outermost first, its labels and its samples.
type Stack = (Vec<String>, Vec<Label>, i64);

fn profile(stacks: &[Stack]) -> Profile {
    let cpu = ValueType::new("cpu", "nanoseconds");
    let mut builder = Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 1_000_000);
    for (names, labels, count) in stacks {
        let frames: Vec<LocationId> = names.iter().rev().map(|name| builder.synthetic(name)).collect();
        builder.add(labels.clone(), frames, &[*count, *count * 1_000_000]);
    }
    let comments = ["perf-agent.samples=100", "perf-agent.lost=3"].map(str::to_owned).to_vec();
    let mut made = builder.finish(0, 1_000_000_000, comments);
    made.moments = (0..made.samples.len() as u32)
        .map(|sample| Moment {
            at_ns: i64::from(sample) * 1_000_000_000 / made.samples.len() as i64,
            sample,
            ..Moment::default()
        })
        .collect();
    made
}

/// Stacks of twelve functions of many, with two programs and two states.
fn many(count: u64) -> Vec<Stack> {
    let mut seed = 7_u64;
    let mut below = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let functions = count / 4 + 50;
    let stack = |number: u64| {
        let mut names = vec!["main".to_owned(), format!("step_{}", number % 7)];
        names.extend((0..10).map(|_| format!("function_{}", below(functions))));
        let labels = vec![
            Label::num("pid", (number % 2 + 1) as i64),
            Label::str("comm", "app"),
            Label::str("state", if number.is_multiple_of(3) { "iowait" } else { "blocked" }),
        ];
        (names, labels, 1 + (number % 5) as i64)
    };
    (0..count).map(stack).collect()
}

/// The share of the stacks that satisfy a condition, as the page tells it.
fn share(stacks: &[Stack], condition: impl Fn(&Stack) -> bool) -> String {
    let sum = |some: &dyn Fn(&Stack) -> bool| {
        stacks.iter().filter(|stack| some(stack)).map(|(.., count)| count).sum::<i64>()
    };
    format!("{:.2} %", 100.0 * sum(&condition) as f64 / sum(&|_| true) as f64)
}

fn has(part: &str) -> impl Fn(&Stack) -> bool {
    move |(names, ..)| names.iter().any(|name| name.contains(part))
}

fn written(profile: &Profile) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let options = EncodeOptions {
        title: "CPU".to_owned(),
        merge: Merge::All,
        inverted: true,
        ..EncodeOptions::default()
    };
    let mut out = Vec::new();
    registry::by_name("html").unwrap().encode(profile, &options, &mut out).unwrap();
    fs::write(&file, out).unwrap();
    (folder, file)
}

macro_rules! browser {
    () => {{
        match Browser::start() {
            Some(browser) => browser,
            None => return,
        }
    }};
}

/// Rows of the graph are 20 pixels high; this is inside of one.
fn row(number: u32) -> f64 {
    f64::from(number) * 20.0 + 10.0
}

#[test]
fn clicks_and_keys_at_three_sizes() {
    let mut browser = browser!();
    for size in [1_000, 10_000, 100_000] {
        let stacks = many(size);
        let (_folder, file) = written(&profile(&stacks));
        let before = browser.cpu_seconds();
        browser.open(&file);
        // On an idle machine this is 0.7 s at 100,000 stacks; a page made of elements takes 5 times that.
        let cpu = browser.cpu_seconds() - before;
        assert!(cpu < 2.5, "{size} stacks took {cpu} s");
        assert_eq!(browser.text("figures"), "100 samples3 lost (2.91 %)", "{size}");

        // The first of the functions that main calls.
        browser.drag("canvas", 0.05, 0.05, row(2));
        let zoomed = browser.text("current");
        assert!(zoomed.starts_with("step_0") && zoomed.contains(&share(&stacks, has("step_0"))), "{zoomed}");
        browser.until("location.hash.includes('zoom=')");
        browser.key("ArrowUp");
        assert!(browser.text("current").starts_with("main"));
        browser.key("ArrowDown");
        assert!(browser.text("current").starts_with("step_"));
        browser.key("Escape");
        browser.until("!location.hash.includes('zoom=')");
        browser.drag("canvas", 0.05, 0.05, row(2));
        browser.key("0");
        browser.until("!location.hash.includes('zoom=')");
        let found = browser.text("current");
        browser.key("ArrowRight");
        assert!(found.starts_with("step_0") && browser.text("current").starts_with("step_1"), "{found}");

        browser.search("function_1");
        let matched = format!("{} matched", share(&stacks, has("function_1")));
        browser.until(&format!("document.getElementById('matched').textContent === {}", json!(matched)));
        browser.key("n");
        assert!(browser.text("current").starts_with("function_1"), "{}", browser.text("current"));
        let first = browser.text("current");
        browser.key("n");
        assert_ne!(first, browser.text("current"));
        browser.key("N");
        assert_eq!(first, browser.text("current"));
        browser.search("");
        browser.until("document.getElementById('matched').textContent === ''");

        browser.key("4");
        browser.until("document.querySelectorAll('#rows tr').length > 100");
        browser.value("document.querySelector('#by-cum').click()");
        let top = browser.value(
            "[...document.querySelectorAll('#rows tr')].slice(0, 2).map((row) => row.innerText).join()",
        );
        let top = top.as_str().unwrap();
        assert!(top.contains("main") && top.contains("100.00 %") && top.contains("step_"), "{top}");
        browser.value("document.querySelectorAll('#rows button')[1].click()");
        browser.until(
            "document.getElementById('changes').textContent.startsWith('Callers and callees of step_')",
        );
        browser.drag("canvas", 0.5, 0.5, row(0));
        assert!(browser.text("current").starts_with("main"), "{}", browser.text("current"));

        let before = browser.cpu_seconds();
        browser.key("2");
        browser.until("document.getElementById('view-inverted').ariaSelected === 'true'");
        // CPU time of the page's process from the key to the picture. A tree that is found by look-ups takes 2.4 times the opening.
        let inverting = browser.cpu_seconds() - before;
        println!("{size} stacks: opened in {cpu:.2} s of CPU time, inverted in {inverting:.2} s");
        if size == 100_000 {
            assert!(inverting < 1.7 * cpu, "{size} stacks took {cpu} s to open, and {inverting} s to invert");
        }
        browser.drag("canvas", 0.5, 0.5, row(0));
        assert!(browser.text("current").contains("100.00 %"));
        browser.key("1");
        for (key, state) in [("r", "fold=true"), ("o", "order=weight"), ("i", "icicle=false")] {
            browser.key(key);
            browser.until(&format!("location.hash.includes('{state}')"));
        }
        assert_eq!(browser.complaints(), [""; 0], "{size}");
    }
}

#[test]
fn selected_hidden_and_focused() {
    let mut browser = browser!();
    let stacks = many(1_000);
    let (_folder, file) = written(&profile(&stacks));
    browser.open(&file);
    let total = |browser: &mut Browser| {
        browser.drag("canvas", 0.5, 0.5, row(0));
        browser.text("current")
    };
    let time = |condition: &dyn Fn(&Stack) -> bool| {
        let sum: i64 = stacks.iter().filter(|stack| condition(stack)).map(|(.., count)| count).sum();
        format!("{:.3} s", sum as f64 / 1e3)
    };
    assert!(total(&mut browser).starts_with(&format!("all{}", time(&|_| true))));
    // The facets are program, process, thread and state.
    browser.until("document.querySelectorAll('#facets fieldset').length === 2");
    let state =
        |name: &'static str| move |(_, labels, _): &Stack| labels.contains(&Label::str("state", name));
    browser.value("[...document.querySelectorAll('.choice')].find((line) => line.textContent.startsWith('iowait')).querySelector('input').click()");
    browser.until("location.hash.includes('off3')");
    assert!(
        total(&mut browser).starts_with(&format!("all{}", time(&state("blocked")))),
        "{}",
        browser.text("current")
    );
    browser.value("[...document.querySelectorAll('.choice')].find((line) => line.textContent.startsWith('iowait')).querySelector('button').click()");
    browser.until("document.querySelectorAll('#facets input:not(:checked)').length === 1");
    assert!(
        total(&mut browser).starts_with(&format!("all{}", time(&state("iowait")))),
        "{}",
        browser.text("current")
    );
    browser.key("0");

    // Samples lie in the order of the stacks, evenly.
    browser.drag("timeline", 0.0, 0.4999, 20.0);
    browser.until("location.hash.includes('range=')");
    let part: i64 = stacks.iter().take(500).map(|(.., count)| count).sum();
    let told = total(&mut browser);
    let told: f64 = told.strip_prefix("all").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((told * 1e3 / part as f64 - 1.0).abs() < 0.02, "{told} of {part}");
    browser.value("document.getElementById('timeline').focus()");
    browser.key("ArrowRight");
    browser.until("location.hash.includes('range=12.')");
    browser.key("0");

    browser.drag("canvas", 0.05, 0.05, row(2));
    browser.key("h");
    browser.until("location.hash.includes('hidden=')");
    browser.search("step_0");
    browser.until("document.getElementById('matched').textContent === '0.00 % matched'");
    browser.search("");
    browser.key("Escape");
    browser.until("!location.hash.includes('hidden=')");
    browser.drag("canvas", 0.05, 0.05, row(2));
    browser.key("f");
    browser.until("location.hash.includes('focus=')");
    assert!(
        total(&mut browser).starts_with(&format!("all{}", time(&has("step_0")))),
        "{}",
        browser.text("current")
    );
    browser.drag("canvas", 0.5, 0.5, row(1));
    assert!(browser.text("current").starts_with("step_0"), "the outermost function is the focused one");
    browser.key("C");
    browser.until("document.getElementById('said').textContent === 'Copied: a stack of 1 frames'");
    browser.key("c");
    browser.until("document.getElementById('said').textContent === 'Copied: the name'");

    let dark = |on| json!({"features": [{"name": "prefers-color-scheme", "value": if on { "dark" } else { "light" }}]});
    for (on, theme) in [(true, "dark"), (false, "light")] {
        browser.tell("Emulation.setEmulatedMedia", dark(on));
        browser.until(&format!("document.documentElement.dataset.theme === '{theme}'"));
    }
    browser.key("d");
    browser.until("document.documentElement.dataset.theme === 'dark'");
    browser.key("?");
    browser.until("document.activeElement.id === 'close-help'");
    browser.key("Escape");
    browser.until("document.getElementById('help-box').hidden");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The tree that Chromium gives to screen readers.
#[test]
fn each_control_has_a_name_of_its_own_for_screen_readers() {
    let mut browser = browser!();
    let (_folder, file) = written(&profile(&many(1_000)));
    browser.open(&file);
    browser.tell("Accessibility.enable", json!({}));
    for (key, view) in [("1", "Flame graph"), ("2", "Inverted"), ("3", "Sandwich"), ("4", "Table")] {
        browser.key(key);
        browser.until(&format!("document.querySelector('[aria-selected=true]').textContent === '{view}'"));
        let tree = browser.tell("Accessibility.getFullAXTree", json!({}));
        let told =
            |node: &serde_json::Value, what: &str| node[what]["value"].as_str().unwrap_or("").to_owned();
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true);
        let all: Vec<_> = nodes.map(|node| (told(node, "role"), told(node, "name"))).collect();
        let of = |role: &str| -> Vec<&str> {
            all.iter().filter(|(of, _)| of == role).map(|(_, name)| name.as_str()).collect()
        };
        for role in ["button", "checkbox", "tab", "combobox", "searchbox", "application", "image", "group"] {
            let mut names = of(role);
            // The list of views has no name, nor has the group of the ledger, whose triangle has one.
            names.retain(|name| role != "group" || !name.is_empty());
            assert!(names.iter().all(|name| !name.is_empty()), "{view}, {role}: {names:?}");
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{view}, {role}: {names:?}");
        }
        assert_eq!(of("tab"), ["Flame graph", "Inverted", "Sandwich", "Table"]);
        assert!(of("button").contains(&"only: iowait"), "{:?}", of("button"));
        match view {
            "Table" => assert!(of("table")[0].contains("functions"), "{all:?}"),
            _ => assert!(of("application")[0].starts_with(view), "{:?}", of("application")),
        }
    }
    browser.key("1");
    browser.until("!document.getElementById('graph').hidden");
    // The first key chooses the frame of all.
    browser.key("ArrowDown");
    browser.key("ArrowDown");
    let live = browser.value(
        "[...document.querySelectorAll('[role=status]')].map((of) => of.textContent).filter((of) => of.includes('main'))",
    );
    assert_eq!(live.as_array().unwrap().len(), 1, "the current frame is told: {live}");
}

#[test]
fn recursion_is_folded_and_counts_once() {
    let mut browser = browser!();
    let stack = |names: &str, count| (names.split(' ').map(str::to_owned).collect(), Vec::new(), count);
    let stacks = [stack("main a b a c", 6), stack("main a a", 3), stack("main", 1)];
    let (_folder, file) = written(&profile(&stacks));
    browser.open(&file);
    browser.key("4");
    browser.until("document.querySelectorAll('#rows tr').length === 4");
    let table = browser.value("[...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].map((cell) => cell.textContent).slice(0, 5).join('|'))");
    let expected = [
        "6.000 ms|60.00 %|6.000 ms|60.00 %|c",
        "3.000 ms|30.00 %|9.000 ms|90.00 %|a",
        "1.000 ms|10.00 %|10.000 ms|100.00 %|main",
        "0.000 µs|0.00 %|6.000 ms|60.00 %|b",
    ];
    assert_eq!(table, json!(expected));
    browser.key("1");
    browser.key("r");
    browser.until("location.hash.includes('fold')");
    browser.drag("canvas", 0.1, 0.1, row(2));
    assert!(
        browser.text("current").starts_with("a9.000 ms (90.00 %)self 3.000 ms (30.00 %)"),
        "{}",
        browser.text("current")
    );
    browser.drag("canvas", 0.99, 0.99, row(3));
    assert!(browser.text("current").starts_with("a"), "what it calls takes two thirds of it");
    // Children by name: b, and c that is called by a inside of b.
    browser.drag("canvas", 0.5, 0.5, row(3));
    assert!(browser.text("current").starts_with("c6.000 ms"), "{}", browser.text("current"));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn hostile_names_are_text() {
    let mut browser = browser!();
    let names = [
        "</script><script>document.title='broken'</script>".to_owned(),
        "<img src=x onerror=document.title='broken'>".to_owned(),
        "line\nbreak\u{202e}right to left".to_owned(),
        "x".repeat(1_000_000),
        "{{DATA}}".to_owned(),
    ];
    let labels = vec![Label::str("comm", &names[0]), Label::str("<b>key</b>", &names[1])];
    let other = vec![Label::str("comm", &names[1]), Label::str("<b>key</b>", &names[3])];
    let stacks: Vec<Stack> = vec![(names.to_vec(), labels, 5), (names[1..].to_vec(), other, 6)];
    let mut made = profile(&stacks);
    made.comments.extend(names.iter().cloned());
    let (_folder, file) = written(&made);
    browser.open(&file);
    for key in ["ArrowDown", "ArrowDown", "ArrowDown", "s", "2", "ArrowDown", "ArrowDown", "4", "1"] {
        browser.key(key);
    }
    browser.until("document.querySelectorAll('#facets fieldset').length === 2");
    for (line, begin) in [(1, "<img src=x onerror"), (2, "line\\nbreak\\u{202e}right"), (3, "xxxxxxxx")] {
        browser.drag("canvas", 0.9, 0.9, row(line));
        browser.key("Escape");
        let shown = browser.text("current");
        assert!(shown.starts_with(begin) && shown.len() < 10_000, "{}", &shown[..shown.len().min(200)]);
    }
    assert_eq!(browser.value("document.title"), "CPU");
    assert_eq!(browser.value("document.querySelectorAll('img').length + document.scripts.length"), 2);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn empty_deep_and_damaged_reports() {
    let mut browser = browser!();
    let (_folder, file) = written(&profile(&[]));
    browser.open(&file);
    assert_eq!(browser.text("empty"), "The profile has no samples.");
    for key in ["2", "3", "4", "1", "ArrowDown", "n", "s"] {
        browser.key(key);
    }
    assert_eq!(browser.complaints(), [""; 0]);

    let deep = (0..500).map(|depth| format!("level_{depth}")).collect();
    let (_folder, file) = written(&profile(&[(deep, Vec::new(), 1)]));
    browser.open(&file);
    for _ in 0..400 {
        browser.key("ArrowDown");
    }
    assert!(browser.text("current").starts_with("level_398"), "{}", browser.text("current"));
    assert!(browser.value("document.getElementById('graph').scrollTop").as_f64().unwrap() > 5_000.0);
    assert!(browser.value("document.getElementById('canvas').height").as_f64().unwrap() < 2_000.0);
    assert_eq!(browser.complaints(), [""; 0]);

    let page = fs::read_to_string(&file).unwrap();
    let (begin, data) = page.split_once("id=\"data\">").unwrap();
    for damaged in [&data[40..], &format!("H4sIAAAA{data}"), ""] {
        fs::write(&file, format!("{begin}id=\"data\">{damaged}")).unwrap();
        if damaged.is_empty() {
            continue;
        }
        browser.open(&file);
        let told = browser.text("failed");
        assert!(told.starts_with("The data of this report cannot be shown: "), "{told}");
    }
}
