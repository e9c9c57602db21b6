//! Profiles that were written to a file, in the hands of a library user.

use std::io::Read;

use formats::Widths;
use profile::Profile;
use recording::FileIdentity;
use report::{Against, Comparison, Part};

use crate::difference::{self, DifferenceFormat};
use crate::output::{self, Drawing, FileTarget, TemporaryFiles};
use crate::{Error, Symbolizer};

/// A profile in a file. That of a pprof file has addresses and build-ids, which tell names later, on another machine, without privileges.
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
    /// Reads a pprof file of any program, compressed or not, or folded stacks. Any input may be given: what is no profile is refused, and memory
    /// stays bounded.
    ///
    /// # Errors
    /// [`Error::Profile`], whose message tells what is wrong, and where.
    pub fn read_from(input: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let refused = |reason: String| Error::Profile { reason };
        let limit = formats::pprof::MAX_MESSAGE_BYTES;
        input.take(limit + 1).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
        if bytes.len() as u64 > limit {
            return Err(refused(format!("the file is longer than {limit} bytes")));
        }
        // Folded stacks of an interval without samples are an empty file.
        let profile = if bytes.is_empty() || formats::folded::is_folded(&bytes) {
            formats::folded::decode(&bytes).map_err(|error| refused(error.to_string()))?
        } else {
            formats::pprof::decode(&bytes).map_err(|error| refused(error.to_string()))?
        };
        Ok(Self(profile))
    }

    /// Whether it has no samples, as that of an interval in which nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.samples.iter().all(|sample| sample.values.iter().all(|value| *value == 0))
    }

    /// Adds up profiles, each with the name of its file. Samples with equal stacks and labels become one. Comments that differ follow that
    /// name.
    ///
    /// # Errors
    /// [`Error::Merge`]: they do not have the same values, or there are none.
    pub fn merge(profiles: impl IntoIterator<Item = (String, Self)>) -> Result<Self, Error> {
        let profiles: Vec<_> = profiles.into_iter().map(|(name, profile)| (name, profile.0)).collect();
        report::merge(&profiles).map(Self).map_err(|error| Error::Merge { reason: error.to_string() })
    }

    /// Compares two sides of profiles, each with the name of its file, function by function.
    ///
    /// # Errors
    /// [`Error::Compare`]: a profile has no samples, no value that counts them, or no duration.
    pub fn compare(
        before: Vec<(String, Self)>,
        after: Vec<(String, Self)>,
        against: Against,
        part: Part,
    ) -> Result<Comparison, Error> {
        let side = |profiles: Vec<(String, Self)>| -> Vec<(String, Profile)> {
            profiles.into_iter().map(|(name, profile)| (name, profile.0)).collect()
        };
        report::compare(&side(before), &side(after), against, part)
            .map_err(|error| Error::Compare { reason: error.to_string() })
    }

    /// Writes the difference of two sides of profiles, each with the name of its file, as an SVG flame graph or an HTML page: widths of one side,
    /// colours by the change. Each frame is judged with its callers, and keeps a neutral colour if its change may be chance. The page shows every
    /// view of a report so, and a table of functions with their changes. Gives the number of bytes.
    ///
    /// # Errors
    /// [`Error::Compare`], as [`compare`](Self::compare) gives it; [`Error::Output`]: the target could not be written.
    pub fn write_difference(
        before: &[(String, Self)],
        after: &[(String, Self)],
        against: Against,
        (format, widths): (DifferenceFormat, Widths),
        target: FileTarget,
        temporary: &TemporaryFiles,
    ) -> Result<u64, Error> {
        let side = |profiles: &[(String, Self)]| -> Vec<(String, Profile)> {
            profiles.iter().map(|(name, profile)| (name.clone(), profile.0.clone())).collect()
        };
        let bytes = difference::bytes(&side(before), &side(after), against, format, widths);
        let bytes = bytes.map_err(|error| match error {
            difference::DifferenceError::Compare(error) => Error::Compare { reason: error.to_string() },
            difference::DifferenceError::Encode(source) => Error::Output { which: target.describe(), source },
        })?;
        output::write_bytes(&bytes, target, temporary)
    }

    /// Names the places that have no name, or only the start of their function. All others keep what they have. The figures about names in
    /// its comments follow.
    #[must_use]
    pub fn symbolize(self, symbolizer: &Symbolizer) -> (Self, NamingOutcome) {
        self.symbolize_of(symbolizer, &[])
    }

    /// The same. `identities`: by number of the mapping, which file it is of if it has no build-id.
    pub(crate) fn symbolize_of(
        self,
        symbolizer: &Symbolizer,
        identities: &[Option<FileIdentity>],
    ) -> (Self, NamingOutcome) {
        let named = match symbolizer.name_profile(self.0, identities) {
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

    /// Writes it in a format, as `pprof`, `folded`, `flamegraph`, `ndjson`, `speedscope` or `firefox` (see [`Recording::formats`](crate::Recording::formats)).
    /// Formats that show one value of each stack show number `value`, or the one that the profile shows by default. Gives the number of bytes.
    ///
    /// # Errors
    /// [`Error::Output`]: the format or the value does not exist, or the target could not be written.
    pub fn write_as(
        &self,
        format: &str,
        value: Option<usize>,
        drawing: Drawing,
        target: FileTarget,
        temporary: &TemporaryFiles,
    ) -> Result<u64, Error> {
        output::write_written(&self.0, (format, value), drawing, target, temporary)
    }
}

impl From<Profile> for WrittenProfile {
    fn from(profile: Profile) -> Self {
        Self(profile)
    }
}
