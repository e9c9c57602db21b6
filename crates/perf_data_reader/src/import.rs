//! Records, one after the other, as sums of stacks.

use std::io::{Read, Seek};

use profile::BuildId;

use crate::attr::{Attr, Attrs, sample_type};
use crate::budget::{Budget, Full};
use crate::bytes::{Bytes, U64s, u64_at};
use crate::error::Error;
use crate::features::Features;
use crate::files::{FileTable, Files, RecordedFile};
use crate::groups::Groups;
use crate::header::Header;
use crate::processes::{Processes, Region};
use crate::record::{Mapped, Record, kind, misc};
use crate::records::{RawRecord, Records};
use crate::resolve::{kernel_place, user_place};
use crate::rounds::{Ordered, Rounds};
use crate::sample::Sample;
use crate::source::{Section, Source};
use crate::stacks::{Place, Stacks, Task, Within};
use crate::walk::Walker;

/// Pid of mappings of the kernel.
const OF_KERNEL: i32 = -1;
/// Modules of the kernel that are remembered.
const MAX_MODULES: usize = 4096;
/// `branch_sample_type`: call stacks by branch records.
const CALL_STACK: u64 = 1 << 11;

/// The marks in a chain of addresses: what follows is of the kernel, of a program, or of neither (a guest, a hypervisor).
const FIRST_CONTEXT: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

/// Where the kernel was loaded.
#[derive(Debug, Default)]
pub(crate) struct KernelPlaces {
    pub(crate) build_id: Option<BuildId>,
    pub(crate) text: Option<u64>,
    pub(crate) stext: Option<u64>,
    /// Start, size, name, build-id.
    pub(crate) modules: Vec<(u64, u64, String, Option<BuildId>)>,
}

/// What the records told.
#[derive(Default)]
pub(crate) struct Imported {
    pub(crate) attrs: Attrs,
    pub(crate) features: Features,
    pub(crate) processes: Processes,
    pub(crate) files: FileTable,
    pub(crate) stacks: Stacks,
    pub(crate) kernel: KernelPlaces,
    /// Samples of each event.
    pub(crate) samples: Vec<u64>,
    pub(crate) first_time: Option<u64>,
    pub(crate) last_time: u64,
    pub(crate) told: Vec<String>,
    pub(crate) lost: u64,
    /// Samples of no event that the file lists.
    of_no_event: u64,
    budget: Budget,
    groups: Groups,
    walker: Walker,
    places: Vec<Place>,
    words: Vec<u64>,
}

/// Reads a file.
pub(crate) fn import<R: Read + Seek>(input: R, by: &mut dyn Files) -> Result<Imported, Error> {
    let mut source = Source::new(input)?;
    let Header::Sections(header) = Header::read(&mut source)? else {
        return Imported::default().read_stream(source, by);
    };
    let mut attrs = Attrs::read(&mut source, &header)?;
    let features = Features::read(&mut source, &header, &mut attrs)?;
    let mut imported = Imported {
        samples: vec![0; attrs.all.len()],
        walker: Walker::new(&features.arch),
        attrs,
        features,
        ..Imported::default()
    };
    by.machine(&imported.features.hostname, &imported.features.release);
    let Section { at, size } = header.data;
    if at > source.end {
        return Err(Error::CutOff { what: "the data", at, end: source.end });
    }
    source.seek(at)?;
    // Of a recording that was not ended the size is 0.
    let end = (size > 0).then(|| at.saturating_add(size));
    let mut records = Records::new(source, end);
    imported.read(&mut records, false, by)?;
    if end.is_none() {
        imported.tell_end(records.cut_at.unwrap_or(records.read_up_to()));
    }
    Ok(imported)
}

