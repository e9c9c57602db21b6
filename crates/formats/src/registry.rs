//! The list of all encoders. A new format is a module here and an entry in [`ENCODERS`].

pub mod firefox;
pub mod flamegraph;
pub mod folded;
pub mod html;
pub mod ndjson;
pub mod pprof;
pub mod speedscope;

use std::path::Path;

use crate::Encoder;

/// All encoders.
pub static ENCODERS: &[&dyn Encoder] = &[
    &pprof::Pprof,           // everything
    &folded::Folded,         // one value of each stack, as text
    &flamegraph::FlameGraph, // the same as a picture
    &html::Html,             // all values of each stack, as a page to explore
    &ndjson::Ndjson,         // all values of each stack, as JSON
    &speedscope::Speedscope, // one value of each stack, for a viewer
    &firefox::Firefox,       // the same, for another one
];

/// The encoder of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Encoder> {
    ENCODERS.iter().copied().find(|encoder| encoder.name() == name)
}

/// The encoder for a file name. Of several matching extensions the longest wins. A name that consists of an extension
/// alone matches none.
#[must_use]
pub fn by_extension(path: &Path) -> Option<&'static dyn Encoder> {
    longest_match(ENCODERS, path.file_name()?.to_str()?).map(|(_, encoder)| encoder)
}

/// The extension of a file name that belongs to a known format, without the leading dot.
#[must_use]
pub fn extension_of(path: &Path) -> Option<&'static str> {
    longest_match(ENCODERS, path.file_name()?.to_str()?).map(|(extension, _)| extension)
}

fn longest_match(
    encoders: &[&'static dyn Encoder],
    name: &str,
) -> Option<(&'static str, &'static dyn Encoder)> {
    let matches = |extension: &str| {
        let stem = name.strip_suffix(extension).and_then(|stem| stem.strip_suffix('.'));
        stem.is_some_and(|stem| !stem.is_empty())
    };
    let all =
        encoders.iter().flat_map(|encoder| encoder.extensions().iter().map(move |known| (*known, *encoder)));
    all.filter(|(extension, _)| matches(extension)).max_by_key(|(extension, _)| extension.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EncodeOptions;
    use profile::Profile;
    use std::io::{self, Write};

    struct Named(&'static str);

    impl Encoder for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn extensions(&self) -> &[&'static str] {
            std::slice::from_ref(&self.0)
        }

        fn encode(&self, _: &Profile, _: &EncodeOptions, _: &mut dyn Write) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_longest_extension_wins() {
        for encoders in
            [[&Named("x.json") as &dyn Encoder, &Named("json")], [&Named("json"), &Named("x.json")]]
        {
            let name = |file| longest_match(&encoders, file).map(|(_, encoder)| encoder.name());
            assert_eq!(name("a.x.json"), Some("x.json"));
            assert_eq!(name("a.json"), Some("json"));
            assert_eq!(name("x.json"), Some("json"));
        }
    }
}
