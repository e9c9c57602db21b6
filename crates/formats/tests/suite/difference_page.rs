//! The page of a difference in a browser, against counts that are made here and figures of other programs.

use std::path::PathBuf;

use formats::{Counted, Difference, EncodeOptions, Measured, Widths, folded, html};
use profile::{Builder, Label, Profile, ValueType};
use serde_json::json;
use tempfile::TempDir;
use testkit::Browser;

macro_rules! browser {
    () => {{
        match Browser::start() {
            Some(browser) => browser,
            None => return,
        }
    }};
}

fn stacks(text: &str) -> Profile {
    folded::decode(text.as_bytes()).unwrap()
}

fn samples(profile: &Profile) -> f64 {
    profile.samples.iter().map(|sample| sample.values[0] as f64).sum()
}

fn side<'a>(profiles: &[(&'a str, &'a Profile)], measured: Measured) -> Vec<Counted<'a>> {
    let counted = |(name, profile): &(&'a str, &'a Profile)| {
        let exposure = if measured == Measured::Share { samples(profile) } else { 1.0 };
        Counted { name, profile, value: 0, exposure }
    };
    profiles.iter().map(counted).collect()
}

/// The page of a difference as a file.
fn written(
    before: &[(&str, &Profile)],
    after: &[(&str, &Profile)],
    measured: Measured,
) -> (TempDir, PathBuf) {
    let (before, after) = (side(before, measured), side(after, measured));
    let difference = Difference { before: &before, after: &after, measured, widths: Widths::After };
    let options =
        EncodeOptions { title: "old → new".to_owned(), inverted: true, ..EncodeOptions::default() };
    let mut out = Vec::new();
    html::write_difference(&difference, &["not detectable: <b>nothing</b>".to_owned()], &options, &mut out)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("difference.html");
    std::fs::write(&file, out).unwrap();
    (folder, file)
}

/// The rows of the table, the texts of their cells joined.
fn rows(browser: &mut Browser) -> Vec<String> {
    let rows = browser.value(
        "[...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].slice(0, 5).map((cell) => cell.textContent).join('|'))",
    );
    rows.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
}

/// The colour of a point of the graph: red, green and blue.
fn color(browser: &mut Browser, x: u32, row: u32) -> [i64; 3] {
    let y = row * 20 + 2;
    // A copy, because browsers complain of canvases that are drawn on and read.
    let rgb = browser.value(&format!(
        "(() => {{
            const copy = document.createElement('canvas').getContext('2d', {{ willReadFrequently: true }});
            copy.drawImage(document.getElementById('canvas'), -{x}, -{y});
            return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
        }})()"
    ));
    [0, 1, 2].map(|index| rgb[index].as_i64().unwrap())
}

fn is_orange([red, _, blue]: [i64; 3]) -> bool {
    red > blue + 60
}

fn is_blue([red, _, blue]: [i64; 3]) -> bool {
    blue > red + 60
}

fn is_grey([red, green, blue]: [i64; 3]) -> bool {
    red.abs_diff(green) < 20 && green.abs_diff(blue) < 20
}

/// Rows of the graph are 20 pixels high; this is inside of one.
fn row(number: u32) -> f64 {
    f64::from(number) * 20.0 + 10.0
}

