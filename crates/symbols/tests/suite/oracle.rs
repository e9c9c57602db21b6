//! The answers of other tools for the same files.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::run;

/// Function, file and line, innermost first.
pub type Chain = Vec<(String, String, u32)>;

/// (address, size, name) of the functions of a file, from `nm`.
pub fn functions(path: &Path, options: &[&str]) -> Vec<(u64, u64, String)> {
    let mut command = vec!["nm", "-S"];
    command.extend(options);
    command.push(path.to_str().unwrap());
    let text = run(Path::new("/"), &command).unwrap();
    let mut found: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (address, size) = (words.next()?, words.next()?);
            let kind = words.next()?;
            let address = u64::from_str_radix(address, 16).ok()?;
            let size = u64::from_str_radix(size, 16).ok()?;
            let is_code = matches!(kind, "t" | "T" | "w" | "W" | "i");
            is_code.then(|| (address, size, words.collect::<Vec<_>>().join(" ")))
        })
        .collect();
    found.sort();
    found
}

/// About `count` addresses spread over the functions that `wanted` chooses by name.
pub fn addresses(path: &Path, wanted: impl Fn(&str) -> bool, count: usize) -> Vec<u64> {
    let ranges = functions(path, &[]);
    let chosen = ranges.iter().filter(|(_, _, name)| wanted(name));
    let all: Vec<u64> = chosen.flat_map(|(start, size, _)| *start..*start + *size).collect();
    assert!(!all.is_empty(), "no such function in {path:?}");
    let step = (all.len() / count).max(1);
    all.into_iter().step_by(step).collect()
}

fn ask(command: &mut Command, addresses: &[u64]) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input: String = addresses.iter().map(|a| format!("{a:#x}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn position(text: &str) -> (String, u32) {
    let text = text.split(" (discriminator").next().unwrap();
    let (file, line) = text.rsplit_once(':').unwrap();
    (file.to_owned(), line.parse().unwrap_or(0))
}

/// `addr2line -f -i -C`.
pub fn addr2line(path: &Path, addresses: &[u64]) -> Vec<Chain> {
    let text = ask(Command::new("addr2line").args(["-a", "-f", "-i", "-C", "-e"]).arg(path), addresses);
    let mut chains: Vec<Chain> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            chains.push(Vec::new());
        } else {
            let (file, number) = position(lines.next().unwrap());
            chains.last_mut().unwrap().push((line.to_owned(), file, number));
        }
    }
    assert_eq!(chains.len(), addresses.len());
    chains
}

/// `go tool addr2line`: the outermost function, but the innermost position.
pub fn go_addr2line(path: &Path, addresses: &[u64]) -> Vec<(String, String, u32)> {
    let text = ask(Command::new("go").args(["tool", "addr2line"]).arg(path), addresses);
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2);
    pairs.map(|pair| (pair[0].to_owned(), position(pair[1]).0, position(pair[1]).1)).collect()
}