/// Reads a stream, in which records describe the rest.
pub(crate) fn import_stream<R: Read>(input: R, by: &mut dyn Files) -> Result<Imported, Error> {
    let mut source = Source::stream(input);
    match Header::read(&mut source)? {
        Header::Records => Imported::default().read_stream(source, by),
        Header::Sections(_) => {
            let reason = "it is no stream (perf record -o -) but a file, whose end is needed first: give the file itself";
            Err(Error::Unsupported { reason: reason.to_owned() })
        }
    }
}

impl Imported {
    fn read_stream<R: Read>(mut self, source: Source<R>, by: &mut dyn Files) -> Result<Self, Error> {
        let mut records = Records::new(source, None);
        self.read(&mut records, true, by)?;
        self.attrs.name_the_rest();
        if self.attrs.all.is_empty() {
            let reason = "no record tells of one".to_owned();
            return Err(Error::Invalid { what: "the list of events", at: records.read_up_to(), reason });
        }
        if let Some(at) = records.cut_at {
            self.tell_end(at);
        }
        Ok(self)
    }

    fn read<R: Read>(
        &mut self,
        records: &mut Records<R>,
        is_stream: bool,
        by: &mut dyn Files,
    ) -> Result<(), Error> {
        let mut rounds = Rounds::default();
        while let Some(RawRecord { at, kind, misc, body }) = records.next()? {
            match kind {
                kind::FINISHED_ROUND => rounds.end_round(&mut |record| self.take(record, by))?,
                kind if kind >= kind::OF_PERF && is_stream => {
                    self.describe(at, kind, misc, body)?;
                    by.machine(&self.features.hostname, &self.features.release);
                }
                kind if kind >= kind::OF_PERF => {}
                _ => {
                    let time = self.attrs.time(kind == kind::SAMPLE, body);
                    rounds.add((at, kind, misc), time, body, &mut |record| self.take(record, by))?;
                }
            }
        }
        rounds.hand_on_until(u64::MAX, &mut |record| self.take(record, by))?;
        self.tell(rounds.late, records.has_aux);
        Ok(())
    }

    /// Takes a record of perf's own, as streams have them in place of sections.
    fn describe(&mut self, at: u64, kind: u32, misc: u16, body: &[u8]) -> Result<(), Error> {
        /// Of the update of an event: its name.
        const NAME: u64 = 2;
        let Self { attrs, features, budget, .. } = self;
        match kind {
            kind::HEADER_ATTR => {
                attrs.add(at, body, budget)?;
                self.samples.push(0);
            }
            kind::EVENT_UPDATE if u64_at(body, 0) == Some(NAME) => {
                if let (Some(id), Some(name)) = (u64_at(body, 8), body.get(16..)) {
                    attrs.name(id, Bytes(name).text());
                }
            }
            kind::HEADER_FEATURE => {
                let number = u64_at(body, 0).and_then(|number| u32::try_from(number).ok());
                if let (Some(number), Some(content)) = (number, body.get(8..)) {
                    features.enter(number, content, attrs);
                    self.walker.set_machine(&features.arch);
                }
            }
            kind::HEADER_BUILD_ID => features
                .enter_build_id(misc, body, budget)
                .map_err(|Full| Error::TooLarge { at, limit: Budget::LIMIT })?,
            _ => {}
        }
        Ok(())
    }

    fn tell_end(&mut self, at: u64) {
        self.told.push(format!("the recording was not ended by perf: read up to offset {at}"));
    }

