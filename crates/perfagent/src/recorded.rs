//! Recordings in the hands of a library user: of an interval of a running capture, of a finished one, or read from a file.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use profile::Profile;
use recording::Mode;

use crate::late_recording::LateRecording;
use crate::output::{
    self, Contents, Drawing, FileTarget, OutputKind, OutputReport, OutputTarget, Outputs, Profiles,
    TemporaryFiles,
};
use crate::{Advice, CancelToken, Error, Ledger, LockReport, Symbolizer, Warning, model, packages, session};

/// A capture, or an interval of one, as data: stacks, counts, names and the ledger. It needs neither the agent nor the machine that it
/// comes from. Clones share the data.
///
/// The names of an interval that [`Agent::cut`](crate::Agent::cut) returns are found while the capture goes on. All methods that show names or
/// ledgers wait for them, except [`Self::names_left`] and [`Self::abandon_symbolization`].
///
/// ```
/// let recording = perfagent::Recording::default();
/// let mut bytes = Vec::new();
/// recording.write_to(&mut bytes)?;
/// let again = perfagent::Recording::read_from(&bytes[..])?;
/// assert!(again.profile(perfagent::Mode::OnCpu).is_none(), "nothing was recorded");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Later, and on another machine: names from the files there, then any output.
///
/// ```no_run
/// use perfagent::{Mode, Recording, Symbolizer};
///
/// let symbolizer = Symbolizer::new();
/// for path in ["first.perf-agent", "second.perf-agent"] {
///     let recording = Recording::read_from(std::fs::File::open(path)?)?;
///     let named = recording.symbolize(&symbolizer);
///     if let Some(profile) = named.profile(Mode::OnCpu) {
///         println!("{path}: {} stacks", profile.samples.len());
///         named.encode_profile(Mode::OnCpu, "folded", std::io::stdout().lock())?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<LateRecording>, Drawing);

/// A recording with names. Recordings that a capture hands out find their names themselves, so both are one type.
pub type SymbolizedRecording = Recording;

impl Recording {
    pub(crate) fn new(symbolized: model::SymbolizedRecording) -> Self {
        Self(Arc::new(LateRecording::complete(symbolized)), Drawing::default())
    }

    /// A recording whose names may still be on their way.
    pub(crate) fn late(recording: LateRecording) -> Self {
        Self(Arc::new(recording), Drawing::default())
    }

    /// The same recording, whose flame graphs and folded stacks are drawn in this way.
    #[must_use]
    pub fn drawn(self, drawing: Drawing) -> Self {
        Self(self.0, drawing)
    }

    /// Number of code locations whose names are still to be looked up. 0 if the recording has all names that will be found. Does not wait.
    #[must_use]
    pub fn names_left(&self) -> u64 {
        self.0.names_left()
    }

    /// Ends the search for the names of this recording. Code locations without a name stay addresses. Does not wait.
    pub fn abandon_symbolization(&self) {
        self.0.give_up();
    }

    /// Findings about it. Waits for its names.
    pub(crate) fn findings(&self) -> &[report::Finding] {
        self.0.findings()
    }

    /// Its ledgers. Waits for its names.
    pub(crate) fn ledgers(&self) -> &[Ledger] {
        self.0.ledgers()
    }

    /// Number of code locations that stay addresses because the search for names was ended. Waits for the names.
    pub(crate) fn names_abandoned(&self) -> u64 {
        self.model().names.outcome.abandoned
    }

    /// The profiles that it has.
    #[must_use]
    pub fn modes(&self) -> Vec<Mode> {
        output::modes(self.model())
    }

    /// The same, each with the word that stands for it in the names of files: the mode, or the event where several were sampled.
    #[must_use]
    pub fn named_modes(&self) -> Vec<(Mode, String)> {
        output::words(self.model())
    }

    /// The profile of a mode, if the recording has it.
    #[must_use]
    pub fn profile(&self, mode: Mode) -> Option<Profile> {
        output::profile(self.model(), mode)
    }

    /// Which locks threads waited for, if that was recorded. [`lock_text`](crate::lock_text) makes text of it.
    #[must_use]
    pub fn locks(&self) -> Option<LockReport> {
        report::locks(self.model())
    }

    /// Keys and values of the ledger of a mode, in their order; none if the recording has no such profile.
    #[must_use]
    pub fn ledger(&self, mode: Mode) -> &[(String, String)] {
        output::ledger(self.model(), mode)
    }

