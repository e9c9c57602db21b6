//! Writes what is seen to a file, beside the view.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use perfagent::model::Profile;
use perfagent::{Drawing, FileTarget, Recording, TemporaryFiles, WrittenProfile};

use super::follow::Update;

/// Begins to write the profile in the format of the path's extension; the view is told when it is done. Or says why that cannot be.
///
/// On a thread of its own: a FIFO may wait for its reader.
pub fn begin(
    path: String,
    profile: Profile,
    temporary: &TemporaryFiles,
    updates: SyncSender<Update>,
) -> Result<(), String> {
    let format = Recording::format_of(Path::new(&path)).filter(|_| path != "-").ok_or_else(|| {
        let formats = Recording::formats().collect::<Vec<_>>().join(", ");
        format!("{path}: no format has this extension; cpu.pb.gz or cpu.svg has one ({formats})")
    })?;
    let temporary = temporary.clone();
    let thread = std::thread::Builder::new().name("write".to_owned());
    let written = thread.spawn(move || {
        let target = FileTarget::from_word(OsStr::new(&path));
        let samples = profile.samples.len();
        let profile = WrittenProfile::from(profile);
        let said = match profile.write_as(format, None, Drawing::default(), target, &temporary) {
            Ok(bytes) => format!("wrote {path}: {samples} stacks, {bytes} bytes"),
            Err(error) => error.to_string(),
        };
        let _gone_is_fine = updates.send(Update::Said(said));
    });
    written.map(drop).map_err(|error| format!("start a thread: {error}"))
}
