//! Whether pairs of frames, a caller and its callee, can be true: by the machine code of their files alone.
//!
//! A return address follows a call. A direct call leads to one function, and from there jumps may lead to others (tail calls, stubs of imported
//! functions). A pair is wrong if no call stands before the return address, or if its call is direct and the callee is not reached.
//! Guaranteed: no statement of a profiler is used but the addresses. Only code of x86-64 is judged. Not here: whether a stack is whole
//! ([`crate::verdict`]).

mod calls;
mod code;
mod reach;

use std::collections::HashMap;
use std::fs;

use crate::frame::{Capture, Frame};
use crate::roots::Roots;

use calls::{Way, call_before};
use code::Code;
use reach::Files;

/// Wrong pairs that are shown.
const SHOWN: usize = 50;

/// The judgement of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// The call before the return address leads to the callee.
    Right,
    /// No call stands before the return address.
    NoCall,
    /// The call leads elsewhere.
    OtherTarget,
    /// The call is by a register or by memory.
    IndirectCall,
    /// Jumps by a register or by memory may lead from the called function to the callee.
    IndirectJump,
    /// The caller is the entry of a thread or a coroutine, whose return address no call has made.
    Entry,
    /// One of both is a signal trampoline: the interrupted function called nothing.
    Signal,
    /// One of both is code that was made at run time, interpreted, or in no file.
    NoFile,
    /// The extent of a function on the way is not known.
    NoExtent,
}

impl Fate {
    /// Whether the pair was judged.
    #[must_use]
    pub fn is_judged(self) -> bool {
        matches!(self, Self::Right) || self.is_wrong()
    }

    /// Whether the pair cannot be true.
    #[must_use]
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::NoCall | Self::OtherTarget)
    }
}

/// Judges pairs of frames of the files that it was given.
#[derive(Debug, Default)]
pub struct Judge {
    by_path: HashMap<String, usize>,
    files: Files,
    roots: Roots,
    known: HashMap<[(usize, u64); 2], Fate>,
}

impl Judge {
    /// A judge who knows these files, by the paths that frames have. Files that are not ELF files of x86-64 are left out.
    #[must_use]
    pub fn of(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self::of_wanted(files, |_, _| true)
    }

    /// As [`Self::of`], but only files whose path and build-id are `wanted`.
    fn of_wanted(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        wanted: impl Fn(&str, Option<&[u8]>) -> bool,
    ) -> Self {
        let (mut by_path, mut codes) = (HashMap::new(), Vec::new());
        for (path, bytes) in files {
            if let Some(code) = Code::read(bytes)
                && wanted(&path, code.build_id.as_deref())
            {
                by_path.insert(path, codes.len());
                codes.push(code);
            }
        }
        Self { by_path, files: Files::new(codes), ..Self::default() }
    }

