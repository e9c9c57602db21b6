//! The last step of files that were written: their names.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::directory::{Directory, temporary_name};
use super::names::Numbered;
use super::temporary::{TemporaryFile, TemporaryFiles};

/// The largest number tried for a name.
pub(super) const MAX_NUMBER: u32 = 10_000;

/// An output that was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The final path; none for sinks and standard output.
    pub(crate) path: Option<PathBuf>,
    /// Bytes written.
    pub(crate) bytes: u64,
}

/// A completely written output.
pub(crate) enum Written {
    /// A regular file, which does not have its name yet.
    Staged { staged: Staged, bytes: u64 },
    /// What needs no name.
    There { path: Option<PathBuf>, bytes: u64 },
}

/// A regular file without its final name.
pub(super) struct Staged {
    pub(super) file: File,
    pub(super) directory: Directory,
    /// Its temporary name, on a file system without unnamed files.
    pub(super) temporary: Option<TemporaryFile>,
    pub(super) final_name: FinalName,
    pub(super) registry: TemporaryFiles,
}

/// The name that a file gets when it is complete.
pub(super) enum FinalName {
    Replace(OsString),
    FirstFree(Numbered),
}

impl FinalName {
    /// The name, or the one with the first number.
    pub(super) fn first(&self) -> OsString {
        match self {
            Self::Replace(name) => name.clone(),
            Self::FirstFree(name) => name.with(1),
        }
    }
}

/// Gives files their names. All names with a number get the same one: the first that is free for all of them.
pub(crate) fn publish_all(written: Vec<io::Result<Written>>) -> Vec<io::Result<Finished>> {
    // A file that has lost its last name cannot get a new one, so claimed names are kept until all files have their final one.
    let (mut claims, mut given_up) = (Vec::new(), Vec::new());
    for number in 1..=MAX_NUMBER {
        if written.iter().flatten().any(|output| output.is_taken(number)) {
            continue;
        }
        for output in &written {
            claims.push(output.as_ref().ok().and_then(|output| output.claim(number)));
        }
        let overtaken = |claim: &Option<io::Result<_>>| matches!(claim, Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists);
        if !claims.iter().any(overtaken) {
            break;
        }
        given_up.append(&mut claims);
    }
    claims.resize_with(written.len(), || None);
    written.into_iter().zip(claims).map(|(output, claim)| output?.publish(claim)).collect()
}

impl Written {
    /// Claims the name with this number, if the name of this file has one. A drop of the result frees the name.
    fn claim(&self, number: u32) -> Option<io::Result<TemporaryFile>> {
        let Self::Staged { staged, .. } = self else { return None };
        let Staged { file, directory, temporary, final_name: FinalName::FirstFree(name), registry } = staged
        else {
            return None;
        };
        let name = name.with(number);
        let claimed = match temporary {
            None => directory.name(file, &name),
            Some(_) => directory.create(&name).map(drop),
        };
        Some(claimed.map(|()| registry.register(directory, name)))
    }

    /// Whether the name with this number is taken.
    fn is_taken(&self, number: u32) -> bool {
        match self {
            Self::Staged {
                staged: Staged { directory, final_name: FinalName::FirstFree(name), .. }, ..
            } => directory.has(&name.with(number)),
            _ => false,
        }
    }

    fn publish(self, claimed: Option<io::Result<TemporaryFile>>) -> io::Result<Finished> {
        let (path, bytes) = match self {
            Self::There { path, bytes } => (path, bytes),
            Self::Staged { staged, bytes } => (Some(staged.publish(claimed)?), bytes),
        };
        Ok(Finished { path, bytes })
    }
}

impl Staged {
    fn publish(self, claimed: Option<io::Result<TemporaryFile>>) -> io::Result<PathBuf> {
        let Self { file, directory, temporary, final_name, registry } = self;
        match final_name {
            FinalName::Replace(name) => {
                let temporary = match temporary {
                    Some(temporary) => temporary,
                    None => {
                        let temporary = registry.register(&directory, temporary_name(&name));
                        directory.name(&file, temporary.name())?;
                        temporary
                    }
                };
                directory.rename(temporary.name(), &name)?;
                temporary.keep();
                Ok(directory.path_of(&name))
            }
            FinalName::FirstFree(name) => {
                let claimed = claimed.unwrap_or_else(|| none_free(&directory.path_of(&name.with(1))))?;
                let path = claimed.path();
                if let Some(temporary) = temporary {
                    directory.rename(temporary.name(), claimed.name())?;
                    temporary.keep();
                }
                claimed.keep();
                Ok(path)
            }
        }
    }
}

pub(super) fn none_free<T>(first: &std::path::Path) -> io::Result<T> {
    let message = format!("{} and {} numbered names exist already", first.display(), MAX_NUMBER - 1);
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}
