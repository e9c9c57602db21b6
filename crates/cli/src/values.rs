//! Types of option values, read from the command line by clap.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{MapValueParser, OsStringValueParser, TypedValueParser, ValueParserFactory};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};

/// A value whose meaning the library checks.
///
/// The library checks the target and the modes first. A value that clap refused would be reported before them.
#[derive(Clone, Debug)]
pub struct Text(String);

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<OsStr> for Text {
    fn as_ref(&self) -> &OsStr {
        self.0.as_ref()
    }
}

impl ValueParserFactory for Text {
    type Parser = TextParser;

    fn value_parser() -> TextParser {
        TextParser
    }
}

/// Reads UTF-8. Unlike clap's own parser it names the option in its error.
#[derive(Clone, Debug)]
pub struct TextParser;

impl TypedValueParser for TextParser {
    type Value = Text;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, value: &OsStr) -> Result<Text, Error> {
        value.to_str().map(|text| Text(text.to_owned())).ok_or_else(|| {
            let mut error = Error::new(ErrorKind::InvalidUtf8).with_cmd(command);
            let value = value.to_string_lossy().into_owned();
            error.insert(ContextKind::InvalidValue, ContextValue::String(value));
            if let Some(option) = option {
                error.insert(ContextKind::InvalidArg, ContextValue::String(option.to_string()));
            }
            error
        })
    }
}

/// The path of an output: any bytes. clap's own parser of paths refuses the empty path without the system's reason.
#[derive(Clone, Debug)]
pub struct OutputPath(PathBuf);

impl AsRef<OsStr> for OutputPath {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl From<OsString> for OutputPath {
    fn from(word: OsString) -> Self {
        Self(word.into())
    }
}

impl ValueParserFactory for OutputPath {
    type Parser = MapValueParser<OsStringValueParser, fn(OsString) -> Self>;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().map(Self::from)
    }
}
