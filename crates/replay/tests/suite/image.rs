//! The code of a process: its mappings with tables for the walker, and the same for framehop.

use std::collections::HashMap;
use std::rc::Rc;

use framehop::ExplicitModuleSectionInfo;
use framehop::Module;
use framehop::Unwinder;
use object::Object;
use object::ObjectSection;
use object::ObjectSegment;
use replay::Code;
use replay::Mapping;
use replay::Replay;
use unwind::Table;

use crate::recorder::Recorder;

/// An executable mapping, with its table where there is one.
#[derive(Clone)]
pub struct Area {
    pub name: String,
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    pub table: Option<Rc<Table>>,
    /// Link-time addresses that `.eh_frame` covers, sorted.
    framed: Rc<Vec<(u64, u64)>>,
}

impl Area {
    /// Code that comes from no file.
    pub fn new(start: u64, end: u64, bias: u64, table: Option<Rc<Table>>) -> Self {
        Self { name: String::new(), start, end, bias, table, framed: Rc::default() }
    }

    /// Whether the file's `.eh_frame` describes this address.
    pub fn has_frame_information(&self, address: u64) -> bool {
        let linked = address.wrapping_sub(self.bias);
        let after = self.framed.partition_point(|(start, _)| *start <= linked);
        after > 0 && linked < self.framed[after - 1].1
    }
}

struct File {
    elf: Vec<u8>,
    table: Rc<Table>,
    framed: Rc<Vec<(u64, u64)>>,
}

type Framehop = framehop::UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>;

/// What is known of one process.
pub struct Image {
    pub areas: Vec<Area>,
    pub framehop: Framehop,
    pub replay: Replay,
    /// The executable lines of `/proc/PID/maps`.
    maps: Vec<String>,
}

/// Compiled files, by path.
#[derive(Default)]
pub struct Files(HashMap<String, File>);

impl Files {
    /// Reads the mappings of a stopped process.
    pub fn image(&mut self, process: &Recorder) -> Image {
        let maps = executable(process);
        let mut image = Image { areas: Vec::new(), framehop: Framehop::new(), replay: Replay::new(), maps };
        for line in &image.maps {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next().unwrap().split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            let (start, end) = (number(start), number(end));
            let offset = number(words.nth(1).unwrap());
            let name = words.nth(2).unwrap_or("");
            let mut area = Area { name: name.into(), ..Area::new(start, end, 0, None) };
            let elf = match name {
                "[vdso]" => Some(process.memory(start, end - start)),
                path if path.starts_with('/') => std::fs::read(path).ok(),
                _ => None,
            };
            if let Some(elf) = elf {
                let file = self.0.entry(name.into()).or_insert_with(|| {
                    let table = Rc::new(unwind::compile(&elf).unwrap());
                    let framed = Rc::new(framed(&elf));
                    File { elf, table, framed }
                });
                area.bias = start.wrapping_sub(linked(&file.elf, offset));
                area.table = Some(file.table.clone());
                area.framed = file.framed.clone();
                image.framehop.add_module(module(name, &file.elf, &area));
            }
            image.areas.push(area);
        }
        let mappings = image.areas.iter().map(|area| {
            let code = area
                .table
                .as_ref()
                .map_or(Code::FramePointers, |table| Code::Table(image.replay.add_table(table).unwrap()));
            Mapping { start: area.start, end: area.end, bias: area.bias, code }
        });
        let mappings: Vec<Mapping> = mappings.collect();
        image.replay.set_mappings(&mappings).unwrap();
        image
    }
}

impl Image {
    /// Whether the process still has the same mappings.
    pub fn is_current(&self, process: &Recorder) -> bool {
        self.maps == executable(process)
    }
}

fn executable(process: &Recorder) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid())).unwrap();
    let lines = maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|access| access.contains('x')));
    lines.filter(|line| !line.ends_with("[vsyscall]")).map(str::to_owned).collect()
}

/// The link-time address of a file offset in executable code.
fn linked(elf: &[u8], offset: u64) -> u64 {
    let file = object::File::parse(elf).unwrap();
    let segment = file.segments().find(|segment| {
        let (at, size) = segment.file_range();
        (at & !0xfff..at + size).contains(&offset)
    });
    let segment = segment.unwrap();
    (segment.address() + offset).wrapping_sub(segment.file_range().0)
}

/// What `.eh_frame` covers, as gimli reads it.
fn framed(elf: &[u8]) -> Vec<(u64, u64)> {
    use gimli::UnwindSection;
    let file = object::File::parse(elf).unwrap();
    let Some(section) = file.section_by_name(".eh_frame") else { return Vec::new() };
    let frames = gimli::EhFrame::new(section.data().unwrap(), gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut ranges = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(gimli::EhFrame::cie_from_offset)
        {
            ranges.push((fde.initial_address(), fde.initial_address() + fde.len()));
        }
    }
    ranges.sort_unstable();
    ranges
}

fn module(name: &str, elf: &[u8], area: &Area) -> Module<Vec<u8>> {
    let file = object::File::parse(elf).unwrap();
    let range = |name: &str| file.section_by_name(name).map(|s| s.address()..s.address() + s.size());
    let data = |name: &str| file.section_by_name(name).and_then(|s| s.data().ok()).map(<[u8]>::to_vec);
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    Module::new(name.into(), area.start..area.end, area.bias, sections)
}
