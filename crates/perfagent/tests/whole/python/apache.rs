//! An interpreter in a server: mod_wsgi in Apache, where Debian's packages of them are installed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perfagent::{Agent, Mode};
use testkit::Process;

use super::captured::{Captured, alone, stacks};
use crate::started::started;

const APACHE: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

const PROGRAM: &str = "
def spin():
    total = 0
    for number in range(20000):
        total += number * number
    return total

def descend(depth):
    return spin() if depth == 0 else descend(depth - 1)

def application(environ, start_response):
    descend(20)
    start_response('200 OK', [('Content-Length', '2')])
    return [b'ok']
";
/// Outermost first, each with its line; that of the innermost is any.
const CHAIN: [(&str, u32); 3] = [("application", 12), ("descend", 9), ("spin", 0)];
const DEPTH: usize = 21;

fn server(folder: &Path, port: u16) -> Process {
    let (configuration, script) = (folder.join("configuration"), folder.join("program.wsgi"));
    std::fs::write(&script, PROGRAM).unwrap();
    let text = format!(
        "ServerRoot {0}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {0}/pid\nErrorLog {0}/errors\n\
         LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
         LoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
         LoadModule wsgi_module {MODULES}/mod_wsgi.so\n\
         Mutex file:{0} default\nWSGISocketPrefix {0}/socket\nWSGIScriptAlias / {0}/program.wsgi\n",
        folder.display()
    );
    std::fs::write(&configuration, text).unwrap();
    // One process, which stays this one.
    let mut command = Command::new(APACHE);
    command.args(["-X", "-f"]).arg(&configuration).stdin(Stdio::null()).stdout(Stdio::null());
    Process::start(&mut command).unwrap()
}

/// Whether it answers.
fn asked(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let patience = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let asked = patience.and_then(|()| stream.write_all(b"GET / HTTP/1.0\r\n\r\n"));
    let mut answer = String::new();
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.ends_with("ok")
}

/// Whether a stack shows the program from `application` on, as far as it has come.
fn is_right(stack: &Captured) -> bool {
    let found: Vec<(&str, u32)> = stack.python().map(|line| (line.name.as_str(), line.line)).collect();
    let [application, descend, spin] = CHAIN;
    let chain = [&[application][..], &[descend; DEPTH], &[spin]].concat();
    let Some(((innermost, _), callers)) = found.split_last() else { return false };
    let last = chain.get(callers.len()).is_some_and(|(name, _)| name == innermost);
    // Around it is the server's own code.
    last && chain.starts_with(callers) && stack.lines.last().is_some_and(|line| !line.is_python)
}

#[test]
fn a_server_with_an_interpreter_shows_the_functions_of_its_program() {
    testkit::need!("apache2");
    testkit::need!("mod_wsgi");
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let process = server(folder.path(), port);
    let errors = || std::fs::read_to_string(folder.path().join("errors")).unwrap_or_default();
    assert!(testkit::holds_within(testkit::PATIENCE, || asked(port)), "it does not answer: {}", errors());
    let agent = Agent::builder().pid(process.pid()).sample_rate(499).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return;
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                asked(port);
            }
        });
        // A failed assertion must end the thread too.
        let has_enough = testkit::holds_within(testkit::PATIENCE, || agent.ledger().samples >= 300);
        over.store(true, Ordering::Relaxed);
        assert!(has_enough, "{:?}: {}", agent.ledger(), errors());
    });
    let stacks = stacks(agent.stop().unwrap().recording(), Mode::OnCpu);
    let is_of_program = |stack: &&Captured| stack.python().any(|line| line.name == "application");
    let (right, wrong): (Vec<_>, Vec<_>) =
        stacks.all.iter().filter(is_of_program).partition(|one| is_right(one));
    let [right, wrong_count] = [&right, &wrong].map(|all| all.iter().map(|stack| stack.count).sum::<u64>());
    println!("{right} right, {wrong_count} wrong; {:?}", stacks.ledger);
    // The others are the server's: it begins and ends requests.
    assert!(right > 100, "{:?}", stacks.ledger);
    assert!(wrong_count * 100 <= right, "{wrong:#?}");
}
