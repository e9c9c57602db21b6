//! Everything that the writer can write, read by another program: the crate linux-perf-data.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Cursor;

use linux_perf_data::linux_perf_event_reader::{
    CpuMode, EventRecord, Mmap2FileId, PerfClock, RawDataU64, SamplingPolicy,
};
use linux_perf_data::{DsoKey, PerfFileReader, PerfFileRecord};
use perf_data::{
    Attr, Event, Features, FileBuildId, FileIdentity, Process, Rate, Record, Sample, Stamp, Writer,
};

const BUILD_ID: [u8; 20] = [7; 20];

fn events() -> Vec<Event> {
    let event = |name: &str, id, config, rate| Event {
        name: name.to_owned(),
        id,
        attr: Attr { kind: 1, config, rate, kernel_frames: true },
    };
    vec![event("cpu-clock", 11, 0, Rate::PerSecond(99)), event("off-cpu", 12, 10, Rate::Every(1))]
}

fn features() -> Features {
    let text = |text: &str| Some(text.to_owned());
    Features {
        build_ids: vec![
            FileBuildId { kernel: true, build_id: BUILD_ID.to_vec(), path: b"[kernel.kallsyms]".to_vec() },
            FileBuildId { kernel: false, build_id: vec![1, 2, 3, 4, 5, 6, 7, 8], path: b"/bin/x".to_vec() },
        ],
        hostname: text("host"),
        os_release: text("6.1.0"),
        version: text("perf-agent 1"),
        arch: text("x86_64"),
        cpus: Some((4, 2)),
        cpu_description: text("a CPU"),
        memory_kib: Some(1_000_000),
        command_line: vec!["perf-agent".to_owned(), "--profile".to_owned()],
        sample_times: Some((20, 40)),
        clock_resolution_ns: Some(1),
    }
}

