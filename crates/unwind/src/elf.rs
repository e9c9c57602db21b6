//! The few things of an ELF file that unwinding needs, read without trust: segments, sections (optional), bytes.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::Read;
use std::ops::Range;

use crate::Error;
use crate::machine::Machine;
use crate::reader::Reader;

const PT_LOAD: u32 = 1;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_X: u32 = 1;
const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 0x800;
const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;
/// Compressed debug sections claim their own size; more than this is not believed.
const MAX_DECOMPRESSED: u64 = 256 << 20;
/// Bytes of symbols and relocations that are read.
const MAX_TABLES: usize = 256 << 20;
/// Program headers; linkers make about ten.
const MAX_SEGMENTS: u16 = 256;
/// Deflate cannot do better than about 1:1032, zstd in practice neither on frame data.
const MAX_RATIO: u64 = 1100;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub vaddr: u64,
    /// Bytes of the segment that are in the file.
    pub len: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    pub name: &'a [u8],
    pub kind: u32,
    pub flags: u64,
    pub addr: u64,
    pub offset: u64,
    pub size: u64,
}

/// A 64-bit little-endian ELF file.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    pub data: &'a [u8],
    pub machine: Machine,
    pub entry: u64,
    pub segments: Vec<Segment>,
    /// Empty when the section headers are missing or make no sense.
    pub sections: Vec<Section<'a>>,
    /// Link-time addresses of code that is in the file; sorted, disjoint.
    pub code: Vec<Range<u64>>,
    touched: Touched<'a>,
}

/// So many places may be touched before memory is given back. The kernel maps up to 64 KiB around each.
const TOUCHED_AT_ONCE: u32 = 64;

/// Counts how much of a mapped file may be in memory.
struct Touched<'a> {
    places: Cell<u32>,
    release: &'a dyn Fn(),
}

impl std::fmt::Debug for Touched<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Touched").field(&self.places).finish()
    }
}

impl<'a> Image<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Result<Self, Error> {
        if data.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err(Error::NotElf);
        }
        let mut r = Reader::at(data, 16);
        let header = (|| {
            let (_kind, machine, _version) = (r.u16()?, r.u16()?, r.u32()?);
            let (entry, phoff, shoff) = (r.u64()?, r.u64()?, r.u64()?);
            let (_flags, _ehsize) = (r.u32()?, r.u16()?);
            Some((machine, entry, phoff, shoff, [r.u16()?, r.u16()?, r.u16()?, r.u16()?, r.u16()?]))
        })();
        let (machine, entry, phoff, shoff, [phentsize, phnum, shentsize, shnum, shstrndx]) =
            header.ok_or(Error::NotElf)?;
        let machine = Machine::of(machine).ok_or(Error::Machine(machine))?;
        let segments = segments(data, phoff, phentsize, phnum);
        let code = code_ranges(&segments);
        if code.is_empty() {
            return Err(Error::NoExecutableSegment);
        }
        let sections = sections(data, shoff, shentsize, shnum, shstrndx).unwrap_or_default();
        let touched = Touched { places: Cell::new(0), release: &|| {} };
        Ok(Self { data, machine, entry, segments, sections, code, touched })
    }

    /// Calls `release` each time that much of the file may have come into memory.
    pub(crate) fn releasing(mut self, release: &'a dyn Fn()) -> Self {
        self.touched.release = release;
        self
    }

    /// Another place of the file is read.
    pub(crate) fn touch(&self) {
        let places = self.touched.places.get() + 1;
        if places < TOUCHED_AT_ONCE {
            self.touched.places.set(places);
        } else {
            self.touched.places.set(0);
            (self.touched.release)();
        }
    }

    /// Another so many bytes of the file are read.
    pub(crate) fn touch_all(&self, bytes: u64) {
        (0..=(bytes >> 16).min(TOUCHED_AT_ONCE.into())).for_each(|_| self.touch());
    }

    pub(crate) fn section(&self, name: &[u8]) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The bytes of a section, decompressed where needed; `None` if they are not (all) in the file.
    pub(crate) fn section_bytes(&self, section: &Section<'a>) -> Option<Cow<'a, [u8]>> {
        if section.kind == SHT_NOBITS {
            return None;
        }
        let start = usize::try_from(section.offset).ok()?;
        let raw = self.data.get(start..start.checked_add(usize::try_from(section.size).ok()?)?)?;
        if section.flags & SHF_COMPRESSED != 0 {
            let mut r = Reader::at(raw, 0);
            let (kind, _, size, _) = (r.u32()?, r.u32()?, r.u64()?, r.u64()?);
            decompress(kind, &raw[r.pos()..], size).map(Cow::Owned)
        } else if section.name.starts_with(b".zdebug_") {
            let (magic, rest) = raw.split_at_checked(12)?;
            let size = u64::from_be_bytes(*magic[4..].first_chunk()?);
            if magic[..4] != *b"ZLIB" {
                return None;
            }
            decompress(ELFCOMPRESS_ZLIB, rest, size).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(raw))
        }
    }

    /// Sections of these kinds that are in the file as they are, in all no larger than the file, as those that do not overlap.
    pub(crate) fn tables(&self, kinds: &[u32]) -> impl Iterator<Item = (u32, &'a [u8])> {
        let mut left = MAX_TABLES.min(self.data.len());
        self.sections.iter().filter(|section| kinds.contains(&section.kind)).filter_map(move |section| {
            let data = self.data.get(self.file_range_of(section)?)?;
            left = left.checked_sub(data.len())?;
            Some((section.kind, data))
        })
    }

    /// The bytes of the file from a link-time address to the end of its segment.
    pub(crate) fn bytes_at(&self, svma: u64) -> Option<&'a [u8]> {
        self.touch();
        self.data.get(self.file_range_at(svma)?)
    }

    /// Where in the file the bytes of [`Self::bytes_at`] are.
    pub(crate) fn file_range_at(&self, svma: u64) -> Option<Range<usize>> {
        let load = |s: &&Segment| s.kind == PT_LOAD && svma >= s.vaddr && svma - s.vaddr < s.len;
        let segment = self.segments.iter().find(load)?;
        let start = segment.offset + (svma - segment.vaddr);
        Some(usize::try_from(start).ok()?..usize::try_from(segment.offset + segment.len).ok()?)
    }

    /// Where in the file an uncompressed section is, if all of it is there.
    pub(crate) fn file_range_of(&self, section: &Section<'_>) -> Option<Range<usize>> {
        if section.kind == SHT_NOBITS || section.flags & SHF_COMPRESSED != 0 {
            return None;
        }
        let start = usize::try_from(section.offset).ok()?;
        let end = start.checked_add(usize::try_from(section.size).ok()?)?;
        (end <= self.data.len()).then_some(start..end)
    }

    /// The range of code that holds an address.
    pub(crate) fn code_at(&self, svma: u64) -> Option<&Range<u64>> {
        let after = self.code.partition_point(|range| range.start <= svma);
        self.code.get(after.checked_sub(1)?).filter(|range| svma < range.end)
    }

    /// Link-time address of `.eh_frame_hdr` by program header, which stripping never removes.
    pub(crate) fn eh_frame_hdr(&self) -> Option<u64> {
        self.segments.iter().find(|s| s.kind == PT_GNU_EH_FRAME).map(|s| s.vaddr)
    }

    pub(crate) fn load_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|s| s.kind == PT_LOAD)
    }
}

