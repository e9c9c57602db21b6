//! perf.data files made by hand, field by field.

use std::io::Cursor;

use perf_data_reader::{Error, Files, PerfData};

pub const KERNEL: u64 = -128_i64 as u64;
pub const USER: u64 = -512_i64 as u64;
/// IP, TID, TIME, CPU, PERIOD, READ, CALLCHAIN, IDENTIFIER.
pub const SAMPLE_TYPE: u64 = 1 | 2 | 4 | 0x10 | 0x20 | 0x80 | 0x100 | 1 << 16;
/// `freq`, `sample_id_all`.
const FLAGS: u64 = 1 << 10 | 1 << 18;
/// A group of counters, each with its id.
const READ_FORMAT: u64 = 8 | 4;
const ATTR: usize = 128;
/// Of the cpu-clock and of page-faults.
pub const IDS: [u64; 2] = [11, 22];

/// The records of a file.
#[derive(Default)]
pub struct Data(pub Vec<u8>);

pub fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn padded(text: &str, to: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(to), 0);
    bytes
}

impl Data {
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) -> &mut Self {
        self.0.extend(u32s(&[kind]));
        self.0.extend(misc.to_le_bytes());
        self.0.extend(u16::try_from(8 + body.len()).unwrap().to_le_bytes());
        self.0.extend(body);
        self
    }

    /// A record of the kernel, with the trailer that each has.
    fn of_kernel(&mut self, kind: u32, misc: u16, time: u64, body: &[&[u8]]) -> &mut Self {
        let trailer = [u32s(&[1, 1]), u64s(&[time]), u32s(&[0, 0]), u64s(&[IDS[0]])].concat();
        self.record(kind, misc, &[&body.concat()[..], &trailer].concat())
    }

    pub fn comm(&mut self, time: u64, (pid, tid): (u32, u32), name: &str, is_exec: bool) -> &mut Self {
        let misc = if is_exec { 1 << 13 } else { 0 };
        self.of_kernel(3, misc, time, &[&u32s(&[pid, tid]), &padded(name, 8)])
    }

    pub fn fork(&mut self, time: u64, pid: u32, parent: u32) -> &mut Self {
        self.of_kernel(7, 0, time, &[&u32s(&[pid, parent, pid, parent]), &u64s(&[time])])
    }

    /// With a build-id of these bytes.
    pub fn mmap2(&mut self, time: u64, pid: u32, at: [u64; 3], path: &str, build_id: &[u8]) -> &mut Self {
        let mut id = vec![build_id.len() as u8, 0, 0, 0];
        id.extend(build_id);
        id.resize(24, 0);
        let body: [&[u8]; 5] = [&u32s(&[pid, pid]), &u64s(&at), &id, &u32s(&[5, 2]), &padded(path, 8)];
        self.of_kernel(10, 2 | 1 << 14, time, &body)
    }

    /// A mapping of the kernel.
    pub fn kernel(&mut self, at: [u64; 3], path: &str) -> &mut Self {
        self.of_kernel(1, 1, 0, &[&u32s(&[u32::MAX, 0]), &u64s(&at), &padded(path, 8)])
    }

    pub fn lost(&mut self, time: u64, count: u64) -> &mut Self {
        self.of_kernel(2, 0, time, &[&u64s(&[IDS[0], count])])
    }

    pub fn sample(&mut self, event: usize, time: u64, (pid, tid): (u32, u32), chain: &[u64]) -> &mut Self {
        let misc = if chain.first() == Some(&KERNEL) { 1 } else { 2 };
        let body = [
            u64s(&[IDS[event], chain.get(1).copied().unwrap_or(0x10)]),
            u32s(&[pid, tid]),
            u64s(&[time]),
            u32s(&[0, 0]),
            u64s(&[1_000_000]),
            // Two counters, each with its id.
            u64s(&[2, 7, IDS[0], 8, IDS[1]]),
            u64s(&[chain.len() as u64]),
            u64s(chain),
        ];
        self.record(9, misc, &body.concat())
    }

    pub fn end_round(&mut self) -> &mut Self {
        self.record(68, 0, &[])
    }

    /// The whole file, with its features.
    pub fn file(&self) -> Vec<u8> {
        let attr = |config: u64, name: &str| {
            let mut attr = [u32s(&[1, ATTR as u32]), u64s(&[config, 1000, SAMPLE_TYPE, READ_FORMAT, FLAGS])];
            let mut attr = { attr.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>() };
            attr.resize(ATTR, 0);
            (attr, name.to_owned())
        };
        let attrs = [attr(0, "cpu-clock:u"), attr(2, "page-faults")];
        let ids_at = 104u64;
        let attrs_at = ids_at + 16;
        let entry = ATTR as u64 + 16;
        let data_at = attrs_at + 2 * entry;
        let mut file = b"PERFILE2".to_vec();
        let features: u64 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 11 | 1 << 12;
        let data = self.0.len() as u64;
        file.extend(u64s(&[104, entry, attrs_at, 2 * entry, data_at, data, 0, 0, features, 0, 0, 0]));
        file.extend(u64s(&IDS));
        for (number, (attr, _)) in (0..).zip(&attrs) {
            file.extend(attr);
            file.extend(u64s(&[ids_at + 8 * number, 8]));
        }
        file.extend(&self.0);
        let string = |text: &str| {
            let text = padded(text, 64);
            [u32s(&[text.len() as u32]), text].concat()
        };
        let mut events = u32s(&[2, ATTR as u32]);
        for ((attr, name), id) in attrs.iter().zip(IDS) {
            events.extend([attr.clone(), u32s(&[1]), string(name), u64s(&[id])].concat());
        }
        let mut build_ids = Vec::new();
        for (misc, path, id) in [(1u16, "[kernel.kallsyms]", 1u8), (2, "/bin/by-table", 2)] {
            let path = padded(path, 64);
            build_ids.extend(u32s(&[67]));
            build_ids.extend((misc | 1 << 15).to_le_bytes());
            build_ids.extend((36 + path.len() as u16).to_le_bytes());
            build_ids.extend(u32s(&[u32::MAX]));
            build_ids.extend([vec![id; 20], vec![20, 0, 0, 0], path].concat());
        }
        let command = [u32s(&[2]), string("perf"), string("record")].concat();
        let sections = [build_ids, string("host"), string("6.1.0"), string("x86_64"), command, events];
        let mut at = file.len() as u64 + 16 * sections.len() as u64;
        for section in &sections {
            file.extend(u64s(&[at, section.len() as u64]));
            at += section.len() as u64;
        }
        file.extend(sections.concat());
        file
    }
}