fn write(records: &[(Stamp, Record<'_>)]) -> PerfFileReader<Cursor<Vec<u8>>> {
    let mut writer = Writer::begin(Cursor::new(Vec::new()), events()).unwrap();
    for (stamp, record) in records {
        writer.push(stamp, record).unwrap();
    }
    let bytes = writer.finish(&features()).unwrap().into_inner();
    PerfFileReader::parse_file(Cursor::new(bytes)).unwrap()
}

/// Reads the records, in the order of their times, with the number of their event.
fn read(reader: PerfFileReader<Cursor<Vec<u8>>>, mut each: impl FnMut(usize, EventRecord<'_>)) {
    let PerfFileReader { mut perf_file, mut record_iter } = reader;
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        let PerfFileRecord::EventRecord { attr_index, record } = record else {
            panic!("no record of an event")
        };
        each(attr_index, record.parse().unwrap());
    }
}

fn stamp(time_ns: u64, id: u64) -> Stamp {
    Stamp { of: Process { pid: 7, tid: 8 }, time_ns, cpu: 3, id }
}

#[test]
fn events_and_features() {
    let PerfFileReader { perf_file: file, .. } = write(&[]);
    let attributes = file.event_attributes();
    let names: Vec<_> = attributes.iter().map(|event| event.name.as_deref()).collect();
    assert_eq!(names, [Some("cpu-clock"), Some("off-cpu")]);
    let ids: Vec<_> = attributes.iter().map(|event| event.event_ids.clone()).collect();
    assert_eq!(ids, [[11], [12]]);
    let policies: Vec<_> = attributes.iter().map(|event| event.attr.sampling_policy).collect();
    assert!(matches!(policies[0], SamplingPolicy::Frequency(rate) if rate == 99), "{policies:?}");
    assert!(matches!(policies[1], SamplingPolicy::Period(period) if period.get() == 1), "{policies:?}");
    assert!(attributes.iter().all(|event| matches!(event.attr.clock, PerfClock::ClockId(clock)
        if clock == linux_perf_data::linux_perf_event_reader::ClockId::Monotonic)));
    assert_eq!(file.hostname().unwrap(), Some("host"));
    assert_eq!(file.os_release().unwrap(), Some("6.1.0"));
    assert_eq!(file.perf_version().unwrap(), Some("perf-agent 1"));
    assert_eq!(file.arch().unwrap(), Some("x86_64"));
    let cpus = file.nr_cpus().unwrap().unwrap();
    assert_eq!((cpus.nr_cpus_available, cpus.nr_cpus_online), (4, 2));
    assert_eq!(file.cpu_desc().unwrap(), Some("a CPU"));
    assert_eq!(file.total_mem().unwrap(), Some(1_000_000));
    assert_eq!(file.cmdline().unwrap(), Some(vec!["perf-agent", "--profile"]));
    let times = file.sample_time_range().unwrap().unwrap();
    assert_eq!((times.first_sample_time, times.last_sample_time), (20, 40));
    assert_eq!(file.clock_frequency().unwrap(), Some(1));
    let build_ids = file.build_ids().unwrap();
    let id_of = |key: DsoKey| build_ids.get(&key).map(|found| found.build_id.clone());
    assert_eq!(id_of(DsoKey::Kernel), Some(BUILD_ID.to_vec()));
    let program = DsoKey::detect(b"/bin/x", CpuMode::User).unwrap();
    assert_eq!(id_of(program), Some(vec![1, 2, 3, 4, 5, 6, 7, 8]));
}

#[test]
fn samples_of_both_events() {
    let on_cpu = Sample { period: 10, kernel: &[0xffff_ffff_8100_0010], user: &[0x10, 0x20], interrupted: 0 };
    let waited = Sample { period: 999, kernel: &[], user: &[0x30], interrupted: 0 };
    let bare = Sample { period: 10, kernel: &[], user: &[], interrupted: 0xffff_ffff_8100_0050 };
    let all = [(stamp(20, 11), on_cpu), (stamp(30, 12), waited), (stamp(40, 11), bare)];
    let mut seen = Vec::new();
    read(write(&all.map(|(stamp, sample)| (stamp, Record::Sample(sample)))), |event, record| {
        let EventRecord::Sample(sample) = record else { panic!("{record:?}") };
        assert_eq!((sample.pid, sample.tid, sample.cpu), (Some(7), Some(8), Some(3)));
        let chain =
            |chain: RawDataU64<'_>| (0..chain.len()).filter_map(|at| chain.get(at)).collect::<Vec<_>>();
        let chain = sample.callchain.map(chain).unwrap();
        seen.push((event, sample.timestamp, sample.period, sample.ip, sample.cpu_mode, chain));
    });
    let (in_kernel, in_user) = (-128_i64 as u64, -512_i64 as u64);
    let kernel = 0xffff_ffff_8100_0010;
    let chain = vec![in_kernel, kernel, in_user, 0x10, 0x20];
    assert_eq!(
        seen,
        [
            (0, Some(20), Some(10), Some(kernel), CpuMode::Kernel, chain),
            (1, Some(30), Some(999), Some(0x30), CpuMode::User, vec![in_user, 0x30]),
            (0, Some(40), Some(10), Some(0xffff_ffff_8100_0050), CpuMode::Kernel, vec![]),
        ]
    );
}

#[test]
fn what_happens_to_processes() {
    let by_place = FileIdentity::Inode { major: 8, minor: 1, inode: 77 };
    let mapping = |file| Record::Mapping {
        address: 0x1000,
        len: 0x2000,
        offset: 0x3000,
        file,
        protection: 5,
        flags: 2,
        path: b"/bin/x",
    };
    let parent = Process { pid: 1, tid: 2 };
    let kernel = Record::KernelMapping { address: 0x4000, len: 0x5000, name: b"[kernel.kallsyms]_text" };
    let records = [
        kernel,
        Record::Fork { parent },
        Record::Comm { name: b"a name", exec: true },
        mapping(FileIdentity::BuildId(&BUILD_ID)),
        mapping(by_place),
        Record::Comm { name: b"another", exec: false },
        Record::Lost { lost: 6 },
        Record::Exit { parent },
    ];
    let timed: Vec<_> = (20..).zip(records).map(|(time, record)| (stamp(time, 11), record)).collect();
    let mut kinds = Vec::new();
    read(write(&timed), |_, record| kinds.push(told(&record)));
    assert_eq!(
        kinds,
        [
            "mmap -1 4000 5000 4000 [kernel.kallsyms]_text Kernel",
            "fork 7 8 by 1 2 at 21",
            "comm 7 8 a name true",
            "mmap2 7 8 1000 2000 3000 build-id [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7] 5 2 /bin/x User",
            "mmap2 7 8 1000 2000 3000 inode 8:1 77 5 2 /bin/x User",
            "comm 7 8 another false",
            "lost 6",
            "exit 7 8 by 1 2 at 27",
        ]
    );
}

/// A record as text.
fn told(record: &EventRecord<'_>) -> String {
    let name = |name: &linux_perf_data::linux_perf_event_reader::RawData<'_>| {
        String::from_utf8(name.as_slice().into_owned()).unwrap()
    };
    match record {
        EventRecord::Mmap(of) => {
            let path = name(&of.path);
            format!(
                "mmap {} {:x} {:x} {:x} {path} {:?}",
                of.pid, of.address, of.length, of.page_offset, of.cpu_mode
            )
        }
        EventRecord::Mmap2(of) => {
            let file = match &of.file_id {
                Mmap2FileId::BuildId(id) => format!("build-id {id:?}"),
                Mmap2FileId::InodeAndVersion(of) => format!("inode {}:{} {}", of.major, of.minor, of.inode),
            };
            let (path, mode) = (name(&of.path), of.cpu_mode);
            let (pid, tid, at, len, offset) = (of.pid, of.tid, of.address, of.length, of.page_offset);
            format!(
                "mmap2 {pid} {tid} {at:x} {len:x} {offset:x} {file} {} {} {path} {mode:?}",
                of.protection, of.flags
            )
        }
        EventRecord::Comm(of) => format!("comm {} {} {} {}", of.pid, of.tid, name(&of.name), of.is_execve),
        EventRecord::Fork(of) => {
            format!("fork {} {} by {} {} at {}", of.pid, of.tid, of.ppid, of.ptid, of.timestamp)
        }
        EventRecord::Exit(of) => {
            format!("exit {} {} by {} {} at {}", of.pid, of.tid, of.ppid, of.ptid, of.timestamp)
        }
        EventRecord::Lost(of) => format!("lost {}", of.count),
        other => panic!("{other:?}"),
    }
}
