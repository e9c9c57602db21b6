//! Stacks as newline-delimited JSON: one object for each distinct stack with its labels.
//!
//! Objects are sorted by stack, then by labels, and are distinct; the values of equal ones are added up. Keys with an unknown
//! or empty value are left out. Addresses are hexadecimal text: many JSON readers round numbers above 2^53.

use std::collections::BTreeMap;
use std::io::{self, Write};

use profile::{LabelValue, Line, Location, MappingId, Profile, Sample};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::{EncodeOptions, Encoder};

/// Newline-delimited JSON as a registered format. It contains all values of the profile.
pub struct Ndjson;

impl Encoder for Ndjson {
    fn name(&self) -> &'static str {
        "ndjson"
    }

    fn extensions(&self) -> &[&'static str] {
        &["ndjson"]
    }

    fn encode(&self, profile: &Profile, _: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        for ((frames, labels), values) in stacks(profile) {
            let names = profile.sample_types.iter().map(|t| format!("{}/{}", t.kind, t.unit));
            let values = Members(names.zip(values).collect());
            serde_json::to_writer(&mut *out, &Stack { frames, values, labels: Members(labels) })?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Stack<'a> {
    /// Leaf first.
    frames: Vec<Frame<'a>>,
    /// By `KIND/UNIT` of the sample type.
    values: Members<String, i64>,
    #[serde(skip_serializing_if = "Members::is_empty")]
    labels: Members<&'a str, Value<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Frame<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    line: u32,
    /// The file with the code.
    #[serde(skip_serializing_if = "str::is_empty")]
    mapping: &'a str,
    /// Link-time address in `mapping`. Inlined functions have that of the frame that contains them.
    #[serde(skip_serializing_if = "is_zero", serialize_with = "hexadecimal")]
    address: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

/// The members of a JSON object, in order.
struct Members<K, V>(Vec<(K, V)>);

impl<K, V> Members<K, V> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Serialize, V: Serialize> Serialize for Members<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

fn hexadecimal<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{address:#x}"))
}

type Key<'a> = (Vec<Frame<'a>>, Vec<(&'a str, Value<'a>)>);

/// The values of each distinct stack with its labels.
fn stacks(profile: &Profile) -> BTreeMap<Key<'_>, Vec<i64>> {
    let mut stacks: BTreeMap<Key<'_>, Vec<i64>> = BTreeMap::new();
    for sample in &profile.samples {
        let sums = stacks
            .entry((frames(profile, sample), labels(sample)))
            .or_insert_with(|| vec![0; profile.sample_types.len()]);
        sums.iter_mut().zip(&sample.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
    stacks
}

fn frames<'a>(profile: &'a Profile, sample: &Sample) -> Vec<Frame<'a>> {
    let locations = sample.locations.iter().filter_map(|id| profile.locations.get(id.0 as usize));
    locations.flat_map(|location| frames_at(profile, location)).collect()
}

/// The frames of a location, the innermost first.
fn frames_at<'a>(profile: &'a Profile, location: &'a Location) -> Vec<Frame<'a>> {
    let mapping = location.mapping.and_then(|MappingId(index)| profile.mappings.get(index as usize));
    let mapping = mapping.map_or("", |mapping| mapping.filename.as_str());
    let unnamed = Frame { name: "", file: "", line: 0, mapping, address: location.address };
    if location.lines.is_empty() {
        return vec![unnamed];
    }
    let named = |line: &Line| match profile.functions.get(line.function.0 as usize) {
        Some(function) => {
            Frame { name: &function.name, file: &function.filename, line: line.line, ..unnamed.clone() }
        }
        None => unnamed.clone(),
    };
    location.lines.iter().map(named).collect()
}

