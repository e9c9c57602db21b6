//! From sections to a recording.

use std::io::Read;

use profile::{Avma, BuildId};

use crate::accounting::Accounting;
use crate::count::TaskStackId;
use crate::event::{Event, EventId};
use crate::event_accounting::EventAccounting;
use crate::fetches::Fetches;
use crate::file::check::{self, Problem};
use crate::file::error::ReadError;
use crate::file::name_tables::NameReader;
use crate::file::section::{Kind, MAX_ITEMS};
use crate::file::section_reader::{Content, SectionReader};
use crate::model::{FrozenLedger, Recording, Span, SymbolizedRecording};
use crate::module::CodeMappingId;
use crate::names::NameOutcome;
use crate::origin::Origin;
use crate::settings::Settings;

/// Reads all sections; without those of names and ledgers if `with_names` is false.
pub(super) fn file(
    mut sections: SectionReader<impl Read>,
    with_names: bool,
) -> Result<SymbolizedRecording, ReadError> {
    let mut parts = Parts::default();
    while let Some(content) = sections.next(|kind| with_names || !kind.is_of_names())? {
        parts.add(&content)?;
    }
    if !parts.has_capture {
        let (offset, section) = (sections.offset(), Kind::Capture.name());
        return Err(ReadError::Malformed { offset, section, at: 0, reason: "it is missing".to_owned() });
    }
    Ok(SymbolizedRecording {
        recording: parts.recording,
        names: parts.names.finish(NameOutcome { fetches: parts.fetches, ..parts.outcome }),
        ledgers: parts.ledgers,
    })
}

/// What was read so far.
#[derive(Default)]
struct Parts {
    recording: Recording,
    has_capture: bool,
    has_kernel: bool,
    has_origin: bool,
    names: NameReader,
    outcome: NameOutcome,
    fetches: Option<Fetches>,
    ledgers: Vec<FrozenLedger>,
}

impl Parts {
    fn add(&mut self, content: &Content<'_>) -> Result<(), ReadError> {
        let all = &mut self.recording;
        let names = &mut self.names;
        match content.kind {
            Kind::Modules => content.items(|item| push(&mut all.modules, item)),
            Kind::Mappings => content.items(|item| {
                check::mapping(all, &item)?;
                push(&mut all.mappings, item)
            }),
            Kind::Capture => content.items(|item| self.capture(item)),
            Kind::Unsent => content.items(|item| self.unsent(item)),
            Kind::FurtherEvents => content.items(|item| self.further_event(item)),
            Kind::Kernel => content.items(|item| self.kernel(item)),
            Kind::Origin => content.items(|item| self.origin(item)),
            Kind::KernelModules => content.items(|item| push(&mut all.kernel.modules, item)),
            Kind::ExecInstances => content.items(|item| push(&mut all.exec_instances, item)),
            Kind::CodeObjects => content.items(|item| push(&mut all.code_objects, item)),
            Kind::Frames => content.items(|item| {
                check::frame(all, &item)?;
                push(&mut all.frames, item)
            }),
            Kind::Stacks => content.items(|item| {
                check::stack(all, &item)?;
                push(&mut all.stacks, item)
            }),
            Kind::LabelSets => content.items(|item| push(&mut all.label_sets, item)),
            Kind::Tasks => content.items(|item| {
                check::task(all, &item)?;
                push(&mut all.tasks, item)
            }),
            Kind::TaskStacks => content.items(|item| {
                check::task_stack(all, &item)?;
                push(&mut all.task_stacks, item)
            }),
            Kind::Events => content.items(|item| push(&mut all.events, item)),
            Kind::Counts => content.items(|item| {
                check::count(all, &item)?;
                push(&mut all.counts, item)
            }),
            Kind::Singles => content.items(|item| {
                check::single(all, &item)?;
                push(&mut all.singles.get_or_insert_default().samples, item)
            }),
            // A recording whose single samples were asked for has this section, even if it has no sample.
            Kind::SinglesLost => content.items(|lost: u64| {
                let singles = all.singles.get_or_insert_default();
                singles.lost = singles.lost.saturating_add(lost);
                Ok(())
            }),
            // A file may lack it.
            Kind::SingleWakers => content.items(|(number, waker): (u32, TaskStackId)| {
                check::single_waker(all, (number, waker))?;
                let samples = all.singles.as_mut().map_or(&mut [][..], |singles| &mut singles.samples);
                if let Some(single) = samples.get_mut(number as usize) {
                    single.waker = Some(waker);
                }
                Ok(())
            }),
            Kind::Texts => content.items(|text| names.text(text)),
            Kind::LineLists => content.items(|list| names.list(list)),
            Kind::NamedFrames => content.items(|frame| names.frame(frame, all.frames.len())),
            Kind::FunctionStarts => {
                content.items(|(frame, start)| names.start(frame, start, all.frames.len()))
            }
            Kind::NameOutcome => content.items(|outcome| {
                self.outcome = outcome;
                Ok(())
            }),
            Kind::Fetches => content.items(|fetches| {
                self.fetches = Some(fetches);
                Ok(())
            }),
            Kind::Ledgers => content.items(|ledger| push(&mut self.ledgers, ledger)),
            Kind::End => Ok(()),
        }
    }

