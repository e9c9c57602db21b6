//! Split units (`-gsplit-dwarf`) in files of their own and in packages (`.dwp`), against llvm-symbolizer.

use std::path::{Path, PathBuf};

use profile::Svma;
use symbols::Symbolizer;

use crate::differential::{check, compare, folder};
use crate::oracle::functions;
use crate::{object, options, package, run};

/// The second unit of a program: with one unit alone, all of its parts would be at the beginning of their sections.
const MORE: &str = r#"
#include <stdlib.h>
static inline __attribute__((always_inline)) int scaled(int x) { return x * rand() - 9; }
static inline __attribute__((always_inline)) int twice_scaled(int x) { return scaled(x) + scaled(x + 2); }
__attribute__((noinline)) int more_work(int x) {
    int sum = 0;
    while (x-- > 0) sum ^= twice_scaled(sum);
    return sum;
}
__attribute__((constructor)) static void start_work(void) { srand(more_work(3)); }
"#;

/// A program of two split units: its folder.
fn program(words: &str) -> Option<tempfile::TempDir> {
    let folder = folder();
    std::fs::write(folder.path().join("more.c"), MORE).unwrap();
    let mut command: Vec<&str> = words.split(' ').collect();
    command.extend(["-o", "program", "work.c", "more.c"]);
    run(folder.path(), &command)?;
    Some(folder)
}

fn split_files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "dwo")).collect();
    files.sort();
    files
}

/// All answers are those of llvm-symbolizer, with the inlined calls of both units.
fn assert_complete(program: &Path, what: &str) {
    for wanted in ["outer_work", "more_work"] {
        let Some((equal, inlined)) = compare(program, |name| name == wanted) else { return };
        assert!(equal == 1.0 && inlined > 5, "{what}: {equal} equal, {inlined} inlined calls in {wanted}");
    }
}

#[test]
fn split_units_in_files_of_their_own() {
    for words in ["gcc -gdwarf-5", "gcc -gdwarf-4", "clang -gdwarf-5", "clang -gdwarf-4"] {
        let words = format!("{words} -O2 -gsplit-dwarf");
        check(folder().path(), "work.c", &words, 5);
        if let Some(folder) = program(&words) {
            assert_complete(&folder.path().join("program"), &words);
        }
    }
}

#[test]
fn split_units_in_a_package() {
    for words in ["gcc -gdwarf-5", "gcc -gdwarf-4", "clang -gdwarf-5", "clang -gdwarf-4"] {
        let Some(folder) = program(&format!("{words} -O2 -gsplit-dwarf")) else { continue };
        let path = folder.path().join("program");
        let files = split_files(folder.path());
        assert_eq!(files.len(), 2, "{words}: {files:?}");
        let package = folder.path().join("program.dwp");
        let ours = folder.path().join("ours");
        package::write(&files, &ours).unwrap();
        let mut packages = vec![("ours", ours)];
        // That of LLVM 14 refuses what GCC writes for version 5, or does not end.
        if words.starts_with("clang")
            && run(folder.path(), &["llvm-dwp", "-e", "program", "-o", "theirs"]).is_some()
        {
            packages.push(("llvm-dwp", folder.path().join("theirs")));
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        let all = functions(&path, &[]);
        let start = all.iter().find(|function| function.2 == "more_work").unwrap().0;
        let without = Symbolizer::new(options()).object(&object(&path), &[Svma(start)]).remove(0);
        assert_eq!((without.len(), without[0].name.as_str()), (1, "more_work"), "from the symbol table");
        for (writer, file) in packages {
            std::fs::rename(file, &package).unwrap();
            assert_complete(&path, &format!("{words}, package of {writer}"));
        }
    }
}
