//! What the content of a file of a [`RecordStore`](crate::RecordStore) says of addresses, without the files that it is about.

use dwarf::{Reader, SharedBytes};

use crate::packed_texts::PackedTexts;
use crate::saved_names::SavedNames;
use crate::symbol_records::SymbolRecords;

/// How many functions and symbols the bytes know at these addresses. The checksum is not looked at: any bytes are answered, or refused
/// by `None`.
#[must_use]
pub fn saved_answers(bytes: &SharedBytes, addresses: &[u64]) -> Option<usize> {
    let data = (**bytes).as_ref();
    let saved = SavedNames::read_unchecked(data)?;
    let readable = PackedTexts::read(data, saved.readable.clone())?;
    let mut reader = Reader::new();
    if !reader.restore(SharedBytes::clone(bytes), saved.functions.clone()) {
        return None;
    }
    let mut known = 0;
    for address in addresses {
        let mut texts = Vec::new();
        reader.known(&[*address], |frames, _| {
            texts.extend(frames.iter().flat_map(|frame| [frame.name, frame.file]).flatten());
            known += frames.len();
        });
        for text in texts {
            let readable = readable.get(data, text.number()).map_or(0, str::len);
            debug_assert!(reader.text(text).len() <= data.len() && readable <= data.len());
        }
    }
    let again: SharedBytes = std::sync::Arc::new(reader.save()?);
    let length = (*again).as_ref().len();
    debug_assert!(Reader::new().restore(again, 0..length), "what is saved can be read");
    for part in [saved.debug_symbols, saved.mapped_symbols] {
        let mut symbols = SymbolRecords::default();
        if !symbols.restore(SharedBytes::clone(bytes), part) {
            return None;
        }
        known += addresses.iter().filter(|address| matches!(symbols.find(**address), Some(Some(_)))).count();
        let _ = symbols.save();
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use profile::Svma;

    use super::*;
    use crate::{ObjectFile, ObjectSource, Options, RecordStore, Symbolizer};

    /// What is kept of this program, and addresses that were asked for.
    fn kept() -> (Vec<u8>, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names");
        let records = Some(Arc::new(RecordStore::open(&path, RecordStore::CAP_BYTES).unwrap()));
        let mut symbolizer = Symbolizer::new(Options { records, ..Options::default() });
        let program = std::fs::read("/proc/self/exe").unwrap();
        let entry = u64::from_le_bytes(*program[24..].first_chunk().unwrap());
        let addresses: Vec<u64> = (0..40).map(|number| entry + 512 * number).collect();
        let copy = folder.path().join("program");
        std::fs::write(&copy, program).unwrap();
        testkit::until("the times of the program are in the past", || {
            crate::stamp::Stamp::of(&std::fs::File::open(&copy).unwrap())
                .is_some_and(|stamp| stamp.is_settled())
        });
        let source = ObjectSource::Path(copy);
        let file = ObjectFile { source, display_path: "/program".into(), root: None, build_id: None };
        let svmas: Vec<Svma> = addresses.iter().copied().map(Svma).collect();
        assert!(symbolizer.object(&file, &svmas).iter().filter(|lines| !lines.is_empty()).count() > 20);
        symbolizer.save_records();
        let kept = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
        (std::fs::read(kept).unwrap(), addresses)
    }

    #[test]
    fn what_is_kept_answers_and_damaged_bytes_do_no_harm() {
        let (bytes, addresses) = kept();
        let ask = |bytes: Vec<u8>| {
            let bytes: SharedBytes = Arc::new(bytes);
            saved_answers(&bytes, &addresses)
        };
        assert!(ask(bytes.clone()).unwrap() > 20);
        for at in (0..bytes.len()).step_by(bytes.len() / 500 + 1) {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = ask(damaged);
            }
        }
    }
}
