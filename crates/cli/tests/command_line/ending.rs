//! What a capture says at its end.

use testkit::Process;

use crate::capture::{assert_status, files, privileged};
use crate::{run_in, stderr};

/// The messages of a short capture of a program that computes.
fn said(more: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let words = [&["--profile", "--sample-rate", "499", "--duration", "500ms", "--pid", &pid], more].concat();
    let output = run_in(directory.path(), &words);
    assert_status(&output, 0);
    assert_eq!(files(directory.path()).len(), 1);
    stderr(&output)
}

#[test]
fn facts_functions_paths_and_a_command_are_told_in_this_order() {
    if !privileged() {
        return;
    }
    let text = said(&[]);
    let position = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
    let facts = text.lines().skip(1).find(|line| line.starts_with("on-CPU: pid ")).unwrap();
    for fact in [" s, ", " samples, ", " % rooted, ", " % named, ", " lost"] {
        assert!(facts.contains(fact), "{facts}");
    }
    let table = position("   self    total  function");
    assert!(position(facts) < table && table < position("wrote "), "{text}");
    assert!(position("wrote ") < position("look further: go tool pprof -http=: "), "{text}");
    let is_share = |line: &&str| line.contains('%') && !line.starts_with("advice: ");
    let shares = text[table..].lines().skip(1).take_while(is_share).count();
    assert!((1..=10).contains(&shares), "{text}");
    assert!(!text.contains("ledger:") && !text.contains('\u{1b}'), "{text}");
    let named: f64 = facts.split(" % named").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let advice = text.lines().filter(|line| line.starts_with("advice: ")).collect::<Vec<_>>();
    let about_names = advice.iter().any(|line| line.contains("of the frames have no names"));
    assert!(advice.len() <= 3 && about_names == (named < 95.0), "{text}");
    assert!(
        text.rfind("advice: ").is_none_or(|advice| table < advice && advice < position("wrote ")),
        "{text}"
    );
}

#[test]
fn a_picture_or_text_takes_the_place_of_the_file_with_an_automatic_name() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let words =
        ["--profile", "--offcpu", "--duration", "300ms", "--flamegraph-output", "f.svg", "--pid", &pid];
    let output = run_in(directory.path(), &words);
    assert_status(&output, 0);
    assert_eq!(files(directory.path()), ["f.off-cpu.svg", "f.on-cpu.svg"]);
    assert!(stderr(&output).contains("look further: xdg-open f.on-cpu.svg"), "{}", stderr(&output));
    let svg = std::fs::read_to_string(directory.path().join("f.on-cpu.svg")).unwrap();
    assert!(svg.contains(&format!("On-CPU time: pid {pid} (")) && svg.contains(" 99 Hz, "), "{svg}");
}

#[test]
fn quiet_leaves_warnings_and_verbose_adds_the_ledger() {
    if !privileged() {
        return;
    }
    let text = said(&["--quiet"]);
    assert!(text.lines().all(|line| line.starts_with("warning: ") || line.starts_with("hint: ")), "{text}");
    let text = said(&["--verbose", "--color=always"]);
    assert!(text.contains("\nledger:\n") && text.contains("  rooted_pct "), "{text}");
    assert!(text.contains("\u{1b}[1mon-CPU: pid "), "{text}");
}
