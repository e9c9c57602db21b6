//! Features: what is told of the machine and of the capture, behind the records.

use crate::attr::{ATTR_BYTES, Event};
use crate::bytes::Bytes;
use crate::record::{BUILD_ID_BYTES, MISC_KERNEL, MISC_USER};

/// Names are padded to this.
const NAME_UNIT: usize = 64;
/// The size of a build-id is told.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;
/// Bytes of names of files that are kept at most.
const MAX_PATH: usize = 4_096;

/// The build-id of a file that samples have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBuildId {
    /// It is the kernel, or a part of it.
    pub kernel: bool,
    /// The build-id.
    pub build_id: Vec<u8>,
    /// The name that the records of mappings have.
    pub path: Vec<u8>,
}

/// What is told of the machine and of the capture. What is not known is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Files that samples have.
    pub build_ids: Vec<FileBuildId>,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// Release of its kernel.
    pub os_release: Option<String>,
    /// Name and version of the program that writes.
    pub version: Option<String>,
    /// The processor's architecture.
    pub arch: Option<String>,
    /// CPUs that there may be, and that are online.
    pub cpus: Option<(u32, u32)>,
    /// The model of the processor.
    pub cpu_description: Option<String>,
    /// Memory, in KiB.
    pub memory_kib: Option<u64>,
    /// The command line of the program that writes.
    pub command_line: Vec<String>,
    /// Times of the first and the last sample.
    pub sample_times: Option<(u64, u64)>,
    /// Resolution of the clock, in ns.
    pub clock_resolution_ns: Option<u64>,
}

impl Features {
    /// The bits and payloads, by bit.
    pub(crate) fn encode(&self, events: &[Event]) -> Vec<(u32, Vec<u8>)> {
        let text = |text: &Option<String>| text.as_ref().map(|text| payload(|to| name(to, text)));
        let command_line = || {
            payload(|to| {
                to.u32(self.command_line.len() as u32);
                self.command_line.iter().for_each(|word| name(to, word));
            })
        };
        let all = [
            (2, (!self.build_ids.is_empty()).then(|| payload(|to| build_ids(to, &self.build_ids)))),
            (3, text(&self.hostname)),
            (4, text(&self.os_release)),
            (5, text(&self.version)),
            (6, text(&self.arch)),
            (7, self.cpus.map(|(available, online)| payload(|to| _ = to.u32(available).u32(online)))),
            (8, text(&self.cpu_description)),
            (10, self.memory_kib.map(|kib| payload(|to| _ = to.u64(kib)))),
            (11, (!self.command_line.is_empty()).then(command_line)),
            (12, Some(payload(|to| descriptions(to, events)))),
            (21, self.sample_times.map(|(first, last)| payload(|to| _ = to.u64(first).u64(last)))),
            (23, self.clock_resolution_ns.map(|resolution| payload(|to| _ = to.u64(resolution)))),
        ];
        all.into_iter().filter_map(|(bit, payload)| Some((bit, payload?))).collect()
    }
}

fn payload(fill: impl FnOnce(&mut Bytes)) -> Vec<u8> {
    let mut bytes = Bytes::default();
    fill(&mut bytes);
    bytes.into_vec()
}

/// A text with its padded length before it.
fn name(to: &mut Bytes, text: &str) {
    let padded = payload(|to| _ = to.name(text.as_bytes(), NAME_UNIT));
    to.u32(padded.len() as u32).raw(&padded);
}

fn build_ids(to: &mut Bytes, files: &[FileBuildId]) {
    for FileBuildId { kernel, build_id, path } in files {
        let id = build_id.get(..BUILD_ID_BYTES).unwrap_or(build_id);
        let path = path.get(..MAX_PATH).unwrap_or(path);
        let padded = payload(|to| _ = to.name(path, NAME_UNIT));
        let misc = MISC_BUILD_ID_SIZE | if *kernel { MISC_KERNEL } else { MISC_USER };
        to.u32(0).u16(misc).u16((36 + padded.len()) as u16).u32(u32::MAX);
        to.raw(id).raw(&[0; BUILD_ID_BYTES][id.len()..]).raw(&[id.len() as u8, 0, 0, 0]).raw(&padded);
    }
}

fn descriptions(to: &mut Bytes, events: &[Event]) {
    to.u32(events.len() as u32).u32(ATTR_BYTES);
    for event in events {
        to.raw(&event.attr.encode()).u32(1);
        name(to, &event.name);
        to.u64(event.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_has_its_size_and_a_padded_name() {
        let file = FileBuildId { kernel: false, build_id: vec![1, 2, 3], path: b"/a".to_vec() };
        let features = Features { build_ids: vec![file], ..Features::default() };
        let encoded = features.encode(&[]);
        let (bit, bytes) = &encoded[0];
        assert_eq!((*bit, bytes.len()), (2, 100));
        assert_eq!(bytes[..8], [&[0; 4][..], &0x8002_u16.to_ne_bytes(), &100_u16.to_ne_bytes()].concat());
        assert_eq!(bytes[8..12], [255; 4]);
        assert_eq!(bytes[12..16], [1, 2, 3, 0]);
        assert_eq!(bytes[32..39], [3, 0, 0, 0, b'/', b'a', 0]);
    }

    #[test]
    fn only_what_is_known_is_told() {
        let bits = |features: Features| -> Vec<u32> {
            features.encode(&[]).into_iter().map(|(bit, _)| bit).collect()
        };
        assert_eq!(bits(Features::default()), [12]);
        let text = || Some("x".to_owned());
        let all = Features {
            build_ids: vec![FileBuildId { kernel: true, build_id: vec![1], path: b"[k]".to_vec() }],
            hostname: text(),
            os_release: text(),
            version: text(),
            arch: text(),
            cpus: Some((4, 2)),
            cpu_description: text(),
            memory_kib: Some(9),
            command_line: vec!["a".to_owned()],
            sample_times: Some((1, 2)),
            clock_resolution_ns: Some(1),
        };
        let encoded = all.encode(&[]);
        let payload = |bit: u32| encoded.iter().find(|(found, _)| *found == bit).unwrap().1.clone();
        assert_eq!(payload(3), [&64_u32.to_ne_bytes()[..], b"x", &[0; 63]].concat());
        assert_eq!(payload(7), [4_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
        assert_eq!(payload(11).len(), 4 + 4 + 64);
        assert_eq!(payload(21), [1_u64.to_ne_bytes(), 2_u64.to_ne_bytes()].concat());
        assert_eq!(bits(all), [2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 21, 23]);
    }
}