    fn tell(&mut self, late: u64, has_aux: bool) {
        let mut tell = |line: String| self.told.push(line);
        if self.lost > 0 {
            tell(format!("{} samples or other records were lost while perf recorded", self.lost));
        }
        if self.of_no_event > 0 {
            tell(format!(
                "{} samples are of no event that the file lists, and are left out",
                self.of_no_event
            ));
        }
        if self.groups.of_no_event > 0 || self.groups.shrunk > 0 {
            tell(format!(
                "counts in samples of groups are left out: {} are of no event that the file lists, {} are smaller than before",
                self.groups.of_no_event, self.groups.shrunk
            ));
        }
        if late > 0 {
            tell(format!(
                "{late} records stand in no order that perf keeps: some names and mappings may be those of a moment later"
            ));
        }
        if has_aux {
            tell("hardware traces in the file are not read".to_owned());
        }
        let by_branches =
            |attr: &Attr| attr.has(sample_type::BRANCH_STACK) && attr.branch_sample_type & CALL_STACK != 0;
        if self.attrs.all.iter().any(by_branches) {
            tell("call chains in branch records (--call-graph lbr) are not read: stacks are those of the frame pointers".to_owned());
        }
        self.told.extend(self.walker.told());
    }

    fn take(&mut self, record: Ordered<'_>, by: &mut dyn Files) -> Result<(), Error> {
        let Ordered { at, kind, misc, body } = record;
        let short =
            |what| Error::Invalid { what, at, reason: "it is shorter than its type demands".to_owned() };
        let taken = if kind == kind::SAMPLE {
            let Some(event) = self.attrs.of_sample(body) else {
                self.of_no_event += 1;
                return Ok(());
            };
            let attr = self.attrs.all.get(event).ok_or_else(|| short("a sample"))?;
            let sample = Sample::parse(attr, body).ok_or_else(|| short("a sample"))?;
            let time = attr.time_of_sample(body);
            if let Some(time) = time {
                self.first_time = Some(self.first_time.map_or(time, |first| first.min(time)));
                self.last_time = self.last_time.max(time);
            }
            self.sample(event, misc, (&sample, time), by)
        } else {
            let record = Record::parse(kind, misc, body).ok_or_else(|| short("a record"))?;
            self.other(record)
        };
        taken.map_err(|Full| Error::TooLarge { at, limit: Budget::LIMIT })
    }

    fn other(&mut self, record: Record) -> Result<(), Full> {
        let Self { processes, budget, .. } = self;
        match record {
            Record::Mapped(mapped) if mapped.pid == OF_KERNEL => self.kernel_mapped(mapped),
            Record::Mapped(mapped) => return self.mapped(mapped),
            Record::Named { pid, tid, name, is_exec } => {
                return processes.rename((pid, tid), name, is_exec, budget);
            }
            Record::Forked { pid, parent, tid, parent_tid, has_mappings } => {
                return processes.fork((pid, tid), (parent, parent_tid), has_mappings, budget);
            }
            Record::Exited { pid, tid } => processes.exit(pid, tid, budget),
            Record::Lost(count) => self.lost = self.lost.saturating_add(count),
            Record::Other => {}
        }
        Ok(())
    }

    fn mapped(&mut self, mapped: Mapped) -> Result<(), Full> {
        let Mapped { pid, start, size, offset, path, build_id, inode } = mapped;
        let build_id = build_id.or_else(|| self.features.build_ids.get(&path).cloned());
        let file = self.files.number(RecordedFile::new(&path, build_id, inode), &mut self.budget)?;
        let region = Region { start, end: start.saturating_add(size), offset, file };
        self.processes.map(pid, region, &mut self.budget)
    }

    fn kernel_mapped(&mut self, mapped: Mapped) {
        let Mapped { start, size, offset, path, build_id, .. } = mapped;
        let build_id = || build_id.or_else(|| self.features.build_ids.get(&path).cloned());
        if let Some(mark) = path.strip_prefix("[kernel.kallsyms]") {
            let place = Some(offset).filter(|address| *address != 0);
            let known = || self.features.build_ids.get("[kernel.kallsyms]").cloned();
            self.kernel.build_id = build_id().or_else(known);
            match mark {
                "_text" => self.kernel.text = place,
                "_stext" => self.kernel.stext = place,
                _ => {}
            }
        } else if !path.starts_with("[guest") && self.kernel.modules.len() < MAX_MODULES {
            let name = path.rsplit('/').next().unwrap_or_default();
            let name = name.trim_matches(['[', ']']).split(".ko").next().unwrap_or_default().to_owned();
            let build_id = build_id();
            self.kernel.modules.push((start, size, name, build_id));
        }
    }

