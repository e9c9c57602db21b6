//! Trampolines of CPython (`python3 -X perf`), which show its functions to profilers: memory full of copies of a few
//! instructions. Each copy calls the interpreter for one function.
//!
//! Trampolines keep no frame pointer, and no file says how to unwind them. All their instructions are known, so they get a
//! file in memory that does. They are recognised by those instructions. Only trampolines on x86-64 look like this; on other
//! machines and in later versions they keep frame pointers.

use std::sync::Arc;

use profile::{Avma, FileOffset};

use crate::file::MappedFile;
use crate::identity::FileIdentity;
use crate::region::{Region, RegionKind};

/// CPython allocates trampolines in arenas of this size and fills them from the start.
const ARENA: u64 = 64 << 10;
/// `endbr64`, the mark of jump targets, if CPython is built with it.
const MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `sub $8, %rsp; call *%rcx; add $8, %rsp; ret`
const BODY: [u8; 11] = [0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3];
/// Offsets in the body at which the stack pointer is lowered: the frame begins 16 bytes above it instead of 8.
const LOWERED: std::ops::Range<usize> = 4..10;
/// Bytes that show the layout: two copies and the space between them.
const SAMPLE: usize = 64;
/// Arenas of one mapping: a quarter of a million functions. Each costs a system call and a region, and a process can map as
/// much as it likes. The memory after them is unwound by frame pointers.
const MAX_OF_MAPPING: usize = 64;
/// Arenas of one process.
pub(crate) const MAX_OF_IMAGE: usize = 256;

/// Position and link-time address of the code in the file.
const CODE_AT: u64 = 0x1000;

/// How the copies are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    /// Whether each begins with [`MARK`].
    marked: bool,
    /// Bytes from one copy to the next.
    period: u8,
}

impl Layout {
    fn of(code: &[u8]) -> Option<Self> {
        let marked = code.starts_with(&MARK);
        let head = if marked { MARK.len() } else { 0 };
        if code.get(head..)?.get(..BODY.len())? != BODY {
            return None;
        }
        let copy = &code[..head + BODY.len()];
        // The next copy follows directly, or at the next multiple of 16 or 32.
        let period = [copy.len(), copy.len().next_multiple_of(16), copy.len().next_multiple_of(32)]
            .into_iter()
            .find(|period| code.get(*period..period + copy.len()) == Some(copy))?;
        Some(Self { marked, period: u8::try_from(period).ok()? })
    }

    fn head(self) -> usize {
        if self.marked { MARK.len() } else { 0 }
    }

    fn copies(self) -> usize {
        ARENA as usize / usize::from(self.period)
    }
}

/// The regions of memory without a file: arenas of trampolines at its start, or else at its end, at most `room`, and the rest as it is. The
/// kernel joins an arena with code of others beside it when it becomes executable. `read` gives the bytes at addresses.
pub(crate) fn split(
    start: Avma,
    end: Avma,
    room: usize,
    read: impl Fn(Vec<(u64, usize)>) -> Option<Vec<Vec<u8>>>,
    file: impl Fn(Layout) -> Option<Arc<MappedFile>>,
) -> Vec<Region> {
    let plain = |start, end| Region::new(start, end, FileOffset(0), RegionKind::Anonymous);
    let room = MAX_OF_MAPPING.min(room);
    if !cfg!(target_arch = "x86_64") || end.0.saturating_sub(start.0) < ARENA || room == 0 {
        return vec![plain(start, end)];
    }
    let samples = |arenas: &[u64]| {
        let parts: Vec<(u64, usize)> = arenas.iter().map(|arena| (*arena, SAMPLE)).collect();
        if parts.is_empty() { Vec::new() } else { read(parts).unwrap_or_default() }
    };
    let arena = |start: u64, sample: &[u8]| {
        let kind = RegionKind::Trampolines(Layout::of(sample).and_then(&file)?);
        Some(Region::new(Avma(start), Avma(start + ARENA), FileOffset(CODE_AT), kind))
    };
    // Most memory has no trampolines: the others are read only beside a first one.
    let (first, last) = (start.0, end.0 - ARENA);
    let [at_start, at_end] = &samples(&[first, last])[..] else { return vec![plain(start, end)] };
    let is_up = arena(first, at_start).is_some();
    if !is_up && arena(last, at_end).is_none() {
        return vec![plain(start, end)];
    }
    let arenas: Vec<u64> = if is_up {
        (first..=last).step_by(ARENA as usize).take(room).collect()
    } else {
        std::iter::successors(Some(last), |arena| arena.checked_sub(ARENA))
            .take_while(|arena| *arena >= first)
            .take(room)
            .collect()
    };
    let samples = samples(&arenas);
    let mut regions: Vec<Region> =
        arenas.iter().zip(&samples).map_while(|(start, sample)| arena(*start, sample)).collect();
    regions.sort_by_key(|region| region.start);
    let (begin, rest) =
        (regions.first().map_or(end, |first| first.start), regions.last().map_or(end, |last| last.end));
    if start < begin {
        regions.insert(0, plain(start, begin));
    }
    if rest < end {
        regions.push(plain(rest, end));
    }
    regions
}