/// A file with a bit of everything.
pub fn example() -> Vec<u8> {
    let mut data = Data::default();
    data.kernel([0xffff_ffff_8100_0000, 0x100_0000, 0xffff_ffff_8100_0000], "[kernel.kallsyms]_text")
        .kernel([0xffff_ffff_c000_0000, 0x1000, 0], "[nf_tables]")
        .comm(0, (7, 7), "sh", false)
        .mmap2(0, 7, [0x40_0000, 0x1000, 0x1000], "/bin/sh", &[9; 20])
        .mmap2(0, 7, [0x7f00_0000, 0x1000, 0], "/bin/by-table", &[])
        .sample(0, 10, (7, 7), &[USER, 0x40_0010, 0x40_0021])
        .sample(0, 12, (7, 7), &[KERNEL, 0xffff_ffff_8100_0010, 0xffff_ffff_c000_0021, USER, 0x40_0010])
        .end_round()
        .sample(1, 21, (8, 8), &[USER, 0x40_0010, 0x7f00_0011])
        .fork(20, 8, 7)
        .comm(24, (8, 8), "ls", true)
        .end_round()
        .mmap2(26, 8, [0x40_0000, 0x1000, 0], "/bin/ls (deleted)", &[8; 20])
        .sample(0, 30, (8, 9), &[USER, 0x40_0010, 0x999])
        .sample(0, 31, (7, 7), &[USER, 0x40_0010, 0x40_0021])
        .lost(32, 5);
    Data(std::mem::take(&mut data.0)).file()
}

pub fn read(file: Vec<u8>, files: &mut dyn Files) -> Result<PerfData, Error> {
    PerfData::read(Cursor::new(file), files)
}
