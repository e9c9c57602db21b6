//! Separate debug files: where they are found, and which ones are refused.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::oracle::functions;
use crate::{names, object, options, run};
use profile::Svma;
use symbols::{ObjectFile, Options, SourceLine, Symbolizer};
use tempfile::TempDir;

/// A stripped program at `ROOT/opt/app`, its debug file, its build-id and an address in its function `secret`.
struct Fixture {
    root: TempDir,
    debug: PathBuf,
    build_id: String,
    secret: u64,
}

impl Fixture {
    fn new(link_options: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        std::fs::create_dir_all(path.join("opt")).unwrap();
        let text = "static __attribute__((noinline)) int secret(int x) { return x * 7; }\n\
                    int main(int argc, char **argv) { return secret(argc); }\n";
        std::fs::write(path.join("app.c"), text).unwrap();
        let mut command = vec!["gcc", "-g", "-O1", "-o", "opt/app", "app.c"];
        command.extend(link_options);
        run(path, &command).unwrap();
        let secret = functions(&path.join("opt/app"), &[]).into_iter().find(|f| f.2 == "secret").unwrap().0;
        run(path, &["objcopy", "--only-keep-debug", "opt/app", "app.debug"]).unwrap();
        run(path, &["strip", "opt/app"]).unwrap();
        run(path, &["objcopy", "--add-gnu-debuglink=app.debug", "opt/app"]).unwrap();
        let notes = run(path, &["readelf", "-n", "opt/app"]).unwrap();
        let build_id =
            notes.lines().find_map(|l| l.trim().strip_prefix("Build ID: ")).unwrap_or("").to_owned();
        let debug = path.join("app.debug");
        Self { root, debug, build_id, secret }
    }

    fn place(&self, at: &str) -> PathBuf {
        let to = self.root.path().join(at.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&self.debug, &to).unwrap();
        to
    }

    fn by_build_id(&self) -> String {
        format!("usr/lib/debug/.build-id/{}/{}.debug", &self.build_id[..2], &self.build_id[2..])
    }

    fn lookup(&self) -> Vec<SourceLine> {
        let file = ObjectFile {
            display_path: "/opt/app".into(),
            root: Some(self.root.path().into()),
            ..object(&self.root.path().join("opt/app"))
        };
        let options = Options { debug_dirs: vec!["/usr/lib/debug".into()], ..options() };
        Symbolizer::new(options).object(&file, &[Svma(self.secret)]).remove(0)
    }

    fn is_found(&self) -> bool {
        let lines = self.lookup();
        assert!(lines.is_empty() || (names(&lines) == ["secret"] && lines[0].line == 1), "{lines:?}");
        !lines.is_empty()
    }
}

#[test]
fn is_found_in_every_place() {
    let f = Fixture::new(&["-Wl,--build-id"]);
    assert!(!f.is_found());
    for place in
        [f.by_build_id().as_str(), "opt/app.debug", "opt/.debug/app.debug", "usr/lib/debug/opt/app.debug"]
    {
        let placed = f.place(place);
        assert!(f.is_found(), "{place}");
        std::fs::remove_file(placed).unwrap();
    }
    assert!(!f.is_found());
}

#[test]
fn without_build_id_the_checksum_decides() {
    let f = Fixture::new(&["-Wl,--build-id=none"]);
    let placed = f.place("opt/app.debug");
    assert!(f.is_found());
    let mut bytes = std::fs::read(&placed).unwrap();
    bytes.push(0);
    std::fs::write(&placed, bytes).unwrap();
    assert!(!f.is_found());
}

#[test]
fn another_build_id_is_refused() {
    let f = Fixture::new(&["-Wl,--build-id=0x0123456789abcdef"]);
    let other = Fixture::new(&["-Wl,--build-id=0x0123456789abcdee"]);
    let place = f.place(&f.by_build_id());
    assert!(f.is_found());
    std::fs::copy(&other.debug, &place).unwrap();
    assert!(!f.is_found());
}

#[test]
fn links_stay_inside_of_the_root() {
    let f = Fixture::new(&["-Wl,--build-id"]);
    let place = f.place("usr/share/real.debug");
    let link = f.root.path().join(f.by_build_id());
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("/usr/share/real.debug", &link).unwrap();
    assert!(f.is_found(), "an absolute link means the target's root");
    std::fs::remove_file(&link).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::copy(place, outside.path().join("a.debug")).unwrap();
    symlink(outside.path().join("a.debug"), &link).unwrap();
    assert!(!f.is_found());
}

#[test]
fn a_pipe_does_not_block() {
    let f = Fixture::new(&["-Wl,--build-id"]);
    for place in [f.by_build_id().as_str(), "opt/app.debug"] {
        let path = f.root.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        run(Path::new("/"), &["mkfifo", path.to_str().unwrap()]).unwrap();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(f.is_found()));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(false));
}

/// A program that names a pipe as its supplementary file.
#[test]
fn a_link_to_a_pipe_in_the_program_does_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(
        path.join("a.c"),
        "int secret(int x) { return x; }\nint main(void) { return secret(1); }\n",
    )
    .unwrap();
    run(path, &["gcc", "-g", "-O0", "-o", "a", "a.c"]).unwrap();
    run(path, &["mkfifo", "pipe"]).unwrap();
    let mut link = path.join("pipe").to_str().unwrap().as_bytes().to_vec();
    link.extend_from_slice(&[0; 21]);
    std::fs::write(path.join("link"), link).unwrap();
    for section in [".gnu_debugaltlink", ".gnu_debuglink", ".debug_sup"] {
        let option = format!("{section}=link");
        run(path, &["objcopy", "--add-section", &option, "a", "b"]).unwrap();
        let secret = functions(&path.join("b"), &[]).into_iter().find(|f| f.2 == "secret").unwrap().0;
        let file = object(&path.join("b"));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            sender.send(Symbolizer::new(options()).object(&file, &[Svma(secret)]).remove(0))
        });
        let lines = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(names(&lines), ["secret"]);
        assert_eq!(lines[0].line, 1, "the program's own debug information is read all the same");
    }
}

#[test]
fn supplementary_files_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let header = "struct shared { int a, b, c; };\nstatic __attribute__((noinline)) int secret(struct shared *s) \
                  { return s->a * s->b + s->c; }\n";
    std::fs::write(path.join("s.h"), header).unwrap();
    for name in ["a", "b"] {
        let text = "#include \"s.h\"\nint main(int c, char **v) { struct shared s = {c, c, c}; return secret(&s); }\n";
        std::fs::write(path.join(format!("{name}.c")), text).unwrap();
        let source = format!("{name}.c");
        run(path, &["gcc", "-g", "-gdwarf-4", "-O1", "-fno-ipa-sra", "-o", name, &source]).unwrap();
    }
    if run(path, &["dwz", "-m", "common.debug", "-M", "common.debug", "a", "b"]).is_none() {
        return;
    }
    let notes = run(path, &["readelf", "-SW", "a"]).unwrap();
    assert!(notes.contains(".gnu_debugaltlink"), "{notes}");
    let secret = functions(&path.join("a"), &[]).into_iter().find(|f| f.2 == "secret").unwrap().0;
    let lookup = || Symbolizer::new(options()).object(&object(&path.join("a")), &[Svma(secret)]).remove(0);
    let lines = lookup();
    assert_eq!((names(&lines), lines[0].line), (vec!["secret"], 2));
}