    /// The model behind it, for programs that look at stacks and counts themselves.
    #[must_use]
    pub fn model(&self) -> &model::SymbolizedRecording {
        self.0.symbolized()
    }

    /// Looks up all names anew, in the files of this machine and by the sources of the symbolizer. Frames whose file is not here, or is
    /// another one by now, keep the names that they have; so do kernel frames, unless the machine was not started since, or the same
    /// kernel runs here and both tell where they were loaded. The ledger follows; [`Self::warnings`] tells what could not be named.
    #[must_use]
    pub fn symbolize(self, symbolizer: &Symbolizer) -> SymbolizedRecording {
        let Self(recording, drawing) = self;
        let named = symbolizer.name(recording.into_symbolized());
        Self::late(LateRecording::with_names(named.recording, named.names)).drawn(drawing)
    }

    /// What is poor about it, and what exactly to do about that: at most three pieces of advice, the most important first. Packages are
    /// those of this machine, if it has the very files.
    #[must_use]
    pub fn advice(&self) -> Vec<Advice> {
        let packages = packages::of(&report::nameless_files(self.model()));
        report::advice(self.model(), self.ledgers(), &packages)
    }

    /// What went less well: an empty profile, and names that could not be found.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.findings().iter().cloned().map(session::warning).collect()
    }

    /// Writes outputs of it, as a live run writes them: folded stacks and flame graphs in one file for each mode, `NAME.MODE.EXT`, if it
    /// has several. An output that it cannot give, as the report of the PMU, is an error in its report.
    pub fn write_outputs(
        &self,
        outputs: impl IntoIterator<Item = (OutputKind, FileTarget)>,
        temporary: &TemporaryFiles,
    ) -> Vec<OutputReport> {
        let (mut opened, mut reports) = (Vec::new(), Vec::new());
        for (kind, file) in outputs {
            let kind = file.kind_of(kind);
            match output::open_target(OutputTarget::File(file)) {
                Ok(target) => opened.push((kind, target)),
                Err(error) => reports.push(OutputReport { kind, path: None, bytes: 0, result: Err(error) }),
            }
        }
        let profiles = Profiles::of(self.model());
        let contents = Contents { profiles: &profiles, metrics: None, drawing: self.1 };
        let outputs = Outputs::new(opened, self.1, temporary.clone());
        reports.extend(outputs.write(&contents, &CancelToken::new()));
        reports
    }

    /// Writes the profile of one mode in a format, as `pprof`, `folded`, `flamegraph` or `ndjson`. Gives the number of bytes.
    ///
    /// # Errors
    /// [`Error::Output`]: the profile or the format does not exist, or the target could not be written.
    pub fn write_profile(
        &self,
        mode: Mode,
        format: &str,
        target: FileTarget,
        temporary: &TemporaryFiles,
    ) -> Result<u64, Error> {
        output::write_profile(self.model(), mode, format, self.1, target, temporary)
    }

    /// Encodes the profile of one mode in a format, as [`Self::write_profile`] does, into any writer.
    ///
    /// # Errors
    /// Those of `out`; the profile or the format does not exist.
    pub fn encode_profile(&self, mode: Mode, format: &str, mut out: impl Write) -> io::Result<()> {
        output::encode_profile(&Profiles::of(self.model()), mode, format, self.1, &mut out)
    }

    /// The names of the formats that [`Self::write_profile`] knows.
    pub fn formats() -> impl Iterator<Item = &'static str> {
        formats::registry::ENCODERS.iter().map(|encoder| encoder.name())
    }

    /// The format of a file by its extension, as `pprof` for `cpu.pb.gz`.
    #[must_use]
    pub fn format_of(path: &Path) -> Option<&'static str> {
        formats::registry::by_extension(path).map(|encoder| encoder.name())
    }

    /// Writes it, versioned and with checksums. Gives the number of bytes.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: impl Write) -> io::Result<u64> {
        recording::file::write_symbolized(self.model(), out)
    }

    /// Reads what [`Self::write_to`] wrote. Any input may be given: what is not a whole recording is refused, and memory stays bounded.
    ///
    /// # Errors
    /// [`Error::Recording`], whose message names the position in the input.
    pub fn read_from(input: impl Read) -> Result<Self, Error> {
        recording::file::read_symbolized(input)
            .map(Self::new)
            .map_err(|error| Error::Recording { reason: error.to_string() })
    }
}
