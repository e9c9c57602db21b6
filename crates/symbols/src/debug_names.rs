//! The texts of debug information as answers need them: each name is made readable once, here or in an earlier run.

use dwarf::{Frame, Reader, SharedBytes, TextId};

use crate::demangle::{demangle_into, is_mangled};
use crate::packed_texts::PackedTexts;
use crate::shared_text::SharedText;
use crate::source_line::{MAX_TEXT, SourceLine, shortened};

/// The texts of one reader.
#[derive(Default)]
pub(crate) struct DebugNames {
    /// By number of the text in the reader.
    texts: Vec<Text>,
    /// Readable names of an earlier run, by number of the text.
    saved: Option<(SharedBytes, PackedTexts)>,
    /// The generation of the reader whose texts these are.
    generation: u64,
    /// Memory for a name that is being made readable.
    room: String,
}

/// A name or a path, as far as it was needed.
#[derive(Clone, Default)]
struct Text {
    own: Option<SharedText>,
    /// As in the source.
    readable: Option<SharedText>,
}

impl DebugNames {
    /// Uses readable names of an earlier run.
    pub fn restore(reader: &Reader, bytes: &SharedBytes, texts: PackedTexts) -> Self {
        let saved = Some((SharedBytes::clone(bytes), texts));
        Self { saved, generation: reader.generation(), ..Self::default() }
    }

    /// The readable names by number of the text, for [`Self::restore`]. `None` if they are too long.
    pub fn save(&self, reader: &Reader) -> Option<Vec<u8>> {
        let texts = (0..reader.texts()).map(|number| {
            let readable = self.texts.get(number).and_then(|text| text.readable.as_deref());
            readable.or_else(|| self.saved(number)).unwrap_or_default()
        });
        let mut out = Vec::new();
        PackedTexts::write(texts, &mut out)?;
        Some(out)
    }

    /// To be called when the reader has read something: the numbers of its texts may be others.
    pub fn follow(&mut self, reader: &Reader) {
        if self.generation != reader.generation() {
            *self = Self { generation: reader.generation(), ..Self::default() };
        }
    }

    /// The functions at an address, innermost first. `left`: bytes that texts may still have; without any, only the outermost function is told.
    pub fn lines(&mut self, reader: &Reader, frames: &[Frame], left: &mut usize) -> Vec<SourceLine> {
        let Some((outermost, inlined)) = frames.split_last() else { return Vec::new() };
        let inlined = if *left > 0 { inlined } else { &[] };
        let mut lines = Vec::with_capacity(inlined.len() + 1);
        for frame in inlined.iter().chain([outermost]) {
            let line = self.line(reader, frame);
            let bytes = line.name.len() + line.system_name.len() + line.file.len();
            *left = left.saturating_sub(bytes);
            lines.push(line);
        }
        lines
    }

    fn line(&mut self, reader: &Reader, frame: &Frame) -> SourceLine {
        let (name, system_name) = frame.name.map(|name| self.names(reader, name)).unwrap_or_default();
        SourceLine {
            name,
            system_name,
            file: frame.file.map(|file| self.text(reader, file)).unwrap_or_default(),
            line: frame.line,
            column: frame.column,
            start_line: frame.start_line,
        }
    }

    /// A text as it is in the file.
    fn text(&mut self, reader: &Reader, id: TextId) -> SharedText {
        let number = id.number();
        if let Some(Text { own: Some(known), .. }) = self.texts.get(number) {
            return known.clone();
        }
        let text = reader.shared_text(id);
        let own: SharedText = if text.len() > MAX_TEXT { (&*shortened(&text)).into() } else { text.into() };
        if self.texts.len() <= number && number < reader.texts() {
            self.texts.resize(reader.texts(), Text::default());
        }
        if let Some(place) = self.texts.get_mut(number) {
            place.own = Some(own.clone());
        }
        own
    }

    /// A name as in the source, and as it is in the file.
    fn names(&mut self, reader: &Reader, id: TextId) -> (SharedText, SharedText) {
        if let Some(Text { own: Some(own), readable: Some(readable) }) = self.texts.get(id.number()) {
            return (readable.clone(), own.clone());
        }
        let own = self.text(reader, id);
        let readable = match self.saved(id.number()) {
            Some(saved) => saved.into(),
            None if !is_mangled(&own) => own.clone(),
            // All of it, though only its beginning may be kept.
            None => match demangle_into(reader.text(id), &mut self.room) {
                same if *same == *own => own.clone(),
                readable => readable.into(),
            },
        };
        if let Some(place) = self.texts.get_mut(id.number()) {
            place.readable = Some(readable.clone());
        }
        (readable, own)
    }

    fn saved(&self, number: usize) -> Option<&str> {
        let (bytes, texts) = self.saved.as_ref()?;
        texts.get((**bytes).as_ref(), number).filter(|text| !text.is_empty())
    }

    pub fn heap_bytes(&self) -> usize {
        let readable = self.texts.iter().filter_map(|text| text.readable.as_ref());
        readable.map(|name| name.len()).sum::<usize>() + self.texts.capacity() * size_of::<Text>()
    }
}
