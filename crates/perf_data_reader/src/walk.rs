//! Walks over the copies of stacks that `--call-graph dwarf` records.

use std::cell::OnceCell;
use std::collections::HashMap;

use unwind::abi::{ENTRY, START};
use unwind::full::{Frame, FullUnwinder};
use unwind::{StepError, Table};

use crate::bytes::u64_at;
use crate::files::{FileTable, Files, Kind};
use crate::processes::{Processes, Region};
use crate::resolve::user_place;
use crate::sample::{Sample, UserStack};
use crate::stacks::{Cut, Place, Within};

/// As in captures.
const MAX_FRAMES: usize = 512;
/// Bytes of the frame sections of one file, and of all.
const MAX_SECTIONS: usize = 48 << 20;
const MAX_ALL_SECTIONS: usize = 256 << 20;
/// Files with frame sections of which a table is compiled too, for code that those do not cover.
const MAX_TABLES: usize = 64;
/// Longer files get no table.
const MAX_FOR_TABLE: usize = 256 << 20;
/// `abi` of 64-bit code.
const ABI_64: u64 = 2;

/// What unwinds the code of one file.
struct Sections {
    full: Option<FullUnwinder<Vec<u8>>>,
    /// Compiled at the first address that the frame sections do not cover.
    table: OnceCell<Option<Table>>,
}

/// Why a frame has no caller.
enum End {
    Root,
    /// The frame itself is none: a return to it was prepared, and it was never called.
    NotCalled,
    Cut(Cut),
}

/// The unwinders of the files so far.
#[derive(Default)]
pub(crate) struct Walker {
    is_foreign: bool,
    files: HashMap<u32, Sections>,
    bytes: usize,
    tables: usize,
    /// Stacks that were not walked: of another machine, of 32-bit code.
    foreign: u64,
}

impl Walker {
    /// `arch`: the machine of the recording, as `uname -m` prints it; empty if it is not known.
    pub(crate) fn new(arch: &str) -> Self {
        let mut walker = Self::default();
        walker.set_machine(arch);
        walker
    }

    /// The same, if it is told later.
    pub(crate) fn set_machine(&mut self, arch: &str) {
        self.is_foreign = !arch.is_empty() && arch != std::env::consts::ARCH;
    }

    pub(crate) fn told(&self) -> Option<String> {
        (self.foreign > 0).then(|| {
            let count = self.foreign;
            format!("{count} stacks are of 32-bit code or of another machine than this: only their innermost function is shown")
        })
    }

    /// Adds the frames of a program's stack to the places.
    pub(crate) fn walk(
        &mut self,
        sample: &Sample<'_>,
        user: &UserStack<'_>,
        processes: &Processes,
        files: &mut FileTable,
        by: &mut dyn Files,
        places: &mut Vec<Place>,
    ) {
        let mut now = Frame::of_sample(sample.mask, user.registers.iter());
        let pid = sample.pid;
        if user.abi != ABI_64 || self.is_foreign {
            self.foreign += 1;
            places.push(user_place(processes, files, pid, now.pc, true));
            places.push(cut(Cut::Rule));
            return;
        }
        let stack = now.sp().unwrap_or(0);
        let memory = |address: u64| {
            let at = usize::try_from(address.checked_sub(stack)?).ok()?;
            u64_at(user.bytes, at)
        };
        for _ in 0..MAX_FRAMES {
            let region = processes.region(pid, now.lookup_address());
            let place = user_place(processes, files, pid, now.pc, now.exact);
            let Some(region) = region else {
                if now.exact {
                    places.push(place);
                }
                return places.push(cut(Cut::NoMapping));
            };
            places.push(place);
            match self.step(&now, region, files, by, &memory) {
                Ok(next) => now = next,
                Err(End::Root) => return,
                Err(End::NotCalled) => {
                    places.pop();
                    return;
                }
                Err(End::Cut(why)) => return places.push(cut(why)),
            }
        }
        places.push(cut(Cut::Limit));
    }

    /// The caller.
    fn step(
        &mut self,
        now: &Frame,
        region: Region,
        files: &mut FileTable,
        by: &mut dyn Files,
        memory: &impl Fn(u64) -> Option<u64>,
    ) -> Result<Frame, End> {
        let end_of = |error| match error {
            StepError::Root => End::Root,
            StepError::NotCalled => End::NotCalled,
            StepError::ZeroFrame => End::Cut(Cut::Zero),
            StepError::Fault(_) => End::Cut(Cut::Fault),
            StepError::NotAbove(_) => End::Cut(Cut::FramePointers),
            StepError::NoRow(_) => End::Cut(Cut::NoRow),
            _ => End::Cut(Cut::Rule),
        };
        if files.get(region.file).is_some_and(|file| file.kind() == Kind::Anonymous) {
            return by_frame_pointer(now, memory, Cut::FramePointers);
        }
        let bias = Self::bias(region, files, by).ok_or(End::Cut(Cut::NoRow))?;
        self.prepare(region.file, files, by);
        let Some(sections) = self.files.get(&region.file) else { return Err(End::Cut(Cut::NoRow)) };
        let mut is_zero = false;
        if let Some(full) = &sections.full {
            match full.step(now, bias, memory) {
                Err(StepError::NoRow(_)) => {}
                // The table says where stacks begin.
                Err(StepError::ZeroFrame) => is_zero = true,
                other => return other.map_err(end_of),
            }
        }
        let tables = &mut self.tables;
        let table = sections.table.get_or_init(|| {
            let content = by.content(files.get(region.file)?)?;
            let bytes = (*content).as_ref();
            *tables += 1;
            (*tables <= MAX_TABLES && bytes.len() <= MAX_FOR_TABLE).then(|| unwind::compile(bytes).ok())?
        });
        match table.as_ref().and_then(|table| table.lookup(now.lookup_address().wrapping_sub(bias))) {
            Some(rule) if is_zero && rule.flags & (START | ENTRY) == ENTRY => Err(End::Root),
            _ if is_zero => Err(End::Cut(Cut::Zero)),
            Some(rule) => now.apply(rule, memory).map_err(end_of),
            None => by_frame_pointer(now, memory, Cut::NoRow),
        }
    }

    /// Run-time address minus link-time address.
    fn bias(region: Region, files: &mut FileTable, by: &mut dyn Files) -> Option<u64> {
        Some(region.start.wrapping_sub(files.svma(region.file, region.offset, by)?))
    }

    fn prepare(&mut self, file: u32, files: &FileTable, by: &mut dyn Files) {
        if self.files.contains_key(&file) {
            return;
        }
        let left = MAX_ALL_SECTIONS.saturating_sub(self.bytes).min(MAX_SECTIONS);
        let content = files.get(file).and_then(|file| by.content(file));
        let full = content.and_then(|content| FullUnwinder::new((*content).as_ref()).ok()?.detached(left));
        self.bytes += full.as_ref().map_or(0, |full| full.bytes().len());
        self.files.insert(file, Sections { full, table: OnceCell::new() });
    }
}

fn cut(why: Cut) -> Place {
    Place { within: Within::Cut(why), address: 0 }
}

fn by_frame_pointer(now: &Frame, memory: &impl Fn(u64) -> Option<u64>, broken: Cut) -> Result<Frame, End> {
    now.by_frame_pointer(memory).map_err(|error| match error {
        // Where a table has no row, 0 says no more than another number.
        StepError::ZeroFrame if broken == Cut::FramePointers => End::Cut(Cut::Zero),
        _ => End::Cut(broken),
    })
}
