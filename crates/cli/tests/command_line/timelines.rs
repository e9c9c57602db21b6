//! Timelines of HTML reports of real captures.

use testkit::Browser;

use crate::capture::{assert_status, privileged};
use crate::run_in;

/// The processes that the page lists in a part of the time, by their names.
fn listed(browser: &mut Browser, from: f64, to: f64) -> Vec<String> {
    browser.key("0");
    browser.until("!location.hash.includes('range=')");
    browser.drag("timeline", from, to, 20.0);
    browser.until("location.hash.includes('range=')");
    let names = browser.value(
        "[...document.querySelectorAll('#facets fieldset')].find((set) => set.firstChild.textContent === 'process')
            .innerText.split('\\n').filter((line) => line.includes('('))",
    );
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Two programs sleep one after the other, and a shell waits for both: a wait is there from its begin on, not only when it ends.
#[test]
fn waits_are_on_the_timeline_while_they_last() {
    check_waits(&[]);
}

/// Each wait has two stacks: that of the thread, and that of the thread that woke it. The shell's waits have two wakers.
#[test]
fn waits_with_their_wakers_are_on_the_timeline() {
    check_waits(&["--wakers"]);
}

fn check_waits(options: &[&str]) {
    let Some(mut browser) = Browser::start() else { return };
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = ["--", "sh", "-c", "sleep 2; sleep 2; true"];
    let words = [&["--offcpu", "--html-output", "waits.html"], options, &command].concat();
    assert_status(&run_in(folder.path(), &words), 0);
    browser.open(&folder.path().join("waits.html"));
    browser.until("document.querySelectorAll('#facets fieldset').length > 0");
    assert!(browser.text("range").ends_with("drag to select a range"), "{}", browser.text("range"));
    let (first, last) = (listed(&mut browser, 0.2, 0.3), listed(&mut browser, 0.7, 0.8));
    let told = browser.text("range");
    assert!(told.ends_with(" % of the time"), "{told}");
    for names in [&first, &last] {
        let of = |name: &str| names.iter().filter(|listed| listed.starts_with(name)).count();
        assert_eq!((of("sh ("), of("sleep ("), names.len()), (1, 1, 2), "{first:?} {last:?}");
    }
    let sleep = |names: &[String]| names.iter().find(|name| name.starts_with("sleep")).cloned();
    assert_ne!(sleep(&first), sleep(&last), "each sleeps in its half");
    assert_eq!(browser.complaints(), [""; 0]);
}
