//! The separate debug file of a file, as a file.

use std::fs::File;

use crate::debug_file::{Search, load, open_regular};
use crate::object_file::{ObjectFile, ObjectSource};
use crate::options::Options;

/// Finds the separate debug file of a mapped file as a [`Symbolizer`](crate::Symbolizer) does: in the directories of the options by the build-id, and by its
/// link. `None` if there is none, or if the file cannot be read.
#[must_use]
pub fn separate_debug_file(object: &ObjectFile, options: &Options) -> Option<File> {
    let ObjectSource::Path(path) = &object.source else { return None };
    let elf = load(&open_regular(path)?)?;
    let build_id = object.build_id.clone().or_else(|| elf.build_id());
    Search::of(object, options).debug_file(&elf, build_id.as_ref()).map(|(file, _)| file)
}
