//! Why there is no place for a probe.

use std::io;
use std::path::PathBuf;

use crate::parameters::ParameterError;
use crate::path_text::shown_path;

/// Why a target has no place in a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The file cannot be read.
    #[error("cannot read {} for a probe: {source}", shown_path(path))]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has no code that can be probed.
    #[error(
        "{} is no 64-bit little-endian ELF file; name the program or library itself, not a script",
        shown_path(path)
    )]
    NotElf {
        /// Its path.
        path: PathBuf,
    },
    /// The text of a target is not understood.
    #[error(
        "probe target {text:?}: {reason}; a target is SYMBOL, SYMBOL+0xOFFSET or 0xOFFSET, an offset in the file"
    )]
    BadTarget {
        /// The text.
        text: String,
        /// Why.
        reason: String,
    },
    /// No symbol table has the name.
    #[error(
        "{} has no function {symbol}{}", shown_path(path),
        if near.is_empty() { "; if it is stripped, name an offset in the file: 0xOFFSET".to_owned() } else { format!("; similar: {}", near.join(", ")) }
    )]
    UnknownSymbol {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        symbol: String,
        /// Names that are similar.
        near: Vec<String>,
    },
    /// Several functions have the name.
    #[error(
        "{} has {} functions {symbol}; name one by its offset in the file: {}", shown_path(path), offsets.len(),
        offsets.iter().take(8).map(|offset| format!("{offset:#x}")).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        symbol: String,
        /// Their offsets in the file.
        offsets: Vec<u64>,
    },
    /// The symbol is a function that chooses the implementation while the file is loaded.
    #[error(
        "{symbol} in {} only chooses among implementations while the program starts (IFUNC); \
         name the implementation, or the offset of its code: 0xOFFSET",
        shown_path(path)
    )]
    IndirectFunction {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        symbol: String,
    },
    /// The target is not in an executable segment.
    #[error("{target} is at {at:#x}, which is in no executable segment of {}", shown_path(path))]
    OutsideCode {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        target: String,
        /// Its offset in the file, or its address if it has none.
        at: u64,
    },
    /// The offset is behind the end of the function.
    #[error("{symbol} in {} has {size} bytes, so there is no {symbol}+{offset:#x}", shown_path(path))]
    BeyondSymbol {
        /// The file.
        path: PathBuf,
        /// The function.
        symbol: String,
        /// Bytes of the function.
        size: u64,
        /// The offset that was asked for.
        offset: u64,
    },
    /// A probe there would damage the instruction around it.
    #[error(
        "{target} is inside of an instruction of {}, which begins at offset {begin:#x} in the file",
        shown_path(path)
    )]
    InsideInstruction {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        target: String,
        /// Where the instruction begins in the file.
        begin: u64,
    },
    /// A parameter of the function cannot be read by its name.
    #[error("parameter {parameter} of {target} in {}: {source}", shown_path(path))]
    Parameter {
        /// The file.
        path: PathBuf,
        /// The function or place.
        target: String,
        /// The parameter, as it was given.
        parameter: String,
        /// Why.
        source: Box<ParameterError>,
    },
    /// The places at which the function returns are not known.
    #[error("{target} in {}: its returns cannot be probed: {source}", path.display())]
    Returns {
        /// The file.
        path: PathBuf,
        /// The function.
        target: String,
        /// Why.
        source: unwind::Unfollowed,
    },
    /// The target is not the start of a function, and only functions return.
    #[error("{target} in {} is not the start of a function, so it has no return", path.display())]
    NotAFunction {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        target: String,
    },
    /// The file has no such USDT probe.
    #[error(
        "{} has no USDT probe {provider}:{name}; {}", shown_path(path),
        if known.is_empty() { "it has none at all".to_owned() } else { format!("it has {}", known.join(", ")) }
    )]
    UnknownUsdt {
        /// The file.
        path: PathBuf,
        /// The provider that was asked for.
        provider: String,
        /// The name that was asked for.
        name: String,
        /// Some that there are.
        known: Vec<String>,
    },
}
