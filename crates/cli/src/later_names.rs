//! Names for what was written already: the symbolizer of the options, and what is told of its work. `render` and `symbolize`
//! share it.

use std::path::PathBuf;

use perfagent::{Error, Recording, Symbolizer, WarningKind};

use crate::symbol_args::SymbolArgs;
use crate::{ending, header, library_types, messages};

/// `symbolizer` with these options. Tells which servers it asks.
pub fn symbolizer(args: &SymbolArgs, symbolizer: Symbolizer) -> Result<Symbolizer, Error> {
    let symbolizer = symbolizer.debuginfod(library_types::debuginfod(args))?;
    symbolizer.debuginfod_warnings().for_each(|text| messages::warning(text, None));
    header::debuginfod(&symbolizer.debuginfod_servers());
    Ok(symbolizer)
}

/// Looks up all names of a recording anew. Tells what could not be named, and what was fetched.
pub fn of_recording(recording: Recording, symbolizer: &Symbolizer) -> Recording {
    let named = recording.symbolize(symbolizer);
    for warning in named.warnings().iter().filter(|warning| warning.kind == WarningKind::Names) {
        messages::warning(&warning.message, warning.hint.as_deref());
    }
    ending::fetches(&named);
    named
}

/// The symbolizer that looks into these directories. The error names the option.
pub fn with_dirs(dirs: &[PathBuf]) -> Result<Symbolizer, String> {
    dirs.iter().try_fold(Symbolizer::new(), |symbolizer, dir| {
        let told = |reason: &dyn std::fmt::Display| format!("--symbol-dir {}: {reason}", dir.display());
        std::fs::read_dir(dir).map_err(|error| told(&error))?;
        let dir = std::path::absolute(dir).map_err(|error| told(&error))?;
        Ok(symbolizer.symbol_dir(dir))
    })
}
