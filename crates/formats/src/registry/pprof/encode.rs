//! Model to message to bytes.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use profile::{Function, LabelValue, MappingId, Profile, ValueType};
use prost::Message as _;

use super::proto;

/// The compressed message. Ids are table positions plus one; strings appear in the order of their first use.
#[must_use]
pub fn encode(profile: &Profile) -> Vec<u8> {
    let message = message(profile).encode_to_vec();
    let mut gzip: GzEncoder<Vec<u8>> = GzBuilder::new().write(Vec::new(), Compression::default());
    gzip.write_all(&message).and_then(|()| gzip.finish()).expect("writing to a Vec cannot fail")
}

/// The string table; the empty string has index 0.
struct Strings<'a> {
    ids: HashMap<&'a str, i64>,
    table: Vec<String>,
}

impl<'a> Strings<'a> {
    fn new() -> Self {
        Self { ids: HashMap::from([("", 0)]), table: vec![String::new()] }
    }

    fn id(&mut self, text: &'a str) -> i64 {
        *self.ids.entry(text).or_insert_with(|| {
            self.table.push(text.to_owned());
            self.table.len() as i64 - 1
        })
    }

    /// Adds a text that was made here. It is not looked up again.
    fn id_of_owned(&mut self, text: String) -> i64 {
        self.table.push(text);
        self.table.len() as i64 - 1
    }

    fn value_type(&mut self, value_type: &'a ValueType) -> proto::ValueType {
        proto::ValueType { kind: self.id(&value_type.kind), unit: self.id(&value_type.unit) }
    }
}

fn message(profile: &Profile) -> proto::Profile {
    let mut strings = Strings::new();
    let detail = MappingDetail::of_all(profile);
    proto::Profile {
        sample_type: profile.sample_types.iter().map(|t| strings.value_type(t)).collect(),
        period_type: Some(strings.value_type(&profile.period_type)),
        default_sample_type: strings.id(&profile.default_sample_type),
        sample: profile.samples.iter().map(|s| sample(s, &mut strings)).collect(),
        mapping: profile
            .mappings
            .iter()
            .zip(detail)
            .enumerate()
            .map(|(index, (m, detail))| proto::Mapping {
                id: index as u64 + 1,
                memory_start: m.start.0,
                memory_limit: m.limit.0,
                file_offset: m.file_offset.0,
                filename: strings.id(&m.filename),
                build_id: m.build_id.as_ref().map_or(0, |id| strings.id_of_owned(id.to_string())),
                has_functions: detail.functions,
                has_filenames: detail.filenames,
                has_line_numbers: detail.line_numbers,
                has_inline_frames: detail.inline_frames(),
            })
            .collect(),
        location: profile
            .locations
            .iter()
            .enumerate()
            .map(|(index, l)| proto::Location {
                id: index as u64 + 1,
                mapping_id: l.mapping.map_or(0, |MappingId(m)| u64::from(m) + 1),
                address: l.address,
                line: l
                    .lines
                    .iter()
                    .map(|line| proto::Line {
                        function_id: u64::from(line.function.0) + 1,
                        line: line.line.into(),
                        column: line.column.into(),
                    })
                    .collect(),
            })
            .collect(),
        function: profile
            .functions
            .iter()
            .enumerate()
            .map(|(index, f)| proto::Function {
                id: index as u64 + 1,
                name: strings.id(&f.name),
                system_name: strings.id(&f.system_name),
                filename: strings.id(&f.filename),
                start_line: f.start_line.into(),
            })
            .collect(),
        comment: profile.comments.iter().map(|c| strings.id(c)).collect(),
        time_nanos: profile.time_ns,
        duration_nanos: profile.duration_ns,
        period: profile.period,
        string_table: strings.table,
    }
}

fn sample<'a>(sample: &'a profile::Sample, strings: &mut Strings<'a>) -> proto::Sample {
    proto::Sample {
        location_id: sample.locations.iter().map(|l| u64::from(l.0) + 1).collect(),
        value: sample.values.clone(),
        label: sample
            .labels
            .iter()
            .map(|label| {
                let key = strings.id(&label.key);
                match &label.value {
                    LabelValue::Str(text) => {
                        proto::Label { key, str: strings.id(text), ..Default::default() }
                    }
                    LabelValue::Num(num) => proto::Label { key, num: *num, ..Default::default() },
                }
            })
            .collect(),
    }
}

/// The details that are known at *every* location of a mapping; none for a mapping without locations.
#[derive(Clone, Copy)]
struct MappingDetail {
    functions: bool,
    filenames: bool,
    line_numbers: bool,
    native: bool,
}

impl MappingDetail {
    fn of_all(profile: &Profile) -> Vec<Self> {
        let mut used = vec![false; profile.mappings.len()];
        let mut details: Vec<_> = profile
            .mappings
            .iter()
            .map(|m| Self {
                functions: true,
                filenames: true,
                line_numbers: true,
                native: m.filename != "[jit]",
            })
            .collect();
        for location in &profile.locations {
            let Some(MappingId(index)) = location.mapping else { continue };
            let Some(detail) = details.get_mut(index as usize) else { continue };
            used[index as usize] = true;
            let functions = || location.lines.iter().map(|l| profile.functions.get(l.function.0 as usize));
            let any = !location.lines.is_empty();
            let is_named = |f: &Function| !f.name.is_empty() && f.start_in_name().is_none();
            detail.functions &= any && functions().all(|f| f.is_some_and(is_named));
            detail.filenames &= any && functions().all(|f| f.is_some_and(|f| !f.filename.is_empty()));
            detail.line_numbers &= any && location.lines.iter().all(|l| l.line != 0);
        }
        for (detail, used) in details.iter_mut().zip(used) {
            if !used {
                *detail = Self { functions: false, filenames: false, line_numbers: false, ..*detail };
            }
        }
        details
    }

    /// Debug information of native code with files and lines also says what was inlined; perf maps of JIT code do not.
    fn inline_frames(self) -> bool {
        self.functions && self.filenames && self.line_numbers && self.native
    }
}
