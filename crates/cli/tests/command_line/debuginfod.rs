//! Debug files from debuginfod servers, by the whole program.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use testkit::Process;

use crate::capture::{assert_status, files, privileged};
use crate::stderr;

const PROGRAM: &str = "volatile unsigned long sum;\n\
    static __attribute__((noinline)) void spin_secretly(void) { for (int i = 0; i < 100000; i++) sum += i; }\n\
    int main(void) { for (;;) spin_secretly(); }\n";

/// A server that has one debug file, or takes requests and never answers. Lives until the test ends.
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    _silent: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    fn with(file: Option<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, silent) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<Vec<TcpStream>>>::default());
        let (count, held) = (Arc::clone(&requests), Arc::clone(&silent));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().and_then(Result::ok).unwrap_or_default();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                count.fetch_add(1, Ordering::SeqCst);
                match &file {
                    Some(file) => answer(stream, &first, file),
                    None => held.lock().unwrap().push(stream),
                }
            }
        });
        Self { address, requests, _silent: silent }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// `first` is the line of the request.
fn answer(mut stream: TcpStream, first: &str, file: &Path) {
    let build_id = fs::read_to_string(file.with_extension("id")).unwrap();
    let is_there = first.starts_with(&format!("GET /buildid/{build_id}/debuginfo "));
    let (status, body) = if is_there { (200, fs::read(file).unwrap()) } else { (404, Vec::new()) };
    let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

fn tool(folder: &Path, command: &str) -> Option<String> {
    testkit::run_tool(folder, command.split(' '))
}

/// A stripped program that runs, its debug file, and its build-id in a file beside that. `None`: a tool is missing.
fn build(folder: &Path) -> Option<Process> {
    fs::write(folder.join("app.c"), PROGRAM).unwrap();
    tool(folder, "gcc -g -O2 -Wl,--build-id -o whole app.c")?;
    tool(folder, "objcopy --only-keep-debug whole app.debug")?;
    tool(folder, "strip -o app whole")?;
    let notes = tool(folder, "readelf -n app")?;
    let build_id = notes.split("Build ID: ").nth(1).unwrap().split_whitespace().next().unwrap();
    fs::write(folder.join("app.id"), build_id).unwrap();
    fs::remove_file(folder.join("whole")).unwrap();
    let mut command = Command::new(folder.join("app"));
    Some(Process::start(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap())
}

/// A capture of a process with these words and variables, whose cache is `cache` in the folder.
fn capture(folder: &Path, target: &Process, words: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perf-agent"))
        .args(["--profile", "--sample-rate", "199", "--symbol-cache-dir", "cache", "--pid"])
        .arg(target.pid().to_string())
        .args(words)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap()
}

const FOLDED: [&str; 4] = ["--duration", "1s", "--folded-output", "cpu.folded"];

fn folded(folder: &Path) -> String {
    fs::read_to_string(folder.join("cpu.folded")).unwrap()
}

#[track_caller]
fn assert_without_name(folder: &Path) {
    let folded = folded(folder);
    assert!(!folded.contains("spin_secretly"), "no file brings the name: {folded}");
}

#[test]
fn the_server_of_the_environment_is_asked_once_for_two_captures() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let Some(target) = privileged().then(|| build(folder)).flatten() else { return };
    let without = capture(folder, &target, &FOLDED, &[]);
    assert_status(&without, 0);
    assert_without_name(folder);
    assert!(!folder.join("cache/.build-id").exists(), "a file was fetched");
    let server = Server::with(Some(folder.join("app.debug")));
    for found in ["fetched 1,", "fetched 0,"] {
        let captured = capture(folder, &target, &FOLDED, &[("DEBUGINFOD_URLS", &server.url())]);
        assert_status(&captured, 0);
        assert!(folded(folder).contains("main;spin_secretly "), "{}", folded(folder));
        let told = stderr(&captured);
        assert!(told.contains(&server.url()) && told.contains(found), "{told}");
    }
    let all = server.requests();
    let captured = capture(folder, &target, &FOLDED, &[("DEBUGINFOD_URLS", &server.url())]);
    assert_status(&captured, 0);
    assert_eq!(server.requests(), all, "everything is known by now");
    // A file that is larger than the environment allows.
    fs::remove_dir_all(folder.join("cache")).unwrap();
    let bounds =
        [("DEBUGINFOD_URLS", &*server.url()), ("DEBUGINFOD_MAXSIZE", "100"), ("DEBUGINFOD_MAXTIME", "x")];
    let captured = capture(folder, &target, &FOLDED, &bounds);
    assert_status(&captured, 0);
    let told = stderr(&captured);
    assert!(told.contains("larger than allowed") && told.contains("DEBUGINFOD_MAXTIME: `x`"), "{told}");
    assert_without_name(folder);
}

#[test]
fn a_server_that_never_answers_does_not_keep_the_capture_from_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let Some(target) = privileged().then(|| build(folder)).flatten() else { return };
    let server = Server::with(None);
    let begun = Instant::now();
    let url = server.url();
    let words = ["--duration", "3s", "--folded-output", "cpu.folded", "--symbol-fetch-timeout", "2s"];
    let captured = capture(folder, &target, &[&words[..], &["--debuginfod-url", &url]].concat(), &[]);
    assert_status(&captured, 0);
    let elapsed = begun.elapsed();
    assert!(server.requests() > 0 && folded(folder).contains("app!fn_0x"), "{}", folded(folder));
    let told = stderr(&captured);
    assert!(!told.contains("timeouts 0,") && told.contains("did not arrive in time"), "{told}");
    // Without a limit the server would hold it forever; on a busy machine the rest takes its time.
    assert!(elapsed < Duration::from_secs(40), "{elapsed:?}");
}

