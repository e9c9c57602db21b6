//! The stacks seen so far: their frames as places in code, and their labels, each kept once. Their sums are in [`Book`].

use std::collections::HashMap;
use std::sync::Arc;

use kernel::{StackMessage, State, Sums, WalkEnd};
use process::{FileKey, FileKind, MappedFile, RegionKind};
use profile::{Avma, FileOffset, Label, Svma};

use super::interned::Interned;
use super::names::JitProgram;
use super::roots::{Root, Roots};
use super::sums::{Book, Key, StackId};
use crate::processes::{ExecInstance, ProcessSnapshot};

/// A file with symbols, at its first sight.
pub(super) struct Module {
    pub(super) file: Arc<MappedFile>,
    /// The root of a process that maps it, if that is not our own.
    pub(super) root: Option<Root>,
}

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// In a file: module, link-time address, position in the file, whether it is an instruction (not a return
    /// address).
    Module { module: u32, svma: Svma, offset: FileOffset, exact: bool },
    /// In code made at run time, by a program of [`Stacks::programs`].
    Jit { program: u32, address: Avma, exact: bool },
    /// In the kernel.
    Kernel { address: u64, exact: bool },
    /// In no mapping.
    Unknown { address: Avma },
}

/// Number of a place, see [`Stacks::places`].
pub(super) type PlaceId = u32;

/// Whose a stack is: of a waker no more than what is shown of it.
#[derive(PartialEq, Eq, Hash)]
struct Owner {
    pid: Option<u32>,
    /// The other labels of the process.
    labels: u32,
    /// Thread number and name, if threads are kept apart. Of a waker the number tells only whether there is one.
    thread: Option<(u32, u32)>,
}

/// The frames of a stack, which many may share.
#[derive(PartialEq, Eq, Hash)]
struct Frames {
    /// Leaf first.
    places: Box<[PlaceId]>,
    /// How many of them are in the kernel.
    kernel_places: usize,
    end: WalkEnd,
    unknown: Option<Unknown>,
}

/// A stack, by the numbers of what it consists of.
#[derive(PartialEq, Eq, Hash)]
struct Parts {
    owner: u32,
    frames: u32,
    state: State,
}

/// A stack.
#[derive(Clone, Copy)]
pub(super) struct Stack<'a> {
    /// None of a waker.
    pub(super) pid: Option<u32>,
    /// The other labels of the process, `comm` first.
    pub(super) labels: &'a [Label],
    /// Thread number and name, if threads are kept apart. Of a waker the number tells only whether there is one.
    pub(super) thread: Option<(u32, &'a str)>,
    pub(super) state: State,
    pub(super) end: WalkEnd,
    /// Leaf first.
    pub(super) places: &'a [PlaceId],
    /// How many of them are in the kernel.
    pub(super) kernel_places: usize,
    /// A frame that stands for the whole stack, which is not known.
    pub(super) unknown: Option<Unknown>,
}

/// A stack with sums, and who ended its intervals.
pub(super) struct Entry<'a> {
    pub(super) stack: Stack<'a>,
    pub(super) waker: Option<Stack<'a>>,
    pub(super) sums: Sums,
}

/// Why there is no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unknown {
    /// A thread that slept when its stack was to be read, and did not any more when it had been.
    Asleep,
    /// A thread that waits for its first moment on a CPU.
    NotRunYet,
    /// The process of a command that has not run it yet: what it does is ours, and in no profile.
    Gate,
}

impl Unknown {
    /// The frame that is shown for the whole stack.
    pub(super) fn frame(self) -> &'static str {
        match self {
            Self::Asleep => "[asleep since before the capture]",
            Self::NotRunYet => "[not run yet]",
            Self::Gate => "[gate]",
        }
    }
}

/// The process of a command before it runs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub(super) pid: u32,
    /// Its image until then.
    pub(super) image: u64,
}

/// Programs in containers for whose perf maps a descriptor is kept at most. Maps of the others are found while they run.
const MAX_FOLDERS: usize = 256;