    fn sample(
        &mut self,
        event: usize,
        misc: u16,
        (sample, time): (&Sample<'_>, Option<u64>),
        by: &mut dyn Files,
    ) -> Result<(), Full> {
        let stack = self.stack(misc, sample, by)?;
        let Self { attrs, groups, budget, .. } = self;
        let attr = attrs.all.get(event).filter(|_| Groups::has_members(attrs, sample));
        let added = attr.map(|attr| groups.added(attrs, attr, sample, budget)).transpose()?;
        let Sample { pid, tid, period, .. } = *sample;
        let (process, thread) = (self.processes.name_of(pid), self.processes.name_of(tid));
        let task = Task { pid, process, tid, thread };
        let mut add = |(event, period): (usize, u64)| {
            self.stacks.add(event, task, stack, (time, period), &mut self.budget)?;
            if let Some(samples) = self.samples.get_mut(event) {
                *samples += 1;
            }
            Ok(())
        };
        match added {
            Some(added) => added.into_iter().try_for_each(add),
            None => add((event, period)),
        }
    }

    /// The number of a sample's stack.
    fn stack(&mut self, misc: u16, sample: &Sample<'_>, by: &mut dyn Files) -> Result<u32, Full> {
        let mode = misc & misc::CPU_MODE;
        let chain = sample.chain.map(U64s::iter).into_iter().flatten();
        if let Some(user) = &sample.user {
            self.places.clear();
            let mut context = mode;
            let mut is_leaf = true;
            for word in chain.filter(|word| *word != CONTEXT_USER) {
                if enter_context(word, &mut context, &mut is_leaf) {
                    continue;
                }
                if context == misc::KERNEL {
                    self.places.push(kernel_place(word, std::mem::take(&mut is_leaf)));
                }
            }
            if let (misc::KERNEL, Some(ip), true) = (mode, sample.ip, self.places.is_empty()) {
                self.places.push(kernel_place(ip, true));
            }
            let Self { walker, processes, files, places, .. } = self;
            walker.walk(sample, user, processes, files, by, places);
            return self.stacks.stack(&self.places, &mut self.budget);
        }
        self.words.clear();
        self.words.extend([self.processes.generation(sample.pid), mode.into()]);
        let before = self.words.len();
        self.words.extend(chain);
        if self.words[before..].iter().all(|word| *word >= FIRST_CONTEXT) {
            self.words.truncate(before);
            self.words.extend(sample.ip);
        }
        if let Some(stack) = self.stacks.remembered(&self.words) {
            return Ok(stack);
        }
        self.places.clear();
        let (mut context, mut is_leaf) = (mode, true);
        for word in &self.words[before..] {
            if enter_context(*word, &mut context, &mut is_leaf) {
                continue;
            }
            let is_exact = std::mem::take(&mut is_leaf);
            self.places.push(match context {
                misc::KERNEL => kernel_place(*word, is_exact),
                misc::USER => user_place(&self.processes, &self.files, sample.pid, *word, is_exact),
                _ => Place { within: Within::Unknown, address: *word },
            });
        }
        let stack = self.stacks.stack(&self.places, &mut self.budget)?;
        self.stacks.remember(&self.words, stack);
        Ok(stack)
    }
}

/// Whether a word of a chain is a mark. The address behind it is that of an instruction.
fn enter_context(word: u64, context: &mut u16, is_leaf: &mut bool) -> bool {
    if word < FIRST_CONTEXT {
        return false;
    }
    *context = match word {
        CONTEXT_KERNEL => misc::KERNEL,
        CONTEXT_USER => misc::USER,
        _ => 0,
    };
    *is_leaf = true;
    true
}