/// Program headers whose bytes start inside of the file, clipped to it.
fn segments(data: &[u8], phoff: u64, phentsize: u16, phnum: u16) -> Vec<Segment> {
    let file_len = data.len() as u64;
    let mut segments = Vec::new();
    for i in 0..u64::from(phnum.min(MAX_SEGMENTS)) {
        let Some(at) = phoff.checked_add(i * u64::from(phentsize)).filter(|&at| at < file_len) else { break };
        let mut r = Reader::at(data, at as usize);
        let fields = (|| Some((r.u32()?, r.u32()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?)))();
        let Some((kind, flags, offset, vaddr, _paddr, filesz)) = fields else { break };
        let len = filesz.min(file_len.saturating_sub(offset)).min(u64::MAX - vaddr);
        if len > 0 {
            segments.push(Segment { kind, flags, offset, vaddr, len });
        }
    }
    segments
}

fn code_ranges(segments: &[Segment]) -> Vec<Range<u64>> {
    let executable = |s: &&Segment| s.kind == PT_LOAD && s.flags & PF_X != 0;
    let mut ranges: Vec<_> = segments.iter().filter(executable).map(|s| s.vaddr..s.vaddr + s.len).collect();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn sections<'a>(
    data: &'a [u8],
    shoff: u64,
    shentsize: u16,
    shnum: u16,
    shstrndx: u16,
) -> Option<Vec<Section<'a>>> {
    if shoff == 0 || shentsize < 64 {
        return None;
    }
    let mut raw = Vec::new();
    for i in 0..u64::from(shnum) {
        let at = shoff.checked_add(i * u64::from(shentsize))?;
        let mut r = Reader::at(data, usize::try_from(at).ok()?);
        let (name, kind, flags, addr, offset, size) =
            (r.u32()?, r.u32()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        raw.push((name, Section { name: b"", kind, flags, addr, offset, size }));
    }
    let strings = raw.get(usize::from(shstrndx))?.1;
    let start = usize::try_from(strings.offset).ok()?;
    let strings = data.get(start..start.checked_add(usize::try_from(strings.size).ok()?)?)?;
    let named = raw.into_iter().map(|(name, section)| Section {
        name: Reader::at(strings, name as usize).c_str().unwrap_or_default(),
        ..section
    });
    Some(named.collect())
}

fn decompress(kind: u32, raw: &[u8], size: u64) -> Option<Vec<u8>> {
    if size > MAX_DECOMPRESSED || size > (raw.len() as u64).saturating_mul(MAX_RATIO) {
        return None;
    }
    let mut out = Vec::with_capacity(usize::try_from(size).ok()?);
    match kind {
        ELFCOMPRESS_ZLIB => flate2::read::ZlibDecoder::new(raw).take(size).read_to_end(&mut out).ok()?,
        ELFCOMPRESS_ZSTD => {
            ruzstd::decoding::StreamingDecoder::new(raw).ok()?.take(size).read_to_end(&mut out).ok()?
        }
        _ => return None,
    };
    (out.len() as u64 == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_the_same_bytes_are_read_once() {
        let data = [0; 1000];
        let section = Section { name: b"", kind: 4, flags: 0, addr: 0, offset: 100, size: 600 };
        let touched = Touched { places: Cell::new(0), release: &|| {} };
        let sections = vec![section; 60_000];
        let image = Image {
            data: &data,
            machine: Machine::X86_64,
            entry: 0,
            segments: Vec::new(),
            sections,
            code: Vec::new(),
            touched,
        };
        assert_eq!(image.tables(&[4]).count(), 1);
        assert_eq!(image.tables(&[2]).count(), 0);
    }
}
