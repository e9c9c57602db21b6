//! The code of one ELF file of x86-64: extents of functions, slots of the loader, exported functions.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use object::elf::{PF_X, R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE};
use object::elf::{STT_FUNC, STT_GNU_IFUNC};
use object::{
    Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationFlags,
    RelocationTarget, SegmentFlags, SymbolFlags,
};

/// How many symbols that begin before an address are tried: symbols may lie within each other.
const NESTED_SYMBOLS: usize = 16;

/// What the loader writes to a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The address of a function of this name.
    Import(String),
    /// This address of the file.
    Local(u64),
    /// What a function answers.
    Chosen,
}

/// A function that other files may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) address: u64,
    /// The symbol names a function that chooses another one.
    pub(super) chooses: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// Executable segments: addresses, and the place of their bytes in the file.
    segments: Vec<(Range<u64>, usize)>,
    /// The build-id, if the file has one.
    pub(super) build_id: Option<Vec<u8>>,
    bytes: Vec<u8>,
    /// Extents by unwind information, in order.
    described: Vec<Range<u64>>,
    /// Extents by symbols, in order.
    named: Vec<Range<u64>>,
    /// Sections of stubs through which imported functions are called.
    stubs: Vec<Range<u64>>,
    /// Signal trampolines by unwind information.
    trampolines: Vec<Range<u64>>,
    pub(super) slots: HashMap<u64, Slot>,
    pub(super) exports: HashMap<String, Vec<Export>>,
}

impl Code {
    /// Reads a file; nothing if it is no ELF file of x86-64.
    pub(super) fn read(bytes: Vec<u8>) -> Option<Self> {
        let mut code = Self::default();
        {
            let elf = object::File::parse(&*bytes).ok()?;
            if elf.architecture() != Architecture::X86_64 {
                return None;
            }
            for segment in elf.segments() {
                let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { continue };
                let (at, size) = segment.file_range();
                if p_flags.0 & PF_X.0 != 0 {
                    let start = segment.address();
                    code.segments.push((start..start.saturating_add(size), usize::try_from(at).ok()?));
                }
            }
            code.build_id = elf.build_id().ok().flatten().map(<[u8]>::to_vec);
            code.read_sections(&elf);
            code.read_symbols(&elf);
            code.read_slots(&elf);
        }
        code.bytes = bytes;
        Some(code)
    }

    fn read_sections(&mut self, elf: &object::File<'_>) {
        for section in elf.sections() {
            let name = section.name().unwrap_or_default();
            if name.starts_with(".plt") || name.starts_with(".iplt") {
                self.stubs.push(section.address()..section.address() + section.size());
            }
        }
        let Some(section) = elf.section_by_name(".eh_frame") else { return };
        let Ok(data) = section.uncompressed_data() else { return };
        let eh_frame = EhFrame::new(&data, NativeEndian);
        let text = elf.section_by_name(".text").map_or(0, |text| text.address());
        let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
        let mut entries = eh_frame.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            let (start, len) = (fde.initial_address(), fde.len());
            let range = start..start.saturating_add(len);
            if self.is_stub(start) || range.is_empty() || start == 0 {
                continue;
            }
            if fde.is_signal_trampoline() {
                self.trampolines.push(range.clone());
            }
            self.described.push(range);
        }
        self.described.sort_by_key(|range| range.start);
    }

    fn read_symbols(&mut self, elf: &object::File<'_>) {
        let is_function = |symbol: &object::Symbol<'_, '_>| {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return None };
            let kind = st_info.st_type();
            // An undefined one with an address is that of a stub, which stands for the function in all files.
            let has_code = !symbol.is_undefined() || symbol.address() != 0;
            let is_function = (kind == STT_FUNC || kind == STT_GNU_IFUNC) && has_code;
            is_function.then_some(kind == STT_GNU_IFUNC)
        };
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            if is_function(&symbol).is_some() && symbol.size() > 0 {
                self.named.push(symbol.address()..symbol.address().saturating_add(symbol.size()));
            }
        }
        self.named.sort_by_key(|range| (range.start, range.end));
        self.named.dedup();
        for symbol in elf.dynamic_symbols() {
            let (Some(chooses), Ok(name)) = (is_function(&symbol), symbol.name()) else { continue };
            let export = Export { address: symbol.address(), chooses };
            self.exports.entry(name.to_owned()).or_default().push(export);
        }
    }

    /// Only slots that the program itself does not write: the global offset table.
    fn read_slots(&mut self, elf: &object::File<'_>) {
        let tables: Vec<Range<u64>> = elf
            .sections()
            .filter(|section| section.name().is_ok_and(|name| name.starts_with(".got")))
            .map(|section| section.address()..section.address() + section.size())
            .collect();
        let symbols = elf.dynamic_symbol_table();
        let Some(relocations) = elf.dynamic_relocations() else { return };
        for (at, relocation) in relocations {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            if !tables.iter().any(|table| table.contains(&at)) {
                continue;
            }
            let name = || {
                let RelocationTarget::Symbol(index) = relocation.target() else { return None };
                symbols.as_ref()?.symbol_by_index(index).ok()?.name().ok().map(str::to_owned)
            };
            let slot = match r_type {
                R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT => name().map(Slot::Import),
                R_X86_64_RELATIVE => u64::try_from(relocation.addend()).ok().map(Slot::Local),
                R_X86_64_IRELATIVE => Some(Slot::Chosen),
                _ => None,
            };
            if let Some(slot) = slot {
                self.slots.insert(at, slot);
            }
        }
    }

    /// The bytes from an address to the end of its segment.
    pub(super) fn at(&self, address: u64) -> Option<&[u8]> {
        let (range, place) = self.segments.iter().find(|(range, _)| range.contains(&address))?;
        let offset = usize::try_from(address - range.start).ok()?;
        let len = usize::try_from(range.end - range.start).ok()?;
        self.bytes.get(place.checked_add(offset)?..place.checked_add(len)?)
    }

    /// The bytes of a range of code.
    pub(super) fn range(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.at(range.start)?.get(..usize::try_from(range.end.checked_sub(range.start)?).ok()?)
    }

    /// The function around an address: by unwind information, else by a symbol.
    pub(super) fn extent(&self, address: u64) -> Option<Range<u64>> {
        let containing = |ranges: &[Range<u64>], tries| {
            let after = ranges.partition_point(|range| range.start <= address);
            ranges[..after].iter().rev().take(tries).find(|range| range.contains(&address)).cloned()
        };
        containing(&self.described, 1).or_else(|| containing(&self.named, NESTED_SYMBOLS))
    }

    /// Whether an address is in a section of stubs.
    pub(super) fn is_stub(&self, address: u64) -> bool {
        self.stubs.iter().any(|stubs| stubs.contains(&address))
    }

    /// Whether a frame at this address is a signal trampoline: by unwind information, or by its code.
    pub(super) fn is_trampoline(&self, address: u64) -> bool {
        /// `mov $15, %rax; syscall`: the system call rt_sigreturn.
        const RETURNS: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        let last = address.saturating_add(1);
        self.trampolines.iter().any(|range| range.contains(&address) || range.contains(&last))
            || (0..RETURNS.len() as u64 + 1)
                .filter_map(|before| self.at(last.checked_sub(before)?))
                .any(|code| code.starts_with(&RETURNS))
    }
}
