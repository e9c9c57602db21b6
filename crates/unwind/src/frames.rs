//! Translates frame sections into a layer of rows.

use std::cmp::Reverse;
use std::ops::Range;

use crate::cfi::pointer::Bases;
use crate::cfi::program::Program;
use crate::cfi::program::Step;
use crate::cfi::section::Cie;
use crate::cfi::section::Fde;
use crate::cfi::section::Format;
use crate::cfi::section::FrameSection;
use crate::epilogue;
use crate::epilogue::Epilogue;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::machine::Machine;
use crate::reader::Reader;
use crate::start_frames::StartRows;
use crate::table::Stats;

/// Records of this number of functions take up to 64 KiB.
const FUNCTIONS_PER_PLACE: usize = 512;

/// Rows of `.eh_frame`, found by section header, or by program header if there is no such section.
pub(crate) fn eh_frame(image: &Image<'_>, rules: &mut RuleSet, stats: &mut Stats) -> Layer {
    let mut layer = Layer::default();
    in_eh_frame(image, |section| {
        (layer, stats.eh_frame_functions) = compile(image, section, rules, stats);
        !layer.spans.is_empty()
    });
    layer
}

/// Calls `take` with each description of a function in `.eh_frame`, by address, with the end of the code that it covers before the next
/// one.
pub(crate) fn each_eh_frame(image: &Image<'_>, mut take: impl FnMut(&Fde<'_>, u64, &Cie<'_>)) {
    in_eh_frame(image, |section| {
        let mut found = false;
        each(image, section, &mut Stats::default(), |fde, end, cie, _| {
            found = true;
            take(fde, end, cie);
        });
        found
    });
}

/// Calls `read` with `.eh_frame` by its section header, and if that finds nothing, by the program header.
fn in_eh_frame(image: &Image<'_>, mut read: impl FnMut(&FrameSection<'_>) -> bool) {
    let text = image.section(b".text").map(|section| section.address);
    let header =
        image.section(b".eh_frame_hdr").map(|section| section.address).or_else(|| image.eh_frame_hdr());
    let (machine, format) = (image.machine, Format::EhFrame);
    let by_section = image.section(b".eh_frame").and_then(|section| {
        let data = image.section_bytes(section)?;
        Some((data, section.address))
    });
    if let Some((data, address)) = by_section {
        let bases = Bases { section: address, data: header, text };
        if read(&FrameSection { data: &data, machine, format, bases, stop_at_terminator: false }) {
            return;
        }
    }
    if let Some((data, address)) = by_program_header(image) {
        let bases = Bases { section: address, data: image.eh_frame_hdr(), text };
        read(&FrameSection { data, machine, format, bases, stop_at_terminator: true });
    }
}

/// Rows of `.debug_frame`.
pub(crate) fn debug_frame(image: &Image<'_>, rules: &mut RuleSet, stats: &mut Stats) -> Layer {
    let compiled = in_debug_frame(image, |section| compile(image, section, rules, stats));
    let (layer, functions) = compiled.unwrap_or_default();
    stats.debug_frame_functions = functions;
    layer
}

/// Ranges of code that descriptions in `.debug_frame` cover, sorted and disjoint. The code itself may be in another file.
pub(crate) fn described_in_debug_frame(image: &Image<'_>) -> Vec<Range<u64>> {
    let described = in_debug_frame(image, |section| {
        image.touch_all(section.data.len() as u64);
        let fdes = section.records().fdes.into_iter();
        fdes.map(|fde| fde.start..fde.end).filter(|code| !code.is_empty()).collect::<Vec<_>>()
    });
    let mut described = described.unwrap_or_default();
    // The longest range at an address is kept.
    described.sort_by_key(|code| (code.start, Reverse(code.end)));
    described.dedup_by_key(|code| code.start);
    for index in 1..described.len() {
        let next = described[index].start;
        let before = &mut described[index - 1];
        before.end = before.end.min(next);
    }
    described
}

/// Calls `read` with `.debug_frame`, which may be compressed.
fn in_debug_frame<T>(image: &Image<'_>, read: impl FnOnce(&FrameSection<'_>) -> T) -> Option<T> {
    let section = image.section(b".debug_frame").or_else(|| image.section(b".zdebug_frame"))?;
    let data = image.section_bytes(section)?;
    let bases = Bases::default();
    let (machine, format) = (image.machine, Format::DebugFrame);
    Some(read(&FrameSection { data: &data, machine, format, bases, stop_at_terminator: false }))
}

