//! Alpine: the database of apk tells which package brought a file.

use std::path::Path;

use report::{DebugPackage, Packages};

/// The packages with the symbols of these files.
pub(super) fn packages(root: &Path, paths: &[&str]) -> Packages {
    let text = std::fs::read_to_string(root.join("lib/apk/db/installed")).unwrap_or_default();
    let mut found = Packages::new();
    let (mut package, mut folder) = ("", "");
    for line in text.lines() {
        match line.split_once(':') {
            Some(("P", name)) => package = name,
            Some(("F", name)) => folder = name,
            Some(("R", name)) => {
                let is_this = |path: &&&str| {
                    path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) == Some((folder, name))
                };
                if let Some(path) = paths.iter().find(is_this) {
                    let (install, package) = ("apk add".to_owned(), format!("{package}-dbg"));
                    found.insert(
                        (*path).to_owned(),
                        DebugPackage { install, package, archive: None, server: None },
                    );
                }
            }
            _ => {}
        }
    }
    found
}
