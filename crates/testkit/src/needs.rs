//! Programs and files of Debian packages that tests need: `needs.txt`, which `tools/packages.sh` installs.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use crate::find_command;

const TABLE: &str = include_str!("../needs.txt");

/// A command of administrators: the `PATH` of other users may lack its folder.
fn of_administrators(command: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/sbin"].iter().map(|folder| Path::new(folder).join(command)).find(|file| file.is_file())
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    name: &'static str,
    package: &'static str,
    proof: &'static str,
    machine: &'static str,
    purposes: &'static str,
}

impl Row {
    /// # Panics
    /// If the line has other columns.
    fn parse(line: &'static str) -> Self {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [name, package, proof, machine, purposes] = columns[..] else {
            panic!("needs.txt: five columns are expected: {line}");
        };
        Self { name, package, proof, machine, purposes }
    }

    fn is_for_this_machine(self) -> bool {
        ["any", std::env::consts::ARCH].contains(&self.machine)
    }

    fn find(self) -> Option<PathBuf> {
        if self.proof.starts_with('/') {
            let file = PathBuf::from(self.proof);
            return file.exists().then_some(file);
        }
        find_command(self.proof).or_else(|| of_administrators(self.proof))
    }
}

fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Row::parse)
}

/// The reason of a skip: a package is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(Row);

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Row { package, proof, machine, .. } = self.0;
        if self.0.is_for_this_machine() {
            write!(f, "needs {package}: {proof} is missing")
        } else {
            write!(f, "needs {package}: it is for {machine} only")
        }
    }
}

/// The file that a name of the table stands for.
///
/// # Errors
/// If the package is not installed.
///
/// # Panics
/// If the table does not have the name.
pub fn need(name: &str) -> Result<PathBuf, Missing> {
    let row = rows().find(|row| row.name == name);
    let row = row.unwrap_or_else(|| panic!("crates/testkit/needs.txt does not have {name}"));
    row.is_for_this_machine().then(|| row.find()).flatten().ok_or(Missing(row))
}

/// The file that a name of the table stands for. Without its package, prints why the test is skipped.
///
/// # Panics
/// If the table does not have the name.
#[must_use]
pub fn needed(name: &str) -> Option<PathBuf> {
    need(name).map_err(crate::skipped).ok()
}

/// The file that a name of the table stands for. Without its package, prints why the test is skipped, and returns from the test.
#[macro_export]
macro_rules! need {
    ($name:expr) => {
        match $crate::needed($name) {
            Some(file) => file,
            None => return,
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/packages.sh");

    #[test]
    fn each_name_stands_once() {
        let names: BTreeSet<&str> = rows().map(|row| row.name).collect();
        assert_eq!(names.len(), rows().count());
        assert!(names.len() > 40, "{names:?}");
    }

    #[test]
    fn packages_are_installed_for_what_the_table_says() {
        let purposes: BTreeSet<&str> =
            rows().flat_map(|row| row.purposes.split(',')).filter(|of| *of != "-").collect();
        assert!(["build", "deb", "demo", "test", "truth", "long"].iter().all(|one| purposes.contains(one)));
        for purpose in purposes {
            let output = Command::new(PACKAGES).args(["--list", purpose]).output().unwrap();
            assert!(output.status.success(), "{purpose}: {}", String::from_utf8_lossy(&output.stderr));
            let listed = String::from_utf8(output.stdout).unwrap();
            let wanted =
                |row: &Row| row.is_for_this_machine() && row.purposes.split(',').any(|of| of == purpose);
            let expected: BTreeSet<&str> = rows().filter(wanted).map(|row| row.package).collect();
            assert_eq!(listed.lines().collect::<BTreeSet<_>>(), expected, "{purpose}");
            assert_eq!(listed.lines().count(), expected.len(), "{purpose}: each package once: {listed}");
        }
        let unknown = Command::new(PACKAGES).args(["--list", "nonsense"]).output().unwrap();
        assert_eq!(unknown.status.code(), Some(2));
    }

    #[test]
    fn a_proof_is_a_command_or_a_file() {
        let row = |proof, machine| Row { name: "x", package: "pack", proof, machine, purposes: "test" };
        assert!(row("sh", "any").find().is_some_and(|file| file.is_absolute()));
        assert_eq!(row("/etc/passwd", "any").find(), Some(PathBuf::from("/etc/passwd")));
        assert_eq!(row("/nonexistent", "any").find(), None);
        let reason = |proof, machine| Missing(row(proof, machine)).to_string();
        assert_eq!(reason("/nonexistent", "any"), "needs pack: /nonexistent is missing");
        assert_eq!(reason("/etc/passwd", "vax"), "needs pack: it is for vax only");
    }

    #[test]
    fn a_command_of_administrators_is_found_without_their_folders() {
        assert!(of_administrators("ldconfig").is_some_and(|file| file.ends_with("sbin/ldconfig")));
        assert_eq!(of_administrators("no-such-command-anywhere"), None);
    }

    #[test]
    #[should_panic(expected = "needs.txt does not have no-such-name")]
    fn an_unknown_name_is_a_defect_of_the_test() {
        let _ = need("no-such-name");
    }
}