#[test]
fn a_known_pair_is_coloured_told_and_listed() {
    let mut browser = browser!();
    // Children by name from left to right: f grew, g shrank, h may be chance, new came, and old went.
    let before = stacks("main;f 1000\nmain;g 1000\nmain;h 1000\nmain;old 300\n");
    let after = stacks("main;f 1500\nmain;g 500\nmain;h 1010\nmain;new 300\n");
    let (_folder, file) = written(&[("old", &before)], &[("new", &after)], Measured::Share);
    browser.open(&file);
    assert_eq!(browser.text("figures"), "3,300 samples before3,310 samples after");
    assert_eq!(browser.text("notes"), "not detectable: <b>nothing</b>");
    assert_eq!(browser.value("document.querySelectorAll('#notes b').length"), 0);
    let width = browser.value("document.getElementById('canvas').width").as_f64().unwrap();
    let at = |samples: f64| (width * samples / 3310.0) as u32;
    let colors = [750.0, 1750.0, 2500.0, 3200.0].map(|samples| color(&mut browser, at(samples), 2));
    assert!(
        is_orange(colors[0]) && is_blue(colors[1]) && is_grey(colors[2]) && is_orange(colors[3]),
        "{colors:?}"
    );
    assert!(is_grey(color(&mut browser, at(100.0), 1)), "main is in all samples");

    browser.drag("canvas", 0.1, 0.1, row(2));
    // R: 1500/3310 / (1000/3300) - 1 = 49.5 %.
    let told = browser.text("current");
    assert!(
        told.starts_with("fbefore 30.30 % (1,000 samples)after 45.32 % (1,500 samples)+49.5 % (95 %: +40."),
        "{told}"
    );
    assert!(told.contains("%)significant"), "{told}");
    browser.key("0");
    browser.drag("canvas", 0.75, 0.75, row(2));
    assert!(browser.text("current").contains("may be chance"), "{}", browser.text("current"));
    browser.key("0");

    // The other side: old has a width, new has none.
    browser.key("w");
    browser.until("location.hash.includes('widths=before')");
    assert_eq!(browser.text("widths"), "Widths: before");
    assert!(is_blue(color(&mut browser, (width * 3150.0 / 3300.0) as u32, 2)));
    browser.drag("canvas", 0.97, 0.97, row(2));
    let told = browser.text("current");
    assert!(told.starts_with("oldbefore 9.09 % (300 samples)after 0.00 % (0 samples)-100.0 %"), "{told}");
    browser.key("0");
    browser.key("Escape");
    browser.key("Escape");

    browser.key("4");
    browser.until("document.querySelectorAll('#rows tr').length === 5");
    assert_eq!(browser.text("rows-count"), "4 of 5 functions changed significantly");
    let listed = rows(&mut browser);
    let begins = [
        "30.30 %|15.11 %|-50.2 %",
        "30.30 %|45.32 %|+49.5 %",
        "9.09 %|0.00 %|-100.0 %",
        "0.00 %|9.06 %|new",
        "30.30 %|30.51 %|+0.7 %",
    ];
    for (row, begin) in listed.iter().zip(begins) {
        assert!(row.starts_with(begin), "{listed:?}");
    }
    assert!(listed[0].ends_with("|g") && listed[4].ends_with("|h"), "{listed:?}");
    browser.value("document.getElementById('counted').click()");
    browser.until("document.querySelectorAll('#rows tr').length === 6");
    assert!(rows(&mut browser)[5].starts_with("100.00 %|100.00 %|+0.0 %"), "{:?}", rows(&mut browser));
    browser.value("document.getElementById('by-name').click()");
    assert!(rows(&mut browser)[0].ends_with("|f"));
    browser.value("document.querySelectorAll('#rows button')[0].click()");
    browser.until("location.hash.includes('view=sandwich')");
    browser.key("2");
    browser.until("location.hash.includes('view=inverted')");
    browser.search("old|new");
    browser.until("document.getElementById('matched').textContent === '9.09 % matched'");
    browser.key("n");
    assert!(browser.text("current").starts_with("old"), "{}", browser.text("current"));
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Values of the integrals of the densities, and of sums of binomial coefficients.
#[test]
fn the_page_knows_the_distributions() {
    let mut browser = browser!();
    let profile = stacks("main 1\n");
    let (_folder, file) = written(&[("a", &profile)], &[("b", &profile)], Measured::Share);
    // The functions are in the scope of the script alone; a copy of the script tells them.
    let page = std::fs::read_to_string(&file).unwrap();
    let script = page.rsplit("<script>").next().unwrap().split("</script>").next().unwrap();
    let opened = script.replace(
        "main();\n",
        "window.known = { normalTails, studentTails, binomialTails, discoveryLimit };\n",
    );
    assert_ne!(script, opened);
    let blank = file.with_file_name("blank.html");
    std::fs::write(&blank, "<body></body>").unwrap();
    browser.open_until(&blank, "document.body !== null");
    browser.value(&format!("{opened};1"));
    for (expression, expected) in [
        ("normalTails(2)", 0.045_500_263_896_358),
        ("normalTails(-5)", 5.733_031_437_583_9e-7),
        ("normalTails(0)", 1.0),
        ("studentTails(2, 10)", 0.073_388_034_770_740),
        ("studentTails(-8, 4)", 1.323_897e-3),
        ("studentTails(6.5, 118)", 2.009e-9),
        ("binomialTails(8, 10, 0.5)", 0.109_375),
        ("binomialTails(0, 10, 0.5)", 0.001_953_125),
        ("binomialTails(5, 10, 0.5)", 1.0),
        ("discoveryLimit(Float64Array.of(0.001, 0.005, NaN, 0.0055, 0.9, 0.5))", 0.0055),
        ("discoveryLimit(Float64Array.of(0.003, 0.0045, 0.9, 0.9, 0.9))", -1.0),
    ] {
        let value = browser.value(&format!("known.{expression}")).as_f64().unwrap();
        assert!((value / expected - 1.0).abs() < 2e-3, "{expression}: {value}, not {expected}");
    }
}

/// Thirty intervals a side; `burst` has most of its samples in a few of them, `step` grew in each.
#[test]
fn intervals_of_a_side_widen_what_scatters_and_can_be_left_out() {
    let mut browser = browser!();
    let interval = |number: usize, bursts: [usize; 2], step: usize| {
        let burst = if bursts.contains(&number) { 400 } else { 10 };
        stacks(&format!(
            "main;burst {burst}\nmain;rest {}\nmain;step {}\n",
            500 + number % 7,
            step + number % 5
        ))
    };
    let before: Vec<Profile> = (0..12).map(|number| interval(number, [3, 3], 100)).collect();
    let after: Vec<Profile> = (0..12).map(|number| interval(number, [2, 9], 130)).collect();
    let names: Vec<String> = (0..12).map(|number| format!("{number}.pb.gz")).collect();
    let named = |profiles: &'_ [Profile]| -> Vec<(String, Profile)> {
        names.iter().cloned().zip(profiles.iter().cloned()).collect()
    };
    let (before, after) = (named(&before), named(&after));
    let of = |side: &'_ [(String, Profile)]| -> Vec<(String, Profile)> { side.to_vec() };
    let (b, a) = (of(&before), of(&after));
    let b: Vec<(&str, &Profile)> = b.iter().map(|(name, profile)| (name.as_str(), profile)).collect();
    let a: Vec<(&str, &Profile)> = a.iter().map(|(name, profile)| (name.as_str(), profile)).collect();
    let (_folder, file) = written(&b, &a, Measured::PerRun);
    browser.open(&file);
    browser.key("4");
    browser.until("document.querySelectorAll('#rows tr').length === 3");
    let listed = rows(&mut browser);
    assert_eq!(browser.text("rows-count"), "1 of 3 functions changed significantly", "{listed:?}");
    assert!(
        listed[0].starts_with("101.75 per run|131.75 per run|+29.5 %") && listed[0].ends_with("|step"),
        "{listed:?}"
    );
    assert!(listed[1].contains("+76.5 %|-") && listed[1].ends_with("|burst"), "{listed:?}");
    // Without the intervals of the bursts all scatter little: 24 profiles are in the list, of which some are shown at first.
    browser.value("document.querySelector('#facets [data-what=more]').click()");
    for name in ["before: 3.pb.gz", "after: 2.pb.gz", "after: 9.pb.gz"] {
        browser.value(&format!(
            "[...document.querySelectorAll('.choice')].find((line) => line.textContent.startsWith({})).querySelector('input').click()",
            json!(name)
        ));
    }
    browser.until("document.querySelectorAll('#facets input:not(:checked)').length === 3");
    let listed = rows(&mut browser);
    let burst = listed.iter().find(|row| row.ends_with("|burst")).unwrap();
    assert!(burst.starts_with("10.00 per run|10.00 per run|+0.0 %"), "{listed:?}");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_side_without_samples_a_hostile_name_and_owners() {
    let mut browser = browser!();
    let hostile = "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>";
    let of = |program: &str, count| {
        let mut builder = Builder::new(&[ValueType::new("samples", "count")], ValueType::default(), 1);
        let [leaf, main] = [hostile, "main"].map(|name| builder.synthetic(name));
        let labels = |comm: &str, pid| vec![Label::str("comm", comm), Label::num("pid", pid)];
        builder.add(labels(program, 7), vec![leaf, main], &[count]);
        builder.add(labels("other", 8), vec![main], &[500]);
        builder.finish(
            0,
            0,
            vec!["perf-agent.samples=5".to_owned(), "perf-agent.lost=5".to_owned(), hostile.to_owned()],
        )
    };
    let (before, after) = (of(hostile, 500), of(hostile, 900));
    let (_folder, file) = written(&[(hostile, &before)], &[("b", &after)], Measured::Share);
    browser.open(&file);
    assert!(browser.text("figures").contains("5 lost (50.00 %)"), "{}", browser.text("figures"));
    // Facets are program alone: numbers of processes are not comparable, and neither of two profiles can be left out.
    browser.until("document.querySelectorAll('#facets fieldset').length === 1");
    assert_eq!(browser.value("document.querySelector('#facets legend').textContent"), "program");
    browser.key("4");
    browser.until("document.querySelectorAll('#rows tr').length === 2");
    assert!(rows(&mut browser)[0].ends_with(hostile), "{:?}", rows(&mut browser));
    // The program and a function of it have one name.
    browser.value("document.getElementById('counted').click()");
    let cumulative = rows(&mut browser);
    assert_eq!(cumulative.len(), 2, "owners are no functions: {cumulative:?}");
    assert!(cumulative[0].starts_with("50.00 %|64.29 %|"), "{cumulative:?}");
    assert!(cumulative[1].starts_with("100.00 %|100.00 %|+0.0 %"), "{cumulative:?}");
    browser.key("1");
    let out = format!("{}#off0=1", file.display());
    browser.open_until(&PathBuf::from(out), "document.getElementById('empty')?.hidden === false");
    assert!(browser.text("empty").starts_with("One side has no samples"), "{}", browser.text("empty"));
    for key in ["2", "4", "1", "ArrowDown", "ArrowDown", "s", "w"] {
        browser.key(key);
    }
    assert_eq!(browser.value("window.ran === undefined && document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.complaints(), [""; 0]);
}
