//! DWARF of C, C++ and Rust against `addr2line`.

use std::path::{Path, PathBuf};

use crate::oracle::{addr2line, addresses};
use crate::{names, run, symbolize};
use tempfile::TempDir;

const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(int x) { return x * rand() + 3; }
static inline __attribute__((always_inline)) int middle(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum += inner(i);
    return sum;
}
__attribute__((noinline)) int outer_work(int x) { return middle(x) + middle(x + 1); }
static __attribute__((noinline)) int local_work(int x) { return outer_work(x) ^ inner(x); }
int main(int argc, char **argv) { printf("%d\n", local_work(argc)); return 0; }
"#;

const CPP: &str = r#"
#include <algorithm>
#include <map>
#include <string>
#include <vector>
namespace space {
template <typename T> struct Holder {
    std::vector<T> items;
    __attribute__((noinline)) void push(T const &item) { items.push_back(item); }
    __attribute__((noinline)) T sum_work() const { T s{}; for (auto const &i : items) s += i; return s; }
};
namespace { __attribute__((noinline)) int hidden_work(int x, char const *p) { return x + *p; } }
}
__attribute__((noinline)) int sort_work(std::vector<int> &v) {
    std::sort(v.begin(), v.end(), [](int a, int b) { return b < a; });
    return v.front();
}
int main(int argc, char **argv) {
    space::Holder<int> h; space::Holder<std::string> s;
    for (int i = 0; i < argc; i++) { h.push(i); s.push(argv[i]); }
    std::map<std::string, int> m; m[s.sum_work()] = 1;
    return sort_work(h.items) + h.sum_work() + space::hidden_work(argc, argv[0]) + m.size();
}
"#;

