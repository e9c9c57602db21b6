//! What the profile of a file shows.

use perf_data_reader::{Files, FoundFile, Headers, PerfData, RecordedFile};
use profile::{FileOffset, LabelValue, Profile, Svma};

use crate::file::{Data, USER, example, read, records, with_one_sampling};

/// Has `/bin/sh`, whose code is at other addresses than offsets.
struct Shell;

impl Files for Shell {
    fn find(&mut self, file: &RecordedFile) -> Option<FoundFile> {
        let segments = vec![elf::Segment {
            start: Svma(0x3_1000),
            limit: Svma(0x3_2000),
            file_offset: FileOffset(0x1000),
            file_size: 0x1000,
            executable: true,
        }];
        let mut found = FoundFile { size: 0x4000, mtime_ns: 5, ..FoundFile::default() };
        found.headers = Headers { segments, build_id: file.build_id.clone() };
        (file.path == "/bin/sh").then_some(found)
    }

    fn content(&mut self, _: &RecordedFile) -> Option<Box<dyn AsRef<[u8]>>> {
        None
    }
}

/// `pid/comm thread: stack values`, innermost first; files by their paths, what lies in none by its name.
fn text(profile: &Profile) -> Vec<String> {
    let of = |sample: &profile::Sample| {
        let label =
            |key: &str| match sample.labels.iter().find(|label| label.key == key).map(|label| &label.value) {
                Some(LabelValue::Num(number)) => number.to_string(),
                Some(LabelValue::Str(text)) => text.clone(),
                None => String::new(),
            };
        let frames: Vec<_> = sample
            .locations
            .iter()
            .map(|id| {
                let location = &profile.locations[id.0 as usize];
                let file = location.mapping.map(|id| profile.mappings[id.0 as usize].filename.as_str());
                let name = location
                    .lines
                    .first()
                    .map(|line| profile.functions[line.function.0 as usize].name.as_str());
                format!("{}+{:x}", file.or(name).unwrap_or(""), location.address)
            })
            .collect();
        format!(
            "{}/{} {}: {} {:?}",
            label("pid"),
            label("comm"),
            label("thread"),
            frames.join(" "),
            sample.values
        )
    };
    profile.samples.iter().map(of).collect()
}

fn events(data: &PerfData) -> Vec<(String, u64)> {
    data.events().map(|event| (event.name.to_owned(), event.samples)).collect()
}

