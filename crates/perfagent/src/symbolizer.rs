//! Names for recordings, later and elsewhere.

use std::cell::{RefCell, RefMut};
use std::path::{Path, PathBuf};

use profile::Profile;
use recording::{FileIdentity, SymbolizedRecording};
use symbolization::{AbandonToken, KernelFiles, NamedProfile, Options, Sources, symbolize_profile_of};
use symbols::{KernelFile, KernelNames};

use crate::config::{Debuginfod, Fetching};
use crate::symbol_source::{GivenSources, SymbolSource};
use crate::{CancelToken, Error};

/// Looks up the names of recordings, in the files of this machine and by sources of the host program. It needs no privileges.
///
/// Recordings of one capture share what was read: use one symbolizer for all of them.
///
/// ```
/// let recording = perfagent::Recording::default();
/// let named = recording.symbolize(&perfagent::Symbolizer::new());
/// assert!(named.modes().is_empty(), "nothing was recorded");
/// ```
#[derive(Default)]
pub struct Symbolizer {
    cancel: CancelToken,
    symbol_dirs: Vec<PathBuf>,
    kernel_files: KernelFiles,
    fetching: Fetching,
    state: RefCell<State>,
}

enum State {
    /// Nothing was looked up yet.
    Described(GivenSources),
    Working(Box<symbolization::Symbolizer>),
}

impl Default for State {
    fn default() -> Self {
        Self::Described(GivenSources::default())
    }
}

impl std::fmt::Debug for Symbolizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbolizer").finish_non_exhaustive()
    }
}

impl Symbolizer {
    /// With the sources of perf-agent. Reads nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source that is asked before those of perf-agent, and after those that were added before. Must be called before the first
    /// recording is named; later it has no effect.
    #[must_use]
    pub fn symbol_source(self, source: impl SymbolSource + Send + 'static) -> Self {
        if let State::Described(given) = &mut *self.state.borrow_mut() {
            given.add(source);
        }
        self
    }

    /// Adds a directory with files or debug files of other machines: below `.build-id`, as in `/usr/lib/debug`, or by name. A file is used if it
    /// has the build-id that is looked for. Must be called before the first recording is named; later it has no effect.
    #[must_use]
    pub fn symbol_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.symbol_dirs.push(path.into());
        self
    }

    /// Names kernel frames from this ELF file of their kernel, with lines and inlined calls if it has debug information. Files of the kernel
    /// stand for the kernel that runs here. Must be called before the first recording is named; later it has no effect.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: it is no uncompressed ELF file of a kernel with a symbol table.
    pub fn vmlinux(mut self, path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        if KernelFile::read(&path).is_none() {
            let message =
                format!("--vmlinux {}: it is no ELF file of a kernel with a symbol table", path.display());
            let hint = "the file `vmlinux` of the kernel's build or of its debug package; vmlinuz is compressed and has no symbols";
            return Err(Error::invalid("--vmlinux", message, hint));
        }
        self.kernel_files.vmlinux = Some(path);
        Ok(self)
    }

    /// Names kernel frames from this list of their kernel's symbols: a `System.map`, or a copy of `/proc/kallsyms`. Must be called before the
    /// first recording is named; later it has no effect.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: it cannot be read, or its addresses are hidden.
    pub fn system_map(mut self, path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        check_list(&path).map_err(|reason| {
            let message = format!("--system-map {}: {reason}", path.display());
            let hint = "/boot/System.map-RELEASE of the kernel, or: sudo cat /proc/kallsyms > FILE";
            Error::invalid("--system-map", message, hint)
        })?;
        self.kernel_files.system_map = Some(path);
        Ok(self)
    }

    /// Fetches debug files that this machine does not have, and those of programs that it does not have.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: an address or a value that makes no sense, or a directory that is not safe.
    pub fn debuginfod(mut self, settings: Debuginfod) -> Result<Self, Error> {
        self.fetching = settings.checked()?;
        Ok(self)
    }

    /// The debuginfod servers in use, without user names and passwords.
    #[must_use]
    pub fn debuginfod_servers(&self) -> Vec<String> {
        self.fetching.servers()
    }

    /// What is to be said about the settings of fetching.
    pub fn debuginfod_warnings(&self) -> impl Iterator<Item = &str> {
        self.fetching.warnings.iter().map(String::as_str)
    }

    /// Ends the search for names when this token is cancelled. What was not looked up is told in the recording's warnings.
    #[must_use]
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    pub(crate) fn symbol_dirs(&self) -> &[PathBuf] {
        &self.symbol_dirs
    }

    /// Names a recording anew. Frames without a name here keep the names that they have.
    pub(crate) fn name(&self, recording: SymbolizedRecording) -> SymbolizedRecording {
        let Some(mut working) = self.working() else { return recording };
        working.symbolize_again(recording)
    }

    /// Names the places of a written profile that have no name. Gives the profile back if it is in use.
    /// `identities`: see [`symbolize_profile_of`].
    pub(crate) fn name_profile(
        &self,
        profile: Profile,
        identities: &[Option<FileIdentity>],
    ) -> Result<NamedProfile, Box<Profile>> {
        match self.working() {
            Some(mut working) => Ok(symbolize_profile_of(&mut working, profile, identities)),
            None => Err(Box::new(profile)),
        }
    }

    /// What finds names. `None`: it is in use, which only a call from within a source could find; then the names stay as they are.
    fn working(&self) -> Option<RefMut<'_, symbolization::Symbolizer>> {
        let mut state = self.state.try_borrow_mut().ok()?;
        if let State::Described(given) = &mut *state {
            let fetch = self.fetching.fetch();
            let mut options = Options {
                symbol_dirs: self.symbol_dirs.clone(),
                kernel_files: self.kernel_files.clone(),
                fetch,
                ..Options::default()
            };
            options.symbols.records = self.fetching.record_store();
            options.symbols.debug_dirs.splice(0..0, self.symbol_dirs.iter().cloned());
            options.symbols.named_dirs.clone_from(&self.symbol_dirs);
            let sources = std::mem::take(given).before(Sources::standard(&options));
            let cancel = self.cancel.clone();
            let token = AbandonToken::when(move || cancel.is_cancelled());
            let working = symbolization::Symbolizer::with_sources(sources, &options, token);
            *state = State::Working(Box::new(working));
        }
        RefMut::filter_map(state, |state| match state {
            State::Working(working) => Some(&mut **working),
            State::Described(_) => None,
        })
        .ok()
    }
}

/// Whether a file is a list of the kernel's symbols.
fn check_list(path: &Path) -> Result<(), String> {
    let is_file = std::fs::metadata(path).map_err(|error| error.to_string())?.is_file();
    if !is_file {
        return Err("it is no regular file".to_owned());
    }
    let options = symbols::Options {
        kallsyms: path.to_owned(),
        kernel_images: Vec::new(),
        ..symbols::Options::default()
    };
    match symbols::Symbolizer::new(options).kernel_names() {
        KernelNames::Known(_) => Ok(()),
        KernelNames::Hidden => Err("it has no symbols of code, or all addresses in it are zero".to_owned()),
        KernelNames::Unreadable(reason) => Err(reason),
    }
}
