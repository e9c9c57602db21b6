//! The interpreters of this machine: those that pyenv built, and the system's own.

use std::path::PathBuf;

/// A version that pyenv built, with a shared library.
pub struct Pyenv {
    /// Such as "3.11".
    pub minor: &'static str,
    folder: PathBuf,
}

impl Pyenv {
    /// The program.
    pub fn program(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// The library. Versions to 3.7 have a letter behind the number.
    pub fn library(&self) -> PathBuf {
        let plain = self.folder.join(format!("lib/libpython{}.so.1.0", self.minor));
        if plain.exists() { plain } else { self.folder.join(format!("lib/libpython{}m.so.1.0", self.minor)) }
    }

    /// The folder with `Python.h`.
    pub fn headers(&self) -> PathBuf {
        self.folder.join(format!("include/python{}", self.minor))
    }
}

/// Those of the wanted versions, such as "3.11", that are here. Prints which are not.
pub fn pyenv(wanted: &[&'static str]) -> Vec<Pyenv> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(home).unwrap_or_default();
    let folders: Vec<PathBuf> = std::fs::read_dir(root.join("versions"))
        .map(|all| all.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    let find = |minor: &&'static str| {
        let prefix = format!("{minor}.");
        let is_wanted = |path: &&PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        let found = folders.iter().find(is_wanted).map(|folder| Pyenv { minor, folder: folder.clone() });
        let found = found.filter(|pyenv| pyenv.program().exists() && pyenv.library().exists());
        if found.is_none() {
            testkit::skipped(format_args!("in part: no shared Python {minor} of pyenv"));
        }
        found
    };
    wanted.iter().filter_map(find).collect()
}
