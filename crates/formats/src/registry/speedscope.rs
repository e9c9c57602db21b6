//! JSON for the viewer speedscope: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>.
//!
//! The first profile in the file has all stacks. If they belong to several processes or threads (see [`Merge`](crate::Merge)), one profile
//! for each of these follows. The samples of a profile have no times: their order is that of their stacks. Labels and kinds of frames are not
//! part of the format.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::IndexSet;
use profile::{Profile, Sample};
use serde::Serialize;

use crate::named_frames::NamedFrames;
use crate::registry::folded::check_value;
use crate::{EncodeOptions, Encoder};

/// The format of speedscope.
pub struct Speedscope;

impl Encoder for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn extensions(&self) -> &[&'static str] {
        &["speedscope.json"]
    }

    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        let value = options.value_index(profile);
        check_value(profile, value)?;
        let mut stacks = Stacks::new(profile, options);
        profile.samples.iter().for_each(|sample| stacks.add(sample, value));
        let unit = profile.sample_types.get(value).map_or("none", |of| unit(&of.unit));
        serde_json::to_writer(&mut *out, &stacks.file(&options.title, unit))?;
        out.write_all(b"\n")
    }
}

/// The units that the format knows.
fn unit(unit: &str) -> &'static str {
    match unit {
        "nanoseconds" => "nanoseconds",
        "microseconds" => "microseconds",
        "milliseconds" => "milliseconds",
        "seconds" => "seconds",
        "bytes" => "bytes",
        _ => "none",
    }
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: u32,
    shared: Shared<'a>,
    profiles: Vec<Weighted>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
struct Frame<'a> {
    name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    /// Of the declaration.
    #[serde(skip_serializing_if = "is_zero")]
    line: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(line: &u32) -> bool {
    *line == 0
}

#[derive(Serialize)]
struct Weighted {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: u64,
    /// The sum of all weights.
    #[serde(rename = "endValue")]
    end: u64,
    /// Indices of frames, from the root on.
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Sums by stack.
type Sums = BTreeMap<Vec<usize>, u64>;

struct Stacks<'a> {
    profile: &'a Profile,
    named: NamedFrames,
    frames: IndexSet<Frame<'a>>,
    all: Sums,
    /// By the names of process and thread.
    by_owner: BTreeMap<String, Sums>,
}

impl<'a> Stacks<'a> {
    fn new(profile: &'a Profile, options: &EncodeOptions) -> Self {
        let named = NamedFrames::new(profile, options.merge);
        Self { profile, named, frames: IndexSet::new(), all: Sums::new(), by_owner: BTreeMap::new() }
    }

    fn add(&mut self, sample: &Sample, value: usize) {
        let weight = sample.values.get(value).copied().and_then(|weight| u64::try_from(weight).ok());
        let Some(weight) = weight.filter(|weight| *weight > 0) else { return };
        let mut stack = Vec::new();
        for id in sample.locations.iter().rev() {
            let Some(location) = self.profile.locations.get(id.0 as usize) else { continue };
            // A location without a line has one frame all the same.
            let mut lines = location.lines.iter().rev();
            for named in self.named.at(*id) {
                let of = lines.next().and_then(|line| self.profile.functions.get(line.function.0 as usize));
                let (file, line) = of.map_or(("", 0), |of| (of.filename.as_str(), of.start_line));
                stack.push(self.frames.insert_full(Frame { name: named.name.clone(), file, line }).0);
            }
        }
        let owners: Vec<String> = self.named.owners(sample).into_iter().map(|owner| owner.name).collect();
        let add_to = |sums: &mut Sums, stack| {
            let sum: &mut u64 = sums.entry(stack).or_default();
            *sum = sum.saturating_add(weight);
        };
        if !owners.is_empty() {
            add_to(self.by_owner.entry(owners.join(", ")).or_default(), stack.clone());
        }
        add_to(&mut self.all, stack);
    }

    fn file(self, title: &'a str, unit: &'static str) -> File<'a> {
        let all = std::iter::once(("all".to_owned(), self.all));
        let profiles = all.chain(self.by_owner).map(|(name, sums)| weighted(name, sums, unit)).collect();
        File {
            schema: "https://www.speedscope.app/file-format-schema.json",
            exporter: concat!("perf-agent ", env!("CARGO_PKG_VERSION")),
            name: title,
            active: 0,
            shared: Shared { frames: self.frames.into_iter().collect() },
            profiles,
        }
    }
}

fn weighted(name: String, sums: Sums, unit: &'static str) -> Weighted {
    let (samples, weights): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
    let end = weights.iter().copied().fold(0, u64::saturating_add);
    Weighted { kind: "sampled", name, unit, start: 0, end, samples, weights }
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Function, Label, Line, Mapping, ValueType};

    use super::*;

    fn example() -> Profile {
        let cpu = ValueType::new("cpu", "nanoseconds");
        let mut b = Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 10);
        let app = b.mapping(Mapping { filename: "/bin/app".into(), ..Mapping::default() });
        let line = |b: &mut Builder, name: &str, start_line| {
            let filename = "a.c".into();
            let function =
                b.function(Function { name: name.into(), filename, start_line, ..Function::default() });
            Line { function, line: 40, column: 0 }
        };
        let chain = vec![line(&mut b, "inner", 12), line(&mut b, "outer", 30)];
        let chain = b.location(Some(app), 0x1234, chain);
        let unnamed = b.location(Some(app), 0x40, Vec::new());
        let labels = |comm: &str| vec![Label::str("comm", comm)];
        b.add(labels("one"), vec![chain, unnamed], &[1, 10]);
        b.add(labels("two"), vec![chain, unnamed], &[2, 20]);
        b.add(labels("two"), vec![unnamed], &[3, 30]);
        b.finish(0, 0, Vec::new())
    }

    #[test]
    fn golden() {
        let mut out = Vec::new();
        let options = EncodeOptions { title: "On-CPU time".into(), ..EncodeOptions::default() };
        Speedscope.encode(&example(), &options, &mut out).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let profile = |name: &str, samples: serde_json::Value, weights: &[u64]| {
            serde_json::json!({"type": "sampled", "name": name, "unit": "nanoseconds", "startValue": 0,
                "endValue": weights.iter().sum::<u64>(), "samples": samples, "weights": weights})
        };
        assert_eq!(
            found,
            serde_json::json!({
                "$schema": "https://www.speedscope.app/file-format-schema.json",
                "exporter": concat!("perf-agent ", env!("CARGO_PKG_VERSION")),
                "name": "On-CPU time",
                "activeProfileIndex": 0,
                "shared": {"frames": [{"name": "[app+0x40]"}, {"name": "outer", "file": "a.c", "line": 30},
                    {"name": "inner", "file": "a.c", "line": 12}]},
                "profiles": [
                    profile("all", serde_json::json!([[0], [0, 1, 2]]), &[30, 30]),
                    profile("one", serde_json::json!([[0, 1, 2]]), &[10]),
                    profile("two", serde_json::json!([[0], [0, 1, 2]]), &[30, 20]),
                ],
            })
        );
    }

    #[test]
    fn one_owner_has_no_profile_of_its_own_and_counts_have_no_unit() {
        let mut profile = example();
        profile.samples.retain(|sample| sample.labels == [Label::str("comm", "one")]);
        let mut out = Vec::new();
        let options = EncodeOptions { value: Some(0), ..EncodeOptions::default() };
        Speedscope.encode(&profile, &options, &mut out).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(found["profiles"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&found["profiles"][0]["unit"], &found["profiles"][0]["endValue"]),
            (&"none".into(), &1.into())
        );
    }
}
