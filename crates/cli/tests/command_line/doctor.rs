//! `perf-agent doctor`.

use serde_json::Value;

use crate::{run, stdout};

#[test]
fn json_is_an_array_of_checks_and_the_status_follows_them() {
    let output = run(&["doctor", "--json"]);
    let checks: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<_> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    for name in ["kernel", "btf", "capabilities", "lockdown", "kallsyms", "pmu", "tracefs", "cgroup"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    for check in &checks {
        let keys: Vec<_> = check.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys.len(), 5);
        assert!(["check", "status", "value", "affects", "fix"].iter().all(|key| keys.contains(key)));
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "warn", "fail"].contains(&status));
        assert!(status == "ok" || check["fix"].is_string(), "{check}");
    }
    let failed = checks.iter().any(|check| check["status"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(failed)));
}

#[test]
fn text_has_one_line_per_check() {
    let output = run(&["doctor"]);
    let text = stdout(&output);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("ok    kernel") && line.contains(release.trim())),
        "{text}"
    );
    for line in text.lines() {
        assert!(["ok ", "warn", "fail"].iter().any(|status| line.starts_with(status)), "{line}");
    }
    let count = serde_json::from_str::<Vec<Value>>(&stdout(&run(&["doctor", "--json=true"]))).unwrap().len();
    assert_eq!(text.lines().count(), count);
    assert_eq!(stdout(&run(&["doctor", "--json=false"])).lines().count(), count);
}
