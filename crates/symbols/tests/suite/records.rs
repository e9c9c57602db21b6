//! What is kept of files for later runs: the same answers, and none from files that changed.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use profile::Svma;
use symbols::{ObjectFile, Options, RecordStore, SourceLine, Stats, Symbolizer};

use crate::oracle::functions;
use crate::{object, run};

const SOURCE: &str = "
static inline int twice(int x) { return x * x + 2; }
namespace shapes { struct Circle { int area(int r) const { return twice(r) + r; } }; }
extern \"C\" __attribute__((noinline)) int outer(int x) { return shapes::Circle().area(x) + twice(x + 1); }
int named(int x, long y) { return outer(x) * (int)y; }
int main(int argc, char **) { return named(argc, 3); }
";

/// A directory with a store, and programs in it.
struct Fixture {
    folder: tempfile::TempDir,
    options: Options,
}

impl Fixture {
    fn new() -> Self {
        let private = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        std::fs::write(folder.path().join("shapes.cc"), SOURCE).unwrap();
        let records = RecordStore::open(&folder.path().join("names"), RecordStore::CAP_BYTES).unwrap();
        let options = Options {
            debug_dirs: vec![folder.path().join("debug")],
            records: Some(Arc::new(records)),
            ..Options::default()
        };
        Self { folder, options }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `None` if a tool is missing.
    fn run(&self, command: &[&str]) -> Option<String> {
        run(self.folder.path(), command)
    }

    /// Each byte of the functions of a program, and what is known of it.
    fn names(&self, program: &str, addresses: &[u64], records: bool) -> (Vec<Vec<SourceLine>>, Stats) {
        let mut options = self.options.clone();
        options.records = options.records.filter(|_| records);
        let mut symbolizer = Symbolizer::new(options);
        let svmas: Vec<Svma> = addresses.iter().copied().map(Svma).collect();
        let file = ObjectFile { root: Some("/".into()), ..object(&self.path(program)) };
        let names = svmas.chunks(7).flat_map(|batch| symbolizer.object(&file, batch)).collect();
        symbolizer.save_records();
        (names, symbolizer.stats())
    }

    fn kept(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("names")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// The addresses of the functions in our source, and some around them.
fn addresses(program: &Path) -> Vec<u64> {
    let ours = functions(program, &[])
        .into_iter()
        .filter(|f| ["outer", "_Z5namedil", "main"].contains(&f.2.as_str()));
    let mut all: Vec<u64> =
        ours.flat_map(|(start, size, _)| start.saturating_sub(3)..start + size + 3).collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 30, "{all:x?}");
    all
}

/// Waits until a later change of any of these files would change its times.
fn settle(files: &[PathBuf]) {
    testkit::until("the times of the files are in the past", || {
        files.iter().all(|file| {
            let meta = std::fs::metadata(file).unwrap();
            let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(meta.ctime().cast_unsigned());
            SystemTime::now().duration_since(changed).is_ok_and(|age| age > Duration::from_secs(4))
        })
    });
}

#[test]
fn a_later_run_gives_the_same_answers_without_reading_the_files_again() {
    let fixture = Fixture::new();
    let build = |options: &[&str]| fixture.run(&[&["g++", "shapes.cc"], options].concat());
    if build(&["-g", "-O2", "-o", "whole"]).is_none() {
        return;
    }
    build(&["-g", "-gz", "-O1", "-o", "compressed"]).unwrap();
    build(&["-g", "-gsplit-dwarf", "-O2", "-o", "split"]).unwrap();
    build(&["-g", "-O2", "-o", "linked"]).unwrap();
    fixture.run(&["objcopy", "--only-keep-debug", "linked", "linked.debug"]).unwrap();
    let linked = addresses(&fixture.path("linked"));
    fixture.run(&["objcopy", "--strip-all", "--add-gnu-debuglink=linked.debug", "linked"]).unwrap();
    build(&["-O2", "-o", "symbols"]).unwrap();
    let mut programs = vec!["whole", "compressed", "split", "linked", "symbols"];
    build(&["-g", "-O2", "-o", "one"]).unwrap();
    build(&["-g", "-O2", "-o", "two"]).unwrap();
    let has_dwz = fixture.run(&["dwz", "-m", "common", "one", "two"]).is_some();
    programs.extend(has_dwz.then_some("one"));
    let files = std::fs::read_dir(fixture.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    settle(&files.filter(|path| path.is_file()).collect::<Vec<_>>());
    for program in programs {
        let wanted = if program == "linked" { linked.clone() } else { addresses(&fixture.path(program)) };
        let (expected, _) = fixture.names(program, &wanted, false);
        assert!(expected.iter().filter(|lines| !lines.is_empty()).count() > 30, "{program}");
        let half: Vec<u64> = wanted.iter().copied().step_by(2).collect();
        let (_, stats) = fixture.names(program, &half, true);
        assert_eq!(stats.recalled_files, 0, "{program}");
        // The first one adds what the half did not ask for, the second one reads nothing.
        for run in ["partly known", "known"] {
            let (names, stats) = fixture.names(program, &wanted, true);
            assert_eq!(stats.recalled_files, 1, "{program}, {run}");
            assert!(names == expected, "{program}, {run}: {names:#?} instead of {expected:#?}");
        }
    }
}

#[test]
fn what_was_learned_of_a_file_is_void_when_one_of_its_files_changes() {
    let fixture = Fixture::new();
    if fixture.run(&["g++", "-g", "-gsplit-dwarf", "-O2", "-o", "split", "shapes.cc"]).is_none() {
        return;
    }
    let debug = fixture.path("split-shapes.dwo");
    let (program, wanted) = (fixture.path("split"), addresses(&fixture.path("split")));
    let recalled = || {
        settle(&[program.clone(), debug.clone()]);
        fixture.names("split", &wanted, true).1.recalled_files
    };
    assert_eq!([recalled(), recalled()], [0, 1]);
    // The same content, at another time.
    File::options().append(true).open(&debug).unwrap().set_modified(SystemTime::now()).unwrap();
    assert_eq!([recalled(), recalled()], [0, 1], "a file of a split unit");
    File::options().append(true).open(&program).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!([recalled(), recalled()], [0, 1], "the program");
    // It goes first before what its link names.
    std::fs::write(fixture.path("split.dwp"), "no package").unwrap();
    settle(&[fixture.path("split.dwp")]);
    assert_eq!([recalled(), recalled()], [0, 1], "a package that was not there");
    assert_eq!(fixture.kept().len(), 1);
}

#[test]
fn nothing_is_kept_of_a_file_that_may_change_without_notice_and_nothing_damaged_is_used() {
    let fixture = Fixture::new();
    if fixture.run(&["g++", "-g", "-O2", "-o", "whole", "shapes.cc"]).is_none() {
        return;
    }
    let wanted = addresses(&fixture.path("whole"));
    let touch = || File::open(fixture.path("whole")).unwrap().set_modified(SystemTime::now()).unwrap();
    touch();
    let (expected, _) = fixture.names("whole", &wanted, true);
    assert!(fixture.kept().is_empty(), "{:?}", fixture.kept());
    settle(&[fixture.path("whole")]);
    fixture.names("whole", &wanted, true);
    let kept = fixture.kept().remove(0);
    let whole = std::fs::read(&kept).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&kept, &damaged).unwrap();
        let (names, stats) = fixture.names("whole", &wanted, true);
        assert!(names == expected && stats.recalled_files == 0, "byte {at}");
    }
    std::fs::write(&kept, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(fixture.names("whole", &wanted, true).1.recalled_files, 0);
    assert_eq!(fixture.names("whole", &wanted, true).1.recalled_files, 1, "it was written again");
}
