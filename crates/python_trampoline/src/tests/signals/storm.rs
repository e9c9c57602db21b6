//! Programs of many threads while they are switched on and off: contention for the lock, signals, children, threads that begin and end.

use std::collections::BTreeMap;

use super::*;

/// Threads that contend for the lock; signals to itself and a timer; children of all kinds; threads that begin and end; a hundred threads that sleep between
/// their rounds, and a hundred that compute.
const STORMS: [&[&str]; 6] = [
    &["8"],
    &["alarm", "kill", "8"],
    &["forks", "8"],
    &["churn", "kill", "8"],
    &["naps", "kill", "100"],
    &["100"],
];
/// What must go on while and after the program is switched.
const WORK: [(&str, &str); 3] = [("kill", "killed"), ("forks", "forked"), ("churn", "churned")];

/// Looks at the signals of threads: one that creates a thread or a process blocks all of them for a moment. On a busy machine that takes long, so it is
/// looked until the program has created several.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(3);
const CREATED: u64 = 3;

/// What is the same in a program whose threads and memory come and go: its files, handled and ignored signals, and those that a thread blocks all the
/// time, as far as it lives.
#[derive(Debug, PartialEq)]
struct Lasting {
    files: Vec<String>,
    actions: BTreeMap<u32, Vec<String>>,
    blocked: BTreeMap<u32, u64>,
}

impl Lasting {
    fn of(program: &Program, words: &[&str]) -> Self {
        let pid = program.pid();
        let mut files: Vec<String> =
            Surface::of(pid).maps.into_iter().map(|map| map.3).filter(|file| file.starts_with('/')).collect();
        files.sort_unstable();
        files.dedup();
        let mut lasting = Self { files, actions: BTreeMap::new(), blocked: BTreeMap::new() };
        let at_first = Told::by(program);
        testkit::until("it goes on", || {
            for _ in 0..LOOKS {
                lasting.look(pid);
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let told = Told::by(program);
            works(words).all(|name| told.number(name) >= at_first.number(name) + CREATED)
        });
        lasting
    }

    fn look(&mut self, pid: u32) {
        for (tid, mut actions) in Surface::of(pid).signals {
            let mask = actions.iter().position(|line| line.starts_with("SigBlk:"));
            let mask = mask.map(|at| actions.remove(at)).unwrap();
            let mask = u64::from_str_radix(mask.trim_start_matches("SigBlk:").trim(), 16).unwrap();
            *self.blocked.entry(tid).or_insert(u64::MAX) &= mask;
            self.actions.insert(tid, actions);
        }
    }

    /// Without threads that the other lacks.
    fn shared_with(mut self, other: &Self) -> Self {
        self.actions.retain(|tid, _| other.actions.contains_key(tid));
        self.blocked.retain(|tid, _| other.blocked.contains_key(tid));
        self
    }
}

/// What a program of these words counts.
fn works<'a>(words: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
    WORK.iter().filter(|(word, _)| words.contains(word)).map(|(_, name)| *name)
}

/// Switches a program on and off. All else than success is a refusal because the time was over. How many of those.
fn cycles(pid: u32, count: u32) -> u32 {
    let own = Mark::own().unwrap();
    let mut late = 0;
    for cycle in 0..count {
        let mut until = |act: &dyn Fn() -> Result<bool, Refusal>| {
            testkit::until("it is switched", || match act() {
                Ok(is_done) => is_done,
                Err(refusal) => {
                    assert_eq!(refusal.token, Token::Timeout, "cycle {cycle}: {refusal}");
                    println!("cycle {cycle}: {refusal}");
                    late += 1;
                    false
                }
            });
        };
        until(&|| switch_on(pid, &own).map(|on| on == On::Activated));
        until(&|| switch_off(pid, &own).map(|_| true));
    }
    late
}

fn storm(python: &PathBuf, words: &[&str], count: u32) {
    let begun = Instant::now();
    let program = busy(python, words);
    let pid = program.pid();
    let at_first = Told::by(&program);
    let before = Lasting::of(&program, words);
    let late = cycles(pid, count);
    let told = Told::by(&program);
    assert_eq!((told.number("wrong"), told.is_active()), (0, false), "{words:?}: {told:?}");
    for name in works(words).chain(["rounds", "thread_rounds"]) {
        assert!(told.number(name) > at_first.number(name), "{words:?}: {name}: {told:?}");
        testkit::until(name, || Told::by(&program).number(name) > told.number(name));
    }
    let after = Lasting::of(&program, words).shared_with(&before);
    assert_eq!(before.shared_with(&after), after, "{words:?}");
    let took = begun.elapsed();
    println!("{} {words:?}: {count} cycles in {took:?}, {late} late: {told:?}", python.display());
}

#[test]
fn programs_of_many_threads_go_on_while_they_are_switched() {
    let Some(python) = newest() else { return };
    for words in STORMS {
        storm(&python, words, 3);
    }
}

/// A storm by its number, or all: `PERFAGENT_STORM=2`; shorter: `PERFAGENT_CYCLES=20`.
#[test]
#[ignore = "takes minutes"]
fn long_programs_of_many_threads_go_on_while_they_are_switched() {
    let asked = std::env::var("PERFAGENT_STORM").ok().and_then(|number| number.parse().ok());
    for python in &switchable() {
        for (number, words) in STORMS.iter().enumerate() {
            if asked.is_none_or(|asked: usize| asked == number) {
                // An interpreter can be switched on 254 times.
                storm(python, words, asked_cycles(150));
                storm(python, words, asked_cycles(150));
            }
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn long_programs_of_many_threads_go_on_when_their_tracers_are_killed() {
    for python in &switchable() {
        for words in STORMS {
            tracers_that_are_killed(python, words, 50);
        }
    }
}
