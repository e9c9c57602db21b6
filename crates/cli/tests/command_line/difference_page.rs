//! `perf-agent diff -o F.html`: the page judges what the reader selects by formulae of its own; they give what the table of the command gives.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use testkit::Browser;

use crate::capture::assert_status;
use crate::{run_in, stdout};

/// Equal numbers in each run of the test (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// Sixty functions with few to many samples, of which some grow or shrink by `change`.
    fn stacks(&mut self, change: u64) -> String {
        let mut text = String::new();
        for number in 0..60_u64 {
            let mean = 1 + number * number;
            let changed = if number % 4 == 0 { mean + mean * change / 100 } else { mean };
            let count = changed + self.below(1 + mean / 8) - mean / 16;
            let _ = writeln!(text, "main;step{};f{number} {count}", number % 5);
        }
        text
    }
}

/// What the command prints of the functions that changed: change, interval and name of each.
fn printed(text: &str) -> Vec<String> {
    let rows = text.lines().skip_while(|line| !line.contains("95 % interval")).skip(1);
    let rows = rows.take_while(|line| line.contains(" … "));
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        let change = words.iter().take_while(|word| **word != "%" && **word != "new").count() + 1;
        format!("{}|{}", words[..change].join(" "), words[change..].join(" "))
    };
    rows.map(row).collect()
}

/// The same of the page.
fn shown(browser: &mut Browser) -> Vec<String> {
    let rows = browser.value(
        "[...document.querySelectorAll('#rows tr')].filter((row) => row.cells[2].className.includes('found'))
            .map((row) => `${row.cells[2].textContent}|${row.cells[3].textContent} ${row.cells[4].textContent}`)",
    );
    rows.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
}

fn compared(browser: &mut Browser, folder: &Path, page: &str, words: &[&str]) -> (Vec<String>, Vec<String>) {
    let output = run_in(folder, &[&["diff", "-n", "1000", "-o", page], words].concat());
    assert_status(&output, 0);
    let page = format!("{}#view=table", folder.join(page).display());
    browser.open(Path::new(&page));
    browser.until("document.querySelectorAll('#rows tr').length > 0");
    if words.contains(&"cum") {
        browser.value("document.getElementById('counted').click()");
    }
    (printed(&stdout(&output)), shown(browser))
}

#[test]
fn the_page_and_the_command_find_the_same_changes() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut random = Random(5);
    for (side, change) in [("a", 0), ("b", 25)] {
        for number in 0..8 {
            fs::write(folder.join(format!("{side}{number}")), random.stacks(change)).unwrap();
        }
    }
    let side = |name: &str| (0..8).map(|number| format!("{name}{number}")).collect::<Vec<_>>();
    let (before, after) = (side("a"), side("b"));
    let mut several: Vec<&str> = before.iter().flat_map(|name| ["--base", name]).collect();
    several.extend(after.iter().map(String::as_str));
    let mut found = Vec::new();
    let asked = [
        vec!["a0", "b0"],
        vec!["a0", "b0", "--sort", "cum"],
        vec!["a0", "b0", "--against", "runs"],
        several.clone(),
        [&several[..], &["--against", "runs", "--sort", "cum"]].concat(),
    ];
    for (number, words) in asked.iter().enumerate() {
        let (printed, shown) = compared(&mut browser, folder, &format!("{number}.html"), words);
        assert_eq!(printed, shown, "{words:?}");
        assert!(printed.len() >= 3, "{words:?}: {printed:?}");
        found.push(printed.len());
    }
    assert_ne!(found[0], found[3], "several profiles are judged by their scatter");
    assert_eq!(browser.complaints(), [""; 0]);
}
