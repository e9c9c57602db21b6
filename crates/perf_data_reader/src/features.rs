//! What the file tells of the machine and of its files: sections behind the data.

use std::collections::HashMap;
use std::io::{Read, Seek};

use profile::BuildId;

use crate::attr::Attrs;
use crate::budget::{Budget, Full};
use crate::bytes::{Bytes, u64_at};
use crate::error::Error;
use crate::header::Sections;
use crate::source::{Section, Source};

/// Longer sections are not read.
const MAX_SECTION: u64 = 64 << 20;
/// Bytes of a build-id in its table.
const ENTRY: usize = 96;

const BUILD_ID: u32 = 2;
const HOSTNAME: u32 = 3;
const OS_RELEASE: u32 = 4;
const VERSION: u32 = 5;
const ARCH: u32 = 6;
const COMMAND: u32 = 11;
const EVENTS: u32 = 12;

/// The facts that are used.
#[derive(Debug, Default)]
pub(crate) struct Features {
    /// By path, as records of mappings name it.
    pub(crate) build_ids: HashMap<String, BuildId>,
    pub(crate) hostname: String,
    pub(crate) release: String,
    pub(crate) version: String,
    pub(crate) arch: String,
    pub(crate) command: Vec<String>,
}

impl Features {
    /// Reads the sections, and the names of the events.
    pub(crate) fn read<R: Read + Seek>(
        source: &mut Source<R>,
        header: &Sections,
        attrs: &mut Attrs,
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        let what = "the list of features";
        let index = header.data.at.saturating_add(header.data.size);
        let size = 16 * header.features().count() as u64;
        // Of a recording that did not end, the size of the data is 0 and nothing follows.
        if header.data.size > 0 && size > 0 {
            let index = source.section(Section { at: index, size }, what, size)?;
            for (feature, entry) in header.features().zip(index.as_chunks::<16>().0) {
                if ![BUILD_ID, HOSTNAME, OS_RELEASE, VERSION, ARCH, COMMAND, EVENTS].contains(&feature) {
                    continue;
                }
                let at = u64_at(entry, 0).unwrap_or_default();
                let size = u64_at(entry, 8).unwrap_or_default();
                let bytes = source.section(Section { at, size }, "a feature", MAX_SECTION)?;
                found.enter(feature, &bytes, attrs);
            }
        }
        attrs.name_the_rest();
        Ok(found)
    }

    /// Takes the content of a feature.
    pub(crate) fn enter(&mut self, feature: u32, bytes: &[u8], attrs: &mut Attrs) {
        let text = |bytes: &[u8]| string(&mut Bytes(bytes)).unwrap_or_default();
        match feature {
            BUILD_ID => self.build_ids = build_ids(bytes),
            HOSTNAME => self.hostname = text(bytes),
            OS_RELEASE => self.release = text(bytes),
            VERSION => self.version = text(bytes),
            ARCH => self.arch = text(bytes),
            EVENTS => attrs.enter_names(bytes),
            COMMAND => {
                let mut bytes = Bytes(bytes);
                let count = bytes.u32().unwrap_or_default();
                self.command = (0..count).map_while(|_| string(&mut bytes)).collect();
            }
            _ => {}
        }
    }

    /// Takes the record of a build-id, in a stream.
    pub(crate) fn enter_build_id(&mut self, misc: u16, body: &[u8], budget: &mut Budget) -> Result<(), Full> {
        budget.charge(body.len() + ENTRY)?;
        self.build_ids.extend(build_id(misc, body));
        Ok(())
    }
}

/// A length and a text.
fn string(bytes: &mut Bytes<'_>) -> Option<String> {
    let length = bytes.u32()?;
    Some(Bytes(bytes.take(length as usize)?).text())
}

/// `{type, misc, size, pid, build-id in 24 bytes, path}…`.
fn build_ids(mut bytes: &[u8]) -> HashMap<String, BuildId> {
    let mut found = HashMap::new();
    while let Some((head, _)) = bytes.split_at_checked(8) {
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (misc, size) = (half(4), usize::from(half(6)));
        let Some((entry, rest)) = bytes.split_at_checked(size.max(8)) else { break };
        bytes = rest;
        found.extend(build_id(misc, entry.get(8..).unwrap_or_default()));
    }
    found
}

/// `{pid, build-id in 24 bytes, path}`; the 21st byte is the length of the build-id if `misc` says so.
fn build_id(misc: u16, body: &[u8]) -> Option<(String, BuildId)> {
    const HAS_SIZE: u16 = 1 << 15;
    let (id, path) = (body.get(4..28)?, body.get(28..)?);
    let length = if misc & HAS_SIZE != 0 { usize::from(*id.get(20)?) } else { 20 };
    Some((Bytes(path).text(), BuildId::new(id.get(..length)?).ok()?))
}
