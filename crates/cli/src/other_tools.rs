//! Words of perf, bcc's tools, py-spy, samply and parca, and how perf-agent says the same.

/// Options of other tools, and the option here that means the same.
const SYNONYMS: &[(&str, &str)] = &[
    ("--frequency", "--sample-rate (-F)"),
    ("--freq", "--sample-rate (-F)"),
    ("--rate", "--sample-rate (-F)"),
    ("--hz", "--sample-rate (-F)"),
    ("--profiling-cpu-sampling-frequency", "--sample-rate (-F)"),
    ("-r", "--sample-rate (-F)"),
    ("--output", "-o PATH"),
    ("--out", "-o PATH"),
    ("--output-file", "-o PATH"),
    ("--save", "-o PATH"),
    ("--pids", "--pid (-p)"),
    ("--process", "--pid (-p)"),
    ("--tgid", "--pid (-p)"),
    ("--name", "--comm NAME"),
    ("--process-name", "--comm NAME"),
    ("--tids", "--tid"),
    ("--thread", "--tid"),
    ("-t", "--tid"),
    ("-L", "--tid"),
    ("--cgroups", "--cgroup"),
    ("--cgroupmap", "--cgroup"),
    ("--for-each-cgroup", "--cgroup"),
    ("-G", "--cgroup"),
    ("--container", "--cgroup"),
    ("--threads", "--per-thread"),
    ("--all-cpus", "-a"),
    ("--system", "-a"),
    ("--system-wide", "-a"),
    ("--all-processes", "-a"),
    ("--time", "--duration (-d)"),
    ("--timeout", "--duration (-d)"),
    ("--seconds", "--duration (-d)"),
    ("--length", "--duration (-d)"),
    ("--profiling-duration", "--duration (-d)"),
    ("--switch-output", "--rotate"),
    ("--call-graph", "--unwind fp, dwarf or auto"),
    ("--callgraph", "--unwind fp, dwarf or auto"),
    ("--kernel", "--kernel-stacks (-g)"),
    ("--kernel-callchains", "--kernel-stacks (-g)"),
    ("-K", "--kernel-stacks (-g)"),
    ("--folded", "--folded-output PATH"),
    ("--collapsed", "--folded-output PATH"),
    ("-f", "--folded-output PATH"),
    ("--html", "--html-output PATH"),
    ("--svg", "--flamegraph-output PATH"),
    ("--flame", "--flamegraph-output PATH"),
    ("--flame-graph", "--flamegraph-output PATH"),
    ("--pprof", "--profile-output PATH"),
    ("--off-cpu", "--offcpu"),
    ("--offcputime", "--offcpu"),
    ("--on-cpu", "--profile"),
    ("--cpu", "--profile"),
    ("--state", "--offcpu-states"),
    ("--min-block-time", "--min-block"),
    ("-m", "--min-block"),
    ("--events", "--event with --profile, or --pmu-events with --pmu"),
    ("-e", "--event with --profile, or --pmu-events with --pmu"),
    ("--stack-storage-size", "--max-stacks"),
    ("--mmap-pages", "--ring-size"),
    ("--comment", "--tag K=V"),
    ("--label", "--tag K=V"),
    ("-i", "--no-children"),
    ("--no-inherit", "--no-children"),
];

/// Options of other tools that perf-agent does not need.
const NOT_NEEDED: &[(&str, &str)] = &[
    ("--subprocesses", "descendants of a target are included; --no-children leaves them out"),
    ("-s", "descendants of a target are included; --no-children leaves them out"),
    ("--inherit", "descendants of a target are included; --no-children leaves them out"),
    ("--native", "native frames are always there"),
    ("-n", "native frames are always there"),
    ("--user-stacks-only", "kernel frames are only there with --kernel-stacks (-g)"),
    ("-U", "kernel frames are only there with --kernel-stacks (-g)"),
    ("--idle", "waiting threads are in the profile of --offcpu"),
    ("--all-user", "kernel frames are only there with --kernel-stacks (-g)"),
];

/// Subcommands of other tools.
const SUBCOMMANDS: &[(&str, &str)] = &[
    ("record", "a capture needs no subcommand: perf-agent --profile --pid PID"),
    ("profile", "a capture needs no subcommand: perf-agent --profile --pid PID"),
    ("offcputime", "a capture needs no subcommand: perf-agent --offcpu --pid PID"),
    ("stat", "counters are read by --pmu: perf-agent --pmu --pid PID"),
    ("report", "the functions of a profile are printed by `perf-agent top FILE`"),
    ("script", "outputs of a recording are made by `perf-agent render FILE`"),
];

/// How perf-agent says what this option means to another tool.
pub fn option(word: &str) -> Option<String> {
    let not_needed = NOT_NEEDED.iter().find(|(known, _)| *known == word).map(|(_, why)| (*why).to_owned());
    let same = SYNONYMS.iter().find(|(known, _)| *known == word);
    same.map(|(_, option)| format!("the option here is {option}")).or(not_needed)
}

/// The same for a subcommand.
pub fn subcommand(word: &str) -> Option<&'static str> {
    SUBCOMMANDS.iter().find(|(known, _)| *known == word).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CommandLine;

    /// Whether the program has this option.
    fn is_known(option: &str) -> bool {
        CommandLine::command().get_arguments().any(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            [long, short].into_iter().flatten().any(|name| name == option)
        })
    }

    #[test]
    fn each_word_leads_to_an_option_that_exists_and_is_none_itself() {
        for (word, meaning) in SYNONYMS {
            let option = meaning.split_whitespace().next().unwrap();
            assert!(is_known(option), "{word}: {option}");
            assert!(!is_known(word), "{word} is an option");
            assert!(NOT_NEEDED.iter().all(|(other, _)| other != word), "{word}");
        }
        for (word, why) in NOT_NEEDED {
            assert!(!is_known(word), "{word} is an option");
            let mut options = why.split([' ', '(', ')', ';']).filter(|part| part.starts_with('-'));
            assert!(options.all(is_known), "{why}");
        }
    }

    #[test]
    fn words_of_other_tools_are_known() {
        assert_eq!(option("--freq").unwrap(), "the option here is --sample-rate (-F)");
        assert!(option("--native").unwrap().contains("always"));
        assert!(subcommand("record").unwrap().contains("--profile"));
        assert!(option("--nonsense").is_none() && subcommand("nonsense").is_none());
    }
}
