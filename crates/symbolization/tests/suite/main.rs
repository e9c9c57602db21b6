//! Names through debug files from a real debuginfod server, compared with those of the unstripped program.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use debuginfod::{Fetcher, Settings};
use profile::{FileOffset, Svma};
use recording::{
    CodeMapping, CodeMappingId, FileIdentity, Frame, FrameId, Module, ModuleId, ModuleKind, NameLine,
    Recording, SymbolizedRecording,
};
use symbolization::{AbandonToken, Fetch, Options, Sources, Symbolizer};
use testkit::run_tool;

/// A debuginfod server for one folder.
struct Server {
    process: Child,
    url: String,
    log: PathBuf,
}

impl Server {
    /// `None` if it is not installed; then the reason of the skip is printed.
    fn of(folder: &Path, files: &Path) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = folder.join("server.log");
        let output = std::fs::File::create(&log).unwrap();
        let process = Command::new(testkit::needed("debuginfod")?)
            .args(["-F", "-t", "0", "-c", "2", "-p", &port.to_string(), "-d"])
            .arg(folder.join("index.sqlite"))
            .arg(files)
            .env_remove("DEBUGINFOD_URLS")
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { process, url: format!("http://127.0.0.1:{port}"), log })
    }

    /// Answers that it gave, by its log.
    fn answers(&self) -> usize {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().filter(|line| line.contains("GET /buildid/")).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const C: &str = "static inline __attribute__((always_inline)) int mix(int x) { return x * 31 + 7; }
static __attribute__((noinline)) int work(int x) { int i; for (i = 0; i < 9; i++) x = mix(x) ^ i; return x; }
int main(int argc, char **argv) { return work(argc) + mix((int)(long)argv); }
";
const CPP: &str = "#include <vector>
#include <algorithm>
namespace shop { template <class T> struct Cart { std::vector<T> v; __attribute__((noinline)) T sum() const {
  T s{}; for (const auto &x : v) s += x; return s; } void add(T x) { v.push_back(x); std::sort(v.begin(), v.end()); } }; }
int main(int argc, char **) { shop::Cart<long> c; for (int i = 0; i < argc; i++) c.add(i); return (int)c.sum(); }
";
const RUST: &str = "#[inline(always)] fn mix(x: u64) -> u64 { x.wrapping_mul(31).rotate_left(7) }
#[inline(never)] fn work(v: &[u64]) -> u64 { v.iter().map(|x| mix(*x)).sum() }
fn main() { let v: Vec<u64> = (0..std::env::args().count() as u64).collect(); println!(\"{}\", work(&v)); }
";

const GO: &str = "package main
import (\"fmt\"; \"os\")
func mix(x int) int { return x*31 + 7 }
//go:noinline
func work(x int) int { for i := 0; i < 9; i++ { x = mix(x) ^ i }; return x }
func main() { fmt.Println(work(len(os.Args)), mix(len(os.Args))) }
";
/// Its id is made of the content, as GNU ld does.
const GO_BUILD: [&str; 6] = ["go", "build", "-ldflags=-B gobuildid", "-o", "app", "app.go"];

/// A program in a language: its source, and how it is compiled into `app`.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("app.c", C, &["gcc", "-g", "-O2", "-Wl,--build-id", "-o", "app", "app.c"]),
    ("app.cc", CPP, &["g++", "-g", "-O2", "-Wl,--build-id", "-o", "app", "app.cc"]),
    ("app.rs", RUST, &["rustc", "-g", "-O", "-Clink-arg=-Wl,--build-id", "-o", "app", "app.rs"]),
    ("app.go", GO, &GO_BUILD),
];

/// Places in the code of a program: every 7th byte of its functions.
fn places(program: &Path) -> Vec<Svma> {
    let bytes = std::fs::read(program).unwrap();
    let layout = elf::Layout::parse(&bytes).unwrap();
    let text = layout.section(b".text").unwrap().addresses();
    text.step_by(7).take(20_000).map(Svma).collect()
}

/// A recording of these places.
fn recording(module: Module, places: &[Svma]) -> Recording {
    let frame = |svma: &Svma| Frame::Native { mapping: CodeMappingId(0), svma: *svma, exact: true };
    let mapping =
        CodeMapping { module: ModuleId(0), start: Svma(0), limit: Svma(1 << 40), file_offset: FileOffset(0) };
    Recording {
        modules: vec![module],
        mappings: vec![mapping],
        frames: places.iter().map(frame).collect(),
        ..Recording::default()
    }
}

fn module(program: &Path, at: &Path) -> Module {
    let bytes = std::fs::read(program).unwrap();
    let build_id = elf::Layout::parse(&bytes).unwrap().build_id(&bytes);
    assert!(build_id.is_some());
    let path = at.to_str().unwrap().to_owned();
    Module { path, build_id, kind: ModuleKind::Elf, identity: FileIdentity::default() }
}

fn symbolizer(url: Option<&str>, cache: &Path, fail_closed: bool) -> Symbolizer {
    let mut options = Options::default();
    options.symbols.debug_dirs.clear();
    options.fetch = url.map(|url| {
        let settings = Settings {
            servers: vec![url.parse().unwrap()],
            cache_dir: Some(cache.to_owned()),
            ..Settings::default()
        };
        Fetch { fetcher: Arc::new(Fetcher::new(settings)), fail_closed }
    });
    Symbolizer::with_sources(Sources::standard(&options), &options, AbandonToken::new())
}

fn lines(named: &SymbolizedRecording, count: usize) -> Vec<Vec<NameLine<'_>>> {
    (0..count as u32).map(|frame| named.names.of(FrameId(frame)).collect()).collect()
}

/// Waits until the server has read its files.
fn wait_until_served(server: &Server, module: &Module, folder: &Path) {
    let begun = Instant::now();
    loop {
        // A cache of its own each time: what is missing is remembered.
        let cache = tempfile::tempdir_in(folder).unwrap();
        let mut symbolizer = symbolizer(Some(&server.url), cache.path(), false);
        let absent = Module { path: "/nowhere".to_owned(), ..module.clone() };
        let named = symbolizer.symbolize(recording(absent, &[Svma(0)]));
        if named.names.outcome.fetches.unwrap().fetched > 0 {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{}",
            std::fs::read_to_string(&server.log).unwrap()
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_stripped_program_has_the_names_of_the_unstripped_one_and_the_second_run_asks_nobody() {
    for (name, source, compile) in PROGRAMS {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path(name), source).unwrap();
        std::fs::create_dir(path("served")).unwrap();
        let tools = [
            compile,
            &["objcopy", "--only-keep-debug", "app", "served/app.debug"],
            &["strip", "-o", "stripped", "app"],
        ];
        if tools.iter().any(|words| run_tool(folder.path(), words.iter().copied()).is_none()) {
            return;
        }
        let Some(server) = Server::of(folder.path(), &path("served")) else { return };
        let (app, places) = (module(&path("app"), &path("app")), places(&path("app")));
        wait_until_served(&server, &app, folder.path());
        let expected = symbolizer(None, folder.path(), false).symbolize(recording(app.clone(), &places));
        let expected = lines(&expected, places.len());
        let inlined = expected.iter().filter(|lines| lines.len() > 1).count();
        assert!(inlined > 0 && expected.iter().flatten().any(|line| line.line > 0), "{name}");

        let stripped = module(&path("stripped"), &path("stripped"));
        let absent = Module { path: "/nowhere/stripped".to_owned(), ..stripped.clone() };
        let bare = symbolizer(None, folder.path(), false).symbolize(recording(stripped.clone(), &places));
        // Programs in Go keep their own table of functions.
        assert!(bare.names.len() < places.len() / 2 || name == "app.go", "{name}: it is stripped");
        for (module, what) in [(&stripped, "the file is here"), (&absent, "the file is elsewhere")] {
            let cache = path(&what.replace(' ', "-"));
            let before = server.answers();
            let named =
                symbolizer(Some(&server.url), &cache, false).symbolize(recording(module.clone(), &places));
            for ((place, found), expected) in places.iter().zip(lines(&named, places.len())).zip(&expected) {
                // Of padding behind functions and of functions without source only Go's own table tells something, which is not in the debug file.
                let is_told = |line: &NameLine<'_>| line.line > 0 && line.file != "<autogenerated>";
                let is_bare = !expected.iter().any(is_told);
                let is_of_table = name == "app.go" && is_bare;
                // The end of a symbol without a size is unknown without the code. The compiler's startup code has such symbols.
                let is_unproven = is_bare && found.is_empty() && module.path == absent.path;
                assert!(
                    found == *expected || is_of_table || is_unproven,
                    "{name}: {what}: {place:?}: {found:?}, {expected:?}"
                );
            }
            let fetches = named.names.outcome.fetches.unwrap();
            assert_eq!((fetches.fetched, fetches.misses, fetches.hits), (1, 1, 0), "{name}: {what}");
            assert_eq!(server.answers(), before + 1, "{name}: {what}");
            let again =
                symbolizer(Some(&server.url), &cache, true).symbolize(recording(module.clone(), &places));
            assert_eq!(
                lines(&again, places.len()),
                lines(&named, places.len()),
                "{name}: {what}, second run"
            );
            assert_eq!(again.names.outcome.fetches.unwrap().hits, 1);
            assert_eq!(server.answers(), before + 1, "{name}: {what}: the second run asks nobody");
        }
    }
}

#[test]
fn without_the_debug_file_local_names_stay_or_none_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("app.c"), C).unwrap();
    let compile = ["gcc", "-O2", "-rdynamic", "-Wl,--build-id", "-s", "-o", "app", "app.c"];
    if run_tool(folder.path(), compile).is_none() {
        return;
    }
    let app = module(&folder.path().join("app"), &folder.path().join("app"));
    let places = places(&folder.path().join("app"));
    let local = symbolizer(None, folder.path(), false).symbolize(recording(app.clone(), &places));
    assert!(!local.names.is_empty(), "main is exported");
    // Nobody listens there.
    let url = Some("http://127.0.0.1:1");
    let open = symbolizer(url, &folder.path().join("c"), false).symbolize(recording(app.clone(), &places));
    assert_eq!(lines(&open, places.len()), lines(&local, places.len()));
    let fetches = open.names.outcome.fetches.unwrap();
    assert_eq!((fetches.errors, fetches.refused_mappings), (1, 0));
    let told = &open.names.outcome.shortfalls;
    assert!(
        told.iter().any(|line| line.contains("could not be reached") && line.contains("/app")),
        "{told:?}"
    );
    let closed = symbolizer(url, &folder.path().join("c"), true).symbolize(recording(app, &places));
    assert!(closed.names.is_empty());
    let starts = |named: &SymbolizedRecording| {
        (0..places.len() as u32).filter(|frame| named.names.start(FrameId(*frame)).is_some()).count()
    };
    assert!(starts(&open) > 0, "secret functions are known by their starts");
    assert_eq!(starts(&closed), 0, "mapping and address only");
    assert_eq!(closed.names.outcome.fetches.unwrap().refused_mappings, 1);
    assert!(closed.names.outcome.shortfalls.iter().any(|line| line.contains("stay without names")));
    assert_eq!(closed.names.outcome.abandoned, 0);
}