#[test]
fn a_directory_that_others_may_write_to_is_refused_before_anything_is_attached() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    fs::create_dir(folder.join("cache")).unwrap();
    fs::set_permissions(folder.join("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    let server = Server::with(None);
    let options = ["--symbol-cache-dir", "cache", "--debuginfod-url", &server.url()];
    let recording = folder.join("recording");
    fs::write(&recording, "").unwrap();
    for words in
        [&["--profile", "--duration", "60s", "--pid", "1"][..], &["symbolize", "recording", "-o", "out"]]
    {
        let output = crate::run_in(folder, &[words, &options].concat());
        assert_status(&output, 2);
        let told = stderr(&output);
        assert!(told.contains("cache is writable by other users") && told.contains("hint: "), "{told}");
    }
    assert_eq!((files(folder), server.requests()), (vec!["cache".to_owned(), "recording".to_owned()], 0));
}

#[test]
fn each_interval_of_a_rotation_has_the_names_of_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let Some(target) = privileged().then(|| build(folder)).flatten() else { return };
    let server = Server::with(Some(folder.join("app.debug")));
    let words = ["--duration", "4s", "--rotate", "1s", "--folded-output", "cpu.folded"];
    let url = server.url();
    let captured = capture(folder, &target, &[&words[..], &["--debuginfod-url", &url]].concat(), &[]);
    assert_status(&captured, 0);
    let written: Vec<_> = files(folder).into_iter().filter(|name| name.ends_with(".folded")).collect();
    assert!(written.len() >= 3, "{written:?}");
    for name in &written {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.is_empty() || text.contains("spin_secretly"), "{name}: {text}");
    }
    assert_eq!(server.requests(), 1, "{}", stderr(&captured));
}

/// A server that speaks TLS with a certificate of an authority of its own, `ca.pem` in the folder, and its address.
fn tls_server(folder: &Path) -> Option<(Process, String)> {
    let subject = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1";
    let key = "-newkey rsa:2048 -nodes -days 2";
    tool(folder, &format!("openssl req -x509 {key} -subj /CN=ca -keyout ca.key -out ca.pem"))?;
    tool(
        folder,
        &format!("openssl req {key} {subject} -keyout key.pem -out request.pem").replace("-days 2 ", ""),
    )?;
    let sign = "openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out cert.pem";
    tool(folder, sign)?;
    let build_id = fs::read_to_string(folder.join("app.id")).unwrap();
    let served = folder.join("buildid").join(build_id);
    fs::create_dir_all(&served).unwrap();
    fs::copy(folder.join("app.debug"), served.join("debuginfo")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("openssl");
    server.args(["s_server", "-quiet", "-WWW", "-cert", "cert.pem", "-key", "key.pem", "-accept"]);
    server.arg(format!("127.0.0.1:{port}")).current_dir(folder);
    let server =
        Process::start(server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    testkit::until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((server, format!("https://127.0.0.1:{port}")))
}

#[test]
fn certificates_of_an_own_authority_are_believed_if_the_environment_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let Some(target) = privileged().then(|| build(folder)).flatten() else { return };
    let Some((_server, url)) = tls_server(folder) else { return };
    let words = [&FOLDED[..], &["--debuginfod-url", &url]].concat();
    let refused = capture(folder, &target, &words, &[]);
    assert_status(&refused, 0);
    assert!(stderr(&refused).contains("errors 1,"), "{}", stderr(&refused));
    assert_without_name(folder);
    let authority = folder.join("ca.pem");
    let captured = capture(folder, &target, &words, &[("SSL_CERT_FILE", authority.to_str().unwrap())]);
    assert_status(&captured, 0);
    assert!(folded(folder).contains("main;spin_secretly "), "{}", stderr(&captured));
}
