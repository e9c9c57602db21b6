//! The names of the functions of a stack.

use crate::stack_lines::StackLines;
use recording::{Frame, FrameId, Names, Recording, Stack};

/// The functions of user frames of a stack, innermost first, inlined ones too. A function without a name is told by its file.
pub(super) fn functions(recording: &Recording, names: &Names, stack: &Stack) -> Vec<String> {
    let (_, user) = stack.split();
    functions_of(recording, names, user)
}

/// The functions of kernel frames of a stack, innermost first.
pub(super) fn kernel_functions(recording: &Recording, names: &Names, stack: &Stack) -> Vec<String> {
    let (kernel, _) = stack.split();
    let own = StackLines::new(recording, names).own_frames(kernel);
    functions_of(recording, names, kernel.get(own..).unwrap_or_default())
}

fn functions_of(recording: &Recording, names: &Names, frames: &[FrameId]) -> Vec<String> {
    frames.iter().flat_map(|frame| functions_at(recording, names, *frame)).collect()
}

fn functions_at(recording: &Recording, names: &Names, frame: FrameId) -> Vec<String> {
    let lines = names.of(frame);
    if lines.len() > 0 {
        return lines.map(|line| without_parameters(line.name).to_owned()).collect();
    }
    vec![match recording.frame(frame) {
        Some(Frame::Native { mapping, svma, .. }) => match recording.mapping(*mapping) {
            Some((_, module)) => {
                let start = names.start(frame).unwrap_or(*svma);
                format!("{}+{:#x}", file_name(&module.path), start.0)
            }
            None => UNKNOWN.to_owned(),
        },
        Some(Frame::Jit { .. }) => "[jit]".to_owned(),
        Some(Frame::Interpreted { .. }) => "[interpreted]".to_owned(),
        _ => UNKNOWN.to_owned(),
    }]
}

const UNKNOWN: &str = "[unknown]";

/// The last component of a path.
pub(super) fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// The first functions of a stack as one line.
pub(super) fn chain(functions: &[String], most: usize) -> String {
    let shown: Vec<_> = functions.iter().take(most).map(String::as_str).collect();
    if shown.is_empty() { "[no stack]".to_owned() } else { shown.join(" < ") }
}

/// The name of a function of C++ without its parameters.
fn without_parameters(name: &str) -> &str {
    let whole = name.strip_suffix(" const").unwrap_or(name);
    if !whole.ends_with(')') {
        return name;
    }
    let mut depth = 0u32;
    for (at, c) in whole.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let before = &whole[..at];
            return if before.is_empty() || before.ends_with("operator") { name } else { before };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_left_out() {
        for (name, short) in [
            ("ObjectMonitor::EnterI(JavaThread*)", "ObjectMonitor::EnterI"),
            ("a::b(void (*)(int), c) const", "a::b"),
            ("(anonymous namespace)::f()", "(anonymous namespace)::f"),
            ("std::function<int (int)>::operator()(int) const", "std::function<int (int)>::operator()"),
            ("x::operator()", "x::operator()"),
            ("main", "main"),
            ("unbalanced)", "unbalanced)"),
            ("()", "()"),
        ] {
            assert_eq!(without_parameters(name), short);
        }
    }
}
