//! Debian and Ubuntu: the lists of dpkg tell which package brought a file.

use std::path::Path;

use report::{DebugPackage, Packages};

use super::os_release::OsRelease;

/// A list or a file of sources with more bytes is not read.
const MAX_BYTES: u64 = 16 << 20;

/// The packages with the symbols of these files.
pub(super) fn packages(root: &Path, os: &OsRelease, paths: &[&str]) -> Packages {
    let wanted: Vec<(&str, Vec<String>)> = paths.iter().map(|path| (*path, spellings(path))).collect();
    let mut found = Packages::new();
    let archive = archive(root, os);
    let lists = std::fs::read_dir(root.join("var/lib/dpkg/info")).into_iter().flatten().flatten();
    for list in lists {
        let name = list.file_name();
        let package = name.to_str().and_then(|name| name.strip_suffix(".list"));
        let package = package.map(|package| package.split_once(':').map_or(package, |(package, _)| package));
        let (Some(package), Some(text)) = (package, read(&list.path())) else { continue };
        for (path, spellings) in &wanted {
            if text.lines().any(|line| spellings.iter().any(|spelling| spelling == line)) {
                found.insert((*path).to_owned(), debug_package(package, archive.as_deref()));
            }
        }
        if found.len() == wanted.len() {
            break;
        }
    }
    found
}

/// The paths under which a list may have a file: `/lib` and `/usr/lib` are one directory today, and lists have either.
fn spellings(path: &str) -> Vec<String> {
    let without = path
        .strip_prefix("/usr")
        .filter(|rest| rest.starts_with("/lib") || rest.starts_with("/bin") || rest.starts_with("/sbin"));
    let with = path.starts_with('/').then(|| format!("/usr{path}"));
    if !path.starts_with('/') {
        return Vec::new();
    }
    std::iter::once(path.to_owned()).chain(without.map(str::to_owned)).chain(with).collect()
}

/// A few packages have their symbols in a package of the usual archive. Those of all others are made automatically and are elsewhere.
fn debug_package(package: &str, archive: Option<&str>) -> DebugPackage {
    let python = package.strip_prefix("lib").unwrap_or(package);
    let python = python.strip_prefix("python3.").map(|rest| rest.split('-').next().unwrap_or(rest));
    let usual = match (package, python) {
        ("libc6" | "libc-bin", _) => Some("libc6-dbg".to_owned()),
        (_, Some(version)) => Some(format!("python3.{version}-dbg")),
        _ => None,
    };
    let install = "apt-get install".to_owned();
    match usual {
        Some(package) => DebugPackage { install, package, archive: None, server: None },
        None => DebugPackage {
            install,
            package: format!("{package}-dbgsym"),
            archive: archive.map(str::to_owned),
            server: None,
        },
    }
}

/// The archive with symbols and its suite; none if apt has it already, or if the release is not known.
fn archive(root: &Path, os: &OsRelease) -> Option<String> {
    let (known, suite) = match os.id.as_str() {
        "ubuntu" => ("ddebs", format!("ddebs {}", os.codename)),
        _ => ("debian-debug", format!("debian-debug {}-debug", os.codename)),
    };
    let more = std::fs::read_dir(root.join("etc/apt/sources.list.d")).into_iter().flatten().flatten();
    let mut sources =
        std::iter::once(root.join("etc/apt/sources.list")).chain(more.map(|entry| entry.path()));
    let has_it = sources.any(|path| read(&path).is_some_and(|text| text.contains(known)));
    (!has_it && !os.codename.is_empty()).then_some(suite)
}

fn read(path: &Path) -> Option<String> {
    let is_small = std::fs::metadata(path).is_ok_and(|of| of.is_file() && of.len() <= MAX_BYTES);
    if is_small { std::fs::read_to_string(path).ok() } else { None }
}