    /// A judge who knows all files of a capture that can be read, and that are those which the profiler saw: another file may be at the path of
    /// one in a container.
    #[must_use]
    pub fn reading(capture: &Capture) -> Self {
        let frames = capture.stacks.iter().flat_map(|stack| &stack.frames);
        let mut paths: Vec<&str> = frames.map(|frame| frame.module.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        let read = |path: &str| Some((path.to_owned(), fs::read(path).ok()?));
        let files = paths.into_iter().filter(|path| path.starts_with('/')).filter_map(read);
        Self::of_wanted(files, |path, build_id| {
            match (capture.build_ids.get(path).map(Vec::as_slice), build_id) {
                (Some([seen]), Some(read)) => seen == read,
                (seen, read) => seen.is_none() && read.is_none(),
            }
        })
    }

    /// Judges a pair. The address of a caller is the last byte of its call, as profiles have it. `outermost`: the caller has no caller.
    pub fn pair(&mut self, caller: &Frame, callee: &Frame, outermost: bool) -> Fate {
        let place = |frame: &Frame| {
            let file = self.by_path.get(&frame.module).filter(|_| frame.svma != 0)?;
            Some((*file, frame.svma))
        };
        let (from, to) = (place(caller), place(callee));
        let trampoline = |of: Option<(usize, u64)>| {
            let (file, address) = of?;
            Some(self.files.codes.get(file)?.is_trampoline(address))
        };
        if trampoline(from) == Some(true) || trampoline(to) == Some(true) {
            return Fate::Signal;
        }
        let Some(from) = from else { return Fate::NoFile };
        let Some(to) = to else { return self.without_callee(from, caller, outermost) };
        if let Some(fate) = self.known.get(&[from, to]) {
            return *fate;
        }
        let fate = if resumes(callee) { Fate::Entry } else { self.judge(from, to, caller, outermost) };
        self.known.insert([from, to], fate);
        fate
    }

    /// The call of a frame; a fate if it has none.
    fn call(&self, (file, address): (usize, u64), caller: &Frame, outermost: bool) -> Result<Way, Fate> {
        let code = self.files.codes.get(file).ok_or(Fate::NoFile)?;
        call_before(code, address.saturating_add(1)).ok_or_else(|| {
            let is_entry = outermost && self.roots.is_root(caller);
            if is_entry { Fate::Entry } else { Fate::NoCall }
        })
    }

    fn without_callee(&self, from: (usize, u64), caller: &Frame, outermost: bool) -> Fate {
        self.call(from, caller, outermost).map_or_else(|fate| fate, |_| Fate::NoFile)
    }

    fn judge(&mut self, from: (usize, u64), to: (usize, u64), caller: &Frame, outermost: bool) -> Fate {
        let way = match self.call(from, caller, outermost) {
            Ok(way) => way,
            Err(fate) => return fate,
        };
        let is_local = |slot| self.files.codes.get(from.0).is_some_and(|code| code.slots.contains_key(&slot));
        if way == Way::Anywhere || matches!(way, Way::BySlot(slot) if !is_local(slot)) {
            return Fate::IndirectCall;
        }
        let reach = self.files.reach(from.0, way);
        let Some(code) = self.files.codes.get(to.0) else { return Fate::NoFile };
        if reach.contains(to.0, code, to.1) {
            Fate::Right
        } else if !code.is_stub(to.1) && code.extent(to.1).is_none() || reach.leads_to_unknown {
            Fate::NoExtent
        } else if reach.leads_anywhere || reach.binds && self.is_loader(to.0) {
            Fate::IndirectJump
        } else if outermost && Roots::is_scheduler(caller) {
            Fate::Entry
        } else {
            Fate::OtherTarget
        }
    }

    /// Whether a file is the loader, which finds imported functions at their first call.
    fn is_loader(&self, file: usize) -> bool {
        let name = |path: &String| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-"));
        self.by_path.iter().any(|(path, number)| *number == file && name(path))
    }
}

/// True for the function by which Go's scheduler resumes a goroutine. The goroutine's frames did not call it.
fn resumes(callee: &Frame) -> bool {
    matches!(callee.name.as_deref(), Some("gogo" | "runtime.gogo"))
}

/// The judgements of a capture's pairs.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Samples judged.
    pub samples: u64,
    /// Samples with a pair that is wrong.
    pub wrong_samples: u64,
    /// Pairs by their fate, weighted by samples.
    pub by_fate: HashMap<Fate, u64>,
    /// The wrong pairs, most frequent first, with the addresses of both frames.
    pub wrong: Vec<(u64, Fate, String)>,
}

impl Pairs {
    /// Judges all pairs of a capture.
    #[must_use]
    pub fn of(capture: &Capture) -> Self {
        let mut judge = Judge::reading(capture);
        let mut pairs = Self::default();
        let mut wrong: HashMap<(Fate, String), u64> = HashMap::new();
        for stack in &capture.stacks {
            pairs.samples += stack.count;
            let mut is_wrong = false;
            for (position, pair) in stack.frames.windows(2).enumerate() {
                let [caller, callee] = pair else { continue };
                let outermost = position == 0 && stack.truncated.is_none();
                let fate = judge.pair(caller, callee, outermost);
                *pairs.by_fate.entry(fate).or_default() += stack.count;
                if fate.is_wrong() {
                    is_wrong = true;
                    let place = |frame: &Frame| format!("{} ({:#x})", frame.display(), frame.svma);
                    let text = format!("{} > {}", place(caller), place(callee));
                    *wrong.entry((fate, text)).or_default() += stack.count;
                }
            }
            pairs.wrong_samples += if is_wrong { stack.count } else { 0 };
        }
        pairs.wrong = wrong.into_iter().map(|((fate, text), count)| (count, fate, text)).collect();
        pairs.wrong.sort_by(|a, b| b.cmp(a));
        pairs.wrong.truncate(SHOWN);
        pairs
    }

    /// Pairs with one of these fates in per cent of all.
    #[must_use]
    pub fn percent(&self, wanted: impl Fn(Fate) -> bool) -> f64 {
        let all: u64 = self.by_fate.values().sum();
        let part: u64 = self.by_fate.iter().filter(|(fate, _)| wanted(**fate)).map(|(_, count)| count).sum();
        if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
    }

    /// Adds what was found in another capture.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.wrong_samples += other.wrong_samples;
        for (fate, count) in &other.by_fate {
            *self.by_fate.entry(*fate).or_default() += count;
        }
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests;