fn labels(sample: &Sample) -> Vec<(&str, Value<'_>)> {
    let value = |value| match value {
        &LabelValue::Num(number) => Value::Number(number),
        LabelValue::Str(text) => Value::Text(text),
    };
    sample.labels.iter().map(|label| (label.key.as_str(), value(&label.value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Builder, Function, Label, LocationId, Mapping, ValueType};

    fn builder() -> Builder {
        let cpu = ValueType::new("cpu", "nanoseconds");
        Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 10)
    }

    fn line(b: &mut Builder, name: &str, filename: &str, line: u32) -> Line {
        let function = Function { name: name.into(), filename: filename.into(), ..Function::default() };
        Line { function: b.function(function), line, column: 1 }
    }

    fn text(profile: &Profile) -> String {
        let mut out = Vec::new();
        Ndjson.encode(profile, &EncodeOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn labels(pid: i64) -> Vec<Label> {
        vec![Label::num("pid", pid), Label::str("comm", "a \"b\"\n")]
    }

    /// An inlined function, an unnamed frame, the kernel, and a stack that was cut.
    fn example() -> Profile {
        let mut b = builder();
        let app = b.mapping(Mapping { filename: "/bin/app".into(), ..Mapping::default() });
        let kernel = b.mapping(Mapping { filename: "[kernel.kallsyms]".into(), ..Mapping::default() });
        let chain = vec![line(&mut b, "inner", "a.c", 12), line(&mut b, "outer", "a.c", 30)];
        let chain = b.location(Some(app), 0x1234, chain);
        let unnamed = b.location(Some(app), 0x40, Vec::new());
        let read = vec![line(&mut b, "vfs_read", "", 0)];
        let read = b.location(Some(kernel), 0xffff_ffff_8100_0000, read);
        let cut = b.synthetic("[truncated: frame limit]");
        b.add(labels(8), vec![read, unnamed], &[1, 10]);
        b.add(labels(7), vec![chain, cut], &[3, 30]);
        b.add(Vec::new(), Vec::new(), &[2, 20]);
        b.finish(1, 2, Vec::new())
    }

    #[test]
    fn golden() {
        let expected = [
            r#"{"frames":[],"values":{"samples/count":2,"cpu/nanoseconds":20}}"#,
            concat!(
                r#"{"frames":[{"name":"inner","file":"a.c","line":12,"mapping":"/bin/app","address":"0x1234"},"#,
                r#"{"name":"outer","file":"a.c","line":30,"mapping":"/bin/app","address":"0x1234"},"#,
                r#"{"name":"[truncated: frame limit]"}],"values":{"samples/count":3,"cpu/nanoseconds":30},"#,
                r#""labels":{"pid":7,"comm":"a \"b\"\n"}}"#
            ),
            concat!(
                r#"{"frames":[{"name":"vfs_read","mapping":"[kernel.kallsyms]","address":"0xffffffff81000000"},"#,
                r#"{"mapping":"/bin/app","address":"0x40"}],"values":{"samples/count":1,"cpu/nanoseconds":10},"#,
                r#""labels":{"pid":8,"comm":"a \"b\"\n"}}"#
            ),
        ];
        assert_eq!(text(&example()).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_order_of_samples_does_not_matter() {
        let mut reversed = example();
        reversed.samples.reverse();
        assert_eq!(text(&reversed), text(&example()));
    }

    /// Two files can show one path and hold different code.
    #[test]
    fn stacks_that_look_the_same_are_added_up() {
        let mut b = builder();
        let mut frame = |start| -> LocationId {
            let filename = "/bin/app".into();
            let mapping = b.mapping(Mapping { filename, start: profile::Svma(start), ..Mapping::default() });
            b.location(Some(mapping), 0x40, Vec::new())
        };
        let (one, other) = (frame(0), frame(0x1000));
        b.add(labels(7), vec![one], &[1, 10]);
        b.add(labels(7), vec![other], &[2, i64::MAX]);
        b.add(labels(8), vec![one], &[4, 40]);
        let text = text(&b.finish(0, 0, Vec::new()));
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.contains(r#""values":{"samples/count":3,"cpu/nanoseconds":9223372036854775807}"#),
            "{text}"
        );
        assert!(
            text.contains(r#""values":{"samples/count":4,"cpu/nanoseconds":40},"labels":{"pid":8"#),
            "{text}"
        );
    }
}
