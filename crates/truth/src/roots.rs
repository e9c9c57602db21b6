//! Whether the outermost frame of a stack is where a thread of execution begins, decided independently of the profiler.
//!
//! Two criteria: the name of the function, and the unwind information of the file, which marks the outermost frame by
//! an undefined return address (`_start`, `clone3`; also in stripped files).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use gimli::{BaseAddresses, EhFrame, NativeEndian, RegisterRule, UnwindContext, UnwindSection};
use object::{Object, ObjectSection};

use crate::frame::{Frame, Stack};

const THREAD_STARTS: &[&str] = &["_start", "clone3", "__clone3", "clone", "__clone", "_dlstart"];

/// The first function of a coroutine in `truth/programs/libcoro.c`: nothing calls it, and its return address is that of a function that never ran.
const COROUTINE_START: &str = "first_of_coroutine";

/// Where Go's goroutines and system stacks begin.
const GO_STARTS: &[&str] = &[
    "runtime.goexit",
    "runtime.mstart",
    // What mstart calls; the scheduler returns to it, not to mstart.
    "runtime.mstart0",
    // Where a new thread begins.
    "runtime.clone",
    "runtime.rt0_go",
    "_rt0_amd64_linux",
    "_rt0_amd64",
];

/// Decides whether frames are roots; remembers the answers for frames of files.
#[derive(Debug, Default)]
pub struct Roots {
    by_unwind_information: RefCell<HashMap<(String, u64), bool>>,
}

impl Roots {
    /// Whether the stack reaches the start of its thread.
    pub fn is_rooted(&self, stack: &Stack) -> bool {
        stack.truncated.is_none() && stack.frames.first().is_some_and(|frame| self.is_root(frame))
    }

    /// Whether a thread or a coroutine begins at this frame.
    pub(crate) fn is_root(&self, frame: &Frame) -> bool {
        let named = |n: &str| THREAD_STARTS.contains(&n) || GO_STARTS.contains(&n) || n == COROUTINE_START;
        frame.name.as_deref().is_some_and(named)
            || (frame.svma != 0 && frame.module.starts_with('/') && self.ends_here(&frame.module, frame.svma))
    }

    /// Whether Go's scheduler begins at this frame. Its stack is used again from there on, without another call.
    pub(crate) fn is_scheduler(frame: &Frame) -> bool {
        matches!(frame.name.as_deref(), Some("runtime.mstart0" | "runtime.mstart"))
    }

    fn ends_here(&self, path: &str, svma: u64) -> bool {
        let key = (path.to_owned(), svma);
        if let Some(known) = self.by_unwind_information.borrow().get(&key) {
            return *known;
        }
        let answer = fs::read(path).is_ok_and(|file| {
            let starts = |svma| return_address_undefined(&file, svma) || starts_context(&file, svma);
            starts(svma.saturating_sub(1)) || starts(svma) || starts_context(&file, svma + 1)
        });
        self.by_unwind_information.borrow_mut().insert(key, answer);
        answer
    }
}

fn return_address_undefined(file: &[u8], svma: u64) -> bool {
    let Ok(elf) = object::File::parse(file) else { return false };
    let Some(section) = elf.section_by_name(".eh_frame") else { return false };
    let Ok(data) = section.uncompressed_data() else { return false };
    let eh_frame = EhFrame::new(&data, NativeEndian);
    let text = elf.section_by_name(".text").map_or(0, |s| s.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let mut context = UnwindContext::new();
    let Ok(fde) = eh_frame.fde_for_address(&bases, svma, EhFrame::cie_from_offset) else { return false };
    let return_address = fde.cie().return_address_register();
    fde.unwind_info_for_address(&eh_frame, &bases, &mut context, svma)
        .is_ok_and(|row| matches!(row.register(return_address), Some(RegisterRule::Undefined)))
}

/// `mov %rbx, %rsp`: the function to which the first function of `makecontext` returns, of the C library, loads the stack
/// pointer at once. No function that is called can do so.
const LOADS_STACK_POINTER: [u8; 3] = [0x48, 0x89, 0xdc];

fn starts_context(file: &[u8], svma: u64) -> bool {
    use object::ObjectSegment;
    let Ok(elf) = object::File::parse(file) else { return false };
    elf.segments()
        .any(|segment| matches!(segment.data_range(svma, 3), Ok(Some(code)) if code == LOADS_STACK_POINTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_point_of_a_program_is_a_root() {
        // The entry point of any program of the C library is the outermost frame, by name and by unwind information.
        let path = "/usr/bin/env";
        let file = fs::read(path).unwrap();
        let entry = object::File::parse(&*file).unwrap().entry();
        let frame = |svma| Frame { name: None, module: path.into(), svma };
        let roots = Roots::default();
        assert!(roots.is_root(&frame(entry + 8)));
        assert!(!roots.is_root(&frame(1)));
        assert!(roots.is_root(&Frame { name: Some("runtime.goexit".into()), ..Frame::default() }));
        assert!(!roots.is_root(&Frame { name: Some("main".into()), ..Frame::default() }));
    }

    #[test]
    fn a_stack_marked_as_truncated_is_not_rooted() {
        let start = Frame { name: Some("_start".into()), ..Frame::default() };
        let mut stack = Stack { frames: vec![start], count: 1, ..Stack::default() };
        let roots = Roots::default();
        assert!(roots.is_rooted(&stack));
        stack.truncated = Some("[truncated: no unwind info]".into());
        assert!(!roots.is_rooted(&stack));
    }
}
