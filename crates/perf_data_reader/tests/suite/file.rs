//! perf.data files made by hand, field by field.

use std::io::Cursor;

use perf_data_reader::{Error, Files, NoFiles, PerfData};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

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

    pub fn sample(&mut self, event: usize, time: u64, task: (u32, u32), chain: &[u64]) -> &mut Self {
        self.counted(event, time, task, chain, [7, 8])
    }

    /// A sample with the total counts of both events.
    pub fn counted(
        &mut self,
        event: usize,
        time: u64,
        (pid, tid): (u32, u32),
        chain: &[u64],
        counts: [u64; 2],
    ) -> &mut Self {
        let misc = if chain.first() == Some(&KERNEL) { 1 } else { 2 };
        let body = [
            u64s(&[IDS[event], chain.get(1).copied().unwrap_or(0x10)]),
            u32s(&[pid, tid]),
            u64s(&[time]),
            u32s(&[0, 0]),
            u64s(&[1_000_000]),
            // Two counters, each with its id.
            u64s(&[2, counts[0], IDS[0], counts[1], IDS[1]]),
            u64s(&[chain.len() as u64]),
            u64s(chain),
        ];
        self.record(9, misc, &body.concat())
    }

    /// The same as a stream: what sections of files tell stands in records before these.
    pub fn stream(&self) -> Vec<u8> {
        let mut stream = Self([&b"PERFILE2"[..], &u64s(&[16])].concat());
        for ((attr, _), id) in attrs().into_iter().zip(IDS) {
            stream.record(64, 0, &[attr, u64s(&[id])].concat());
        }
        for (number, content) in features().into_iter().filter(|(number, _)| *number != 2) {
            stream.record(80, 0, &[u64s(&[number]), content].concat());
        }
        stream.record(78, 0, &[u64s(&[2, IDS[1]]), padded("page-faults", 8)].concat());
        for (misc, path, id) in BUILD_IDS {
            stream.record(67, misc | 1 << 15, &build_id(path, id));
        }
        // Formats of tracepoints: 5 bytes, filled up to 8.
        stream.record(66, 0, &u32s(&[5, 0])).0.extend([9; 8]);
        [stream.0, self.0.clone()].concat()
    }

    /// The same, compressed: the records between the ends of rounds as zstd in pieces of so many bytes.
    pub fn compressed(&self, piece: usize) -> Self {
        let (mut packed, mut rest, mut round) = (Self::default(), &self.0[..], Vec::new());
        let pack = |round: &mut Vec<u8>, packed: &mut Self| {
            let frame = compress_to_vec(&round[..], CompressionLevel::Fastest);
            for piece in frame.chunks(piece) {
                packed.record(81, 0, piece);
            }
            round.clear();
        };
        while let Some(size) = rest.get(6..8) {
            let (record, after) = rest.split_at(usize::from(u16::from_le_bytes(size.try_into().unwrap())));
            if record[0] == 68 {
                pack(&mut round, &mut packed);
                packed.end_round();
            } else {
                round.extend(record);
            }
            rest = after;
        }
        pack(&mut round, &mut packed);
        packed
    }

    pub fn end_round(&mut self) -> &mut Self {
        self.record(68, 0, &[])
    }

    /// The whole file, with its features.
    pub fn file(&self) -> Vec<u8> {
        let attrs = attrs();
        let ids_at = 104u64;
        let attrs_at = ids_at + 16;
        let entry = ATTR as u64 + 16;
        let data_at = attrs_at + 2 * entry;
        let mut file = b"PERFILE2".to_vec();
        let bits: u64 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 11 | 1 << 12;
        let data = self.0.len() as u64;
        file.extend(u64s(&[104, entry, attrs_at, 2 * entry, data_at, data, 0, 0, bits, 0, 0, 0]));
        file.extend(u64s(&IDS));
        for (number, (attr, _)) in (0..).zip(&attrs) {
            file.extend(attr);
            file.extend(u64s(&[ids_at + 8 * number, 8]));
        }
        file.extend(&self.0);
        let sections = features().map(|(_, content)| content);
        let mut at = file.len() as u64 + 16 * sections.len() as u64;
        for section in &sections {
            file.extend(u64s(&[at, section.len() as u64]));
            at += section.len() as u64;
        }
        file.extend(sections.concat());
        file
    }
}

