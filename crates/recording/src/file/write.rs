//! From a recording to sections.

use std::io::{self, Write};

use crate::file::check;
use crate::file::name_tables::NumberedNames;
use crate::file::section::Kind;
use crate::file::section_writer::SectionWriter;
use crate::kernel_image::KernelImage;
use crate::model::{Recording, SymbolizedRecording};

/// Writes what every recording has.
pub(super) fn recording(to: &mut SectionWriter<impl Write>, recording: &Recording) -> io::Result<()> {
    let all = recording;
    to.table(Kind::Modules, &all.modules, |_| Ok(()))?;
    to.table(Kind::Mappings, &all.mappings, |item| check::mapping(all, item))?;
    let KernelImage { build_id, release, boot_id, text, stext, modules } = &all.kernel;
    let capture = (&all.settings, &all.span, build_id, &all.main, &all.accounting);
    to.table(Kind::Capture, [capture], |_| check::main(all, all.main))?;
    let unsent = (all.accounting.sampler.unsent(), all.accounting.scheduler.unsent());
    to.table(Kind::Unsent, [unsent], |_| Ok(()))?;
    let accounts = all.accounting.further.iter().map(|of_event| (of_event, of_event.sampler.unsent()));
    let further: Vec<_> = all.settings.further_events.iter().zip(accounts).collect();
    to.table(Kind::FurtherEvents, further, |_| Ok(()))?;
    to.table(Kind::Kernel, [(release, boot_id, text, stext)], |_| Ok(()))?;
    to.table(Kind::KernelModules, modules, |_| Ok(()))?;
    to.table(Kind::Origin, [&all.origin], |_| Ok(()))?;
    to.table(Kind::ExecInstances, &all.exec_instances, |_| Ok(()))?;
    to.table(Kind::CodeObjects, &all.code_objects, |_| Ok(()))?;
    to.table(Kind::Frames, &all.frames, |item| check::frame(all, item))?;
    to.table(Kind::Stacks, &all.stacks, |item| check::stack(all, item))?;
    to.table(Kind::LabelSets, &all.label_sets, |_| Ok(()))?;
    to.table(Kind::Tasks, &all.tasks, |item| check::task(all, item))?;
    to.table(Kind::TaskStacks, &all.task_stacks, |item| check::task_stack(all, item))?;
    to.table(Kind::Events, &all.events, |_| Ok(()))?;
    to.table(Kind::Counts, &all.counts, |item| check::count(all, item))?;
    let Some(singles) = &all.singles else { return Ok(()) };
    to.table(Kind::Singles, &singles.samples, |item| check::single(all, item))?;
    to.table(Kind::SinglesLost, [singles.lost], |_| Ok(()))?;
    let wakers = (0_u32..).zip(&singles.samples).filter_map(|(number, of)| Some((number, of.waker?)));
    to.table(Kind::SingleWakers, wakers, |waker| check::single_waker(all, *waker))
}

/// Writes what a recording with names has besides.
pub(super) fn names(to: &mut SectionWriter<impl Write>, symbolized: &SymbolizedRecording) -> io::Result<()> {
    let numbered = NumberedNames::of(&symbolized.names);
    let frames = symbolized.recording.frames.len();
    let no_frame = numbered.last_frame().and_then(|frame| check::id("frame", frame.0, frames).err());
    if let Some(problem) = no_frame {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("cannot write names: {problem}")));
    }
    to.table(Kind::Texts, numbered.texts(), |_| Ok(()))?;
    to.table(Kind::LineLists, numbered.lists(), |_| Ok(()))?;
    to.table(Kind::NamedFrames, numbered.frames(), |_| Ok(()))?;
    to.table(Kind::FunctionStarts, numbered.starts(), |(frame, _)| check::id("frame", frame.0, frames))?;
    to.table(Kind::NameOutcome, [&symbolized.names.outcome], |_| Ok(()))?;
    to.table(Kind::Fetches, symbolized.names.outcome.fetches, |_| Ok(()))?;
    to.table(Kind::Ledgers, &symbolized.ledgers, |_| Ok(()))
}
