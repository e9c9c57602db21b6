//! Folded stacks: one line per distinct stack, `root;…;leaf VALUE`, as flame graph tools read them.
//!
//! Lines are sorted and distinct, and their values add up to the profile's sum. An inlined function is a frame of its own.
//! [`Merge`] tells with which frames for processes and threads a stack begins; there are none if all samples would have the same.

mod decode;

use std::collections::BTreeMap;
use std::io::{self, Write};

use profile::Profile;

use crate::named_frames::NamedFrames;
use crate::{EncodeOptions, Encoder, Merge};

pub use decode::{DecodeError, decode, is_folded};

/// Folded stacks as a registered format.
pub struct Folded;

impl Encoder for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn extensions(&self) -> &[&'static str] {
        &["folded"]
    }

    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        write(profile, options.value_index(profile), options.merge, out)
    }
}

/// Writes the stacks with their value number `value_index`. Stacks whose sum is zero are left out.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if the profile has no value of that number.
pub fn write(profile: &Profile, value_index: usize, merge: Merge, out: &mut dyn Write) -> io::Result<()> {
    check_value(profile, value_index)?;
    let frames = NamedFrames::new(profile, merge);
    let mut stacks: BTreeMap<String, i64> = BTreeMap::new();
    for sample in &profile.samples {
        let value = sample.values.get(value_index).copied().unwrap_or(0);
        if value == 0 {
            continue;
        }
        let owners = frames.owners(sample);
        let names: Vec<&str> =
            owners.iter().chain(frames.stack(sample)).map(|frame| frame.name.as_str()).collect();
        let stack = if names.is_empty() { "[no stack]".to_owned() } else { names.join(";") };
        let sum = stacks.entry(stack).or_default();
        *sum = sum.saturating_add(value);
    }
    for (stack, value) in stacks {
        writeln!(out, "{stack} {value}")?;
    }
    Ok(())
}

/// Refuses a value that the profile does not have.
pub(crate) fn check_value(profile: &Profile, value_index: usize) -> io::Result<()> {
    if value_index < profile.sample_types.len() {
        return Ok(());
    }
    let message =
        format!("write stacks of value {value_index}: the profile has {} values", profile.sample_types.len());
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
