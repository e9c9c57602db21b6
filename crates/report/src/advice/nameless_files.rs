//! Files that are the reason why frames have no names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use recording::{Frame, Mode, Module, ModuleId, ModuleKind, Names, Recording};

use super::piece::{Advice, AdviceKind, let_read};
use crate::figures::{add, sum};
use crate::selection;

/// A share up to this, in percent, is not told.
const MIN_PCT: f64 = 5.0;
/// A file with a smaller share is not named.
const MIN_PCT_OF_FILE: f64 = 1.0;
/// This many files are named.
const MAX_FILES: usize = 3;

/// The package with the symbols of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugPackage {
    /// The command that installs packages, as `apt-get install`.
    pub install: String,
    /// The name of the package.
    pub package: String,
    /// Where the package is, if that place is not among the usual ones.
    pub archive: Option<String>,
    /// The debuginfod server of the distribution.
    pub server: Option<&'static str>,
}

/// Packages by path of the file. A file without an entry is the user's own, or nothing is known about it.
pub type Packages = BTreeMap<String, DebugPackage>;

/// How much of a profile goes through files without symbols.
pub(super) struct Shares<'a> {
    all: u64,
    /// Frames without a name that have at least the start of their function.
    by_start: u64,
    /// The files with their frames, those first that have most.
    files: Vec<(&'a Module, u64)>,
}

impl<'a> Shares<'a> {
    /// Of the frames that the profile of a mode shows.
    pub(super) fn of(recording: &'a Recording, names: &Names, mode: Mode) -> Self {
        let settings = &recording.settings;
        let (mut all, mut by_start) = (0, 0);
        let mut nameless: BTreeMap<ModuleId, u64> = BTreeMap::new();
        for entry in selection::shown_in(recording, mode) {
            let (kernel, user) = entry.at.stack.split();
            let kernel = if settings.kernel_stacks { kernel } else { &[] };
            for frame in kernel.iter().chain(user) {
                add(&mut all, entry.count);
                if !names.has(*frame)
                    && let Some(Frame::Native { mapping, .. }) = recording.frame(*frame)
                    && let Some((mapping, _)) = recording.mapping(*mapping)
                {
                    add(nameless.entry(mapping.module).or_default(), entry.count);
                    if names.start(*frame).is_some() {
                        add(&mut by_start, entry.count);
                    }
                }
            }
        }
        let files = nameless.into_iter().filter_map(|(id, count)| Some((recording.module(id)?, count)));
        let mut files: Vec<_> = files.filter(|(file, _)| file.kind != ModuleKind::InMemory).collect();
        files.sort_by_key(|(file, count)| (Reverse(*count), &file.path));
        Self { all, by_start, files }
    }

    fn pct(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.all.max(1) as f64
    }

    fn whole_pct(&self) -> f64 {
        self.pct(sum(self.files.iter().map(|(_, count)| *count)))
    }

    /// The files that are named, with their frames; none if too few frames lack a name.
    pub(super) fn told(&self) -> impl Iterator<Item = (&'a Module, u64)> {
        let is_told = self.whole_pct() > MIN_PCT;
        let files = self.files.iter().take(if is_told { MAX_FILES } else { 0 });
        files.filter(|(_, count)| self.pct(*count) >= MIN_PCT_OF_FILE).copied()
    }
}

/// The advice about files that give no names to frames in the profile of a mode.
pub(super) fn of(recording: &Recording, names: &Names, mode: Mode, packages: &Packages) -> Option<Advice> {
    let shares = Shares::of(recording, names, mode);
    let share_pct = shares.whole_pct();
    if share_pct <= MIN_PCT {
        return None;
    }
    let named: Vec<(&Module, u64)> = shares.told().collect();
    let file = |(file, count): &(&Module, u64)| format!("{} ({:.0} %)", file.path, shares.pct(*count));
    let mut files = named.iter().map(file).collect::<Vec<_>>().join(", ");
    if named.is_empty() {
        files.push_str("many files");
    }
    let nameless = sum(shares.files.iter().map(|(_, count)| *count));
    let but = if shares.by_start > nameless / 2 { " but the start of their function (fn_0x…)" } else { "" };
    let message = format!("{share_pct:.0} % of the frames have no names{but}, in {files}");
    let fetches = names.outcome.fetches.is_some();
    let remedy = remedy(named.iter().map(|(file, _)| *file), packages, fetches);
    Some(Advice { kind: AdviceKind::NamelessFiles, share_pct, message, remedy })
}

/// `fetches`: a server was asked already.
fn remedy<'a>(
    files: impl Iterator<Item = &'a Module> + Clone,
    packages: &Packages,
    fetches: bool,
) -> Option<String> {
    let mut wanted: Vec<&DebugPackage> = Vec::new();
    for package in files.clone().filter_map(|file| packages.get(&file.path)) {
        if !wanted.contains(&package) {
            wanted.push(package);
        }
    }
    if let Some(first) = wanted.first() {
        // One command installs all packages that come from one place; the first is of the file that matters most.
        let together =
            wanted.iter().filter(|other| other.install == first.install && other.archive == first.archive);
        let names: Vec<&str> = together.map(|package| package.package.as_str()).collect();
        let archive =
            first.archive.as_ref().map(|archive| format!(" (archive: {archive})")).unwrap_or_default();
        let server = first.server.filter(|_| !fetches);
        let server = server.map(|url| format!("--debuginfod-url {url}, or ")).unwrap_or_default();
        return Some(format!("{server}{} {}{archive}", first.install, names.join(" ")));
    }
    let own = files.clone().next()?;
    if own.is_unread() {
        return Some(let_read(&own.path));
    }
    Some(match &own.build_id {
        Some(id) => {
            let place = id.path(".debug");
            format!("do not strip {}, or put its debug file at /usr/lib/debug/{place}", own.path)
        }
        None => format!("do not strip {}", own.path),
    })
}
