//! Sections: what the section table says of them, and their bytes, decompressed where needed.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{
    self, CompressionHeader64, CompressionType, ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SectionFlags, SectionType,
};
use object::pod;

/// One entry of the section table.
#[derive(Clone, Debug)]
pub struct Section {
    /// The name; empty if it is unreadable or longer than any that is looked for.
    pub name: Box<[u8]>,
    /// `sh_type`
    pub kind: SectionType,
    /// `sh_flags`
    pub flags: SectionFlags,
    /// Link-time address; 0 if it is not loaded.
    pub address: u64,
    /// Position in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Index of another section, whose meaning depends on the type.
    pub link: u32,
    /// Alignment.
    pub align: u64,
    /// Size of one entry, for sections that are tables.
    pub entry_size: u64,
}

impl Section {
    /// Whether it is in memory at run time.
    #[must_use]
    #[inline]
    pub fn is_loaded(&self) -> bool {
        self.flags.0 & elf::SHF_ALLOC.0 != 0
    }

    /// Whether it is code.
    #[must_use]
    #[inline]
    pub fn is_code(&self) -> bool {
        self.is_loaded() && self.flags.0 & elf::SHF_EXECINSTR.0 != 0
    }

    /// Whether its bytes in the file are compressed (`SHF_COMPRESSED`).
    #[must_use]
    #[inline]
    pub fn is_compressed(&self) -> bool {
        self.flags.0 & elf::SHF_COMPRESSED.0 != 0
    }

    /// Whether it has bytes in the file at all.
    #[must_use]
    #[inline]
    pub fn is_in_file(&self) -> bool {
        self.kind != elf::SHT_NOBITS
    }

    /// The link-time addresses.
    #[must_use]
    #[inline]
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }

    /// Where its bytes are in a file of this length. `None` if they are not all there.
    #[must_use]
    #[inline]
    pub fn file_range(&self, file_len: usize) -> Option<Range<usize>> {
        if !self.is_in_file() {
            return None;
        }
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.size).ok()?)?;
        (end <= file_len).then_some(start..end)
    }

    /// Its bytes as they are in the file. `None` if they are not all there.
    #[must_use]
    #[inline]
    pub fn bytes<'f>(&self, file: &'f [u8]) -> Option<&'f [u8]> {
        file.get(self.file_range(file.len())?)
    }

    /// Its bytes, decompressed where needed (`SHF_COMPRESSED`, and sections with the older name `.zdebug_…`). `None` if
    /// they are damaged, not all in the file, or longer than `limit` when decompressed.
    #[must_use]
    pub fn decompressed<'f>(&self, file: &'f [u8], limit: u64) -> Option<Cow<'f, [u8]>> {
        let raw = self.bytes(file)?;
        if self.is_compressed() {
            let (header, packed) = pod::from_bytes::<CompressionHeader64<LE>>(raw).ok()?;
            decompress(header.ch_type.get(LE), packed, header.ch_size.get(LE), limit).map(Cow::Owned)
        } else if self.name.starts_with(b".zdebug_") {
            let (header, packed) = raw.split_at_checked(12)?;
            let size = u64::from_be_bytes(*header.strip_prefix(b"ZLIB")?.first_chunk()?);
            decompress(ELFCOMPRESS_ZLIB, packed, size, limit).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(raw))
        }
    }
}

/// The content, which must have exactly the size that it claims.
fn decompress(kind: CompressionType, packed: &[u8], size: u64, limit: u64) -> Option<Vec<u8>> {
    if size > limit {
        return None;
    }
    let mut out = Vec::new();
    match kind {
        ELFCOMPRESS_ZLIB => {
            flate2::read::ZlibDecoder::new(packed).take(size + 1).read_to_end(&mut out).ok()?
        }
        ELFCOMPRESS_ZSTD => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
            decoder.take(size + 1).read_to_end(&mut out).ok()?
        }
        _ => return None,
    };
    (out.len() as u64 == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn section(name: &str, flags: u64, size: usize) -> Section {
        Section {
            name: name.as_bytes().into(),
            kind: elf::SHT_PROGBITS,
            flags: SectionFlags(flags),
            address: 0,
            offset: 3,
            size: size as u64,
            link: 0,
            align: 1,
            entry_size: 0,
        }
    }

    fn zlib(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn both_forms_of_compression_are_read() {
        let content = b"content ".repeat(100);
        let header = |size: u64| [&1u64.to_le_bytes()[..], &size.to_le_bytes(), &1u64.to_le_bytes()].concat();
        for (name, flags, claimed, fits) in [
            (".debug_info", elf::SHF_COMPRESSED.0, 800u64, true),
            (".debug_info", elf::SHF_COMPRESSED.0, 799, false),
            (".debug_info", elf::SHF_COMPRESSED.0, 801, false),
            (".zdebug_info", 0, 800, true),
            (".zdebug_info", 0, 801, false),
        ] {
            let old = [&b"ZLIB"[..], &claimed.to_be_bytes()].concat();
            let head = if flags == 0 { old } else { header(claimed) };
            let file = [&b"xyz"[..], &head, &zlib(&content)].concat();
            let section = section(name, flags, file.len() - 3);
            let wanted = fits.then_some(&content[..]);
            assert_eq!(section.decompressed(&file, 1000).as_deref(), wanted, "{name} {claimed}");
            assert_eq!(section.decompressed(&file, 700), None, "beyond the limit");
            assert_eq!(section.decompressed(&file[..file.len() - 1], 1000), None, "not all in the file");
        }
    }

    #[test]
    fn other_sections_are_as_they_are() {
        let file = b"xyzcontent";
        assert_eq!(section("", 0, 7).decompressed(file, 0).as_deref(), Some(&b"content"[..]));
        assert_eq!(section("", 0, 8).bytes(file), None);
        assert_eq!(Section { offset: u64::MAX, ..section("", 0, 7) }.bytes(file), None);
        assert_eq!(Section { kind: elf::SHT_NOBITS, ..section("", 0, 7) }.bytes(file), None);
    }
}
