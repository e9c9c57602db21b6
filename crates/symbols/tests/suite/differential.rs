//! Functions, inlined calls and lines against llvm-symbolizer, at every seventh byte of programs of several languages, compilers, formats of
//! debug information and ways to store it.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::oracle::{Chain, functions};
use crate::{object, options, run};
use profile::Svma;
use symbols::{Symbolizer, demangle};

const C: &str = r#"
#include <stdlib.h>
#define INLINE static inline __attribute__((always_inline))
INLINE int inner(int x) { return x * rand() + 3; }
INLINE int middle(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum += inner(i) + inner(sum);
    return sum;
}
__attribute__((noinline)) int outer_work(int x) { return middle(x) + middle(x + 1); }
static __attribute__((noinline)) int local_work(int x) {
    if (x > 100) { int y = inner(x); abort(); return y; }
    return outer_work(x) ^ inner(x);
}
int main(int argc, char **argv) { return local_work(argc); }
"#;

const CPP: &str = r#"
#include <algorithm>
#include <string>
#include <vector>
namespace space {
template <typename T> struct Holder {
    std::vector<T> items;
    __attribute__((noinline)) void push_work(T const &item) { items.push_back(item); }
    __attribute__((noinline)) T sum_work() const { T s{}; for (auto const &i : items) s += i; return s; }
};
}
__attribute__((noinline)) int sort_work(std::vector<int> &v) {
    struct Local { __attribute__((noinline)) int method_work(int a) { return a * 3; } } local;
    std::sort(v.begin(), v.end(), [&](int a, int b) { return local.method_work(b) < a; });
    return v.front();
}
int main(int argc, char **argv) {
    space::Holder<int> h; space::Holder<std::string> s;
    for (int i = 0; i < argc; i++) { h.push_work(i); s.push_work(argv[i]); }
    return sort_work(h.items) + h.sum_work() + s.sum_work().size();
}
"#;

const RUST: &str = r#"
use std::collections::HashMap;
#[inline(never)]
fn map_work<T: std::hash::Hash + Eq + Clone>(items: &[T]) -> usize {
    let mut counts = HashMap::new();
    for item in items { *counts.entry(item.clone()).or_insert(0usize) += 1; }
    counts.values().copied().max().unwrap_or(0)
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    println!("{}", map_work(&args));
}
"#;

