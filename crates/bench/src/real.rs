//! Real programs, under perf-agent and `perf record --call-graph dwarf` during the same seconds. Their chains are not
//! known, so only the share of stacks that reach the start of their thread is measured.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use testkit::find_command;
use truth::profiler::{PerfMode, Profiler, Scope};
use truth::programs::sources;
use truth::roots::Roots;
use truth::run::Plan;
use truth::verdict::Verdict;

/// A real program at work.
#[derive(Clone, Copy, Debug)]
pub struct RealProgram {
    /// Its name, also the command that must be installed.
    pub name: &'static str,
    /// A shell script that keeps it busy for a minute; `exec`s it, or starts it again and again.
    pub script: &'static str,
    /// A script that gives it work, if it does not come by itself.
    pub load: Option<&'static str>,
}

/// The programs.
pub const PROGRAMS: &[RealProgram] = &[
    RealProgram {
        name: "sqlite3",
        script: r#"exec sqlite3 :memory: "WITH RECURSIVE c(x, s) AS (SELECT 1, 'a' UNION ALL
            SELECT x + 1, hex(x * 7919 % 65521) FROM c LIMIT 200000000)
            SELECT count(*), max(s), sum(length(s)) FROM c;""#,
        load: None,
    },
    RealProgram {
        name: "python3",
        script: r#"exec python3 -c "import json
while True:
    d = {str(i): [i, i * 1.5, sorted(str(i))] for i in range(1000)}
    json.loads(json.dumps(d))""#,
        load: None,
    },
    RealProgram {
        name: "node",
        script: r#"exec node -e "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
            for (;;) { f(20); JSON.parse(JSON.stringify([...Array(2000).keys()].map(i => ({ i, s: String(i) })))); }""#,
        load: None,
    },
    RealProgram {
        name: "redis-server",
        script: r#"exec redis-server --port 0 --unixsocket "$DIR/redis" --save '' --daemonize no"#,
        load: Some(
            r#"sleep 0.5; while :; do redis-benchmark -s "$DIR/redis" -q -n 100000 -t set,get,lpush,zadd; done"#,
        ),
    },
    RealProgram {
        name: "gcc",
        script: r#"while :; do gcc -O2 -c "$SOURCES/virtual.cpp" -o "$DIR/out.o"; done"#,
        load: None,
    },
    RealProgram {
        name: "openssl",
        script: "exec openssl speed -seconds 2 sha256 aes-128-cbc rsa2048 ecdhx25519",
        load: None,
    },
];

/// What both profilers saw.
#[derive(Clone, Debug)]
pub struct RealRow {
    /// perf-agent.
    pub agent: Verdict,
    /// `perf record`.
    pub perf: Verdict,
}

#[derive(Debug)]
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // The processes may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Starts a program, warms it up and profiles it; nothing if it is not installed.
///
/// # Errors
/// If a profiler fails.
pub fn measure(program: RealProgram, agent: &Profiler, plan: Plan) -> Result<Option<RealRow>> {
    if find_command(program.name).is_none() {
        return Ok(None);
    }
    let folder = tempfile::tempdir().context("create a folder")?;
    let group = start(program.script, folder.path()).with_context(|| format!("start {}", program.name))?;
    let load = program.load.map(|script| start(script, folder.path())).transpose()?;
    thread::sleep(Duration::from_millis(1500));
    let scope = Scope::Process(group.0.id());
    let perf = Profiler::Perf(PerfMode::Dwarf);
    let mut running = Vec::new();
    for profiler in [agent, &perf] {
        running.push(profiler.start(scope, plan.seconds, plan.rate_hz, folder.path())?);
    }
    for one in &mut running {
        one.wait(Duration::from_secs(60))?;
    }
    drop((load, group));
    let roots = Roots::default();
    let mut verdicts = Vec::new();
    for one in running {
        verdicts.push(Verdict::rooted_only(&one.finish()?, &roots));
    }
    let mut verdicts = verdicts.into_iter();
    Ok(verdicts.next().zip(verdicts.next()).map(|(agent, perf)| RealRow { agent, perf }))
}

fn start(script: &str, folder: &Path) -> Result<Group> {
    let child = Command::new("sh")
        .args(["-c", script])
        .env("DIR", folder)
        .env("SOURCES", sources())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("run sh")?;
    Ok(Group(child))
}

/// A compilation that keeps some processes busy; ends when dropped.
#[derive(Debug)]
pub struct Compilation {
    _groups: Vec<Group>,
    _folder: tempfile::TempDir,
}

/// Starts a parallel compilation of C++ that uses much of the standard library.
///
/// # Errors
/// If a shell cannot be started.
pub fn compilation(jobs: usize) -> Result<Compilation> {
    const SCRIPT: &str = r##"headers='regex iostream map functional thread unordered_map algorithm random'
        for h in $headers; do echo "#include <$h>"; done > "$DIR/$$.cpp"
        echo 'int main(int n, char **v) { std::regex r(v[0]); std::map<int, std::string> m; m[n] = v[0];
              return std::regex_match(m[n], r); }' >> "$DIR/$$.cpp"
        while :; do g++ -O2 -c "$DIR/$$.cpp" -o "$DIR/$$.o"; done"##;
    let folder = tempfile::tempdir().context("create a folder")?;
    let groups = (0..jobs).map(|_| start(SCRIPT, folder.path())).collect::<Result<_>>()?;
    Ok(Compilation { _groups: groups, _folder: folder })
}