#[test]
fn samples_have_the_places_names_and_processes_of_their_time() {
    let mut data = read(example(), &mut Shell).unwrap();
    assert_eq!(events(&data), [("cpu-clock:u".to_owned(), 4), ("page-faults".to_owned(), 1)]);
    let found = data.profile(0, &mut Shell);
    let profile = found.profile;
    assert_eq!(
        text(&profile),
        [
            // A return address is looked up at the call; link-time addresses where the file is there.
            "7/sh sh: /bin/sh+31010 /bin/sh+31020 [2, 2000000]",
            "7/sh sh: [kernel.kallsyms]+ffffffff81000010 [kernel.kallsyms]+ffffffffc0000020 /bin/sh+31010 [1, 1000000]",
            // After an exec the mappings are new ones. The file is missing: an offset.
            "8/ls : /bin/ls+10 [unknown]+998 [1, 1000000]",
        ]
    );
    let times: Vec<_> = profile.moments.iter().map(|of| (of.at_ns, of.lasted_ns, of.sample)).collect();
    assert_eq!(times, [(0, 0, 0), (2, 0, 1), (20, 0, 2), (21, 0, 0)], "from the first sample of the file on");
    let kinds: Vec<_> = profile.sample_types.iter().map(|of| (of.kind.as_str(), of.unit.as_str())).collect();
    assert_eq!(kinds, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert_eq!((profile.period, profile.duration_ns), (1_000_000, 21));
    let mapping = &profile.mappings[0];
    assert_eq!(
        (mapping.start, mapping.limit, mapping.file_offset),
        (Svma(0x3_1000), Svma(0x3_2000), FileOffset(0x1000))
    );
    let build_ids: Vec<_> =
        profile.mappings.iter().filter_map(|of| of.build_id.as_ref()).map(ToString::to_string).collect();
    assert_eq!(build_ids, ["09".repeat(20), "01".repeat(20), "08".repeat(20)]);
    assert_eq!(found.identities[0].map(|of| (of.size, of.mtime_ns)), Some((0x4000, 5)));
    for comment in [
        "perf.cmdline=perf record",
        "perf.hostname=host",
        "perf.lost=5",
        "perf-agent.kernel.release=6.1.0",
        "perf-agent.kernel.text=0xffffffff81000000",
        "perf-agent.kernel.module=0xffffffffc0000000 4096 - nf_tables",
    ] {
        assert!(profile.comments.iter().any(|found| found == comment), "{comment}: {:?}", profile.comments);
    }
    assert_eq!(data.missing().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/bin/ls"]);
    assert!(data.told().iter().any(|line| line.starts_with("5 samples or other records were lost")));

    let profile = data.profile(1, &mut Shell).profile;
    // The child has the mappings and the name of its parent until its exec; its record came before that of the fork.
    assert_eq!(text(&profile), ["8/sh sh: /bin/sh+31010 /bin/by-table+10 [1, 1000000]"]);
    assert_eq!(profile.sample_types[1].kind, "page-faults");
    let table = profile.mappings.iter().find(|of| of.filename == "/bin/by-table").unwrap();
    assert_eq!(table.build_id.as_ref().unwrap().to_string(), "02".repeat(20));
}

#[test]
fn a_recording_that_was_killed_is_read_up_to_its_last_whole_record() {
    let mut data = Data::default();
    data.comm(0, (7, 7), "sh", false).sample(0, 1, (7, 7), &[USER, 0x10]).sample(0, 2, (7, 7), &[USER, 0x10]);
    let whole = data.file();
    let end = 120 + 2 * 144 + data.0.len();
    let mut killed = whole[..end - 5].to_vec();
    killed[48..56].fill(0);
    let mut read = read(killed, &mut perf_data_reader::NoFiles).unwrap();
    assert_eq!(events(&read)[0], ("cpu-clock".to_owned(), 1));
    assert!(read.told().iter().any(|line| line.contains("was not ended by perf: read up to offset")));
    assert_eq!(text(&read.profile(0, &mut Shell).profile), ["7/sh sh: [unknown]+10 [1, 1000000]"]);
}

/// All that a recording shows.
fn shown(mut data: PerfData) -> (Vec<(String, u64)>, Vec<String>, Vec<String>) {
    let stacks = (0..2).flat_map(|event| text(&data.profile(event, &mut Shell).profile)).collect();
    (events(&data), stacks, data.told().to_vec())
}

#[test]
fn a_stream_shows_what_the_file_shows() {
    let stream = records().stream();
    let whole = shown(read(example(), &mut Shell).unwrap());
    assert_eq!(shown(PerfData::read_stream(&stream[..], &mut Shell).unwrap()), whole);
    // The same in a file.
    assert_eq!(shown(read(stream.clone(), &mut Shell).unwrap()), whole);
    let comments = |mut data: PerfData| data.profile(0, &mut Shell).profile.comments;
    assert_eq!(
        comments(read(stream.clone(), &mut Shell).unwrap()),
        comments(read(example(), &mut Shell).unwrap())
    );
    let cut = PerfData::read_stream(&stream[..stream.len() - 1], &mut Shell).unwrap();
    let at = stream.len() - 56;
    let told = format!("the recording was not ended by perf: read up to offset {at}");
    assert!(cut.told().contains(&told), "{:?}", cut.told());
}

#[test]
fn compressed_records_show_what_plain_ones_show() {
    let whole = shown(read(example(), &mut Shell).unwrap());
    for piece in [1, 7, 60_000] {
        let packed = records().compressed(piece);
        assert_eq!(shown(read(packed.file(), &mut Shell).unwrap()), whole, "{piece}");
        assert_eq!(shown(PerfData::read_stream(&packed.stream()[..], &mut Shell).unwrap()), whole, "{piece}");
    }
}

/// `perf record -e '{cpu-clock,page-faults}:S'`: the first event samples, with the counts of both.
#[test]
fn members_of_a_group_have_samples_of_what_was_added_to_their_counts() {
    let (outer, inner) = ([USER, 0x40_0010, 0x40_0021], [USER, 0x40_0010]);
    let mut data = Data::default();
    data.comm(0, (7, 7), "sh", false)
        .mmap2(0, 7, [0x40_0000, 0x1000, 0x1000], "/bin/sh", &[9; 20])
        .counted(0, 10, (7, 7), &outer, [1_000, 5])
        .counted(0, 20, (7, 7), &outer, [3_000, 5])
        .counted(0, 30, (7, 7), &inner, [3_500, 9])
        // Counts do not become smaller.
        .counted(0, 40, (7, 7), &inner, [3_600, 2]);
    let mut data = read(with_one_sampling(&data.file()), &mut Shell).unwrap();
    assert_eq!(events(&data), [("cpu-clock:u".to_owned(), 4), ("page-faults".to_owned(), 2)]);
    let (of_leader, of_member) = (data.profile(0, &mut Shell).profile, data.profile(1, &mut Shell).profile);
    assert_eq!(
        text(&of_leader),
        ["7/sh sh: /bin/sh+31010 /bin/sh+31020 [2, 3000]", "7/sh sh: /bin/sh+31010 [2, 600]"]
    );
    assert_eq!(
        text(&of_member),
        ["7/sh sh: /bin/sh+31010 /bin/sh+31020 [1, 5]", "7/sh sh: /bin/sh+31010 [1, 4]"]
    );
    assert!(data.told().iter().any(|line| line.contains("1 are smaller than before")), "{:?}", data.told());
}