/// The file that says how to unwind an arena: its code and its frame information.
pub(crate) fn file(layout: Layout) -> Option<MappedFile> {
    let bytes = elf(layout);
    let identity = FileIdentity {
        // No real device has this number.
        dev_major: u32::MAX,
        inode: u64::from(layout.period) << 1 | u64::from(layout.marked),
        size: bytes.len() as u64,
        ..FileIdentity::default()
    };
    MappedFile::in_memory(bytes.into(), "[python trampolines]", identity)
}

fn elf(layout: Layout) -> Vec<u8> {
    let mut code = Vec::with_capacity(ARENA as usize);
    for _ in 0..layout.copies() {
        code.extend_from_slice(if layout.marked { &MARK } else { &[] });
        code.extend_from_slice(&BODY);
        code.resize(code.len().next_multiple_of(usize::from(layout.period)), 0);
    }
    code.resize(ARENA as usize, 0);
    let (frames, names) = (frames(layout), b"\0.eh_frame\0.shstrtab\0");
    let frames_at = CODE_AT + ARENA;
    let names_at = frames_at + frames.len() as u64;
    let sections_at = (names_at + names.len() as u64).next_multiple_of(8);

    let mut out = Vec::new();
    out.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    halves(&mut out, &[3, 62]);
    words(&mut out, &[1]);
    longs(&mut out, &[0, 64, sections_at]);
    words(&mut out, &[0]);
    halves(&mut out, &[64, 56, 2, 64, 3, 2]);
    // Readable and executable, then readable only.
    for (flags, at, size) in [(5, CODE_AT, ARENA), (4, frames_at, frames.len() as u64)] {
        words(&mut out, &[1, flags]);
        longs(&mut out, &[at, at, at, size, size, 0x1000]);
    }
    out.resize(CODE_AT as usize, 0);
    out.extend_from_slice(&code);
    out.extend_from_slice(&frames);
    out.extend_from_slice(names);
    out.resize(sections_at as usize, 0);
    out.resize(out.len() + 64, 0);
    let sections =
        [(1, 2, frames_at, frames_at, frames.len() as u64), (11, 0, 0, names_at, names.len() as u64)];
    for (name, flags, address, at, size) in sections {
        let kind = if flags == 0 { 3 } else { 1 };
        words(&mut out, &[name, kind]);
        longs(&mut out, &[flags, address, at, size]);
        words(&mut out, &[0, 0]);
        longs(&mut out, &[8, 0]);
    }
    out
}

/// `.eh_frame`: one common description, and one entry for each copy.
fn frames(layout: Layout) -> Vec<u8> {
    let mut out = Vec::new();
    // Version 1, no augmentation, factors 1 and -8, return address in column 16; the frame begins 8 bytes above the stack
    // pointer (register 7), and the return address is its first word.
    record(&mut out, &[0; 4], &[1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1]);
    for copy in 0..layout.copies() {
        let mut entry = Vec::new();
        let period = usize::from(layout.period);
        longs(&mut entry, &[CODE_AT + (copy * period) as u64, period as u64]);
        // The frame begins 8 bytes above the stack pointer; advance; 16 bytes; advance; 8 bytes again. An entry that begins with its frame is that of
        // a part of a function, so tables have no row for the byte before it: no stack begins at a trampoline, and a page has no room for so many.
        let (lowered, raised) = ((layout.head() + LOWERED.start) as u8, LOWERED.len() as u8);
        entry.extend_from_slice(&[0x0e, 8, 0x40 | lowered, 0x0e, 16, 0x40 | raised, 0x0e, 8]);
        let to_description = (out.len() + 4) as u32;
        record(&mut out, &to_description.to_le_bytes(), &entry);
    }
    words(&mut out, &[0]);
    out
}

fn record(out: &mut Vec<u8>, id: &[u8; 4], content: &[u8]) {
    let size = (id.len() + content.len()).next_multiple_of(8) + 4;
    words(out, &[size as u32]);
    let begin = out.len();
    out.extend_from_slice(id);
    out.extend_from_slice(content);
    // Padding with instructions that do nothing.
    out.resize(begin + size, 0);
}

