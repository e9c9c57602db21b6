//! Stacks of single events, as the stream of `events trace` has them: walked from registers and a copy of the stack, and named, at once.
//!
//! What is read of processes and files is kept, within limits, and read again after an exec or when an address is in no known mapping. Of a
//! process that has ended before its first event is looked at, the innermost address is known only.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use events::stack_reader::{CodePlace, ProcessCode, StackSample, Walk, WalkEnd};
use process::{Content, FileKey, MappedFile};
use profile::Svma;
use symbols::{ObjectFile, ObjectSource, SourceLine, Symbolizer};

/// Processes whose code is kept at most, files that are kept open, and places that are kept with their names.
const MAX_PROCESSES: usize = 256;
const MAX_FILES: usize = 512;
const MAX_PLACES: usize = 1 << 16;
/// The mappings of a process are not read again before this time is over.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Stacks of events, and what they need of processes and files.
pub struct EventStacks {
    processes: HashMap<u32, Code>,
    names: Names,
}

/// The code of a process, if it could be read.
struct Code {
    code: Option<ProcessCode>,
    read: Instant,
}

struct Names {
    symbolizer: Symbolizer,
    files: HashMap<FileKey, Option<OpenFile>>,
    places: HashMap<Place, Rc<[SourceLine]>>,
}

/// A file that is kept open as long as its path is used.
struct OpenFile {
    object: ObjectFile,
    _content: Content,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Kernel(u64),
    File(FileKey, Svma),
}

/// The stack of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventStack {
    /// Innermost first: those of the kernel, then those of the program; of inlined calls the inner ones first.
    pub frames: Vec<EventFrame>,
    /// Why it does not go on to the outermost function; none if it does.
    pub cut: Option<&'static str>,
}

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventFrame {
    /// The address.
    pub address: u64,
    /// The function, if it is known.
    pub function: Option<String>,
    /// The file of the program or library, `[kernel]`, or none.
    pub module: Option<String>,
    /// Source file and line, if they are known.
    pub source: Option<(String, u32)>,
}

impl std::fmt::Debug for EventStacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStacks").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

impl Default for EventStacks {
    fn default() -> Self {
        let symbolizer = Symbolizer::new(symbols::Options::default());
        let names = Names { symbolizer, files: HashMap::new(), places: HashMap::new() };
        Self { processes: HashMap::new(), names }
    }
}

impl EventStacks {
    /// Reads the code of a process before its first event: it may end soon after that.
    pub fn expect(&mut self, pid: u32) {
        if self.processes.len() < MAX_PROCESSES {
            self.processes.entry(pid).or_insert_with(|| Code::read(pid));
        }
    }

    /// The stack of an event.
    pub fn of(&mut self, sample: &StackSample) -> EventStack {
        self.without(0, sample)
    }

    /// The stack of an event at an instruction that returns: that of the caller.
    pub fn of_return(&mut self, sample: &StackSample) -> EventStack {
        self.without(1, sample)
    }

    /// The stack without some of the innermost frames of the program.
    fn without(&mut self, left_out: usize, sample: &StackSample) -> EventStack {
        let mut stack = EventStack::default();
        for address in sample.kernel_addresses() {
            self.names.add_kernel(address, &mut stack.frames);
        }
        if sample.abi == 0 {
            // A thread of the kernel, which has no other frames.
            return stack;
        }
        let walk = self.walk(sample);
        stack.cut = why_cut(walk.end);
        let code = self.processes.get(&sample.pid).and_then(|known| known.code.as_ref());
        for (number, address) in walk.addresses.iter().enumerate().skip(left_out) {
            // A return address belongs to the call before it.
            let called = address.saturating_sub(u64::from(number > 0));
            match code.and_then(|code| code.place(called)) {
                Some(place) => self.names.add(*address, &place, &mut stack.frames),
                None => stack.frames.push(EventFrame { address: *address, ..EventFrame::default() }),
            }
        }
        stack
    }

