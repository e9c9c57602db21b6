use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::{EncodeOptions, Merge, registry};
use profile::{Builder, Label, Moment, Profile, ValueType};

use crate::example;

fn page(profile: &Profile, options: &EncodeOptions) -> String {
    let mut out = Vec::new();
    registry::by_name("html").unwrap().encode(profile, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The header of the data, and its columns of numbers and of texts by name.
struct Data {
    header: serde_json::Value,
    numbers: BTreeMap<String, Vec<u64>>,
    texts: BTreeMap<String, Vec<String>>,
}

impl Data {
    fn of(page: &str) -> Self {
        let packed = page.split("id=\"data\">").nth(1).unwrap().split('<').next().unwrap();
        let packed = STANDARD.decode(packed).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let (size, rest) = bytes.split_first_chunk::<4>().unwrap();
        let (header, mut rest) = rest.split_at(u32::from_le_bytes(*size) as usize);
        let header: serde_json::Value = serde_json::from_slice(header).unwrap();
        let (mut numbers, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for column in header["columns"].as_array().unwrap() {
            let (bytes, after) = rest.split_at(column["len"].as_u64().unwrap() as usize);
            rest = after;
            let name = column["name"].as_str().unwrap().to_owned();
            let items = match column["enc"].as_str().unwrap() {
                "s" => {
                    let all = String::from_utf8(bytes.to_vec()).unwrap();
                    let all: Vec<String> = all.split_terminator('\0').map(str::to_owned).collect();
                    assert_eq!(all.len() as u64, column["n"], "{name}");
                    texts.insert(name, all);
                    continue;
                }
                "b" => bytes.iter().map(|byte| u64::from(*byte)).collect(),
                "v" => varints(bytes),
                _ => {
                    let signed = |item: u64| (item >> 1) as i64 ^ -((item & 1) as i64);
                    let add = |sum: &mut i64, item| {
                        *sum += signed(item);
                        Some(*sum as u64)
                    };
                    varints(bytes).into_iter().scan(0, add).collect::<Vec<_>>()
                }
            };
            assert_eq!(items.len() as u64, column["n"], "{name}");
            numbers.insert(name, items);
        }
        assert!(rest.is_empty());
        Self { header, numbers, texts }
    }

    /// The names of the stack that ends at a node, from the root on.
    fn stack(&self, node: u64) -> Vec<&str> {
        let mut path: Vec<&str> = Vec::new();
        for at in 0..node as usize {
            let depth = path.len() - self.numbers["node.up"][at] as usize;
            path.truncate(depth);
            path.push(&self.texts["frame.name"][self.numbers["node.frame"][at] as usize]);
        }
        path
    }

    /// All rows: names, values of the facets, first value.
    fn rows(&self) -> Vec<(String, String, u64)> {
        let row = |row: usize| {
            let group = self.numbers["row.group"][row] as usize;
            let facets = (0..self.header["facets"].as_array().unwrap().len()).map(|facet| {
                let value = self.numbers[&format!("group.{facet}")][group] as usize;
                if value == 0 { "-" } else { &self.texts[&format!("facet.{facet}")][value - 1] }
            });
            let facets = facets.collect::<Vec<_>>().join(",");
            let names = self.stack(self.numbers["row.node"][row]).join(";");
            (names, facets, self.numbers["row.value.0"][row])
        };
        (0..self.numbers["row.node"].len()).map(row).collect()
    }
}

fn varints(bytes: &[u8]) -> Vec<u64> {
    let mut items = Vec::new();
    let (mut item, mut shift) = (0, 0);
    for byte in bytes {
        item |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < &128 {
            items.push(item);
            (item, shift) = (0, 0);
        }
    }
    items
}

#[test]
fn the_data_has_every_stack_with_its_labels_and_values() {
    let options = EncodeOptions { title: "CPU".to_owned(), ..EncodeOptions::default() };
    let first = page(&example(), &options);
    assert_eq!(first, page(&example(), &options), "equal profiles give equal bytes");
    let data = Data::of(&first);
    let row = |names: &str, facets: &str, value| (names.to_owned(), facets.to_owned(), value);
    assert_eq!(
        data.rows(),
        [
            row("a b:c;[truncated: frame limit];main", "a b;c,a b;c (8),-", 1),
            row("app;main;[libz.so.1+0x40];vfs_read", "app,app (7),-", 2),
            row("app;main;outer(int: char);middle;inner", "app,app (7),-", 3),
        ]
    );
    assert_eq!(data.header["values"][1]["times"], 10, "{}", data.header["values"]);
    assert_eq!(data.header["shown"], 1);
    assert_eq!(data.header["comments"], serde_json::json!(["run=1", "ledger.samples=6"]));
}

#[test]
fn values_that_are_no_multiple_have_a_column_and_the_ledger_is_told() {
    let mut profile = example();
    profile.samples[0].values[1] += 1;
    profile.samples[1].values = vec![-4, -5];
    profile.comments = vec!["perf-agent.lost=7".to_owned(), "a\u{202e}b".to_owned()];
    let warnings = vec!["names are missing".to_owned()];
    let options = EncodeOptions { warnings, inverted: true, merge: Merge::All, ..EncodeOptions::default() };
    let data = Data::of(&page(&profile, &options));
    assert_eq!(data.numbers["row.value.1"], [10, 31], "negative values count as nothing");
    assert_eq!(data.header["ledger"], serde_json::json!([["lost", "7"]]));
    assert_eq!(data.header["comments"], serde_json::json!(["a\\u{202e}b"]));
    assert_eq!(
        (&data.header["warnings"][0], &data.header["icicle"]),
        (&"names are missing".into(), &true.into())
    );
}

#[test]
fn the_most_used_frame_has_the_number_zero_and_deep_stacks_are_cut() {
    let mut builder = Builder::new(&[ValueType::new("samples", "count")], ValueType::default(), 1);
    let [leaf, mid, root] = ["leaf", "mid", "root"].map(|name| builder.synthetic(name));
    builder.add(Vec::new(), vec![leaf, mid, leaf, root], &[1]);
    builder.add(vec![Label::num("n", 1)], vec![mid; 5000], &[2]);
    let data = Data::of(&page(&builder.finish(0, 0, Vec::new()), &EncodeOptions::default()));
    assert_eq!(data.texts["frame.name"][0], "mid");
    let rows = data.rows();
    assert!(rows[0].0.ends_with(";mid;[deeper frames are left out]"), "{}", rows[0].0.len());
    assert_eq!(rows[0].0.matches("mid").count(), 4096);
    assert_eq!((rows[1].0.as_str(), rows[1].2), ("root;leaf;mid;leaf", 1));
}

#[test]
fn times_are_counted_in_parts_of_the_capture() {
    let mut profile = example();
    assert!(Data::of(&page(&profile, &EncodeOptions::default())).header["time"].is_null());
    profile.duration_ns = 6_000_000;
    let moment = |at_ns, sample| Moment { at_ns, lasted_ns: 0, sample };
    profile.moments = vec![
        moment(-5, 0),
        moment(9_999, 0),
        moment(10_000, 1),
        moment(10_001, 0),
        moment(6_000_100, 2),
        moment(7, 99),
    ];
    let data = Data::of(&page(&profile, &EncodeOptions::default()));
    assert_eq!(data.header["time"], serde_json::json!({"bins": 600, "width": 10_001, "of": "samples"}));
    // The samples are the rows 2, 1 and 0: see above.
    assert_eq!(data.numbers["time.bin"], [0, 0, 1, 599]);
    assert_eq!(data.numbers["time.row"], [1, 2, 2, 0]);
    assert_eq!(data.numbers["time.count"], [1, 2, 1, 1]);
}

/// Parts of 10,000 ns. A wait counts in each part as long as it was in it, and what was before the capture in none.
#[test]
fn waits_are_counted_as_long_as_they_last() {
    let mut profile = example();
    profile.duration_ns = 6_000_000;
    let moment = |at_ns, lasted_ns, sample| Moment { at_ns, lasted_ns, sample };
    profile.moments =
        vec![moment(5_000, 9_000, 0), moment(25_000, 21_000, 1), moment(26_000, 1_000, 1), moment(7, 0, 2)];
    let data = Data::of(&page(&profile, &EncodeOptions::default()));
    assert_eq!(data.header["time"], serde_json::json!({"bins": 600, "width": 10_000, "of": "time"}));
    assert_eq!(data.numbers["time.bin"], [0, 0, 1, 2]);
    assert_eq!(data.numbers["time.row"], [1, 2, 1, 1]);
    assert_eq!(data.numbers["time.count"], [6_000, 5_000, 10_000, 6_000]);
}

/// Waits of many stacks, each in all parts of the time: there are fewer parts then.
#[test]
fn many_long_waits_have_fewer_parts() {
    let mut builder = Builder::new(&[ValueType::new("blocks", "count")], ValueType::default(), 1);
    for number in 0..3_000_u32 {
        let leaf = builder.synthetic(&format!("f{number}"));
        let sample = builder.add(Vec::new(), vec![leaf], &[1]);
        builder.add_moment(Moment { at_ns: 6_000_000, lasted_ns: 6_000_000, sample });
    }
    let data = Data::of(&page(&builder.finish(0, 6_000_000, Vec::new()), &EncodeOptions::default()));
    assert_eq!(data.header["time"]["bins"], 300);
    assert_eq!(data.numbers["time.row"].len(), 900_000);
    assert_eq!(data.numbers["time.count"].iter().sum::<u64>(), 3_000 * 6_000_000);
}

#[test]
fn names_are_no_markup() {
    let mut builder = Builder::new(&[ValueType::new("samples", "count")], ValueType::default(), 1);
    let hostile = "</script><script>alert(1)</script>";
    let leaf = builder.synthetic(hostile);
    builder.add(vec![Label::str("comm", hostile)], vec![leaf], &[1]);
    let title = hostile.to_owned();
    let text = page(
        &builder.finish(0, 0, vec![hostile.to_owned()]),
        &EncodeOptions { title, ..EncodeOptions::default() },
    );
    assert!(!text.contains(hostile));
    assert_eq!(Data::of(&text).texts["frame.name"], [hostile]);
    assert!(text.contains("content=\"default-src 'none'; script-src 'sha256-"));
}