/// `.eh_frame`, found by `.eh_frame_hdr`. Its length is unknown; it ends with its terminator or its segment.
fn by_program_header<'a>(image: &Image<'a>) -> Option<(&'a [u8], u64)> {
    let address = address_by_program_header(image)?;
    Some((image.bytes_at(address)?, address))
}

/// The link-time address of `.eh_frame`, from `.eh_frame_hdr`.
pub(crate) fn address_by_program_header(image: &Image<'_>) -> Option<u64> {
    let header = image.eh_frame_hdr()?;
    let mut r = Reader::at(image.bytes_at(header)?, 0);
    let (version, pointer_encoding, _count_encoding, _table_encoding) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
    if version != 1 {
        return None;
    }
    let bases = Bases { section: header, data: Some(header), text: None };
    crate::cfi::pointer::address(&mut r, pointer_encoding, &bases)
}

fn compile(
    image: &Image<'_>,
    section: &FrameSection<'_>,
    rules: &mut RuleSet,
    stats: &mut Stats,
) -> (Layer, u32) {
    let mut layer = Layer::default();
    let mut functions = 0;
    let mut starts = StartRows::new(image);
    each(image, section, stats, |fde, end, cie, stats| {
        if let Some(before) = layer.spans.last()
            && let Some(rule) = starts.before(fde, cie, before.end, || rules.rule(layer.last_rule()))
            && rules.has_space()
        {
            layer.extend(fde.start, rules.intern(rule));
        }
        layer.begin(fde.start);
        if function(image, &mut layer, fde, end, cie, rules).is_some() {
            layer.end(end);
            functions += 1;
        } else {
            layer.abandon();
            stats.bad_fdes = stats.bad_fdes.saturating_add(1);
        }
    });
    (layer, functions)
}

/// Calls `take` with each function by address, and with the end of its code before the next one.
fn each(
    image: &Image<'_>,
    section: &FrameSection<'_>,
    stats: &mut Stats,
    mut take: impl FnMut(&Fde<'_>, u64, &Cie<'_>, &mut Stats),
) {
    let mut records = section.records();
    stats.bad_fdes = stats.bad_fdes.saturating_add(records.bad);
    image.touch_all(section.data.len() as u64);
    let count = records.fdes.len();
    records.fdes.retain(|fde| fde.end > fde.start && image.code_at(fde.start).is_some());
    stats.outside_fdes = stats.outside_fdes.saturating_add((count - records.fdes.len()) as u32);
    // Of several functions with the same start, the longest comes last and is kept.
    records.fdes.sort_by_key(|fde| (fde.start, fde.end));
    for (i, fde) in records.fdes.iter().enumerate() {
        if i % FUNCTIONS_PER_PLACE == 0 {
            image.touch();
        }
        let next = records.fdes.get(i + 1).map_or(u64::MAX, |next| next.start);
        if next < fde.end {
            stats.overlapping_fdes = stats.overlapping_fdes.saturating_add(1);
        }
        if next == fde.start {
            continue;
        }
        let code_end = image.code_at(fde.start).map_or(fde.start, |code| code.end);
        let end = fde.end.min(next).min(code_end);
        take(fde, end, &records.cies[fde.cie as usize], stats);
    }
}

/// Rows of one function. `None`: its instructions are malformed.
fn function(
    image: &Image<'_>,
    layer: &mut Layer,
    fde: &Fde<'_>,
    end: u64,
    cie: &Cie<'_>,
    rules: &mut RuleSet,
) -> Option<()> {
    let mut program = Program::new(&cie.factors, fde.instructions, cie.initial, fde.start);
    let mut epilogue = Epilogue::new(image);
    let mut start = fde.start;
    loop {
        let step = program.next_row()?;
        if start < end {
            let rule = cie.factors.machine.rule(&program.state, cie.signal);
            if cie.factors.machine == Machine::X86_64 && epilogue::may_be_late(&rule) {
                let next = match step {
                    Step::Advance(location) => location.min(end),
                    Step::End => end,
                };
                epilogue.rows(start..next, rule, |address, rule| layer.row(address, rules.intern(rule)));
            } else {
                layer.row(start, rules.intern(rule));
            }
        }
        match step {
            Step::Advance(location) => start = location,
            Step::End => return Some(()),
        }
    }
}