const RUST: &str = r#"
use std::collections::HashMap;
trait Shape { fn area_work(&self) -> u64; }
struct Square(u64);
impl Shape for Square { #[inline(never)] fn area_work(&self) -> u64 { self.0 * self.0 } }
#[inline(never)]
fn map_work<T: std::hash::Hash + Eq + Clone>(items: &[T]) -> usize {
    let mut counts = HashMap::new();
    for item in items { *counts.entry(item.clone()).or_insert(0usize) += 1; }
    counts.values().copied().max().unwrap_or(0)
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let shape: Box<dyn Shape> = Box::new(Square(args.len() as u64));
    println!("{} {}", shape.area_work(), map_work(&args));
}
"#;

fn source(dir: &TempDir, name: &str, text: &str) {
    std::fs::write(dir.path().join(name), text).unwrap();
}

/// Compares all chains with those of `addr2line`. `normalize` removes differences of spelling from names.
fn compare(path: &Path, addresses: &[u64], normalize: impl Fn(&str) -> String) -> usize {
    let expected = addr2line(path, addresses);
    let found = symbolize(path, addresses);
    let mut inlined = 0;
    for ((address, expected), found) in addresses.iter().zip(&expected).zip(&found) {
        let mut expected: Vec<_> =
            expected.iter().map(|(name, file, line)| (normalize(name), base_name(file), *line)).collect();
        let found: Vec<_> = found.iter().map(|l| (normalize(&l.name), base_name(&l.file), l.line)).collect();
        // addr2line shows the name of the surrounding function for an inlined C++ function without a mangled name.
        for i in 1..expected.len().min(found.len()) {
            let (inner, outer) = expected.split_at_mut(i);
            if outer.iter().any(|o| o.0 == inner[i - 1].0) {
                inner[i - 1].0.clone_from(&found[i - 1].0);
            }
        }
        assert_eq!(found, expected, "{address:#x} in {path:?}");
        inlined += usize::from(found.len() > 1);
    }
    inlined
}

fn base_name(file: &str) -> String {
    file.rsplit('/').next().unwrap().to_owned()
}

/// The last word: demanglers differ in the arguments of templates, and only mangled names have parameters,
/// namespaces and results.
fn without_arguments(name: &str) -> String {
    let mut depth = 0;
    let mut out = String::new();
    for c in name.replace("operator<", "operator less").replace("(anonymous namespace)", "anonymous").chars()
    {
        match c {
            '(' if depth == 0 => break,
            '<' => depth += 1,
            '>' => depth -= 1,
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out.rsplit([':', ' ']).next().unwrap().to_owned()
}

fn compile_c(dir: &TempDir, options: &[&str]) -> PathBuf {
    source(dir, "work.c", C);
    let mut command = vec!["gcc", "-g", "-O2", "-o", "work", "work.c"];
    command.extend(options);
    run(dir.path(), &command).unwrap();
    dir.path().join("work")
}

#[test]
fn c_with_inlined_functions() {
    for options in [&[][..], &["-gdwarf-4"], &["-static"], &["-gz=zlib"], &["-no-pie", "-gdwarf-4", "-flto"]]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = compile_c(&dir, options);
        let addresses = addresses(&path, |name| name.ends_with("_work") || name == "main", 1000);
        let inlined = compare(&path, &addresses, str::to_owned);
        assert!(inlined > 20, "{inlined} of {} addresses of {options:?} are inlined", addresses.len());
    }
}

#[test]
fn sections_compressed_by_zstd() {
    let dir = tempfile::tempdir().unwrap();
    let path = compile_c(&dir, &[]);
    let help = run(dir.path(), &["objcopy", "--help"]).unwrap();
    if !help.contains("zstd") {
        testkit::skip!("this objcopy does not know zstd");
    }
    let addresses = addresses(&path, |name| name.ends_with("_work"), 100);
    let plain = symbolize(&path, &addresses);
    run(dir.path(), &["objcopy", "--compress-debug-sections=zstd", "work"]).unwrap();
    assert!(run(dir.path(), &["readelf", "-tW", "work"]).unwrap().contains("ZSTD"));
    assert_eq!(symbolize(&path, &addresses), plain);
}

#[test]
fn an_inlined_chain_has_one_line_per_function() {
    let dir = tempfile::tempdir().unwrap();
    let path = compile_c(&dir, &[]);
    let found = symbolize(&path, &addresses(&path, |name| name == "outer_work", 1000));
    let chain = found.iter().find(|lines| lines.len() == 3).unwrap();
    assert_eq!(names(chain), ["inner", "middle", "outer_work"]);
    let source = format!("{}/work.c", dir.path().display());
    assert!(chain.iter().all(|l| l.file == source && l.line != 0), "{chain:?}");
}

#[test]
fn cpp_with_parameters() {
    let dir = tempfile::tempdir().unwrap();
    source(&dir, "work.cc", CPP);
    // Version 4, since some versions of addr2line mistake file numbers of version 5.
    if run(dir.path(), &["g++", "-gdwarf-4", "-O2", "-o", "work", "work.cc"]).is_none() {
        return;
    }
    let path = dir.path().join("work");
    let addresses =
        addresses(&path, |name| name.contains("_work") || name.contains("push") || name == "main", 1500);
    compare(&path, &addresses, without_arguments);
    let found = symbolize(&path, &addresses);
    let outermost = |name: &str, system_name: &str| {
        found.iter().filter_map(|l| l.last()).any(|l| l.name == name && l.system_name == system_name)
    };
    assert!(outermost("space::Holder<int>::push(int const&)", "_ZN5space6HolderIiE4pushERKi"));
    let hidden = "space::(anonymous namespace)::hidden_work(int, char const*)";
    assert!(found.iter().flatten().any(|l| l.name.starts_with(hidden)));
    assert!(found.iter().flatten().any(|l| l.name.starts_with("sort_work(std::vector<int")));
}

#[test]
fn rust_without_hash() {
    let dir = tempfile::tempdir().unwrap();
    source(&dir, "work.rs", RUST);
    for mangling in ["legacy", "v0"] {
        let option = format!("symbol-mangling-version={mangling}");
        let unstable = if mangling == "legacy" { &["-Zunstable-options"][..] } else { &[] };
        if !unstable.is_empty() && std::env::var_os("RUSTC_BOOTSTRAP").is_none() {
            continue;
        }
        let mut command = vec!["rustc", "-g", "-O", "-C", &option, "-o", "work", "work.rs"];
        command.extend(unstable);
        if run(dir.path(), &command).is_none() {
            return;
        }
        let path = dir.path().join("work");
        let addresses =
            addresses(&path, |name| name.contains("area_work") || name.contains("map_work"), 1000);
        let found = symbolize(&path, &addresses);
        let crate_name = |l: &&symbols::SourceLine| l.name.starts_with("work::map_work");
        assert!(found.iter().filter_map(|l| l.last()).any(|l| crate_name(&l)), "{found:?}");
        assert!(found.iter().flatten().any(|l| l.name.contains("Square as work::Shape>::area_work")));
        assert!(found.iter().any(|l| l.len() > 3), "something is inlined");
        assert!(found.iter().flatten().all(|l| !l.name.contains("::h0") && !l.name.starts_with("_R")));
        let expected = addr2line(&path, &addresses);
        for ((address, expected), found) in addresses.iter().zip(expected).zip(found) {
            let expected: Vec<_> = expected.iter().map(|(_, file, line)| (base_name(file), *line)).collect();
            let found: Vec<_> = found.iter().map(|l| (base_name(&l.file), l.line)).collect();
            assert_eq!(found, expected, "{address:#x}");
        }
    }
}