fn halves(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn words(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn longs(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_told_apart() {
        let of = |marked: bool, gap: usize| {
            let copy = [if marked { &MARK[..] } else { &[] }, &BODY, &vec![0; gap]].concat();
            Layout::of(&copy.repeat(3))
        };
        assert_eq!(of(false, 0), Some(Layout { marked: false, period: 11 }));
        assert_eq!(of(false, 5), Some(Layout { marked: false, period: 16 }));
        assert_eq!(of(true, 0), Some(Layout { marked: true, period: 15 }));
        assert_eq!(of(true, 1), Some(Layout { marked: true, period: 16 }));
        assert_eq!(of(false, 2), None);
        assert_eq!((Layout::of(&BODY), Layout::of(&[]), Layout::of(&[0x90; 64])), (None, None, None));
    }

    #[test]
    fn other_memory_stays_what_it_is() {
        let files = crate::Files::with_budget(0);
        let read = |parts| files.read_memory(std::process::id(), parts);
        let split = |start, end| split(Avma(start), Avma(end), MAX_OF_IMAGE, read, |_| None);
        for (start, end) in [(0, 0), (0x1000, 0x11000), (0, u64::MAX), (0, !0xffff)] {
            let regions = split(start, end);
            assert!(regions.len() == 1 && matches!(regions[0].kind(), RegionKind::Anonymous), "{regions:?}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_number_of_arenas_is_limited() {
        let files = crate::Files::with_budget(0);
        let arenas = MAX_OF_MAPPING + 3;
        let mut memory = vec![0_u8; (arenas + 1) * ARENA as usize];
        let skipped = memory.as_ptr().align_offset(ARENA as usize);
        for arena in memory[skipped..].chunks_mut(ARENA as usize).take(arenas) {
            arena[..4 * BODY.len()].copy_from_slice(&BODY.repeat(4));
        }
        let split = |memory: &[u8], room| {
            let start = memory[skipped..].as_ptr().addr() as u64;
            let end = start + arenas as u64 * ARENA;
            let read = |parts| files.read_memory(std::process::id(), parts);
            let regions = split(Avma(start), Avma(end), room, read, |layout| files.trampolines(layout));
            assert_eq!((regions[0].start.0, regions[regions.len() - 1].end.0), (start, end));
            assert!(regions.iter().zip(&regions[1..]).all(|(one, next)| one.end == next.start));
            let found = regions.iter().filter(|region| matches!(region.kind(), RegionKind::Trampolines(_)));
            (found.count(), regions.len())
        };
        assert_eq!(split(&memory, MAX_OF_IMAGE), (MAX_OF_MAPPING, MAX_OF_MAPPING + 1));
        assert_eq!(split(&memory, 2), (2, 3));
        assert_eq!(split(&memory, 0), (0, 1));
        memory[skipped + 3 * ARENA as usize] = 0x90;
        assert_eq!(split(&memory, MAX_OF_IMAGE), (3, 4), "the memory after other code is not searched");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn arenas_are_found_above_and_below_other_code() {
        const PAGE: usize = 4096;
        let files = crate::Files::with_budget(0);
        let size = 2 * ARENA as usize;
        for (below, above) in [(0, 3 * PAGE), (PAGE, 0), (0, 0), (PAGE, PAGE), (2 * ARENA as usize, 0)] {
            let mut memory = vec![0_u8; below + size + above];
            for arena in memory[below..below + size].chunks_mut(ARENA as usize) {
                arena[..4 * BODY.len()].copy_from_slice(&BODY.repeat(4));
            }
            let start = memory.as_ptr().addr() as u64;
            let end = start + memory.len() as u64;
            let read = |parts| files.read_memory(std::process::id(), parts);
            let regions =
                split(Avma(start), Avma(end), MAX_OF_IMAGE, read, |layout| files.trampolines(layout));
            assert_eq!((regions[0].start.0, regions[regions.len() - 1].end.0), (start, end));
            assert!(regions.iter().zip(&regions[1..]).all(|(one, next)| one.end == next.start));
            let found: Vec<u64> = regions
                .iter()
                .filter(|region| matches!(region.kind(), RegionKind::Trampolines(_)))
                .map(|region| region.start.0 - start)
                .collect();
            let at = below as u64;
            // Between other code on both sides they are not searched for.
            let expected = if below > 0 && above > 0 { vec![] } else { vec![at, at + ARENA] };
            assert_eq!(found, expected, "{below} {above}");
        }
    }

    #[test]
    fn other_readers_understand_the_file() {
        use object::{Object as _, ObjectSection as _};
        let layout = Layout { marked: false, period: 11 };
        let mapped = file(layout).unwrap();
        assert_eq!(mapped.svma_of(FileOffset(CODE_AT + 5)).unwrap().0, CODE_AT + 5);
        assert_ne!(mapped.key(), file(Layout { marked: true, period: 15 }).unwrap().key());
        let bytes = mapped.bytes().unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let section = elf.section_by_name(".eh_frame").unwrap();
        assert_eq!(section.data().unwrap(), frames(layout));
    }
}