    fn capture(&mut self, item: Capture) -> Result<(), Problem> {
        if std::mem::replace(&mut self.has_capture, true) {
            return Err(Problem::Invalid("it comes twice"));
        }
        let all = &mut self.recording;
        (all.settings, all.span, all.kernel.build_id, all.main, all.accounting) = item;
        check::main(all, all.main)
    }

    /// Behind the capture. A file may lack it.
    fn unsent(&mut self, (sampler, scheduler): ([u64; 3], [u64; 3])) -> Result<(), Problem> {
        if !self.has_capture {
            return Err(Problem::Invalid("it comes before the capture"));
        }
        let accounting = &mut self.recording.accounting;
        accounting.sampler.set_unsent(sampler);
        accounting.scheduler.set_unsent(scheduler);
        Ok(())
    }

    /// Behind the capture, as often as there are such events.
    fn further_event(&mut self, (event, (mut of_event, unsent)): FurtherEvent) -> Result<(), Problem> {
        if !self.has_capture {
            return Err(Problem::Invalid("it comes before the capture"));
        }
        let all = &mut self.recording;
        if all.accounting.further.len() >= EventId::MAX_FURTHER {
            return Err(Problem::TooMany);
        }
        of_event.sampler.set_unsent(unsent);
        all.settings.further_events.push(event);
        all.accounting.further.push(of_event);
        Ok(())
    }

    fn kernel(&mut self, item: Kernel) -> Result<(), Problem> {
        if std::mem::replace(&mut self.has_kernel, true) {
            return Err(Problem::Invalid("it comes twice"));
        }
        let kernel = &mut self.recording.kernel;
        (kernel.release, kernel.boot_id, kernel.text, kernel.stext) = item;
        Ok(())
    }

    /// A file may lack it.
    fn origin(&mut self, item: Origin) -> Result<(), Problem> {
        if std::mem::replace(&mut self.has_origin, true) {
            return Err(Problem::Invalid("it comes twice"));
        }
        self.recording.origin = item;
        Ok(())
    }
}

/// What a recording has besides its tables.
type Capture = (Settings, Span, Option<BuildId>, Option<CodeMappingId>, Accounting);

/// An event that was sampled beside the first one, with what was seen of it, and the part of that which [`Counters`](crate::Counters) leave out.
type FurtherEvent = (Event, (EventAccounting, [u64; 3]));

/// Release, start, `_text` and `_stext` of the kernel. A file may lack them.
type Kernel = (String, Option<String>, Option<Avma>, Option<Avma>);

fn push<T>(table: &mut Vec<T>, item: T) -> Result<(), Problem> {
    if table.len() >= MAX_ITEMS {
        return Err(Problem::TooMany);
    }
    table.push(item);
    Ok(())
}
