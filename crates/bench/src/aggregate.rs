//! Several runs as one markdown document: medians and spreads.

use std::collections::BTreeMap;

use crate::record::{Run, Setting, TableTime};
use crate::statistics::{Summary, summary};

/// How many of the files with the slowest tables are listed.
const LISTED: usize = 10;

/// A figure of a run, by name.
type Figure = (&'static str, fn(&Run) -> f64);

const FIGURES: [Figure; 10] = [
    ("start, ms", |run| run.start_ms),
    ("CPU time of the start, ms", |run| run.start_cpu_ms),
    ("tables", |run| run.tables.len() as f64),
    ("rows of all tables", |run| run.tables.iter().map(|table| table.rows as f64).sum()),
    ("time for all tables, ms", |run| run.tables.iter().map(|table| table.compile_ms).sum()),
    ("time for the slowest table, ms", |run| run.tables.iter().map(|t| t.compile_ms).fold(0.0, f64::max)),
    ("last table ready after, ms", |run| run.tables.iter().map(|t| t.ready_ms).fold(0.0, f64::max)),
    ("samples", |run| run.samples),
    ("complete stacks, %", |run| run.rooted_pct),
    ("lost samples", |run| run.lost),
];

/// The document: one table of figures with a block of rows for each setting, and one of the slowest files.
#[must_use]
pub fn markdown(runs: &[Run]) -> String {
    let mut settings: Vec<&Setting> = Vec::new();
    for run in runs {
        if !settings.contains(&&run.setting) {
            settings.push(&run.setting);
        }
    }
    let mut lines = machines(runs);
    lines.push("| setting | figure | runs | median | half quartile distance | least | most |".to_owned());
    lines.push("|---|---|--:|--:|--:|--:|--:|".to_owned());
    for setting in settings {
        let of_setting: Vec<&Run> = runs.iter().filter(|run| run.setting == *setting).collect();
        for (name, figure) in FIGURES {
            let values = of_setting.iter().map(|run| figure(run)).collect();
            lines.push(format!("| {} | {name} | {} |", setting.words(), columns(values)));
        }
    }
    lines.extend(slowest(runs));
    lines.join("\n") + "\n"
}

fn machines(runs: &[Run]) -> Vec<String> {
    let mut machines: Vec<String> = Vec::new();
    for run in runs {
        let machine = format!("Linux {}, {} CPUs.", run.machine.kernel, run.machine.cpus);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    machines.push(String::new());
    machines
}

/// The files whose tables were compiled, not read, by the median time.
fn slowest(runs: &[Run]) -> Vec<String> {
    let mut times: BTreeMap<&str, (usize, Vec<f64>)> = BTreeMap::new();
    for TableTime { path, rows, compile_ms, .. } in
        runs.iter().flat_map(|run| &run.tables).filter(|table| !table.cached)
    {
        let (most_rows, all) = times.entry(path).or_default();
        *most_rows = (*most_rows).max(*rows);
        all.push(*compile_ms);
    }
    let mut files: Vec<(&str, usize, Vec<f64>, f64)> = Vec::new();
    for (path, (rows, values)) in times {
        let median = summary(values.clone()).median;
        files.push((path, rows, values, median));
    }
    files.sort_by(|one, other| other.3.total_cmp(&one.3));
    if files.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        "| slowest files | rows | compiled | median, ms | half quartile distance | least | most |".to_owned(),
        "|---|--:|--:|--:|--:|--:|--:|".to_owned(),
    ];
    let shown = files.into_iter().take(LISTED);
    lines.extend(shown.map(|(path, rows, values, _)| format!("| {path} | {rows} | {} |", columns(values))));
    lines
}

fn columns(values: Vec<f64>) -> String {
    let count = values.len();
    let Summary { median, spread, least, most } = summary(values);
    format!("{count} | {median:.1} | {spread:.1} | {least:.1} | {most:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cache, Machine, Scope};

    fn run(label: &str, start_ms: f64, tables: &[(&str, f64, bool)]) -> Run {
        let table = |(path, compile_ms, cached): &(&str, f64, bool)| TableTime {
            path: (*path).to_owned(),
            rows: 7,
            compile_ms: *compile_ms,
            cached: *cached,
            ready_ms: 3.0 * compile_ms,
        };
        let setting = Setting {
            processes: 3,
            binaries: 4,
            scope: Scope::Fleet,
            all_tables: true,
            cache: Cache::Empty,
            label: label.to_owned(),
        };
        Run {
            setting,
            machine: Machine { kernel: "6.1".to_owned(), cpus: 2 },
            start_ms,
            start_cpu_ms: 1.0,
            samples: 10.0,
            rooted_pct: 100.0,
            lost: 0.0,
            tables: tables.iter().map(table).collect(),
        }
    }

    #[test]
    fn runs_of_one_setting_are_one_row() {
        let runs = [
            run("old", 10.0, &[("/bin/a", 1.0, false), ("/bin/b", 2.0, false)]),
            run("old", 30.0, &[("/bin/a", 3.0, false), ("/bin/b", 1.0, true)]),
            run("old", 20.0, &[]),
            run("new", 5.0, &[("/bin/a", 0.5, true)]),
            run("new", 5.0, &[("/bin/c", 9.0, false)]),
        ];
        let text = markdown(&runs);
        let setting = "3 processes, 4 binaries, the fleet, all tables first, cache empty";
        for line in [
            "Linux 6.1, 2 CPUs.".to_owned(),
            format!("| old: {setting} | start, ms | 3 | 20.0 | 5.0 | 10.0 | 30.0 |"),
            format!("| old: {setting} | time for all tables, ms | 3 | 3.0 | 1.0 | 0.0 | 4.0 |"),
            format!("| old: {setting} | last table ready after, ms | 3 | 6.0 | 2.2 | 0.0 | 9.0 |"),
            format!("| new: {setting} | start, ms | 2 | 5.0 | 0.0 | 5.0 | 5.0 |"),
            "| /bin/b | 7 | 1 | 2.0 | 0.0 | 2.0 | 2.0 |".to_owned(),
            "| /bin/a | 7 | 2 | 2.0 | 0.5 | 1.0 | 3.0 |".to_owned(),
        ] {
            assert_eq!(text.lines().filter(|l| *l == line).count(), 1, "{line} in\n{text}");
        }
        let slowest = text.lines().skip_while(|line| !line.starts_with("| slowest")).nth(2);
        assert_eq!(slowest, Some("| /bin/c | 7 | 1 | 9.0 | 0.0 | 9.0 | 9.0 |"), "{text}");
    }

    #[test]
    fn only_the_slowest_files_are_listed() {
        let tables: Vec<(String, f64, bool)> =
            (0..20_u32).map(|number| (format!("/bin/{number}"), f64::from(number), false)).collect();
        let tables: Vec<_> = tables.iter().map(|(path, ms, cached)| (path.as_str(), *ms, *cached)).collect();
        let text = markdown(&[run("", 1.0, &tables)]);
        let listed = text.lines().filter_map(|line| line.strip_prefix("| /bin/")?.split(' ').next());
        let expected: Vec<String> = (10..20).rev().map(|number| number.to_string()).collect();
        assert_eq!(listed.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn what_is_written_is_read_again_and_other_forms_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.json");
        let one = run("", 10.0, &[("/bin/a", 1.0, false)]);
        one.clone().write(&file).unwrap();
        assert_eq!(Run::read(&file).unwrap(), one);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("scenario/1", "scenario/0")).unwrap();
        assert!(Run::read(&file).unwrap_err().to_string().contains("scenario/0"));
        std::fs::write(&file, "{}").unwrap();
        assert!(Run::read(&file).is_err());
    }
}