    /// The program of a process has changed, or the process has ended.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    fn walk(&mut self, sample: &StackSample) -> Walk {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&sample.pid) {
            self.processes.clear();
        }
        let known = self.processes.entry(sample.pid).or_insert_with(|| Code::read(sample.pid));
        let walk = known.walk(sample);
        if walk.end != WalkEnd::NoMapping || known.read.elapsed() < READ_AGAIN_AFTER {
            return walk;
        }
        // It may have mapped more since.
        let now = Code::read(sample.pid);
        if now.code.is_some() {
            *known = now;
        } else {
            known.read = Instant::now();
        }
        known.walk(sample)
    }
}

impl Code {
    fn read(pid: u32) -> Self {
        Self { code: ProcessCode::of(pid).ok(), read: Instant::now() }
    }

    fn walk(&self, sample: &StackSample) -> Walk {
        match &self.code {
            Some(code) => Walk::by_unwind_rules(sample, code),
            None => Walk { addresses: vec![sample.ip], end: WalkEnd::NoMapping },
        }
    }
}

impl Names {
    fn add_kernel(&mut self, address: u64, frames: &mut Vec<EventFrame>) {
        let place = Place::Kernel(address);
        let lines = match self.places.get(&place) {
            Some(known) => Rc::clone(known),
            None => {
                let found = self.symbolizer.kernel(&[address]).pop().unwrap_or_default();
                self.keep(place, found)
            }
        };
        add_lines(address, &lines, "[kernel]", frames);
    }

    fn add(&mut self, address: u64, at: &CodePlace<'_>, frames: &mut Vec<EventFrame>) {
        let place = Place::File(at.file.key(), at.svma);
        let lines = match self.places.get(&place) {
            Some(known) => Rc::clone(known),
            None => {
                let found = self.look_up(at.file, at.svma);
                self.keep(place, found)
            }
        };
        add_lines(address, &lines, at.file.path(), frames);
    }

    fn look_up(&mut self, file: &MappedFile, svma: Svma) -> Vec<SourceLine> {
        if self.files.len() >= MAX_FILES {
            self.files.clear();
        }
        let opened = self.files.entry(file.key()).or_insert_with(|| open(file));
        let Some(OpenFile { object, .. }) = opened else { return Vec::new() };
        self.symbolizer.object(object, &[svma]).pop().unwrap_or_default()
    }

    fn keep(&mut self, place: Place, found: Vec<SourceLine>) -> Rc<[SourceLine]> {
        if self.places.len() >= MAX_PLACES {
            self.places.clear();
        }
        let lines: Rc<[SourceLine]> = found.into();
        self.places.insert(place, Rc::clone(&lines));
        lines
    }
}

/// Opens a file, so that its names can be read.
fn open(file: &MappedFile) -> Option<OpenFile> {
    let object = |source| ObjectFile {
        source,
        display_path: file.path().to_owned(),
        root: None,
        build_id: file.build_id().cloned(),
    };
    let content = file.open_content().ok()?;
    let source = match &content {
        Content::File(opened) => ObjectSource::Path(opened.path()),
        Content::Memory(bytes) => ObjectSource::Bytes(bytes.clone()),
    };
    Some(OpenFile { object: object(source), _content: content })
}

/// One frame for each function at an address, or one without a name.
fn add_lines(address: u64, lines: &[SourceLine], module: &str, frames: &mut Vec<EventFrame>) {
    let module = Some(module.to_owned());
    if lines.is_empty() {
        frames.push(EventFrame { address, module, ..EventFrame::default() });
        return;
    }
    frames.extend(lines.iter().map(|line| EventFrame {
        address,
        function: Some(line.name.to_string()),
        module: module.clone(),
        source: (line.line > 0).then(|| (line.file.to_string(), line.line)),
    }));
}

fn why_cut(end: WalkEnd) -> Option<&'static str> {
    Some(match end {
        WalkEnd::Root => return None,
        WalkEnd::NoRegisters => "no registers of a 64-bit program",
        WalkEnd::EndOfCopy => "the copy of the stack ends here",
        WalkEnd::Broken => "the stack leads nowhere",
        WalkEnd::NoMapping => "no file is mapped here, or the process has ended",
        WalkEnd::Limit => "too many frames",
        _ => "no rule for this code",
    })
}