/// All stacks of a capture.
#[derive(Default)]
pub(super) struct Stacks {
    stacks: Interned<Parts>,
    owners: Interned<Owner>,
    labels: Interned<Vec<Label>>,
    thread_names: Interned<String>,
    frames: Interned<Frames>,
    places: Interned<Place>,
    pub(super) modules: Vec<Module>,
    module_ids: HashMap<FileKey, u32>,
    roots: Roots,
    /// Those that make code at run time.
    pub(super) programs: Vec<Arc<JitProgram>>,
    /// By address.
    program_ids: HashMap<usize, u32>,
    /// Of these, those for which a descriptor is kept.
    folders_held: usize,
    per_thread: bool,
    gate: Option<Gate>,
    /// Their sums.
    pub(super) book: Book,
}

impl Stacks {
    pub(super) fn new(per_thread: bool, gate: Option<Gate>) -> Self {
        Self { per_thread, gate, ..Self::default() }
    }

    /// Every stack that something was summed under.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.all().filter(|entry| entry.stack.unknown != Some(Unknown::Gate))
    }

    /// What is in the sums, but was done by us: the process of a command, before it ran it.
    pub(super) fn of_gate(&self) -> impl Iterator<Item = Entry<'_>> {
        self.all().filter(|entry| entry.stack.unknown == Some(Unknown::Gate))
    }

    fn all(&self) -> impl Iterator<Item = Entry<'_>> {
        self.book.iter().map(|(stack, waker, sums)| Entry {
            stack: self.stack(stack),
            waker: waker.map(|waker| self.stack(waker)),
            sums,
        })
    }

    fn stack(&self, id: StackId) -> Stack<'_> {
        let Parts { owner, frames, state } = self.stacks.get(id);
        let (owner, frames) = (self.owners.get(*owner), self.frames.get(*frames));
        Stack {
            pid: owner.pid,
            labels: self.labels.get(owner.labels),
            thread: owner.thread.map(|(tid, name)| (tid, self.thread_names.get(name).as_str())),
            state: *state,
            end: frames.end,
            places: &frames.places,
            kernel_places: frames.kernel_places,
            unknown: frames.unknown,
        }
    }

    /// Places in code, by their numbers.
    pub(super) fn places(&self) -> &[Place] {
        self.places.items()
    }

    /// The number of a file, which is kept from now on.
    pub(super) fn module(&mut self, file: &Arc<MappedFile>, pid: u32) -> u32 {
        *self.module_ids.entry(file.key()).or_insert_with(|| {
            self.modules.push(Module { file: Arc::clone(file), root: self.roots.of(pid, file) });
            self.modules.len() as u32 - 1
        })
    }

    /// The number of a program that makes code at run time, which is kept from now on.
    fn program(&mut self, instance: &Arc<ExecInstance>) -> u32 {
        let Self { programs, program_ids, folders_held, .. } = self;
        *program_ids.entry(Arc::as_ptr(instance).addr()).or_insert_with(|| {
            let program = JitProgram::at_first_sight(instance, *folders_held < MAX_FOLDERS);
            *folders_held += usize::from(program.holds_folder());
            programs.push(Arc::new(program));
            programs.len() as u32 - 1
        })
    }

    /// Takes a stack in at its first sight, while its process most probably lives. `once`: its key is that of one
    /// interval alone.
    pub(super) fn enter(
        &mut self,
        message: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        once: bool,
    ) {
        let Some(stack) = self.resolve(message, snapshot, None) else { return };
        self.book.enter(message.hash, Key { stack, pid: message.pid, image: message.image, once });
    }

    /// Takes in a thread that slept before the capture began, and whose stack could not be had.
    pub(super) fn enter_asleep(&mut self, mut message: StackMessage, snapshot: Option<ProcessSnapshot<'_>>) {
        message.kernel.clear();
        message.user.clear();
        message.end = WalkEnd::Root;
        let Some(stack) = self.resolve(&message, snapshot, Some(Unknown::Asleep)) else { return };
        self.book.enter(message.hash, Key { stack, pid: message.pid, image: message.image, once: false });
    }

    /// Takes in a single sample that is in no sum of the kernel.
    pub(super) fn enter_single(&mut self, message: &StackMessage, snapshot: Option<ProcessSnapshot<'_>>) {
        let Some(stack) = self.resolve(message, snapshot, None) else {
            self.book.not_kept[message.state as usize] += 1;
            return;
        };
        let mut sums = Sums::default();
        (sums.count, sums.value) = (1, 1);
        self.book.add_to(stack, None, sums);
    }

    /// None: there are too many.
    fn resolve(
        &mut self,
        message: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        unknown: Option<Unknown>,
    ) -> Option<StackId> {
        let mut places = Vec::with_capacity(message.kernel.len() + message.user.len());
        for (depth, address) in message.kernel.iter().enumerate() {
            places.push(self.places.number(Place::Kernel { address: *address, exact: depth == 0 })?);
        }
        for frame in &message.user {
            let place = self.place(message.pid, Avma(frame.pc), frame.exact, snapshot);
            places.push(self.places.number(place)?);
        }
        let unknown = unknown.or((message.state == State::NotRunYet).then_some(Unknown::NotRunYet));
        let unknown = if self.is_gate(message) { Some(Unknown::Gate) } else { unknown };
        let frames =
            Frames { places: places.into(), kernel_places: message.kernel.len(), end: message.end, unknown };
        let owner = self.owner(message, snapshot)?;
        let parts = Parts {
            owner: self.owners.number(owner)?,
            frames: self.frames.number(frames)?,
            state: message.state,
        };
        self.stacks.number(parts)
    }

    fn is_gate(&self, message: &StackMessage) -> bool {
        let is_it = |gate: Gate| (gate.pid, gate.image) == (message.pid, message.image);
        self.gate.is_some_and(is_it) && !message.state.is_waker()
    }

    fn owner(&mut self, message: &StackMessage, snapshot: Option<ProcessSnapshot<'_>>) -> Option<Owner> {
        let waker = message.state.is_waker();
        let comm = snapshot.map_or(message.thread.as_str(), |snapshot| snapshot.comm);
        let added = snapshot.filter(|_| !waker).map_or(&[][..], |snapshot| snapshot.labels);
        let labels = std::iter::once(Label::str("comm", comm)).chain(added.iter().cloned()).collect();
        let tid = if waker { message.tid.min(1) } else { message.tid };
        let thread = if waker || self.per_thread {
            Some((tid, self.thread_names.number(message.thread.clone())?))
        } else {
            None
        };
        Some(Owner { pid: (!waker).then_some(message.pid), labels: self.labels.number(labels)?, thread })
    }

    fn place(
        &mut self,
        pid: u32,
        address: Avma,
        exact: bool,
        snapshot: Option<ProcessSnapshot<'_>>,
    ) -> Place {
        // The call instruction of a caller may be the last one of its region.
        let lookup = Avma(address.0 - u64::from(!exact && address.0 > 0));
        let found = snapshot.and_then(|snapshot| Some((snapshot.image.find(lookup)?, snapshot.instance)));
        let Some((region, instance)) = found else { return Place::Unknown { address } };
        match &region.kind {
            RegionKind::File(file) | RegionKind::Vdso(file) => {
                let offset = region.offset_of(lookup);
                let in_file = file.svma_of(offset).filter(|_| file.kind() != FileKind::NotElf);
                let svma = in_file.map_or(offset.0, |svma| svma.0).wrapping_add(u64::from(!exact));
                Place::Module { module: self.module(file, pid), svma: Svma(svma), offset, exact }
            }
            RegionKind::Anonymous | RegionKind::Trampolines(_) => {
                Place::Jit { program: self.program(instance), address, exact }
            }
            RegionKind::Vsyscall => Place::Unknown { address },
        }
    }
}