/// The events with their names.
fn attrs() -> [(Vec<u8>, &'static str); 2] {
    [(0, "cpu-clock:u"), (2, "page-faults")].map(|(config, name)| {
        let mut attr =
            [u32s(&[1, ATTR as u32]), u64s(&[config, 1000, SAMPLE_TYPE, READ_FORMAT, FLAGS])].concat();
        attr.resize(ATTR, 0);
        (attr, name)
    })
}

/// The file as if the second event did not sample: samples of the first event have its counts.
pub fn with_one_sampling(file: &[u8]) -> Vec<u8> {
    let (samples, samples_not) = (u64s(&[2, 1000, SAMPLE_TYPE]), u64s(&[2, 0, SAMPLE_TYPE]));
    let mut changed = file.to_vec();
    for at in 0..file.len() - samples.len() {
        if file[at..].starts_with(&samples) {
            changed[at..at + samples.len()].copy_from_slice(&samples_not);
        }
    }
    assert_ne!(changed, file);
    changed
}

/// The features by number.
fn features() -> [(u64, Vec<u8>); 6] {
    let string = |text: &str| {
        let text = padded(text, 64);
        [u32s(&[text.len() as u32]), text].concat()
    };
    let mut events = u32s(&[2, ATTR as u32]);
    for ((attr, name), id) in attrs().into_iter().zip(IDS) {
        events.extend([attr, u32s(&[1]), string(name), u64s(&[id])].concat());
    }
    let build_ids = BUILD_IDS.iter().flat_map(|(misc, path, id)| {
        let body = build_id(path, *id);
        let size = 8 + body.len() as u16;
        [u32s(&[67]), (misc | 1 << 15).to_le_bytes().to_vec(), size.to_le_bytes().to_vec(), body].concat()
    });
    let command = [u32s(&[2]), string("perf"), string("record")].concat();
    [
        (2, build_ids.collect()),
        (3, string("host")),
        (4, string("6.1.0")),
        (6, string("x86_64")),
        (11, command),
        (12, events),
    ]
}

/// Of the kernel and of a file: misc, path, each byte of the build-id.
const BUILD_IDS: [(u16, &str, u8); 2] = [(1, "[kernel.kallsyms]", 1), (2, "/bin/by-table", 2)];

fn build_id(path: &str, id: u8) -> Vec<u8> {
    [u32s(&[u32::MAX]), vec![id; 20], vec![20, 0, 0, 0], padded(path, 64)].concat()
}

/// A file with a bit of everything.
pub fn example() -> Vec<u8> {
    records().file()
}

/// Its records.
pub fn records() -> Data {
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
    data
}

pub fn read(file: Vec<u8>, files: &mut dyn Files) -> Result<PerfData, Error> {
    PerfData::read(Cursor::new(file), files)
}

/// The seeds of the fuzz target, by name. `PERFAGENT_WRITE_SAMPLE=1` writes them.
#[test]
fn seeds_of_the_fuzz_target_can_be_read() {
    let packed = records().compressed(100);
    let seeds = [
        ("stream", records().stream()),
        ("compressed", packed.file()),
        ("compressed_stream", packed.stream()),
    ];
    for (name, seed) in seeds {
        if std::env::var_os("PERFAGENT_WRITE_SAMPLE").is_some() {
            std::fs::write(format!("../../fuzz/corpus/perf_data/{name}"), &seed).unwrap();
        }
        let kept = std::fs::read(format!("../../fuzz/corpus/perf_data/{name}")).unwrap();
        let samples =
            |file| read(file, &mut NoFiles).unwrap().events().map(|event| event.samples).sum::<u64>();
        assert_eq!(samples(kept), samples(seed), "{name}");
    }
}
