//! Answers beside the symbols of programs that LLVM's linker has laid out.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use super::*;

/// Much code of the standard library becomes code of this program, which keeps frame pointers.
const PROGRAM: &str = r#"
use std::collections::{BTreeMap, HashMap, VecDeque};

#[inline(never)]
fn by_table(n: u64) -> u64 {
    match n { 0 => 7, 1 => leaf(n), 2 => n * 3, 3 => rest(n), 4 => n / 3, 5 => n << 5, 6 => leaf(n + 1), 7 => 1, 8 => rest(n + 2), _ => 0 }
}
#[inline(never)]
fn leaf(n: u64) -> u64 { n ^ 0x5555 }
#[inline(never)]
fn rest(n: u64) -> u64 { if n > 100 { panic!("{}", n) } else { leaf(n * 7) } }

fn main() {
    let mut words: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut counts: HashMap<u64, f64> = HashMap::new();
    let mut queue = VecDeque::new();
    for n in 0..std::env::args().count() as u64 * 50 {
        words.entry(format!("{:x}", n * n % 97)).or_default().push(by_table(n % 12));
        *counts.entry(n % 7).or_insert(0.0) += n as f64;
        queue.push_back(n.to_string());
    }
    let mut all: Vec<_> = words.into_iter().chain([(String::from("last"), vec![1])]).collect();
    all.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
    queue.retain(|word| word.parse::<u64>().map_or(false, |n| n % 3 == 0));
    println!("{all:?} {counts:?} {queue:?}");
}
"#;

/// How many places of the functions of a program have the right start, and how many none. A wrong one fails.
#[derive(Debug, Default)]
struct Answers {
    right: usize,
    none: usize,
}

/// Asks for places of a program's functions, at this distance in bytes. `with_prologue`: of those that keep a frame pointer.
fn ask(path: &Path, distance: usize, with_prologue: bool) -> Answers {
    let elf = std::fs::read(path).unwrap();
    let file = object::File::parse(&*elf).unwrap();
    let image = Image::parse(&elf).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let within = text.address()..text.address() + text.size();
    let mut answers = Answers::default();
    let mut symbols: Vec<_> = file
        .symbols()
        .filter(|symbol| {
            symbol.kind() == SymbolKind::Text && symbol.size() > 0 && within.contains(&symbol.address())
        })
        .collect();
    symbols.sort_by_key(ObjectSymbol::address);
    for symbol in &symbols {
        let code = image.bytes_at(symbol.address()).unwrap();
        if with_prologue && !code.starts_with(&PROLOGUE) {
            continue;
        }
        for address in (symbol.address()..symbol.address() + symbol.size()).step_by(distance) {
            let Some(found) = function_at(&image, &within, address) else {
                answers.none += 1;
                continue;
            };
            let name = symbol.name().unwrap();
            assert_eq!(found.start, symbol.address(), "{name}: {address:#x} is said to be in {found:x?}");
            answers.right += 1;
        }
    }
    println!("{}: {answers:?}", path.display());
    answers
}

fn build(folder: &Path, options: &[&str]) -> PathBuf {
    let (source, program) = (folder.join("program.rs"), folder.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(compiler).args(options).arg("-o").arg(&program).arg(&source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

#[test]
fn functions_with_frame_pointers_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &["-O", "-Cforce-frame-pointers=yes"]);
    let answers = ask(&program, 29, true);
    assert!(answers.right > 3000 && answers.none * 10 < answers.right, "{answers:?}");
}

#[test]
fn nothing_is_told_wrong_of_functions_without_frame_pointers() {
    let answers = ask(&std::env::current_exe().unwrap(), 113, false);
    assert!(answers.right > 3000, "{answers:?}");
}