/// Linkage name, base name of the file, line.
fn llvm_symbolizer(path: &Path, addresses: &[u64]) -> Option<Vec<Chain>> {
    let mut command = Command::new(testkit::needed("llvm-symbolizer")?);
    command.args(["--no-demangle", "--functions=linkage", "--inlines", "--obj"]).arg(path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut chains = Vec::new();
    for block in text.trim_end().split("\n\n") {
        let lines: Vec<&str> = block.lines().collect();
        let chain = lines.chunks_exact(2).map(|pair| {
            let mut words = pair[1].rsplitn(3, ':').skip(1);
            let line = words.next().unwrap().parse().unwrap();
            (pair[0].to_owned(), base_name(words.next().unwrap()), line)
        });
        chains.push(chain.collect());
    }
    assert_eq!(chains.len(), addresses.len());
    Some(chains)
}

fn base_name(file: &str) -> String {
    file.rsplit('/').next().unwrap().to_owned()
}

/// Compares every seventh byte of the chosen functions. Gives the share of equal answers, and the number of inlined calls.
pub fn compare(path: &Path, wanted: impl Fn(&str) -> bool) -> Option<(f64, usize)> {
    let all = functions(path, &[]);
    let starts: HashMap<&str, u64> = all.iter().map(|(start, _, name)| (name.as_str(), *start)).collect();
    // llvm-symbolizer takes the name of the outermost function from the symbol table, which may be another one of the same function, or that of
    // a part of it.
    let is_same = |ours: &str, theirs: &str| {
        let is_part = theirs.strip_prefix(ours).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        is_part || starts.get(ours).is_some_and(|start| starts.get(theirs) == Some(start))
    };
    let chosen = all.iter().filter(|(_, _, name)| wanted(name));
    let addresses: Vec<u64> = chosen.flat_map(|(start, size, _)| (*start..start + size).step_by(7)).collect();
    assert!(addresses.len() > 5, "{path:?} has no such functions");
    let expected = llvm_symbolizer(path, &addresses)?;
    let svmas: Vec<Svma> = addresses.iter().copied().map(Svma).collect();
    let found = Symbolizer::new(options()).object(&object(path), &svmas);
    let (mut equal, mut inlined) = (0, 0);
    for ((address, expected), found) in addresses.iter().zip(&expected).zip(&found) {
        let mut found: Chain = found
            .iter()
            .map(|line| (line.system_name.to_string(), base_name(&line.file), line.line))
            .collect();
        inlined += found.len().saturating_sub(1);
        if let (Some(ours), Some(theirs)) = (found.last_mut(), expected.last())
            && is_same(&ours.0, &theirs.0)
        {
            ours.0.clone_from(&theirs.0);
        }
        for (ours, theirs) in found.iter_mut().zip(expected) {
            // Without a linkage name theirs has no namespaces.
            let is_qualified = ours.0.strip_suffix(&*theirs.0).is_some_and(|scopes| scopes.ends_with("::"));
            // The name in the source comes before a linkage name that cannot be read.
            let is_better = demangle(&theirs.0).contains("<...#") && !ours.0.starts_with("_Z");
            if is_qualified || is_better {
                ours.0.clone_from(&theirs.0);
            }
        }
        equal += usize::from(found == *expected);
        if found != *expected {
            eprintln!("{address:#x} in {path:?}:\n  {found:?}\n  {expected:?}");
        }
    }
    Some((equal as f64 / addresses.len() as f64, inlined))
}

/// Compiles a program and compares all its own functions. `words`: the compiler and its options.
pub fn check(folder: &Path, source: &str, words: &str, least_inlined: usize) {
    let mut command: Vec<&str> = words.split(' ').collect();
    command.extend(["-o", "program", source]);
    if run(folder, &command).is_none() {
        return;
    }
    let own = |name: &str| name.contains("_work") || name == "main";
    let Some((equal, inlined)) = compare(&folder.join("program"), own) else { return };
    assert!(equal == 1.0, "{words}: {:.2} % of the answers are equal", 100.0 * equal);
    assert!(inlined >= least_inlined, "{words}: {inlined} inlined calls");
}

/// A folder with the sources.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("work.c", C), ("work.cc", CPP), ("work.rs", RUST)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn c_of_all_versions_and_levels() {
    let folder = folder();
    for version in 2..=5 {
        for level in ["-O0", "-O2"] {
            check(folder.path(), "work.c", &format!("gcc -gdwarf-{version} {level}"), 5);
            check(folder.path(), "work.c", &format!("clang -gdwarf-{version} {level}"), 5);
        }
    }
}

#[test]
fn c_with_link_time_optimization_compressed_sections_and_64_bit_offsets() {
    let folder = folder();
    for words in [
        "gcc -g -O2 -flto",
        "gcc -g -O2 -gz=zlib",
        "gcc -g -O2 -gz=zlib-gnu",
        "gcc -g -gdwarf64 -O2",
        "gcc -g1 -O2",
        "gcc -g -O2 -fdebug-types-section",
    ] {
        check(folder.path(), "work.c", words, 5);
    }
}

#[test]
fn cpp_of_both_compilers() {
    let folder = folder();
    for words in
        ["g++ -gdwarf-4 -O2", "g++ -gdwarf-5 -O2", "g++ -g -O0", "clang++ -g -O2", "clang++ -gdwarf-4 -O0"]
    {
        check(folder.path(), "work.cc", words, 0);
    }
}

#[test]
fn rust_with_inlined_calls() {
    let folder = folder();
    if run(folder.path(), &["rustc", "-g", "-O", "-o", "program", "work.rs"]).is_none() {
        return;
    }
    let own = |name: &str| name.contains("map_work");
    let Some((equal, inlined)) = compare(&folder.path().join("program"), own) else { return };
    assert!(equal == 1.0 && inlined > 50, "{equal} {inlined}");
}
