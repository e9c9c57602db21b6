//! Profiles that were written to a file as pprof, in the hands of a library user.

use std::io::Read;

use profile::Profile;

use crate::output::{self, FileTarget, TemporaryFiles};
use crate::{Error, Symbolizer};

/// A profile in a pprof file: its addresses and build-ids tell names later, on another machine, without privileges.
///
/// ```no_run
/// use perfagent::{FileTarget, Symbolizer, TemporaryFiles, WrittenProfile};
///
/// let profile = WrittenProfile::read_from(std::fs::File::open("cpu.pb.gz")?)?;
/// let (named, outcome) = profile.symbolize(&Symbolizer::new().symbol_dir("/srv/symbols"));
/// println!("{} places have a name now", outcome.named);
/// named.write(FileTarget::from_word("named.pb.gz".as_ref()), &TemporaryFiles::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WrittenProfile(Profile);

/// What became of the names of a written profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamingOutcome {
    /// Places that got a name.
    pub named: u64,
    /// Places in files and in the kernel that have none still.
    pub unnamed: u64,
    /// Of these, places in the kernel.
    pub unnamed_in_kernel: u64,
    /// Places that were not looked up, because the search was ended.
    pub abandoned: u64,
    /// What else is to be said, one line each.
    pub told: Vec<String>,
}

impl WrittenProfile {
    /// Reads a pprof file, compressed or not. Any input may be given: what is no profile is refused, and memory stays bounded.
    ///
    /// # Errors
    /// [`Error::Profile`], whose message tells what is wrong.
    pub fn read_from(input: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let refused = |reason: String| Error::Profile { reason };
        input
            .take(formats::pprof::MAX_MESSAGE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| refused(error.to_string()))?;
        formats::pprof::decode(&bytes).map(Self).map_err(|error| refused(error.to_string()))
    }

    /// Names the places that have no name, or only the start of their function. All others keep what they have. The figures about names in
    /// its comments follow.
    #[must_use]
    pub fn symbolize(self, symbolizer: &Symbolizer) -> (Self, NamingOutcome) {
        let named = match symbolizer.name_profile(self.0) {
            Ok(named) => named,
            Err(profile) => return (Self(*profile), NamingOutcome::default()),
        };
        let mut profile = named.profile;
        report::correct_name_shares(&mut profile);
        let outcome = NamingOutcome {
            named: named.named,
            unnamed: named.unnamed,
            unnamed_in_kernel: named.unnamed_in_kernel,
            abandoned: named.abandoned,
            told: named.told,
        };
        (Self(profile), outcome)
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.0
    }

    /// Writes it as a compressed pprof file. Gives the number of bytes.
    ///
    /// # Errors
    /// [`Error::Output`]: the target could not be written.
    pub fn write(&self, target: FileTarget, temporary: &TemporaryFiles) -> Result<u64, Error> {
        output::write_bytes(&formats::pprof::encode(&self.0), target, temporary)
    }
}
